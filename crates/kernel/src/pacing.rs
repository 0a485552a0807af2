//! The pace of an app: a switch receives at most a number of its flow-mods per second.
//!
//! A paced app has a token bucket for each switch. A flow-mod leaves the app's queue
//! ([`AppQueues`](crate::app_queues::AppQueues)) when the bucket has a token for it; other messages need no token, and the app's
//! messages keep their order.

use std::time::{Duration, Instant};

use openflow::{BundleAdd, Header, Kind, Version};

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

/// Returns the size of the first message, and whether it is a flow-mod or adds one to a bundle; `None` if there is no whole message.
pub(crate) fn first_message(bytes: &[u8]) -> Option<(usize, bool)> {
    let head = bytes.first_chunk::<{ Header::SIZE }>()?;
    let size = usize::from(u16::from_be_bytes([head[2], head[3]])).max(Header::SIZE);
    let version = Version::from_wire(head[0]).ok();
    let kind = version.and_then(|version| Kind::from_wire(version, head[1]).ok());
    let message = bytes.get(..size)?;
    let is_flow_mod = match kind {
        Some(Kind::FlowMod) => true,
        Some(Kind::BundleAdd | Kind::Experimenter) => adds_flow_mod(message),
        _ => false,
    };
    Some((size, is_flow_mod))
}

/// Whether a message adds a flow-mod to a bundle.
fn adds_flow_mod(message: &[u8]) -> bool {
    let Ok(add) = BundleAdd::decode(message) else { return false };
    let Ok(header) = Header::decode(add.message) else { return false };
    let version = Version::from_wire(header.version).ok();
    version.and_then(|it| Kind::from_wire(it, header.kind).ok()) == Some(Kind::FlowMod)
}

#[cfg(test)]
mod tests {
    use openflow::{BundleFlags, FlowMod, Match};

    use super::*;

    #[test]
    fn flow_mod_in_a_bundle_takes_a_token() {
        for version in [Version::V1_3, Version::V1_4, Version::V1_5] {
            let mut flow_mod = Vec::new();
            let add = FlowMod::add(Match::new());
            openflow::append(&mut flow_mod, |out| add.encode(version, 1, out)).unwrap();
            let mut barrier = Vec::new();
            openflow::append(&mut barrier, |out| {
                Kind::BarrierRequest.encode_empty(version, 1, out)
            })
            .unwrap();
            for (message, is_flow_mod) in [(&flow_mod, true), (&barrier, false)] {
                let flags = BundleFlags(0);
                let add = BundleAdd { bundle_id: 1, flags, message, time: None };
                let mut added = Vec::new();
                openflow::append(&mut added, |out| add.encode(version, 1, out)).unwrap();
                assert_eq!(first_message(&added), Some((added.len(), is_flow_mod)), "{version}");
                assert_eq!(first_message(message), Some((message.len(), is_flow_mod)));
                assert_eq!(first_message(&added[..added.len() - 1]), None);
            }
        }
    }
}
