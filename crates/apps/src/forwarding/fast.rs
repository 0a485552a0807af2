//! Answers packets between hosts behind one switch that are known where they are, many at once.

use rosemary_sdk::hosts::{HostTable, ScopeHosts};
use rosemary_sdk::openflow::Match;
use rosemary_sdk::openflow::ethernet::{LLDP, is_vlan_tag, may_carry};
use rosemary_sdk::{
    Batch, Blanks, Dpid, FlowAndPacket, FlowMod, Network, PacketIn, PortNo, Switch, Template,
};

use super::routes::{IDLE_TIMEOUT, KIND_SHIFT, LOCAL, PRIORITY};

/// Answers events of a batch from number `first` on, and returns how many.
#[inline]
pub(crate) fn answer_run(
    hosts: &HostTable<Dpid>,
    pair: &mut Option<Template>,
    (batch, first): (&Batch<'_>, usize),
    network: &mut Network<'_>,
) -> usize {
    let mut next = first;
    // Events come in runs of one switch.
    while let Some(PacketIn { switch, .. }) = batch.packet_in(next)
        && let Some(of_switch) = hosts.scope(switch.dpid)
    {
        if pair.is_none() {
            *pair = flow_for_a_pair(network);
        }
        let Some(pair) = &*pair else { break };
        let packets = batch.packet_ins_from(next);
        let answers = packets.map_while(|packet_in| answer(&packet_in, switch, of_switch));
        let sent = network.flows_and_packets_from(switch, pair, answers);
        next += sent;
        if sent == 0 {
            break; // which is for the core
        }
    }
    next - first
}

fn flow_for_a_pair(network: &Network<'_>) -> Option<Template> {
    let flow = FlowMod::add(Match::new()).priority(PRIORITY).idle_timeout(IDLE_TIMEOUT);
    network.template(&flow.cookie(LOCAL << KIND_SHIFT)).ok()
}

/// Returns the answer to a packet-in, or `None` if the core decides. There is no packet if the switch keeps it.
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
    let ethertype = u16::from_be_bytes(*data.get(12..)?.first_chunk()?);
    let output = hosts.get(eth_dst)?;
    let is_known = output != in_port && hosts.is_fresh(eth_src, in_port) && !is_vlan_tag(ethertype);
    let flow = Blanks { in_port, eth_dst, eth_src, buffer_id, output };
    let packet = if buffer_id.is_some() { &[] } else { data };
    let is_known = is_known && (buffer_id.is_some() || packet_in.is_whole());
    is_known.then_some(FlowAndPacket { flow, packet })
}
