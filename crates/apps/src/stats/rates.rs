//! Computes rates from two readings of counters, or says why there is none.
//!
//! A switch may restart, count wrongly or lie. No rate is better than a wrong one:
//!
//! | readings | result |
//! | --- | --- |
//! | the switch does not count it | no rate |
//! | too close together, or an answer that took too long for its interval | no rate |
//! | a counter that went back | implausible |
//! | bytes without packets, or more than a packet can have | implausible |
//! | more than any link carries | implausible |

use std::time::Duration;

/// More than any link carries: 100 Tbit/s, in bytes per second.
const MOST_BYTES: u64 = 12_500_000_000_000;

/// Packets per second of such a link with the shortest frames.
const MOST_PACKETS: u64 = 150_000_000_000;

/// Bytes of the largest packet that a switch counts as one, segmentation by the network card included.
const LARGEST_PACKET: u64 = 66_000;

/// Readings that are closer together give no rate.
const SHORTEST: Duration = Duration::from_millis(200);

/// When counters were read: the switch read them between these times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) asked: Duration,
    pub(super) answered: Duration,
}

impl Moment {
    fn middle(self) -> Duration {
        self.asked + self.latency() / 2
    }

    pub(super) fn latency(self) -> Duration {
        self.answered.saturating_sub(self.asked)
    }

    /// Returns the time between two readings; `None` if it is too short, or not known to within a tenth.
    pub(super) fn since(self, before: Self) -> Option<Duration> {
        let time = self.middle().checked_sub(before.middle())?;
        let uncertain = (self.latency() + before.latency()) / 2;
        (time >= SHORTEST && uncertain <= time / 10).then_some(time)
    }
}

/// Packets and bytes in one direction; `None` where the switch does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) packets: Option<u64>,
    pub(super) bytes: Option<u64>,
}

/// A rate of a [`Flow`], per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) packets: Option<u64>,
    pub(super) bytes: Option<u64>,
}

/// The readings contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Implausible;

impl Flow {
    /// Returns the rate since an earlier reading.
    pub(super) fn since(self, before: Self, time: Duration) -> Result<Rate, Implausible> {
        let packets = increase(before.packets, self.packets)?;
        let bytes = increase(before.bytes, self.bytes)?;
        if let (Some(packets), Some(bytes)) = (packets, bytes)
            && bytes > packets.saturating_mul(LARGEST_PACKET)
        {
            return Err(Implausible);
        }
        let rate = Rate {
            packets: packets.map(|it| per_second(it, time)),
            bytes: bytes.map(|it| per_second(it, time)),
        };
        let is_too_fast = rate.packets.is_some_and(|it| it > MOST_PACKETS)
            || rate.bytes.is_some_and(|it| it > MOST_BYTES);
        if is_too_fast { Err(Implausible) } else { Ok(rate) }
    }
}

impl Rate {
    pub(super) fn bits(self) -> Option<u64> {
        self.bytes.map(|bytes| bytes.saturating_mul(8))
    }
}

/// Returns by how much a counter has grown.
fn increase(before: Option<u64>, now: Option<u64>) -> Result<Option<u64>, Implausible> {
    match (before, now) {
        (Some(before), Some(now)) => now.checked_sub(before).map(Some).ok_or(Implausible),
        _ => Ok(None),
    }
}

/// Returns a rate per second, rounded.
fn per_second(increase: u64, time: Duration) -> u64 {
    let nanos = time.as_nanos().max(1);
    let rate = (u128::from(increase) * 1_000_000_000 + nanos / 2) / nanos;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rosemary_sdk::openflow::Available as _;

    use super::*;

    fn moment(asked_ms: u64, answered_ms: u64) -> Moment {
        let [asked, answered] = [asked_ms, answered_ms].map(Duration::from_millis);
        Moment { asked, answered }
    }

    fn flow(packets: u64, bytes: u64) -> Flow {
        Flow { packets: packets.available(), bytes: bytes.available() }
    }

    const SECONDS: Duration = Duration::from_secs(4);

    #[test]
    fn rate_is_increase_by_time() {
        let rate = flow(110, 10_000).since(flow(10, 2_000), SECONDS).unwrap();
        assert_eq!((rate.packets, rate.bytes, rate.bits()), (Some(25), Some(2000), Some(16_000)));
        let rate = flow(u64::MAX, 10_000).since(flow(10, 2_000), SECONDS).unwrap();
        assert_eq!((rate.packets, rate.bytes), (None, Some(2000)));
    }

    #[test]
    fn contradicting_readings_have_no_rate() {
        for (before, now) in [
            (flow(10, 1000), flow(9, 2000)),
            (flow(10, 1000), flow(20, 999)),
            (flow(10, 1000), flow(10, 1064)),
            (flow(10, 1000), flow(11, 100_000)),
            (flow(0, 0), flow(1 << 60, 1 << 62)),
            (flow(0, 0), flow(1 << 50, 1 << 50)),
        ] {
            assert_eq!(now.since(before, SECONDS), Err(Implausible), "{before:?} {now:?}");
        }
    }

    #[test]
    fn late_answer_has_no_rate() {
        assert_eq!(moment(5000, 5000).since(moment(0, 0)), Some(Duration::from_secs(5)));
        assert_eq!(moment(5000, 5400).since(moment(0, 400)), Some(Duration::from_secs(5)));
        assert_eq!(moment(5000, 6400).since(moment(0, 0)), None);
        assert_eq!(moment(5000, 5000).since(moment(4900, 4900)), None);
        assert_eq!(moment(0, 0).since(moment(5000, 5000)), None);
    }

    proptest! {
        #[test]
        fn any_readings_are_handled(counters in any::<[u64; 4]>(), nanos in any::<u64>()) {
            let [a, b, c, d] = counters;
            if let Ok(rate) = flow(a, b).since(flow(c, d), Duration::from_nanos(nanos)) {
                prop_assert!(rate.bytes.is_none_or(|it| it <= MOST_BYTES));
                prop_assert!(rate.packets.is_none_or(|it| it <= MOST_PACKETS));
            }
        }
    }
}
