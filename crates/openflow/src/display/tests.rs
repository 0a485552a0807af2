//! Compares printed messages with their expected text.

use crate::matching::OpaqueField;
use crate::{
    Action, Bucket, Dpid, Echo, ErrorMessage, Features, Field, FlowMod, FlowModFlags, GroupKind,
    GroupMod, GroupModCommand, Kind, MacAddr, Masked, Match, Message, MeterBand, MeterFlags,
    MeterMod, MeterModCommand, MultipartRequest, PacketIn, PacketOut, PortDesc, PortNo, PortReason,
    PortStatus, Version, append,
};

/// Returns the printed form of the message that `encode` writes.
fn line(encode: impl Fn(&mut [u8]) -> Result<usize, crate::EncodeError>) -> String {
    let mut bytes = Vec::new();
    append(&mut bytes, encode).unwrap();
    let text = Message::decode(&bytes).unwrap().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn flow_mod_prints_in_the_style_of_ovs_ofctl() {
    let net = Masked::new([10, 0, 0, 0].into(), [255, 0, 0, 0].into());
    let match_ =
        Match::new().in_port(PortNo(1)).eth_type(0x800).vlan_vid(7).with(&Field::Ipv4Dst(net));
    let actions = [
        Action::SetField(Field::EthDst(MacAddr([2, 0, 0, 0, 0, 1]).into())),
        Action::DecNwTtl,
        Action::output(PortNo(2)),
    ];
    let flow_mod = FlowMod::add(match_)
        .table(3)
        .priority(100)
        .cookie(0xab)
        .idle_timeout(60)
        .flags(FlowModFlags::SEND_FLOW_REM)
        .apply(&actions)
        .goto_table(4);
    assert_eq!(
        line(|out| flow_mod.encode(Version::V1_3, 7, out)),
        "OFPT_FLOW_MOD (OF1.3) (xid=0x7): ADD table:3 \
         priority=100,in_port=1,eth_type=0x0800,vlan_vid=7,ipv4_dst=10.0.0.0/255.0.0.0 cookie:0xab \
         idle:60 send_flow_rem \
         actions=set_field:eth_dst=02:00:00:00:00:01,dec_ttl,output:2,goto_table:4"
    );
    let drop = FlowMod::delete(Match::new().untagged());
    assert_eq!(
        line(|out| drop.encode(Version::V1_0, 8, out)),
        "OFPT_FLOW_MOD (OF1.0) (xid=0x8): DEL priority=32768,vlan_vid=none actions=drop"
    );
}

#[test]
fn packets_print_their_ethernet_header() {
    let packet = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 0, 0];
    let packet_in = PacketIn::new(PortNo(3), &packet);
    assert_eq!(
        line(|out| packet_in.encode(Version::V1_3, 0, out)),
        "OFPT_PACKET_IN (OF1.3) (xid=0x0): total_len=18 in_port=3 (via no_match) data_len=18 \
         (unbuffered) eth_src=02:00:00:00:00:01,eth_dst=ff:ff:ff:ff:ff:ff,eth_type=0x0806"
    );
    let actions = [Action::output(PortNo::FLOOD)];
    let packet_out = PacketOut::buffered(PortNo(3), &actions, 0x100);
    assert_eq!(
        line(|out| packet_out.encode(Version::V1_0, 1, out)),
        "OFPT_PACKET_OUT (OF1.0) (xid=0x1): in_port=3 actions=output:FLOOD buffer=0x00000100"
    );
}

#[test]
fn features_reply_prints_ports() {
    let port = PortDesc::new(PortNo(1), MacAddr([2, 0, 0, 0, 0, 1]), "eth1");
    let features = Features {
        dpid: Dpid(1),
        n_buffers: 256,
        n_tables: 1,
        auxiliary_id: 0,
        capabilities: crate::Capabilities::FLOW_STATS | crate::Capabilities::STP,
        actions: 0xfff,
        ports: vec![port],
    };
    assert_eq!(
        line(|out| features.encode(Version::V1_0, 2, out)),
        "OFPT_FEATURES_REPLY (OF1.0) (xid=0x2): dpid:00:00:00:00:00:00:00:01 n_tables:1 \
         n_buffers:256 capabilities: FLOW_STATS STP actions: 0xfff; 1(eth1): \
         addr:02:00:00:00:00:01 config:0 state:0"
    );
    let status = PortStatus { reason: PortReason::Delete, desc: port };
    assert_eq!(
        line(|out| status.encode(Version::V1_3, 0, out)),
        "OFPT_PORT_STATUS (OF1.3) (xid=0x0): DEL: 1(eth1): addr:02:00:00:00:00:01 config:0 state:0"
    );
}

#[test]
fn groups_and_meters_print_their_content() {
    let group_mod = GroupMod {
        command: GroupModCommand::Add,
        kind: GroupKind::Select,
        group_id: 7,
        buckets: vec![Bucket { weight: 3, ..Bucket::new([Action::output(PortNo(1))]) }],
    };
    assert_eq!(
        line(|out| group_mod.encode(Version::V1_3, 3, out)),
        "OFPT_GROUP_MOD (OF1.3) (xid=0x3): ADD \
         group_id=7,type=select,bucket=weight:3,actions=output:1"
    );
    let meter_mod = MeterMod {
        command: MeterModCommand::Delete,
        flags: MeterFlags::KBPS,
        meter_id: MeterMod::ALL_METERS,
        bands: vec![MeterBand::Drop { rate: 10, burst_size: 0 }],
    };
    assert_eq!(
        line(|out| meter_mod.encode(Version::V1_3, 3, out)),
        "OFPT_METER_MOD (OF1.3) (xid=0x3): DEL meter=all kbps bands=type=drop rate=10 burst_size=0"
    );
}

#[test]
fn other_messages_print() {
    let error = ErrorMessage { version: Version::V1_3, kind: 4, code: 11, data: &[4, 14] };
    assert_eq!(
        line(|out| error.encode(9, out)),
        "OFPT_ERROR (OF1.3) (xid=0x9): BAD_MATCH/EPERM data: 040e"
    );
    let echo = Echo { is_reply: false, xid: 1, data: &[] };
    assert_eq!(
        line(|out| echo.encode(Version::V1_0, out)),
        "OFPT_ECHO_REQUEST (OF1.0) (xid=0x1): 0 bytes of payload"
    );
    assert_eq!(
        line(|out| Kind::BarrierReply.encode_empty(Version::V1_3, 4, out)),
        "OFPT_BARRIER_REPLY (OF1.3) (xid=0x4):"
    );
    assert_eq!(
        line(|out| MultipartRequest::PortDesc.encode(Version::V1_3, 5, out)),
        "OFPST_PORT_DESC request (OF1.3) (xid=0x5):"
    );
}

#[test]
fn invalid_message_prints_raw() {
    let bytes = [4, 24, 0, 24, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    let text = Message::decode(&bytes).unwrap().to_string();
    assert_eq!(
        text,
        "OFPT_ROLE_REQUEST (OF1.3) (xid=0x1): (role_request.role at byte 8 is 0x9, expected 0 (no \
         change), 1 (equal), 2 (master) or 3 (slave)) Role { role: 9, pad: 0, generation_id: 2 }"
    );
}

#[test]
fn durations_print_exactly() {
    use core::time::Duration;
    let text = |seconds, nanos| super::Seconds(Duration::new(seconds, nanos)).to_string();
    assert_eq!(text(1, 243_000_000), "1.243s");
    assert_eq!(text(60, 0), "60s");
    assert_eq!(text(0, 470_000_000), "0.470s");
    assert_eq!(text(0, 1_000), "0.000001s");
    assert_eq!(text(u64::from(u32::MAX), 999_999_999), "4294967295.999999999s");
}

#[test]
fn unknown_masked_fields_are_printed_with_their_masks() {
    let field = |class, field, payload: &[u8]| {
        let payload = payload.into();
        Field::Opaque(OpaqueField { class, field, has_mask: true, payload })
    };
    for (opaque, text) in [
        (field(0x8000, 50, &[0, 0x12, 0, 0xff]), "oxm_0x8000_50=0012/00ff"),
        (field(0x8000, 50, &[0, 0x12, 0, 0]), "oxm_0x8000_50=0012/0000"),
        (field(0x8000, 50, &[0, 0x12, 0xff, 0xff]), "oxm_0x8000_50=0012/ffff"),
        (field(0x8000, 99, &[1, 2, 3]), "oxm_0x8000_99=010203/(no half of it is a mask)"),
        (field(0x8000, 99, &[]), "oxm_0x8000_99=/"),
        (field(1, 34, &[0xab, 0]), "oxm_0x0001_34=ab/00"),
        (field(0xffff, 2, &[0x4f, 0x4e, 0x46, 0, 1, 0]), "oxm_0xffff_2(0x4f4e4600)=01/00"),
    ] {
        let flow_mod = FlowMod::add(Match::new().with(&opaque));
        let line = line(|out| flow_mod.encode(Version::V1_3, 7, out));
        assert!(line.contains(&format!("priority=32768,{text} actions=")), "{line}");
    }
}

#[test]
fn queue_prints_every_property() {
    // A minimum rate, a repeated one, one of an unknown type, and an experimenter's.
    let queue = [
        &[0, 0, 0, 7, 0, 0, 0, 2, 0, 76, 0, 0, 0, 0, 0, 0][..],
        &[0, 1, 0, 16, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0],
        &[0, 1, 0, 16, 0, 0, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0],
        &[0, 9, 0, 8, 0, 0, 0, 5],
        &[0xff, 0xff, 0, 20, 0, 0, 0, 0, 0, 0, 0x23, 0x20, 0, 0, 0, 0, 1, 2, 3, 4],
    ];
    let message =
        [&[4, 23, 0, 92, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0][..], &queue.concat()].concat();
    assert_eq!(
        Message::decode(&message).unwrap().to_string(),
        "OFPT_QUEUE_GET_CONFIG_REPLY (OF1.3) (xid=0x1): port=2; queue 7 of port 2: min_rate:10.0% \
         property(1:0000000000c8000000000000) property(9:00000005) \
         property(65535:00000000000023200000000001020304)"
    );
    let message = [
        &[1, 21, 0, 32, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0][..],
        &[0, 0, 0, 7, 0, 16, 0, 0, 0, 9, 0, 8, 0, 0, 0, 5],
    ];
    assert_eq!(
        Message::decode(&message.concat()).unwrap().to_string(),
        "OFPT_QUEUE_GET_CONFIG_REPLY (OF1.0) (xid=0x1): port=2; queue 7 of port 2: \
         property(9:00000005)"
    );
}

#[test]
fn hello_prints_every_element() {
    let unknown = [0, 9, 0, 6, 1, 2, 0, 0];
    let words = [0, 1, 0, 12, 0, 0, 0, 0x12, 0, 0, 0, 1, 0, 0, 0, 0];
    let message = [&[4, 0, 0, 32, 0, 0, 0, 1][..], &unknown, &words].concat();
    assert_eq!(
        Message::decode(&message).unwrap().to_string(),
        "OFPT_HELLO (OF1.3) (xid=0x1): unknown(9:0102) version bitmap: 0x01, 0x04, 0x20"
    );
    let message = [1, 0, 0, 9, 0, 0, 0, 1, 0xee];
    let text = Message::decode(&message).unwrap().to_string();
    assert_eq!(text, "OFPT_HELLO (OF1.0) (xid=0x1): version 0x01 data: ee");
}
