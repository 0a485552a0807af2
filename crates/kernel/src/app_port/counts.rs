//! Counts an app's messages and packet-ins, and reports the beginning and the end of drops.

use std::time::{Duration, Instant};

use control::flight::Messages;

/// Drops that are no further apart than this are reported as one burst.
const QUIET: Duration = Duration::from_secs(1);

/// Counters since the kernel's start, including the app's restarts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Packet-ins that it received, or that wait for it while it does not run.
    pub(crate) delivered: u64,
    /// The bytes of these packet-ins.
    pub(crate) delivered_bytes: u64,
    /// Its messages that were admitted for switches.
    pub(crate) sent: u64,
    /// The bytes of these messages.
    pub(crate) sent_bytes: u64,
    /// The messages that the flight recorder has.
    recorded: Messages,
    /// Packet-ins that were dropped for this app alone, for one of these reasons:
    ///
    /// * Its up ring is full, because it does not handle records fast enough. From then on the kernel drops until half
    ///   of the ring is free again.
    /// * Its backlog is full, because the app does not run and has not been restarted in time.
    /// * The hold queue is full, because guards or other control apps do not answer in time.
    pub(crate) dropped: u64,
    /// Its messages that were refused.
    pub(crate) refused: u64,
    /// Replies, errors, removed flows and refusals that it did not receive.
    pub(crate) lost: u64,
    /// How often it was slowed down.
    pub(crate) slowed: u64,
    /// Flow-mods that waited because of the app's pace.
    pub(crate) delayed: u64,
    /// Records that its zones have handled.
    pub(crate) handled: u64,
    burst: Option<Burst>,
    /// Value of `dropped` at the last report.
    reported: u64,
}

/// A time in which packet-ins are dropped.
#[derive(Debug)]
struct Burst {
    began: Instant,
    /// When drops last increased.
    last: Instant,
    /// Drops before it.
    before: u64,
}

/// A report about drops for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropReport {
    /// The first packet-in of a burst was dropped.
    Began,
    /// No packet-in was dropped for a second after the burst.
    Ended {
        /// Packet-ins dropped in the burst.
        dropped: u64,
        /// Duration of the burst.
        took: Duration,
    },
}

impl Counts {
    /// Returns the app's messages if they have changed since the last call.
    pub(crate) fn unrecorded(&mut self) -> Option<Messages> {
        let messages = Messages {
            received: self.delivered,
            received_bytes: self.delivered_bytes,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
        };
        (std::mem::replace(&mut self.recorded, messages) != messages).then_some(messages)
    }

    /// Counts messages for switches, of this size together.
    #[inline]
    pub(crate) fn sent(&mut self, messages: u32, size: usize) {
        self.sent += u64::from(messages);
        self.sent_bytes += size as u64;
    }

    /// Counts a packet-in of this size.
    pub(crate) fn packet_in(&mut self, taken: bool, size: usize) {
        self.delivered += u64::from(taken);
        self.delivered_bytes += if taken { size as u64 } else { 0 };
        self.dropped += u64::from(!taken);
    }

    /// Reports whether drops have begun or ended. There is at most one report of each kind in a second, so the log
    /// needs no other limit.
    pub(crate) fn drop_report(&mut self, now: Instant) -> Option<DropReport> {
        let before = std::mem::replace(&mut self.reported, self.dropped);
        if self.dropped > before {
            if let Some(burst) = &mut self.burst {
                burst.last = now;
                return None;
            }
            self.burst = Some(Burst { began: now, last: now, before });
            return Some(DropReport::Began);
        }
        let Burst { began, last, before } =
            self.burst.take_if(|burst| now.saturating_duration_since(burst.last) >= QUIET)?;
        let took = last.saturating_duration_since(began);
        Some(DropReport::Ended { dropped: self.dropped - before, took })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_of_drops_is_reported_twice_with_its_count() {
        let (mut counts, start) = (Counts::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        counts.packet_in(true, 60);
        assert_eq!(counts.drop_report(at(0)), None);
        counts.packet_in(false, 60);
        assert_eq!(counts.drop_report(at(100)), Some(DropReport::Began));
        assert_eq!(counts.drop_report(at(200)), None);
        counts.packet_in(false, 60);
        counts.packet_in(false, 60);
        assert_eq!(counts.drop_report(at(1000)), None);
        assert_eq!(counts.drop_report(at(1999)), None);
        let took = Duration::from_millis(900);
        assert_eq!(counts.drop_report(at(2000)), Some(DropReport::Ended { dropped: 3, took }));
        assert_eq!(counts.drop_report(at(9000)), None);
        counts.packet_in(false, 60);
        assert_eq!(counts.drop_report(at(9100)), Some(DropReport::Began));
        let took = Duration::ZERO;
        assert_eq!(counts.drop_report(at(10_100)), Some(DropReport::Ended { dropped: 1, took }));
        assert_eq!((counts.delivered, counts.dropped), (1, 4));
        counts.sent(3, 240);
        let expected = Messages { received: 1, received_bytes: 60, sent: 3, sent_bytes: 240 };
        assert_eq!((counts.unrecorded(), counts.unrecorded()), (Some(expected), None));
    }
}
