//! Checks that Open vSwitch's `ovs-ofctl ofp-print` reads encoded messages as intended.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test that says what it skips")]

use rosemary_openflow::{
    Action, Bucket, EncodeError, Field, FlowMod, FlowModFlags, FlowStatsRequest, GroupKind,
    GroupMod, GroupModCommand, MacAddr, Masked, Match, MeterBand, MeterFlags, MeterMod,
    MeterModCommand, MultipartRequest, PacketOut, PortNo, Version, append,
};
use std::process::Command;

mod later;

/// Returns the output of `ovs-ofctl` about a message as one line; `None`, with a note, if it is not
/// installed.
fn ovs_ofctl(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Option<String> {
    let mut bytes = Vec::new();
    append(&mut bytes, encode).unwrap();
    let hex = bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let Ok(output) = Command::new("ovs-ofctl").args(["ofp-print", &hex]).output() else {
        assert!(
            std::env::var_os("ROSEMARY_REQUIRE_ALL").is_none(),
            "ovs-ofctl is not installed, and nothing may be skipped"
        );
        println!("SKIPPED: ovs-ofctl is not installed; type: apt-get install openvswitch-common");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

macro_rules! reads {
    ($value:expr, $version:expr, $expected:expr) => {{
        let value = $value;
        if let Some(read) = $crate::ovs_ofctl(|out| value.encode($version, 1, out)) {
            assert_eq!(read, $expected);
        }
    }};
}
use reads;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

#[test]
fn tcp_flow_mod_prints_alike_in_both_versions() {
    let match_ = Match::new()
        .in_port(PortNo(1))
        .eth_src(MAC)
        .vlan_vid(7)
        .vlan_pcp(3)
        .eth_type(0x800)
        .ip_proto(6)
        .ip_dscp(46)
        .ipv4_src([10, 0, 0, 1].into())
        .with(&Field::Ipv4Dst(Masked::new([10, 1, 0, 0].into(), [255, 255, 0, 0].into())))
        .tcp_dst(80);
    let actions = [
        Action::SetField(Field::EthDst(MAC.into())),
        Action::PopVlan,
        Action::output(PortNo(2)),
        Action::Output { port: PortNo::CONTROLLER, max_len: 128 },
    ];
    let flow_mod = FlowMod::add(match_)
        .priority(9)
        .idle_timeout(60)
        .flags(FlowModFlags::SEND_FLOW_REM)
        .apply(&actions);
    let said = "ADD priority=9,tcp,in_port=1,dl_vlan=7,dl_vlan_pcp=3,dl_src=02:00:00:00:00:01,\
                nw_src=10.0.0.1,nw_dst=10.1.0.0/16,nw_tos=184,tp_dst=80 idle:60 send_flow_rem \
                actions=";
    reads!(
        &flow_mod,
        Version::V1_0,
        format!(
            "OFPT_FLOW_MOD (xid=0x1): {said}mod_dl_dst:02:00:00:00:00:01,strip_vlan,output:2,\
             CONTROLLER:128"
        )
    );
    reads!(
        &flow_mod,
        Version::V1_3,
        format!(
            "OFPT_FLOW_MOD (OF1.3) (xid=0x1): {said}set_field:02:00:00:00:00:01->eth_dst,pop_vlan,\
             output:2,CONTROLLER:128"
        )
    );
}

#[test]
fn arp_delete_prints_alike_in_both_versions() {
    let arp = Match::new().eth_type(0x806).arp_op(1).arp_tpa([10, 0, 0, 2].into());
    let said = "DEL arp,arp_tpa=10.0.0.2,arp_op=1 actions=drop";
    reads!(FlowMod::delete(arp.clone()), Version::V1_0, format!("OFPT_FLOW_MOD (xid=0x1): {said}"));
    reads!(FlowMod::delete(arp), Version::V1_3, format!("OFPT_FLOW_MOD (OF1.3) (xid=0x1): {said}"));
}

#[test]
fn masks_and_instructions_print_as_intended() {
    let match_ = Match::new()
        .eth_type(0x86dd)
        .ip_proto(58)
        .with(&Field::Ipv6Flabel(Masked::new(0xabcd0, 0xffff0)))
        .with(&Field::Icmpv6Type(135))
        .with(&Field::Ipv6NdTarget([0xfe80, 0, 0, 0, 0, 0, 0, 1].into()))
        .with(&Field::Metadata(Masked::new(0x12, 0xff)))
        .with(&Field::TunnelId(0x77.into()));
    let write = [
        Action::PushVlan(0x8100),
        Action::SetField(Field::VlanVid(0x1007.into())),
        Action::Group(7),
    ];
    let mut flow_mod = FlowMod::add(match_).table(2).write(&write).goto_table(3).meter(5);
    flow_mod.instructions.clear = true;
    flow_mod.instructions.metadata = Some((0x30, 0xf0));
    reads!(
        flow_mod,
        Version::V1_3,
        "OFPT_FLOW_MOD (OF1.3) (xid=0x1): ADD table:2 icmp6,tun_id=0x77,metadata=0x12/0xff,\
         ipv6_label=0xabcd0/0xffff0,icmp_type=135,nd_target=fe80::1 actions=meter:5,clear_actions,\
         write_actions(push_vlan:0x8100,set_field:4103->vlan_vid,group:7),\
         write_metadata:0x30/0xf0,goto_table:3"
    );
}

#[test]
fn mpls_and_ttl_actions_print_as_intended() {
    let mpls = Match::new().eth_type(0x8847).with(&Field::MplsLabel(99)).with(&Field::MplsBos(1));
    let actions = [
        Action::SetMplsTtl(9),
        Action::DecMplsTtl,
        Action::PopMpls(0x800),
        Action::DecNwTtl,
        Action::SetQueue(4),
        Action::output(PortNo::IN_PORT),
    ];
    reads!(
        FlowMod::add(mpls).apply(&actions),
        Version::V1_3,
        "OFPT_FLOW_MOD (OF1.3) (xid=0x1): ADD mpls,mpls_label=99,mpls_bos=1 \
         actions=set_mpls_ttl(9),dec_mpls_ttl,pop_mpls:0x0800,dec_ttl,set_queue:4,IN_PORT"
    );
}

#[test]
fn packet_out_and_requests_print_as_intended() {
    let flood = [Action::output(PortNo::FLOOD)];
    let packet_out = PacketOut::buffered(PortNo(3), &flood, 0x100);
    let said = "in_port=3 actions=FLOOD buffer=0x00000100";
    reads!(packet_out, Version::V1_0, format!("OFPT_PACKET_OUT (xid=0x1): {said}"));
    reads!(packet_out, Version::V1_3, format!("OFPT_PACKET_OUT (OF1.3) (xid=0x1): {said}"));
    let request = FlowStatsRequest { out_port: PortNo(3), ..FlowStatsRequest::new(Match::new()) };
    let flows = MultipartRequest::Flow(request);
    reads!(&flows, Version::V1_0, "OFPST_FLOW request (xid=0x1): out_port=3");
    reads!(&flows, Version::V1_3, "OFPST_FLOW request (OF1.3) (xid=0x1): out_port=3");
    let queues = MultipartRequest::Queue { port_no: PortNo::ANY, queue_id: None };
    reads!(&queues, Version::V1_0, "OFPST_QUEUE request (xid=0x1): port=ANY queue=ALL");
    reads!(&queues, Version::V1_3, "OFPST_QUEUE request (OF1.3) (xid=0x1): port=ANY queue=ALL");
}

#[test]
fn groups_and_meters_print_as_intended() {
    let bucket = |port| Bucket { weight: 3, ..Bucket::new([Action::output(PortNo(port))]) };
    reads!(
        GroupMod {
            command: GroupModCommand::Add,
            kind: GroupKind::Select,
            group_id: 7,
            buckets: vec![bucket(1), bucket(2)],
        },
        Version::V1_3,
        "OFPT_GROUP_MOD (OF1.3) (xid=0x1): ADD \
         group_id=7,type=select,bucket=weight:3,actions=output:1,bucket=weight:3,actions=output:2"
    );
    reads!(
        MeterMod {
            command: MeterModCommand::Add,
            flags: MeterFlags::KBPS | MeterFlags::BURST | MeterFlags::STATS,
            meter_id: 5,
            bands: vec![
                MeterBand::Drop { rate: 1000, burst_size: 100 },
                MeterBand::DscpRemark { rate: 500, burst_size: 50, prec_level: 1 },
            ],
        },
        Version::V1_3,
        "OFPT_METER_MOD (OF1.3) (xid=0x1): ADD meter=5 kbps burst stats bands= type=drop rate=1000 \
         burst_size=100 type=dscp_remark rate=500 burst_size=50 prec_level=1"
    );
}
