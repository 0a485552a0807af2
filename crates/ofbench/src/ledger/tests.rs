use openflow::{
    Action, EncodeError, Field, FlowMod, MacAddr, Match, PacketIn, PacketOut, PortNo, append,
};

use super::*;
use crate::hosts::Hosts;

const VERSIONS: [Version; 2] = [Version::V1_0, Version::V1_3];

/// A ledger that has asked ten questions, and the questions.
fn asked(version: Version, buffered: bool, by: AnsweredBy) -> (Ledger, Vec<Vec<u8>>) {
    let mut template = Template::new(version, buffered, 64).unwrap();
    let hosts = Hosts::new(1, 20, 4).of_switch(1);
    let mut ledger = Ledger::new(version, &template, by, hosts, Open::new(10));
    let size = template.size();
    let questions = ledger.ask(&mut template, 100).chunks(size).map(<[u8]>::to_vec).collect();
    (ledger, questions)
}

fn encoded(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, encode).unwrap();
    out
}

/// A question, and what the right answer is made of.
struct Question<'a> {
    packet_in: PacketIn<'a>,
    eth_dst: MacAddr,
    eth_src: MacAddr,
    out_port: PortNo,
}

impl<'a> Question<'a> {
    fn of(ledger: &mut Ledger, question: u64, message: &'a [u8]) -> Self {
        let pair = ledger.hosts.talk(question);
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
fn learning_switch_of_either_kind_answers_rightly() {
    for version in VERSIONS {
        // One flow-mod that uses the buffer.
        let (mut ledger, questions) = asked(version, true, AnsweredBy::PacketOut);
        for (number, message) in (0..).zip(&questions) {
            let q = Question::of(&mut ledger, number, message);
            let to = [Action::output(q.out_port)];
            let answer = flow(version, q.match_(), q.packet_in.buffer_id, &to);
            assert_eq!(ledger.flow_mod(&answer), Ok(Heard::Answer(number)));
        }
        let right = Counts { asked: 10, answered: 10, flow_mods: 10, ..Counts::default() };
        assert_eq!(ledger.counts(), right);

        // A flow-mod, and a packet-out with the buffer or the frame.
        for buffered in [true, false] {
            let (mut ledger, questions) = asked(version, buffered, AnsweredBy::PacketOut);
            for (number, message) in (0..10).rev().zip(questions.iter().rev()) {
                let q = Question::of(&mut ledger, number, message);
                let to = [Action::output(q.out_port)];
                let answer = flow(version, q.match_(), None, &to);
                assert_eq!(ledger.flow_mod(&answer), Ok(Heard::Other));
                let data = if buffered { &[] } else { q.packet_in.data };
                let packet_out = PacketOut {
                    buffer_id: q.packet_in.buffer_id,
                    ..PacketOut::new(q.packet_in.in_port, &to, data)
                };
                let answer = encoded(|room| packet_out.encode(version, 1, room));
                assert_eq!(ledger.packet_out(&answer), Ok(Heard::Answer(number)));
                assert!(ledger.packet_out(&answer).is_err(), "answered twice");
            }
            assert_eq!(ledger.counts(), Counts { packet_outs: 10, ..right });
        }
    }
}

#[test]
fn flow_mod_alone_answers_where_it_was_said_so() {
    for version in VERSIONS {
        let (mut ledger, questions) = asked(version, false, AnsweredBy::FlowMod);
        for (number, message) in (0..).zip(&questions) {
            let q = Question::of(&mut ledger, number, message);
            let to = [Action::output(q.out_port)];
            let answer = flow(version, q.match_(), None, &to);
            assert_eq!(ledger.flow_mod(&answer), Ok(Heard::Answer(number)));
            assert_eq!(ledger.flow_mod(&answer), Ok(Heard::Other));
        }
        assert_eq!(ledger.counts().answered, 10);
    }
}

/// What is wrong with a flow-mod that `change` made of the right one for the first question.
fn why_not(
    version: Version,
    change: impl Fn(&Question<'_>) -> (Match, Option<u32>, Vec<Action>),
) -> String {
    let (mut ledger, questions) = asked(version, true, AnsweredBy::PacketOut);
    let q = Question::of(&mut ledger, 0, &questions[0]);
    let (match_, buffer, actions) = change(&q);
    let answer = flow(version, match_, buffer, &actions);
    ledger.flow_mod(&answer).expect_err("a wrong answer").to_string()
}

#[test]
fn flow_that_does_not_fit_says_what_does_not() {
    let other = MacAddr([2, 0, 0, 0, 0, 1]);
    let to = |port| vec![Action::output(port)];
    for version in VERSIONS {
        let why = why_not(version, |q| (q.match_(), Some(77), to(q.out_port)));
        assert!(why.contains("buffer 0x4d"), "{why}");
        let buffer = |q: &Question<'_>| q.packet_in.buffer_id;
        let why = why_not(version, |q| (q.match_().eth_dst(other), buffer(q), to(q.out_port)));
        assert!(why.contains("another destination"), "{why}");
        let why = why_not(version, |q| (q.match_().eth_src(other), buffer(q), to(q.out_port)));
        assert!(why.contains("another source"), "{why}");
        let why = why_not(version, |q| (q.match_().in_port(PortNo(99)), buffer(q), to(q.out_port)));
        assert!(why.contains("in-port"), "{why}");
        let why = why_not(version, |q| (q.match_(), buffer(q), to(PortNo(q.out_port.0 + 1))));
        assert!(why.contains("the destination is at port"), "{why}");
        let why = why_not(version, |q| (q.match_(), buffer(q), vec![]));
        assert!(why.contains("drops"), "{why}");
        let why = why_not(version, |q| (Match::new(), buffer(q), to(q.out_port)));
        assert!(why.contains("without looking"), "{why}");
        let why = why_not(version, |q| {
            let set = Action::set_field(Field::EthSrc(other.into()));
            let two = [set, Action::output(q.out_port), Action::output(PortNo(99))];
            (q.match_(), buffer(q), two.to_vec())
        });
        assert!(why.contains("several"), "{why}");
        // Without the buffer, by what is known of the hosts.
        let why = why_not(version, |q| (q.match_().eth_dst(other), None, to(q.out_port)));
        assert!(why.contains("no host has"), "{why}");
        let why = why_not(version, |q| (q.match_(), None, to(PortNo(q.out_port.0 + 1))));
        assert!(why.contains("the destination is at port"), "{why}");
        let why = why_not(version, |q| (q.match_().in_port(PortNo(99)), None, to(q.out_port)));
        assert!(why.contains("in-port"), "{why}");
    }
}

#[test]
fn frame_that_is_another_to_the_last_byte_is_wrong() {
    for version in VERSIONS {
        for at in [0, 7, 12, 20, 41, 63] {
            let (mut ledger, questions) = asked(version, false, AnsweredBy::PacketOut);
            let q = Question::of(&mut ledger, 0, &questions[0]);
            let mut frame = q.packet_in.data.to_vec();
            frame[at] ^= 0x40;
            let to = [Action::output(q.out_port)];
            let packet_out = PacketOut::new(q.packet_in.in_port, &to, &frame);
            let answer = encoded(|room| packet_out.encode(version, 1, room));
            match ledger.packet_out(&answer) {
                Err(wrong) => assert!(wrong.to_string().contains("another frame"), "{wrong}"),
                // From nobody that we know: not ours, and no answer.
                heard => assert_eq!((at, heard), (7, Ok(Heard::Other))),
            }
            assert_eq!(ledger.counts().answered, u64::from(at != 7));
        }
    }
}

#[test]
fn what_is_not_about_our_hosts_is_counted_and_left_alone() {
    for version in VERSIONS {
        let (mut ledger, _) = asked(version, true, AnsweredBy::PacketOut);
        let controller = [Action::output(PortNo::CONTROLLER)];
        let lldp = Match::new().eth_dst(MacAddr([1, 0x80, 0xc2, 0, 0, 0xe])).eth_type(0x88cc);
        for message in [
            flow(version, Match::new(), None, &controller),
            flow(version, lldp, None, &controller),
            encoded(|room| FlowMod::delete(Match::new()).encode(version, 1, room)),
        ] {
            assert_eq!(ledger.flow_mod(&message), Ok(Heard::Other));
        }
        let packet_out = PacketOut::new(PortNo::CONTROLLER, &[], &[7; 64]);
        let message = encoded(|room| packet_out.encode(version, 1, room));
        assert_eq!(ledger.packet_out(&message), Ok(Heard::Other));
        assert_eq!(ledger.counts(), Counts { asked: 10, others: 4, ..Counts::default() });
    }
}

#[test]
fn flood_is_counted_and_late_answer_is_not_wrong() {
    let version = Version::V1_3;
    let (mut ledger, questions) = asked(version, true, AnsweredBy::PacketOut);
    let flood = [Action::output(PortNo::FLOOD)];
    let sent = |message: &[u8]| {
        let packet_in = PacketIn::decode(message).unwrap();
        let buffer = packet_in.buffer_id.unwrap();
        let packet_out = PacketOut::buffered(packet_in.in_port, &flood, buffer);
        encoded(|room| packet_out.encode(version, 1, room))
    };
    assert_eq!(ledger.packet_out(&sent(&questions[3])), Ok(Heard::Answer(3)));
    assert_eq!(ledger.give_up(), 9);
    assert_eq!(ledger.packet_out(&sent(&questions[0])), Ok(Heard::Other));
    assert!(ledger.packet_out(&sent(&questions[3])).is_err());
    let counts = ledger.counts();
    assert_eq!((counts.floods, counts.unanswered, counts.late), (1, 9, 1));
}

#[test]
fn message_that_is_none_is_wrong_and_shown() {
    for version in VERSIONS {
        let (mut ledger, _) = asked(version, true, AnsweredBy::PacketOut);
        let cut = [version.wire(), 14, 0, 9, 0, 0, 0, 1, 0xab];
        let wrong = ledger.flow_mod(&cut).unwrap_err().to_string();
        assert!(wrong.contains("cannot be decoded") && wrong.contains("ab"), "{wrong}");
        assert!(ledger.packet_out(&cut).is_err());
    }
}
