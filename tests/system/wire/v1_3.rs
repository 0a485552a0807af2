//! The entries tested over OpenFlow 1.3: every field and action that Open vSwitch supports (it has
//! no PBB, `in_phy_port` and `ipv6_exthdr`, and does not copy TTLs), with masks where it accepts
//! them, and every instruction.

use std::net::{Ipv4Addr, Ipv6Addr};

use openflow::matching::VLAN_PRESENT;
use openflow::nicira::NiciraAction;
use openflow::{Action, Field, FlowModFlags, MacAddr, Masked, Match, PortNo};

use super::flows::Entry;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const MULTICAST: MacAddr = MacAddr([1, 0, 0, 0, 0, 0]);
const IP: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
const IP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

fn masked<T>(value: T, mask: T) -> Masked<T> {
    Masked::new(value, mask)
}

fn ip() -> Match {
    Match::new().eth_type(0x0800)
}

fn ip6() -> Match {
    Match::new().eth_type(0x86dd)
}

fn arp() -> Match {
    Match::new().eth_type(0x0806)
}

fn mpls() -> Match {
    Match::new().eth_type(0x8847)
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = lower_layers();
    entries.extend(upper_layers());
    entries.extend(actions());
    entries.extend(set_fields());
    entries.extend(instructions());
    entries
}

fn lower_layers() -> Vec<Entry> {
    let any = Match::new;
    let entry = Entry::for_match;
    let field = |field: Field, text: &[&'static str]| entry(Match::new().with(&field), text);
    vec![
        entry(any(), &["actions=output:2"]),
        entry(any().in_port(PortNo(1)), &["in_port=1"]),
        entry(any().in_port(PortNo::LOCAL), &["in_port=LOCAL"]),
        field(Field::Metadata(0x1234_5678_9abc_def0.into()), &["metadata=0x123456789abcdef0"]),
        field(Field::Metadata(masked(0x1200, 0xff00)), &["metadata=0x1200/0xff00"]),
        field(Field::TunnelId(42.into()), &["tun_id=0x2a"]),
        field(Field::TunnelId(masked(0x2a, 0xff)), &["tun_id=0x2a/0xff"]),
        entry(any().eth_src(MAC), &["dl_src=02:00:00:00:00:0a"]),
        entry(any().eth_dst(MAC), &["dl_dst=02:00:00:00:00:0a"]),
        field(
            Field::EthDst(masked(MULTICAST, MULTICAST)),
            &["dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"],
        ),
        field(
            Field::EthSrc(masked(MAC, MacAddr([255, 255, 255, 0, 0, 0]))),
            &["dl_src=02:00:00:00:00:00/ff:ff:ff:00:00:00"],
        ),
        entry(any().eth_type(0x88cc), &["dl_type=0x88cc"]),
        entry(any().vlan_vid(5), &["dl_vlan=5"]),
        entry(any().vlan_vid(4095).vlan_pcp(7), &["dl_vlan=4095", "dl_vlan_pcp=7"]),
        entry(any().untagged(), &["vlan_tci=0x0000/0x1fff"]),
        field(Field::VlanVid(masked(VLAN_PRESENT, VLAN_PRESENT)), &["vlan_tci=0x1000/0x1000"]),
        field(
            Field::VlanVid(masked(VLAN_PRESENT | 5, VLAN_PRESENT | 0x105)),
            &["vlan_tci=0x1005/0x1105"],
        ),
        entry(
            mpls()
                .with(&Field::MplsLabel(0xf_ffff))
                .with(&Field::MplsTc(7))
                .with(&Field::MplsBos(1)),
            &["mpls", "mpls_label=1048575", "mpls_tc=7", "mpls_bos=1"],
        ),
        entry(arp().arp_op(1).arp_spa(IP).arp_tpa(IP), &["arp_op=1", "arp_spa=10.1.2.3"]),
        entry(
            arp().with(&Field::ArpSpa(masked(IP, Ipv4Addr::new(255, 0, 0, 255)))),
            &["arp_spa=10.0.0.3/255.0.0.255"],
        ),
        entry(
            arp().with(&Field::ArpTpa(masked(IP, Ipv4Addr::new(255, 255, 255, 0)))),
            &["arp_tpa=10.1.2.0/24"],
        ),
        entry(
            arp().with(&Field::ArpSha(MAC.into())).with(&Field::ArpTha(masked(MAC, MULTICAST))),
            &["arp_sha=02:00:00:00:00:0a", "arp_tha=00:00:00:00:00:00/01:00:00:00:00:00"],
        ),
    ]
}

fn upper_layers() -> Vec<Entry> {
    let entry = Entry::for_match;
    let net6 = Ipv6Addr::new(0xffff, 0xffff, 0, 0, 0, 0, 0, 0);
    let icmp6 =
        |kind| ip6().ip_proto(58).with(&Field::Icmpv6Type(kind)).with(&Field::Icmpv6Code(0));
    vec![
        entry(ip().ip_dscp(10), &["ip", "nw_tos=40"]),
        entry(ip().with(&Field::IpEcn(3)), &["nw_ecn=3"]),
        entry(ip().ip_proto(47), &["nw_proto=47"]),
        entry(ip().ipv4_src(IP), &["nw_src=10.1.2.3"]),
        entry(
            ip().with(&Field::Ipv4Src(masked(IP, Ipv4Addr::new(255, 0, 0, 0)))),
            &["nw_src=10.0.0.0/8"],
        ),
        entry(
            ip().with(&Field::Ipv4Dst(masked(IP, Ipv4Addr::new(255, 0, 0, 255)))),
            &["nw_dst=10.0.0.3/255.0.0.255"],
        ),
        entry(ip().ip_proto(6).tcp_src(1).tcp_dst(65535), &["tcp", "tp_src=1", "tp_dst=65535"]),
        entry(ip().ip_proto(17).udp_src(53).udp_dst(0), &["udp", "tp_src=53", "tp_dst=0"]),
        entry(
            ip().ip_proto(132).with(&Field::SctpSrc(2905)).with(&Field::SctpDst(1)),
            &["sctp", "tp_src=2905", "tp_dst=1"],
        ),
        entry(
            ip().ip_proto(1).with(&Field::Icmpv4Type(8)).with(&Field::Icmpv4Code(1)),
            &["icmp", "icmp_type=8", "icmp_code=1"],
        ),
        entry(ip6().ipv6_src(IP6).ipv6_dst(IP6), &["ipv6_src=2001:db8::1"]),
        entry(
            ip6().with(&Field::Ipv6Src(masked(IP6, net6))).with(&Field::Ipv6Dst(masked(IP6, net6))),
            &["ipv6", "ipv6_src=2001:db8::/32", "ipv6_dst=2001:db8::/32"],
        ),
        entry(ip6().with(&Field::Ipv6Flabel(0x12345.into())), &["ipv6_label=0x12345"]),
        entry(
            ip6().with(&Field::Ipv6Flabel(masked(0x12300, 0xfff00))),
            &["ipv6_label=0x12300/0xfff00"],
        ),
        entry(ip6().ip_dscp(1).ip_proto(6).tcp_dst(22), &["tcp6", "nw_tos=4", "tp_dst=22"]),
        entry(icmp6(128), &["icmp6", "icmp_type=128", "icmp_code=0"]),
        entry(
            icmp6(135).with(&Field::Ipv6NdTarget(IP6)).with(&Field::Ipv6NdSll(MAC)),
            &["nd_target=2001:db8::1", "nd_sll=02:00:00:00:00:0a"],
        ),
        entry(
            icmp6(136).with(&Field::Ipv6NdTarget(IP6)).with(&Field::Ipv6NdTll(MAC)),
            &["icmp_type=136", "nd_tll=02:00:00:00:00:0a"],
        ),
    ]
}

fn actions() -> Vec<Entry> {
    let output = Action::output;
    let entry = |actions: &[Action], text| Entry::for_actions(ip(), actions, &[text]);
    let tagged =
        |actions: &[Action], text| Entry::for_actions(Match::new().vlan_vid(5), actions, &[text]);
    let labelled = |actions: &[Action], text| Entry::for_actions(mpls(), actions, &[text]);
    vec![
        entry(&[], "actions=drop"),
        entry(&[output(PortNo(1)), output(PortNo(3))], "actions=output:1,output:3"),
        entry(&[output(PortNo::IN_PORT)], "actions=IN_PORT"),
        entry(&[output(PortNo::NORMAL)], "actions=NORMAL"),
        entry(&[output(PortNo::FLOOD)], "actions=FLOOD"),
        entry(&[output(PortNo::ALL)], "actions=ALL"),
        entry(&[output(PortNo::LOCAL)], "actions=LOCAL"),
        entry(&[output(PortNo::CONTROLLER)], "actions=CONTROLLER:65535"),
        entry(
            &[Action::Output { port: PortNo::CONTROLLER, max_len: 128 }],
            "actions=CONTROLLER:128",
        ),
        entry(&[Action::PushVlan(0x8100), output(PortNo(2))], "actions=push_vlan:0x8100,output:2"),
        entry(&[Action::PushVlan(0x88a8)], "actions=push_vlan:0x88a8"),
        tagged(&[Action::PopVlan], "actions=pop_vlan"),
        entry(&[Action::PushMpls(0x8847)], "actions=push_mpls:0x8847"),
        entry(&[Action::PushMpls(0x8848)], "actions=push_mpls:0x8848"),
        labelled(&[Action::PopMpls(0x0800)], "actions=pop_mpls:0x0800"),
        labelled(&[Action::SetMplsTtl(64)], "actions=set_mpls_ttl(64)"),
        labelled(&[Action::DecMplsTtl], "actions=dec_mpls_ttl"),
        entry(&[Action::SetNwTtl(64)], "actions=mod_nw_ttl:64"),
        entry(&[Action::DecNwTtl], "actions=dec_ttl"),
        entry(&[Action::SetQueue(7), output(PortNo(3))], "actions=set_queue:7,output:3"),
        entry(&[Action::Group(1)], "actions=group:1"),
        entry(&[Action::Group(4), Action::Group(0xffff_ff00)], "actions=group:4,group:4294967040"),
        // An action of Open vSwitch.
        entry(
            &[NiciraAction::ResubmitTable { in_port: PortNo::IN_PORT, table: 4, ct: false }.into()],
            "actions=resubmit(,4)",
        ),
    ]
}

fn set_fields() -> Vec<Entry> {
    let entry = |match_: Match, field, text| {
        Entry::for_actions(match_, &[Action::set_field(field), Action::output(PortNo(2))], &[text])
    };
    let tcp = || ip().ip_proto(6);
    let udp = || ip().ip_proto(17);
    let sctp = || ip().ip_proto(132);
    let tagged = || Match::new().vlan_vid(5);
    let any = Match::new;
    vec![
        entry(any(), Field::EthSrc(MAC.into()), "actions=set_field:02:00:00:00:00:0a->eth_src"),
        entry(any(), Field::EthDst(MAC.into()), "actions=set_field:02:00:00:00:00:0a->eth_dst"),
        entry(any(), Field::TunnelId(42.into()), "actions=set_field:0x2a->tun_id"),
        entry(
            tagged(),
            Field::VlanVid((VLAN_PRESENT | 9).into()),
            "actions=set_field:4105->vlan_vid",
        ),
        entry(tagged(), Field::VlanPcp(5), "actions=set_field:5->vlan_pcp"),
        entry(mpls(), Field::MplsLabel(100), "actions=set_field:100->mpls_label"),
        entry(mpls(), Field::MplsTc(3), "actions=set_field:3->mpls_tc"),
        entry(arp(), Field::ArpOp(2), "actions=set_field:2->arp_op"),
        entry(arp(), Field::ArpSpa(IP.into()), "actions=set_field:10.1.2.3->arp_spa"),
        entry(arp(), Field::ArpTpa(IP.into()), "actions=set_field:10.1.2.3->arp_tpa"),
        entry(arp(), Field::ArpSha(MAC.into()), "actions=set_field:02:00:00:00:00:0a->arp_sha"),
        entry(arp(), Field::ArpTha(MAC.into()), "actions=set_field:02:00:00:00:00:0a->arp_tha"),
        entry(ip(), Field::Ipv4Src(IP.into()), "actions=set_field:10.1.2.3->ip_src"),
        entry(ip(), Field::Ipv4Dst(IP.into()), "actions=set_field:10.1.2.3->ip_dst"),
        entry(ip(), Field::IpDscp(16), "actions=set_field:16->ip_dscp"),
        entry(ip(), Field::IpEcn(1), "actions=set_field:1->nw_ecn"),
        entry(ip6(), Field::Ipv6Src(IP6.into()), "actions=set_field:2001:db8::1->ipv6_src"),
        entry(ip6(), Field::Ipv6Dst(IP6.into()), "actions=set_field:2001:db8::1->ipv6_dst"),
        entry(ip6(), Field::Ipv6Flabel(7.into()), "actions=set_field:0x7->ipv6_label"),
        entry(tcp(), Field::TcpSrc(1), "actions=set_field:1->tcp_src"),
        entry(tcp(), Field::TcpDst(2), "actions=set_field:2->tcp_dst"),
        entry(udp(), Field::UdpSrc(3), "actions=set_field:3->udp_src"),
        entry(udp(), Field::UdpDst(4), "actions=set_field:4->udp_dst"),
        entry(sctp(), Field::SctpSrc(5), "actions=set_field:5->sctp_src"),
        entry(sctp(), Field::SctpDst(6), "actions=set_field:6->sctp_dst"),
    ]
}

fn instructions() -> Vec<Entry> {
    let entry = |text| Entry::for_match(Match::new(), text);
    let bare = |text| Entry { apply: Vec::new(), ..entry(text) };
    let all = Entry {
        write: vec![Action::DecNwTtl, Action::Group(2)],
        ..Entry::for_match(
            ip(),
            &[
                "actions=meter:1,output:2,clear_actions,write_actions(dec_ttl,group:2),write_metadata:0x1200/0xff00,goto_table:253",
            ],
        )
    };
    vec![
        bare(&["actions=goto_table:1"]).with(|flow_mod| flow_mod.goto_table(1)),
        bare(&["actions=clear_actions"]).with(|mut flow_mod| {
            flow_mod.instructions.clear = true;
            flow_mod
        }),
        bare(&["actions=write_metadata:0xffffffffffffffff"]).with(|mut flow_mod| {
            flow_mod.instructions.metadata = Some((u64::MAX, u64::MAX));
            flow_mod
        }),
        entry(&["actions=meter:2,output:2"]).with(|flow_mod| flow_mod.meter(2)),
        Entry {
            write: vec![Action::PopVlan, Action::output(PortNo(3))],
            ..bare(&["actions=write_actions(pop_vlan,output:3)"])
        },
        all.with(|mut flow_mod| {
            flow_mod.instructions.clear = true;
            flow_mod.instructions.metadata = Some((0x1200, 0xff00));
            flow_mod.meter(1).table(3).goto_table(253)
        }),
        entry(&["idle_timeout=60"]).with(|flow_mod| flow_mod.idle_timeout(60)),
        entry(&["hard_timeout=65535"]).with(|flow_mod| flow_mod.hard_timeout(65535)),
        entry(&["send_flow_rem"]).with(|flow_mod| flow_mod.flags(FlowModFlags::SEND_FLOW_REM)),
        entry(&["no_packet_counts", "no_byte_counts"]).with(|flow_mod| {
            flow_mod.flags(FlowModFlags::NO_PKT_COUNTS | FlowModFlags::NO_BYT_COUNTS)
        }),
        entry(&["table=253"]).with(|flow_mod| flow_mod.table(253)),
        entry(&["priority=0"]).with(|flow_mod| flow_mod.priority(0)),
        entry(&["priority=65535"]).with(|flow_mod| flow_mod.priority(65535)),
    ]
}
