use super::*;

fn read(text: &str) -> Packet {
    Packet::read(text, None).unwrap()
}

#[test]
fn keys_of_both_kinds_are_read() {
    let one = read("in_port=1,icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2,dl_src=02:00:00:00:00:01");
    let other = read(
        "in_port=1 eth_type=0x0800 ip_proto=1 ipv4_src=10.0.0.1 ipv4_dst=10.0.0.2 eth_src=02:00:00:00:00:01",
    );
    assert_eq!(one, other);
    assert_eq!(read(&one.to_string()), one, "{one}");
    let tagged = read("in_port=1,dl_vlan=7,tcp6,ipv6_src=::1,tp_dst=80,nw_tos=0x2f");
    assert_eq!(read(&tagged.to_string()), tagged, "{tagged}");
}

#[test]
fn switch_itself_is_an_in_port() {
    let local = read("in_port=LOCAL,icmp,nw_dst=10.0.0.2");
    assert_eq!(local.in_port(), PortNo::LOCAL.0);
    assert_eq!(read("in_port=local,icmp,nw_dst=10.0.0.2"), local);
    assert_eq!(Packet::read("icmp,nw_dst=10.0.0.2", "Local".parse().ok()).unwrap(), local);
    assert!(local.to_string().starts_with("in_port=LOCAL,"), "{local}");
    assert!(local.is_matched_by(&Match::new().in_port(PortNo::LOCAL)));
    assert!("4294967296".parse::<InPort>().is_err() && "0x1".parse() == Ok(InPort(1)));
}

#[test]
fn mistakes_are_named() {
    for (text, part) in [
        ("icmp", "in which port?"),
        ("in_port=1,color=red", "not a field"),
        ("in_port=1,blue", "neither key=value nor"),
        ("in_port=1,dl_src=5", "expected an Ethernet address"),
        ("in_port=1,tp_dst=80", "needs a protocol"),
        ("in_port=1,vlan_pcp=9", "at most 3 bits"),
        ("in_port=outside", "expected the number of a port, or LOCAL"),
        ("in_port=4294967296", "expected the number of a port, or LOCAL"),
        ("in_port=1,tcp_dst=80", "tcp_dst is a field of IPv4 and of IPv6: add tcp or tcp6"),
        ("in_port=1,ip_proto=6", "ip_proto is a field of IPv4 and of IPv6: add ip or ipv6"),
        ("in_port=1,arp,ipv4_dst=10.0.0.1", "ipv4_dst is a field of another kind"),
        ("in_port=1,ipv4_src=10.0.0.1,ipv6_dst=::1", "ipv6_dst is a field of another kind"),
        ("in_port=1,udp,tcp_dst=80", "tcp_dst is a field of another protocol than ip_proto"),
        ("in_port=1,ip,udp_dst=1,tcp_dst=80", "udp_dst is a field of another protocol"),
        ("in_port=1,icmp6,icmpv4_type=8", "icmpv4_type is a field of another kind"),
        ("in_port=1,eth_type=0x1234,nw_tos=4", "it needs ip or ipv6"),
    ] {
        let error = Packet::read(text, None).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// What only one kind of packet can have shows the kind.
#[test]
fn prerequisites_are_inferred() {
    for (text, whole) in [
        ("tcp_dst=80,ipv4_dst=10.0.0.1", "tcp,ipv4_dst=10.0.0.1,tcp_dst=80"),
        ("nw_src=10.0.0.1", "ip,nw_src=10.0.0.1"),
        ("udp_src=5,ipv6_src=::1", "udp6,ipv6_src=::1,udp_src=5"),
        ("icmpv4_type=8", "icmp,icmp_type=8"),
        ("icmpv6_type=135,nd_target=::1", "icmp6,icmp_type=135,nd_target=::1"),
        ("arp_spa=10.0.0.1", "arp,arp_spa=10.0.0.1"),
        ("rarp,arp_op=3", "rarp,arp_op=3"),
        ("mpls_label=5", "eth_type=0x8847,mpls_label=5"),
        ("vlan_pcp=3", "vlan_vid=0,vlan_pcp=3"),
        ("dl_dst=02:00:00:00:00:01", "dl_dst=02:00:00:00:00:01"),
    ] {
        let read = |text: &str| Packet::read(&format!("in_port=1,{text}"), None).unwrap();
        assert_eq!(read(text), read(whole), "{text}");
    }
}

#[test]
fn frame_has_the_fields_of_its_text() {
    let frame = "020000000002 020000000001 8100 6007 0800 \
                 45b80028 00000000 40010000 0a000001 0a000002 0800 0000 00000000 0000000000000000";
    let packet = Packet::read(frame, Some(InPort(3))).unwrap();
    let text = "in_port=3,dl_dst=02:00:00:00:00:02,dl_src=02:00:00:00:00:01,dl_vlan=7,dl_vlan_pcp=3,\
                icmp,nw_tos=184,nw_src=10.0.0.1,nw_dst=10.0.0.2,icmp_type=8";
    assert_eq!(packet, read(text), "{packet}");
    let arp = "ffffffffffff 020000000001 0806 0001 0800 0604 0001 020000000001 0a000001 000000000000 0a000002";
    let text = "in_port=3,dl_dst=ff:ff:ff:ff:ff:ff,dl_src=02:00:00:00:00:01,arp,arp_op=1,\
                arp_sha=02:00:00:00:00:01,arp_spa=10.0.0.1,arp_tpa=10.0.0.2";
    assert_eq!(Packet::read(arp, Some(InPort(3))).unwrap(), read(text));
    assert!(Packet::read("0200", Some(InPort(3))).is_err());
    for size in 14..40 {
        let digits: String = frame.chars().filter(|c| !c.is_whitespace()).take(2 * size).collect();
        Packet::read(&digits, Some(InPort(1))).unwrap(); // cut anywhere
    }
}

#[test]
fn match_holds_for_its_packets_only() {
    let packet = read("in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80");
    let ip = Match::new().eth_type(IPV4);
    assert!(packet.is_matched_by(&Match::new()) && packet.is_matched_by(&ip));
    assert!(packet.is_matched_by(&ip.clone().ip_proto(TCP).tcp_dst(80)));
    assert!(!packet.is_matched_by(&ip.clone().ip_proto(TCP).tcp_dst(81)));
    assert!(!packet.is_matched_by(&ip.clone().ip_proto(UDP).udp_dst(80)));
    assert!(packet.is_matched_by(&Match::new().untagged()));
    assert!(!packet.is_matched_by(&Match::new().vlan_vid(1)));
    assert!(read("in_port=1,dl_vlan=1").is_matched_by(&Match::new().vlan_vid(1)));
    let net = openflow::Masked::new(Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(255, 0, 0, 0));
    assert!(packet.is_matched_by(&ip.with(&Field::Ipv4Dst(net))));
}
