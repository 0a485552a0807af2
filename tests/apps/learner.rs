//! A simple learning switch: a map of all hosts of all switches, and a flow-mod for each packet.
//!
//! Its configuration, if there is one, states the processor time that it uses for each packet, in microseconds.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rosemary_sdk::{
    Action, App, Dpid, Event, FlowMod, MacAddr, Match, Network, PacketIn, PortNo, export_app,
};

#[derive(Default)]
struct Learner {
    hosts: HashMap<(Dpid, MacAddr), PortNo>,
    time: Duration,
}

impl Learner {
    fn packet_in(&mut self, packet_in: &PacketIn<'_>, network: &mut Network<'_>) {
        let began = Instant::now();
        let PacketIn { switch, in_port, buffer_id, data, .. } = *packet_in;
        let Some([dst, src]) = data.first_chunk::<12>().map(|both| {
            let address = |at: usize| MacAddr(*both[at..].first_chunk().expect("it is inside"));
            [address(0), address(6)]
        }) else {
            return;
        };
        self.hosts.insert((switch.dpid, src), in_port);
        let port = self.hosts.get(&(switch.dpid, dst)).copied().unwrap_or(PortNo::FLOOD);
        let pair = Match::new().in_port(in_port).eth_src(src).eth_dst(dst);
        let actions = [Action::Output { port, max_len: 0 }];
        let flow = FlowMod::add(pair).buffer_id(buffer_id).apply(&actions);
        if let Err(error) = network.flow_mod(switch, &flow) {
            network.warn(&format!("could not be sent: {error}"));
        }
        while began.elapsed() < self.time {
            std::hint::spin_loop();
        }
    }
}

impl App for Learner {
    fn create() -> Self {
        Self::default()
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        let us = text.trim().parse().map_err(|why| format!("line 1: {why}"))?;
        self.time = Duration::from_micros(us);
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event {
            self.packet_in(&packet_in, network);
        }
    }
}

export_app!(Learner, name = "learner");
