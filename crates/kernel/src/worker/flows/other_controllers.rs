//! Reports signs that another controller commands a switch: both would overwrite each other's flows and answer the same packets.
//!
//! * The kernel's table-miss entry, which a flow monitor reports or a check every few seconds, is that of another installation. Both have the same match
//!   and priority, so the later one replaces the earlier. The kernel writes its own again. If the other controller is gone, the sign
//!   ends.
//! * The switch refuses a message because another controller is its master.

use std::time::Duration;

use control::app::Installation;
use control::kernel::{OtherController, OtherSign};
use openflow::FlowStats;

use crate::check::OWN_BITS;
use crate::rewrite::{KERNEL, owner};
use crate::worker::WorkerEvent;
use crate::worker::answers::Replies;

/// Least time between two reports about a switch.
const QUIET: Duration = Duration::from_secs(30);

impl Replies<'_> {
    /// Looks for the entry of another installation among the flows that a switch has listed for the check of the kernel's own.
    pub(in crate::worker) fn look_for_other(&mut self, flows: &[FlowStats<'_>]) {
        let Some(switch) = self.connection.switch_mut() else { return };
        if let Some(cookie) = other_entry(switch.entry_cookie, flows) {
            self.other_entry(cookie);
        }
    }

    /// Reports a sign of another controller. `false` if the switch had one a short time ago.
    pub(in crate::worker) fn other_controller(&mut self, sign: OtherSign) -> bool {
        let now = self.now;
        let Some(switch) = self.connection.switch_mut() else { return false };
        if switch.other_seen.is_some_and(|at| now.saturating_duration_since(at) < QUIET) {
            return false;
        }
        switch.other_seen = Some(now);
        let other = OtherController { dpid: switch.dpid.to_string(), sign };
        self.channels.notify(WorkerEvent::OtherController(other));
        true
    }
}

/// Returns the cookie of a table-miss entry of another installation.
fn other_entry(own: u64, flows: &[FlowStats<'_>]) -> Option<u64> {
    let entries = flows.iter().filter(|flow| owner(flow.cookie) == KERNEL && flow.priority == 0);
    let mut others = entries.map(|flow| flow.cookie).filter(|cookie| *cookie != own);
    others.find(|cookie| installation_of(*cookie).is_some())
}

/// Returns the installation in the cookie of a table-miss entry. Earlier versions wrote 0 there.
pub(super) fn installation_of(cookie: u64) -> Option<Installation> {
    Some(Installation(cookie & OWN_BITS)).filter(|it| it.is_valid())
}

#[cfg(test)]
mod tests {
    use openflow::{ErrorMessage, Instructions, Match, Version};

    use super::*;
    use crate::rewrite::kernel_cookie;

    #[test]
    fn only_the_error_of_a_slave_is_a_sign() {
        let error = |version, kind, code| ErrorMessage { version, kind, code, data: &[] };
        assert!(error(Version::V1_3, 1, 10).is_of_slave());
        for (version, kind, code) in
            [(Version::V1_0, 1, 10), (Version::V1_3, 1, 9), (Version::V1_3, 2, 10)]
        {
            assert!(!error(version, kind, code).is_of_slave());
        }
    }

    #[test]
    fn entry_of_another_installation_is_a_sign_and_that_of_an_earlier_version_is_none() {
        let own = kernel_cookie(Installation(7));
        let flow = |cookie, priority| FlowStats {
            table_id: 0,
            duration: Duration::from_secs(1),
            priority,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: openflow::FlowModFlags::default(),
            cookie,
            packet_count: 0,
            byte_count: 0,
            match_: Match::new(),
            instructions: Instructions::default(),
        };
        let other = kernel_cookie(Installation(8));
        for (flows, sign) in [
            (vec![], None),
            (vec![flow(own, 0)], None),
            (vec![flow(0xffff << 48, 0)], None),
            (vec![flow(other, 0)], Some(Installation(8))),
            (vec![flow(own, 0), flow(other, 0)], Some(Installation(8))),
            (vec![flow(other, 9)], None),
            (vec![flow(1 << 48 | 8, 0), flow(8, 0)], None),
        ] {
            assert_eq!(other_entry(own, &flows).and_then(installation_of), sign, "{flows:?}");
        }
    }
}
