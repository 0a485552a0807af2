//! The pace of an app: a switch receives at most a number of its flow-mods per second.
//!
//! A paced app has a token bucket for each switch. A flow-mod leaves the app's queue
//! ([`AppQueues`](crate::app_queues::AppQueues)) when the bucket has a token for it; other messages need no token, and the app's
//! messages keep their order.

use std::time::{Duration, Instant};

use openflow::{Header, Kind, Version};

/// Time whose flow-mods may leave at once after a pause.
const BURST: Duration = Duration::from_millis(20);

/// Shortest time until the worker looks at a queue again, so that a fast pace does not wake it for each message.
const PORTION: Duration = Duration::from_millis(5);

/// Units of a token: nanoseconds in a second, so that a rate per second adds `rate` units in each nanosecond.
const TOKEN: u64 = 1_000_000_000;

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Flow-mods per second.
    rate: u32,
    /// Parts of tokens.
    credit: u64,
    refilled: Instant,
}

impl Bucket {
    /// Makes a full bucket.
    pub(crate) fn new(rate: u32, now: Instant) -> Self {
        Self { rate, credit: most(rate), refilled: now }
    }

    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }

    /// Continues with another rate. The tokens stay, as far as the bucket can hold them.
    pub(crate) fn set_rate(&mut self, rate: u32, now: Instant) {
        self.refill(now);
        self.rate = rate;
        self.credit = self.credit.min(most(rate));
    }

    pub(crate) fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled).min(Duration::from_secs(1));
        let passed = u64::try_from(passed.as_nanos()).unwrap_or(TOKEN);
        self.credit = (self.credit + passed * u64::from(self.rate)).min(most(self.rate));
        self.refilled = now;
    }

    /// Takes a token; `false` if there is none.
    pub(crate) fn take(&mut self) -> bool {
        let rest = self.credit.checked_sub(TOKEN);
        self.credit = rest.unwrap_or(self.credit);
        rest.is_some()
    }

    /// Returns when the worker should look for a token again.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        let missing = TOKEN.saturating_sub(self.credit);
        let wait = Duration::from_nanos(missing.div_ceil(self.rate.max(1).into()));
        now + wait.max(PORTION)
    }
}

/// The most credit of a bucket.
fn most(rate: u32) -> u64 {
    let burst = u64::try_from(BURST.as_nanos()).unwrap_or(TOKEN);
    (burst * u64::from(rate)).max(TOKEN)
}

/// Returns the size of the first message, and whether it is a flow-mod; `None` if there is no whole message.
pub(crate) fn first_message(bytes: &[u8]) -> Option<(usize, bool)> {
    let head = bytes.first_chunk::<{ Header::SIZE }>()?;
    let size = usize::from(u16::from_be_bytes([head[2], head[3]])).max(Header::SIZE);
    let version = Version::from_wire(head[0]).ok();
    let kind = version.and_then(|version| Kind::from_wire(version, head[1]).ok());
    (size <= bytes.len()).then_some((size, kind == Some(Kind::FlowMod)))
}
