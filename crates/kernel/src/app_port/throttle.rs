//! Slows down an app that wastes the kernel's time: by messages that are refused, by empty records, by rings of the
//! doorbell without records.
//!
//! Each of these is an offence. The worker serves an app with [`MOST_OFFENCES`] offences in a second, counted by all workers
//! together, only every [`PAUSE`], and takes at most [`SLOWED`] messages each time, until that second is over. In
//! between its messages stay in its own ring and its doorbell is ignored, so it takes no time from other apps.
//!
//! A switch or a host may be the cause of a refusal: a flood uses up the app's quota, or a switch misstates its
//! buffers, does not read or does not reply. So each packet-in that the app receives permits [`FREE`] refusals for any
//! reason. Further refusals are offences, for any reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pool::SharedQuota;

/// Offences in a second from which an app is slowed down.
const MOST_OFFENCES: u32 = 10_000;

/// Refusals that a packet-in permits: most apps answer it with a flow-mod and a packet-out.
const FREE: u64 = 4;

/// Most unused refusals that an app may save. Answers come late: about 40,000 packet-ins fit into a ring.
const MOST_FREE: u64 = 1 << 18;

/// Offences that a ring of the doorbell without records counts as, because it wakes the worker.
const RING: u32 = 4;

/// Time between two turns of an app that is slowed down.
const PAUSE: Duration = Duration::from_millis(1);

/// Messages of such an app in one turn.
const SLOWED: usize = 128;

/// The offences of one app at one worker.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that happened, or not")]
pub(crate) struct Throttle {
    shared_quota: Arc<SharedQuota>,
    /// When the app has its next turn, if it is slowed down.
    until: Option<Instant>,
    /// Whether the doorbell is ignored.
    pub(crate) is_deaf: bool,
    /// Offences since the app's last turn.
    offences: u32,
    /// Messages that were refused since then.
    refused: u64,
    /// Permitted refusals that are unused.
    free: u64,
    /// Packet-ins that the app had received when these were last added.
    delivered: u64,
    /// Rings without records in the current second.
    rings: u32,
    /// Whether the doorbell has rung since the app's last turn.
    has_rung: bool,
    /// Whether the app's last turn found no records.
    was_silent: bool,
    /// Whether the app has sent a message since its last `Done`.
    has_sent: bool,
}

/// The reason for slowing an app down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slowed {
    /// Its offences in this second.
    pub(crate) offences: u32,
    /// Its rings without records at this worker.
    pub(crate) rings: u32,
}

impl Throttle {
    /// The throttle of an app without offences.
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

    /// When the app has its next turn, if it is slowed down.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Messages that may be taken in a turn now, at most `most`; `None` if the app has no turn now.
    #[inline]
    pub(crate) fn portion(&self, most: usize, now: Instant) -> Option<usize> {
        match self.until {
            None => Some(most),
            Some(until) => (until <= now).then_some(most.min(SLOWED)),
        }
    }

    /// Notes that the doorbell has rung.
    pub(crate) fn note_ring(&mut self) {
        self.has_rung = true;
    }

    /// Notes that a message of the app was refused.
    pub(crate) fn note_refusal(&mut self) {
        self.refused += 1;
    }

    /// Notes that the app has sent a message.
    #[inline]
    pub(crate) fn note_message(&mut self) {
        self.has_sent = true;
    }

    /// Notes that the app has handled `count` records. Without a record or a message, that is an offence.
    #[inline]
    pub(crate) fn note_done(&mut self, count: u32) {
        let has_sent = std::mem::take(&mut self.has_sent);
        self.offences = self.offences.saturating_add((count == 0 && !has_sent).into());
    }

    /// Ends a turn of the app that took this many messages. The app has received `delivered` packet-ins in all. Returns
    /// its offences if it is slowed down from now on.
    pub(crate) fn end_turn(
        &mut self,
        taken: usize,
        delivered: u64,
        now: Instant,
    ) -> Option<Slowed> {
        let given = delivered.saturating_sub(std::mem::replace(&mut self.delivered, delivered));
        self.free = self.free.saturating_add(given.saturating_mul(FREE)).min(MOST_FREE);
        let refused = std::mem::take(&mut self.refused);
        let unpaid = refused.saturating_sub(self.free);
        self.free = self.free.saturating_sub(refused);
        self.offences = self.offences.saturating_add(u32::try_from(unpaid).unwrap_or(u32::MAX));
        // A ring that comes just after its records were taken is no offence.
        let was_silent = std::mem::replace(&mut self.was_silent, taken == 0);
        if std::mem::take(&mut self.has_rung) && taken == 0 && was_silent {
            self.offences = self.offences.saturating_add(RING);
            self.rings = self.rings.saturating_add(1);
        }
        let all = self
            .shared_quota
            .offend(std::mem::take(&mut self.offences), self.shared_quota.second(now));
        let was_slowed = self.until.is_some();
        self.until = (all >= MOST_OFFENCES).then(|| now + PAUSE);
        if all < MOST_OFFENCES && was_slowed {
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
    fn refusals_slow_an_app_until_the_second_ends() {
        let (mut throttle, now) = throttle();
        for _ in 1..MOST_OFFENCES {
            throttle.note_refusal();
        }
        assert_eq!(throttle.end_turn(9, 0, now), None);
        assert_eq!(throttle.portion(4096, now), Some(4096));
        throttle.note_refusal();
        assert_eq!(
            throttle.end_turn(9, 0, now),
            Some(Slowed { offences: MOST_OFFENCES, rings: 0 })
        );
        assert_eq!(throttle.portion(4096, now), None);
        assert_eq!(throttle.portion(4096, now + PAUSE), Some(SLOWED));
        assert_eq!(throttle.end_turn(SLOWED, 0, now + PAUSE), None, "reported once");
        assert_eq!(throttle.portion(4096, now + PAUSE), None);
        throttle.end_turn(0, 0, now + 1000 * MS);
        assert_eq!(throttle.portion(4096, now + 1000 * MS), Some(4096));
    }

    #[test]
    fn one_refusal_per_packet_in_is_no_offence() {
        let (mut throttle, now) = throttle();
        let mut delivered = 0;
        for _ in 0..20 {
            delivered += u64::from(MOST_OFFENCES);
            (0..MOST_OFFENCES).for_each(|_| throttle.note_refusal());
            assert_eq!((throttle.end_turn(9, delivered, now), throttle.until()), (None, None));
        }
    }

    #[test]
    fn late_answers_to_a_full_ring_are_no_offence() {
        let (mut throttle, now) = throttle();
        throttle.end_turn(0, MOST_FREE / FREE, now);
        (0..MOST_FREE).for_each(|_| throttle.note_refusal());
        assert_eq!(throttle.end_turn(9, MOST_FREE / FREE, now + 1000 * MS), None);
    }

    #[test]
    fn refusals_above_the_rate_of_packet_ins_are_offences() {
        let (mut throttle, now) = throttle();
        // Old packet-ins permit a bounded number of refusals only.
        throttle.end_turn(0, u64::MAX, now);
        (0..MOST_FREE).for_each(|_| throttle.note_refusal());
        assert_eq!(throttle.end_turn(9, u64::MAX, now), None);
        (0..MOST_OFFENCES).for_each(|_| throttle.note_refusal());
        let slowed = Slowed { offences: MOST_OFFENCES, rings: 0 };
        assert_eq!(throttle.end_turn(9, u64::MAX, now), Some(slowed));
    }

    #[test]
    fn rings_without_records_slow_an_app() {
        let (mut throttle, now) = throttle();
        for _ in 0..MOST_OFFENCES {
            throttle.end_turn(1, 0, now);
            throttle.note_ring();
            throttle.end_turn(0, 0, now);
        }
        assert_eq!(throttle.until(), None, "each came just behind a message");
        let mut rings = 0;
        let slowed = loop {
            throttle.note_ring();
            rings += 1;
            if let Some(slowed) = throttle.end_turn(0, 0, now) {
                break slowed;
            }
        };
        assert_eq!(
            (slowed.offences, slowed.rings, rings),
            (MOST_OFFENCES, MOST_OFFENCES / RING, MOST_OFFENCES / RING)
        );
    }

    #[test]
    fn empty_done_is_an_offence() {
        let (mut throttle, now) = throttle();
        for _ in 0..2 * MOST_OFFENCES {
            throttle.note_message();
            throttle.note_done(0);
            throttle.note_done(1);
        }
        assert_eq!(throttle.end_turn(9, 0, now), None);
        (0..MOST_OFFENCES).for_each(|_| throttle.note_done(0));
        assert!(throttle.end_turn(9, 0, now).is_some());
    }

    #[test]
    fn workers_count_offences_together() {
        let shared_quota = Arc::new(SharedQuota::new(2));
        let [mut one, mut other] = [(), ()].map(|()| Throttle::new(Arc::clone(&shared_quota)));
        let now = Instant::now();
        (0..MOST_OFFENCES).for_each(|_| one.note_refusal());
        assert!(one.end_turn(1, 0, now).is_some());
        assert!(other.end_turn(1, 0, now).is_some());
    }
}
