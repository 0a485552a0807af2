//! Compares `rosemary_packet.h` with the packets of this crate, over packets of each protocol, cut off, changed and random. The
//! program in C ends if it reads beyond a packet.

#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "packets of a test fit")]

mod in_c;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rosemary_sdk::MacAddr;
use rosemary_sdk::packet::etherparse::{TcpHeader, VlanId};
use rosemary_sdk::packet::{Arp, Packet, PacketBuilder, dhcp, lldp};

use in_c::{PROGRAM, compile, made};

const ALICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const BOB: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Compiles the program; returns what it prints about `input`.
fn run(arguments: &[&str], input: &[u8]) -> String {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = made(&format!("c_packet{}", arguments.len()));
    compile(&crate_dir.join("tests/c_packet.c"), &program, &PROGRAM);
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was just compiled");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("it does not panic").expect("it reads everything");
    assert!(output.status.success(), "{}", output.status);
    String::from_utf8(output.stdout).expect("it prints ASCII")
}

/// The packets that the program builds, too, in its order.
fn built() -> Vec<Vec<u8>> {
    let ethernet = || PacketBuilder::ethernet2(ALICE.0, BOB.0);
    let v4 = || ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let v6 = || ethernet().ipv6([1; 16], [2; 16], 64);
    let mut frames = vec![Vec::new(); 4];
    v4().udp(1000, 53).write(&mut frames[0], b"query").unwrap();
    let syn = TcpHeader { syn: true, ..TcpHeader::new(1000, 80, 7, 512) };
    v6().tcp_header(syn).write(&mut frames[1], b"get").unwrap();
    let tagged = ethernet().single_vlan(VlanId::try_new(7).unwrap());
    let tagged = tagged.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    tagged.icmpv4_echo_request(1, 2).write(&mut frames[2], b"ping").unwrap();
    v6().icmpv6_echo_request(1, 2).write(&mut frames[3], b"ping").unwrap();
    let reply = Arp {
        operation: Arp::REPLY,
        sender_mac: ALICE,
        sender_ip: [10, 0, 0, 1].into(),
        target_mac: BOB,
        target_ip: [10, 0, 0, 2].into(),
    };
    frames.push(reply.frame(BOB));
    let id = |id| lldp::Id { subtype: lldp::LOCAL, id };
    let mut unit = lldp::frame(ALICE, id(b"c"), id(b"p"), 10, &[]).unwrap();
    unit[..6].copy_from_slice(&BOB.0);
    frames.push(unit);
    let none = [0; 4].into();
    let discover = dhcp::Dhcp {
        op: 1,
        xid: 9,
        flags: 0,
        client_ip: none,
        your_ip: none,
        server_ip: none,
        relay_ip: none,
        client_mac: ALICE,
        options: &[],
    };
    let discover = discover.encode(&[(dhcp::option::MESSAGE_TYPE, &[dhcp::DISCOVER])]).unwrap();
    let mut frame = Vec::new();
    v4().udp(68, 67).write(&mut frame, &discover).unwrap();
    frames.push(frame);
    frames
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The line that the program in C should print about a frame.
fn described(frame: &[u8]) -> String {
    let Some(packet) = Packet::parse(frame) else { return "none".into() };
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => hex(&ip.octets()),
        IpAddr::V6(ip) => hex(&ip.octets()),
    };
    let version = packet.src_ip().map_or(0, |ip| if ip.is_ipv4() { 4 } else { 6 });
    let mut text = format!(
        "vlan={} type={} payload={} ip={version}",
        packet.vlan.unwrap_or(0xffff),
        packet.ethertype,
        packet.payload.len()
    );
    let mut add = |what: String| text.push_str(&what);
    if let (Some(src), Some(dst)) = (packet.src_ip(), packet.dst_ip()) {
        add(format!(" src={} dst={}", octets(src), octets(dst)));
    }
    if let Some(protocol) = packet.protocol() {
        add(format!(" proto={protocol}"));
    }
    if let Some((src, dst)) = packet.ports() {
        add(format!(" ports={src},{dst}"));
    }
    if packet.arp().is_some() {
        add(format!(" arp={}", hex(&packet.payload[..28])));
    }
    text
}

#[test]
fn packets_in_c_and_rust_are_the_same() {
    let frames = built();
    let expected: Vec<String> = frames.iter().map(|frame| hex(frame)).collect();
    let printed = run(&["build"], &[]);
    let printed: Vec<&str> = printed.lines().collect();
    assert_eq!(printed[..frames.len()], expected);
    assert_eq!(printed[frames.len()..], [""], "the last one has no room");
}

#[test]
fn hostile_packets_are_read_alike_in_c_and_rust() {
    let seeds = built();
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut number = |below: usize| usize::try_from(random.next_u64() >> 1).unwrap() % below;
    let mut frames = seeds.clone();
    for seed in &seeds {
        frames.extend((0..seed.len()).map(|end| seed[..end].to_vec()));
    }
    let types: [&[u8]; 8] = [
        &[8, 0, 0x45],
        &[8, 0],
        &[8, 6],
        &[0x86, 0xdd, 0x60],
        &[0x88, 0xcc],
        &[0x81, 0],
        &[0x91, 0],
        &[0, 60, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
    ];
    for _ in 0..4000 {
        let mut frame = if number(3) == 0 {
            let bytes: Vec<u8> =
                (0..number(120)).map(|_| u8::try_from(number(256)).unwrap()).collect();
            [&[2; 12], types[number(types.len())], &bytes].concat()
        } else {
            seeds[number(seeds.len())].clone()
        };
        for _ in 0..number(6) {
            let (at, value) = (number(frame.len()), [0, 1, 44, 60, 255, 17][number(6)]);
            frame[at] = value;
        }
        frame.truncate(number(2 * frame.len()));
        frames.push(frame);
    }
    let mut input = Vec::new();
    for frame in &frames {
        input.extend(u16::try_from(frame.len()).unwrap().to_be_bytes());
        input.extend(frame);
    }
    let printed = run(&[], &input);
    assert_eq!(printed.lines().count(), frames.len());
    for (line, frame) in printed.lines().zip(&frames) {
        // These three are compared for whole packets only: the crate reads UDP and ICMP by their lengths.
        let common: Vec<&str> = line
            .split(' ')
            .filter(|it| !["icmp=", "lldp=", "dhcp="].iter().any(|name| it.starts_with(name)))
            .collect();
        assert_eq!(common.join(" "), described(frame), "{}", hex(frame));
    }
    let lines: Vec<&str> = printed.lines().take(seeds.len()).collect();
    assert!(lines[2].ends_with("icmp=8,0") && lines[3].ends_with("icmp=128,0"), "{lines:?}");
    assert!(lines[5].ends_with("lldp=0770") && lines[6].ends_with("dhcp=01"), "{lines:?}");
}
