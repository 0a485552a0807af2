//! Remembers which unicast packets were flooded, because nobody knew where their destination is.
//!
//! The copies of such a packet reach other switches later, when the destination may be known. If a switch then sent its copy
//! along the shortest path, the destination could receive two: that copy, and the one that came along the spanning tree. So
//! each copy goes on along the tree. Packets are known by a hash of their bytes, for one to two [`PERIOD`]s.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Time after which packets begin to be forgotten: longer than a copy is under way, also while the controller is busy.
const PERIOD: Duration = Duration::from_secs(1);

/// Most packets that are remembered of a period. Beyond it the older ones are forgotten earlier.
const MOST: usize = 4096;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Flooded {
    hasher: RandomState,
    latest: HashSet<u64>,
    earlier: HashSet<u64>,
    /// When the latest period began.
    since: Duration,
}

impl Flooded {
    /// Remembers that a packet is flooded.
    pub(crate) fn insert(&mut self, frame: &[u8], now: Duration) {
        self.expire(now);
        if self.latest.len() >= MOST {
            self.earlier = std::mem::take(&mut self.latest);
        }
        self.latest.insert(self.hasher.hash_one(frame));
    }

    /// Returns whether a packet was flooded.
    pub(crate) fn contains(&mut self, frame: &[u8], now: Duration) -> bool {
        self.expire(now);
        if self.latest.is_empty() && self.earlier.is_empty() {
            return false; // as nearly always
        }
        let hash = self.hasher.hash_one(frame);
        self.latest.contains(&hash) || self.earlier.contains(&hash)
    }

    /// Forgets a packet: its host has sent the same bytes again, and those are not flooded.
    pub(crate) fn remove(&mut self, frame: &[u8]) {
        if !self.latest.is_empty() || !self.earlier.is_empty() {
            let hash = self.hasher.hash_one(frame);
            self.latest.remove(&hash);
            self.earlier.remove(&hash);
        }
    }

    fn expire(&mut self, now: Duration) {
        let age = now.saturating_sub(self.since);
        if age >= PERIOD {
            let latest = std::mem::take(&mut self.latest);
            self.earlier = if age >= 2 * PERIOD { HashSet::new() } else { latest };
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_forgotten_after_one_to_two_periods() {
        let mut flooded = Flooded::default();
        let now = Duration::from_secs(100);
        flooded.insert(b"one", now);
        assert!(flooded.contains(b"one", now + PERIOD));
        assert!(!flooded.contains(b"two", now + PERIOD));
        flooded.insert(b"two", now + PERIOD);
        assert!(
            !flooded.contains(b"one", now + 2 * PERIOD)
                && flooded.contains(b"two", now + 2 * PERIOD)
        );
        flooded.remove(b"two");
        assert!(!flooded.contains(b"two", now + 2 * PERIOD));
        flooded.insert(b"three", now + 2 * PERIOD);
        assert!(!flooded.contains(b"three", now + 9 * PERIOD));
    }

    #[test]
    fn memory_is_bounded() {
        let mut flooded = Flooded::default();
        let now = Duration::from_secs(100);
        for number in 0..10 * MOST {
            flooded.insert(&number.to_be_bytes(), now);
        }
        assert!(flooded.latest.len() + flooded.earlier.len() <= 2 * MOST);
        assert!(flooded.contains(&(10 * MOST - 1).to_be_bytes(), now));
    }
}
