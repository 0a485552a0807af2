//! Tests the owner with records of its host: switches, clients, the storage and a switch that keeps flows.

use std::collections::BTreeMap;

use openflow::{FlowModCommand, FlowStatsRequest, Header, MultipartRequest, Version, append};
use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::openflow;
use rosemary_sdk::services::Outcome;
use rosemary_sdk::services::storage::{self, KeysWriter, Request as StorageRequest};
use rosemary_sdk::services::user::for_user;
use rosemary_sdk::serving::ClientNews;
use rosemary_sdk::testing::{AlignedRecord, Bench, Sent};
use rosemary_sdk::{Action, App, FlowMod, Match, PortNo};

use super::*;

struct OnSwitch(Owner);
struct Assigned(Owner);

macro_rules! app {
    ($name:ident) => {
        impl App for $name {
            fn create() -> Self {
                Self(Owner::new(Numbering::$name))
            }
            fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
                self.0.on_event(&event, network);
            }
            fn on_wake(&mut self, network: &mut Network<'_>) {
                self.0.on_wake(network);
            }
        }
    };
}

app!(OnSwitch);
app!(Assigned);

/// The app with a switch, a storage and a client of each kind.
struct Lab {
    bench: Bench,
    switch: Switch,
    stored: BTreeMap<Vec<u8>, Vec<u8>>,
    disk_is_full: bool,
    /// Flow-mods that reached the switch.
    flow_mods: Vec<Vec<u8>>,
    /// The error that the switch answers flow-mods with.
    error: Option<[u8; 4]>,
    requests: u64,
}

const OPERATOR: ClientId = ClientId(1);
const APP: ClientId = ClientId(2);

impl Lab {
    fn new<A: App>(version: Version, stored: BTreeMap<Vec<u8>, Vec<u8>>) -> Self {
        let switch = Bench::switch(1, version);
        let bench = Bench::new::<A>();
        let mut lab = Self {
            bench,
            switch,
            stored,
            disk_is_full: false,
            flow_mods: Vec::new(),
            error: None,
            requests: 0,
        };
        for (client, rights) in [(OPERATOR, "operator"), (APP, "")] {
            let body = ClientEvent::connected_body("x", rights);
            let request = ClientRequest { client, id: 0 };
            lab.event(AlignedRecord::client(ClientNews::Connected, request, 0, &body));
        }
        lab.event(AlignedRecord::about(RecordKind::SwitchUp, switch));
        let none = RequestId(0);
        lab.event(AlignedRecord::service(Service::Storage, Outcome::Up, none, &[]));
        lab
    }

    /// Handles an event and everything that follows.
    fn event(&mut self, record: AlignedRecord) {
        let mut sent = self.bench.event(record);
        loop {
            let mut records: Vec<AlignedRecord> =
                std::mem::take(&mut sent).iter().filter_map(|it| self.switch(it)).collect();
            for asked in self.bench.asked() {
                let answer = self.storage(&asked.request);
                let service = Service::Storage;
                records.push(AlignedRecord::service(service, Outcome::Answered, asked.id, &answer));
            }
            if records.is_empty() {
                return;
            }
            for record in records {
                sent.extend(self.bench.event(record));
            }
        }
    }

    fn switch(&mut self, sent: &Sent) -> Option<AlignedRecord> {
        let header = Header::decode(&sent.message).unwrap();
        let version = Version::from_wire(header.version).unwrap();
        let xid = header.xid.to_be_bytes();
        match Kind::from_wire(version, header.kind).unwrap() {
            Kind::BarrierRequest => {
                let reply = Kind::BarrierReply.to_wire(version).unwrap();
                let reply = [&[header.version, reply, 0, 8][..], &xid].concat();
                Some(AlignedRecord::answer(RecordKind::Reply, self.switch, &reply))
            }
            Kind::FlowMod => match self.error {
                None => {
                    self.flow_mods.push(sent.message.clone());
                    None
                }
                Some(code) => {
                    let error = [&[header.version, 1, 0, 12][..], &xid, &code].concat();
                    Some(AlignedRecord::answer(RecordKind::Error, self.switch, &error))
                }
            },
            _ => None,
        }
    }

    fn storage(&mut self, request: &[u8]) -> Vec<u8> {
        match StorageRequest::decode(request).unwrap() {
            StorageRequest::Get { key, .. } => match self.stored.get(key) {
                Some(value) => Stored::Value { version: 1, value }.encode(),
                None => Stored::Nothing.encode(),
            },
            StorageRequest::Put { .. } if self.disk_is_full => {
                Stored::Refused(storage::Refused::DiskFull).encode()
            }
            StorageRequest::Put { key, value, .. } => {
                self.stored.insert(key.to_vec(), value.to_vec());
                Stored::Done { version: 1 }.encode()
            }
            StorageRequest::Delete { key, .. } => {
                self.stored.remove(key);
                Stored::Done { version: 0 }.encode()
            }
            StorageRequest::List { prefix, after, .. } => {
                let mut keys = KeysWriter::default();
                for key in
                    self.stored.keys().filter(|it| it.starts_with(prefix) && it.as_slice() > after)
                {
                    keys.push(key, 1);
                }
                keys.finish(false)
            }
            other => panic!("{other:?}"),
        }
    }

    fn request(&mut self, client: ClientId, request: Request<'_>) -> Answer {
        self.requests += 1;
        let id = ClientRequest { client, id: self.requests };
        self.event(AlignedRecord::client(ClientNews::Request, id, 0, &request.encode()));
        let answers = self.bench.answers();
        let answer = answers.iter().find(|it| it.request == id).expect("an answer");
        Answer::decode(&answer.body).unwrap()
    }

    fn change(&mut self, flow: &FlowMod<'_>) -> Answer {
        let message = encoded(flow);
        self.request(OPERATOR, Request::Change { dpid: 1, message: &message })
    }

    fn flow_mods(&mut self) -> Vec<FlowMod<'_>> {
        self.flow_mods.iter().map(|it| FlowMod::decode(it).unwrap()).collect()
    }
}

fn encoded(flow: &FlowMod<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, |room| flow.encode(Version::V1_3, 0, room)).unwrap();
    out
}

fn in_port(port: u32) -> Match {
    Match::new().in_port(PortNo(port))
}

#[track_caller]
fn assert_refused(answer: &Answer, kind: Refused, words: &str) {
    match answer {
        Answer::Refused { refused, why } => {
            assert!(*refused == kind && why.contains(words), "{answer:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn added_flow_is_in_the_switch_and_in_the_storage() {
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, BTreeMap::new());
    let out = [Action::output(PortNo(2))];
    let flow = FlowMod::add(in_port(1)).priority(700).apply(&out);
    assert_eq!(lab.change(&flow), Answer::Done { priority: Some(700) });
    let sent = lab.flow_mods();
    assert_eq!((sent.len(), sent[0].priority, &sent[0].match_), (1, 700, &in_port(1)));

    // Another instance of the app, with a switch that has nothing.
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, lab.stored);
    assert_eq!(lab.flow_mods().len(), 1, "it is restored");
    assert_eq!(lab.change(&FlowMod::delete(Match::new())), Answer::Done { priority: None });
    let stored = lab.stored;
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, stored);
    assert_eq!(lab.flow_mods(), [], "it is no longer wanted");
}

#[test]
fn changes_leave_audit_records() {
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, BTreeMap::new());
    let (one, two) = ([Action::output(PortNo(2))], [Action::output(PortNo(3))]);
    let flow = FlowMod::add(in_port(1)).priority(700);
    lab.change(&flow.clone().apply(&one));
    lab.change(&flow.clone().apply(&two));
    lab.change(&FlowMod::add(in_port(9)).priority(7).idle_timeout(5));
    lab.change(&FlowMod::delete(Match::new()));
    lab.change(&FlowMod::delete(Match::new()));
    lab.error = Some([0, 2, 0, 4]); // bad action, bad out port
    lab.change(&flow.apply(&one));
    let dpid = "00:00:00:00:00:00:00:01";
    let expected = [
        format!("x: add a flow to {dpid}: none -> priority=700,in_port=1 actions=output:2"),
        format!(
            "x: add a flow to {dpid}: priority=700,in_port=1 actions=output:2 -> priority=700,in_port=1 actions=output:3"
        ),
        format!("x: add a flow to {dpid}: unknown -> priority=7,in_port=9 idle:5 actions=drop"),
        format!("x: delete flows of {dpid}: priority=700,in_port=1 actions=output:3 -> none"),
        format!("x: delete flows of {dpid}: none -> none"),
    ];
    let log = lab.bench.log();
    let records: Vec<&str> = log.iter().filter_map(|it| it.strip_prefix("Audit: ")).collect();
    assert_eq!(records[..5], expected);
    assert!(
        records[5].starts_with(&format!("x: add a flow to {dpid} was refused: ")),
        "{records:?}"
    );
    assert_eq!(records.len(), 6);
}

#[test]
fn user_of_the_http_interface_is_in_the_record() {
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, BTreeMap::new());
    let http = ClientId(3);
    let body = ClientEvent::connected_body("northbound", "operator");
    lab.event(AlignedRecord::client(
        ClientNews::Connected,
        ClientRequest { client: http, id: 0 },
        0,
        &body,
    ));
    let message = encoded(&FlowMod::add(in_port(1)).priority(7));
    let body = for_user("token ci", &Request::Change { dpid: 1, message: &message }.encode());
    for client in [http, OPERATOR] {
        let id = ClientRequest { client, id: 5 };
        lab.event(AlignedRecord::client(ClientNews::Request, id, 0, &body));
    }
    let log = lab.bench.log();
    let records: Vec<&str> = log.iter().filter_map(|it| it.strip_prefix("Audit: ")).collect();
    assert!(records.len() == 1 && records[0].starts_with("token ci: add a flow"), "{records:?}");
    let answers = lab.bench.answers();
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert!(
        matches!(Answer::decode(&answers[1].body), Some(Answer::Refused { .. })),
        "x names no users"
    );
}

#[test]
fn each_answer_names_the_full_disk() {
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, BTreeMap::new());
    lab.disk_is_full = true;
    for port in [1, 2] {
        let message = encoded(&FlowMod::add(in_port(port)).priority(7));
        lab.requests += 1;
        let id = ClientRequest { client: OPERATOR, id: lab.requests };
        let request = Request::Change { dpid: 1, message: &message }.encode();
        lab.event(AlignedRecord::client(ClientNews::Request, id, 0, &request));
        let mut answers = lab.bench.answers();
        // The bench's clock advances by a millisecond with each batch.
        for _ in 0..5_000 {
            if answers.is_empty() {
                lab.bench.batch(&[]).unwrap();
                answers = lab.bench.answers();
            }
        }
        let answer = answers.iter().find(|it| it.request == id).expect("an answer");
        let answer = Answer::decode(&answer.body).unwrap();
        assert!(
            matches!(&answer, Answer::Later { why } if why.contains("the disk is full")),
            "{port}: {answer:?}"
        );
    }
}

#[test]
fn flow_with_a_timeout_is_not_wanted() {
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, BTreeMap::new());
    let flow = FlowMod::add(in_port(1)).priority(7).idle_timeout(5);
    assert_eq!(lab.change(&flow), Answer::Done { priority: Some(7) });
    assert_eq!(lab.flow_mods().len(), 1);
    assert_eq!(Lab::new::<OnSwitch>(Version::V1_3, lab.stored).flow_mods(), []);
}

#[test]
fn refusal_of_the_switch_reaches_the_client_and_restores_the_earlier_flow() {
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, BTreeMap::new());
    let (one, two) = ([Action::output(PortNo(2))], [Action::output(PortNo(99))]);
    lab.change(&FlowMod::add(in_port(1)).priority(7).apply(&one));
    lab.error = Some([0, 2, 0, 4]); // bad action, bad out port
    let refused = lab.change(&FlowMod::add(in_port(1)).priority(7).apply(&two));
    assert_refused(&refused, Refused::Switch, "BAD_OUT_PORT");
    lab.error = None;
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, lab.stored);
    assert!(lab.flow_mods()[0].instructions.apply.iter().eq(one));
    lab.error = Some([0, 2, 0, 4]);
    let refused = lab.change(&FlowMod::add(in_port(9)).priority(7).apply(&two));
    assert_refused(&refused, Refused::Switch, "BAD_OUT_PORT");
    assert_eq!(Lab::new::<OnSwitch>(Version::V1_3, lab.stored).flow_mods().len(), 1);
}

#[test]
fn modify_changes_covered_flows_and_adds_none_in_1_3() {
    let out = [Action::output(PortNo(3))];
    for (version, added) in [(Version::V1_3, 0), (Version::V1_0, 1)] {
        let mut lab = Lab::new::<OnSwitch>(version, BTreeMap::new());
        let modify = FlowMod::new(FlowModCommand::Modify, Match::new()).priority(9).apply(&out);
        lab.change(&modify);
        let modify_of_1_3 = |it: &FlowMod<'_>| it.command == FlowModCommand::Modify;
        let count = lab.flow_mods().iter().filter(|it| !modify_of_1_3(it)).count();
        assert_eq!(count, added, "{version:?}");
        lab.change(&FlowMod::add(in_port(1)).priority(7).cookie(4));
        lab.change(&modify);
        let mut lab = Lab::new::<OnSwitch>(version, lab.stored);
        let flows = lab.flow_mods();
        let it = flows.iter().find(|it| it.match_ == in_port(1)).unwrap();
        assert!(it.instructions.apply.iter().eq(out.clone()), "{version:?}");
        assert_eq!((it.priority, it.cookie & 0xff), (7, 4), "{version:?}");
    }
}

#[test]
fn switch_of_1_0_gets_a_delete_for_each_flow() {
    let mut lab = Lab::new::<OnSwitch>(Version::V1_0, BTreeMap::new());
    lab.change(&FlowMod::add(in_port(1)).priority(7));
    lab.change(&FlowMod::add(in_port(2)).priority(8));
    lab.flow_mods.clear();
    assert_eq!(lab.change(&FlowMod::delete(in_port(2))), Answer::Done { priority: None });
    let sent = lab.flow_mods();
    let strict = FlowModCommand::DeleteStrict;
    assert!(sent.iter().all(|it| it.command == strict && it.match_ == in_port(2)), "{sent:?}");
}

#[test]
fn assigned_priorities_are_kept_and_listed() {
    let mut lab = Lab::new::<Assigned>(Version::V1_3, BTreeMap::new());
    lab.change(&FlowMod::add(in_port(1)).priority(0));
    lab.change(&FlowMod::add(in_port(1)).priority(11_111));
    let numbers = lab.request(OPERATOR, Request::Numbers);
    let Answer::Numbers(numbers) = numbers else { panic!("{numbers:?}") };
    assert_eq!(numbers.priorities, (1, u16::MAX));
    assert_eq!(numbers.assigned.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 11_111]);
    let mut lab = Lab::new::<Assigned>(Version::V1_3, lab.stored);
    assert_eq!(lab.request(OPERATOR, Request::Numbers), Answer::Numbers(numbers));
    let unknown = FlowMod::new(FlowModCommand::DeleteStrict, in_port(1)).priority(5);
    lab.flow_mods.clear();
    assert_eq!(lab.change(&unknown), Answer::Done { priority: None });
    assert_eq!(lab.flow_mods(), [], "no flow has this priority");
}

#[test]
fn questions_are_passed_on_with_their_answers() {
    let mut lab = Lab::new::<Assigned>(Version::V1_3, BTreeMap::new());
    let mut message = Vec::new();
    let flows = MultipartRequest::Flow(FlowStatsRequest::new(Match::new()));
    append(&mut message, |room| flows.encode(Version::V1_3, 0, room)).unwrap();
    let id = ClientRequest { client: OPERATOR, id: 77 };
    let request = Request::Ask { dpid: 1, message: &message }.encode();
    let sent = lab.bench.event(AlignedRecord::client(ClientNews::Request, id, 0, &request));
    let xid = Header::decode(&sent.last().unwrap().message).unwrap().xid.to_be_bytes();
    let reply = |flags: u8| [&[4, 19, 0, 16][..], &xid, &[0, 1, 0, flags, 0, 0, 0, 0]].concat();
    for (flags, more) in [(1, true), (0, false)] {
        lab.event(AlignedRecord::answer(RecordKind::Reply, lab.switch, &reply(flags)));
        let answer = lab.bench.answers().remove(0);
        assert_eq!((answer.request, answer.more), (id, more));
        assert_eq!(Answer::decode(&answer.body), Some(Answer::Messages(reply(flags))));
    }
}

#[test]
fn disconnected_switch_ends_a_question() {
    let mut lab = Lab::new::<Assigned>(Version::V1_3, BTreeMap::new());
    let mut message = Vec::new();
    append(&mut message, |room| MultipartRequest::Desc.encode(Version::V1_3, 0, room)).unwrap();
    let id = ClientRequest { client: OPERATOR, id: 77 };
    let request = Request::Ask { dpid: 1, message: &message }.encode();
    lab.bench.event(AlignedRecord::client(ClientNews::Request, id, 0, &request));
    lab.event(AlignedRecord::about(RecordKind::SwitchDown, lab.switch));
    let answer = Answer::decode(&lab.bench.answers().remove(0).body).unwrap();
    assert_refused(&answer, Refused::Unavailable, "disconnected");
}

#[test]
fn hostile_and_impossible_requests_are_refused() {
    let mut lab = Lab::new::<OnSwitch>(Version::V1_3, BTreeMap::new());
    let flow = encoded(&FlowMod::add(in_port(1)).priority(7));
    let change = Request::Change { dpid: 1, message: &flow };
    assert_refused(&lab.request(APP, change), Refused::NotGranted, "only operators");
    let absent = Request::Change { dpid: 2, message: &flow };
    assert_refused(&lab.request(OPERATOR, absent), Refused::NoSwitch, "00:02");
    let cookie = FlowMod::add(in_port(1)).priority(7).cookie(1 << 47);
    assert_refused(&lab.change(&cookie), Refused::Rule, "47 bits");
    for cut in 0..flow.len() {
        let change = Request::Change { dpid: 1, message: &flow[..cut] };
        let answer = lab.request(OPERATOR, change);
        assert!(matches!(answer, Answer::Refused { .. }), "{cut}: {answer:?}");
    }
    let hello = [4, 0, 0, 8, 0, 0, 0, 0];
    let change = Request::Change { dpid: 1, message: &hello };
    assert_refused(&lab.request(OPERATOR, change), Refused::Rule, "not a change");
    let ask = Request::Ask { dpid: 1, message: &flow };
    assert_refused(&lab.request(OPERATOR, ask), Refused::Rule, "not a question");
    assert_eq!(lab.flow_mods(), []);
}
