//! Benchmarks the messages of the packet path and their worst cases: `cargo bench -p
//! rosemary-openflow`.

mod thread_time;

use criterion::{Criterion, criterion_main};
use rosemary_openflow::{
    Action, FlowMod, FlowModView, Header, MacAddr, Match, MultipartReply, PacketIn, PacketOut,
    PortNo, Version, echo_reply,
};
use std::hint::black_box;
use thread_time::ThreadTime;

/// Builds a packet-in with 128 bytes of packet.
fn packet_in(version: Version) -> Vec<u8> {
    let packet_in = PacketIn::new(PortNo(3), &[0xab; 128]);
    let mut out = vec![0; 256];
    let size = packet_in.encode(version, 0, &mut out).expect("it has room");
    out.truncate(size);
    out
}

/// Builds the flow-mod of a learning switch.
fn flow_mod(actions: &[Action]) -> FlowMod<'_> {
    let match_ = Match::new()
        .in_port(black_box(PortNo(3)))
        .eth_src(black_box(MacAddr([2, 0, 0, 0, 0, 1])))
        .eth_dst(black_box(MacAddr([2, 0, 0, 0, 0, 2])));
    FlowMod::add(match_).priority(100).idle_timeout(60).apply(actions)
}

/// Builds the flow of one TCP connection, with every field exact.
fn five_tuple(actions: &[Action]) -> FlowMod<'_> {
    let match_ = Match::new()
        .in_port(black_box(PortNo(3)))
        .eth_type(0x0800)
        .ip_proto(6)
        .ipv4_src(black_box([10, 0, 0, 1].into()))
        .ipv4_dst(black_box([10, 0, 0, 2].into()))
        .tcp_src(black_box(1234))
        .tcp_dst(80);
    FlowMod::add(match_).priority(100).idle_timeout(60).apply(actions)
}

fn hot(c: &mut Criterion<ThreadTime>) {
    let actions = [Action::output(PortNo(7))];
    for version in [Version::V1_0, Version::V1_3] {
        let mut group = c.benchmark_group(format!("OpenFlow {version}"));
        let bytes = packet_in(version);
        group.bench_function("header decode", |b| b.iter(|| Header::decode(black_box(&bytes))));
        group.bench_function("packet-in decode", |b| {
            b.iter(|| PacketIn::decode(black_box(&bytes)));
        });
        let mut out = [0; 512];
        group.bench_function("flow-mod of 3 fields: build", |b| {
            b.iter(|| black_box(flow_mod(&actions)));
        });
        let built = flow_mod(&actions);
        group.bench_function("flow-mod of 3 fields: encode", |b| {
            b.iter(|| black_box(&built).encode(version, 7, black_box(&mut out)));
        });
        group.bench_function("flow-mod of 3 fields: build and encode", |b| {
            b.iter(|| flow_mod(&actions).encode(version, 7, black_box(&mut out)));
        });
        group.bench_function("flow-mod of 7 fields: build and encode", |b| {
            b.iter(|| five_tuple(&actions).encode(version, 7, black_box(&mut out)));
        });
        let size = built.encode(version, 7, &mut out).expect("it has room");
        let encoded = out[..size].to_vec();
        group.bench_function("flow-mod of 3 fields: decode", |b| {
            b.iter(|| FlowMod::decode(black_box(&encoded)));
        });
        group.bench_function("flow-mod of 3 fields: view", |b| {
            b.iter(|| FlowModView::decode(black_box(&encoded)));
        });
        let packet_out = PacketOut::new(PortNo(3), &actions, &[0xab; 128]);
        group.bench_function("packet-out encode", |b| {
            b.iter(|| black_box(&packet_out).encode(version, 7, black_box(&mut out)));
        });
        let size = packet_out.encode(version, 7, &mut out).expect("it has room");
        let encoded = out[..size].to_vec();
        group.bench_function("packet-out decode", |b| {
            b.iter(|| PacketOut::decode(black_box(&encoded)));
        });
        let request = [version.wire(), 2, 0, 8, 0, 0, 0, 7];
        group.bench_function("echo reply", |b| {
            b.iter(|| echo_reply(black_box(&request), black_box(&mut out)));
        });
        group.finish();
    }
}

/// Measures the most expensive messages: 64 KB of the smallest elements.
fn worst(c: &mut Criterion<ThreadTime>) {
    let mut group = c.benchmark_group("worst");
    let message = |kind: u8, body: Vec<u8>| {
        let size = u16::try_from(body.len() + 8).expect("it fits").to_be_bytes();
        let mut bytes = vec![4, kind, size[0], size[1], 0, 0, 0, 7];
        bytes.extend(body);
        bytes
    };
    // A flow-mod whose match has 16,000 fields of 4 bytes, in descending order.
    let classes = (0..125_u8).rev();
    let oxms =
        classes.flat_map(|class| (0..128_u8).rev().map(move |field| [class, 1, field << 1, 0]));
    let oxms: Vec<u8> = oxms.flatten().collect();
    let length = u16::try_from(oxms.len() + 4).expect("it fits").to_be_bytes();
    let mut body = vec![0; 40];
    body.extend([0, 1, length[0], length[1]]);
    body.extend(&oxms);
    body.resize(body.len().next_multiple_of(8), 0);
    let fields = message(14, body);
    assert!(FlowMod::decode(&fields).is_ok());
    group.bench_function("flow-mod of 16,000 match fields: decode", |b| {
        b.iter(|| FlowMod::decode(black_box(&fields)));
    });
    // One flow entry in a reply with 8,000 actions.
    let actions = [0, 24, 0, 8, 0, 0, 0, 0].repeat(8_000);
    let mut entry = vec![0; 48];
    entry.extend([0, 1, 0, 4, 0, 0, 0, 0, 0, 4]);
    entry.extend(u16::try_from(actions.len() + 8).expect("it fits").to_be_bytes());
    entry.extend([0; 4]);
    entry.extend(&actions);
    let length = u16::try_from(entry.len()).expect("it fits").to_be_bytes();
    entry.splice(..2, length);
    let mut body = vec![0, 1, 0, 0, 0, 0, 0, 0];
    body.extend(entry);
    let reply = message(19, body);
    assert!(MultipartReply::decode(&reply).is_ok());
    group.bench_function("flow statistics of 8,000 actions: decode", |b| {
        b.iter(|| MultipartReply::decode(black_box(&reply)));
    });
    group.finish();
}

#[allow(missing_docs, reason = "the macro makes a public function")]
mod group {
    criterion::criterion_group! {
        name = benches;
        config = criterion::Criterion::default().with_measurement(super::ThreadTime);
        targets = super::hot, super::worst
    }
}
use group::benches;
criterion_main!(benches);
