//! Answers packet-ins as `ordinary.rs` does, with the SDK's host table in place of a `HashMap`: one event at a time, one
//! flow-mod for each, no templates.

#![forbid(unsafe_code)]

use rosemary_sdk::hosts::HostTable;
use rosemary_sdk::{
    Action, App, Batch, Dpid, Event, FlowMod, Match, Network, PacketIn, PortNo, SendError,
    export_app,
};

/// Idle timeout of installed flows, in seconds.
const IDLE_TIMEOUT: u16 = 60;

struct WithHostTable {
    hosts: HostTable<Dpid>,
}

impl WithHostTable {
    fn packet_in(
        &mut self,
        packet_in: &PacketIn<'_>,
        network: &mut Network<'_>,
    ) -> Result<(), SendError> {
        let PacketIn { switch, in_port, buffer_id, .. } = *packet_in;
        let Some((eth_dst, eth_src)) = packet_in.addresses() else { return Ok(()) };
        self.hosts.learn(switch.dpid, eth_src, in_port);
        let Some(output) = self.hosts.get(switch.dpid, eth_dst) else {
            return network.packet_out_for(packet_in, &[Action::output(PortNo::FLOOD)]);
        };
        let output = [Action::output(output)];
        let pair = Match::new().in_port(in_port).eth_src(eth_src).eth_dst(eth_dst);
        let flow =
            FlowMod::add(pair).idle_timeout(IDLE_TIMEOUT).buffer_id(buffer_id).apply(&output);
        network.flow_mod(switch, &flow)?;
        if buffer_id.is_none() {
            network.packet_out_for(packet_in, &output)?;
        }
        Ok(())
    }
}

impl App for WithHostTable {
    fn create() -> Self {
        Self { hosts: HostTable::new() }
    }

    fn look_ahead(&mut self, batch: &Batch<'_>) {
        let packets = batch.packet_ins();
        self.hosts.prefetch(packets.filter_map(|it| Some((it.switch.dpid, it.addresses()?))));
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event
            && let Err(error) = self.packet_in(&packet_in, network)
        {
            network.warn(&format!("could not answer: {error}"));
        }
    }
}

export_app!(WithHostTable, name = "host-table");
