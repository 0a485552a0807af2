//! Runs both ends under loom, which tries every interleaving and every value that a load may return.
//!
//! The models run the code of this folder with rings of 64 or 128 bytes and batches of at most 2. The memory is
//! `shm/modelled.rs`: it fails the model if a record is read or overwritten without an order after the other side's
//! access, even if the bytes happen to be right. The threads wait for each other in the same way as kernel and zone:
//! they announce it and sleep on a doorbell. If a wake-up is lost, all threads sleep, and loom reports a deadlock.
//!
//! `CAUGHT` shows that a model can fail: it lists changes to the real code, and every one of them made that model fail.

use std::sync::Arc;

use loom::model::Builder;
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;
use crate::shm::on_heap;

/// Runs a model in every interleaving, or, where that would take too long, in those with at most this number of
/// preemptions.
fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(model);
}

fn pair(capacity: u32) -> (KernelEnd, ZoneEnd) {
    let size = memory_size(capacity);
    let ((up, up_view), (down, down_view)) = (on_heap(size), on_heap(size));
    let zone = ZoneEnd::over(up_view, down, capacity);
    (KernelEnd::over(up, down_view, capacity), zone)
}

/// A doorbell for loom: a flag and a condition variable.
#[derive(Default)]
struct ModelDoorbell {
    loud: Mutex<bool>,
    rung: Condvar,
}

impl ModelDoorbell {
    fn ring(&self) {
        *self.loud.lock().unwrap() = true;
        self.rung.notify_one();
    }

    fn wait(&self) {
        let mut loud = self.loud.lock().unwrap();
        while !*loud {
            loud = self.rung.wait(loud).unwrap();
        }
        *loud = false;
    }
}

/// A pair of rings with its doorbells, as the two loops use them.
struct Kernel {
    end: KernelEnd,
    up_bell: Arc<ModelDoorbell>,
    down_bell: Arc<ModelDoorbell>,
    out: Vec<u8>,
    /// The numbers of the received messages in order, and the counts of stopped and handled records.
    sent: Vec<u64>,
    stops: u32,
    done: u32,
}

struct Zone {
    end: ZoneEnd,
    up_bell: Arc<ModelDoorbell>,
    down_bell: Arc<ModelDoorbell>,
    seen: u64,
}

fn start(capacity: u32) -> (Kernel, Zone) {
    let (kernel, zone) = pair(capacity);
    let (up_bell, down_bell) = (Arc::<ModelDoorbell>::default(), Arc::<ModelDoorbell>::default());
    let kernel = Kernel {
        end: kernel,
        up_bell: Arc::clone(&up_bell),
        down_bell: Arc::clone(&down_bell),
        out: Vec::new(),
        sent: Vec::new(),
        stops: 0,
        done: 0,
    };
    (kernel, Zone { end: zone, up_bell, down_bell, seen: 0 })
}

impl Kernel {
    /// Writes record number `number`, of three words, if there is room.
    fn push(&mut self, number: u64) -> bool {
        self.end.push(&[6 << 32, number], &(!number).to_ne_bytes(), Room::All)
    }

    fn publish(&mut self) {
        if self.end.publish() {
            self.up_bell.ring();
        }
    }

    /// Takes one down record; `false` if there is none.
    fn take(&mut self) -> bool {
        match self.end.take(&mut self.out).expect("an honest zone") {
            Some(Down::Send { epoch, dpid, number, message }) => {
                assert_eq!((epoch, number, message), (7, 0, &(!dpid).to_ne_bytes()[..]));
                self.sent.push(dpid);
            }
            Some(Down::Stop(_)) => self.stops += 1,
            Some(Down::Done(n)) => self.done += n,
            None => return false,
        }
        true
    }

    fn release(&mut self) {
        if self.end.release() {
            self.up_bell.ring();
        }
    }

    fn sleep(&mut self) {
        if !self.end.prepare_to_sleep().expect("an honest zone") {
            self.down_bell.wait();
        }
        self.end.awake();
    }
}

impl Zone {
    /// Reads a batch of at most `most` records; returns their number.
    fn batch(&mut self, most: usize) -> usize {
        let batch = self.end.records.batch(most).expect("an honest kernel");
        for (number, record) in (self.seen..).zip(batch.iter()) {
            assert_eq!(record[..8], [24, 0, 0, 0, 6, 0, 0, 0]);
            assert_eq!(record[8..16], number.to_ne_bytes());
            assert_eq!(record[16..], (!number).to_ne_bytes());
        }
        batch.len()
    }

    /// Writes message number `number`, of four words with its head, if there is room.
    fn send(&mut self, number: u64) -> bool {
        let Some(room) = self.end.messages.reserve(WORD) else {
            return false;
        };
        room.copy_from_slice(&(!number).to_ne_bytes());
        assert!(self.end.messages.commit(number, 7, WORD));
        true
    }

    fn done(&mut self, n: usize) {
        self.seen += n as u64;
        if self.end.messages.done(&mut self.end.records, n) {
            self.down_bell.ring();
        }
    }

    fn sleep(&mut self) {
        if !self.end.messages.prepare_to_sleep(&self.end.records) {
            self.up_bell.wait();
        }
        self.end.messages.awake();
    }

    /// Writes a message, and sleeps while there is no room.
    fn send_when_there_is_room(&mut self, number: u64) {
        loop {
            let had = self.end.messages.free();
            if self.send(number) {
                return;
            }
            if !self.end.messages.prepare_to_wait_for_room(had) {
                self.up_bell.wait();
            }
            self.end.messages.awake();
        }
    }
}

/// Records wrap around the up ring: they overwrite handled records, follow padding, and are read in place.
///
/// CAUGHT: `publish` stores `produced` relaxed, has no fence, a fence of `AcqRel`, or looks at `asleep`
/// first; `done` stores `produced` relaxed or has no fence; `load_acquire` has no fence; either
/// `prepare_to_sleep` has no fence; the zone's looks before it announces its sleep; `Done` frees one record too many.
#[test]
fn records_wrap_around_the_up_ring_in_order() {
    check(Some(2), || {
        let (mut kernel, mut zone) = start(64);
        let records = 5; // at 0, 24; 16 bytes of padding; at 64, 88; padding; at 128
        let zone = thread::spawn(move || {
            while zone.seen < records {
                match zone.batch(MAX_BATCH) {
                    0 => zone.sleep(),
                    n => zone.done(n),
                }
            }
        });
        let mut pushed = 0;
        while u64::from(kernel.done) < records {
            while pushed < records && kernel.push(pushed) {
                pushed += 1;
                kernel.publish();
            }
            if !kernel.take() {
                kernel.sleep();
            }
            kernel.release();
        }
        zone.join().unwrap();
        assert_eq!(kernel.end.outstanding(), 0);
    });
}

/// Messages wrap around the down ring, with as many verdicts as possible. So a batch overwrites records that the kernel
/// has just freed, and the zone waits for room.
///
/// CAUGHT: `release` stores `consumed` relaxed or has no fence; `done` stores `produced` relaxed or has
/// no fence; `load_acquire` has no fence; `prepare_to_wait_for_room` or the kernel's
/// `prepare_to_sleep` has no fence; `had` is read after the refusal.
#[test]
fn messages_wrap_around_the_down_ring_in_order() {
    check(Some(3), || {
        let (mut kernel, mut zone) = start(128);
        let messages = 4; // each with its verdicts 80 bytes: at 0, 80, 160, behind padding at 256
        assert!(kernel.push(0) && kernel.push(1));
        kernel.publish();
        let zone = thread::spawn(move || {
            for number in 0..messages {
                zone.send_when_there_is_room(number);
                (0..MAX_BATCH).for_each(|record| zone.end.messages.stop(record));
                zone.done(0);
            }
        });
        while (kernel.sent.len() as u64) < messages {
            if !kernel.take() {
                kernel.sleep();
                continue;
            }
            while kernel.take() {}
            kernel.release();
        }
        zone.join().unwrap();
        assert!(kernel.sent.into_iter().eq(0..messages));
        assert_eq!(kernel.stops, 8);
    });
}

/// The kernel sees nothing of a batch or all of it: its messages, its verdicts, and that its records are handled.
///
/// CAUGHT: `commit` publishes each message; `done` publishes before it writes `Done`, or stores
/// `produced` relaxed; `load_acquire` has no fence.
#[test]
fn a_batch_becomes_visible_as_a_whole() {
    check(None, || {
        let (mut kernel, mut zone) = start(128);
        assert!(kernel.push(0) && kernel.push(1));
        kernel.publish();
        let zone = thread::spawn(move || {
            assert_eq!(zone.batch(MAX_BATCH), 2);
            assert!(zone.send(0));
            zone.end.messages.stop(1);
            zone.done(2);
        });
        while kernel.take() {}
        match (&kernel.sent[..], kernel.stops, kernel.done, kernel.end.outstanding()) {
            ([], 0, 0, 2) | ([0], 1, 2, 0) => {}
            torn => panic!("{torn:?}"),
        }
        zone.join().unwrap();
        while kernel.take() {}
        assert_eq!((&kernel.sent[..], kernel.stops, kernel.done), (&[0][..], 1, 2));
    });
}

/// The zone sleeps until there are records, twice.
///
/// CAUGHT: `publish` stores `produced` relaxed, has no fence, a fence of `AcqRel`, or looks at `asleep`
/// first; the zone's `prepare_to_sleep` has no fence, or looks before it announces its sleep;
/// `load_acquire` has no fence.
#[test]
fn zone_that_waits_for_records_is_woken() {
    check(Some(6), || {
        let (mut kernel, mut zone) = start(64);
        let zone = thread::spawn(move || {
            while zone.seen < 2 {
                match zone.batch(MAX_BATCH) {
                    0 => zone.sleep(),
                    n => zone.done(n),
                }
            }
        });
        for number in 0..2 {
            assert!(kernel.push(number));
            kernel.publish();
        }
        zone.join().unwrap();
    });
}

/// The zone sleeps until there is room. The kernel frees room in two steps, and only the second one is enough.
///
/// CAUGHT: `release` or `prepare_to_wait_for_room` has no fence; `had` is read after the refusal.
#[test]
fn zone_that_waits_for_room_is_woken() {
    check(None, || {
        let (mut kernel, mut zone) = start(128);
        assert!(zone.send(0));
        zone.done(0);
        let zone = thread::spawn(move || zone.send_when_there_is_room(1));
        for _ in 0..2 {
            assert!(kernel.take());
            kernel.release();
        }
        zone.join().unwrap();
    });
}

/// The kernel sleeps until the zone has published a batch, twice.
///
/// CAUGHT: `done` has no fence or stores `produced` relaxed; the kernel's `prepare_to_sleep` has no
/// fence; `load_acquire` has no fence.
#[test]
fn kernel_that_waits_is_woken() {
    check(Some(6), || {
        let (mut kernel, mut zone) = start(256);
        let zone = thread::spawn(move || {
            for number in 0..2 {
                assert!(zone.send(number));
                zone.done(0);
            }
        });
        while kernel.sent.len() < 2 {
            if !kernel.take() {
                kernel.sleep();
            }
        }
        zone.join().unwrap();
    });
}
