//! Compares `rosemary_topology.h` with the records of this crate, over random tables.

#![allow(clippy::unwrap_used, reason = "a test")]

mod in_c;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rosemary_sdk::services::topology::{Record, Slot};

use in_c::{PROGRAM, compile, made};

/// Compiles the program; returns what it prints about the table.
fn run(table: &[Slot]) -> String {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = made("c_topology");
    compile(&crate_dir.join("tests/c_topology.c"), &program, &PROGRAM);
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was just compiled");
    let mut stdin = child.stdin.take().unwrap();
    let input: Vec<u8> = table.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Returns what the program has to print.
fn expected(table: &[Slot]) -> String {
    let hex =
        |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let (mut text, mut count) = (String::new(), 0);
    for slot in table {
        let Some(record) = Record::decode(slot) else { continue };
        count += 1;
        let none = "00".repeat(22);
        let line = match record {
            Record::Switch(it) => format!(
                "1 {} {:x} 0 {:x} {:x} 0 {none} 0 0 0 0 0 0",
                u8::from(it.drained),
                it.dpid.0,
                it.epoch,
                it.ports
            ),
            Record::Port(it) => format!(
                "2 {} {:x} {:x} 0 0 {:x} {}{} 0 0 0 0 0 0",
                u8::from(it.live)
                    | u8::from(it.edge) << 1
                    | u8::from(it.link) << 2
                    | u8::from(it.shared) << 3,
                it.at.dpid.0,
                it.at.port.0,
                it.speed_kbps,
                hex(&it.hw_addr.0),
                hex(&it.name)
            ),
            Record::Link(it) => format!(
                "3 {} {:x} {:x} 0 0 0 {none} {:x} {:x} {:x} {:x} 0 0",
                u8::from(it.suspicious),
                it.from.dpid.0,
                it.from.port.0,
                it.to.dpid.0,
                it.to.port.0,
                it.metric,
                it.latency_ns
            ),
            Record::LinkDown(it) => format!(
                "5 {} {:x} {:x} 0 0 0 {none} {:x} {:x} 0 0 {:x} {:x}",
                u8::from(it.is_far_end),
                it.from.dpid.0,
                it.from.port.0,
                it.to.dpid.0,
                it.to.port.0,
                it.why as u8,
                it.since_ns
            ),
            Record::Status { settled } => {
                format!("4 {} 0 0 0 0 0 {none} 0 0 0 0 0 0", u8::from(settled))
            }
        };
        writeln!(text, "{line}").unwrap();
    }
    text + &format!("{count}\n")
}

#[test]
fn records_are_the_same_in_c_and_rust() {
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut table: Vec<Slot> = Vec::new();
    for number in 0..1000_u64 {
        let mut slot: Slot = std::array::from_fn(|_| random.next_u64());
        // Kinds that exist, with the flags that both print, and others.
        slot[0] = slot[0] & 0xffff_ffff_0000_0000 | (number % 7);
        let flags = match number % 7 {
            2 => slot[1] & 7,
            1 | 3 | 4 | 5 => slot[1] & 1,
            _ => 0,
        };
        slot[0] |= flags << 8;
        if number % 7 == 4 {
            slot = [slot[0], 0, 0, 0, 0, 0, 0];
        }
        if number % 7 == 5 {
            slot[4] = 1 + slot[4] % 4; // the reasons that this crate knows
        }
        table.push(slot);
    }
    assert_eq!(run(&table), expected(&table));
    assert_eq!(run(&[]), "0\n");
}
