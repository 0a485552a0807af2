//! Decides what an app may do with LLDP, by which switches and link discovery learn the topology.
//!
//! An app without `topology.probe` must not send LLDP, make LLDP of another packet, or write flows for it:
//!
//! * A packet-out carries no LLDP in any encapsulation ([`openflow::ethernet`]).
//! * An action that gives a packet another type field gives it none that is LLDP's, and none behind which LLDP
//!   could be hidden.
//! * A flow whose match names LLDP's ethertype does nothing but report the packets to the controller. To forward LLDP
//!   elsewhere shows links that do not exist, and to drop it hides links.
//!
//! A flow that does not name the ethertype is for all packets of its match, LLDP among them, and needs no grant.

use openflow::ethernet::{LLDP, PBB, is_vlan_tag, may_hide};
use openflow::{Action, Actions, Field, FlowModView, Instructions, PortNo};

/// Least bytes of LLDP that a flow reports: as many as switches send by default (OpenFlow 1.3.5 §7.3.2).
const LEAST_REPORTED: u16 = 128;

/// Whether a packet that this action gives a new type field could become LLDP, or is LLDP after the type field is removed.
pub(super) fn may_make_lldp(action: &Action) -> bool {
    match *action {
        // The old type field stays behind the new one.
        Action::PushVlan(tpid) if is_vlan_tag(tpid) => false,
        Action::PushPbb(PBB) => false,
        Action::PushVlan(becomes)
        | Action::PushMpls(becomes)
        | Action::PushPbb(becomes)
        | Action::PopMpls(becomes)
        | Action::SetField(Field::EthType(becomes)) => becomes == LLDP || may_hide(becomes),
        _ => false,
    }
}

/// Whether a flow-mod writes flows for LLDP that do more than report it.
#[inline]
pub(super) fn redirects_lldp(flow_mod: &FlowModView<'_>) -> bool {
    flow_mod.eth_type == Some(LLDP)
        && !flow_mod.command.is_delete()
        && !only_reports(&flow_mod.instructions)
}

#[cold]
fn only_reports(instructions: &Instructions<'_>) -> bool {
    let Instructions { meter, apply, clear: _, write, metadata: _, goto_table, others } =
        instructions;
    let report = |actions: &Actions<'_>| {
        actions.iter().all(|action| {
            matches!(action, Action::Output { port: PortNo::CONTROLLER, max_len } if max_len >= LEAST_REPORTED)
        })
    };
    let says_nothing = apply.is_empty() && write.is_empty();
    let goes_on = meter.is_some() || goto_table.is_some() || !others.is_empty();
    !says_nothing && !goes_on && report(apply) && report(write)
}
