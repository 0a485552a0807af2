//! Formats capture times: `2026-11-21T09:24:03.123456Z`.

use std::fmt;

use time::OffsetDateTime;

const NANOS: u128 = 1_000_000_000;

/// A point in time, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::ofp) struct Time(i128);

impl Time {
    /// Converts `units` of 1/`resolution` seconds, plus `offset` seconds.
    pub(super) fn new(units: u64, resolution: u64, offset: i64) -> Self {
        let nanos = u128::from(units) * NANOS / u128::from(resolution.max(1));
        let offset = i128::from(offset) * NANOS.cast_signed();
        Self(nanos.cast_signed() + offset)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(self.0) else {
            return write!(f, "{} ns after 1970", self.0); // no year of four digits
        };
        let (date, micro) = (at.date(), at.microsecond());
        write!(f, "{date}T{:02}:{:02}:{:02}.{micro:06}Z", at.hour(), at.minute(), at.second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_prints_as_date_and_time_of_day() {
        let at = |seconds: u64| Time::new(seconds * 1_000_000 + 42, 1_000_000, 0).to_string();
        assert_eq!(at(0), "1970-01-01T00:00:00.000042Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000042Z");
        assert_eq!(at(1_795_253_043), "2026-11-21T09:24:03.000042Z");
        assert_eq!(at(253_402_300_799), "9999-12-31T23:59:59.000042Z");
        assert_eq!(at(253_402_300_800), "253402300800000042000 ns after 1970");
        assert_eq!(Time::new(0, 1, -1).to_string(), "1969-12-31T23:59:59.000000Z");
    }

    #[test]
    fn resolutions_give_the_same_time() {
        let time = Time::new(1_795_253_043, 1, 0);
        assert_eq!(Time::new(1_795_253_043 << 20, 1 << 20, 0), time);
        assert_eq!(Time::new(1_795_253_000, 1, 43), time);
        assert_eq!(Time::new(u64::MAX, 0, i64::MIN), Time::new(u64::MAX, 1, i64::MIN));
    }
}
