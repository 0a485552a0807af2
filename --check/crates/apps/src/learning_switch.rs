//! Forwards packets as a learning switch: remembers which port each host is behind, installs a flow for every pair of
//! hosts that talk, and floods packets to unknown hosts.
//!
//! Hosts are learned behind physical ports and `LOCAL` only. A packet from a reserved port (`CONTROLLER`, for example, if
//! an operator sent it through the flow tables) is forwarded, but installs no flow. LLDP and packets with an impossible
//! in-port are ignored: the kernel refuses packet-outs of them, and any host or switch could send many.
//!
//! A flow matches the port that its source was learned on. The packets of a host that moves therefore miss its old flows,
//! and the app learns its new port. The app forgets hosts with the port or the switch that they were learned on.
//!
//! The app knows no topology: its floods multiply in a loop of switches. If its own packets come back ([`loops`]), the
//! switch stops flooding for a while, with an incident. The app `forwarding` forwards in any topology.

#![forbid(unsafe_code)]

#[path = "known_hosts/mod.rs"]
mod known_hosts;
#[path = "learning_switch/loops.rs"]
mod loops;

use std::time::Duration;

use rosemary_sdk::hosts::{HostTable, Learned};
use rosemary_sdk::openflow::ethernet::{LLDP, may_carry};
use rosemary_sdk::{
    Action, App, Batch, Blanks, Dpid, Event, FlowMod, MacAddr, Match, Network, PacketIn, Port,
    PortChange, PortNo, Repeats, SendError, Switch, Template, export_app,
};

use self::loops::{Loops, Verdict};

/// Idle timeout of installed flows, in seconds.
const IDLE_TIMEOUT: u16 = 60;

/// Priority of installed flows: above the table-miss entry.
const PRIORITY: u16 = 1;

/// See the module's description.
#[derive(Debug)]
struct LearningSwitch {
    /// The port that each host of each switch is behind. Hosts do not grow old here: packets that a switch forwards by
    /// itself do not come this way, so that a host's silence says nothing.
    hosts: HostTable<Dpid>,
    /// The flow for a pair of hosts; made with the first.
    pair: Option<Template>,
    /// The packets that were flooded.
    loops: Loops,
    /// The log lines about answers that could not be sent.
    failures: Repeats<()>,
}

/// Time from one log line about failed answers to the next.
const SELDOM: Duration = Duration::from_secs(60);

impl App for LearningSwitch {
    fn create() -> Self {
        let failures = Repeats::new(SELDOM, 1);
        Self { hosts: HostTable::new(), pair: None, loops: Loops::new(), failures }
    }

    fn look_ahead(&mut self, batch: &Batch<'_>) {
        let packets = batch.packet_ins();
        self.hosts.prefetch(packets.filter_map(|it| Some((it.switch.dpid, it.addresses()?))));
    }

    /// Answers packets between hosts that are known where they are, as most are.
    #[inline]
    fn go_ahead(&mut self, batch: &Batch<'_>, first: usize, network: &mut Network<'_>) -> usize {
        let Some(pair) = &self.pair else { return 0 };
        known_hosts::answer_run(&self.hosts, pair, |_| true, (batch, first), network)
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let result = match event {
            Event::SnapshotBegin => {
                self.hosts.clear();
                self.loops.clear();
                Ok(())
            }
            // A switch that comes may be known: it was connected again, or its state is repeated because
            // events were lost. Ports may then have gone without an event.
            Event::SwitchUp(switch) | Event::SwitchDown(switch) => {
                self.hosts.remove_scope(switch.dpid);
                self.loops.remove(switch.dpid);
                Ok(())
            }
            Event::Port { switch, change, port } => self.on_port(switch, change, port, network),
            Event::PacketIn(packet_in) => self.on_packet(&packet_in, network),
            _ => Ok(()),
        };
        result.unwrap_or_else(|error| self.report(&error, network));
    }
}

fn flow_for_a_pair(network: &Network<'_>) -> Result<Template, SendError> {
    let flow = FlowMod::add(Match::new()).priority(PRIORITY).idle_timeout(IDLE_TIMEOUT);
    network.template(&flow)
}

/// Returns whether a bridge must not forward to this address (IEEE 802.1Q-2018 table 8-1): LLDP, spanning tree, pause
/// frames.
fn stays_on_its_link(address: MacAddr) -> bool {
    matches!(address.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

impl LearningSwitch {
    fn on_packet(
        &mut self,
        packet_in: &PacketIn<'_>,
        network: &mut Network<'_>,
    ) -> Result<(), SendError> {
        let Some((eth_dst, eth_src)) = packet_in.addresses() else { return Ok(()) };
        let (switch, in_port) = (packet_in.switch, packet_in.in_port);
        let is_from_host = in_port.is_host_port();
        let is_possible = is_from_host || matches!(in_port, PortNo::CONTROLLER | PortNo::ANY);
        if !is_possible || stays_on_its_link(eth_dst) || may_carry(packet_in.data, LLDP) {
            return Ok(());
        }
        if self.loops.is_blocked(switch.dpid, in_port, network.now()) {
            return Ok(());
        }
        if is_from_host
            && !eth_src.is_multicast()
            && let Learned::Moved { .. } = self.hosts.learn(switch.dpid, eth_src, in_port)
        {
            // The flows towards a host that moved lead to where it was.
            network.flow_mod(switch, &FlowMod::delete(Match::new().eth_dst(eth_src)))?;
        }
        let known =
            if eth_dst.is_multicast() { None } else { self.hosts.get(switch.dpid, eth_dst) };
        let output = match known {
            Some(port) if port == in_port => return Ok(()), // it has heard it already
            Some(output) if !is_from_host => output,
            Some(output) => {
                let pair = match &mut self.pair {
                    Some(pair) => pair,
                    none => none.insert(flow_for_a_pair(network)?),
                };
                let buffer_id = packet_in.buffer_id;
                let blanks = Blanks { in_port, eth_dst, eth_src, buffer_id, output };
                network.flow_mod_from(switch, pair, &blanks)?;
                if buffer_id.is_some() {
                    return Ok(()); // the switch sends its copy through the new flow
                }
                output
            }
            None if self.may_flood(packet_in, network) => PortNo::FLOOD,
            None => return Ok(()),
        };
        match network.packet_out_for(packet_in, &[Action::output(output)]) {
            Err(SendError::Truncated { .. }) => Ok(()), // its sender repeats it, and the flow is there
            result => result,
        }
    }

    #[cold]
    fn report(&mut self, error: &SendError, network: &Network<'_>) {
        if self.failures.admit((), (), network.now()).is_some() {
            network.warn(&format!("could not answer: {error}"));
        }
    }

    /// Counts a packet that is to be flooded; returns false if it must not be.
    fn may_flood(&mut self, packet_in: &PacketIn<'_>, network: &mut Network<'_>) -> bool {
        let dpid = packet_in.switch.dpid;
        match self.loops.count(dpid, packet_in.in_port, packet_in.data, network.now()) {
            Verdict::Flood => true,
            Verdict::Paused => false,
            Verdict::Loop(evidence) => {
                network
                    .report_incident(&format!("loop at {dpid}: it does not flood now"), &evidence);
                // Hosts seem to be where their packets came back, and flows may send packets round in circles.
                self.hosts.remove_scope(dpid);
                if let Err(error) =
                    network.flow_mod(packet_in.switch, &FlowMod::delete(Match::new()))
                {
                    self.report(&error, network);
                }
                false
            }
        }
    }

    fn on_port(
        &mut self,
        switch: Switch,
        change: PortChange,
        port: Port,
        network: &mut Network<'_>,
    ) -> Result<(), SendError> {
        if change != PortChange::Deleted && port.is_up() {
            return Ok(());
        }
        if self.hosts.scope(switch.dpid).is_none() {
            return Ok(()); // no flow of this app can lead there
        }
        self.hosts.remove_value(switch.dpid, port.port_no);
        network.flow_mod(switch, &FlowMod::delete(Match::new()).out_port(port.port_no))
    }
}

export_app!(LearningSwitch, name = "learning-switch");

#[cfg(test)]
mod tests {
    use openflow::{Header, Kind, PacketOut, Version};
    use rosemary_sdk::MacAddr;
    use rosemary_sdk::abi::RecordKind;
    use rosemary_sdk::testing::{AlignedRecord, Bench, Sent};

    use super::*;

    const ALICE: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
    const BOB: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
    const VERSIONS: [Version; Version::COUNT] =
        [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

    fn packet(bench: &mut Bench, at: Switch, from: ([u8; 6], u32), to: [u8; 6]) -> Vec<Sent> {
        let frame = [&to[..], &from.0, &[0x08, 0x00, 1, 2, 3, 4]].concat();
        bench.event(AlignedRecord::packet_in(at, PortNo(from.1), &frame))
    }

    fn kinds(sent: &[Sent]) -> Vec<Kind> {
        let kind = |sent: &Sent| {
            let header = Header::decode(&sent.message).unwrap();
            Kind::from_wire(Version::from_wire(header.version).unwrap(), header.kind).unwrap()
        };
        sent.iter().map(kind).collect()
    }

    /// Flow-mods and others, without transaction ids: the packets of a series follow all of its flow-mods.
    fn by_kind(mut sent: Vec<Sent>) -> (Vec<Sent>, Vec<Sent>) {
        for sent in &mut sent {
            sent.message[4..8].fill(0);
        }
        sent.into_iter().partition(|sent| kinds(std::slice::from_ref(sent)) == [Kind::FlowMod])
    }

    fn flooded(sent: &[Sent]) -> bool {
        let [sent] = sent else { return false };
        let packet_out = PacketOut::decode(&sent.message).unwrap();
        packet_out.actions.iter().eq([Action::output(PortNo::FLOOD)])
    }

    #[test]
    fn unknown_destination_is_flooded() {
        for version in VERSIONS {
            let mut bench = Bench::new::<LearningSwitch>();
            let sent = packet(&mut bench, Bench::switch(1, version), (ALICE, 1), BOB);
            assert!(flooded(&sent), "{sent:?}");
        }
    }

    #[test]
    fn part_of_a_packet_is_not_sent_on() {
        for version in VERSIONS {
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
            let frame = [&BOB[..], &ALICE, &[0x08, 0x00, 1, 2]].concat();
            let part = |port| AlignedRecord::packet_in(at, PortNo(port), &frame).of_total(60);
            assert_eq!(bench.event(part(1)), []);
            assert!(flooded(&bench.event(part(1).with_buffer(7))), "the switch has the rest");
            packet(&mut bench, at, (BOB, 2), ALICE);
            for _ in 0..2 {
                assert_eq!(kinds(&bench.event(part(1))), [Kind::FlowMod]);
            }
        }
    }

    #[test]
    fn packet_without_in_port_is_answered_as_the_controllers() {
        for version in VERSIONS {
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
            for port in [PortNo::ANY, PortNo::CONTROLLER] {
                let sent = packet(&mut bench, at, (ALICE, port.0), BOB);
                let packet_out = PacketOut::decode(&sent[0].message).unwrap();
                assert_eq!(packet_out.in_port, PortNo::CONTROLLER);
            }
        }
    }

    #[test]
    fn packet_to_known_host_installs_a_flow() {
        for version in VERSIONS {
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
            packet(&mut bench, at, (ALICE, 1), BOB);
            let sent = packet(&mut bench, at, (BOB, 2), ALICE);
            assert_eq!(kinds(&sent), [Kind::FlowMod, Kind::PacketOut]);
            let flow_mod = FlowMod::decode(&sent[0].message).unwrap();
            let pair =
                Match::new().in_port(PortNo(2)).eth_src(MacAddr(BOB)).eth_dst(MacAddr(ALICE));
            assert_eq!(flow_mod.match_, pair);
            assert_eq!(flow_mod.idle_timeout, IDLE_TIMEOUT);
        }
    }

    #[test]
    fn buffered_packet_goes_out_with_the_flow() {
        for version in VERSIONS {
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
            packet(&mut bench, at, (ALICE, 1), BOB);
            let frame = [&ALICE[..], &BOB, &[0x08, 0x00]].concat();
            let kept = AlignedRecord::packet_in(at, PortNo(2), &frame).with_buffer(7);
            let sent = bench.event(kept);
            assert_eq!(kinds(&sent), [Kind::FlowMod]);
            assert_eq!(FlowMod::decode(&sent[0].message).unwrap().buffer_id, Some(7));
        }
    }

    #[test]
    fn known_hosts_get_the_same_answer_again() {
        for version in VERSIONS {
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
            let mut kept = |port, from: [u8; 6], to: [u8; 6], buffer| {
                let frame = [&to[..], &from, &[0x08, 0x00]].concat();
                let record = AlignedRecord::packet_in(at, PortNo(port), &frame);
                bench.event(record.with_buffer(buffer))
            };
            kept(1, ALICE, BOB, 6);
            let first = kept(2, BOB, ALICE, 7);
            let first = FlowMod::decode(&first[0].message).unwrap();
            for buffer in [8, 9] {
                let again = kept(2, BOB, ALICE, buffer);
                assert_eq!(kinds(&again), [Kind::FlowMod]);
                let again = FlowMod::decode(&again[0].message).unwrap();
                assert_eq!(again, first.clone().buffer_id(Some(buffer)));
            }
            assert_eq!(kinds(&kept(3, BOB, ALICE, 10)), [Kind::FlowMod; 2], "it has moved");
            assert_eq!(kept(3, BOB, BOB, 11), [], "it has heard it already");
            assert!(flooded(&kept(3, BOB, [0xff; 6], 12)));
            assert!(flooded(&kept(3, BOB, [2, 0, 0, 0, 0, 0xc], 13)));
        }
    }

    #[test]
    fn moved_host_has_its_flows_deleted() {
        let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, Version::V1_3));
        packet(&mut bench, at, (ALICE, 1), BOB);
        let sent = packet(&mut bench, at, (ALICE, 3), BOB);
        assert_eq!(kinds(&sent), [Kind::FlowMod, Kind::PacketOut]);
        assert!(FlowMod::decode(&sent[0].message).unwrap().command.is_delete());
    }

    #[test]
    fn packet_to_its_own_port_is_dropped() {
        let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, Version::V1_3));
        packet(&mut bench, at, (ALICE, 1), BOB);
        assert_eq!(packet(&mut bench, at, (BOB, 1), ALICE), []);
    }

    #[test]
    fn hosts_are_forgotten_with_switch_or_port() {
        for gone in [
            AlignedRecord::about(RecordKind::SwitchUp, Bench::switch(1, Version::V1_3)),
            AlignedRecord::about(RecordKind::SwitchDown, Bench::switch(1, Version::V1_3)),
            AlignedRecord::about(RecordKind::SnapshotBegin, Bench::switch(0, Version::V1_3)),
            AlignedRecord::port(Bench::switch(1, Version::V1_3), 1, PortNo(1), 0),
            AlignedRecord::port(Bench::switch(1, Version::V1_3), 2, PortNo(1), 1),
        ] {
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, Version::V1_3));
            packet(&mut bench, at, (ALICE, 1), BOB);
            bench.event(gone);
            assert!(flooded(&packet(&mut bench, at, (BOB, 2), ALICE)));
        }
    }

    #[test]
    fn reserved_port_is_forwarded_and_not_learned() {
        for version in VERSIONS {
            for in_port in [PortNo::CONTROLLER, PortNo::ANY] {
                let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
                let sent = packet(&mut bench, at, (ALICE, in_port.0), BOB);
                assert!(flooded(&sent), "from {in_port}: {sent:?}");
                let sent = packet(&mut bench, at, (BOB, 2), ALICE);
                assert!(flooded(&sent), "to a host behind {in_port}: {sent:?}");
                let sent = packet(&mut bench, at, (ALICE, in_port.0), BOB);
                assert_eq!(kinds(&sent), [Kind::PacketOut], "no flow for {in_port}");
                let packet_out = PacketOut::decode(&sent[0].message).unwrap();
                assert!(packet_out.actions.iter().eq([Action::output(PortNo(2))]));
            }
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
            packet(&mut bench, at, (ALICE, PortNo::LOCAL.0), BOB);
            let sent = packet(&mut bench, at, (BOB, 2), ALICE);
            assert_eq!(kinds(&sent), [Kind::FlowMod, Kind::PacketOut], "the switch is a host too");
        }
    }

    #[test]
    fn flood_that_comes_back_ends_with_an_incident() {
        for version in VERSIONS {
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
            let all = [0xff; 6];
            assert!(flooded(&packet(&mut bench, at, (ALICE, 1), all)));
            let mut sent = Vec::new();
            for copy in 0..20 {
                sent = packet(&mut bench, at, (ALICE, 2 + copy % 2), all);
            }
            assert!(!kinds(&sent).contains(&Kind::PacketOut), "{sent:?}");
            let incidents = bench.incidents();
            assert_eq!(incidents.len(), 1);
            assert!(incidents[0].0.starts_with("loop at 00:00:00:00:00:00:00:01"), "{incidents:?}");
            assert_eq!(packet(&mut bench, at, (BOB, 2), ALICE), [], "a port of the loop");
            packet(&mut bench, at, (ALICE, 1), BOB);
            packet(&mut bench, at, (BOB, 4), ALICE);
            let sent = packet(&mut bench, at, (ALICE, 1), BOB);
            assert_eq!(kinds(&sent), [Kind::FlowMod, Kind::PacketOut], "others go on");
        }
    }

    #[test]
    fn packet_from_what_is_no_in_port_is_ignored() {
        // A hostile switch may send any number. The kernel refuses packet-outs with these.
        let ports = [PortNo(0), PortNo(0xffff_ff01), PortNo::TABLE, PortNo::FLOOD, PortNo::IN_PORT];
        for version in VERSIONS {
            for in_port in ports {
                let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
                packet(&mut bench, at, (BOB, 2), ALICE);
                assert_eq!(packet(&mut bench, at, (ALICE, in_port.0), BOB), [], "from {in_port}");
                let sent = packet(&mut bench, at, (BOB, 2), ALICE);
                assert!(flooded(&sent), "to a host behind {in_port}: {sent:?}");
            }
        }
    }

    #[test]
    fn lldp_to_any_address_is_ignored() {
        const TAG: [u8; 4] = [0x81, 0, 0, 7];
        const SNAP: [u8; 8] = [0, 46, 0xaa, 0xaa, 3, 0, 0, 0];
        const LLDP: [u8; 2] = [0x88, 0xcc];
        // The last two are cut off before their last type field.
        let lldp: [&[u8]; 6] = [
            &LLDP,
            &[&TAG[..], &LLDP].concat(),
            &[&SNAP[..], &LLDP].concat(),
            &[&TAG[..], &SNAP, &LLDP].concat(),
            &TAG,
            &SNAP[..7],
        ];
        let usual: [&[u8]; 3] =
            [&[8, 0], &[&TAG[..], &[8, 0]].concat(), &[&SNAP[..], &[8, 0]].concat()];
        for version in VERSIONS {
            let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, version));
            let kept = |to: [u8; 6], types: &[u8], buffer| {
                let frame = [&to[..], &BOB, types].concat();
                AlignedRecord::packet_in(at, PortNo(2), &frame).with_buffer(buffer)
            };
            for types in lldp {
                assert_eq!(bench.event(kept([0xff; 6], types, u32::MAX)), [], "{types:02x?}");
            }
            packet(&mut bench, at, (ALICE, 1), BOB);
            packet(&mut bench, at, (BOB, 2), ALICE);
            for (buffer, all_kinds) in
                [(u32::MAX, &[Kind::FlowMod, Kind::PacketOut][..]), (7, &[Kind::FlowMod])]
            {
                for types in usual {
                    let event = || kept(ALICE, types, buffer);
                    let run = bench.batch(&[event(), event()]).unwrap().1;
                    let expected = all_kinds.iter().flat_map(|kind| [*kind; 2]);
                    assert!(kinds(&run).into_iter().eq(expected), "{types:02x?}");
                }
                for types in lldp {
                    let event = || kept(ALICE, types, buffer);
                    let run = bench.batch(&[event(), event()]).unwrap();
                    assert_eq!((run.0.handled, run.1), (2, vec![]), "{types:02x?}");
                }
            }
        }
    }

    #[test]
    fn link_local_packet_and_short_frame_are_ignored() {
        let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, Version::V1_0));
        let lldp = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
        assert_eq!(packet(&mut bench, at, (ALICE, 1), lldp), []);
        assert_eq!(bench.event(AlignedRecord::packet_in(at, PortNo(1), &[0; 11])), []);
    }

    #[test]
    fn batch_is_answered_like_single_events() {
        const CAROL: [u8; 6] = [2, 0, 0, 0, 0, 0xc];
        let [one, two] = [1, 2].map(|dpid| Bench::switch(dpid, Version::V1_3));
        let whole = |at, port, from: [u8; 6], to: [u8; 6]| {
            let frame = [&to[..], &from, &[0x08, 0x00]].concat();
            AlignedRecord::packet_in(at, PortNo(port), &frame)
        };
        let kept = |at, port, from, to| whole(at, port, from, to).with_buffer(7);
        let events = || {
            vec![
                kept(one, 1, ALICE, BOB),
                kept(one, 2, BOB, ALICE),
                kept(one, 1, ALICE, BOB),
                whole(one, 1, ALICE, BOB),
                whole(one, 2, BOB, ALICE),
                whole(one, 1, ALICE, BOB),
                kept(two, 5, ALICE, BOB),
                kept(one, 2, BOB, ALICE),
                whole(one, 2, BOB, ALICE),
                whole(one, 3, CAROL, ALICE), // which is new
                whole(one, 3, CAROL, CAROL), // and has heard it already
                kept(two, 6, BOB, ALICE),
                kept(one, 3, BOB, ALICE), // it has moved
                kept(one, 1, ALICE, BOB),
                AlignedRecord::port(one, 1, PortNo(3), 0), // and its port is gone
                kept(one, 1, ALICE, BOB),
                kept(one, 4, CAROL, ALICE),
                AlignedRecord::about(RecordKind::SwitchDown, one),
                kept(one, 4, CAROL, ALICE),
                kept(two, 5, ALICE, BOB),
            ]
        };
        // With few hosts, and with more than a small table has entries.
        let others: &[u32] = if cfg!(miri) { &[0] } else { &[0, 8000] };
        for &others in others {
            let mut benches = [(); 2].map(|()| Bench::new::<LearningSwitch>());
            for bench in &mut benches {
                for number in 0..others {
                    let [a, b, c, d] = number.to_be_bytes();
                    packet(bench, two, ([6, 0, a, b, c, d], 9), BOB);
                }
            }
            let [mut together, mut alone] = benches;
            for round in 0..3 {
                let (answer, sent) = together.batch(&events()).unwrap();
                assert_eq!(answer.handled, events().len());
                let one_by_one = events().into_iter().flat_map(|event| alone.event(event));
                let one_by_one = by_kind(one_by_one.collect());
                assert_eq!(by_kind(sent), one_by_one, "round {round}, {others} others");
            }
            // A flow and a packet for each of three.
            assert_eq!(together.most_in_a_series(), 6, "{others} others");
        }
    }

    #[test]
    fn batch_without_room_for_answers_is_left_for_later() {
        let (mut bench, at) = (Bench::new::<LearningSwitch>(), Bench::switch(1, Version::V1_3));
        let frame = [&BOB[..], &ALICE, &[0x08, 0x00]].concat();
        let records = [(); 3].map(|()| AlignedRecord::packet_in(at, PortNo(1), &frame));
        bench.room = 2200;
        let (answer, sent) = bench.batch(&records).unwrap();
        assert_eq!((answer.handled, sent.len()), (1, 1));
    }
}
