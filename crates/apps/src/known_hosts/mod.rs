//! Answers packets between hosts that are known where they are, many at once.
//!
//! The apps `learning_switch` and `forwarding` share this file.

use rosemary_sdk::hosts::{HostTable, ScopeHosts};
use rosemary_sdk::openflow::ethernet::{LLDP, may_carry};
use rosemary_sdk::{
    Batch, Blanks, Dpid, FlowAndPacket, Network, PacketIn, PortNo, Switch, Template,
};

/// Answers events of a batch from number `first` on with flows of the template `pair`, up to the first event that is for
/// the app itself. Returns their number. `takes` chooses packets by their bytes.
#[inline]
pub(crate) fn answer_run(
    hosts: &HostTable<Dpid>,
    pair: &Template,
    takes: impl Fn(&[u8]) -> bool,
    (batch, first): (&Batch<'_>, usize),
    network: &mut Network<'_>,
) -> usize {
    let mut next = first;
    // Events come in runs of one switch.
    while let Some(PacketIn { switch, .. }) = batch.packet_in(next)
        && let Some(of_switch) = hosts.scope(switch.dpid)
    {
        let packets = batch.packet_ins_from(next).take_while(|it| takes(it.data));
        let answers = packets.map_while(|packet_in| answer(&packet_in, switch, of_switch));
        let sent = network.flows_and_packets_from(switch, pair, answers);
        next += sent;
        if sent == 0 {
            break; // which is for the app itself
        }
    }
    next - first
}

/// Returns the answer to a packet-in between hosts that are known where they are, or `None` for any other.
///
/// The answer has no packet if the switch keeps it: the switch then sends its copy through the flow.
#[inline]
fn answer<'p>(
    packet_in: &PacketIn<'p>,
    at: Switch,
    hosts: ScopeHosts<'_, PortNo>,
) -> Option<FlowAndPacket<'p>> {
    let PacketIn { switch, in_port, buffer_id, data, .. } = *packet_in;
    if switch != at || may_carry(data, LLDP) {
        return None;
    }
    let (eth_dst, eth_src) = packet_in.addresses()?;
    let output = hosts.get(eth_dst)?;
    let is_sent = buffer_id.is_some() || packet_in.is_whole();
    let is_known = output != in_port && hosts.is_fresh(eth_src, in_port) && is_sent;
    let flow = Blanks { in_port, eth_dst, eth_src, buffer_id, output };
    let packet = if buffer_id.is_some() { &[] } else { data };
    is_known.then_some(FlowAndPacket { flow, packet })
}
