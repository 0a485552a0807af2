//! Apps in Rust, through the ABI and back. These run under Miri too (`make miri`).
#![cfg(feature = "host")]

use openflow::{
    Bucket, ErrorMessage, FlowRemovedReason, GroupKind, GroupMod, GroupModCommand, Header, Kind,
    MeterMod, MeterModCommand, MultipartReply, MultipartRequest, PortNo, ReplyBody, Version,
    append,
};
use rosemary_sdk::abi::host::{Failed, HostedApp, LoadError};
use rosemary_sdk::abi::{MAX_CONFIG, RecordKind};
use rosemary_sdk::http::{HttpRequest, Response};
use rosemary_sdk::serving::ClientRequest;
use rosemary_sdk::testing::{AlignedRecord, Bench, Recorder};
use rosemary_sdk::{Action, App, Batch, Event, Network, SendError, Switch, Xid};

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
fn app_and_host_share_state_over_moves() {
    let mut bench = Bench::new::<Busy>();
    for _ in 0..3 {
        let (answer, sent) = bench.batch(&packets::<2>()).unwrap();
        assert_eq!((answer.handled, sent.len()), (2, 2));
        assert_eq!(bench.stopped(), [0, 1]);
        assert_eq!(bench.log(), ["Info: flooded", "Info: flooded"]);
        bench = std::hint::black_box(bench); // moves it
    }
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
fn repeated_or_unhandled_stop_counts_nothing() {
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
fn panic_is_logged_and_its_stops_dropped() {
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
fn app_with_bad_configuration_is_not_created() {
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
fn app_without_configuration_rejects_one() {
    Bench::configured::<Panics>(" \n").unwrap();
    let error = Bench::configured::<Panics>("level = 7").unwrap_err();
    assert!(error.to_string().contains("this app takes none; leave `config` out"), "{error}");
}

/// Sends requests when a switch connects, and logs the replies.
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
fn replies_carry_the_xids_of_requests() {
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

/// Answers HTTP requests at once, with its timer, or badly.
struct Web {
    later: Option<ClientRequest>,
}

impl App for Web {
    fn create() -> Self {
        Self { later: None }
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if matches!(event, Event::Http(_)) {
            network.error("an HTTP request is no event of on_event");
        }
        if let Some(request) = self.later.take() {
            network.respond(request, &Response::text(200, "later")).expect("a valid answer");
        }
    }

    fn on_http_request(
        &mut self,
        request: &HttpRequest<'_>,
        _: &mut Network<'_>,
    ) -> Option<Response> {
        match request.path() {
            "/" => Some(Response::json(200, format!("{:?}", request.query()))),
            "/later" => {
                self.later = Some(request.id);
                None
            }
            _ => Some(Response::new(200).header("a", "b\r\nc: d")),
        }
    }
}

#[test]
fn http_requests_are_answered_now_or_later() {
    let mut bench = Bench::new::<Web>();
    assert_eq!(bench.http("GET", "/?x=1", b""), Some(Response::json(200, "\"x=1\"")));
    bench.room = 2_048; // less than a long request has
    assert_eq!(bench.http("GET", "/?", &vec![0; 20_000]), Some(Response::json(200, "\"\"")));
    bench.room = 1 << 20;
    assert_eq!(bench.http("GET", "/later", b""), None);
    assert_eq!(bench.log(), [""; 0]);
    let [packet] = packets();
    bench.event(packet);
    let answers = bench.answers();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].body.ends_with(b"later") && !answers[0].more);
}

#[test]
fn invalid_http_answer_becomes_status_500() {
    let mut bench = Bench::new::<Web>();
    assert_eq!(bench.http("GET", "/bad", b"").map(|it| it.status), Some(500));
    let log = bench.log();
    assert!(log.len() == 1 && log[0].contains("the answer to GET /bad was not sent"), "{log:?}");
    let mut other = Bench::new::<Busy>();
    assert_eq!(other.http("GET", "/", b"").map(|it| it.status), Some(404));
}

/// Notes the calls of its timers. A packet sets the timers `once` in 3 ms and `poll` every 2 ms, and one without a name in
/// 100 ms; another one `poll` every millisecond, and one without a name in 5 ms.
struct Ticking;

impl App for Ticking {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let Event::PacketIn(packet_in) = event else { return };
        let ms = std::time::Duration::from_millis;
        network.info("a packet");
        if packet_in.data.starts_with(b"set") {
            network.set_timer("once", network.now() + ms(3)).expect("few timers");
            network.repeat_timer("poll", ms(2)).expect("few timers");
            network.wake_at(network.now() + ms(100));
        } else if packet_in.data.starts_with(b"each") {
            network.repeat_timer("poll", ms(1)).expect("few timers");
            network.wake_at(network.now() + ms(5));
        }
    }

    fn on_timer(&mut self, name: &str, network: &mut Network<'_>) {
        network.info(name);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        network.info("woken");
    }
}

#[test]
fn timers_with_names_survive_other_events() {
    let (mut bench, at) = (Bench::new::<Ticking>(), Bench::switch(7, Version::V1_3));
    let packet = |data: &[u8]| [AlignedRecord::packet_in(at, PortNo(3), data)];
    // Each call comes a millisecond after the last one.
    let (set, _) = bench.batch(&packet(b"set")).unwrap();
    assert_eq!(set.wake_at_ns, Some(3_000_000), "the first is due 2 ms later");
    let mut calls = Vec::new();
    for data in [&b"2"[..], b"", b"4", b"", b""] {
        let records = if data.is_empty() { Vec::new() } else { packet(data).into() };
        let (answer, _) = bench.batch(&records).unwrap();
        calls.push((bench.log().join(" ").replace("Info: ", ""), answer.wake_at_ns));
    }
    let ms = |ms: u64| Some(ms * 1_000_000);
    let expected = [("a packet a packet", ms(3)), ("poll", ms(4)), ("once a packet", ms(5))];
    let expected = [&expected[..], &[("poll", ms(7)), ("woken", ms(7))]].concat();
    let calls: Vec<_> = calls.iter().map(|(log, at)| (log.as_str(), *at)).collect();
    assert_eq!(calls, expected);
}

#[test]
fn timers_with_names_leave_the_timer_without_one() {
    let (mut bench, at) = (Bench::new::<Ticking>(), Bench::switch(7, Version::V1_3));
    bench.batch(&[AlignedRecord::packet_in(at, PortNo(3), b"each")]).unwrap();
    bench.log();
    let calls: Vec<String> = (0..6)
        .map(|_| {
            bench.batch(&[]).unwrap();
            bench.log().join(" ").replace("Info: ", "")
        })
        .collect();
    assert_eq!(calls, ["poll", "poll", "poll", "poll", "poll woken", "poll"]);
}

#[test]
fn timers_wait_for_room() {
    let (mut bench, at) = (Bench::new::<Ticking>(), Bench::switch(7, Version::V1_3));
    bench.batch(&[AlignedRecord::packet_in(at, PortNo(3), b"set")]).unwrap();
    bench.room = 100;
    bench.log();
    bench.batch(&[]).unwrap();
    let (answer, _) = bench.batch(&[]).unwrap();
    assert_eq!((bench.log(), answer.wake_at_ns), (vec!["Info: woken".to_owned()], Some(4_000_000)));
    bench.room = 1 << 20;
    bench.batch(&[]).unwrap();
    assert_eq!(bench.log(), ["Info: poll", "Info: once"]);
}
