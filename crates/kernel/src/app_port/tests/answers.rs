//! Replies, errors and flows that went, on their way into the ring.

use openflow::{FlowRemoved, FlowRemovedReason, Match};
use sdk::abi::Record;

use super::*;

/// Everything that the zone has before it, as whole records, handled.
fn all(bench: &mut Bench) -> Vec<Vec<u8>> {
    bench.pump();
    let zone = bench.zone.as_mut().unwrap();
    let records: Vec<Vec<u8>> =
        zone.records.batch(MAX_BATCH).unwrap().iter().map(<[u8]>::to_vec).collect();
    zone.messages.done(&mut zone.records, records.len());
    records
}

fn kind(record: &[u8]) -> u16 {
    u16::from_le_bytes([record[4], record[5]])
}

fn cookie(record: &[u8]) -> u64 {
    u64::from_le_bytes(*record[32..].first_chunk().unwrap())
}

fn body(record: &[u8]) -> &[u8] {
    let size = u16::from_le_bytes([record[42], record[43]]);
    &record[abi::RECORD_HEAD..][..usize::from(size)]
}

fn answer(bench: &mut Bench, message: &[u8]) -> bool {
    bench.app_port.answer(RecordKind::Reply, &mut bench.switches[0], message)
}

fn removed(cookie: u64) -> FlowRemoved {
    FlowRemoved {
        match_: Match::new(),
        cookie,
        priority: 1,
        reason: FlowRemovedReason::HardTimeout,
        table_id: 3,
        duration: std::time::Duration::ZERO,
        idle_timeout: 0,
        hard_timeout: 0,
        packet_count: 0,
        byte_count: 0,
    }
}

#[test]
fn answer_carries_its_message_as_body() {
    let mut bench = Bench::live(vec![switch(7, 0)]);
    assert!(answer(&mut bench, b"the message"));
    let gone = removed(1 << 48 | 0xabc);
    assert!(bench.app_port.flow_removed(&mut bench.switches[0], &gone, b"gone"));
    let records = all(&mut bench);
    assert_eq!(records.iter().map(|record| kind(record)).collect::<Vec<_>>(), [9, 11]);
    assert_eq!(body(&records[0]), b"the message");
    assert_eq!((body(&records[1]), cookie(&records[1])), (&b"gone"[..], 0xabc));
    assert_eq!(records[1][40..42], [1, 3], "hard timeout, table 3");
    assert_eq!(u64::from_le_bytes(*records[1][8..].first_chunk().unwrap()), 7);
}

#[test]
fn lost_answers_are_reported_when_there_is_room() {
    let mut bench = Bench::live(vec![switch(7, 1)]);
    let mut given = 0;
    while answer(&mut bench, &[0; 200]) {
        given += 1;
    }
    assert!(!answer(&mut bench, &[0; 200]));
    let port = bench.switches[0].ports[&1];
    bench.app_port.port(&mut bench.switches[0], 2, &port);
    bench.pump();
    let mut records: Vec<Vec<u8>> = Vec::new();
    for _ in 0..10 {
        records.extend(all(&mut bench));
    }
    let kinds: Vec<u16> = records.iter().map(|record| kind(record)).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == 9).count(), given);
    assert!(kinds.contains(&5), "there is room for what happens to ports");
    let lost: Vec<&[u8]> =
        records.iter().filter(|record| kind(record) == 12).map(|record| body(record)).collect();
    assert_eq!(lost, [2_u64.to_le_bytes()], "once");
    assert!(answer(&mut bench, &[0; 200]));
}

#[test]
fn flows_removed_while_away_are_reported_after_the_snapshot() {
    let mut bench = Bench::live(vec![switch(7, 0)]);
    let gone = removed(1 << 48);
    assert!(
        bench.app_port.flow_removed(&mut bench.switches[0], &gone, &[0; 64]),
        "not handled yet"
    );
    assert!(answer(&mut bench, b"to who is gone"));
    bench.die();
    assert!(!bench.app_port.flow_removed(&mut bench.switches[0], &gone, &[0; 64]));
    bench.attach();
    let mut records = Vec::new();
    for _ in 0..10 {
        records.extend(all(&mut bench));
    }
    let kinds: Vec<u16> = records.iter().map(|record| kind(record)).collect();
    assert_eq!(kinds, [1, 3, 2, 12], "no answer to another instance");
    assert_eq!(body(&records[3]), 2_u64.to_le_bytes());
}

#[test]
fn each_start_of_the_app_is_another_life() {
    let mut bench = Bench::live(vec![]);
    let life = bench.app_port.life;
    bench.die();
    bench.attach();
    assert_ne!(bench.app_port.life, life);
}

/// A packet-in of 1.3, whose cookie was taken out, of a flow that has this one.
fn packet_of(bench: &mut Bench, cookie: u64) -> (u64, [u8; 8]) {
    let record = Record { cookie, ..switch_record(RecordKind::PacketIn, &bench.switches[0]) };
    let mut message = [0xff; 32];
    message[..2].copy_from_slice(&[4, 10]);
    let record = Record { body_size: 32, ..record };
    assert!(bench.app_port.packet_in(&mut bench.switches[0], &record, &message, Ticket::NONE));
    let records = all(bench);
    let head = u64::from_le_bytes(*records[0][32..].first_chunk().unwrap());
    (head, *body(&records[0])[16..].first_chunk().unwrap())
}

#[test]
fn only_the_owner_of_a_flow_sees_its_cookie() {
    let mut bench = Bench::live(vec![switch(7, 0)]);
    let own = 1 << 48 | 0xabc;
    assert_eq!(packet_of(&mut bench, own), (0xabc, 0xabc_u64.to_be_bytes()));
    for other in [2 << 48 | 0xabc, 0xabc, 0, 0xffff << 48, u64::MAX] {
        assert_eq!(packet_of(&mut bench, other), (u64::MAX, [0xff; 8]), "{other:#x}");
    }
}
