//! Removes things that are not needed any more, while the session does nothing else: entries of `other_config` and logical switches.
//!
//! The database refuses to remove a logical switch to which a row refers that the session does not read. So each removal is a transaction
//! of its own, and the pause before the next attempt doubles, up to [`LONGEST_PAUSE`]. Other removals do not wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ovsdb::{Operation, Uuid};

use super::device::Device;
use super::transaction;

/// The interval at which the session looks for things to remove, and the first pause after an attempt.
const INTERVAL: Duration = Duration::from_secs(2);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// See the module's description.
#[derive(Debug)]
pub(super) struct Cleaning {
    /// The time of the next look.
    at: Instant,
    corrections: Pause,
    /// The logical switches whose removal was sent.
    networks: BTreeMap<Uuid, Pause>,
    sent: Option<Sent>,
}

/// The content of the last transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Corrections,
    Network,
}

/// The pause between two attempts.
#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl Pause {
    fn new(now: Instant) -> Self {
        Self { until: now, length: INTERVAL }
    }

    /// Begins the pause, and doubles the next one.
    fn begin(&mut self, now: Instant) {
        self.until = now + self.length;
        self.length = (self.length * 2).min(LONGEST_PAUSE);
    }
}

impl Cleaning {
    pub(super) fn new(now: Instant) -> Self {
        let corrections = Pause::new(now);
        Self { at: now, corrections, networks: BTreeMap::new(), sent: None }
    }

    /// Returns the next transaction; [`finished`](Self::finished) follows.
    pub(super) fn next(&mut self, device: &Device, now: Instant) -> Option<Vec<Operation>> {
        if now < self.at {
            return None;
        }
        if now >= self.corrections.until && !device.corrections.is_empty() {
            self.sent = Some(Sent::Corrections);
            return Some(transaction::correct(device));
        }
        let unused: BTreeSet<Uuid> = device.unused_networks().collect();
        self.networks.retain(|row, _| unused.contains(row));
        for row in unused {
            let pause = self.networks.entry(row).or_insert_with(|| Pause::new(now));
            if now >= pause.until {
                pause.begin(now); // whatever the answer is: the row may be there after it
                self.sent = Some(Sent::Network);
                return Some(transaction::remove_network(row));
            }
        }
        self.at = now + INTERVAL;
        None
    }

    /// The transaction has an answer, or could not be sent.
    pub(super) fn finished(&mut self, now: Instant, is_done: bool) {
        match (self.sent.take(), is_done) {
            (Some(Sent::Corrections), true) => {
                self.corrections = Pause::new(now);
                self.at = now + INTERVAL;
            }
            (Some(Sent::Corrections), false) => self.corrections.begin(now),
            (Some(Sent::Network) | None, _) => {}
        }
    }
}
