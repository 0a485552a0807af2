//! What an app has used of what it may: messages in this second.

use std::sync::Arc;
use std::time::Instant;

use openflow::{Kind, Version};

use crate::check::Allowed;
use crate::policy::Quota;
use crate::pool::{KINDS, SharedQuota};

/// The kinds that are counted apart.
const FLOW_MODS: usize = 0;
const PACKET_OUTS: usize = 1;
const REQUESTS: usize = KINDS - 1;

/// What this worker has taken of what the app may send in the second that runs.
#[derive(Debug)]
pub(crate) struct Spent {
    shared_quota: Arc<SharedQuota>,
    /// Which second it is.
    second: u32,
    /// Of each kind.
    left: [u32; KINDS],
    /// All that were sent, of each kind, since the kernel knows the app.
    sent: [u64; KINDS],
}

impl Spent {
    pub(crate) fn new(shared_quota: Arc<SharedQuota>) -> Self {
        Self { shared_quota, second: 0, left: [0; KINDS], sent: [0; KINDS] }
    }

    /// Lets time pass.
    pub(crate) fn refresh(&mut self, now: Instant) {
        let second = self.shared_quota.second(now);
        if second != self.second {
            (self.second, self.left) = (second, [0; KINDS]);
        }
    }

    /// Counts a message that is sent in the second of the last [`refresh`](Self::refresh). `false` if it is
    /// above the quota.
    #[inline]
    pub(crate) fn spend(&mut self, what: Allowed, quota: Quota) -> bool {
        let mut account = self.account(what, quota);
        let may = account.refill();
        if may {
            account.spend(1);
        }
        may
    }

    /// Charges a message that was refused, by the kind that it claims to be, if the quota has any left.
    pub(crate) fn charge(&mut self, message: &[u8], quota: Quota, now: Instant) {
        self.refresh(now);
        let version = message.first().and_then(|it| Version::from_wire(*it).ok());
        let kind = version
            .zip(message.get(1))
            .and_then(|(version, kind)| Kind::from_wire(version, *kind).ok());
        let (kind, most) = match kind {
            Some(
                Kind::FlowMod | Kind::GroupMod | Kind::MeterMod | Kind::PortMod | Kind::TableMod,
            ) => (FLOW_MODS, quota.flow_mods),
            Some(Kind::PacketOut) => (PACKET_OUTS, quota.packet_outs),
            _ => (REQUESTS, quota.requests),
        };
        let left = &mut self.left[kind];
        if *left == 0 {
            *left = self.shared_quota.take(kind, most, self.second);
        }
        *left = left.saturating_sub(1);
    }

    /// Where messages like this one are counted.
    #[inline]
    pub(crate) fn account(&mut self, what: Allowed, quota: Quota) -> Account<'_> {
        let (kind, most) = match what {
            Allowed::FlowMod { .. } | Allowed::GroupMod | Allowed::MeterMod | Allowed::Config => {
                (FLOW_MODS, quota.flow_mods)
            }
            Allowed::PacketOut => (PACKET_OUTS, quota.packet_outs),
            Allowed::Request(_) | Allowed::Experimenter => (REQUESTS, quota.requests),
        };
        let Self { shared_quota, second, left, sent } = self;
        Account {
            shared_quota,
            second: *second,
            kind,
            most,
            left: &mut left[kind],
            sent: &mut sent[kind],
        }
    }

    /// Where flow-mods are counted, and where packet-outs are.
    #[inline]
    pub(crate) fn accounts(&mut self, quota: Quota) -> [Account<'_>; 2] {
        let Self { shared_quota, second, left, sent } = self;
        let (shared_quota, second, kinds) = (&**shared_quota, *second, [FLOW_MODS, PACKET_OUTS]);
        let left = left.get_disjoint_mut(kinds).expect("two kinds");
        let sent = sent.get_disjoint_mut(kinds).expect("two kinds");
        let ([left, left_2], [sent, sent_2]) = (left, sent);
        [
            Account { shared_quota, second, kind: FLOW_MODS, most: quota.flow_mods, left, sent },
            Account {
                shared_quota,
                second,
                kind: PACKET_OUTS,
                most: quota.packet_outs,
                left: left_2,
                sent: sent_2,
            },
        ]
    }

    /// How many it has sent: what changes switches, packet-outs, requests.
    pub(crate) fn sent(&self) -> [u64; KINDS] {
        self.sent
    }
}

/// One kind of messages.
#[derive(Debug)]
pub(crate) struct Account<'s> {
    shared_quota: &'s SharedQuota,
    second: u32,
    kind: usize,
    /// The quota.
    most: u32,
    left: &'s mut u32,
    sent: &'s mut u64,
}

impl Account<'_> {
    /// How many more may be sent without asking again.
    #[inline]
    pub(crate) fn left(&self) -> u32 {
        *self.left
    }

    /// Takes what may be sent beyond that, if none is [`left`](Self::left). `false` if there is still none then.
    #[inline]
    pub(crate) fn refill(&mut self) -> bool {
        if *self.left == 0 {
            *self.left = self.shared_quota.take(self.kind, self.most, self.second);
        }
        *self.left > 0
    }

    /// Counts so many as sent.
    ///
    /// # Panics
    /// If not as many were [`left`](Self::left).
    #[inline]
    pub(crate) fn spend(&mut self, count: u32) {
        *self.left = self.left.checked_sub(count).expect("it was asked how many are left");
        *self.sent += u64::from(count);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::check::Expects;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn refused_messages_count_too_by_the_kind_that_they_claim_to_be() {
        let mut spent = Spent::new(Arc::new(SharedQuota::new(1)));
        let now = Instant::now();
        let quota = Quota { flow_mods: 2, packet_outs: 2, requests: 2 };
        spent.charge(&[4, 14], quota, now);
        spent.charge(&[1, 13], quota, now);
        spent.charge(&[], quota, now);
        spent.charge(&[9, 14], quota, now);
        let kinds = [
            Allowed::FlowMod { sweeps: false },
            Allowed::PacketOut,
            Allowed::Request(Expects::only(Kind::BarrierReply)),
        ];
        let passed = kinds.map(|kind| (0..9).filter(|_| spent.spend(kind, quota)).count());
        assert_eq!(passed, [1, 1, 0]);
        assert_eq!(spent.sent(), [1, 1, 0], "refused messages were not sent");
    }

    #[test]
    fn quota_is_full_after_its_messages_and_new_in_the_next_second() {
        let mut spent = Spent::new(Arc::new(SharedQuota::new(1)));
        let now = Instant::now();
        let quota = Quota { flow_mods: 2, packet_outs: 1, requests: 1 };
        spent.refresh(now);
        let flow_mod = Allowed::FlowMod { sweeps: false };
        let said: Vec<bool> = (0..3).map(|_| spent.spend(flow_mod, quota)).collect();
        assert_eq!(said, [true, true, false]);
        assert!(!spent.spend(Allowed::GroupMod, quota));
        assert!(!spent.spend(Allowed::MeterMod, quota));
        assert!(!spent.spend(Allowed::Config, quota));
        assert!(spent.spend(Allowed::PacketOut, quota));
        assert!(spent.spend(Allowed::Experimenter, quota));
        let barrier = Allowed::Request(Expects::only(Kind::BarrierReply));
        assert!(!spent.spend(barrier, quota));
        spent.refresh(now + SECOND);
        assert!(spent.spend(flow_mod, quota));
        assert_eq!(spent.sent(), [3, 1, 1]);
    }
}
