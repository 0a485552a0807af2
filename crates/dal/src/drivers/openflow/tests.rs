//! Tests sessions with scripted bytes and times.

use std::time::{Duration, Instant};

use openflow::{
    Capabilities, ControllerRole, ControllerStatus, ErrorMessage, Features, FlowRemoved,
    FlowRemovedReason, Header, Hello, Kind, MacAddr, Match, MultipartReply, PacketIn, PortDesc,
    PortDescReply, PortNo, PortReason, PortStatus, ReplyBody, RoleReason, RoleStatus, SwitchConfig,
    TableStats, Version, append,
};

use super::negotiation::recognise;
use super::session::{BAD_LEN, BAD_TYPE, BAD_VERSION};
use super::*;
use crate::closed::Closed;
use crate::session::{Description, Event, Inbound, Session as _, Table};

mod descriptions;
mod first_messages;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const VERSIONS: [Version; Version::COUNT] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

/// A session, and the bytes that it has sent.
struct Script {
    session: Session,
    start: Instant,
    out: Vec<u8>,
}

impl Script {
    fn new() -> Self {
        Self::offering(OfferedVersions::default())
    }

    /// One that offers these versions.
    fn offering(versions: OfferedVersions) -> Self {
        let start = Instant::now();
        let session = Session::new(start, Timing::default(), versions);
        Self { session, start, out: Vec::new() }
    }

    /// One that has completed the handshake in `version`.
    fn up(version: Version) -> Self {
        let mut script = Self::offering(OfferedVersions::only(&[version]).unwrap());
        script.receive(&hello(&[version])).unwrap();
        script.receive(&features(version, 0)).unwrap();
        if version.features().port_desc {
            script.receive(&ports(version, 1, false)).unwrap();
        }
        assert!(script.session.is_up());
        script.session.configure(&mut script.out);
        script.out.clear();
        script
    }

    fn receive<'m>(&mut self, message: &'m [u8]) -> Result<Option<Event<'m>>, Closed> {
        self.session.handle(message, &mut self.out)
    }

    /// Returns the transaction ids of the messages since the last call.
    fn xids(&mut self) -> Vec<u32> {
        let (mut xids, mut rest) = (Vec::new(), &self.out[..]);
        while let Some((message, after)) = framing::cut(rest).unwrap() {
            xids.push(Header::decode(message).unwrap().xid);
            rest = after;
        }
        self.out.clear();
        xids
    }

    fn at(&mut self, time: Duration) -> Result<(), Closed> {
        self.session.tick(self.start + time, &mut self.out)
    }

    fn note_received(&mut self, time: Duration) {
        self.session.note_received(self.start + time);
    }

    /// Returns the kinds of the messages since the last call.
    fn sent(&mut self) -> Vec<Kind> {
        let (mut kinds, mut rest) = (Vec::new(), &self.out[..]);
        while let Some((message, after)) = framing::cut(rest).unwrap() {
            let header = Header::decode(message).unwrap();
            let version = Version::from_wire(header.version).unwrap();
            kinds.push(Kind::from_wire(version, header.kind).unwrap());
            rest = after;
        }
        assert!(rest.is_empty());
        self.out.clear();
        kinds
    }

    /// Returns the last error that was sent.
    fn error(&self) -> (u16, u16) {
        let (mut last, mut rest) = (&self.out[..0], &self.out[..]);
        while let Some((message, after)) = framing::cut(rest).unwrap() {
            (last, rest) = (message, after);
        }
        let error = ErrorMessage::decode(last).unwrap();
        (error.kind, error.code)
    }
}

fn bytes(encode: impl Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, encode).unwrap();
    out
}

fn hello(versions: &[Version]) -> Vec<u8> {
    bytes(|out| Hello::new(versions).encode(1, out))
}

fn port(number: u32) -> PortDesc {
    PortDesc::new(PortNo(number), MacAddr([2, 0, 0, 0, 0, 1]), "eth")
}

fn features(version: Version, auxiliary_id: u8) -> Vec<u8> {
    let ports = if version.features().port_desc { Vec::new() } else { vec![port(1), port(2)] };
    let features = Features {
        dpid: openflow::Dpid(0xd1d),
        n_buffers: 256,
        n_tables: 254,
        auxiliary_id,
        capabilities: Capabilities(0),
        actions: 0,
        ports,
    };
    bytes(|out| features.encode(version, 2, out))
}

fn ports(version: Version, number: u32, more: bool) -> Vec<u8> {
    bytes(|out| PortDescReply::encode(&[port(number)], more, version, 3, out))
}

#[test]
fn switch_of_1_0_is_up_after_its_features() {
    let mut script = Script::new();
    assert!(script.receive(&hello(&[Version::V1_0])).unwrap().is_none());
    assert_eq!(script.sent(), [Kind::Hello, Kind::FeaturesRequest]);
    let features = features(Version::V1_0, 0);
    let Some(Event::Up(info)) = script.receive(&features).unwrap() else { panic!("not up") };
    assert_eq!((info.version, info.dpid.0, info.ports.len()), (Version::V1_0, 0xd1d, 2));
    assert_eq!(script.sent(), [], "the caller may refuse the datapath");
    script.session.configure(&mut script.out);
    let requests = [Kind::SetConfig, Kind::GetConfigRequest, Kind::MultipartRequest];
    assert_eq!(script.sent(), requests);
}

#[test]
fn switch_of_1_3_is_up_after_the_last_part_of_its_ports() {
    let mut script = Script::new();
    script.receive(&hello(&VERSIONS)).unwrap();
    script.sent();
    assert!(script.receive(&features(Version::V1_3, 0)).unwrap().is_none());
    assert_eq!(script.sent(), [Kind::MultipartRequest]);
    assert!(script.receive(&ports(Version::V1_3, 1, true)).unwrap().is_none());
    let last = ports(Version::V1_3, 2, false);
    let Some(Event::Up(info)) = script.receive(&last).unwrap() else { panic!("not up") };
    assert_eq!((info.version, info.ports.len()), (Version::V1_3, 2));
    script.session.configure(&mut script.out);
    let requests = [Kind::SetConfig, Kind::GetConfigRequest, Kind::MultipartRequest];
    assert_eq!(script.sent(), requests);
}

/// A reply to another request may arrive between the parts of the expected one.
#[test]
fn reply_of_another_request_is_ignored_in_the_handshake() {
    let mut script = Script::new();
    script.receive(&hello(&VERSIONS)).unwrap();
    script.receive(&features(Version::V1_3, 0)).unwrap();
    assert!(script.receive(&ports(Version::V1_3, 1, true)).unwrap().is_none());
    let foreign =
        |more| bytes(|out| PortDescReply::encode(&[port(99)], more, Version::V1_3, 1003, out));
    for more in [true, false] {
        assert!(script.receive(&foreign(more)).unwrap().is_none());
    }
    let mut description = vec![4, 19, 4, 0x30, 0, 0, 0xde, 0xad];
    description.resize(0x430, 0);
    assert!(script.receive(&description).unwrap().is_none());
    let last = ports(Version::V1_3, 2, false);
    let Some(Event::Up(info)) = script.receive(&last).unwrap() else { panic!("not up") };
    let numbers: Vec<u32> = info.ports.iter().map(|port| port.port_no.0).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn refused_request_ends_the_handshake_at_once() {
    let bad_request = |xid| {
        let error = ErrorMessage { version: Version::V1_3, kind: 1, code: 2, data: &[] };
        bytes(|out| error.encode(xid, out))
    };
    for (what, asked) in [("features", 2), ("ports", 3)] {
        let mut script = Script::new();
        script.receive(&hello(&VERSIONS)).unwrap();
        if what == "ports" {
            script.receive(&features(Version::V1_3, 0)).unwrap();
        }
        assert!(script.receive(&bad_request(77)).is_ok(), "it is about another message");
        let closed = script.receive(&bad_request(asked)).unwrap_err();
        let why = "BAD_REQUEST/BAD_MULTIPART".to_owned();
        assert_eq!(closed, Closed::RequestRefused { what, why });
    }
}

#[test]
fn silent_switch_receives_one_hello_until_the_deadline() {
    let mut script = Script::new();
    script.at(299 * MS).unwrap();
    assert_eq!(script.sent(), []);
    script.at(300 * MS).unwrap();
    assert_eq!(script.sent(), [Kind::Hello]);
    script.at(9 * S).unwrap();
    assert_eq!(script.sent(), []);
    assert_eq!(script.at(10 * S), Err(Closed::Handshake(10 * S)));
}

#[test]
fn incomplete_handshake_ends_at_the_deadline() {
    let mut script = Script::new();
    script.receive(&hello(&VERSIONS)).unwrap();
    script.note_received(9999 * MS);
    assert!(matches!(script.at(10 * S), Err(Closed::Handshake(_))));
}

#[test]
fn silence_is_probed_once_and_ends_the_session() {
    let mut script = Script::up(Version::V1_3);
    script.at(5 * S).unwrap();
    script.at(6 * S).unwrap();
    assert_eq!(script.sent(), [Kind::EchoRequest]);
    script.note_received(14 * S);
    script.at(15 * S).unwrap();
    assert_eq!(script.sent(), [Kind::MultipartRequest], "the sizes of its tables");
    script.at(19 * S).unwrap();
    assert_eq!(script.sent(), [Kind::EchoRequest]);
    assert_eq!(script.at(29 * S), Err(Closed::Silent(15 * S)));
}

#[test]
fn only_its_own_reply_answers_a_probe() {
    let mut script = Script::up(Version::V1_3);
    for _ in 0..2 {
        script.session.probe(&mut script.out);
        let xid = script.xids()[0];
        let reply = |xid| bytes(|out| Kind::EchoReply.encode_empty(Version::V1_3, xid, out));
        script.receive(&reply(xid.wrapping_add(1))).unwrap();
        assert!(!script.session.has_answered());
        script.receive(&reply(xid)).unwrap();
        assert!(script.session.has_answered());
    }
}

#[test]
fn anything_before_a_hello_ends_the_session() {
    let closed = Script::new().receive(&features(Version::V1_3, 0)).unwrap_err();
    assert_eq!(closed, Closed::BeforeHello { kind: 6 });
}

#[test]
fn message_of_another_version_after_the_hello_ends_the_session() {
    let mut script = Script::up(Version::V1_3);
    let closed = script.receive(&[1, 2, 0, 8, 0, 0, 0, 9]).unwrap_err();
    assert_eq!(closed, Closed::WrongVersion { theirs: 1, agreed: Version::V1_3 });
    assert_eq!(script.error(), (ErrorMessage::BAD_REQUEST, BAD_VERSION));
}

#[test]
fn unknown_type_is_answered_with_bad_type() {
    for version in VERSIONS {
        let mut script = Script::up(version);
        let message = [version.wire(), 99, 0, 8, 0, 0, 0, 9];
        let event = script.receive(&message).unwrap();
        assert!(matches!(event, Some(Event::UnknownType(99))), "for the record");
        assert_eq!(script.error(), (ErrorMessage::BAD_REQUEST, BAD_TYPE));
        assert!(script.session.is_up());
    }
}

#[test]
fn packet_ins_are_taken_as_runs() {
    let packet_in =
        |version| bytes(|out| PacketIn::new(PortNo(1), &[7; 60]).encode(version, 0, out));
    for version in VERSIONS {
        let mut script = Script::up(version);
        let one = packet_in(version);
        let echo = bytes(|out| Kind::EchoRequest.encode_empty(version, 1, out));
        let part = &one[..one.len() - 1];
        let mut stream = [&one, &one, &one, &echo[..], &one, part].concat();
        let (mut at, mut seen) = (0, Vec::new());
        while let Some(taken) =
            script.session.take(&mut stream[at..], &mut Vec::new(), &mut script.out).unwrap()
        {
            let (size, count) = match taken.inbound {
                Inbound::PacketIns(run) => {
                    let count = std::iter::successors(Some(0), |at| Some(at + one.len()))
                        .take_while(|at| {
                            framing::whole_packet_in(version, &mut run[*at..]).is_some()
                        })
                        .count();
                    (count * one.len(), count)
                }
                Inbound::Message(..) => panic!("there is no such message"),
                Inbound::Nothing => (taken.size.unwrap(), 0),
            };
            at += size;
            seen.push(count);
        }
        assert_eq!((seen, &stream[at..]), (vec![3, 0, 1], part));
        assert_eq!(script.sent(), [Kind::EchoReply]);
    }
}

#[test]
fn length_below_the_header_is_answered_with_bad_len() {
    for version in VERSIONS {
        let mut script = Script::up(version);
        let broken = [version.wire(), 2, 0, 7, 0, 0, 0, 9, 1, 2];
        assert!(framing::cut(&broken).is_err());
        script.session.frame(&broken, &mut script.out).unwrap_err();
        assert_eq!(script.error(), (ErrorMessage::BAD_REQUEST, BAD_LEN));
        assert_eq!(script.xids(), [9]);
    }
    // Before the hello no version is known, so no error is sent.
    let mut script = Script::new();
    script.session.frame(&[4, 0, 0, 7, 0, 0, 0, 9], &mut script.out).unwrap_err();
    assert_eq!(script.sent(), []);
}

#[test]
fn unrequested_features_reply_ends_the_session() {
    for version in VERSIONS {
        let mut script = Script::up(version);
        assert_eq!(script.receive(&features(version, 0)).unwrap_err(), Closed::Unrequested);
    }
    let mut script = Script::new();
    script.receive(&hello(&VERSIONS)).unwrap();
    script.receive(&features(Version::V1_3, 0)).unwrap();
    let again = features(Version::V1_3, 0);
    assert_eq!(
        script.receive(&again).unwrap_err(),
        Closed::Unrequested,
        "while its ports are requested"
    );
}

#[test]
fn other_replies_and_removed_flows_are_events() {
    for version in VERSIONS {
        let mut script = Script::up(version);
        let barrier = Kind::BarrierReply;
        let reply = bytes(|out| barrier.encode_empty(version, 77, out));
        assert!(
            matches!(script.receive(&reply).unwrap(), Some(Event::Reply(kind)) if kind == barrier)
        );
        let removed = FlowRemoved {
            match_: Match::new(),
            cookie: 9,
            priority: 1,
            reason: FlowRemovedReason::IdleTimeout,
            table_id: 0,
            duration: S,
            idle_timeout: 1,
            hard_timeout: 0,
            packet_count: 0,
            byte_count: 0,
        };
        let removed = bytes(|out| removed.encode(version, 0, out));
        let event = script.receive(&removed).unwrap();
        assert!(matches!(event, Some(Event::FlowRemoved(FlowRemoved { cookie: 9, .. }))));
        let mut cut = removed[..20].to_vec();
        cut[3] = 20;
        assert!(matches!(script.receive(&cut).unwrap(), Some(Event::Malformed(_))));
    }
}

#[test]
fn role_and_states_of_controllers_are_reported() {
    let mut script = Script::up(Version::V1_5);
    let (role, reason) = (ControllerRole::Slave, RoleReason::MasterRequest);
    let status = RoleStatus { role, reason, generation_id: 7 };
    let message = bytes(|out| status.encode(Version::V1_5, 0, out));
    assert!(matches!(script.receive(&message), Ok(Some(Event::RoleStatus(it))) if it == status));
    assert_eq!(script.session.role(), Some(role));
    let uri = b"tcp:10.0.0.1:6653".to_vec();
    let status = ControllerStatus { short_id: 3, role, reason: 1, is_up: false, uri };
    let message = bytes(|out| status.encode(Version::V1_5, 0, out));
    let event = script.receive(&message);
    assert!(matches!(event, Ok(Some(Event::ControllerStatus(it))) if it == status));
    let cut = script.receive(&message[..20]);
    assert!(matches!(cut, Ok(Some(Event::Malformed(_)))));
}

#[test]
fn auxiliary_connection_is_refused() {
    let mut script = Script::new();
    script.receive(&hello(&VERSIONS)).unwrap();
    let closed = script.receive(&features(Version::V1_3, 7)).unwrap_err();
    assert_eq!(closed, Closed::Auxiliary { id: 7 });
}

#[test]
fn echo_is_answered_with_its_bytes_in_every_state_after_the_hello() {
    let mut script = Script::new();
    script.receive(&hello(&VERSIONS)).unwrap();
    script.out.clear();
    script.receive(&[4, 2, 0, 11, 0, 0, 0, 9, 1, 2, 3]).unwrap();
    assert_eq!(script.out, [4, 3, 0, 11, 0, 0, 0, 9, 1, 2, 3]);
}

#[test]
fn packet_in_during_the_handshake_is_ignored() {
    let mut script = Script::new();
    script.receive(&hello(&[Version::V1_0])).unwrap();
    let packet_in = [1, 10, 0, 20, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 2, 0, 1, 0, 0, 7, 7];
    assert!(script.receive(&packet_in).unwrap().is_none());
}

#[test]
fn messages_after_the_handshake_are_events() {
    let mut script = Script::up(Version::V1_0);
    let status = PortStatus { reason: PortReason::Add, desc: port(3) };
    let status = bytes(|out| status.encode(Version::V1_0, 0, out));
    assert!(matches!(script.receive(&status).unwrap(), Some(Event::PortStatus(_))));

    let error = [1, 1, 0, 12, 0, 0, 0, 0, 0, 1, 0, 1];
    assert!(matches!(script.receive(&error).unwrap(), Some(Event::Error(_))));

    let broken = [1, 12, 0, 9, 0, 0, 0, 0, 0];
    assert!(matches!(script.receive(&broken).unwrap(), Some(Event::Malformed(_))));
    assert!(script.session.is_up());
}

#[test]
fn damaged_handshake_does_not_panic() {
    for message in [features(Version::V1_0, 0), features(Version::V1_3, 0)] {
        for at in 8..message.len() {
            let mut script = Script::new();
            script.receive(&hello(&[Version::from_wire(message[0]).unwrap()])).unwrap();
            let mut cut = message[..at].to_vec();
            cut[2..4].copy_from_slice(&u16::try_from(at).unwrap().to_be_bytes());
            let _ = script.receive(&cut);
            let mut garbled = message.clone();
            garbled[at] ^= 0xff;
            let _ = script.receive(&garbled);
        }
    }
}
