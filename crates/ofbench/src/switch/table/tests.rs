use openflow::{Action, Field, FlowMod, FlowModFlags, MacAddr, Masked, Match, PortNo, Version};

use super::{FlowTables, LookupResult, Packet, TableError};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Builds a TCP frame from A to B, with or without a VLAN tag.
fn frame(tag: Option<u16>) -> Vec<u8> {
    let mut frame = [B.0, A.0].concat();
    if let Some(tag) = tag {
        frame.extend([0x81, 0x00]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend([0x08, 0x00, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x12, 0x34, 0, 80]);
    frame.resize(64, 0);
    frame
}

fn tables(version: Version) -> FlowTables {
    FlowTables::new(version, 3)
}

fn to(port: u32) -> [Action; 1] {
    [Action::output(PortNo(port))]
}

fn ports(result: &LookupResult) -> Vec<u32> {
    result.ports.iter().map(|port| port.0).collect()
}

#[test]
fn highest_priority_that_matches_decides() {
    let mut tables = tables(Version::V1_3);
    let web = Match::new().eth_type(0x800).ip_proto(6).tcp_dst(80);
    tables.apply(&FlowMod::add(Match::new()).priority(0).apply(&to(1))).unwrap();
    tables.apply(&FlowMod::add(web).priority(9).apply(&to(2))).unwrap();
    tables.apply(&FlowMod::add(Match::new().eth_dst(A)).priority(99).apply(&to(3))).unwrap();
    let packet = Packet::new(PortNo(7), &frame(None));
    assert_eq!(ports(&tables.lookup(&packet)), [2]);
    let other = Packet::new(PortNo(7), &[0xff; 14]);
    assert_eq!(ports(&tables.lookup(&other)), [1]);
}

#[test]
fn table_miss_follows_the_version() {
    let packet = Packet::new(PortNo(7), &frame(None));
    let result = |version| tables(version).lookup(&packet);
    assert_eq!(
        result(Version::V1_0),
        LookupResult { ports: vec![], to_controller: true, missed: true }
    );
    assert_eq!(
        result(Version::V1_3),
        LookupResult { ports: vec![], to_controller: false, missed: true }
    );
}

#[test]
fn packet_has_the_fields_of_its_frame() {
    let tagged = Packet::new(PortNo(7), &frame(Some(0x6005)));
    for (match_, takes) in [
        (Match::new().in_port(PortNo(7)).eth_src(A).eth_dst(B), true),
        (Match::new().in_port(PortNo(8)), false),
        (Match::new().vlan_vid(5).vlan_pcp(3), true),
        (Match::new().untagged(), false),
        (Match::new().eth_type(0x800).ipv4_src([10, 0, 0, 1].into()), true),
        (Match::new().eth_type(0x800).ip_proto(6).tcp_src(0x1234).tcp_dst(80), true),
        (Match::new().eth_type(0x800).ip_proto(17).udp_dst(80), false),
    ] {
        assert_eq!(tagged.is_in(&match_), takes, "{match_}");
    }
    let net = Masked::new([10, 0, 0, 0].into(), [255, 0, 0, 0].into());
    assert!(tagged.is_in(&Match::new().eth_type(0x800).with(&Field::Ipv4Dst(net))));
    assert!(Packet::new(PortNo(1), &frame(None)).is_in(&Match::new().untagged()));
}

#[test]
fn truncated_frame_has_the_remaining_fields() {
    for tag in [None, Some(1)] {
        let whole = frame(tag);
        for len in 0..whole.len() {
            let packet = Packet::new(PortNo(1), &whole[..len]);
            assert_eq!(packet.is_in(&Match::new().eth_dst(B)), len >= 6 + 6);
        }
    }
}

#[test]
fn later_tables_see_earlier_set_fields() {
    let mut tables = tables(Version::V1_3);
    let set = [Action::set_field(Field::EthDst(A.into()))];
    let first = FlowMod::add(Match::new()).apply(&set).goto_table(2);
    tables.apply(&first).unwrap();
    let (four, five) = (to(4), to(5));
    let second = FlowMod::add(Match::new().eth_dst(A)).table(2).write(&four);
    tables.apply(&second).unwrap();
    let packet = Packet::new(PortNo(1), &frame(None));
    assert_eq!(ports(&tables.lookup(&packet)), [4]);
    // A backward goto is ignored, or a packet would loop.
    let back = FlowMod::add(Match::new().eth_dst(A)).table(2).apply(&five).goto_table(0);
    tables.apply(&back).unwrap();
    assert_eq!(ports(&tables.lookup(&packet)), [5]);
}

#[test]
fn delete_removes_covered_entries_and_strict_delete_one() {
    let pair = Match::new().in_port(PortNo(1)).eth_dst(B);
    let fill = |tables: &mut FlowTables| {
        tables.apply(&FlowMod::add(pair.clone()).priority(5).cookie(7).apply(&to(2))).unwrap();
        tables.apply(&FlowMod::add(Match::new().eth_dst(B)).apply(&to(3))).unwrap();
        tables.apply(&FlowMod::add(Match::new()).apply(&to(3))).unwrap();
    };
    for (delete, left) in [
        (FlowMod::delete(Match::new()), 0),
        (FlowMod::delete(Match::new().eth_dst(B)), 1),
        (FlowMod::delete(pair.clone()), 2),
        (FlowMod::delete(Match::new().eth_dst(A)), 3),
        (FlowMod::delete(Match::new()).out_port(PortNo(3)), 1),
        (FlowMod::delete(Match::new()).only_cookie(7, u64::MAX), 2),
        (FlowMod::delete(Match::new()).table(FlowMod::ALL_TABLES), 0),
        (FlowMod::delete(Match::new()).table(1), 3),
    ] {
        let mut tables = tables(Version::V1_3);
        fill(&mut tables);
        tables.apply(&delete).unwrap();
        assert_eq!(tables.len(), left, "{delete:?}");
        // Deleted entries free their slots.
        for number in 0..3 - left {
            let port = PortNo(100 + u32::try_from(number).unwrap());
            tables.apply(&FlowMod::add(Match::new().in_port(port))).unwrap();
        }
    }
    let mut tables = tables(Version::V1_3);
    fill(&mut tables);
    let strict = openflow::FlowModCommand::DeleteStrict;
    tables.apply(&FlowMod::new(strict, Match::new().eth_dst(B))).unwrap();
    assert_eq!(tables.len(), 2);
    tables.apply(&FlowMod::new(strict, pair).priority(4)).unwrap();
    assert_eq!(tables.len(), 2);
}

#[test]
fn modify_changes_actions_and_adds_only_in_1_0() {
    let modify = |port| {
        let command = openflow::FlowModCommand::Modify;
        (FlowMod::new(command, Match::new().eth_dst(B)), to(port))
    };
    for (version, added) in [(Version::V1_0, 1), (Version::V1_3, 0)] {
        let mut tables = tables(version);
        let (first, actions) = modify(8);
        tables.apply(&first.apply(&actions)).unwrap();
        assert_eq!(tables.len(), added);
        tables.apply(&FlowMod::add(Match::new().eth_dst(B)).cookie(5).apply(&to(1))).unwrap();
        let (second, actions) = modify(9);
        tables.apply(&second.apply(&actions)).unwrap();
        let entry = tables.entries().next().unwrap();
        assert_eq!((tables.len(), entry.cookie), (1, 5));
        assert!(entry.outputs_to(PortNo(9)));
    }
}

#[test]
fn full_missing_and_overlapping_tables_are_rejected() {
    let mut tables = tables(Version::V1_3);
    for port in 1..=3 {
        tables.apply(&FlowMod::add(Match::new().in_port(PortNo(port)))).unwrap();
    }
    let another = FlowMod::add(Match::new().in_port(PortNo(4)));
    assert_eq!(tables.apply(&another), Err(TableError::Full));
    assert_eq!(tables.apply(&FlowMod::add(Match::new().in_port(PortNo(3)))), Ok(()));
    assert_eq!(tables.apply(&another.clone().table(1)), Ok(()));
    assert_eq!(tables.apply(&another.table(8)), Err(TableError::NoSuchTable));
    let careful = |match_| FlowMod::add(match_).flags(FlowModFlags::CHECK_OVERLAP);
    let wide = careful(Match::new().eth_dst(B));
    assert_eq!(tables.apply(&wide), Err(TableError::Overlap));
    assert_eq!(tables.apply(&wide.priority(7).table(2)), Ok(()));
}
