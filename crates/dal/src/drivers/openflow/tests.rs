//! Scripted bytes and times in, bytes and events out.

use std::time::{Duration, Instant};

use openflow::{
    Capabilities, ErrorMessage, Features, Header, Hello, Kind, MacAddr, PacketIn, PortDesc,
    PortDescReply, PortNo, PortReason, PortStatus, Version, append,
};

use super::session::{BAD_TYPE, BAD_VERSION};
use super::*;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const VERSIONS: [Version; 2] = [Version::V1_0, Version::V1_3];

/// A session and the script it is in.
struct Script {
    session: Session,
    start: Instant,
    out: Vec<u8>,
}

impl Script {
    fn new() -> Self {
        let start = Instant::now();
        Self { session: Session::new(start, Timing::default()), start, out: Vec::new() }
    }

    /// One that has completed the handshake in `version`.
    fn up(version: Version) -> Self {
        let mut script = Self::new();
        script.receive(&hello(&[version])).unwrap();
        script.receive(&features(version, 0)).unwrap();
        if version == Version::V1_3 {
            script.receive(&ports(1, false)).unwrap();
        }
        assert!(script.session.is_up());
        script.out.clear();
        script
    }

    fn receive<'m>(&mut self, message: &'m [u8]) -> Result<Option<Event<'m>>, Closed> {
        self.session.receive(message, &mut self.out)
    }

    fn at(&mut self, time: Duration) -> Result<(), Closed> {
        self.session.tick(self.start + time, &mut self.out)
    }

    fn heard(&mut self, time: Duration) {
        self.session.heard(self.start + time);
    }

    /// The kinds of what was said since the last call.
    fn said(&mut self) -> Vec<Kind> {
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

    /// The error that was said last.
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
    let ports = if version == Version::V1_0 { vec![port(1), port(2)] } else { Vec::new() };
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

fn ports(number: u32, more: bool) -> Vec<u8> {
    bytes(|out| PortDescReply::encode(&[port(number)], more, Version::V1_3, 3, out))
}

#[test]
fn switch_of_1_0_is_up_after_its_features() {
    let mut script = Script::new();
    assert!(script.receive(&hello(&[Version::V1_0])).unwrap().is_none());
    assert_eq!(script.said(), [Kind::Hello, Kind::FeaturesRequest]);
    let features = features(Version::V1_0, 0);
    let Some(Event::Up(info)) = script.receive(&features).unwrap() else { panic!("not up") };
    assert_eq!((info.version, info.dpid.0, info.ports.len()), (Version::V1_0, 0xd1d, 2));
    assert_eq!(script.said(), [Kind::SetConfig]);
}

#[test]
fn switch_of_1_3_is_up_after_the_last_part_of_its_ports() {
    let mut script = Script::new();
    script.receive(&hello(&VERSIONS)).unwrap();
    script.said();
    assert!(script.receive(&features(Version::V1_3, 0)).unwrap().is_none());
    assert_eq!(script.said(), [Kind::MultipartRequest]);
    assert!(script.receive(&ports(1, true)).unwrap().is_none());
    let last = ports(2, false);
    let Some(Event::Up(info)) = script.receive(&last).unwrap() else { panic!("not up") };
    assert_eq!((info.version, info.ports.len()), (Version::V1_3, 2));
    assert_eq!(script.said(), [Kind::SetConfig]);
}

#[test]
fn silent_switch_gets_our_hello_once_and_is_closed_at_the_deadline() {
    let mut script = Script::new();
    script.at(299 * MS).unwrap();
    assert_eq!(script.said(), []);
    script.at(300 * MS).unwrap();
    assert_eq!(script.said(), [Kind::Hello]);
    script.at(9 * S).unwrap();
    assert_eq!(script.said(), []);
    assert_eq!(script.at(10 * S), Err(Closed::Handshake(10 * S)));
}

#[test]
fn switch_that_stops_in_the_handshake_is_closed_at_the_deadline_however_much_it_says() {
    let mut script = Script::new();
    script.receive(&hello(&VERSIONS)).unwrap();
    script.heard(9999 * MS);
    assert!(matches!(script.at(10 * S), Err(Closed::Handshake(_))));
}

#[test]
fn silence_is_probed_once_and_ends_the_session_unless_anything_is_heard() {
    let mut script = Script::up(Version::V1_3);
    script.at(5 * S).unwrap();
    script.at(6 * S).unwrap();
    assert_eq!(script.said(), [Kind::EchoRequest]);
    script.heard(14 * S);
    script.at(15 * S).unwrap();
    assert_eq!(script.said(), []);
    script.at(19 * S).unwrap();
    assert_eq!(script.said(), [Kind::EchoRequest]);
    assert_eq!(script.at(29 * S), Err(Closed::Silent(15 * S)));
}

#[test]
fn version_that_nobody_speaks_here_is_told_so() {
    let mut script = Script::new();
    let closed = script.receive(&[2, 0, 0, 8, 0, 0, 0, 1]).unwrap_err();
    assert_eq!(closed, Closed::Incompatible { theirs: "up to 1.1".into() });
    assert_eq!(script.error(), (ErrorMessage::HELLO_FAILED, 0));
}

#[test]
fn newer_switch_without_a_bitmap_is_spoken_to_in_1_3() {
    let mut script = Script::new();
    script.receive(&[6, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    let features_request = framing::cut(&script.out).unwrap().unwrap().1;
    assert_eq!(features_request[0], Version::V1_3.wire());
}

#[test]
fn anything_before_a_hello_ends_the_session() {
    let closed = Script::new().receive(&features(Version::V1_3, 0)).unwrap_err();
    assert_eq!(closed, Closed::BeforeHello { kind: 6 });
}

#[test]
fn other_protocols_are_recognised_by_their_first_bytes() {
    for knock in [&b"GET / HTTP/1.1"[..], &[0x16, 0x03, 0x01], &[0xff; 8], &[0; 8]] {
        assert!(matches!(recognise(knock), Err(Closed::NotOpenFlow(_))));
    }
    assert_eq!(recognise(&[4, 0, 0, 8]), Ok(()));
    assert_eq!(recognise(&[]), Ok(()));
}

#[test]
fn message_of_another_version_after_the_hello_ends_the_session() {
    let mut script = Script::up(Version::V1_3);
    let closed = script.receive(&[1, 2, 0, 8, 0, 0, 0, 9]).unwrap_err();
    assert_eq!(closed, Closed::WrongVersion { theirs: 1, agreed: Version::V1_3 });
    assert_eq!(script.error(), (ErrorMessage::BAD_REQUEST, BAD_VERSION));
}

#[test]
fn unknown_type_is_answered_with_bad_type_and_the_session_goes_on() {
    for version in VERSIONS {
        let mut script = Script::up(version);
        assert!(script.receive(&[version.wire(), 99, 0, 8, 0, 0, 0, 9]).unwrap().is_none());
        assert_eq!(script.error(), (ErrorMessage::BAD_REQUEST, BAD_TYPE));
        assert!(script.session.is_up());
    }
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
fn packet_in_before_the_handshake_is_complete_is_left_out() {
    let mut script = Script::new();
    script.receive(&hello(&[Version::V1_0])).unwrap();
    let packet_in = [1, 10, 0, 20, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 2, 0, 1, 0, 0, 7, 7];
    assert!(script.receive(&packet_in).unwrap().is_none());
}

#[test]
fn packet_in_port_status_and_error_are_events_and_broken_ones_are_left_out() {
    let mut script = Script::up(Version::V1_0);
    let packet_in = [1, 10, 0, 20, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 2, 0, 1, 0, 0, 7, 7];
    let event = script.receive(&packet_in).unwrap();
    assert!(matches!(event, Some(Event::PacketIn(PacketIn { data: [7, 7], .. }))));

    let status = PortStatus { reason: PortReason::Add, desc: port(3) };
    let status = bytes(|out| status.encode(Version::V1_0, 0, out));
    assert!(matches!(script.receive(&status).unwrap(), Some(Event::PortStatus(_))));

    let error = [1, 1, 0, 12, 0, 0, 0, 0, 0, 1, 0, 1];
    assert!(matches!(script.receive(&error).unwrap(), Some(Event::Error(_))));

    let broken = [1, 10, 0, 9, 0, 0, 0, 0, 0xff];
    assert!(matches!(script.receive(&broken).unwrap(), Some(Event::Malformed(_))));
    assert!(script.session.is_up());
}

#[test]
fn handshake_cut_or_garbled_anywhere_is_an_error_not_a_panic() {
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
