//! The kernel allocates nothing for a message, once it has seen some: shown by an allocator that counts.
//!
//! The kernel's server runs in this process, with a worker as in its own; the test is its monitor, the
//! switch at the end of its socket, and the zone at the end of its rings. What is counted is what any
//! thread allocates that is not the test's.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(unsafe_code, reason = "an allocator that counts can only be installed with `unsafe`")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kernel::control::{Answer, App, AppId, Host, Plain, Request};
use kernel::policy::{Fail, Policy, Stage};
use openflow::{
    Action, Dpid, Header, Hello, Kind, PacketIn, PacketOut, PortDescReply, PortNo, Version, append,
};
use rosemary_sdk::abi::{RECORD_HEAD, RecordKind};
use rosemary_tests::fake::features;
use rustix::event::{PollFd, PollFlags, poll};
use sys::channel::{Channel, ChannelError};
use sys::doorbell::{Doorbell, Ringer};
use sys::ring::{MAX_BATCH, RingFds, ZoneEnd};

const OF: Version = Version::V1_3;

/// Messages until every buffer has its size, and after that.
const WARM_UP: usize = 1_000;
const COUNTED: usize = 10_000;

/// Messages under way at most: what one read of the kernel's takes in.
const AT_ONCE: usize = 50;

/// After this long a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Allocations of threads that are not the test's, and the sizes of the first.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static SIZES: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// Of whoever counts.
static ALONE: Mutex<()> = Mutex::new(());

thread_local! {
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

fn count(size: usize) {
    if !IS_OURS.try_with(Cell::get).unwrap_or(true) {
        let number = ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = SIZES.get(number) {
            place.store(size, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A thread of the test's.
fn ours(run: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        IS_OURS.with(|it| it.set(true));
        run();
    });
}

#[test]
#[ignore = "the kernel confines the process it runs in, which closes the test's descriptors: it needs one of its own"]
fn kernel_allocates_nothing_for_a_packet_in_and_its_packet_out_once_it_is_warm() {
    assert_eq!(allocations(&[Stage::Control]), 0, "the first had {SIZES:?} bytes");
}

#[test]
#[ignore = "the kernel confines the process it runs in, which closes the test's descriptors: it needs one of its own"]
fn kernel_allocates_nothing_for_a_packet_that_waits_for_a_guard_or_has_an_observer() {
    let guard = Stage::Guard(Fail::Closed);
    let allocations = allocations(&[guard, Stage::Control, Stage::Observe]);
    // Not for each: what is noted of records in a ring may still grow, by doubling, if an app is slow.
    assert!(allocations < 20, "{allocations}; the first had {SIZES:?} bytes");
}

/// How often the kernel allocates for [`COUNTED`] packets that pass these apps, of which the control
/// app answers each.
fn allocations(stages: &[Stage]) -> usize {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    IS_OURS.with(|it| it.set(true));
    let mut rig = Rig::start(stages);
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > 0, "what the start takes is counted");
    rig.exchange(WARM_UP);
    ALLOCATIONS.store(0, Ordering::Relaxed);
    rig.exchange(COUNTED);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    rig.stop();
    allocations
}

/// The kernel, with a switch, and a zone for each app.
struct Rig {
    monitor: Channel,
    kernel: JoinHandle<()>,
    switch: TcpStream,
    packet_in: Vec<u8>,
    unread: Vec<u8>,
}

impl Rig {
    fn start(stages: &[Stage]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (monitor, kernels) = Channel::pair().unwrap();
        // Not ours: it is counted.
        let kernel = thread::spawn(move || kernel::server::run(kernels).unwrap());
        let app = |(number, stage): (usize, &Stage)| App {
            app: AppId(u16::try_from(number).unwrap() + 1),
            name: format!("app {number}"),
            policy: Policy { stage: *stage, ..Policy::default() },
            host: Host::User,
            config_size: 0,
        };
        let apps: Vec<App> = stages.iter().enumerate().map(app).collect();
        let start = Request::Start {
            listeners: vec![address],
            run_as: None,
            apps: apps.clone(),
            plain: Plain::Loopback,
            tls: false,
            workers: Some(1),
        };
        monitor.send(&start, &[listener.as_fd()]).unwrap();
        assert_eq!(receive(&monitor).0, Answer::Ready);
        for App { app, name, policy, .. } in apps {
            let answers = policy.stage == Stage::Control;
            monitor.send(&Request::Attach { app, name, policy }, &[]).unwrap();
            let (Answer::Attached { capacity, .. }, fds) = receive(&monitor) else {
                panic!("the kernel made no rings");
            };
            let [hears, up, down, rings] = fds.try_into().unwrap();
            let end = ZoneEnd::map(&RingFds { up, down }, capacity).unwrap();
            let (hears, rings) = (Doorbell::from_fd(hears), Ringer::from_fd(rings));
            ours(move || serve(end, &hears, &rings, answers));
        }
        let mut packet_in = Vec::new();
        append(&mut packet_in, |out| PacketIn::new(PortNo(1), &[7; 100]).encode(OF, 0, out))
            .unwrap();
        Self { monitor, kernel, switch: connect(address), packet_in, unread: Vec::new() }
    }

    fn stop(self) {
        self.monitor.send(&Request::Stop, &[]).unwrap();
        self.kernel.join().unwrap();
    }

    /// Sends so many packet-ins and waits for as many packet-outs.
    fn exchange(&mut self, messages: usize) {
        let burst = self.packet_in.repeat(AT_ONCE);
        for _ in 0..messages / AT_ONCE {
            self.switch.write_all(&burst).unwrap();
            let mut missing = AT_ONCE;
            while missing > 0 {
                let message = next(&mut self.switch, &mut self.unread);
                missing -= usize::from(kind(&message) == Some(Kind::PacketOut));
            }
        }
    }
}

/// The kernel's next answer.
fn receive(monitor: &Channel) -> (Answer, Vec<std::os::fd::OwnedFd>) {
    let start = Instant::now();
    loop {
        match monitor.receive() {
            Err(ChannelError::WouldBlock) if start.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result.unwrap(),
        }
    }
}

/// Connects a switch and answers until the kernel has sent its first order.
fn connect(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut hello, mut unread) = (Vec::new(), Vec::new());
    append(&mut hello, |out| Hello::new(&[OF]).encode(1, out)).unwrap();
    socket.write_all(&hello).unwrap();
    loop {
        let message = next(&mut socket, &mut unread);
        let xid = Header::decode(&message).unwrap().xid;
        let mut answer = Vec::new();
        match kind(&message) {
            Some(Kind::FeaturesRequest) => {
                append(&mut answer, |out| features(Dpid(1)).encode(OF, xid, out))
            }
            Some(Kind::MultipartRequest) => {
                append(&mut answer, |out| PortDescReply::encode(&[], false, OF, xid, out))
            }
            Some(Kind::FlowMod) => return socket, // the table-miss entry
            _ => Ok(0),
        }
        .unwrap();
        socket.write_all(&answer).unwrap();
    }
}

/// The next message that comes by `socket`.
fn next(socket: &mut TcpStream, unread: &mut Vec<u8>) -> Vec<u8> {
    loop {
        if let Ok(header) = Header::decode(unread)
            && unread.len() >= usize::from(header.length)
        {
            return unread.drain(..usize::from(header.length)).collect();
        }
        let mut bytes = [0; 16 * 1024];
        let size = socket.read(&mut bytes).unwrap();
        assert!(size > 0, "the kernel closed the connection");
        unread.extend_from_slice(&bytes[..size]);
    }
}

fn kind(message: &[u8]) -> Option<Kind> {
    Kind::from_wire(OF, *message.get(1)?).ok()
}

/// A zone whose app answers every packet-in by a packet-out, or by nothing.
fn serve(end: ZoneEnd, hears: &Doorbell, rings: &Ringer, answers: bool) {
    let ZoneEnd { mut records, mut messages } = end;
    let (mut answer, output) = (Vec::new(), [Action::output(PortNo(2))]);
    append(&mut answer, |out| PacketOut::new(PortNo(1), &output, &[7; 100]).encode(OF, 0, out))
        .unwrap();
    loop {
        let batch = records.batch(MAX_BATCH).unwrap();
        let count = batch.len();
        for record in batch.iter() {
            let number = |at: usize| u64::from_le_bytes(*record[at..].first_chunk().unwrap());
            let kind = u16::from_le_bytes(*record[4..].first_chunk().unwrap());
            if !answers || kind != RecordKind::PacketIn as u16 || record.len() < RECORD_HEAD {
                continue;
            }
            let (dpid, epoch) = (number(8), (number(16) & 0xffff_ffff) as u32);
            messages.reserve(answer.len()).expect("room for a batch")[..].copy_from_slice(&answer);
            assert!(messages.commit(dpid, epoch, answer.len()));
        }
        if count > 0 {
            if messages.done(&mut records, count) {
                rings.ring();
            }
            continue;
        }
        if !messages.prepare_to_sleep(&records) {
            let mut bell = [PollFd::new(hears, PollFlags::IN)];
            let _ = poll(&mut bell, None);
            if bell[0].revents().contains(PollFlags::HUP) {
                return; // the kernel has stopped
            }
            hears.silence();
        }
        messages.awake();
    }
}
