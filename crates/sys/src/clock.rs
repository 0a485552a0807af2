//! Reads the monotonic clock, whose time the events of apps carry.

use rustix::time::{ClockId, clock_gettime};

/// Monotonic time in nanoseconds since an arbitrary moment, the same clock as `std::time::Instant`.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanos
}
