//! Counts time in ticks, a quarter of the greatest age each, so that a host's age takes three bits.
//!
//! A host that was learned in tick `t` is known in the ticks `t` to `t + 4`. It is therefore forgotten when it has been
//! silent for the greatest age at least, and for a quarter more at most.

use std::time::Duration;

/// The ticks of the greatest age.
const TICKS: u64 = 4;

/// The bits of an age.
const MASK: u64 = 7;

const _: () = assert!(TICKS < MASK, "an age tells the ticks of hosts that are known apart");

/// How many ticks have passed; 0 for ever if hosts do not grow old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick(u64);

impl Tick {
    /// The lowest bits, which an entry keeps.
    #[inline]
    pub(super) fn age_bits(self) -> u64 {
        self.0 & MASK
    }

    /// Whether a host with these bits is still known. `swept` is the tick of the last sweep, after which all
    /// hosts were at most [`TICKS`] old; none was learned later than in that tick.
    #[inline]
    pub(super) fn knows(self, age_bits: u64, swept: Self) -> bool {
        let age_at_sweep = swept.0.wrapping_sub(age_bits) & MASK;
        (self.0 - swept.0).saturating_add(age_at_sweep) <= TICKS
    }
}

/// The table's idea of the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    tick_ns: u64,
    now: Tick,
}

impl Clock {
    /// Hosts do not grow old.
    pub(super) const STOPPED: Self = Self { tick_ns: u64::MAX, now: Tick(0) };

    /// Hosts grow this old.
    pub(super) fn new(max_age: Duration) -> Self {
        let max_age_ns = u64::try_from(max_age.as_nanos()).unwrap_or(u64::MAX);
        Self { tick_ns: max_age_ns.div_ceil(TICKS).max(1), now: Tick(0) }
    }

    #[inline]
    pub(super) fn now(&self) -> Tick {
        self.now
    }

    pub(super) fn advance_to(&mut self, now: Duration) {
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.now = Tick((now_ns / self.tick_ns).max(self.now.0));
    }
}
