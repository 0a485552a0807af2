//! The entries tested over OpenFlow 1.0: every match field and every action.

use std::net::Ipv4Addr;

use openflow::matching::VLAN_PRESENT;
use openflow::nicira::NiciraAction;
use openflow::{Action, Field, FlowModFlags, MacAddr, Masked, Match, PortNo};

use super::flows::Entry;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const IP: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = matches();
    entries.extend(actions());
    entries.extend(settings());
    entries
}

fn matches() -> Vec<Entry> {
    let entry = Entry::for_match;
    let any = Match::new;
    let ip = || any().eth_type(0x0800);
    let prefix = |bits: u32| Masked::new(IP, Ipv4Addr::from(u32::MAX << (32 - bits)));
    vec![
        entry(any(), &["actions=output:2"]),
        entry(any().in_port(PortNo(1)), &["in_port=1"]),
        entry(any().in_port(PortNo::LOCAL), &["in_port=LOCAL"]),
        entry(any().eth_src(MAC), &["dl_src=02:00:00:00:00:0a"]),
        entry(any().eth_dst(MAC), &["dl_dst=02:00:00:00:00:0a"]),
        entry(any().eth_type(0x88cc), &["dl_type=0x88cc"]),
        entry(any().vlan_vid(5), &["dl_vlan=5"]),
        entry(any().vlan_vid(4095).vlan_pcp(7), &["dl_vlan=4095", "dl_vlan_pcp=7"]),
        entry(any().untagged(), &["vlan_tci=0x0000"]),
        entry(ip().ip_dscp(10), &["ip", "nw_tos=40"]),
        entry(ip().ip_proto(47), &["nw_proto=47"]),
        entry(ip().ipv4_src(IP), &["nw_src=10.1.2.3"]),
        entry(ip().with(&Field::Ipv4Src(prefix(8))), &["nw_src=10.0.0.0/8"]),
        entry(ip().with(&Field::Ipv4Dst(prefix(31))), &["nw_dst=10.1.2.2/31"]),
        entry(ip().ipv4_dst(IP), &["nw_dst=10.1.2.3"]),
        entry(ip().ip_proto(6).tcp_src(1).tcp_dst(65535), &["tcp", "tp_src=1", "tp_dst=65535"]),
        entry(ip().ip_proto(17).udp_src(53).udp_dst(0), &["udp", "tp_src=53", "tp_dst=0"]),
        entry(
            ip().ip_proto(1).with(&Field::Icmpv4Type(8)).with(&Field::Icmpv4Code(1)),
            &["icmp", "icmp_type=8", "icmp_code=1"],
        ),
        entry(
            any().eth_type(0x0806).arp_op(2).arp_spa(IP).with(&Field::ArpTpa(prefix(16))),
            &["arp", "arp_op=2", "arp_spa=10.1.2.3", "arp_tpa=10.1.0.0/16"],
        ),
        entry(
            any()
                .in_port(PortNo(3))
                .eth_src(MAC)
                .eth_dst(MAC)
                .eth_type(0x0800)
                .vlan_vid(1)
                .vlan_pcp(1)
                .ip_dscp(63)
                .ip_proto(6)
                .ipv4_src(IP)
                .ipv4_dst(IP)
                .tcp_src(1024)
                .tcp_dst(1025),
            &["in_port=3", "dl_vlan=1", "dl_vlan_pcp=1", "nw_tos=252", "tp_dst=1025"],
        )
        // Without wildcards it has the highest priority, whatever its priority field is: OpenFlow
        // 1.0.2 §3.4.
        .with(|flow_mod| flow_mod.priority(65535)),
    ]
}

fn actions() -> Vec<Entry> {
    let tcp = || Match::new().eth_type(0x0800).ip_proto(6);
    let entry = |actions: &[Action], text| Entry::for_actions(tcp(), actions, &[text]);
    let set = |field| Action::set_field(field);
    let output = Action::output;
    vec![
        entry(&[], "actions=drop"),
        entry(&[output(PortNo(1)), output(PortNo(3))], "actions=output:1,output:3"),
        entry(&[output(PortNo::IN_PORT)], "actions=IN_PORT"),
        entry(&[output(PortNo::NORMAL)], "actions=NORMAL"),
        entry(&[output(PortNo::FLOOD)], "actions=FLOOD"),
        entry(&[output(PortNo::ALL)], "actions=ALL"),
        entry(&[output(PortNo::LOCAL)], "actions=LOCAL"),
        entry(
            &[Action::Output { port: PortNo::CONTROLLER, max_len: 128 }],
            "actions=CONTROLLER:128",
        ),
        entry(&[Action::Enqueue { port: PortNo(3), queue_id: 7 }], "actions=enqueue:3:7"),
        entry(&[set(Field::VlanVid((VLAN_PRESENT | 9).into()))], "actions=mod_vlan_vid:9"),
        entry(&[set(Field::VlanPcp(5))], "actions=mod_vlan_pcp:5"),
        entry(&[Action::PopVlan], "actions=strip_vlan"),
        entry(&[set(Field::EthSrc(MAC.into()))], "actions=mod_dl_src:02:00:00:00:00:0a"),
        entry(&[set(Field::EthDst(MAC.into()))], "actions=mod_dl_dst:02:00:00:00:00:0a"),
        entry(&[set(Field::Ipv4Src(IP.into()))], "actions=mod_nw_src:10.1.2.3"),
        entry(&[set(Field::Ipv4Dst(IP.into()))], "actions=mod_nw_dst:10.1.2.3"),
        entry(&[set(Field::IpDscp(16))], "actions=mod_nw_tos:64"),
        entry(&[Action::SetTpSrc(8080)], "actions=mod_tp_src:8080"),
        entry(&[Action::SetTpDst(80)], "actions=mod_tp_dst:80"),
        // An action of Open vSwitch.
        entry(
            &[NiciraAction::ResubmitTable { in_port: PortNo::IN_PORT, table: 4, ct: false }.into()],
            "actions=resubmit(,4)",
        ),
    ]
}

fn settings() -> Vec<Entry> {
    let entry = |text| Entry::for_match(Match::new(), text);
    vec![
        entry(&["idle_timeout=60"]).with(|flow_mod| flow_mod.idle_timeout(60)),
        entry(&["hard_timeout=65535"]).with(|flow_mod| flow_mod.hard_timeout(65535)),
        // The flow statistics of 1.0 do not contain flags.
        entry(&[]).with(|flow_mod| flow_mod.flags(FlowModFlags::SEND_FLOW_REM)),
        entry(&["priority=0"]).with(|flow_mod| flow_mod.priority(0)),
        entry(&["priority=65535"]).with(|flow_mod| flow_mod.priority(65535)),
    ]
}
