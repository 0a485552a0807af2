//! Flow-mods of a template, one by one and many at once, through the ABI and back. These run under Miri too
//! (`make miri`).
#![cfg(feature = "host")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use openflow::{PortNo, Version};
use rosemary_sdk::testing::{AlignedRecord, Bench, Sent};
use rosemary_sdk::{
    Action, App, Batch, Blanks, Event, FlowAndPacket, FlowMod, MacAddr, Match, Network, PacketOut,
    SendError, Switch, Template,
};

/// Answers each packet with a flow for its pair, and some with more; by a template or without.
struct Pairs<const BY_TEMPLATE: bool> {
    template: Option<Template>,
    answered: u32,
}

impl<const BY_TEMPLATE: bool> App for Pairs<BY_TEMPLATE> {
    fn create() -> Self {
        Self { template: None, answered: 0 }
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let Event::PacketIn(packet_in) = event else { return };
        let add = FlowMod::add(Match::new()).priority(3).idle_timeout(9);
        let (eth_dst, eth_src) = packet_in.addresses().expect("it is long enough");
        let (to, in_port, buffer_id) = (packet_in.switch, packet_in.in_port, packet_in.buffer_id);
        let output = PortNo(5);
        if BY_TEMPLATE {
            let template = match &mut self.template {
                Some(template) => template,
                none => none.insert(network.template(&add).expect("it can be said")),
            };
            let blanks = Blanks { in_port, eth_dst, eth_src, buffer_id, output };
            network.flow_mod_from(to, template, &blanks).expect("there is room");
        } else {
            let pair = Match::new().in_port(in_port).eth_dst(eth_dst).eth_src(eth_src);
            let out = [Action::output(output)];
            let add = FlowMod { match_: pair, ..add }.buffer_id(buffer_id).apply(&out);
            network.flow_mod(to, &add).expect("there is room");
        }
        self.answered += 1;
        if self.answered.is_multiple_of(7) {
            network.barrier(to).expect("there is room");
        }
        if self.answered.is_multiple_of(11) {
            self.template = None; // another of the same
        }
    }
}

#[test]
fn template_flow_mods_keep_their_order() {
    let [mut one, mut other] = [Bench::new::<Pairs<true>>(), Bench::new::<Pairs<false>>()];
    for batch in [1_usize, 64, 2, 64, 3] {
        let packet = |number: usize| {
            let number = u8::try_from(number).unwrap();
            let version = if number & 8 == 0 { Version::V1_0 } else { Version::V1_3 };
            let at = Bench::switch(u64::from(number >> 3), version);
            let frame = [&[2, 0, 0, 0, 0, number][..], &[2, 0, 0, 0, 1, number], &[8, 0]].concat();
            let packet = AlignedRecord::packet_in(at, PortNo(number.into()), &frame);
            if number % 5 == 0 { packet } else { packet.with_buffer(number.into()) }
        };
        let packets: Vec<_> = (0..batch).map(packet).collect();
        let (answer, sent) = one.batch(&packets).unwrap();
        let (expected, expected_sent) = other.batch(&packets).unwrap();
        assert_eq!((answer.handled, sent.len()), (expected.handled, expected_sent.len()));
        assert!(sent.iter().eq(&expected_sent));
    }
    assert_eq!(one.most_in_a_series(), 4, "those with a buffer between two without");
    assert_eq!(other.most_in_a_series(), 0);
}

/// A template that adds flows.
fn adds(network: &Network<'_>) -> Template {
    network.template(&FlowMod::add(Match::new()).priority(0)).expect("it can be said")
}

/// The blanks of a pair of hosts, for packets that come in by a port.
fn pair_at(in_port: u32, buffer_id: Option<u32>) -> Blanks {
    let (eth_dst, eth_src) = (MacAddr([2; 6]), MacAddr([4; 6]));
    Blanks { in_port: PortNo(in_port), eth_dst, eth_src, buffer_id, output: PortNo(3) }
}

/// Sends flow-mods until there is no room.
struct Filler;

impl App for Filler {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}

    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        let template = adds(network);
        let (blanks, to) = (pair_at(1, Some(3)), Bench::switch(7, Version::V1_3));
        while network.flow_mod_from(to, &template, &blanks).is_ok() {}
        batch.len()
    }
}

#[test]
fn without_room_for_a_series_messages_are_single() {
    let mut bench = Bench::new::<Filler>();
    // A flow-mod takes 104 bytes; a series takes room for all that it may have: these, and 64 times 24.
    for (room, sent, in_a_series) in [(400, 3, 0), (1639, 15, 0), (1640, 64, 64)] {
        bench.room = room;
        let (_, messages) = bench.batch(&[]).unwrap();
        assert_eq!((messages.len(), bench.most_in_a_series()), (sent, in_a_series), "{room}");
    }
}

/// Sends as many flow-mods at once as it can, and the one behind alone.
struct Many;

impl App for Many {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}

    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        let template = adds(network);
        let to = Bench::switch(7, Version::V1_0);
        let unsayable = Blanks { output: PortNo(0x1_0000), ..pair_at(200, Some(9)) };
        let blanks = |number: u8| match number {
            200 => unsayable,
            _ => pair_at(number.into(), (!number.is_multiple_of(7)).then_some(9)),
        };
        let before = network.last_xid();
        let sent = network.flow_mods_from(to, &template, (1..=u8::MAX).map(blanks));
        let after = network.last_xid();
        assert_eq!(after.0.wrapping_sub(before.0) as usize, sent);
        assert_eq!(network.flow_mods_from(to, &template, []), 0);
        assert_eq!(network.flow_mods_from(to, &template, [unsayable]), 0);
        let next = u8::try_from(sent + 1).expect("not all can be sent");
        match network.flow_mod_from(to, &template, &blanks(next)) {
            Err(error) if sent == 199 => {
                assert_eq!(error.to_string(), "OpenFlow 1.0 cannot express action.output.port");
            }
            alone => assert_eq!(alone, Ok(()), "room for one, and not for a long series"),
        }
        batch.len()
    }
}

#[test]
fn series_ends_where_room_or_version_does() {
    let mut bench = Bench::new::<Many>();
    // Four series; or one, and one flow-mod.
    for (room, sent) in [(1 << 20, 199), (80 + 64 * 24 + 200, 65)] {
        bench.room = room;
        let (_, messages) = bench.batch(&[]).unwrap();
        assert_eq!((messages.len(), bench.most_in_a_series()), (sent, 64), "{room}");
        for (number, sent) in (1..).zip(&messages) {
            let flow_mod = FlowMod::decode(&sent.message).unwrap();
            assert_eq!(
                flow_mod.match_.to_string().split(',').next(),
                Some(&*format!("in_port={number}"))
            );
            assert_eq!(flow_mod.buffer_id.is_some(), number % 7 != 0);
        }
    }
}

/// Says flows with their packets, which are whole, kept by the switch, long, or cannot be said; together as far as that
/// goes, or one by one.
struct Whole<const TOGETHER: bool>;

impl<const TOGETHER: bool> Whole<TOGETHER> {
    const PACKETS: u32 = 300;

    fn flow(number: u32, frame: &[u8]) -> FlowAndPacket<'_> {
        let is_kept = number % 100 > 90;
        let mut flow = pair_at(number, is_kept.then_some(number));
        if number == 200 {
            flow.output = PortNo(0x1_0000);
        }
        let size = match number {
            70 => 8165, // one more than a series takes
            71 => 8164,
            72..75 => 1500,
            _ => 60,
        };
        FlowAndPacket { flow, packet: if is_kept { &[] } else { &frame[..size] } }
    }

    fn one(
        to: Switch,
        template: &Template,
        of: FlowAndPacket<'_>,
        network: &mut Network<'_>,
    ) -> Result<(), SendError> {
        network.flow_mod_from(to, template, &of.flow)?;
        let out = [Action::output(of.flow.output)];
        let packet_out = PacketOut::new(of.flow.in_port, &out, of.packet);
        if of.packet.is_empty() { Ok(()) } else { network.packet_out(to, &packet_out) }
    }
}

impl<const TOGETHER: bool> App for Whole<TOGETHER> {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}

    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        let (template, other) = (adds(network), adds(network));
        let frame: Vec<u8> = (0..9000_u32).map(|number| number.to_be_bytes()[3]).collect();
        for version in Version::ALL.iter().copied() {
            let (to, mut next) = (Bench::switch(7, version), 1);
            while next < Self::PACKETS {
                if TOGETHER {
                    let before = network.last_xid();
                    let flows = (next..Self::PACKETS).map(|number| Self::flow(number, &frame));
                    let sent = network.flows_and_packets_from(to, &template, flows);
                    let messages: usize = (next..)
                        .take(sent)
                        .map(|number| {
                            1 + usize::from(!Self::flow(number, &frame).packet.is_empty())
                        })
                        .sum();
                    assert_eq!(network.last_xid().0.wrapping_sub(before.0) as usize, messages);
                    next += u32::try_from(sent).expect("at most 300");
                }
                if next < Self::PACKETS {
                    let by = if next.is_multiple_of(2) { &template } else { &other };
                    let one = Self::one(to, by, Self::flow(next, &frame), network);
                    assert_eq!(one.is_err(), next == 200 && version == Version::V1_0, "{next}");
                    next += 1;
                }
            }
        }
        batch.len()
    }
}

#[test]
fn flows_and_packets_equal_single_messages() {
    let [mut one, mut other] = [Bench::new::<Whole<true>>(), Bench::new::<Whole<false>>()];
    let (_, sent) = one.batch(&[]).unwrap();
    let (_, expected) = other.batch(&[]).unwrap();
    // The packets of a series follow all of its flow-mods, so only the order within a kind is the same.
    let of_kind = |kind, sent: &[Sent]| -> Vec<Vec<u8>> {
        let messages = sent.iter().map(|sent| &sent.message).filter(|message| message[1] == kind);
        messages.map(|message| [&message[..4], &message[8..]].concat()).collect()
    };
    let xids = |sent: &[Sent]| -> BTreeSet<[u8; 4]> {
        sent.iter().map(|sent| *sent.message[4..].first_chunk().expect("a whole header")).collect()
    };
    for kind in [13, 14] {
        assert!(of_kind(kind, &sent) == of_kind(kind, &expected), "{kind}");
    }
    assert!(sent.len() == expected.len() && xids(&sent) == xids(&expected));
    let packet_outs = sent.iter().filter(|sent| sent.message[1] == 13).count();
    assert!(packet_outs > 400, "{packet_outs}");
    assert_eq!((one.most_in_a_series(), one.log().len()), (128, 0));
}

/// Catches what the blanks of its flow-mods panic with, and goes on.
struct Careless;

impl App for Careless {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}

    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        let template = adds(network);
        let to = Bench::switch(7, Version::V1_3);
        let blanks = |number| pair_at(number, Some(number));
        assert_eq!(network.flow_mods_from(to, &template, (1..=3).map(blanks)), 3);
        let before = network.last_xid();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let some =
                (4..).map(|number| if number < 70 { blanks(number) } else { panic!("so many") });
            network.flow_mods_from(to, &template, some)
        }));
        assert!(caught.is_err());
        // A series that was full is said; what was begun behind it is not.
        assert_eq!(network.last_xid().0.wrapping_sub(before.0), 61);
        assert_eq!(network.flow_mods_from(to, &template, (90..=91).map(blanks)), 2);
        // And the same with packets.
        let with_packet = |number| FlowAndPacket { flow: blanks(number), packet: b"a packet" };
        let before = network.last_xid();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let some = (100..)
                .map(|number| if number < 170 { with_packet(number) } else { panic!("so many") });
            network.flows_and_packets_from(to, &template, some)
        }));
        assert!(caught.is_err());
        assert_eq!(network.last_xid().0.wrapping_sub(before.0), 128);
        let more = [with_packet(190), FlowAndPacket { packet: &[], ..with_packet(191) }];
        assert_eq!(network.flows_and_packets_from(to, &template, more), 2);
        assert_eq!(network.last_xid().0.wrapping_sub(before.0), 131);
        batch.len()
    }
}

#[test]
fn caught_panic_loses_only_its_blanks() {
    let mut bench = Bench::new::<Careless>();
    bench.room = 1 << 20;
    let (_, messages) = bench.batch(&[]).unwrap();
    let is_packet_out = |sent: &&Sent| PacketOut::decode(&sent.message).is_ok();
    assert_eq!(messages.iter().filter(is_packet_out).count(), 64 + 1);
    let flow_mods = messages.iter().filter(|sent| !is_packet_out(sent));
    let buffers = flow_mods.map(|sent| {
        let flow_mod = FlowMod::decode(&sent.message).unwrap();
        flow_mod.buffer_id.unwrap()
    });
    assert_eq!(
        buffers.collect::<Vec<_>>(),
        (1..=64).chain(90..=91).chain(100..164).chain(190..=191).collect::<Vec<_>>()
    );
}
