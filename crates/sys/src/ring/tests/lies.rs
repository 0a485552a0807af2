//! Tests each end against values that the other end must never write.

use super::*;

/// The fault of a zone whose down ring begins with `words`, and which claims to have produced `produced` bytes.
fn lie(words: &[u64], produced: u64) -> PeerFault {
    let (mut kernel, zone) = hostile_pair();
    push(&mut kernel, b"one");
    kernel.publish();
    push(&mut kernel, b"not shown");
    for (at, word) in words.iter().enumerate() {
        zone.words()[HEADER / WORD + at].store(*word, Ordering::Relaxed);
    }
    zone.words()[PRODUCED].store(produced, Ordering::Release);
    kernel.take(&mut Vec::new()).unwrap_err()
}

#[test]
fn index_beyond_the_capacity_is_a_fault() {
    let fault = lie(&[], u64::from(CAPACITY) + 8);
    assert_eq!(fault, PeerFault::Index { index: 4104, from: 0, capacity: CAPACITY });
}

#[test]
fn unaligned_index_is_a_fault() {
    assert!(matches!(lie(&[], 12), PeerFault::Index { index: 12, .. }));
}

#[test]
fn index_that_moves_back_is_a_fault() {
    let (mut kernel, zone) = hostile_pair();
    zone.words()[HEADER / WORD].store(First { size: 16, kind: DONE }.word(), Ordering::Relaxed);
    zone.words()[PRODUCED].store(16, Ordering::Release);
    let mut out = Vec::new();
    assert_eq!(kernel.take(&mut out), Ok(Some(Down::Done(0))));
    zone.words()[PRODUCED].store(8, Ordering::Release);
    assert!(matches!(kernel.take(&mut out), Err(PeerFault::Index { index: 8, from: 16, .. })));
}

#[test]
fn impossible_size_is_a_fault() {
    for size in [0, 8, 23, 33, 4096, u32::MAX] {
        let fault = lie(&[First { size, kind: SEND }.word()], 32);
        assert!(matches!(fault, PeerFault::Size { at: 0, size: said, .. } if said == size));
    }
    let fault = lie(&[First { size: 24, kind: DONE }.word()], 24);
    assert!(matches!(fault, PeerFault::Size { size: 24, least: 16, most: 16, .. }));
    let fault = lie(&[First { size: 16, kind: PAD }.word()], 32);
    assert!(matches!(fault, PeerFault::Size { size: 16, .. }), "pads only to the ring's end");
    let fault = lie(&[First { size: CAPACITY, kind: PAD }.word()], CAPACITY.into());
    assert!(matches!(fault, PeerFault::Size { size: CAPACITY, .. }), "and never the whole ring");
}

#[test]
fn unknown_kind_is_a_fault() {
    let fault = lie(&[First { size: 16, kind: 99 }.word()], 16);
    assert_eq!(fault, PeerFault::Kind { at: 0, kind: 99 });
}

#[test]
fn verdict_on_unknown_records_is_a_fault() {
    let fault = lie(&[First { size: 16, kind: DONE }.word(), 2], 16);
    assert_eq!(fault, PeerFault::Verdict { claimed: 2, outstanding: 1 });
    let fault = lie(&[First { size: 16, kind: STOP }.word(), 1], 16);
    assert_eq!(fault, PeerFault::Verdict { claimed: 1, outstanding: 1 });
}

/// A zone's end whose up ring begins with `words`. The kernel claims to have produced `produced` bytes.
fn lying_kernel(words: &[u64], produced: u64) -> (ZoneEnd, Shared) {
    let size = memory_size(CAPACITY);
    let ((up, up_view), (down, _)) = (on_heap(size), on_heap(size));
    for (at, word) in words.iter().enumerate() {
        up.words()[HEADER / WORD + at].store(*word, Ordering::Relaxed);
    }
    up.words()[PRODUCED].store(produced, Ordering::Release);
    (ZoneEnd::over(up_view, down, CAPACITY), up)
}

#[test]
fn zone_takes_no_record_outside_of_the_ring() {
    for size in [0, 7, CAPACITY + 1, u32::MAX - 7, u32::MAX] {
        let (mut zone, _) = lying_kernel(&[First { size, kind: 6 }.word()], CAPACITY.into());
        let fault = zone.records.batch(MAX_BATCH).unwrap_err();
        assert_eq!(fault, PeerFault::Size { at: 0, size, least: 8, most: CAPACITY });
    }
    let (mut zone, _) = lying_kernel(&[First { size: CAPACITY, kind: 6 }.word()], CAPACITY.into());
    assert_eq!(zone.records.batch(MAX_BATCH).unwrap().least(), CAPACITY);
    // Fewer bytes are left for the second record.
    let second = [First { size: 16, kind: 6 }.word(), 0, First { size: 4081, kind: 6 }.word()];
    let (mut zone, _) = lying_kernel(&second, CAPACITY.into());
    let fault = zone.records.batch(MAX_BATCH).unwrap_err();
    assert_eq!(fault, PeerFault::Size { at: 16, size: 4081, least: 8, most: 4080 });
    let (mut zone, _) = lying_kernel(&[], u64::from(CAPACITY) + 8);
    let fault = zone.records.batch(MAX_BATCH).unwrap_err();
    assert_eq!(fault, PeerFault::Index { index: 4104, from: 0, capacity: CAPACITY });
}

#[test]
#[should_panic(expected = "they lie inside")]
fn record_that_grew_past_the_end_is_not_read() {
    let (mut zone, up) = lying_kernel(&[First { size: 16, kind: 6 }.word()], 16);
    let batch = zone.records.batch(MAX_BATCH).unwrap();
    let longer = First { size: CAPACITY + 1, kind: 6 };
    up.words()[HEADER / WORD].store(longer.word(), Ordering::Relaxed);
    let _ = batch.iter().next();
}

#[test]
fn batch_has_starts_and_the_shortest_size() {
    let (mut kernel, mut zone) = pair();
    for body in [&b"longer than the next"[..], b"short", b"not as short"] {
        assert!(push(&mut kernel, body));
    }
    kernel.publish();
    let batch = zone.records.batch(MAX_BATCH).unwrap();
    assert_eq!(batch.least(), 16 + 5);
    let first = batch.starts()[0].addr();
    let places: Vec<_> = batch.starts().iter().map(|start| start.addr() - first).collect();
    assert_eq!(places, [0, 40, 64]);
    assert_eq!(zone.records.batch(1).unwrap().least(), 16 + 20);
}
