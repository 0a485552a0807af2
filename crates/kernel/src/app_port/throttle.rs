//! Slows down an app that costs the kernel work for nothing: messages that are refused, records that say nothing, rings of
//! the doorbell with nothing behind them.
//!
//! Each is an offence. An app with [`MOST`] of them in a second, with all workers together, is heard every [`PAUSE`] only,
//! and [`SLOWED`] messages at a time, until that second is over. Until it is heard its messages stay in its own ring, its
//! doorbell is not listened to, and so it takes no time from others.
//!
//! An app that answers packet-ins may be refused through the fault of a switch or a host: a flood uses up its quota, a switch
//! misstates its buffers, does not read or does not reply. So each packet-in that the app is given pays for [`FREE`]
//! refusals, for whatever reason. Refusals beyond that are offences, for whatever reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pool::SharedQuota;

/// Offences in a second from which an app is slowed down.
const MOST: u32 = 10_000;

/// Refusals that a packet-in pays for: most apps answer with a flow-mod and a packet-out.
const FREE: u64 = 4;

/// The most refusals that are paid for in advance. Answers come late: about 40,000 packet-ins fit into a ring.
const MOST_FREE: u64 = 1 << 18;

/// Offences that a ring for nothing counts as: it wakes the worker.
const RING: u32 = 4;

/// How long an app that is slowed down waits until it is heard again.
const PAUSE: Duration = Duration::from_millis(1);

/// Messages of an app that are taken then.
const SLOWED: usize = 128;

/// One app with one worker.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that happened, or not")]
pub(crate) struct Throttle {
    shared_quota: Arc<SharedQuota>,
    /// When the app is heard next, if it is slowed down.
    until: Option<Instant>,
    /// Whether the doorbell is not listened to.
    pub(crate) is_deaf: bool,
    /// Offences since the app was heard last.
    offences: u32,
    /// Messages that were refused since then.
    refused: u64,
    /// Refusals that are paid for.
    free: u64,
    /// Packet-ins that the app had been given by then.
    delivered: u64,
    /// Of these, rings for nothing, in the second that runs.
    rings: u32,
    /// Whether the doorbell has rung since the app was heard last.
    has_rung: bool,
    /// Whether there was nothing when the app was heard last.
    was_silent: bool,
    /// Whether the app has sent something since it last said that records are handled.
    has_sent: bool,
}

/// An app is slowed down from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slowed {
    /// Its offences in this second.
    pub(crate) offences: u32,
    /// How often it rang for nothing, with this worker.
    pub(crate) rings: u32,
}

impl Throttle {
    /// For an app that has done nothing yet.
    pub(crate) fn new(shared_quota: Arc<SharedQuota>) -> Self {
        Self {
            shared_quota,
            until: None,
            is_deaf: false,
            offences: 0,
            refused: 0,
            free: 0,
            delivered: 0,
            rings: 0,
            has_rung: false,
            was_silent: false,
            has_sent: false,
        }
    }

    /// When the app is heard next, if it is slowed down.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// How many messages may be taken now, at most `most`; `None` if the app is not heard now.
    #[inline]
    pub(crate) fn hears(&self, most: usize, now: Instant) -> Option<usize> {
        match self.until {
            None => Some(most),
            Some(until) => (until <= now).then_some(most.min(SLOWED)),
        }
    }

    /// The doorbell has rung.
    pub(crate) fn ring(&mut self) {
        self.has_rung = true;
    }

    /// A message of the app was refused.
    pub(crate) fn refused(&mut self) {
        self.refused += 1;
    }

    /// The app has sent something.
    #[inline]
    pub(crate) fn sent(&mut self) {
        self.has_sent = true;
    }

    /// The app said that `count` records are handled.
    #[inline]
    pub(crate) fn done(&mut self, count: u32) {
        let has_sent = std::mem::take(&mut self.has_sent);
        self.offences = self.offences.saturating_add((count == 0 && !has_sent).into());
    }

    /// Ends a hearing of the app that took this many messages. The app has been given `delivered` packet-ins in all. Returns
    /// its offences if it is slowed down from now on.
    pub(crate) fn heard(&mut self, taken: usize, delivered: u64, now: Instant) -> Option<Slowed> {
        let given = delivered.saturating_sub(std::mem::replace(&mut self.delivered, delivered));
        self.free = self.free.saturating_add(given.saturating_mul(FREE)).min(MOST_FREE);
        let refused = std::mem::take(&mut self.refused);
        let unpaid = refused.saturating_sub(self.free);
        self.free = self.free.saturating_sub(refused);
        self.offences = self.offences.saturating_add(u32::try_from(unpaid).unwrap_or(u32::MAX));
        // A ring that came just behind what it was rung for is no offence.
        let was_silent = std::mem::replace(&mut self.was_silent, taken == 0);
        if std::mem::take(&mut self.has_rung) && taken == 0 && was_silent {
            self.offences = self.offences.saturating_add(RING);
            self.rings = self.rings.saturating_add(1);
        }
        let all = self
            .shared_quota
            .offend(std::mem::take(&mut self.offences), self.shared_quota.second(now));
        let was_slowed = self.until.is_some();
        self.until = (all >= MOST).then(|| now + PAUSE);
        if all < MOST && was_slowed {
            self.rings = 0;
        }
        let begins = !was_slowed && self.until.is_some();
        begins.then_some(Slowed { offences: all, rings: self.rings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle() -> (Throttle, Instant) {
        (Throttle::new(Arc::new(SharedQuota::new(1))), Instant::now())
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn app_with_too_many_refusals_is_heard_seldom_until_the_second_is_over() {
        let (mut throttle, now) = throttle();
        for _ in 1..MOST {
            throttle.refused();
        }
        assert_eq!(throttle.heard(9, 0, now), None);
        assert_eq!(throttle.hears(4096, now), Some(4096));
        throttle.refused();
        assert_eq!(throttle.heard(9, 0, now), Some(Slowed { offences: MOST, rings: 0 }));
        assert_eq!(throttle.hears(4096, now), None);
        assert_eq!(throttle.hears(4096, now + PAUSE), Some(SLOWED));
        assert_eq!(throttle.heard(SLOWED, 0, now + PAUSE), None, "reported once");
        assert_eq!(throttle.hears(4096, now + PAUSE), None);
        throttle.heard(0, 0, now + 1000 * MS);
        assert_eq!(throttle.hears(4096, now + 1000 * MS), Some(4096));
    }

    #[test]
    fn one_refusal_per_packet_in_slows_nobody_down() {
        let (mut throttle, now) = throttle();
        let mut delivered = 0;
        for _ in 0..20 {
            delivered += u64::from(MOST);
            (0..MOST).for_each(|_| throttle.refused());
            assert_eq!((throttle.heard(9, delivered, now), throttle.until()), (None, None));
        }
    }

    #[test]
    fn late_answers_to_a_full_ring_slow_nobody_down() {
        let (mut throttle, now) = throttle();
        throttle.heard(0, MOST_FREE / FREE, now);
        (0..MOST_FREE).for_each(|_| throttle.refused());
        assert_eq!(throttle.heard(9, MOST_FREE / FREE, now + 1000 * MS), None);
    }

    #[test]
    fn refusals_above_the_rate_of_packet_ins_are_offences() {
        let (mut throttle, now) = throttle();
        // Packet-ins of long ago pay for a bounded number of them only.
        throttle.heard(0, u64::MAX, now);
        (0..MOST_FREE).for_each(|_| throttle.refused());
        assert_eq!(throttle.heard(9, u64::MAX, now), None);
        (0..MOST).for_each(|_| throttle.refused());
        let slowed = Slowed { offences: MOST, rings: 0 };
        assert_eq!(throttle.heard(9, u64::MAX, now), Some(slowed));
    }

    #[test]
    fn rings_for_nothing_slow_an_app_down_and_late_ones_do_not() {
        let (mut throttle, now) = throttle();
        for _ in 0..MOST {
            throttle.heard(1, 0, now);
            throttle.ring();
            throttle.heard(0, 0, now);
        }
        assert_eq!(throttle.until(), None, "each came just behind a message");
        let mut rings = 0;
        let slowed = loop {
            throttle.ring();
            rings += 1;
            if let Some(slowed) = throttle.heard(0, 0, now) {
                break slowed;
            }
        };
        assert_eq!((slowed.offences, slowed.rings, rings), (MOST, MOST / RING, MOST / RING));
    }

    #[test]
    fn records_that_say_nothing_are_offences_and_those_behind_a_message_are_not() {
        let (mut throttle, now) = throttle();
        for _ in 0..2 * MOST {
            throttle.sent();
            throttle.done(0);
            throttle.done(1);
        }
        assert_eq!(throttle.heard(9, 0, now), None);
        (0..MOST).for_each(|_| throttle.done(0));
        assert!(throttle.heard(9, 0, now).is_some());
    }

    #[test]
    fn workers_count_together() {
        let shared_quota = Arc::new(SharedQuota::new(2));
        let [mut one, mut other] = [(), ()].map(|()| Throttle::new(Arc::clone(&shared_quota)));
        let now = Instant::now();
        (0..MOST).for_each(|_| one.refused());
        assert!(one.heard(1, 0, now).is_some());
        assert!(other.heard(1, 0, now).is_some());
    }
}
