//! Times broadcasts from one host to another.
//!
//! No flow matches a broadcast, because no host sends from that address. Each broadcast therefore
//! goes to the controller, and arrives at the other host once the app has flooded it. The time in
//! transit is the app's reaction time plus that of the switch.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::Host;

use crate::sockets::socket_on;

/// Any address of a host.
const ANY: &str = "0.0.0.0";

/// The broadcast address of a lab.
const EVERYBODY: &str = "10.0.0.255";

/// How long broadcasts in transit are awaited after the last one.
const LAST: Duration = Duration::from_secs(2);

/// Timed broadcasts.
#[derive(Debug)]
pub struct Times {
    /// Number of broadcasts sent.
    pub sent: u32,
    /// Times in transit of those that arrived, in ascending order.
    pub times: Vec<Duration>,
}

impl Times {
    /// Returns the median; zero if none arrived.
    pub fn median(&self) -> Duration {
        self.times.get(self.times.len() / 2).copied().unwrap_or_default()
    }

    /// Returns the lower quartile, which a busy machine affects least; zero if none arrived.
    pub fn lower_quartile(&self) -> Duration {
        self.times.get(self.times.len() / 4).copied().unwrap_or_default()
    }

    /// Returns the maximum; zero if none arrived.
    pub fn longest(&self) -> Duration {
        self.times.last().copied().unwrap_or_default()
    }
}

/// Sends `count` broadcasts from one host, one per `interval`, and times them at another. `port`
/// must be unused otherwise.
///
/// # Errors
/// The sockets cannot be created.
pub fn time(
    from: &Host<'_>,
    to: &Host<'_>,
    port: u16,
    count: u32,
    interval: Duration,
) -> anyhow::Result<Times> {
    let receiver = socket_on(to, ANY, port)?;
    receiver.set_read_timeout(Some(LAST))?;
    let sender = sender_on(from, port)?;
    let start = Instant::now();
    let receiving = thread::spawn(move || {
        let (mut arrived, mut bytes) = (vec![None; count as usize], [0; 2048]);
        while arrived.contains(&None) {
            let Ok(size) = receiver.recv(&mut bytes) else { break };
            let number = bytes[..size].first_chunk().map(|number| u32::from_be_bytes(*number));
            let place = number.and_then(|number| arrived.get_mut(number as usize));
            if let Some(place @ None) = place {
                *place = Some(start.elapsed());
            }
        }
        arrived
    });
    let mut sent = Vec::new();
    for number in 0..count {
        thread::sleep((interval * number).saturating_sub(start.elapsed()));
        sent.push(start.elapsed());
        sender.send(&number.to_be_bytes())?;
    }
    let arrived = receiving.join().ok().context("the receiving thread panicked")?;
    let both = sent.iter().zip(arrived);
    let mut times: Vec<_> =
        both.filter_map(|(sent, arrived)| Some(arrived?.saturating_sub(*sent))).collect();
    times.sort_unstable();
    Ok(Times { sent: count, times })
}

/// Broadcasts without a receiver, until this is dropped.
#[derive(Debug)]
pub struct Load {
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Starts a broadcast from this host every `interval`.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn start(from: &Host<'_>, port: u16, interval: Duration) -> anyhow::Result<Self> {
        let sender = sender_on(from, port)?;
        let (over, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let thread = thread::spawn({
            let (over, sent, start) = (Arc::clone(&over), Arc::clone(&sent), Instant::now());
            move || {
                for number in 0_u32.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::sleep((interval * number).saturating_sub(start.elapsed()));
                    if sender.send(&[0; 18]).is_ok() {
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Ok(Self { over, sent, thread: Some(thread) })
    }

    /// Returns the number of broadcasts sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it returns nothing
        }
    }
}

fn sender_on(host: &Host<'_>, port: u16) -> anyhow::Result<UdpSocket> {
    let sender = socket_on(host, ANY, 0)?;
    sender.set_broadcast(true)?;
    sender.connect((EVERYBODY, port))?;
    Ok(sender)
}
