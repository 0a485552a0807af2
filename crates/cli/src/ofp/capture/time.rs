//! Formats capture times: `2026-11-21T09:24:03.123456Z`.

use std::fmt;

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
        let micros = self.0.div_euclid(1000);
        let (seconds, micro) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z")
    }
}

/// Returns the Gregorian date `days` days after 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last of a year; 400 years have 146,097
/// days.
fn date(days: i128) -> (i128, i128, i128) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_after_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_after_march + 2) / 5 + 1;
    let month = (months_after_march + 2) % 12 + 1;
    let year = 400 * era + year_of_era + i128::from(month <= 2);
    (year, month, day)
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
    }

    #[test]
    fn resolutions_give_the_same_time() {
        let time = Time::new(1_795_253_043, 1, 0);
        assert_eq!(Time::new(1_795_253_043 << 20, 1 << 20, 0), time);
        assert_eq!(Time::new(1_795_253_000, 1, 43), time);
        assert_eq!(Time::new(u64::MAX, 0, i64::MIN), Time::new(u64::MAX, 1, i64::MIN));
    }
}
