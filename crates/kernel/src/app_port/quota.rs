//! Counts an app's messages, and compares them with its quota per second.

use std::sync::Arc;
use std::time::Instant;

use openflow::{Kind, Version};

use crate::check::Allowed;
use crate::pool::{KINDS, SharedQuota};
use control::policy::Quota;

/// A kind of messages that is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metered {
    /// Flow-mods and other messages that change a switch.
    FlowMods,
    PacketOuts,
    Requests,
}

impl Metered {
    fn most(self, quota: Quota) -> u32 {
        match self {
            Self::FlowMods => quota.flow_mods,
            Self::PacketOuts => quota.packet_outs,
            Self::Requests => quota.requests,
        }
    }

    /// The kind that a message claims to be, which was not checked.
    fn claimed_by(message: &[u8]) -> Self {
        let version = message.first().and_then(|it| Version::from_wire(*it).ok());
        let kind = version
            .zip(message.get(1))
            .and_then(|(version, kind)| Kind::from_wire(version, *kind).ok());
        match kind {
            Some(
                Kind::FlowMod | Kind::GroupMod | Kind::MeterMod | Kind::PortMod | Kind::TableMod,
            ) => Self::FlowMods,
            Some(Kind::PacketOut) => Self::PacketOuts,
            _ => Self::Requests,
        }
    }
}

impl From<Allowed> for Metered {
    #[inline]
    fn from(allowed: Allowed) -> Self {
        match allowed {
            Allowed::FlowMod { .. }
            | Allowed::GroupMod { .. }
            | Allowed::MeterMod { .. }
            | Allowed::Config => Self::FlowMods,
            Allowed::PacketOut => Self::PacketOuts,
            Allowed::Request(_) | Allowed::Experimenter => Self::Requests,
        }
    }
}

/// One worker's counters of an app, and its portion of the app's quota in the current second.
#[derive(Debug)]
pub(crate) struct QuotaMeter {
    shared_quota: Arc<SharedQuota>,
    /// The current second.
    second: u32,
    /// Messages left of the portion, by kind.
    left: [u32; KINDS],
    /// Messages sent since the kernel knows the app, by kind.
    sent: [u64; KINDS],
}

impl QuotaMeter {
    pub(crate) fn new(shared_quota: Arc<SharedQuota>) -> Self {
        Self { shared_quota, second: 0, left: [0; KINDS], sent: [0; KINDS] }
    }

    /// Begins another second if it is time.
    pub(crate) fn refresh(&mut self, now: Instant) {
        let second = self.shared_quota.second(now);
        if second != self.second {
            (self.second, self.left) = (second, [0; KINDS]);
        }
    }

    /// Whether the quota allows this number of messages of a kind in the second of the last [`refresh`](Self::refresh).
    ///
    /// `false` for several messages does not say that each alone is refused: a new portion is taken only when the last one
    /// is used up.
    #[inline]
    pub(crate) fn allows(&mut self, kind: Metered, messages: u32, quota: Quota) -> bool {
        let left = match self.left[kind as usize] {
            0 => self.take_portion(kind, quota),
            left => left,
        };
        left >= messages
    }

    /// Whether the quota allows all of these messages in the second of the last [`refresh`](Self::refresh), with as many
    /// portions as that takes.
    pub(crate) fn allows_all(&mut self, kind: Metered, messages: u32, quota: Quota) -> bool {
        loop {
            let left = self.left[kind as usize];
            if left >= messages {
                return true;
            }
            let more = self.take_portion(kind, quota);
            self.left[kind as usize] = left.saturating_add(more);
            if more == 0 {
                return false;
            }
        }
    }

    #[inline(never)]
    fn take_portion(&mut self, kind: Metered, quota: Quota) -> u32 {
        let portion = self.shared_quota.take(kind as usize, kind.most(quota), self.second);
        self.left[kind as usize] = portion;
        portion
    }

    /// Counts messages that are sent, which the quota [`allows`](Self::allows).
    #[inline]
    pub(crate) fn count(&mut self, kind: Metered, messages: u32) {
        self.left[kind as usize] = self.left[kind as usize].saturating_sub(messages);
        self.sent[kind as usize] += u64::from(messages);
    }

    /// Charges a refused message to the quota, by the kind that it claims to be.
    pub(crate) fn charge(&mut self, message: &[u8], quota: Quota, now: Instant) {
        self.refresh(now);
        let kind = Metered::claimed_by(message);
        if self.allows(kind, 1, quota) {
            self.left[kind as usize] -= 1;
        }
    }

    /// Messages sent: changes of switches, packet-outs, requests.
    pub(crate) fn sent(&self) -> [u64; KINDS] {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::check::Expects;

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts a message as sent; `false` if it is above the quota.
    fn send(meter: &mut QuotaMeter, allowed: Allowed, quota: Quota) -> bool {
        let is_allowed = meter.allows(allowed.into(), 1, quota);
        if is_allowed {
            meter.count(allowed.into(), 1);
        }
        is_allowed
    }

    #[test]
    fn refused_message_is_charged_by_its_claimed_kind() {
        let mut meter = QuotaMeter::new(Arc::new(SharedQuota::new(1)));
        let now = Instant::now();
        let quota = Quota { flow_mods: 2, packet_outs: 2, requests: 2 };
        meter.charge(&[4, 14], quota, now);
        meter.charge(&[1, 13], quota, now);
        meter.charge(&[], quota, now);
        meter.charge(&[9, 14], quota, now);
        let kinds = [
            Allowed::FlowMod { sweeps: None, adds_to: None, deletes: false },
            Allowed::PacketOut,
            Allowed::Request(Expects::only(Kind::BarrierReply)),
        ];
        let passed = kinds.map(|kind| (0..9).filter(|_| send(&mut meter, kind, quota)).count());
        assert_eq!(passed, [1, 1, 0]);
        assert_eq!(meter.sent(), [1, 1, 0], "refused messages were not sent");
    }

    #[test]
    fn many_messages_take_several_portions() {
        let meter = || QuotaMeter::new(Arc::new(SharedQuota::new(4)));
        let quota = Quota { flow_mods: 1000, packet_outs: 1, requests: 1 };
        for used in [0, 1, 400] {
            let mut meter = meter();
            meter.refresh(Instant::now());
            assert!(meter.allows_all(Metered::FlowMods, used, quota));
            meter.count(Metered::FlowMods, used);
            assert!(!meter.allows_all(Metered::FlowMods, 1001 - used, quota));
            assert!(meter.allows_all(Metered::FlowMods, 1000 - used, quota));
            meter.count(Metered::FlowMods, 1000 - used);
            assert!(!meter.allows_all(Metered::FlowMods, 1, quota));
        }
    }

    #[test]
    fn quota_is_new_in_the_next_second() {
        let mut meter = QuotaMeter::new(Arc::new(SharedQuota::new(1)));
        let now = Instant::now();
        let quota = Quota { flow_mods: 2, packet_outs: 1, requests: 1 };
        meter.refresh(now);
        let flow_mod = Allowed::FlowMod { sweeps: None, adds_to: None, deletes: false };
        let sent: Vec<bool> = (0..3).map(|_| send(&mut meter, flow_mod, quota)).collect();
        assert_eq!(sent, [true, true, false]);
        assert!(!send(&mut meter, Allowed::GroupMod { deletes: false }, quota));
        assert!(!send(&mut meter, Allowed::MeterMod { deletes: false }, quota));
        assert!(!send(&mut meter, Allowed::Config, quota));
        assert!(send(&mut meter, Allowed::PacketOut, quota));
        assert!(send(&mut meter, Allowed::Experimenter, quota));
        let barrier = Allowed::Request(Expects::only(Kind::BarrierReply));
        assert!(!send(&mut meter, barrier, quota));
        meter.refresh(now + SECOND);
        assert!(send(&mut meter, flow_mod, quota));
        assert_eq!(meter.sent(), [3, 1, 1]);
    }
}
