//! Packets that are built are read again; hostile ones do not panic.

use etherparse::{TcpHeader, VlanId};
use proptest::prelude::*;

use super::*;

const ALICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const BOB: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// A frame of each protocol.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut add = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = Vec::new();
        write(&mut frame);
        frames.push(frame);
    };
    let ethernet = || PacketBuilder::ethernet2(ALICE.0, BOB.0);
    let v4 = || ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let v6 = || ethernet().ipv6([1; 16], [2; 16], 64);
    add(&|it| v4().udp(1000, 53).write(it, b"query").unwrap());
    add(&|it| v6().tcp_header(TcpHeader::new(1000, 80, 7, 512)).write(it, b"get").unwrap());
    add(&|it| v4().tcp(1000, 80, 7, 512).syn().write(it, &[]).unwrap());
    add(&|it| v4().icmpv4_echo_request(1, 2).write(it, b"ping").unwrap());
    add(&|it| v6().icmpv6_echo_request(1, 2).write(it, b"ping").unwrap());
    add(&|it| {
        let tagged = ethernet().single_vlan(VlanId::try_new(7).unwrap());
        tagged.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(5, 6).write(it, b"tagged").unwrap();
    });
    add(&|it| v4().udp(68, 67).write(it, &discover()).unwrap());
    frames.push(request().frame(MacAddr([0xff; 6])));
    let id = |id| lldp::Id { subtype: lldp::LOCAL, id };
    let other = lldp::Tlv { kind: lldp::ORGANISATION, value: &[0, 1, 2, 3] };
    frames.push(lldp::frame(ALICE, id(b"switch"), id(b"port"), 120, &[other]).unwrap());
    frames
}

fn request() -> Arp {
    Arp {
        operation: Arp::REQUEST,
        sender_mac: ALICE,
        sender_ip: [10, 0, 0, 1].into(),
        target_mac: MacAddr([0; 6]),
        target_ip: [10, 0, 0, 2].into(),
    }
}

fn discover() -> Vec<u8> {
    let none = Ipv4Addr::UNSPECIFIED;
    let message = Dhcp {
        op: 1,
        xid: 0x0102_0304,
        flags: 0x8000,
        client_ip: none,
        your_ip: none,
        server_ip: none,
        relay_ip: none,
        client_mac: ALICE,
        options: &[],
    };
    let wanted = [10, 0, 0, 9];
    let options = [
        (dhcp::option::MESSAGE_TYPE, &[dhcp::DISCOVER][..]),
        (dhcp::option::REQUESTED_IP, &wanted),
    ];
    message.encode(&options).unwrap()
}

#[test]
fn every_protocol_is_read_as_it_was_built() {
    let frames = frames();
    let packets: Vec<_> = frames.iter().map(|frame| Packet::parse(frame).unwrap()).collect();
    let [udp, tcp6, syn, ping, ping6, tagged, dhcp, arp, lldp] = &packets[..] else {
        panic!("another number of frames")
    };
    assert_eq!((udp.eth_src, udp.eth_dst, udp.vlan), (ALICE, BOB, None));
    assert_eq!((udp.src_ip(), udp.ports()), (Some([10, 0, 0, 1].into()), Some((1000, 53))));
    assert_eq!(udp.udp().unwrap().payload(), b"query");
    assert_eq!((tcp6.dst_ip(), tcp6.protocol()), (Some([2; 16].into()), Some(6)));
    assert_eq!(tcp6.tcp().unwrap().payload(), b"get");
    assert!(syn.tcp().unwrap().syn() && !syn.tcp().unwrap().ack());
    assert_eq!(
        (ping.icmpv4().unwrap().type_u8(), ping.icmpv4().unwrap().payload()),
        (8, &b"ping"[..])
    );
    assert_eq!(ping6.icmpv6().unwrap().type_u8(), 128);
    assert_eq!((tagged.vlan, tagged.ethertype, tagged.ports()), (Some(7), 0x0800, Some((5, 6))));
    let message = dhcp.dhcp().unwrap();
    assert_eq!((message.xid, message.client_mac), (0x0102_0304, ALICE));
    assert_eq!(message.message_type(), Some(dhcp::DISCOVER));
    assert_eq!(message.option(dhcp::option::REQUESTED_IP), Some(&[10, 0, 0, 9][..]));
    assert_eq!(message.option(dhcp::option::ROUTER), None);
    assert_eq!(arp.arp(), Some(request()));
    let unit = lldp.lldp().unwrap();
    assert_eq!((unit.chassis.id, unit.port.id, unit.seconds), (&b"switch"[..], &b"port"[..], 120));
    assert_eq!(unit.others().count(), 1);
    for other in &packets[..7] {
        assert!(other.arp().is_none() && other.lldp().is_none());
    }
}

#[test]
fn arp_reply_answers_the_sender() {
    let frame = request().reply(BOB);
    let packet = Packet::parse(&frame).unwrap();
    let reply = packet.arp().unwrap();
    assert_eq!((packet.eth_dst, packet.eth_src, reply.operation), (ALICE, BOB, Arp::REPLY));
    assert_eq!((reply.sender_mac, reply.sender_ip), (BOB, [10, 0, 0, 2].into()));
    assert_eq!((reply.target_mac, reply.target_ip), (ALICE, [10, 0, 0, 1].into()));
}

#[test]
fn fragment_has_no_transport_header() {
    let mut frame = frames().swap_remove(0);
    for (flags_and_offset, ports) in [([0x20, 0], true), ([0, 8], false)] {
        frame[20..22].copy_from_slice(&flags_and_offset);
        let packet = Packet::parse(&frame).unwrap();
        assert_eq!((packet.ports().is_some(), packet.udp().is_some()), (ports, false));
    }
}

#[test]
fn values_that_do_not_fit_are_not_built() {
    let id = |id| lldp::Id { subtype: lldp::LOCAL, id };
    let long = [0; 600];
    assert_eq!(lldp::frame(ALICE, id(&[]), id(b"p"), 1, &[]), None);
    assert_eq!(lldp::frame(ALICE, id(b"c"), id(&long), 1, &[]), None);
    for other in [(200, &[][..]), (5, &long)] {
        let other = lldp::Tlv { kind: other.0, value: other.1 };
        assert_eq!(lldp::frame(ALICE, id(b"c"), id(b"p"), 1, &[other]), None);
    }
    let message = discover();
    let message = Dhcp::decode(&message).unwrap();
    assert!(message.encode(&[(12, &long)]).is_none() && message.encode(&[(255, &[])]).is_none());
}

/// Reads all that there is in a frame.
fn read_all(frame: &[u8]) -> usize {
    let Some(packet) = Packet::parse(frame) else { return 0 };
    let udp = packet.udp().map_or(0, |it| it.payload().len());
    let tcp = packet.tcp().map_or(0, |it| it.payload().len() + it.options_iterator().count());
    let icmp = packet.icmpv4().map_or(0, |it| it.payload().len() + it.header_len());
    let icmp6 = packet.icmpv6().map_or(0, |it| it.payload().len() + it.header_len());
    let lldp = packet.lldp().map_or(0, |it| it.others().map(|tlv| tlv.value.len()).sum());
    let dhcp = packet.dhcp().map_or(0, |it| it.options().map(|(_, value)| value.len()).sum());
    let arp = packet.arp().map_or(0, |it| it.reply(BOB).len());
    let ip = packet.ip().map_or(0, |it| it.unpadded_payload().len());
    udp + tcp + icmp + icmp6 + lldp + dhcp + arp + ip
}

#[test]
fn frame_cut_anywhere_is_read() {
    for frame in frames() {
        for end in 0..frame.len() {
            read_all(&frame[..end]);
        }
        assert_ne!(read_all(&frame), 0);
    }
}

proptest! {
    #[test]
    fn hostile_frames_do_not_panic(
        which in 0_usize..9,
        changes in prop::collection::vec((0_usize..300, any::<u8>()), 0..12),
        cut in 0_usize..400,
    ) {
        let mut frame = frames().swap_remove(which);
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(cut);
        read_all(&frame);
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0_usize..6) {
        let types = [[8, 0], [8, 6], [0x86, 0xdd], [0x88, 0xcc], [0x81, 0], [0, 60]];
        read_all(&bytes);
        read_all(&[&[2; 12], &types[kind][..], &bytes].concat());
        Lldp::decode(&bytes).map(|it| it.others().count());
        let head = [&[1, 1, 6, 0][..], &[0; 232], &[99, 130, 83, 99], &bytes].concat();
        Dhcp::decode(&head).map(|it| it.options().count()).unwrap();
    }
}
