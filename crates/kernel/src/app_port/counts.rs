//! What became of the packet-ins that an app was to get, and when the operator is to hear of it.

use std::time::{Duration, Instant};

/// Drops that are no further apart than this are told as one spell.
const QUIET: Duration = Duration::from_secs(1);

/// Counted since the kernel knows the app, its restarts included.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Packet-ins that it got, or that wait for it while it is away.
    pub(crate) delivered: u64,
    /// Packet-ins that it did not get.
    pub(crate) dropped: u64,
    /// Messages of it that were refused.
    pub(crate) refused: u64,
    /// Replies, errors, removed flows and refusals that it did not get.
    pub(crate) lost: u64,
    /// How often it was slowed down.
    pub(crate) slowed: u64,
    /// Records that its zones have handled.
    pub(crate) handled: u64,
    spell: Option<Spell>,
    /// Drops up to when it was last looked.
    seen: u64,
}

/// A time in which packet-ins are dropped.
#[derive(Debug)]
struct Spell {
    began: Instant,
    /// When drops were last seen.
    last: Instant,
    /// Drops before it.
    before: u64,
}

/// What the operator is to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// Packet-ins for the app have begun to be dropped.
    Began,
    /// For a second none was dropped any more; before that `dropped` were, in the time that it took.
    Ended {
        /// How many.
        dropped: u64,
        /// How long it went on.
        took: Duration,
    },
}

impl Counts {
    /// Counts a packet-in.
    pub(crate) fn packet_in(&mut self, taken: bool) {
        self.delivered += u64::from(taken);
        self.dropped += u64::from(!taken);
    }

    /// Looks whether drops have begun or ended. At most one of each comes in a second, so this needs
    /// no other limit before it is logged.
    pub(crate) fn news(&mut self, now: Instant) -> Option<News> {
        let before = std::mem::replace(&mut self.seen, self.dropped);
        if self.dropped > before {
            if let Some(spell) = &mut self.spell {
                spell.last = now;
                return None;
            }
            self.spell = Some(Spell { began: now, last: now, before });
            return Some(News::Began);
        }
        let Spell { began, last, before } =
            self.spell.take_if(|spell| now.saturating_duration_since(spell.last) >= QUIET)?;
        let took = last.saturating_duration_since(began);
        Some(News::Ended { dropped: self.dropped - before, took })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_of_drops_are_told_once_with_how_many_they_were() {
        let (mut counts, start) = (Counts::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        counts.packet_in(true);
        assert_eq!(counts.news(at(0)), None);
        counts.packet_in(false);
        assert_eq!(counts.news(at(100)), Some(News::Began));
        assert_eq!(counts.news(at(200)), None);
        counts.packet_in(false);
        counts.packet_in(false);
        assert_eq!(counts.news(at(1000)), None);
        assert_eq!(counts.news(at(1999)), None);
        let took = Duration::from_millis(900);
        assert_eq!(counts.news(at(2000)), Some(News::Ended { dropped: 3, took }));
        assert_eq!(counts.news(at(9000)), None);
        counts.packet_in(false);
        assert_eq!(counts.news(at(9100)), Some(News::Began));
        let took = Duration::ZERO;
        assert_eq!(counts.news(at(10_100)), Some(News::Ended { dropped: 1, took }));
        assert_eq!((counts.delivered, counts.dropped), (1, 4));
    }
}
