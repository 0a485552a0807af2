//! Measures the CPU time of the thread instead of wall-clock time, because the benchmark machines
//! are shared: other processes then affect only caches and sibling hardware threads.

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time of this thread.
pub(crate) struct ThreadTime;

/// Returns the CPU time of this thread so far.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().expect("it counts up from 0"),
        time.tv_nsec.try_into().expect("it is less than a second"),
    )
}

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        now()
    }
    fn end(&self, start: Duration) -> Duration {
        now().saturating_sub(start)
    }
    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }
    fn zero(&self) -> Duration {
        Duration::ZERO
    }
    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}
