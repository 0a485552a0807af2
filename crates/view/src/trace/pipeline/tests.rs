use std::time::Duration;

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
