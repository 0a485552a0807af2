//! Tests captures: link types, packet order, losses.

use super::ofp;
use super::pcap::{Link, Packets, Way};

const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];

/// Builds an echo request with this size and xid.
fn echo(size: u16, xid: u8) -> Vec<u8> {
    let [s0, s1] = size.to_be_bytes();
    let mut message = vec![4, 2, s0, s1, 0, 0, 0, xid];
    message.resize(size.into(), 0x55);
    message
}

fn barrier(xid: u8) -> Vec<u8> {
    vec![4, 20, 0, 8, 0, 0, 0, xid]
}

fn to_switch() -> Way {
    Way::new("10.0.0.1:6653", "10.0.0.2:40000", 0xffff_fff0)
}

fn to_controller() -> Way {
    Way::new("10.0.0.2:40000", "10.0.0.1:6653", 1000)
}

/// Decodes a capture; returns the lines without time, and whether the exit code was 0.
fn decode(packets: &Packets) -> (Vec<String>, bool) {
    let [pcap, pcapng] = [packets.pcap(), packets.pcapng()].map(|file| {
        let run = ofp(&["decode", "-"], &file);
        assert_eq!(run.code, Some(run.out.contains("error: ").into()), "{}", run.err);
        run
    });
    assert_eq!(pcap.out, pcapng.out, "the format of the file makes no difference");
    let without_time = |line: &str| {
        assert!(line.starts_with("2027-01-15T08:00:00."), "{line}");
        line.split_once(' ').unwrap().1.to_owned()
    };
    (pcap.out.lines().map(without_time).collect(), pcap.code == Some(0))
}

#[test]
fn both_directions_decode_on_every_link_type() {
    for link in [Link::Ethernet, Link::Tagged, Link::Cooked1, Link::Cooked2, Link::Raw] {
        let (there, back) = (to_switch(), to_controller());
        let mut packets = Packets::new(link);
        packets.syn(back).syn(there).bytes(there, 0, &HELLO).bytes(back, 0, &HELLO);
        let (lines, well) = decode(&packets);
        assert!(well);
        assert_eq!(
            lines,
            [
                "10.0.0.1:6653 > 10.0.0.2:40000 OFPT_HELLO (OF1.3) (xid=0x1): version 0x04",
                "10.0.0.2:40000 > 10.0.0.1:6653 OFPT_HELLO (OF1.3) (xid=0x1): version 0x04",
            ],
            "{link:?}"
        );
    }
}

#[test]
fn ipv6_and_other_ports_are_found_by_hello() {
    let way = Way::new("[fe80::1]:50000", "[fe80::2]:12345", 7);
    let mut packets = Packets::new(Link::Ethernet);
    packets.syn(way).bytes(way, 0, &HELLO).bytes(way, 8, &barrier(2));
    let other = Way::new("10.0.0.1:50001", "10.0.0.2:80", 7);
    packets.syn(other).bytes(other, 0, b"GET / HTTP/1.1\r\n\r\n");
    let (lines, well) = decode(&packets);
    assert!(well);
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[1].starts_with("[fe80::1]:50000 > [fe80::2]:12345 OFPT_BARRIER_REQUEST"));

    // On a port given by --port, in the middle of a connection.
    let way = Way::new("10.0.0.1:50001", "10.0.0.2:7777", 7);
    let mut packets = Packets::new(Link::Raw);
    packets.bytes(way, 100, &[echo(20, 1), barrier(2)].concat());
    let run = ofp(&["decode"], &packets.pcap());
    assert!(run.err.contains("no OpenFlow in 1 packets"), "{}", run.err);
    let run = ofp(&["decode", "--port", "7777"], &packets.pcap());
    assert_eq!((run.out.lines().count(), run.code), (2, Some(0)), "{}", run.out);
}

#[test]
fn disordered_segments_give_every_message_once() {
    let way = to_switch();
    let stream = [&HELLO[..], &echo(3000, 2), &barrier(3), &echo(10, 4)].concat();
    let part = |from: usize, to: usize| (u32::try_from(from).unwrap(), &stream[from..to]);
    let end = stream.len();
    let orders = [
        vec![part(0, 1000), part(1000, 2000), part(2000, end)],
        vec![part(2000, end), part(0, 1000), part(1000, 2000)],
        vec![part(0, 8), part(1000, 2000), part(2000, end), part(1000, 2000), part(8, 1000)],
        vec![part(0, 1500), part(1000, 2500), part(500, 2600), part(2400, end), part(0, end)],
        (0..end).step_by(7).map(|at| part(at, end.min(at + 7))).rev().collect(),
    ];
    for order in orders {
        let mut packets = Packets::new(Link::Ethernet);
        packets.syn(way);
        for (at, bytes) in &order {
            packets.bytes(way, *at, bytes);
        }
        let (lines, well) = decode(&packets);
        let kinds: Vec<_> = lines.iter().map(|line| line.split(' ').nth(3).unwrap()).collect();
        let expected =
            ["OFPT_HELLO", "OFPT_ECHO_REQUEST", "OFPT_BARRIER_REQUEST", "OFPT_ECHO_REQUEST"];
        assert_eq!(kinds, expected);
        assert!(well);
    }
}

#[test]
fn lost_segment_is_reported_with_its_size() {
    let way = to_switch();
    let lost = echo(1000, 2);
    let mut packets = Packets::new(Link::Ethernet);
    packets.syn(way).bytes(way, 0, &HELLO);
    // 400 bytes in the middle of a message are lost, which affects only that message.
    packets.bytes(way, 8, &lost[..300]).bytes(way, 708, &lost[700..]);
    packets.bytes(way, 1008, &barrier(3));
    let (lines, well) = decode(&packets);
    let what: Vec<_> = lines.iter().map(|line| line.splitn(4, ' ').nth(3).unwrap()).collect();
    assert_eq!(
        what,
        [
            "OFPT_HELLO (OF1.3) (xid=0x1): version 0x04",
            "error: only 300 of 1000 bytes of a message are present",
            "error: 400 bytes were sent here but not captured",
            "OFPT_BARRIER_REQUEST (OF1.3) (xid=0x3):",
        ]
    );
    assert!(!well);
}

#[test]
fn acknowledged_gap_is_given_up() {
    let (way, back) = (to_switch(), to_controller());
    let mut packets = Packets::new(Link::Ethernet);
    packets.syn(back).syn(way).bytes(way, 0, &HELLO);
    packets.bytes(way, 2008, &[barrier(3), barrier(4)].concat());
    for _ in 0..10 {
        packets.ack(way, 2024);
    }
    packets.bytes(back, 0, &HELLO);
    let (lines, _) = decode(&packets);
    let order: Vec<_> = lines.iter().map(|line| line.split(' ').nth(3).unwrap()).collect();
    let expected = ["OFPT_HELLO", "error:", "OFPT_BARRIER_REQUEST", "OFPT_BARRIER_REQUEST"];
    assert_eq!(order[..4], expected, "the gap is reported before later data: {lines:#?}");
    assert_eq!(order[4], "OFPT_HELLO");
}

#[test]
fn new_connection_on_the_same_ports_resets_state() {
    let first = to_switch();
    let second = Way { isn: 77, ..first };
    let mut packets = Packets::new(Link::Ethernet);
    packets.syn(first).bytes(first, 0, &HELLO).bytes(first, 8, &barrier(2));
    packets.syn(second).syn(second).bytes(second, 0, &HELLO).bytes(second, 8, &barrier(2));
    let (lines, well) = decode(&packets);
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(well);
}

#[test]
fn undecodable_message_is_a_line() {
    let way = to_switch();
    let mut packets = Packets::new(Link::Ethernet);
    let other = [5, 16, 0, 8, 0, 0, 0, 1];
    let cut = [4, 13, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0];
    packets.syn(way).bytes(way, 0, &[&HELLO[..], &other, &cut, &barrier(3)].concat());
    let (lines, well) = decode(&packets);
    let what: Vec<_> = lines.iter().map(|line| line.splitn(4, ' ').nth(3).unwrap()).collect();
    assert!(what[1].starts_with("error: port_mod.port_no at byte 8"), "{}", what[1]);
    assert!(what[2].starts_with("error: ") && what[2].contains("at byte 12"), "{}", what[2]);
    assert!(what[3].starts_with("OFPT_BARRIER_REQUEST"), "{}", what[3]);
    assert!(!well);

    let run = ofp(&["decode", "--json"], &packets.pcapng());
    let objects: Vec<serde_json::Value> =
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 4);
    assert_eq!(objects[2]["bytes"], "040d000c0000000100000000");
    assert_eq!(objects[2]["from"], "10.0.0.1:6653");
    assert!(objects[3]["error"].is_null() && objects[3]["message"].is_object());
}

#[test]
fn tls_is_reported_and_truncated_files_decode() {
    let way = to_switch();
    let mut packets = Packets::new(Link::Ethernet);
    packets.syn(way).bytes(way, 0, &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]);
    let (lines, _) = decode(&packets);
    assert!(lines[0].contains("error: the connection is encrypted (TLS)"), "{lines:?}");

    let mut packets = Packets::new(Link::Ethernet);
    packets.syn(way).bytes(way, 0, &HELLO).bytes(way, 8, &barrier(2));
    for file in [packets.pcap(), packets.pcapng()] {
        for cut in 24..file.len() {
            let run = ofp(&["decode", "-"], &file[..cut]);
            assert!(run.out.lines().count() <= 2 && run.code.is_some(), "{}", run.err);
        }
        let run = ofp(&["decode", "-"], &file[..file.len() - 1]);
        assert_eq!((run.out.lines().count(), run.code), (1, Some(1)), "{}", run.err);
        assert!(run.err.contains("the capture ends inside a packet"), "{}", run.err);
    }
}
