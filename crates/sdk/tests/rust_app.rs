//! Apps in Rust, through the ABI and back. These run under Miri too (`make miri`).
#![cfg(feature = "host")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use openflow::{
    Bucket, ErrorMessage, FlowRemovedReason, GroupKind, GroupMod, GroupModCommand, Header, Kind,
    MeterMod, MeterModCommand, MultipartReply, MultipartRequest, PortNo, ReplyBody, Version,
    append,
};
use rosemary_sdk::abi::host::{Failed, HostedApp, LoadError};
use rosemary_sdk::abi::{MAX_CONFIG, RecordKind};
use rosemary_sdk::testing::{AlignedRecord, Bench, Recorder};
use rosemary_sdk::{
    Action, App, Batch, Blanks, Event, FlowAndPacket, FlowMod, MacAddr, Match, Network, PacketOut,
    SendError, Switch, Template, Xid,
};

fn packets<const N: usize>() -> [AlignedRecord; N] {
    let at = Bench::switch(7, Version::V1_3);
    [(); N].map(|()| AlignedRecord::packet_in(at, PortNo(3), b"a whole frame"))
}

/// Floods, stops and reports each packet.
struct Busy;

impl App for Busy {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event {
            network
                .packet_out_for(&packet_in, &[Action::output(PortNo::FLOOD)])
                .expect("there is room");
            network.stop();
            network.info("flooded");
        }
    }
}

#[test]
fn app_and_host_share_the_state_over_many_calls_and_moves() {
    let mut bench = Bench::new::<Busy>();
    for _ in 0..3 {
        let (answer, sent) = bench.batch(&packets::<2>()).unwrap();
        assert_eq!((answer.handled, sent.len()), (2, 2));
        assert_eq!(bench.stopped(), [0, 1]);
        assert_eq!(bench.log(), ["Info: flooded", "Info: flooded"]);
        bench = std::hint::black_box(bench); // moves it
    }
}

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
fn flow_mods_of_a_template_go_out_as_any_others_do_in_their_place() {
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
fn without_room_for_a_series_flow_mods_go_out_one_by_one() {
    let mut bench = Bench::new::<Filler>();
    // A series takes room for all that it may have: 104 bytes, and 64 times 24.
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
fn many_flow_mods_go_out_as_far_as_they_can_be_said_and_there_is_room() {
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
        for version in [Version::V1_0, Version::V1_3] {
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
fn flows_and_packets_go_out_as_they_do_one_by_one() {
    let [mut one, mut other] = [Bench::new::<Whole<true>>(), Bench::new::<Whole<false>>()];
    let (_, sent) = one.batch(&[]).unwrap();
    let (_, expected) = other.batch(&[]).unwrap();
    assert!(sent.iter().map(|sent| &sent.message).eq(expected.iter().map(|sent| &sent.message)));
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
        batch.len()
    }
}

#[test]
fn app_that_catches_the_panic_of_its_own_blanks_loses_no_more_than_those() {
    let mut bench = Bench::new::<Careless>();
    bench.room = 1 << 20;
    let (_, messages) = bench.batch(&[]).unwrap();
    let buffers = messages.iter().map(|sent| {
        let flow_mod = FlowMod::decode(&sent.message).unwrap();
        flow_mod.buffer_id.unwrap()
    });
    assert_eq!(buffers.collect::<Vec<_>>(), (1..=64).chain(90..=91).collect::<Vec<_>>());
}

/// Says `stop` far more often than there are records, and of records that there are not.
struct Stubborn {
    handles: usize,
}

impl App for Stubborn {
    fn create() -> Self {
        Self { handles: 2 }
    }

    fn configure(&mut self, handles: &str) -> Result<(), String> {
        if !handles.is_empty() {
            self.handles = handles.parse().map_err(|_| "not a number".to_owned())?;
        }
        Ok(())
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}

    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        for _ in 0..1000 {
            for number in [1, 2, 3, 63, 64, usize::MAX] {
                network.stop_event(number);
            }
        }
        self.handles.min(batch.len())
    }
}

#[test]
fn stops_said_again_or_of_records_that_were_not_handled_count_nothing() {
    let mut bench = Bench::new::<Stubborn>();
    bench.batch(&packets::<3>()).unwrap();
    assert_eq!(bench.stopped(), [1]);
    bench.batch(&[]).unwrap();
    assert!(bench.stopped().is_empty());
    bench.batch(&packets::<64>()).unwrap();
    assert_eq!(bench.stopped(), [1]);
    let mut bench = Bench::configured::<Stubborn>("64").unwrap();
    bench.batch(&packets::<64>()).unwrap();
    assert_eq!(bench.stopped(), [1, 2, 3, 63]);
}

struct Panics;

impl App for Panics {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, _: Event<'_>, network: &mut Network<'_>) {
        network.stop();
        panic!("of a test");
    }
}

#[test]
fn app_that_panics_has_failed_with_its_words_in_the_log_and_its_stops_forgotten() {
    let mut bench = Bench::new::<Panics>();
    assert_eq!(bench.batch(&packets::<1>()).unwrap_err(), Failed::GaveUp);
    assert_eq!(bench.log(), ["Error: panicked in on_batch: of a test"]);
    assert!(bench.stopped().is_empty());
}

struct Stillborn;

impl App for Stillborn {
    fn create() -> Self {
        panic!("of a test");
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}
}

#[test]
fn app_that_cannot_be_created_is_not_destroyed() {
    let error = HostedApp::linked::<Stillborn>(Recorder::default()).unwrap_err();
    assert!(matches!(error, LoadError::Create(_)), "{error}");
}

/// Takes `level = N` and nothing else.
struct Configured;

impl App for Configured {
    fn create() -> Self {
        Self
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        let level = text.trim_end().strip_prefix("level = ");
        level
            .and_then(|it| it.parse::<u8>().ok())
            .map(drop)
            .ok_or("line 1: expected a level".into())
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}
}

#[test]
fn app_takes_its_configuration_or_says_what_is_wrong_with_it_and_is_not_created() {
    Bench::configured::<Configured>("level = 7\n").unwrap();
    for wrong in ["", "level = 300"] {
        let error = Bench::configured::<Configured>(wrong).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the app could not create its instance: its configuration: line 1: expected a level"
        );
    }
    let long = "x".repeat(MAX_CONFIG + 1);
    let error = Bench::configured::<Configured>(&long).unwrap_err();
    assert!(matches!(error, LoadError::Config(size) if size == MAX_CONFIG + 1), "{error}");
}

#[test]
fn app_that_takes_no_configuration_does_not_run_with_one() {
    Bench::configured::<Panics>(" \n").unwrap();
    let error = Bench::configured::<Panics>("level = 7").unwrap_err();
    assert!(error.to_string().contains("this app takes none; leave `config` out"), "{error}");
}

/// Asks as soon as there is a switch, and tells what comes back.
#[derive(Default)]
struct Curious {
    barrier: Option<Xid>,
    stats: Option<Xid>,
}

impl Curious {
    fn ask(&mut self, switch: Switch, network: &mut Network<'_>) -> Result<(), SendError> {
        let group = GroupMod {
            command: GroupModCommand::Delete,
            kind: GroupKind::All,
            group_id: 5,
            buckets: vec![Bucket::new([Action::Group(6)])],
        };
        assert_eq!(network.group_mod(switch, &group)?, Xid(1));
        let meter = MeterMod {
            command: MeterModCommand::Delete,
            flags: openflow::MeterFlags::KBPS,
            meter_id: 7,
            bands: vec![],
        };
        assert_eq!(network.meter_mod(switch, &meter)?, Xid(2));
        assert_eq!(
            network.group_mod(switch, &GroupMod { group_id: 0x1_0000, ..group }),
            Err(SendError::Group { is: 0x1_0000, most: 0xffff })
        );
        self.barrier = Some(network.barrier(switch)?);
        self.stats = Some(network.request(switch, &MultipartRequest::Group(5))?);
        assert_eq!(network.last_xid(), Xid(4), "what was not sent took none");
        assert_eq!((network.own_group(0x1_0005), network.own_group(5)), (Some(5), None));
        assert_eq!((network.own_meter(0x107), network.own_meter(0x207)), (Some(7), None));
        assert_eq!((network.own_priority(1), network.own_priority(0)), (Some(0), None));
        Ok(())
    }
}

impl App for Curious {
    fn create() -> Self {
        Self::default()
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SwitchUp(switch) => self.ask(switch, network).expect("there is room"),
            Event::Reply(reply) if Some(reply.xid) == self.barrier => network.info("barrier"),
            Event::Reply(reply) => {
                assert_eq!(Some(reply.xid), self.stats);
                let parts = reply.multipart().expect("it is one");
                network.info(&format!("{} {parts:?}", reply.kind));
            }
            Event::Error(error) => network.info(&format!("{:?} {}", error.xid, error.error)),
            Event::FlowRemoved(removed) => {
                assert_eq!(removed.reason, FlowRemovedReason::HardTimeout);
                network.info(&format!("gone {:#x}", removed.cookie));
            }
            Event::Lost(count) => network.info(&format!("lost {count}")),
            _ => {}
        }
    }
}

#[test]
fn app_asks_with_its_own_numbers_and_knows_the_answers_by_their_ids() {
    let mut bench = Bench::new::<Curious>();
    let at = Bench::switch(7, Version::V1_3);
    let sent = bench.event(AlignedRecord::about(RecordKind::SwitchUp, at));
    let xids: Vec<u32> =
        sent.iter().map(|sent| Header::decode(&sent.message).unwrap().xid).collect();
    assert_eq!(xids, [1, 2, 3, 4]);
    let group_mod = GroupMod::decode(&sent[0].message).unwrap();
    assert_eq!(group_mod.group_id, 0x1_0005);
    assert_eq!(group_mod.buckets[0].actions, [Action::Group(0x1_0006)]);
    assert_eq!(MeterMod::decode(&sent[1].message).unwrap().meter_id, 0x107);
    let asked = MultipartRequest::decode(&sent[3].message).unwrap();
    assert_eq!(asked, MultipartRequest::Group(0x1_0005));

    let mut message = Vec::new();
    append(&mut message, |out| Kind::BarrierReply.encode_empty(at.version, 3, out)).unwrap();
    bench.event(AlignedRecord::answer(RecordKind::Reply, at, &message));
    let reply = MultipartReply { more: false, body: ReplyBody::Group(vec![]) };
    let mut message = Vec::new();
    append(&mut message, |out| reply.encode(at.version, 4, out)).unwrap();
    bench.event(AlignedRecord::answer(RecordKind::Reply, at, &message));
    let error = ErrorMessage { version: at.version, kind: 6, code: 8, data: &[] };
    let mut message = Vec::new();
    append(&mut message, |out| error.encode(1, out)).unwrap();
    bench.event(AlignedRecord::answer(RecordKind::Error, at, &message));
    bench.event(AlignedRecord::flow_removed(at, 0xabc, 1, &[]));
    bench.event(AlignedRecord::lost(3));
    assert_eq!(
        bench.log(),
        [
            "Info: barrier",
            "Info: multipart_reply MultipartReply { more: false, body: Group([]) }",
            "Info: Xid(1) GROUP_MOD_FAILED/UNKNOWN_GROUP",
            "Info: gone 0xabc",
            "Info: lost 3",
        ]
    );
}
