//! Answers packet-ins as a first learning switch does: a std `HashMap` of all hosts, one event at a time, one flow-mod
//! for each. It uses none of the SDK's batch interfaces.
//!
//! `ordinary.c` is the same app in C, and `host_table.rs` the same app with the SDK's host table.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use rosemary_sdk::{
    Action, App, Dpid, Event, FlowMod, MacAddr, Match, Network, PacketIn, PortNo, SendError,
    export_app,
};

/// Idle timeout of installed flows, in seconds.
const IDLE_TIMEOUT: u16 = 60;

#[derive(Default)]
struct Ordinary {
    hosts: HashMap<(Dpid, MacAddr), PortNo>,
}

impl Ordinary {
    fn packet_in(
        &mut self,
        packet_in: &PacketIn<'_>,
        network: &mut Network<'_>,
    ) -> Result<(), SendError> {
        let PacketIn { switch, in_port, buffer_id, .. } = *packet_in;
        let Some((eth_dst, eth_src)) = packet_in.addresses() else { return Ok(()) };
        self.hosts.insert((switch.dpid, eth_src), in_port);
        let Some(&output) = self.hosts.get(&(switch.dpid, eth_dst)) else {
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

impl App for Ordinary {
    fn create() -> Self {
        Self::default()
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event
            && let Err(error) = self.packet_in(&packet_in, network)
        {
            network.warn(&format!("could not answer: {error}"));
        }
    }
}

export_app!(Ordinary, name = "ordinary");
