//! Measures the time of a packet-in inside the learning switch's object: the SDK's decoding, the app's
//! tables, the encoding of the answers.
//!
//! ```text
//! cargo build --release -p rosemary-apps --examples && cargo bench -p rosemary-apps
//! ```
//!
//! The bench loads and calls the object as a kernel does, with full batches and a buffer for messages.
//! The app knows every host beforehand, so that it answers each packet-in with a flow-mod,
//! and with a packet-out if the switch has not kept the packet. Source and destination are random. The
//! switches take turns with every packet, which is the worst case for a table of switches.
//!
//! `making the batches` measures the bench's own part of each figure. To compare builds in one run, name
//! their objects in `OBJECTS`, separated by colons.

#[path = "../../openflow/benches/thread_time/mod.rs"]
mod thread_time;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{Criterion, criterion_main};
use openflow::{PacketIn, PortNo, Version};
use rosemary_sdk::abi::host::{Host, HostedApp, WholeRecord};
use rosemary_sdk::abi::{Level, MAX_BATCH, RECORD_HEAD, Record, RecordKind};
use sys::object::Object;
use thread_time::{ThreadTime, now};

/// Bytes of a frame, and ports of a switch.
const FRAME: u16 = 64;
const PORTS: u64 = 16;

/// Bytes that the app can send in a batch, as in a kernel.
const ROOM: usize = 256 * 1024;

/// Takes the app's messages.
struct Messages {
    bytes: Vec<u8>,
    used: usize,
    /// The datapath, its epoch, the start in `bytes`, and the number of messages.
    sent: Vec<(u64, u32, usize, u32)>,
}

impl Host for Messages {
    fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(self.used..self.used + size)
    }
    fn commit(&mut self, dpid: u64, epoch: u32, size: usize, series: u32) -> bool {
        self.sent.push((dpid, epoch, self.used, series.max(1)));
        self.used += size;
        self.used <= self.bytes.len()
    }
    fn room(&self) -> usize {
        self.bytes.len() - self.used
    }
    fn band(&self) -> (u16, u16) {
        (1000, 1999)
    }
    fn groups(&self) -> (u32, u32) {
        (1 << 16, (1 << 16) + 0xffff)
    }
    fn meters(&self) -> (u32, u32) {
        (1 << 8, (1 << 8) + 0xff)
    }
    fn config(&self) -> &[u8] {
        &[]
    }
    fn stop(&mut self, _: usize) {}
    fn log(&mut self, level: Level, text: &str) {
        panic!("{level:?}: {text}");
    }
}

/// A random number for each number (the output function of "SplitMix64": Steele, Lea, Flood, OOPSLA
/// 2014).
fn random(number: u64) -> u64 {
    let a = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ a >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ b >> 31
}

/// A batch of packet-ins that it rewrites for each call.
struct Packets {
    /// The records, aligned as in a ring from `start` on.
    bytes: Vec<u8>,
    start: usize,
    size: usize,
    /// Where the frame is in a record.
    frame: usize,
    switches: u64,
    macs: u64,
    /// How many were made.
    made: u64,
}

impl Packets {
    fn new(version: Version, is_buffered: bool, switches: u64, macs: u64) -> Self {
        let mut message = vec![0; 256];
        let packet_in = PacketIn::new(PortNo(1), &[0xab; FRAME as usize]);
        let size = packet_in.encode(version, 0, &mut message).expect("it has room");
        message.truncate(size);
        let size = u16::try_from(size).expect("a short message");
        let head = Record {
            size: u32::from(size) + u32::try_from(RECORD_HEAD).expect("a short head"),
            buffer_id: if is_buffered { 77 } else { u32::MAX },
            data_offset: size - FRAME,
            data_size: FRAME,
            body_size: size,
            total_len: FRAME,
            ..Record::new(RecordKind::PacketIn, version.wire(), 1, 1)
        };
        let mut record = head.words().map(u64::to_le_bytes).concat();
        let frame = record.len() + usize::from(head.data_offset);
        record.extend(&message);
        record.resize(record.len().next_multiple_of(8), 0);
        let mut bytes = vec![0; MAX_BATCH * record.len() + 8];
        let start = bytes.as_ptr().align_offset(8);
        bytes.truncate(start);
        bytes.extend(record.repeat(MAX_BATCH));
        Self { bytes, start, size: record.len(), frame, switches, macs, made: 0 }
    }

    /// Rewrites each record; `between` gives the switch, the source and the destination of a packet.
    fn make(&mut self, between: impl Fn(u64) -> (u64, u64, u64)) {
        for record in self.bytes[self.start..].chunks_exact_mut(self.size) {
            let (switch, from, to) = between(self.made);
            self.made += 1;
            let address = |host: u64| {
                let mut address = [2; 6];
                address[1..].copy_from_slice(&random(switch << 32 | host).to_le_bytes()[..5]);
                address
            };
            let in_port = u32::try_from(from % PORTS + 1).expect("a small number");
            record[8..16].copy_from_slice(&(switch + 1).to_le_bytes());
            record[20..24].copy_from_slice(&in_port.to_le_bytes());
            record[self.frame..self.frame + 6].copy_from_slice(&address(to));
            record[self.frame + 6..self.frame + 12].copy_from_slice(&address(from));
        }
    }

    /// Each host of each switch speaks once.
    fn make_first(&mut self) {
        let (switches, macs) = (self.switches, self.macs);
        self.make(|number| (number % switches, number / switches % macs, 0));
    }

    /// Hosts at random, never two behind one port; the switches in turns.
    fn make_random(&mut self) {
        let (switches, macs) = (self.switches, self.macs);
        self.make(|number| {
            let random = random(number);
            let (from, to) = (random % macs, (random >> 32) % macs);
            let to = if to % PORTS == from % PORTS { (to + 1) % macs } else { to };
            (number % switches, from, to)
        });
    }

    fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[self.start..].chunks_exact(self.size)
    }
}

/// Returns the objects to measure: those in `OBJECTS`, or the one that Cargo has built.
fn objects() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("OBJECTS") {
        return std::env::split_paths(&named).collect();
    }
    let here = std::env::current_exe().expect("a program has a path");
    let built = here.parent().and_then(Path::parent).expect("it is in target/release/deps");
    vec![built.join("examples/liblearning_switch.so")]
}

/// Loads an app and makes every host known to it.
fn learned(object: &Path, packets: &mut Packets) -> HostedApp<Messages> {
    let object = File::open(object).expect("build it first, see above");
    let object = Object::load(object.into()).expect("an object for this machine");
    let host = Messages { bytes: vec![0; ROOM], used: 0, sent: Vec::new() };
    let mut app = HostedApp::create(&object, host).expect("it is an app");
    while packets.made < packets.switches * packets.macs {
        packets.make_first();
        call(&mut app, packets);
    }
    app
}

/// Calls the app with a batch; returns the number of its messages.
fn call(app: &mut HostedApp<Messages>, packets: &Packets) -> u32 {
    let answer = app.on_batch(1, packets.records().map(WholeRecord::of)).expect("it goes on");
    assert_eq!(answer.handled, MAX_BATCH);
    let host = app.host();
    host.used = 0;
    host.sent.drain(..).map(|(.., messages)| messages).sum()
}

/// Returns the time of `count` packet-ins, measured in whole batches.
#[expect(clippy::cast_precision_loss, reason = "a measurement has not as many digits")]
fn time(count: u64, mut batch: impl FnMut()) -> Duration {
    let batches = count.div_ceil(MAX_BATCH as u64);
    let start = now();
    for _ in 0..batches {
        batch();
    }
    now().saturating_sub(start).mul_f64(count as f64 / (batches * MAX_BATCH as u64) as f64)
}

fn packet_ins(c: &mut Criterion<ThreadTime>) {
    c.bench_function("making the batches", |bencher| {
        let mut packets = Packets::new(Version::V1_0, true, 16, 1_000);
        bencher.iter_custom(|count| time(count, || packets.make_random()));
    });
    for version in [Version::V1_0, Version::V1_3] {
        for (is_buffered, kept) in [(true, "kept"), (false, "whole")] {
            for (switches, macs) in [(1, 1_000), (16, 1_000), (1, 100_000), (16, 100_000)] {
                let case = format!("{version}, {kept}, {switches} switches, {macs} MACs");
                let mut group = c.benchmark_group(case);
                for object in objects() {
                    group.bench_function(object.display().to_string(), |bencher| {
                        let mut packets = Packets::new(version, is_buffered, switches, macs);
                        let mut app = learned(&object, &mut packets);
                        let batch = u32::try_from(MAX_BATCH).expect("a small number");
                        let expected = if is_buffered { batch } else { 2 * batch };
                        bencher.iter_custom(|count| {
                            time(count, || {
                                packets.make_random();
                                assert_eq!(call(&mut app, &packets), expected);
                            })
                        });
                    });
                }
                group.finish();
            }
        }
    }
}

#[allow(missing_docs, reason = "the macro makes a public function")]
mod group {
    criterion::criterion_group! {
        name = benches;
        config = criterion::Criterion::default().with_measurement(super::ThreadTime);
        targets = super::packet_ins
    }
}
use group::benches;
criterion_main!(benches);
