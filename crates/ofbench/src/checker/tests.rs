use openflow::{
    Action, EncodeError, Field, FlowMod, MacAddr, Match, PacketIn, PacketOut, PortNo, append,
};

use super::*;
use crate::hosts::Hosts;

/// Creates a checker with ten pending packet-ins; returns both.
fn asked(version: Version, buffered: bool, by: AnsweredBy) -> (AnswerChecker, Vec<Vec<u8>>) {
    let mut template = PacketInTemplate::new(version, buffered, 64).unwrap();
    let hosts = Hosts::new(1, 20, 4).of_switch(1);
    let mut checker = AnswerChecker::new(version, &template, by, hosts, PendingPacketIns::new(10));
    let size = template.size();
    let messages = checker.ask(&mut template, 100).chunks(size).map(<[u8]>::to_vec).collect();
    (checker, messages)
}

fn encoded(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, encode).unwrap();
    out
}

/// A packet-in and the parts of its right answer.
struct Expected<'a> {
    packet_in: PacketIn<'a>,
    eth_dst: MacAddr,
    eth_src: MacAddr,
    out_port: PortNo,
}

impl<'a> Expected<'a> {
    fn of(checker: &mut AnswerChecker, seq: u64, message: &'a [u8]) -> Self {
        let pair = checker.hosts.pair(seq);
        let packet_in = PacketIn::decode(message).unwrap();
        Self {
            packet_in,
            eth_dst: address(pair.eth_dst()),
            eth_src: address(pair.eth_src()),
            out_port: PortNo(pair.out_port().into()),
        }
    }

    fn match_(&self) -> Match {
        Match::new().in_port(self.packet_in.in_port).eth_src(self.eth_src).eth_dst(self.eth_dst)
    }
}

fn flow(version: Version, match_: Match, buffer: Option<u32>, actions: &[Action]) -> Vec<u8> {
    let flow_mod = FlowMod::add(match_).buffer_id(buffer).apply(actions);
    encoded(|room| flow_mod.encode(version, 1, room))
}

#[test]
fn answers_of_a_learning_switch_are_right() {
    for &version in Version::ALL {
        // One flow-mod that uses the buffer.
        let (mut checker, messages) = asked(version, true, AnsweredBy::PacketOut);
        for (number, message) in (0..).zip(&messages) {
            let q = Expected::of(&mut checker, number, message);
            let to = [Action::output(q.out_port)];
            let answer = flow(version, q.match_(), q.packet_in.buffer_id, &to);
            assert_eq!(checker.flow_mod(&answer), Ok(Verdict::Answer(number)));
        }
        let right = Counts { asked: 10, answered: 10, flow_mods: 10, ..Counts::default() };
        assert_eq!(checker.counts(), right);

        // A flow-mod, and a packet-out with the buffer or the frame.
        for buffered in [true, false] {
            let (mut checker, messages) = asked(version, buffered, AnsweredBy::PacketOut);
            for (number, message) in (0..10).rev().zip(messages.iter().rev()) {
                let q = Expected::of(&mut checker, number, message);
                let to = [Action::output(q.out_port)];
                let answer = flow(version, q.match_(), None, &to);
                assert_eq!(checker.flow_mod(&answer), Ok(Verdict::Other));
                let data = if buffered { &[] } else { q.packet_in.data };
                let packet_out = PacketOut {
                    buffer_id: q.packet_in.buffer_id,
                    ..PacketOut::new(q.packet_in.in_port, &to, data)
                };
                let answer = encoded(|room| packet_out.encode(version, 1, room));
                assert_eq!(checker.packet_out(&answer), Ok(Verdict::Answer(number)));
                assert!(checker.packet_out(&answer).is_err(), "answered twice");
            }
            assert_eq!(checker.counts(), Counts { packet_outs: 10, ..right });
        }
    }
}

#[test]
fn flow_mod_without_buffer_answers_if_configured() {
    for &version in Version::ALL {
        let (mut checker, messages) = asked(version, false, AnsweredBy::FlowMod);
        for (number, message) in (0..).zip(&messages) {
            let q = Expected::of(&mut checker, number, message);
            let to = [Action::output(q.out_port)];
            let answer = flow(version, q.match_(), None, &to);
            assert_eq!(checker.flow_mod(&answer), Ok(Verdict::Answer(number)));
            assert_eq!(checker.flow_mod(&answer), Ok(Verdict::Other));
        }
        assert_eq!(checker.counts().answered, 10);
    }
}

/// Returns the error for a flow-mod that `change` derives from the right answer.
fn why_not(
    version: Version,
    change: impl Fn(&Expected<'_>) -> (Match, Option<u32>, Vec<Action>),
) -> String {
    let (mut checker, messages) = asked(version, true, AnsweredBy::PacketOut);
    let q = Expected::of(&mut checker, 0, &messages[0]);
    let (match_, buffer, actions) = change(&q);
    let answer = flow(version, match_, buffer, &actions);
    checker.flow_mod(&answer).expect_err("a wrong answer").to_string()
}

#[test]
fn wrong_flow_names_the_mismatch() {
    let other = MacAddr([2, 0, 0, 0, 0, 1]);
    let to = |port| vec![Action::output(port)];
    for &version in Version::ALL {
        let why = why_not(version, |q| (q.match_(), Some(77), to(q.out_port)));
        assert!(why.contains("buffer 0x4d"), "{why}");
        let buffer = |q: &Expected<'_>| q.packet_in.buffer_id;
        let why = why_not(version, |q| (q.match_().eth_dst(other), buffer(q), to(q.out_port)));
        assert!(why.contains("the destination of a flow"), "{why}");
        let why = why_not(version, |q| (q.match_().eth_src(other), buffer(q), to(q.out_port)));
        assert!(why.contains("the source of a flow"), "{why}");
        let why = why_not(version, |q| (q.match_().in_port(PortNo(99)), buffer(q), to(q.out_port)));
        assert!(why.contains("in-port"), "{why}");
        let why = why_not(version, |q| (q.match_(), buffer(q), to(PortNo(q.out_port.0 + 1))));
        assert!(why.contains("the destination is on port"), "{why}");
        let why = why_not(version, |q| (q.match_(), buffer(q), vec![]));
        assert!(why.contains("drops"), "{why}");
        let why = why_not(version, |q| (Match::new(), buffer(q), to(q.out_port)));
        assert!(why.contains("without matching"), "{why}");
        let why = why_not(version, |q| {
            let set = Action::set_field(Field::EthSrc(other.into()));
            let two = [set, Action::output(q.out_port), Action::output(PortNo(99))];
            (q.match_(), buffer(q), two.to_vec())
        });
        assert!(why.contains("several"), "{why}");
        // Without a buffer, the host table decides.
        let why = why_not(version, |q| (q.match_().eth_dst(other), None, to(q.out_port)));
        assert!(why.contains("no host has"), "{why}");
        let why = why_not(version, |q| (q.match_(), None, to(PortNo(q.out_port.0 + 1))));
        assert!(why.contains("the destination is on port"), "{why}");
        let why = why_not(version, |q| (q.match_().in_port(PortNo(99)), None, to(q.out_port)));
        assert!(why.contains("in-port"), "{why}");
    }
}

#[test]
fn frame_with_one_changed_byte_is_wrong() {
    for &version in Version::ALL {
        for at in [0, 7, 12, 20, 41, 63] {
            let (mut checker, messages) = asked(version, false, AnsweredBy::PacketOut);
            let q = Expected::of(&mut checker, 0, &messages[0]);
            let mut frame = q.packet_in.data.to_vec();
            frame[at] ^= 0x40;
            let to = [Action::output(q.out_port)];
            let packet_out = PacketOut::new(q.packet_in.in_port, &to, &frame);
            let answer = encoded(|room| packet_out.encode(version, 1, room));
            match checker.packet_out(&answer) {
                Err(wrong) => assert!(
                    wrong.to_string().contains("the frame of a packet-out differs"),
                    "{wrong}"
                ),
                // The changed source is no host of this switch, so the frame is not recognised as
                // an answer.
                heard => assert_eq!((at, heard), (7, Ok(Verdict::Other))),
            }
            assert_eq!(checker.counts().answered, u64::from(at != 7));
        }
    }
}

#[test]
fn unrelated_messages_are_counted_and_ignored() {
    for &version in Version::ALL {
        let (mut checker, _) = asked(version, true, AnsweredBy::PacketOut);
        let controller = [Action::output(PortNo::CONTROLLER)];
        let lldp = Match::new().eth_dst(MacAddr([1, 0x80, 0xc2, 0, 0, 0xe])).eth_type(0x88cc);
        for message in [
            flow(version, Match::new(), None, &controller),
            flow(version, lldp, None, &controller),
            encoded(|room| FlowMod::delete(Match::new()).encode(version, 1, room)),
        ] {
            assert_eq!(checker.flow_mod(&message), Ok(Verdict::Other));
        }
        let packet_out = PacketOut::new(PortNo::CONTROLLER, &[], &[7; 64]);
        let message = encoded(|room| packet_out.encode(version, 1, room));
        assert_eq!(checker.packet_out(&message), Ok(Verdict::Other));
        assert_eq!(checker.counts(), Counts { asked: 10, others: 4, ..Counts::default() });
    }
}

#[test]
fn flood_is_counted_and_late_answer_accepted() {
    let version = Version::V1_3;
    let (mut checker, messages) = asked(version, true, AnsweredBy::PacketOut);
    let flood = [Action::output(PortNo::FLOOD)];
    let sent = |message: &[u8]| {
        let packet_in = PacketIn::decode(message).unwrap();
        let buffer = packet_in.buffer_id.unwrap();
        let packet_out = PacketOut::buffered(packet_in.in_port, &flood, buffer);
        encoded(|room| packet_out.encode(version, 1, room))
    };
    assert_eq!(checker.packet_out(&sent(&messages[3])), Ok(Verdict::Answer(3)));
    assert_eq!(checker.give_up(), 9);
    assert_eq!(checker.packet_out(&sent(&messages[0])), Ok(Verdict::Other));
    assert!(checker.packet_out(&sent(&messages[3])).is_err());
    let counts = checker.counts();
    assert_eq!((counts.floods, counts.unanswered, counts.late), (1, 9, 1));
}

#[test]
fn list_of_ports_is_a_flood_with_the_destinations_port() {
    for &version in Version::ALL {
        for (with_destination, is_right) in [(true, true), (false, false)] {
            let (mut checker, messages) = asked(version, true, AnsweredBy::PacketOut);
            let q = Expected::of(&mut checker, 0, &messages[0]);
            let ports = (1..=4)
                .map(PortNo)
                .filter(|port| *port != q.packet_in.in_port)
                .filter(|port| with_destination || *port != q.out_port);
            let actions: Vec<Action> = ports.map(Action::output).collect();
            let buffer = q.packet_in.buffer_id.unwrap();
            let packet_out = PacketOut::buffered(q.packet_in.in_port, &actions, buffer);
            let answer = encoded(|room| packet_out.encode(version, 1, room));
            assert_eq!(checker.packet_out(&answer).is_ok(), is_right);
            assert_eq!(checker.counts().floods, u64::from(is_right));
        }
    }
}

#[test]
fn undecodable_message_is_wrong_and_shown() {
    for &version in Version::ALL {
        let (mut checker, _) = asked(version, true, AnsweredBy::PacketOut);
        let cut = [version.wire(), 14, 0, 9, 0, 0, 0, 1, 0xab];
        let wrong = checker.flow_mod(&cut).unwrap_err().to_string();
        assert!(wrong.contains("cannot be decoded") && wrong.contains("ab"), "{wrong}");
        assert!(checker.packet_out(&cut).is_err());
    }
}
