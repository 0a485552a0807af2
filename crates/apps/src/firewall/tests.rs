use openflow::{
    FlowModCommand, FlowModFlags, FlowStats, Header, Instructions, Kind, MultipartReply,
    MultipartRequest, ReplyBody, Version, append,
};
use rosemary_sdk::abi::{Record, RecordKind, Refusal};
use rosemary_sdk::testing::{AlignedRecord, Bench, Sent, SentChanges};
use rosemary_sdk::{Applied, Committed, Guarantee, Match, PortNo, Switch, Xid};

use super::*;

const RULES: &str = "[[deny]]\nto = \"10.0.0.2\"\n[[deny]]\nin-port = 7\nswitch = \"2\"\n";

const VERSIONS: [Version; Version::COUNT] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

fn bench() -> Bench {
    Bench::configured::<Firewall>(RULES).unwrap()
}

fn up(bench: &mut Bench, at: Switch) -> Vec<Sent> {
    bench.event(AlignedRecord::about(RecordKind::SwitchUp, at))
}

fn flow_mods(sent: &[Sent]) -> Vec<FlowMod<'_>> {
    sent.iter().filter_map(|sent| FlowMod::decode(&sent.message).ok()).collect()
}

fn texts(sent: &[Sent]) -> Vec<(FlowModCommand, String)> {
    flow_mods(sent).iter().map(|it| (it.command, it.match_.to_string())).collect()
}

fn set_texts(set: &SentChanges) -> Vec<(FlowModCommand, String)> {
    let flow_mods = set.messages.iter().map(|message| FlowMod::decode(message).unwrap());
    flow_mods.map(|it| (it.command, it.match_.to_string())).collect()
}

/// The outcome of a change set that the switch has applied.
fn applied(switch: Switch, set: &SentChanges) -> AlignedRecord {
    let outcome = Ok(Applied { guarantee: Guarantee::Atomic, outside: 0 });
    AlignedRecord::committed(&Committed { switch, commit: set.commit, outcome })
}

/// The command that adds a flow and keeps the counters of an equal one: a modify in OpenFlow 1.0, an add elsewhere.
fn add(version: Version) -> FlowModCommand {
    let resets = version.features().add_resets_counters;
    if resets { FlowModCommand::ModifyStrict } else { FlowModCommand::Add }
}

/// Confirms the messages in `sent`.
fn confirm(bench: &mut Bench, at: Switch, sent: &[Sent]) {
    let is_barrier = |sent: &&Sent| {
        let header = Header::decode(&sent.message).unwrap();
        Kind::from_wire(at.version, header.kind) == Ok(Kind::BarrierRequest)
    };
    if let Some(barrier) = sent.iter().find(is_barrier) {
        let mut reply = vec![0; Header::SIZE];
        let Xid(xid) = Xid::of(&barrier.message).unwrap();
        Kind::BarrierReply.encode_empty(at.version, xid, &mut reply).unwrap();
        assert_eq!(bench.event(AlignedRecord::answer(RecordKind::Reply, at, &reply)), []);
    }
}

/// Confirms the messages in `sent`; returns the request for the switch's flows that the firewall sends within six seconds.
fn look(bench: &mut Bench, at: Switch, sent: &[Sent]) -> Vec<Sent> {
    confirm(bench, at, sent);
    let mut looks = (0..6_000).map(|_| bench.batch(&[]).unwrap().1);
    looks.find(|sent| !sent.is_empty()).expect("it looks") // a millisecond each
}

/// The reply to the look that is in `sent`, with these flows.
fn reply(at: Switch, sent: &[Sent], mut flows: Vec<FlowStats<'_>>) -> AlignedRecord {
    if at.version.features().flow_stats_flags {
        for flow in &mut flows {
            flow.flags = FlowModFlags::SEND_FLOW_REM;
        }
    }
    let xid = sent.iter().find_map(|sent| {
        MultipartRequest::decode(&sent.message).ok()?;
        Xid::of(&sent.message)
    });
    let reply = MultipartReply { more: false, body: ReplyBody::Flow(flows) };
    let mut message = Vec::new();
    let xid = xid.expect("it looked").0;
    append(&mut message, |out| reply.encode(at.version, xid, out)).unwrap();
    AlignedRecord::answer(RecordKind::Reply, at, &message)
}

fn flow(match_: Match, rule: u64) -> FlowStats<'static> {
    FlowStats {
        table_id: 0,
        duration: Duration::ZERO,
        priority: 1, // on the switch; the bench's band begins there
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowModFlags::default(),
        cookie: rule,
        packet_count: 0,
        byte_count: 0,
        match_,
        instructions: Instructions::default(),
    }
}

fn to_h2() -> Match {
    Match::new().eth_type(0x0800).ipv4_dst([10, 0, 0, 2].into())
}

#[test]
fn new_switch_gets_dropping_flows() {
    for version in VERSIONS {
        let mut bench = bench();
        let sent = up(&mut bench, Bench::switch(1, version));
        let flows = flow_mods(&sent);
        assert_eq!((flows.len(), sent.len()), (1, 2), "a flow, and a barrier");
        assert_eq!((&flows[0].match_, flows[0].cookie), (&to_h2(), 1));
        assert!(flows[0].instructions.apply.iter().next().is_none());
        assert_eq!(flow_mods(&up(&mut bench, Bench::switch(2, version))).len(), 2);
    }
}

#[test]
fn lost_flows_are_added_again_at_once() {
    for version in VERSIONS {
        let (mut bench, at) = (bench(), Bench::switch(1, version));
        up(&mut bench, at);
        let sent = bench.event(AlignedRecord::about(RecordKind::FlowsMissing, at));
        assert_eq!(texts(&sent), [(add(version), to_h2().to_string())]);
    }
}

#[test]
fn denied_packet_is_stopped() {
    let mut bench = bench();
    let at = Bench::switch(1, Version::V1_3);
    for (last, stopped) in [(2, vec![0]), (3, vec![])] {
        let mut ip = [0_u8; 20];
        (ip[0], ip[19], ip[16]) = (0x45, last, 10);
        let frame = [&[2; 12][..], &[8, 0], &ip].concat();
        bench.event(AlignedRecord::packet_in(at, PortNo(1), &frame));
        assert_eq!(bench.stopped(), stopped);
    }
    bench.event(AlignedRecord::packet_in(at, PortNo(1), &[1; 13]));
    assert!(bench.stopped().is_empty(), "no frame");
}

#[test]
fn missing_flow_is_added_and_stale_one_deleted() {
    for version in VERSIONS {
        let (mut bench, at) = (bench(), Bench::switch(1, version));
        let sent = up(&mut bench, at);
        let sent = look(&mut bench, at, &sent);
        let old = Match::new().eth_type(0x0800).ipv4_dst([10, 0, 0, 9].into());
        let sent = bench.event(reply(at, &sent, vec![flow(old.clone(), 2)]));
        let added = (add(version), to_h2().to_string());
        let deleted = (FlowModCommand::DeleteStrict, old.to_string());
        let sets = bench.commits();
        if version >= Version::V1_3 {
            assert_eq!(set_texts(&sets[0]), [deleted, added], "one change set");
            bench.event(applied(at, &sets[0]));
        } else {
            assert_eq!(texts(&sent), [added, deleted]);
        }
        look(&mut bench, at, &sent);
        assert!(bench.log().iter().any(|line| line.contains("put 1 flows into")));
    }
}

/// The firewall starts with other rules, at a switch with the flows of the former ones.
#[test]
fn new_rules_replace_the_former_ones_in_one_set() {
    for version in [Version::V1_3, Version::V1_5] {
        let (mut bench, at) = (bench(), Bench::switch(1, version));
        let begin = Record::new(RecordKind::SnapshotBegin, 0, 0, 0);
        bench.event(AlignedRecord::new(begin, &[]));
        let sent = up(&mut bench, at);
        assert_eq!(flow_mods(&sent), [], "the former flows stay until it knows them");
        let old = |last| Match::new().eth_type(0x0800).ipv4_dst([10, 0, 0, last].into());
        let kept = vec![flow(old(8), 1), flow(old(9), 1)];
        assert_eq!(bench.event(reply(at, &sent, kept)), []);
        let delete = |last| (FlowModCommand::DeleteStrict, old(last).to_string());
        let expected = [delete(8), delete(9), (FlowModCommand::Add, to_h2().to_string())];
        let sets = bench.commits();
        assert_eq!(sets.len(), 1);
        assert_eq!(set_texts(&sets[0]), expected);
        bench.event(applied(at, &sets[0]));
        let log = bench.log();
        assert!(log.iter().any(|line| line.contains("put 1 flows into")), "{log:?}");
    }
}

#[test]
fn present_flow_is_kept_unless_its_rule_moved() {
    for version in VERSIONS {
        let (mut bench, at) = (bench(), Bench::switch(1, version));
        let sent = up(&mut bench, at);
        let sent = look(&mut bench, at, &sent);
        assert_eq!(bench.event(reply(at, &sent, vec![flow(to_h2(), 1)])), []);
        let sent = look(&mut bench, at, &[]);
        let sent = bench.event(reply(at, &sent, vec![flow(to_h2(), 5)]));
        assert_eq!(texts(&sent), [(add(version), to_h2().to_string())]);
    }
}

#[test]
fn unexpected_reply_changes_nothing() {
    let (mut bench, at) = (bench(), Bench::switch(1, Version::V1_3));
    let sent = up(&mut bench, at);
    let sent = look(&mut bench, at, &sent);
    let later = Switch { epoch: 2, ..at };
    let again = up(&mut bench, later);
    assert_eq!(bench.event(reply(at, &sent, vec![])), []);
    let again = look(&mut bench, later, &again);
    let answer = bench.event(reply(later, &again, vec![]));
    assert_eq!(flow_mods(&answer).len(), 1);
    assert_eq!(bench.event(reply(later, &again, vec![])), []);
}

#[test]
fn switches_are_looked_at_again_after_a_while() {
    let (mut bench, at) = (bench(), Bench::switch(1, Version::V1_3));
    let sent = up(&mut bench, at);
    let sent = look(&mut bench, at, &sent);
    bench.event(reply(at, &sent, vec![flow(to_h2(), 1)]));
    let (answer, _) = bench.batch(&[]).unwrap();
    assert!(answer.wake_at_ns.is_some(), "it wants to be called");
    let mut looks = 0;
    for _ in 0..6_000 {
        looks += bench.batch(&[]).unwrap().1.len(); // a millisecond each
    }
    assert_eq!(looks, 1);
}

#[test]
fn flows_without_room_are_sent_later() {
    let ports: Vec<String> = (0..100).map(|port| port.to_string()).collect();
    let rules = format!("[[deny]]\nprotocol = \"tcp\"\nto-port = [{}]", ports.join(", "));
    let mut bench = Bench::configured::<Firewall>(&rules).unwrap();
    bench.room = 2_400;
    let mut sent = up(&mut bench, Bench::switch(1, Version::V1_3));
    assert!(sent.len() < 100);
    while flow_mods(&sent).len() < 200 {
        let (answer, more) = bench.batch(&[]).unwrap();
        assert!(answer.wake_at_ns.is_some() && !more.is_empty());
        sent.extend(more);
    }
    assert_eq!(flow_mods(&sent).len(), 200, "for both versions of IP, none twice");
}

#[test]
fn inexpressible_rule_still_stops_packet_ins() {
    let mut bench =
        Bench::configured::<Firewall>("[[deny]]\nfrom = \"::1\"\n[[deny]]\nfrom = \"::2\"")
            .unwrap();
    let at = Bench::switch(1, Version::V1_0);
    assert_eq!(flow_mods(&up(&mut bench, at)).len(), 0);
    let log = bench.log();
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("Error: rule 1 cannot be put into 00:00:00:00:00:00:00:01"));
    let problem = bench.problem().expect("a problem");
    assert!(problem.contains("does not have rules 1, 2: "), "{problem}");
    bench.event(AlignedRecord::about(RecordKind::SwitchDown, at));
    assert_eq!(bench.problem(), None);
}

/// The switch's answer to a message: an error of this type and code.
fn error(at: Switch, about: &Sent, (kind, code): (u16, u16)) -> AlignedRecord {
    let xid = Xid::of(&about.message).unwrap().0.to_be_bytes();
    let (kind, code) = (kind.to_be_bytes(), code.to_be_bytes());
    let data = &about.message[..64.min(about.message.len())];
    let length = u16::try_from(12 + data.len()).unwrap().to_be_bytes();
    let head = [&[at.version.wire(), 1][..], &length, &xid, &kind, &code].concat();
    AlignedRecord::answer(RecordKind::Error, at, &[&head, data].concat())
}

#[test]
fn rule_that_a_switch_refuses_is_a_problem_until_it_has_it() {
    let (mut bench, at) = (bench(), Bench::switch(1, Version::V1_3));
    let sent = up(&mut bench, at);
    assert_eq!(bench.problem(), None);
    bench.event(error(at, &sent[0], (4, 9))); // OFPET_BAD_MATCH, OFPBMC_BAD_PREREQ
    let problem = bench.problem().expect("a problem");
    assert!(problem.contains("switch 00:00:00:00:00:00:00:01 does not have rule 1: "), "{problem}");
    assert!(problem.contains("BAD_PREREQ") && problem.contains("change or remove"), "{problem}");
    up(&mut bench, Switch { epoch: 2, ..at });
    assert_eq!(bench.problem(), None, "the switch takes it now");
}

#[test]
fn full_table_is_a_problem_until_there_is_room() {
    let (mut bench, at) = (bench(), Bench::switch(1, Version::V1_3));
    let sent = up(&mut bench, at);
    bench.event(error(at, &sent[0], (5, 1))); // OFPET_FLOW_MOD_FAILED, OFPFMFC_TABLE_FULL
    confirm(&mut bench, at, &sent);
    bench.batch(&[]).unwrap();
    let problem = bench.problem().expect("a problem");
    assert!(
        problem.contains("has no room for 1 flow of rules: the flow table is full"),
        "{problem}"
    );
    let mut looks = (0..40_000).map(|_| bench.batch(&[]).unwrap().1);
    let sent = looks.find(|sent| !sent.is_empty()).expect("it tries again");
    let sent = bench.event(reply(at, &sent, vec![]));
    confirm(&mut bench, at, &sent);
    assert_eq!(bench.problem(), None);
}

#[test]
fn missing_stats_capability_is_logged_once() {
    let (mut bench, at) = (bench(), Bench::switch(1, Version::V1_3));
    let sent = up(&mut bench, at);
    let sent = look(&mut bench, at, &sent);
    let look = sent.last().expect("a look");
    for _ in 0..2 {
        let head = Record {
            reason: Refusal::Capability as u8,
            ..Record::new(RecordKind::Refused, at.version.wire(), at.dpid.0, at.epoch)
        };
        bench.event(AlignedRecord::new(head, &look.message));
    }
    let log = bench.log();
    assert_eq!(log.iter().filter(|line| line.contains("\"stats.read\"")).count(), 1, "{log:?}");
}
