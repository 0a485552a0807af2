//! Shows with a counting allocator that the warmed-up kernel does not allocate per message.
//!
//! The kernel's server runs in a confined child process, as in production. The test acts as its
//! monitor, as the switch at the end of its socket, and as the zone at the end of its rings. It
//! counts the child's allocations in shared memory.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use control::app::{AppId, Installation};
use control::flight::FlightReader;
use control::hosting::Hosting;
use control::kernel::{
    AnnouncedApp, KernelReply, KernelRequest, ListensAt, PlainTcp, Southbound, Tuning,
};
use control::policy::{Fail, Policy, Stage};
use openflow::{
    Action, Dpid, Header, Hello, Kind, PacketIn, PacketOut, PortDescReply, PortNo, Version, append,
};
use rosemary_sdk::abi::{RECORD_HEAD, RecordKind};
use rosemary_tests::fake::features;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitOptions, waitpid};
use sys::channel::{Channel, ChannelError};
use sys::doorbell::{Doorbell, DoorbellSender};
use sys::ring::{MAX_BATCH, RingFds, ZoneEnd};
use sys::shm::Shared;
use sys::testing::{Counting, in_a_child};

const OF: Version = Version::V1_3;

/// Number of messages until every buffer has reached its size, and of counted messages after that.
const WARM_UP: usize = 1_000;
const COUNTED: usize = 10_000;

/// Maximum number of messages in transit: as many as one read of the kernel receives.
const AT_ONCE: usize = 50;

/// Limit of allocations for [`COUNTED`] messages: a copy of each message in transit, some buffers
/// that double, and output buffers that a tick released as idle.
const FEW: u64 = 2 * AT_ONCE as u64;

/// Time limit of a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Shared counters: the number of allocations, then the sizes of the first ones.
static COUNTED_BY_BOTH: OnceLock<Shared> = OnceLock::new();

/// Number of its words.
const WORDS: usize = 512;
const SIZES: std::ops::Range<usize> = 1..9;

/// Whether this is the kernel's process.
static IS_KERNEL: AtomicBool = AtomicBool::new(false);

/// Serialises the tests, which share the counters.
static ALONE: Mutex<()> = Mutex::new(());

fn count(size: usize) {
    if let (true, Some(counted)) = (IS_KERNEL.load(Ordering::Relaxed), COUNTED_BY_BOTH.get()) {
        let words = counted.words();
        let number = words[0].fetch_add(1, Ordering::Relaxed);
        let place = SIZES.start.saturating_add(usize::try_from(number).unwrap_or(usize::MAX));
        if SIZES.contains(&place) {
            words[place].store(size as u64, Ordering::Relaxed);
        }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(count);

/// Returns the number of counted allocations.
fn counted() -> u64 {
    COUNTED_BY_BOTH.get().expect("the test has begun").words()[0].load(Ordering::Relaxed)
}

/// Returns the sizes of the first allocations, in bytes.
fn sizes() -> Vec<u64> {
    let words = COUNTED_BY_BOTH.get().expect("the test has begun").words();
    words[SIZES].iter().map(|size| size.load(Ordering::Relaxed)).collect()
}

#[test]
fn warm_kernel_does_not_allocate_per_packet_in() {
    let allocations = allocations(&[Stage::Control]);
    assert!(allocations < FEW, "{allocations}; the first had {:?} bytes", sizes());
}

#[test]
fn warm_kernel_does_not_allocate_with_guard_and_observer() {
    let guard = Stage::Guard(Fail::Closed);
    let allocations = allocations(&[guard, Stage::Control, Stage::Observe]);
    assert!(allocations < FEW, "{allocations}; the first had {:?} bytes", sizes());
}

/// Counts the kernel's allocations for [`COUNTED`] packets that pass these apps; the control app
/// answers each.
fn allocations(stages: &[Stage]) -> u64 {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = COUNTED_BY_BOTH
        .get_or_init(|| Shared::written_by_us("counted", WORDS * size_of::<u64>()).unwrap().0);
    let anew = || shared.words()[0].store(0, Ordering::Relaxed);
    anew();
    let mut rig = Rig::start(stages);
    assert!(counted() > 0, "allocations during the start are counted");
    rig.exchange(WARM_UP);
    anew();
    rig.exchange(COUNTED);
    let allocations = counted();
    rig.stop();
    allocations
}

/// A kernel with a switch, and a zone for each app.
struct Rig {
    monitor: Channel,
    kernel: Pid,
    switch: TcpStream,
    packet_in: Vec<u8>,
    unread: Vec<u8>,
}

impl Rig {
    fn start(stages: &[Stage]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (monitor, kernels) = Channel::passing_pair().unwrap();
        let kernel = fork(kernels);
        let app = |(number, stage): (usize, &Stage)| AnnouncedApp {
            app: AppId(u16::try_from(number).unwrap() + 1),
            name: format!("app {number}"),
            policy: Policy { stage: *stage, ..Policy::default() },
            host: Hosting::USER,
            log_level: control::log::LogLevel::default(),
            config_size: 0,
            services: Vec::new(),
        };
        let apps: Vec<AnnouncedApp> = stages.iter().enumerate().map(app).collect();
        let start = KernelRequest::Start {
            listeners: vec![ListensAt { address, protocol: Southbound::OpenFlow }],
            run_as: None,
            apps: apps.clone(),
            plain: PlainTcp::Loopback,
            tls: false,
            workers: Some(1),
            tuning: Tuning::default(),
            installation: Installation(1),
        };
        let (_recorder, recorder_fd) = FlightReader::new().unwrap();
        monitor.send(&start, &[listener.as_fd(), recorder_fd.as_fd()]).unwrap();
        assert!(matches!(receive(&monitor).0, KernelReply::Confined { .. }));
        assert_eq!(receive(&monitor).0, KernelReply::Ready);
        for AnnouncedApp { app, name, policy, .. } in apps {
            let answers = policy.stage == Stage::Control;
            monitor.send(&KernelRequest::Attach { app, name, policy }, &[]).unwrap();
            let (KernelReply::Attached { capacity, .. }, fds) = receive(&monitor) else {
                panic!("the kernel made no rings");
            };
            let [hears, up, down, rings] = fds.try_into().unwrap();
            let end = ZoneEnd::map(&RingFds { up, down }, capacity).unwrap();
            let (hears, rings) = (Doorbell::from_fd(hears), DoorbellSender::from_fd(rings));
            thread::spawn(move || serve(end, &hears, &rings, answers));
        }
        let mut packet_in = Vec::new();
        append(&mut packet_in, |out| PacketIn::new(PortNo(1), &[7; 100]).encode(OF, 0, out))
            .unwrap();
        Self { monitor, kernel, switch: connect(address), packet_in, unread: Vec::new() }
    }

    fn stop(self) {
        self.monitor.send(&KernelRequest::Stop, &[]).unwrap();
        let (_, status) = waitpid(Some(self.kernel), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0), "{status:?}");
    }

    /// Sends this many packet-ins and waits for as many packet-outs.
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

/// Starts a kernel in its own process: confinement requires a single thread.
fn fork(monitor: Channel) -> Pid {
    // The child takes no lock of this program that another thread may hold.
    let kernel = in_a_child(|| {
        IS_KERNEL.store(true, Ordering::Relaxed);
        kernel::server::run(monitor).is_err().into()
    });
    kernel.expect("the system has room for a process")
}

/// Receives the kernel's next reply.
fn receive(monitor: &Channel) -> (KernelReply, Vec<std::os::fd::OwnedFd>) {
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

/// Connects a switch and answers until the kernel has sent its first flow-mod.
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

/// Receives the next message from `socket`.
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

/// Runs a zone whose app answers every packet-in with a packet-out, or with nothing.
fn serve(end: ZoneEnd, hears: &Doorbell, rings: &DoorbellSender, answers: bool) {
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
