//! The messages of the packet path: `cargo bench -p rosemary-openflow`.

use criterion::{Criterion, criterion_main};
use rosemary_openflow::{
    Action, FlowMod, Header, MacAddr, Match, PacketIn, PacketOut, PortNo, Version, echo_reply,
};
use std::hint::black_box;

/// A packet-in of 128 bytes of packet, as a switch sends it.
fn packet_in(version: Version) -> Vec<u8> {
    let packet_in = PacketIn::new(PortNo(3), &[0xab; 128]);
    let mut out = vec![0; 256];
    let size = packet_in.encode(version, 0, &mut out).expect("it has room");
    out.truncate(size);
    out
}

/// What a learning switch installs.
fn flow_mod(actions: &[Action]) -> FlowMod<'_> {
    let match_ = Match::new()
        .in_port(black_box(PortNo(3)))
        .eth_src(black_box(MacAddr([2, 0, 0, 0, 0, 1])))
        .eth_dst(black_box(MacAddr([2, 0, 0, 0, 0, 2])));
    FlowMod::add(match_).priority(100).idle_timeout(60).apply(actions)
}

/// A flow of one TCP connection, every field exact.
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

fn hot(c: &mut Criterion) {
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

#[allow(missing_docs, reason = "the macro makes a public function")]
mod group {
    criterion::criterion_group!(benches, super::hot);
}
use group::benches;
criterion_main!(benches);
