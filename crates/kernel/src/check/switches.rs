//! Holds the rights of an app at each switch.
//!
//! They are made once from the policy: for each switch that a scope names, and for all others. So a message costs no more
//! than before if no grant of its app names a switch, and one search among these switches otherwise.

use control::app::AppId;
use control::policy::{Grant, Policy};

use super::Rights;

/// What one app may do, at each switch.
#[derive(Debug)]
pub(crate) struct AppRights {
    /// At the switches that scopes name, by datapath identifier, in ascending order.
    named: Vec<(u64, Rights)>,
    /// At all others.
    others: Rights,
    /// The grants, as the policy has them.
    pub(super) policy: Policy,
}

impl AppRights {
    /// Of an app with this policy.
    pub(crate) fn of(app: AppId, policy: &Policy) -> Self {
        let dpids = |grant: &Grant| grant.dpids.clone();
        let mut dpids: Vec<u64> = policy.capabilities.iter().flat_map(dpids).collect();
        dpids.sort_unstable();
        dpids.dedup();
        let at = |dpid| (dpid, Rights::of(app, policy, Some(dpid)));
        Self {
            named: dpids.into_iter().map(at).collect(),
            others: Rights::of(app, policy, None),
            policy: policy.clone(),
        }
    }

    /// The rights at the switch `dpid`.
    #[inline]
    pub(crate) fn at(&self, dpid: u64) -> &Rights {
        if self.named.is_empty() { &self.others } else { self.at_named(dpid) }
    }

    #[inline(never)]
    fn at_named(&self, dpid: u64) -> &Rights {
        let index = self.named.binary_search_by_key(&dpid, |(named, _)| *named);
        index.map_or(&self.others, |index| &self.named[index].1)
    }

    /// Whether it writes flows, at any switch.
    pub(crate) fn writes_flows(&self) -> bool {
        let mut all = self.named.iter().map(|(_, rights)| rights).chain([&self.others]);
        all.any(|rights| !rights.flow_write.is_empty())
    }

    /// Whether it may change the flows of others, at any switch.
    pub(crate) fn writes_any_flow(&self) -> bool {
        let mut all = self.named.iter().map(|(_, rights)| rights).chain([&self.others]);
        all.any(|rights| !rights.flow_write_any.is_empty())
    }

    /// Notes whether no other app writes flows.
    pub(crate) fn set_alone(&mut self, alone: bool) {
        self.others.alone = alone;
        self.named.iter_mut().for_each(|(_, rights)| rights.alone = alone);
    }

    pub(super) fn app(&self) -> AppId {
        self.others.app
    }

    /// Whether no other app writes flows.
    pub(crate) fn is_alone(&self) -> bool {
        self.others.alone
    }
}
