//! Points in time of the clock with which the kernel stamps packets.

use nix::sys::time::TimeSpec;
use rustix::time::{ClockId, clock_gettime};

/// A point in time of the real-time clock, in nanoseconds since 1970.
///
/// The kernel stamps packets with this clock, so stamps of packets and of this program are comparable. A clock that is
/// set during a measurement falsifies the durations across that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(i64);

impl Stamp {
    /// The beginning of 1970, which the kernel reports for a packet without a stamp.
    pub(super) const EPOCH: Self = Self(0);

    /// Reads the clock.
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        Self(now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec))
    }

    /// Returns the microseconds since an earlier point, negative if it is later.
    #[expect(
        clippy::cast_precision_loss,
        reason = "differences are far below 2^52 ns, which is 52 days"
    )]
    pub(super) fn us_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / 1000.0
    }
}

impl From<TimeSpec> for Stamp {
    fn from(stamp: TimeSpec) -> Self {
        Self(stamp.tv_sec().saturating_mul(1_000_000_000).saturating_add(stamp.tv_nsec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_in_microseconds() {
        let early: Stamp = TimeSpec::new(7, 999_999_000).into();
        let late: Stamp = TimeSpec::new(8, 1_500).into();
        assert!((late.us_since(early) - 2.5).abs() < 1e-9);
        assert!((early.us_since(late) + 2.5).abs() < 1e-9);
        assert!(Stamp::now() > late);
    }
}
