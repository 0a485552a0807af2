//! Remembers the pairs of hosts whose packets were flooded lately, because the destination's port was unknown.
//!
//! Copies of such a packet may still be under way when the destination is known. If a switch then sent one along the shortest
//! path, by the app or by a flow, the destination could receive two: that copy, and the one that came along the spanning
//! tree. So the packets of the pair, and its route, keep to the tree for [`PERIOD`].

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::routes::Key;

/// How long a pair keeps to the tree: longer than a copy is under way, also while the controller is busy.
const PERIOD: Duration = Duration::from_secs(1);

/// Most pairs. Beyond it the oldest is forgotten.
const MOST_PAIRS: usize = 4096;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Flooded {
    /// When a packet of each pair was last flooded.
    last: HashMap<Key, Duration>,
    /// When to look at each pair.
    queue: VecDeque<(Duration, Key)>,
}

impl Flooded {
    /// Remembers that a packet of a pair is flooded.
    pub(crate) fn insert(&mut self, key: Key, now: Duration) {
        if self.last.insert(key, now).is_some() {
            return;
        }
        if self.queue.len() >= MOST_PAIRS
            && let Some((_, oldest)) = self.queue.pop_front()
        {
            self.last.remove(&oldest);
        }
        self.queue.push_back((now + PERIOD, key));
    }

    /// Returns whether packets of a pair keep to the tree.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.last.contains_key(key)
    }

    /// Forgets pairs without a flood for [`PERIOD`], and returns them.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<Key> {
        let mut expired = Vec::new();
        while let Some((_, key)) = self.queue.front().copied().filter(|(at, _)| *at <= now) {
            self.queue.pop_front();
            match self.last.get(&key) {
                Some(last) if *last + PERIOD > now => self.queue.push_back((*last + PERIOD, key)),
                _ => {
                    self.last.remove(&key);
                    expired.push(key);
                }
            }
        }
        expired
    }

    /// Returns when the next pair expires.
    pub(crate) fn wake_at(&self) -> Option<Duration> {
        self.queue.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use rosemary_sdk::MacAddr;

    use super::*;

    fn key(number: usize) -> Key {
        let [.., a, b, c] = number.to_be_bytes();
        Key { src: MacAddr([2, 0, 0, a, b, c]), dst: MacAddr([4; 6]), tag: None }
    }

    #[test]
    fn pairs_are_forgotten_after_their_last_flood() {
        let mut flooded = Flooded::default();
        let (now, step) = (Duration::from_secs(100), PERIOD / 2);
        flooded.insert(key(1), now);
        flooded.insert(key(2), now);
        flooded.insert(key(1), now + step);
        assert_eq!(flooded.wake_at(), Some(now + PERIOD));
        assert_eq!(flooded.expire(now + step), []);
        assert_eq!(flooded.expire(now + PERIOD), [key(2)]);
        assert!(flooded.contains(&key(1)) && !flooded.contains(&key(2)));
        assert_eq!(flooded.expire(now + PERIOD + step), [key(1)]);
        assert_eq!((flooded.wake_at(), flooded.last.len()), (None, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut flooded = Flooded::default();
        for number in 0..10 * MOST_PAIRS {
            flooded.insert(key(number), Duration::from_secs(100));
        }
        assert_eq!((flooded.last.len(), flooded.queue.len()), (MOST_PAIRS, MOST_PAIRS));
        assert!(flooded.contains(&key(10 * MOST_PAIRS - 1)) && !flooded.contains(&key(0)));
    }
}
