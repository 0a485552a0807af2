use std::time::Duration;

use openflow::nicira::{Ct, FieldId, NiciraAction, Subfield};
use openflow::{Field, FlowModFlags, Instructions, Match};

use super::*;

fn entry(table: u8, priority: u16, match_: Match, instructions: Instructions<'_>) -> FlowEntry<'_> {
    let flow = FlowStats {
        table_id: table,
        duration: Duration::ZERO,
        priority,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowModFlags::default(),
        cookie: 0,
        packet_count: 0,
        byte_count: 0,
        match_,
        instructions,
    };
    FlowEntry { flow, owner: "other".into(), cookie: 0 }
}

fn apply(actions: &[Action]) -> Instructions<'_> {
    Instructions { apply: actions.into(), ..Instructions::default() }
}

fn ports(up: &[u32]) -> Vec<Port> {
    (1..=4).map(|number| Port { number, is_up: up.contains(&number) }).collect()
}

fn packet(text: &str) -> Packet {
    Packet::read(text, None).unwrap()
}

fn to(trace: &Trace<'_>) -> Vec<To> {
    trace.outputs.iter().map(|output| output.to).collect()
}

#[test]
fn highest_priority_decides() {
    let (one, two) = ([Action::output(PortNo(1))], [Action::output(PortNo(2))]);
    let tables = Tables::new(
        Version::V1_3,
        vec![
            entry(0, 1, Match::new(), apply(&one)),
            entry(0, 5, Match::new().eth_type(0x0800), apply(&two)),
        ],
        Vec::new(),
        ports(&[1, 2, 3]),
    );
    assert_eq!(to(&tables.trace(&packet("in_port=3,icmp"))), [To::Port(2)]);
    assert_eq!(to(&tables.trace(&packet("in_port=3,arp"))), [To::Port(1)]);
    let back = tables.trace(&packet("in_port=1,arp"));
    assert!(back.outputs.is_empty() && back.notes[0].contains("not sent back"));
}

#[test]
fn packet_without_an_entry_depends_on_the_version() {
    for (version, out) in [(Version::V1_0, vec![To::Controller]), (Version::V1_3, vec![])] {
        let tables = Tables::new(version, Vec::new(), Vec::new(), ports(&[1]));
        let trace = tables.trace(&packet("in_port=1,arp"));
        assert_eq!(to(&trace), out);
        assert!(trace.lookups.len() == 1 && trace.lookups[0].entry.is_none());
    }
}

#[test]
fn later_tables_and_the_action_set_work_together() {
    let (out1, out2) = ([Action::output(PortNo(1))], [Action::output(PortNo(2))]);
    let set = [Action::set_field(Field::IpDscp(7)), Action::output(PortNo(4))];
    let tables = Tables::new(
        Version::V1_3,
        vec![
            entry(
                0,
                1,
                Match::new(),
                Instructions {
                    write: (&out1).into(),
                    apply: (&out2).into(),
                    metadata: Some((0x5, 0xf)),
                    goto_table: Some(3),
                    ..Instructions::default()
                },
            ),
            entry(
                3,
                1,
                Match::new().with(&Field::Metadata(5.into())),
                Instructions { write: (&set).into(), ..Instructions::default() },
            ),
        ],
        Vec::new(),
        ports(&[1, 2, 3, 4]),
    );
    let trace = tables.trace(&packet("in_port=3,icmp"));
    assert_eq!(to(&trace), [To::Port(2), To::Port(4)], "the later output replaces the earlier");
    assert_eq!(trace.outputs[0].packet, packet("in_port=3,icmp"));
    assert!(trace.outputs[1].packet.to_string().contains("ip_dscp=7"));
    assert!(trace.lookups.iter().map(|it| it.table).eq([0, 3]));
}

#[test]
fn miss_in_a_later_table_depends_on_the_switch() {
    let out = [Action::output(PortNo(1))];
    let instructions =
        Instructions { write: (&out).into(), goto_table: Some(1), ..Instructions::default() };
    let entries = vec![entry(0, 1, Match::new(), instructions)];
    let tables = Tables::new(Version::V1_3, entries, Vec::new(), ports(&[1]));
    let trace = tables.trace(&packet("in_port=3,icmp"));
    assert_eq!(to(&trace), [To::Port(1)]);
    assert!(trace.notes[0].contains("other switches drop the packet"), "{:?}", trace.notes);
}

fn with_group(kind: GroupKind, buckets: Vec<Bucket>, up: &[u32]) -> (Vec<To>, Vec<String>) {
    let group = [Action::Group(7)];
    let groups = vec![GroupDesc { kind, group_id: 7, buckets }];
    let entries = vec![entry(0, 1, Match::new(), apply(&group))];
    let tables = Tables::new(Version::V1_3, entries, groups, ports(up));
    let trace = tables.trace(&packet("in_port=4,icmp"));
    (to(&trace), trace.notes)
}

#[test]
fn groups_take_their_buckets() {
    let bucket = |port: u32, weight| Bucket {
        weight,
        watch_port: PortNo(port),
        ..Bucket::new([Action::output(PortNo(port))])
    };
    let both = || vec![bucket(1, 1), bucket(2, 1)];
    assert_eq!(with_group(GroupKind::All, both(), &[1, 2]).0, [To::Port(1), To::Port(2)]);
    assert_eq!(with_group(GroupKind::Indirect, both(), &[1, 2]).0, [To::Port(1)]);
    assert_eq!(with_group(GroupKind::FastFailover, both(), &[1, 2]).0, [To::Port(1)]);
    assert_eq!(with_group(GroupKind::FastFailover, both(), &[2]).0, [To::Port(2)]);
    assert!(with_group(GroupKind::FastFailover, both(), &[]).1[0].contains("no live bucket"));
    let (to, notes) = with_group(GroupKind::Select, both(), &[1, 2]);
    assert!(to == [To::Port(1)] && notes[0].contains("one of 2 buckets"));
}

#[test]
fn group_that_contains_itself_ends() {
    let itself = vec![Bucket::new([Action::Group(7), Action::output(PortNo(1))])];
    let (to, notes) = with_group(GroupKind::All, itself, &[1]);
    assert!(to.len() <= DEEPEST && notes.iter().any(|note| note.contains("groups deep")));
}

#[test]
fn floods_leave_through_other_live_ports() {
    let flood = [Action::output(PortNo::FLOOD)];
    let entries = vec![entry(0, 1, Match::new(), apply(&flood))];
    let tables = Tables::new(Version::V1_0, entries, Vec::new(), ports(&[1, 2, 4]));
    assert_eq!(to(&tables.trace(&packet("in_port=2,arp"))), [To::Port(1), To::Port(4)]);
}

#[test]
fn openflow_1_0_sets_and_strips_tags() {
    let actions = [
        Action::set_field(Field::VlanVid((0x1000 | 9).into())),
        Action::output(PortNo(1)),
        Action::PopVlan,
        Action::SetTpDst(81),
        Action::output(PortNo(2)),
    ];
    let entries = vec![entry(0, 1, Match::new(), apply(&actions))];
    let tables = Tables::new(Version::V1_0, entries, Vec::new(), ports(&[1, 2]));
    let trace = tables.trace(&packet("in_port=3,tcp,tp_dst=80"));
    let texts: Vec<String> = trace.outputs.iter().map(|out| out.packet.to_string()).collect();
    assert!(texts[0].contains("vlan_vid=9") && texts[0].contains("tcp_dst=80"), "{texts:?}");
    assert!(!texts[1].contains("vlan_vid") && texts[1].contains("tcp_dst=81"), "{texts:?}");
}

#[test]
fn groups_that_multiply_end() {
    let to_group = |id| Bucket { weight: 1, ..Bucket::new([Action::Group(id)]) };
    // Each of 100 buckets leads back to all of them, and to nothing else.
    let (to, notes) = with_group(GroupKind::All, vec![to_group(7); 100], &[1]);
    assert!(to.is_empty(), "{to:?}");
    assert!(notes.iter().any(|note| note.contains("incomplete")), "{notes:?}");
    let watch = Bucket { watch_group: 7, ..Bucket::new([Action::output(PortNo(1))]) };
    for kind in [GroupKind::FastFailover, GroupKind::Select] {
        let (to, notes) = with_group(kind, vec![Bucket { weight: 1, ..watch.clone() }; 100], &[1]);
        let [dead, incomplete] = &notes[..] else { panic!("{kind:?}: {notes:?}") };
        assert!(to.is_empty() && dead.contains("no live bucket"), "{kind:?}: {notes:?}");
        assert!(incomplete.contains("incomplete"), "{kind:?}: {notes:?}");
    }
    // A note about each of many groups.
    let missing = (100..5_000).map(to_group).collect();
    let (_, notes) = with_group(GroupKind::All, missing, &[1]);
    assert!(notes.len() == MOST_NOTES + 1 && notes[MOST_NOTES].contains("left out"));
}

/// Tables of OpenFlow 1.3 with these entries.
fn tables(entries: Vec<FlowEntry<'_>>) -> Tables<'_> {
    Tables::new(Version::V1_3, entries, Vec::new(), ports(&[1, 2, 3, 4]))
}

#[test]
fn registers_and_resubmits_are_followed() {
    let reg = |number| FieldId::reg(number);
    let resubmit = |table, in_port| {
        Action::from(NiciraAction::ResubmitTable { in_port: PortNo(in_port), table, ct: false })
    };
    let first = [
        NiciraAction::Load { to: Subfield::part(reg(0), 4, 8), value: 0xab }.into(),
        NiciraAction::Move { from: Subfield::part(reg(0), 4, 8), to: Subfield::part(reg(1), 0, 8) }
            .into(),
        resubmit(7, PortNo::IN_PORT.0),
        resubmit(8, 4),
        NiciraAction::OutputReg { from: reg(2).into(), max_len: 0 }.into(),
    ];
    let second = [NiciraAction::Load { to: reg(2).into(), value: 3 }.into()];
    let third = [Action::output(PortNo(2))];
    let value = |number, value, mask| reg(number).with_value(value, mask).unwrap();
    let matching = Match::new().with(&value(0, 0xab0, None)).with(&value(1, 0xa0, Some(0xf0)));
    let tables = tables(vec![
        entry(0, 5, Match::new(), apply(&first)),
        entry(7, 5, matching, apply(&second)),
        entry(7, 1, Match::new(), apply(&[])),
        entry(8, 5, Match::new().in_port(PortNo(4)), apply(&third)),
    ]);
    let trace = tables.trace(&packet("in_port=1,icmp"));
    let found: Vec<_> = trace.lookups.iter().map(|it| (it.table, it.entry.is_some())).collect();
    assert_eq!(found, [(0, true), (7, true), (8, true)], "{:?}", trace.notes);
    assert_eq!(to(&trace), [To::Port(2), To::Port(3)]);
    assert_eq!(trace.outputs[1].packet.in_port(), 1, "only the look-up was as from port 4");
    assert!(trace.notes.is_empty(), "{:?}", trace.notes);
    assert!(trace.outputs[1].packet.to_string().ends_with(",reg0=2736,reg1=171,reg2=3"));
}

#[test]
fn clone_and_stack_keep_the_packet() {
    let reg = |number: u8| Subfield::whole(FieldId::reg(number));
    let load = |number, value| Action::from(NiciraAction::Load { to: reg(number), value });
    let out = |number| Action::from(NiciraAction::OutputReg { from: reg(number), max_len: 0 });
    let actions = [
        load(0, 2),
        NiciraAction::Push(reg(0)).into(),
        NiciraAction::Clone(vec![load(0, 3), out(0)]).into(),
        out(0),
        load(0, 4),
        NiciraAction::Pop(reg(1)).into(),
        out(1),
        NiciraAction::Exit.into(),
        out(0),
    ];
    let tables = tables(vec![entry(0, 1, Match::new(), apply(&actions))]);
    let trace = tables.trace(&packet("in_port=1,icmp"));
    assert_eq!(to(&trace), [To::Port(3), To::Port(2), To::Port(2)]);
}

#[test]
fn endless_resubmits_end_with_a_note() {
    let again = NiciraAction::Resubmit { in_port: PortNo::IN_PORT };
    for count in [1, 2] {
        let actions = vec![Action::from(again.clone()); count];
        let tables = tables(vec![entry(0, 1, Match::new(), apply(&actions))]);
        let trace = tables.trace(&packet("in_port=1,icmp"));
        assert!(trace.notes.iter().any(|note| note.contains("more than 64 resubmits")));
        assert!(trace.lookups.len() <= MOST_STEPS + 1, "{}", trace.lookups.len());
    }
}

#[test]
fn tracking_and_learning_are_named_as_not_followed() {
    let ct = NiciraAction::Ct(Ct { table: Some(1), ..Ct::default() });
    let learn = NiciraAction::Learn(Box::default());
    for action in [ct, learn] {
        let name = action.name().trim_start_matches("action ");
        let actions = [Action::from(action.clone()), Action::output(PortNo(2))];
        let tables = tables(vec![entry(0, 1, Match::new(), apply(&actions))]);
        let trace = tables.trace(&packet("in_port=1,icmp"));
        assert_eq!(to(&trace), [To::Port(2)]);
        let [note] = &trace.notes[..] else { panic!("{:?}", trace.notes) };
        assert!(note.starts_with(name) && note.contains("not followed"), "{note}");
    }
}
