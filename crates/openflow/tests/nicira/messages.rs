//! `NXT_PACKET_IN2`, `NXT_SET_PACKET_IN_FORMAT` and `NXT_FLOW_MOD` beside `ovs-ofctl`.

use rosemary_openflow::matching::Masked;
use rosemary_openflow::nicira::{FieldId, NxFlowMod, NxMatch, PacketIn2, PacketInFormat};
use rosemary_openflow::{
    Action, FlowModCommand, FlowModFlags, Match, NiciraAction, PortNo, Version, append,
};

use crate::switch;

fn packet_in() -> PacketIn2 {
    let reg = FieldId::reg(0).with_value(5, None).unwrap();
    PacketIn2 {
        packet: [0xff; 14].into(),
        full_len: Some(64),
        buffer_id: Some(9),
        table_id: 7,
        cookie: Some(0xfedc_ba98_7654_3210),
        reason: 1,
        fields: Match::new().in_port(PortNo(1)).with(&reg),
        userdata: [1, 2, 3, 4, 5].into(),
        continuation: Some([0, 1, 0, 8, 0, 0, 0, 0].into()),
    }
}

#[test]
fn packet_in2_prints_as_meant() {
    let mut bytes = Vec::new();
    append(&mut bytes, |out| packet_in().encode(Version::V1_3, 0, out)).unwrap();
    assert_eq!(PacketIn2::decode(&bytes), Ok(packet_in()));
    let without = PacketIn2 { continuation: None, ..packet_in() };
    let mut shown = Vec::new();
    append(&mut shown, |out| without.encode(Version::V1_3, 0, out)).unwrap();
    let Some(printed) = switch::print_all(&[shown]) else { return };
    for part in [
        "NXT_PACKET_IN2 (OF1.3)",
        "table_id=7",
        "cookie=0xfedcba9876543210",
        "total_len=64",
        "reg0=0x5,in_port=1",
        "(via action)",
        "data_len=14",
        "buffer=0x00000009",
        "userdata=01.02.03.04.05",
    ] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
}

#[test]
fn changed_packet_in2_is_refused_or_equal() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut bytes = Vec::new();
        append(&mut bytes, |out| packet_in().encode(version, 0, out)).unwrap();
        let check = |changed: &[u8]| {
            let Ok(found) = PacketIn2::decode(changed) else { return };
            let mut again = Vec::new();
            append(&mut again, |out| found.encode(version, 0, out)).unwrap();
            assert_eq!(PacketIn2::decode(&again), Ok(found));
        };
        for at in 0..bytes.len() {
            check(&bytes[..at]);
            for value in [0, 1, 4, 0x7f, 0xff, bytes[at].wrapping_add(1), bytes[at].wrapping_sub(4)]
            {
                let mut changed = bytes.clone();
                changed[at] = value;
                check(&changed);
            }
            if at >= 8 {
                let mut cut = bytes[..at].to_vec();
                let size = u16::try_from(at).unwrap();
                cut[2..4].copy_from_slice(&size.to_be_bytes());
                check(&cut);
            }
        }
    }
}

#[test]
fn packet_in_format_prints_as_meant() {
    for (format, name) in [
        (PacketInFormat::Standard, "standard"),
        (PacketInFormat::Nxt, "nxt_packet_in"),
        (PacketInFormat::Nxt2, "nxt_packet_in2"),
    ] {
        let mut bytes = Vec::new();
        append(&mut bytes, |out| format.encode(Version::V1_3, 0, out)).unwrap();
        assert_eq!(PacketInFormat::decode(&bytes), Ok(format));
        let Some(printed) = switch::print_all(&[bytes]) else { return };
        assert!(
            printed.contains("NXT_SET_PACKET_IN_FORMAT") && printed.contains(name),
            "{printed}"
        );
    }
}

#[test]
fn flow_mod_of_1_0_prints_as_meant() {
    let reg = FieldId::reg(3).with_value(4, None).unwrap();
    let flow_mod = NxFlowMod {
        cookie: 0x123,
        table_id: 0,
        command: FlowModCommand::Add,
        idle_timeout: 5,
        hard_timeout: 6,
        priority: 7,
        buffer_id: None,
        out_port: PortNo::ANY,
        flags: FlowModFlags::SEND_FLOW_REM,
        matching: NxMatch { cookie: None, packets: Match::new().with(&reg) },
        actions: vec![
            NiciraAction::Load { to: FieldId::reg(1).into(), value: 2 }.into(),
            Action::output(PortNo(2)),
        ],
    };
    let delete = NxFlowMod {
        command: FlowModCommand::Delete,
        cookie: 0,
        matching: NxMatch { cookie: Some(Masked::new(0x12, 0xff)), ..flow_mod.matching.clone() },
        actions: Vec::new(),
        ..flow_mod.clone()
    };
    for (flow_mod, printed_as) in [
        (
            flow_mod,
            "ADD priority=7,reg3=0x4 cookie:0x123 idle:5 hard:6 send_flow_rem actions=load:0x2->NXM_NX_REG1[],output:2",
        ),
        (delete, "DEL priority=7,reg3=0x4 cookie:0x12/0xff"),
    ] {
        let mut bytes = Vec::new();
        append(&mut bytes, |out| flow_mod.encode(Version::V1_0, 0, out)).unwrap();
        assert_eq!(NxFlowMod::decode(&bytes), Ok(flow_mod));
        for size in 0..bytes.len() {
            assert!(NxFlowMod::decode(&bytes[..size]).is_err());
        }
        let Some(printed) = switch::print_all(&[bytes]) else { return };
        assert!(printed.contains(printed_as), "{printed}");
    }
}

#[test]
fn field_without_its_prerequisite_is_refused() {
    let ttl = FieldId::by_name("nw_ttl").unwrap().with_value(5, None).unwrap();
    let alone = NxMatch { cookie: None, packets: Match::new().with(&ttl) };
    assert!(NxMatch::decode(&alone.encode()).is_err());
    let eth_type = FieldId::by_name("NXM_OF_ETH_TYPE").unwrap().with_value(0x800, None).unwrap();
    let whole = NxMatch { packets: alone.packets.with(&eth_type), ..alone };
    assert_eq!(NxMatch::decode(&whole.encode()), Ok(whole));
}
