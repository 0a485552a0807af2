//! Tests both ends against each other, and the kernel's end against a zone that writes anything.

mod lies;

use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::*;
use crate::shm::{Shared, on_heap};

const CAPACITY: u32 = 4096;
const STEPS: usize = if cfg!(miri) { 20 } else { 400 };
const HEAD: [u64; 2] = [6 << 32, 0xd1d];

/// Both ends on mappings, or on the heap under Miri, which does not support mappings.
fn pair() -> (KernelEnd, ZoneEnd) {
    if cfg!(miri) {
        let size = memory_size(CAPACITY);
        let ((up, up_view), (down, down_view)) = (on_heap(size), on_heap(size));
        let zone = ZoneEnd::over(up_view, down, CAPACITY);
        return (KernelEnd::over(up, down_view, CAPACITY), zone);
    }
    let (kernel, fds) = KernelEnd::create(CAPACITY).unwrap();
    let zone = ZoneEnd::map(&fds, CAPACITY).unwrap();
    (kernel, zone)
}

/// A kernel's end, and the memory that a hostile zone writes.
fn hostile_pair() -> (KernelEnd, Shared) {
    let size = memory_size(CAPACITY);
    let ((up, _), (down, down_view)) = (on_heap(size), on_heap(size));
    (KernelEnd::over(up, down_view, CAPACITY), down)
}

/// Few cases, and no file to remember the failed ones, under Miri.
fn cases() -> ProptestConfig {
    if cfg!(miri) {
        return ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() };
    }
    ProptestConfig::default()
}

fn push(kernel: &mut KernelEnd, body: &[u8]) -> bool {
    kernel.push(&HEAD, body, Room::All)
}

fn bodies(zone: &mut ZoneEnd) -> Vec<Vec<u8>> {
    zone.records.batch(MAX_BATCH).unwrap().iter().map(|record| record[16..].to_vec()).collect()
}

fn send(zone: &mut ZoneEnd, message: &[u8]) -> bool {
    let Some(room) = zone.messages.reserve(message.len()) else {
        return false;
    };
    room.copy_from_slice(message);
    zone.messages.commit(0xd1d, 3, message.len())
}

#[test]
fn record_is_read_in_place() {
    let (mut kernel, mut zone) = pair();
    assert!(push(&mut kernel, b"eleven byte"));
    assert!(bodies(&mut zone).is_empty(), "not published yet");
    kernel.publish();
    let batch = zone.records.batch(MAX_BATCH).unwrap();
    let record = batch.iter().next().unwrap();
    assert_eq!((record.len(), &record[..8]), (16 + 11, &[27, 0, 0, 0, 6, 0, 0, 0][..]));
    assert_eq!(record[16..], *b"eleven byte");
    assert_eq!((batch.starts().len(), batch.least()), (1, 27));
}

#[test]
fn run_of_records_equals_single_records() {
    let ((mut at_once, mut zone), (mut one_by_one, mut other)) = (pair(), pair());
    for step in 0..STEPS {
        let room = [Room::All, Room::AllButReserve, Room::Ordinary][step % 3];
        let body = |number: usize| {
            vec![u8::try_from(step % 251).unwrap(); (step * 7919 + number * 104_729) % 1300 + 1]
        };
        let written = at_once.write(room, |span| {
            (0..5).take_while(|number| span.push(&HEAD, &body(*number))).count()
        });
        for number in 0..written {
            assert!(one_by_one.push(&HEAD, &body(number), room), "step {step}");
        }
        // The next record does not fit, or needs padding and begins at the ring's start.
        assert_eq!(
            at_once.push(&HEAD, &body(written), room),
            one_by_one.push(&HEAD, &body(written), room)
        );
        for (kernel, zone) in [(&mut at_once, &mut zone), (&mut one_by_one, &mut other)] {
            kernel.publish();
            let seen = bodies(zone).len().saturating_sub(step % 2);
            zone.messages.done(&mut zone.records, seen);
            while kernel.take(&mut Vec::new()).unwrap().is_some() {}
            kernel.release();
        }
        assert_eq!(bodies(&mut zone), bodies(&mut other));
        assert_eq!(at_once.outstanding(), one_by_one.outstanding());
    }
}

#[test]
fn batch_becomes_visible_in_one_store() {
    let (mut kernel, mut zone) = pair();
    push(&mut kernel, b"a");
    push(&mut kernel, b"b");
    kernel.publish();
    assert_eq!(bodies(&mut zone).len(), 2);
    assert!(send(&mut zone, b"flow-mod"));
    zone.messages.stop(1);
    let mut out = Vec::new();
    assert_eq!(kernel.take(&mut out), Ok(None), "nothing of a batch that is not closed");

    zone.messages.done(&mut zone.records, 2);
    let sent = Down::Send { epoch: 3, dpid: 0xd1d, number: 0, message: b"flow-mod" };
    assert_eq!(kernel.take(&mut out), Ok(Some(sent)));
    assert_eq!(kernel.take(&mut out), Ok(Some(Down::Stop(1))));
    assert_eq!(kernel.take(&mut out), Ok(Some(Down::Done(2))));
    assert_eq!(kernel.take(&mut out), Ok(None));
    assert_eq!(kernel.outstanding(), 0);
}

#[test]
fn discarded_batch_leaves_nothing() {
    let (mut kernel, mut zone) = pair();
    assert!(send(&mut zone, b"regretted"));
    zone.messages.stop(0);
    zone.messages.roll_back();
    assert!(!zone.messages.is_open());
    assert!(send(&mut zone, b"meant"));
    zone.messages.done(&mut zone.records, 0);
    let mut out = Vec::new();
    let sent = Down::Send { epoch: 3, dpid: 0xd1d, number: 0, message: b"meant" };
    assert_eq!(kernel.take(&mut out), Ok(Some(sent)));
    assert_eq!(kernel.take(&mut out), Ok(Some(Down::Done(0))));
    assert_eq!(kernel.take(&mut out), Ok(None));
}

#[test]
fn zone_that_dies_in_a_batch_leaves_its_records_to_the_next() {
    let (mut kernel, mut zone) = pair();
    for body in [b"one", b"two", b"six"] {
        push(&mut kernel, body);
    }
    kernel.publish();
    assert_eq!(bodies(&mut zone).len(), 3);
    zone.messages.done(&mut zone.records, 1);
    assert_eq!(bodies(&mut zone).len(), 2);
    send(&mut zone, b"lost with the zone");
    drop(zone);

    let mut out = Vec::new();
    assert_eq!(kernel.take(&mut out), Ok(Some(Down::Done(1))));
    assert_eq!(kernel.take(&mut out), Ok(None));
    let mut left = Vec::new();
    while kernel.oldest(&mut out) {
        left.push(out[16..].to_vec());
        kernel.drop_oldest(1);
    }
    assert_eq!(left, [b"two", b"six"]);
}

#[test]
fn packet_ins_leave_room_for_events() {
    let (mut kernel, _zone) = pair();
    assert_eq!(kernel.room(Room::Ordinary), 2560);
    while kernel.push(&HEAD, &[0; 48], Room::Ordinary) {}
    assert_eq!(kernel.outstanding(), 2560 / 64);
    assert_eq!([Room::Ordinary, Room::AllButReserve].map(|it| kernel.room(it)), [0, 512]);
    while kernel.push(&HEAD, &[0; 48], Room::AllButReserve) {}
    assert_eq!(kernel.outstanding(), 3072 / 64);
    assert_eq!(kernel.room(Room::All), 1024);
    let mut events = 0;
    while kernel.push(&HEAD, &[0; 48], Room::All) {
        events += 1;
    }
    assert_eq!(events, 1024 / 64);
}

#[test]
fn batch_can_be_closed_in_a_full_ring() {
    let (mut kernel, mut zone) = pair();
    let mut sent = 0;
    while send(&mut zone, &[7; 40]) {
        sent += 1;
    }
    assert!(sent > 20);
    (0..MAX_BATCH).for_each(|number| zone.messages.stop(number));
    zone.messages.done(&mut zone.records, 0);
    let mut out = Vec::new();
    for _ in 0..sent {
        assert!(matches!(kernel.take(&mut out), Ok(Some(Down::Send { .. }))));
    }
    // The verdicts are about records that do not exist.
    assert!(matches!(kernel.take(&mut out), Err(PeerFault::Verdict { .. })));
    kernel.release();
    assert!(send(&mut zone, &[7; 40]), "space taken is space free");
}

#[test]
fn zone_sees_a_full_ring_before_a_batch() {
    let (mut kernel, mut zone) = pair();
    let (mut batches, mut out) = (0, Vec::new());
    // The kernel publishes and does not take records: a turn of its loop may be long.
    while zone.messages.free() > 0 {
        assert!(push(&mut kernel, &[]));
        kernel.publish();
        assert_eq!(bodies(&mut zone).len(), 1);
        zone.messages.stop(0);
        zone.messages.done(&mut zone.records, 1);
        batches += 1;
    }
    assert_eq!(batches, (4096 - 66 * 16_usize).div_ceil(32));
    // A batch that begins with the least room has room for all its verdicts.
    kernel.take(&mut out).unwrap();
    kernel.release();
    assert!(zone.messages.free() > 0);
    (0..MAX_BATCH).for_each(|number| zone.messages.stop(number));
    zone.messages.done(&mut zone.records, 0);
}

#[test]
fn empty_batch_takes_no_room() {
    let (_kernel, mut zone) = pair();
    let free = zone.messages.free();
    (0..1000).for_each(|_| assert!(!zone.messages.done(&mut zone.records, 0)));
    assert_eq!(zone.messages.free(), free);
}

#[test]
fn verdict_between_reserve_and_commit_is_kept() {
    let (mut kernel, mut zone) = pair();
    (0..3).for_each(|_| assert!(push(&mut kernel, b"x")));
    kernel.publish();
    assert_eq!(bodies(&mut zone).len(), 3);
    zone.messages.reserve(8).unwrap().copy_from_slice(b"flow-mod");
    zone.messages.stop(2);
    zone.messages.stop(2);
    assert!(zone.messages.commit(0xd1d, 3, 8));
    zone.messages.reserve(8).unwrap();
    zone.messages.done(&mut zone.records, 3);
    assert!(!zone.messages.commit(0xd1d, 3, 8), "room of a batch that is closed");

    let mut out = Vec::new();
    let sent = Down::Send { epoch: 3, dpid: 0xd1d, number: 0, message: b"flow-mod" };
    assert_eq!(kernel.take(&mut out), Ok(Some(sent)));
    assert_eq!(kernel.take(&mut out), Ok(Some(Down::Stop(2))));
    assert_eq!(kernel.take(&mut out), Ok(Some(Down::Done(3))));
    assert_eq!(kernel.take(&mut out), Ok(None));
}

#[test]
fn allowed_record_fits_into_an_empty_ring_anywhere() {
    let (longest, longest_packet) = (2048 - 16, 1536 - 16);
    let longest_message = (4096 - 66 * 16) / 2 - SEND_HEAD;
    for moved in (0..CAPACITY as usize / 16).step_by(if cfg!(miri) { 100 } else { 1 }) {
        let (mut kernel, mut zone) = pair();
        let mut out = Vec::new();
        for _ in 0..moved {
            assert!(push(&mut kernel, &[]));
            kernel.publish();
            assert_eq!(zone.records.batch(1).unwrap().len(), 1);
            zone.messages.done(&mut zone.records, 1);
            assert_eq!(kernel.take(&mut out), Ok(Some(Down::Done(1))));
            kernel.release();
        }
        assert!(zone.messages.reserve(longest_message).is_some(), "{moved}");
        assert!(zone.messages.reserve(longest_message + 1).is_none());
        assert!(!kernel.push(&HEAD, &vec![0; longest_packet + 1], Room::AllButReserve));
        assert!(kernel.push(&HEAD, &vec![0; longest_packet], Room::AllButReserve), "{moved}");
        kernel.drop_oldest(1);
        assert!(push(&mut kernel, &vec![0; longest]), "{moved}");
    }
}

#[test]
fn longest_packet_in_fits_into_a_default_ring() {
    let size = memory_size(DEFAULT_CAPACITY);
    let ((up, _up_view), (_down, down_view)) = (on_heap(size), on_heap(size));
    let mut kernel = KernelEnd::over(up, down_view, DEFAULT_CAPACITY);
    assert!(kernel.push(&[0; 6], &vec![0; 0xffff], Room::Ordinary));
}

#[test]
fn record_longer_than_half_the_ring_is_refused() {
    let (mut kernel, mut zone) = pair();
    assert!(!push(&mut kernel, &[0; 2048]));
    assert!(zone.messages.reserve(2048).is_none());
    assert!(zone.messages.reserve(usize::MAX).is_none());
}

#[test]
fn only_a_sleeping_peer_is_rung() {
    let (mut kernel, mut zone) = pair();
    push(&mut kernel, b"x");
    assert!(!kernel.publish(), "it is awake");
    bodies(&mut zone);
    zone.messages.done(&mut zone.records, 1);
    assert!(!zone.messages.prepare_to_sleep(&zone.records));
    push(&mut kernel, b"y");
    assert!(kernel.publish());
    assert!(!kernel.publish(), "nothing new to show");
    assert!(zone.messages.prepare_to_sleep(&zone.records), "sees it and stays awake");

    assert_eq!(kernel.prepare_to_sleep(), Ok(true), "the first Done waits");
    while kernel.take(&mut Vec::new()).unwrap().is_some() {}
    assert_eq!(kernel.prepare_to_sleep(), Ok(false));
    assert!(!zone.messages.done(&mut zone.records, 0), "nothing to say");
    assert!(send(&mut zone, b"x"));
    assert!(zone.messages.done(&mut zone.records, 0));
    kernel.awake();
    assert!(send(&mut zone, b"x"));
    assert!(!zone.messages.done(&mut zone.records, 0));
}

#[test]
fn zone_waiting_for_room_is_rung() {
    let (mut kernel, mut zone) = pair();
    while send(&mut zone, &[7; 40]) {}
    zone.messages.done(&mut zone.records, 0);
    let had = zone.messages.free();
    assert!(!zone.messages.prepare_to_wait_for_room(had));
    assert!(!kernel.release(), "nothing taken yet");
    kernel.take(&mut Vec::new()).unwrap();
    assert!(kernel.release());
    assert!(zone.messages.prepare_to_wait_for_room(had));
    zone.messages.awake();
    kernel.take(&mut Vec::new()).unwrap();
    assert!(!kernel.release(), "it is awake");
}

/// Miri checks this for races: one side reads records as plain bytes, the other writes them as atomics.
#[test]
fn ends_in_two_threads_echo_every_record() {
    let (mut kernel, mut zone) = pair();
    let records: u64 = if cfg!(miri) { 150 } else { 50_000 }; // some times around either ring
    let zone = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < records {
            let mut handled = 0;
            for record in zone.records.batch(MAX_BATCH).unwrap().iter() {
                let Some(room) = zone.messages.reserve(record.len() - 16) else { break };
                room.copy_from_slice(&record[16..]);
                assert!(zone.messages.commit(seen, 3, record.len() - 16));
                (seen, handled) = (seen + 1, handled + 1);
            }
            zone.messages.done(&mut zone.records, handled);
            std::thread::yield_now();
        }
    });
    let (mut pushed, mut heard, mut out) = (0, 0, Vec::new());
    while heard < records {
        while pushed < records && push(&mut kernel, &vec![7; body_size(pushed)]) {
            pushed += 1;
        }
        kernel.publish();
        while let Some(down) = kernel.take(&mut out).unwrap() {
            if let Down::Send { dpid, message, .. } = down {
                assert_eq!((dpid, message), (heard, &vec![7; body_size(heard)][..]));
                heard += 1;
            }
        }
        kernel.release();
        std::thread::yield_now();
    }
    zone.join().unwrap();
}

fn body_size(number: u64) -> usize {
    usize::try_from(number % 90).unwrap()
}

proptest! {
    #![proptest_config(cases())]

    /// Any traffic, any interleaving: everything arrives once, in order, with its bytes.
    #[test]
    fn rings_deliver_everything_once_and_in_order(
        steps in prop::collection::vec((0_usize..300, 0_usize..4, 0_usize..300), 1..STEPS),
    ) {
        let (mut kernel, mut zone) = pair();
        let (mut up_sent, mut up_seen, mut down_sent, mut down_seen) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut out = Vec::new();
        let body = |number: u64, size: usize| {
            let mut body = number.to_le_bytes().to_vec();
            body.resize(8 + size, u8::try_from(number % 251).unwrap());
            body
        };
        let number = |body: &[u8]| u64::from_le_bytes(body[..8].try_into().unwrap());
        for (up_size, handle, down_size) in steps {
            if push(&mut kernel, &body(up_sent, up_size)) {
                up_sent += 1;
            }
            kernel.publish();
            let seen = zone.records.batch(handle).unwrap().len();
            for record in zone.records.batch(handle).unwrap().iter() {
                let body_seen = &record[16..];
                prop_assert_eq!(body_seen, body(up_seen, body_seen.len() - 8));
                up_seen += 1;
            }
            if send(&mut zone, &body(down_sent, down_size)) {
                down_sent += 1;
            }
            if handle != 3 && zone.messages.free() > 400 {
                zone.messages.done(&mut zone.records, seen);
            } else {
                up_seen -= seen as u64;
            }
            if handle != 2 {
                while let Some(down) = kernel.take(&mut out).unwrap() {
                    if let Down::Send { message, .. } = down {
                        prop_assert_eq!(number(message), down_seen);
                        prop_assert_eq!(message, body(down_seen, message.len() - 8));
                        down_seen += 1;
                    }
                }
                kernel.release();
            }
        }
        zone.messages.done(&mut zone.records, 0);
        while let Some(down) = kernel.take(&mut out).unwrap() {
            down_seen += u64::from(matches!(down, Down::Send { .. }));
        }
        prop_assert_eq!(down_seen, down_sent);
        prop_assert_eq!(u64::from(kernel.outstanding()), up_sent - up_seen);
    }

    /// A zone that writes anything at all: an answer or a fault, in bounded time, never a panic.
    #[test]
    fn hostile_zone_gets_a_fault_not_a_panic(
        index in prop_oneof![0_u64..64, (0_u64..520).prop_map(|words| words * 8), any::<u64>()],
        words in prop::collection::vec(
            prop_oneof![
                any::<u64>(),
                (0_u64..80, 0_u64..5).prop_map(|(size, kind)| size | kind << 32),
            ],
            1..128,
        ),
    ) {
        let (mut kernel, zone) = hostile_pair();
        push(&mut kernel, b"one");
        push(&mut kernel, b"two");
        kernel.publish();
        for (at, word) in words.iter().enumerate() {
            zone.words()[HEADER / WORD + at].store(*word, Ordering::Relaxed);
        }
        zone.words()[PRODUCED].store(index, Ordering::Release);
        let mut out = Vec::new();
        for _ in 0..=CAPACITY / 8 {
            match kernel.take(&mut out) {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Ok(()),
            }
        }
        prop_assert!(false, "more records than fit into the ring");
    }
}

#[test]
#[cfg_attr(miri, ignore = "makes mappings")]
fn descriptors_of_another_size_are_refused() {
    let (_kernel, fds) = KernelEnd::create(CAPACITY).unwrap();
    assert!(ZoneEnd::map(&fds, 2 * CAPACITY).is_err());
    assert!(ZoneEnd::map(&fds, 5000).is_err());
    assert!(ZoneEnd::map(&fds, 0).is_err());
}
