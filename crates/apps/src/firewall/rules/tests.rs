use super::*;

const S1: Dpid = Dpid(1);

fn matches(rule: &str) -> Vec<String> {
    let rules = Rules::read(&format!("[[deny]]\n{rule}")).unwrap();
    rules.entries.iter().map(|entry| entry.match_.to_string()).collect()
}

fn error(text: &str) -> String {
    Rules::read(text).unwrap_err()
}

fn packet(from: &str, to: &str, protocol: Protocol, to_port: u16) -> Packet {
    let from: IpAddr = from.parse().unwrap();
    let ethertype = if from.is_ipv4() { IPV4 } else { IPV6 };
    Packet {
        eth_src: MacAddr([2, 0, 0, 0, 0, 1]),
        eth_dst: MacAddr([2, 0, 0, 0, 0, 2]),
        ethertype,
        from: Some(from),
        to: Some(to.parse().unwrap()),
        protocol: Some(protocol.number(ethertype)),
        from_port: Some(40_000),
        to_port: Some(to_port),
    }
}

#[test]
fn rule_makes_flows_per_port_and_ip_version() {
    assert_eq!(
        matches("from = \"10.0.0.0/8\"\nto = \"192.0.2.7\"\nprotocol = \"tcp\"\nto-port = [22, 23]"),
        [22, 23].map(|port| format!(
            "eth_type=0x0800,ip_proto=6,ipv4_src=10.0.0.0/255.0.0.0,ipv4_dst=192.0.2.7,tcp_dst={port}"
        ))
    );
    assert_eq!(
        matches("protocol = \"icmp\""),
        ["eth_type=0x0800,ip_proto=1", "eth_type=0x86dd,ip_proto=58"]
    );
    assert_eq!(
        matches("from = \"2001:db8::/32\""),
        ["eth_type=0x86dd,ipv6_src=2001:db8::/ffff:ffff::"]
    );
    assert_eq!(matches("from = \"0.0.0.0/0\""), ["eth_type=0x0800"]);
    assert_eq!(
        matches("from-mac = \"02:00:00:00:00:01\"\nin-port = 3"),
        ["in_port=3,eth_src=02:00:00:00:00:01"]
    );
    assert_eq!(
        matches("from = \"10.0.0.1\"\nprotocol = \"udp\"\nto-port = 53\nboth-ways = true"),
        [
            "eth_type=0x0800,ip_proto=17,ipv4_src=10.0.0.1,udp_dst=53",
            "eth_type=0x0800,ip_proto=17,ipv4_dst=10.0.0.1,udp_src=53"
        ]
    );
}

#[test]
fn packet_is_denied_by_matching_rules_only() {
    let rules = Rules::read(
        "[[deny]]\nfrom = \"10.0.0.0/24\"\nto = \"10.0.0.2\"\nprotocol = \"tcp\"\nto-port = 80\n\
         [[deny]]\nfrom = \"2001:db8::/32\"\nboth-ways = true\n\
         [[deny]]\nin-port = 9\nswitch = \"0x2\"",
    )
    .unwrap();
    let denied = |packet: &Packet| rules.deny(S1, PortNo(1), packet);
    let web = packet("10.0.0.1", "10.0.0.2", Protocol::Tcp, 80);
    assert!(denied(&web));
    for other in [
        packet("10.0.1.1", "10.0.0.2", Protocol::Tcp, 80),
        packet("10.0.0.1", "10.0.0.3", Protocol::Tcp, 80),
        packet("10.0.0.1", "10.0.0.2", Protocol::Udp, 80),
        packet("10.0.0.1", "10.0.0.2", Protocol::Tcp, 81),
        web.back(),
        Packet { to_port: None, ..web },
        Packet { from: None, ..web },
    ] {
        assert!(!denied(&other), "{other:?}");
    }
    let six = packet("2001:db8::1", "::1", Protocol::Icmp, 0);
    assert!(denied(&six) && denied(&six.back()));
    assert!(!denied(&packet("2001:db9::1", "::1", Protocol::Icmp, 0)));
    let other = packet("10.9.9.9", "10.9.9.8", Protocol::Udp, 1);
    assert!(rules.deny(Dpid(2), PortNo(9), &other));
    assert!(!rules.deny(S1, PortNo(9), &other) && !rules.deny(Dpid(2), PortNo(8), &other));
}

/// The flows drop the same packets that the firewall stops on the way to the other apps.
#[test]
fn flows_and_decisions_are_about_the_same_packets() {
    let rules = Rules::read(
        "[[deny]]\nfrom = \"10.0.0.0/31\"\nprotocol = \"udp\"\nfrom-port = [1, 2]\nto-port = 53\n\
         both-ways = true",
    )
    .unwrap();
    let hits = |packet: &Packet| {
        let field = |is: bool, address: Option<IpAddr>, match_: &Match| {
            match_.fields().all(|field| match (field, address) {
                (Field::Ipv4Src(net), Some(IpAddr::V4(it))) if is => holds(&net, it),
                (Field::Ipv4Dst(net), Some(IpAddr::V4(it))) if !is => holds(&net, it),
                (Field::UdpSrc(port), _) if is => packet.from_port == Some(port),
                (Field::UdpDst(port), _) if !is => packet.to_port == Some(port),
                (Field::IpProto(protocol), _) => packet.protocol == Some(protocol),
                _ => true,
            })
        };
        rules.entries.iter().any(|entry| {
            field(true, packet.from, &entry.match_) && field(false, packet.to, &entry.match_)
        })
    };
    let mut denied = 0;
    for from in ["10.0.0.0", "10.0.0.1", "10.0.0.2"] {
        for (to_port, from_port) in [(53, 1), (53, 3), (1, 53), (2, 53), (53, 53)] {
            for protocol in [Protocol::Udp, Protocol::Tcp] {
                let mut packet = packet(from, "10.0.0.3", protocol, to_port);
                packet.from_port = Some(from_port);
                for packet in [packet, packet.back()] {
                    let is = rules.deny(S1, PortNo(1), &packet);
                    assert_eq!(is, hits(&packet), "{packet:?}");
                    denied += u32::from(is);
                }
            }
        }
    }
    assert_eq!(denied, 4);
}

fn holds(net: &Masked<Ipv4Addr>, it: Ipv4Addr) -> bool {
    let mask = net.mask.map_or(u32::MAX, Ipv4Addr::to_bits);
    it.to_bits() & mask == net.value.to_bits()
}

#[test]
fn mistake_names_line_rule_and_remedy() {
    let first = "# rules\n[[deny]]\nfrom = \"10.0.0.1\"\n\n";
    let in_second = |rule: &str| error(&format!("{first}[[deny]]\n{rule}"));
    for (rule, line, expected) in [
        ("from = \"10.0.0.0/33\"", 6, "\"10.0.0.0/33\": expected an address"),
        ("from = \"10.0.0.1/8\"", 6, "which must be 0"),
        ("from = \"h1\"", 6, "expected an address"),
        ("to-mac = \"02:00\"", 6, "`02:00` is not"),
        ("switch = \"s1\"", 6, "`s1` is not a datapath id"),
        ("protocol = \"tpc\"", 6, "unknown variant `tpc`, expected one of `tcp`, `udp`"),
        ("protocol = \"tcp\"\nto-port = 65536", 7, "a port from 0 to 65535"),
        ("protocol = \"tcp\"\nto-port = []", 7, "a list of them that is not empty"),
        ("form = \"10.0.0.1\"", 6, "unknown field `form`, expected one of `from`, `to`"),
        ("to-port = 80", 5, "ports need protocol = \"tcp\", \"udp\" or \"sctp\""),
        ("protocol = \"icmp\"\nto-port = 80", 5, "ports need protocol"),
        ("from = \"10.0.0.1\"\nto = \"::1\"", 5, "two versions of IP"),
        ("", 5, "it would deny everything"),
        ("switch = \"1\"", 5, "it would deny everything"),
    ] {
        let error = in_second(rule);
        assert!(error.starts_with(&format!("line {line}: rule 2: ")), "{rule}: {error}");
        assert!(error.contains(expected), "{rule}: {error}");
    }
    assert!(error("deny = 1").starts_with("line 1: "), "{}", error("deny = 1"));
    assert!(error("[[allow]]").contains("unknown field `allow`, expected `deny`"));
    assert!(error("\n[[deny]").starts_with("line 2: "));
    assert_eq!(Rules::read("").unwrap().len(), 0);
}

#[test]
fn rules_that_are_shown_to_operators_can_be_read() {
    let shown = include_str!("../../../../../etc/firewall.toml");
    let rules: Vec<&str> =
        shown.lines().map(|line| line.strip_prefix('#').unwrap_or(line)).collect();
    let rules: Vec<&str> = rules.into_iter().filter(|line| !line.starts_with(' ')).collect();
    let rules = Rules::read(&rules.join("\n")).unwrap();
    assert_eq!((rules.len(), rules.entries.len()), (2, 4));
}

#[test]
fn more_flows_than_a_switch_should_have_are_refused() {
    let ports: Vec<String> = (0..64).map(|port| port.to_string()).collect();
    let ports = ports.join(", ");
    let rule = format!(
        "[[deny]]\nfrom = \"10.0.0.1\"\nprotocol = \"tcp\"\nfrom-port = [{ports}]\nto-port = [{ports}]\n"
    );
    assert_eq!(Rules::read(&rule).unwrap().entries.len(), MOST_FLOWS);
    let error = error(&format!("{rule}[[deny]]\nfrom = \"10.0.0.2\""));
    assert!(error.starts_with("line 6: rule 2: with it there are 4097 flows"), "{error}");
}
