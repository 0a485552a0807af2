//! Sends marked packets from one host to another and records their arrival.
//!
//! The packets are UDP over IPv6, so that an app can subscribe to them alone by ethertype; all
//! other traffic of a test is ARP and IPv4.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::Host;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::mark::{Mark, SequenceCounter, Task};
use crate::sockets::socket_on;

/// Ethertype of the packets, for `rosemary.toml`.
pub const ETHERTYPE: &str = "0x86dd";

/// Port of the receiving host.
const PORT: u16 = 9;

/// Receive buffer size; the system accounts about 1 KiB per packet.
const BUFFER: usize = 64 << 20;

/// Interval at which a waiting thread checks the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// A running stream; dropping it stops it.
#[derive(Debug)]
pub struct Stream {
    socket: UdpSocket,
    shared: Arc<Shared>,
    sending: Option<JoinHandle<()>>,
    receiving: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    no_more: AtomicBool,
    over: AtomicBool,
    sent: AtomicU64,
    times: Mutex<Times>,
}

/// Times of sending and arrival by sequence number, from 1.
#[derive(Debug, Default)]
struct Times {
    sent: Vec<Instant>,
    arrived: Vec<Option<Instant>>,
    counter: SequenceCounter,
}

impl Stream {
    /// Makes `from` send a marked packet to `to` every `interval`.
    ///
    /// # Errors
    /// The hosts cannot be prepared, or have no IPv6.
    pub fn start(from: &Host<'_>, to: &Host<'_>, interval: Duration) -> anyhow::Result<Self> {
        for host in [from, to] {
            // Containers disable IPv6 even if the kernel supports it.
            let enable = "echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6";
            host.run("sh", &["-c", enable]).context("IPv6 is needed")?;
            let address = format!("{}/64", address(host));
            host.run("ip", &["address", "add", &address, "dev", "eth0", "nodad"])?;
        }
        // The system accepts packets for a new address only after a delay, which is longer on a
        // busy machine.
        let taken = format!("ip -6 route show table local | grep -qw 'local {}'", address(to));
        let wait = format!("for _ in $(seq 200); do {taken} && exit; sleep 0.05; done; exit 1");
        to.run("sh", &["-c", &wait]).context("the receiver gets its address")?;
        let (whom, mac) = (address(to), to.mac());
        let known = ["lladdr", &mac, "dev", "eth0", "nud", "permanent"];
        from.run("ip", &[&["neighbour", "replace", &whom][..], &known].concat())?;
        let receiver = socket_on(to, "::", PORT)?;
        receiver.set_read_timeout(Some(LOOK))?;
        // Packets that waited for an app arrive in a burst and must not be dropped here.
        set_socket_recv_buffer_size_force(&receiver, BUFFER)?;
        let socket = socket_on(from, "::", 0)?;
        socket.connect((whom.as_str(), PORT))?;

        let shared = Arc::<Shared>::default();
        let sending = thread::spawn({
            let (socket, shared) = (socket.try_clone()?, Arc::clone(&shared));
            move || send(&socket, &shared, interval)
        });
        let receiving = thread::spawn({
            let shared = Arc::clone(&shared);
            move || receive(&receiver, &shared)
        });
        Ok(Self { socket, shared, sending: Some(sending), receiving: Some(receiving) })
    }

    /// Sends a packet with another task in addition to the stream.
    ///
    /// # Errors
    /// The system cannot send it.
    pub fn send(&self, task: Task, sequence: u64) -> io::Result<()> {
        self.socket.send(&Mark { task, sequence }.bytes()).map(drop)
    }

    /// Returns the number of packets sent.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of different packets that arrived.
    ///
    /// # Panics
    /// If a thread of the stream panicked.
    pub fn arrived(&self) -> u64 {
        self.shared.times.lock().expect("no thread panicked").counter.different
    }

    /// Returns the sequence numbers of packets that were sent but have not arrived.
    ///
    /// # Panics
    /// If a thread of the stream panicked.
    pub fn under_way(&self) -> Vec<u64> {
        let times = self.shared.times.lock().expect("no thread panicked");
        let arrived = times.arrived.iter().map(Option::is_some);
        (1..).zip(arrived).filter(|(_, arrived)| !arrived).map(|(number, _)| number).collect()
    }

    /// Returns the time from `since` to the first arrival of a packet sent later.
    ///
    /// # Panics
    /// If a thread of the stream panicked.
    pub fn first_arrival(&self, since: Instant) -> Option<Duration> {
        let times = self.shared.times.lock().expect("no thread panicked");
        let first = times.sent.partition_point(|at| *at < since);
        let later = times.arrived.get(first..)?;
        let at = later.iter().flatten().min()?;
        Some(at.saturating_duration_since(since))
    }

    /// Stops sending.
    pub fn stop(&mut self) {
        self.shared.no_more.store(true, Ordering::Relaxed);
        if let Some(sending) = self.sending.take() {
            let _ = sending.join(); // it returns nothing
        }
    }

    /// Ends; returns the counter of arrivals and the longest time in transit.
    ///
    /// # Panics
    /// If a thread of the stream panicked.
    pub fn finish(&mut self) -> (SequenceCounter, Duration) {
        self.end();
        let times = std::mem::take(&mut *self.shared.times.lock().expect("no thread panicked"));
        let longest = times.sent.iter().zip(&times.arrived).filter_map(|(sent, arrived)| {
            arrived.map(|arrived| arrived.saturating_duration_since(*sent))
        });
        (times.counter, longest.max().unwrap_or_default())
    }

    fn end(&mut self) {
        self.stop();
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(receiving) = self.receiving.take() {
            let _ = receiving.join();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the host's IPv6 address.
fn address(host: &Host<'_>) -> String {
    // 10.0.0.N has the same N.
    format!("fd00::{}", host.address().rsplit('.').next().unwrap_or("1"))
}

fn send(socket: &UdpSocket, shared: &Shared, interval: Duration) {
    let start = Instant::now();
    for number in 0_u32.. {
        if shared.no_more.load(Ordering::Relaxed) {
            return;
        }
        let sequence = u64::from(number) + 1;
        {
            let mut times = shared.times.lock().expect("no thread panicked");
            times.sent.push(Instant::now());
            times.arrived.push(None);
        }
        // A packet that cannot be sent neither arrives nor is counted by the switch.
        let _ = socket.send(&Mark { task: Task::Pass, sequence }.bytes());
        shared.sent.store(sequence, Ordering::Relaxed);
        let next = interval * (number + 1);
        thread::sleep(next.saturating_sub(start.elapsed()));
    }
}

fn receive(socket: &UdpSocket, shared: &Shared) {
    let mut bytes = [0; 2048];
    while !shared.over.load(Ordering::Relaxed) {
        let Ok(size) = socket.recv(&mut bytes) else { continue }; // timeout
        let now = Instant::now();
        let Some(Mark { task: Task::Pass, sequence }) = Mark::of(&bytes[..size]) else { continue };
        let mut times = shared.times.lock().expect("no thread panicked");
        times.counter.count(sequence);
        let place = usize::try_from(sequence).ok().and_then(|number| number.checked_sub(1));
        if let Some(arrived) = place.and_then(|place| times.arrived.get_mut(place)) {
            arrived.get_or_insert(now);
        }
    }
}
