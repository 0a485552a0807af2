//! Decides what an app may do with LLDP, by which switches and link discovery learn the topology.
//!
//! An app without `topology.probe` must not send LLDP, make LLDP of another packet, or write flows for it:
//!
//! * A packet-out carries no LLDP in any encapsulation ([`openflow::ethernet`]).
//! * An action that gives a packet another type field gives it none that is LLDP's, and none behind which LLDP
//!   could be hidden.
//! * A flow does not name LLDP's ethertype in its match. To forward LLDP shows links that do not exist, and to drop it hides
//!   links. A flow that only reports LLDP to the controller is no exception: a later modify with a wider match, which
//!   does not name the ethertype, could give that flow other actions.
//!
//! A flow that does not name the ethertype is for all packets of its match, LLDP among them, and needs no grant.

use openflow::ethernet::{LLDP, PBB, is_vlan_tag, may_hide};
use openflow::nicira::FieldId;
use openflow::{Action, Field, FlowMod, FlowModView};

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

/// Whether a flow-mod adds or changes flows whose match names LLDP.
#[inline]
pub(super) fn names_lldp(flow_mod: &FlowModView<'_>) -> bool {
    flow_mod.eth_type == Some(LLDP) && !flow_mod.command.is_delete()
}

/// Whether a flow-mod adds or changes flows whose match names LLDP by a field of another class, such as `NXM_OF_ETH_TYPE`.
#[cold]
pub(super) fn names_lldp_otherwise(message: &[u8]) -> bool {
    const ETH_TYPE: u8 = 5; // OpenFlow 1.3.5 §7.2.3.7
    let Ok(flow_mod) = FlowMod::decode(message) else { return true };
    let is_lldp = |field: Field| {
        let Some((id, value, mask)) = FieldId::of_field(&field) else { return false };
        let mask = mask.unwrap_or(u128::MAX);
        id.same_as() == Some(ETH_TYPE) && value & mask == u128::from(LLDP) & mask
    };
    !flow_mod.command.is_delete() && flow_mod.match_.fields().any(is_lldp)
}
