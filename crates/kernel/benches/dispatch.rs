//! Measures the kernel's work for a packet-in between a switch's socket and the rings, and for its answer on
//! the way back: `cargo bench -p rosemary-kernel --features bench --bench dispatch`.
//!
//! Per iteration: 64 packet-ins of 128 bytes of packet are decoded and dispatched, the zones are done
//! with them, and what they answer is copied out and checked. It includes both ends of the rings
//! (`cargo bench -p rosemary-sys --bench ring` has these alone), and is processor time of the thread,
//! not time on the wall: the machines that run this are shared.

#[path = "../../openflow/benches/thread_time/mod.rs"]
mod thread_time;

use control::policy::Fail;
use control::policy::Stage::{self, Control, Guard, Observe};
use criterion::{Criterion, Throughput, criterion_main};
use openflow::{Action, FlowMod, MacAddr, Match, PacketIn, PortNo, Version, append};
use rosemary_kernel::stages::Stages;
use thread_time::ThreadTime;

/// Packet-ins of an iteration: a batch.
const BATCH: usize = 64;

fn packet_in(version: Version) -> Vec<u8> {
    let mut message = Vec::new();
    append(&mut message, |out| PacketIn::new(PortNo(3), &[0xab; 128]).encode(version, 0, out))
        .expect("both versions can say this");
    message
}

fn flow_mod(version: Version) -> Vec<u8> {
    let pair = Match::new()
        .in_port(PortNo(3))
        .eth_src(MacAddr([2, 0, 0, 0, 0, 1]))
        .eth_dst(MacAddr([2, 0, 0, 0, 0, 2]));
    let forward = [Action::output(PortNo(4))];
    let flow_mod = FlowMod::add(pair).priority(1).idle_timeout(60).apply(&forward);
    let mut message = Vec::new();
    append(&mut message, |out| flow_mod.encode(version, 0, out))
        .expect("both versions can say this");
    message
}

fn dispatch(criterion: &mut Criterion<ThreadTime>) {
    let stages: [(&str, &[Stage]); 4] = [
        ("one control app", &[Control]),
        ("two control apps", &[Control, Control]),
        ("a control app and three observers", &[Control, Observe, Observe, Observe]),
        ("a guard before a control app", &[Guard(Fail::Closed), Control]),
    ];
    for version in Version::ALL.iter().copied() {
        let mut group = criterion.benchmark_group(format!("dispatch/OpenFlow {version}"));
        group.throughput(Throughput::Elements(BATCH as u64));
        let mut messages = packet_in(version).repeat(BATCH);
        for (name, stages) in stages {
            let mut path = Stages::new(version, stages).expect("memory");
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    path.packet_ins(&mut messages);
                    // A turn for each app that must wait for the one before.
                    for _ in stages {
                        assert_eq!(path.turn(&[]), 0);
                    }
                });
            });
            assert_eq!(path.dropped(), 0);
        }
        let answer = flow_mod(version);
        let mut path = Stages::new(version, &[Control]).expect("memory");
        group.bench_function("one control app, answered by checked flow-mods", |bencher| {
            bencher.iter(|| {
                path.packet_ins(&mut messages);
                assert_eq!(path.turn(&answer), BATCH);
            });
        });
        group.finish();
    }
}

#[allow(missing_docs, reason = "the macro makes a public function")]
mod group {
    criterion::criterion_group! {
        name = benches;
        config = criterion::Criterion::default().with_measurement(super::ThreadTime);
        targets = super::dispatch
    }
}
use group::benches;
criterion_main!(benches);
