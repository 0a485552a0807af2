//! Fuzzes the kernel's end of a ring pair: the zone writes any word of its memory between two
//! calls. (`crates/sys/tests/hostile_peer.rs` covers writes during a call.)
//!
//! No panic, and the pending records are as the kernel wrote them.

#![no_main]

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rosemary_sys::ring::{Down, KernelEnd, Room};
use rosemary_sys::shm::on_heap;

const CAPACITY: u32 = 4096;
const HEADER: usize = 4096;
const SIZE: usize = HEADER + CAPACITY as usize;

#[derive(Debug, Arbitrary)]
enum Step {
    /// The zone writes anywhere.
    Word { index: u16, word: u64 },
    /// The zone writes the first two words of a record at a position in the ring.
    Record { index: u16, size: u16, kind: u8, second: u8 },
    /// The zone writes a complete record after its previous ones and counts it.
    Append { size: u8, kind: u8, second: u8 },
    /// The zone sets its counter.
    Produced { words: u16 },
    Push { size: u16, packet: bool },
    Write { size: u16, times: u8, packet: bool },
    Publish,
    Take { times: u8 },
    Release,
    Sleep,
}

fuzz_target!(|steps: Vec<Step>| {
    let ((up, _), (down, down_view)) = (on_heap(SIZE), on_heap(SIZE));
    let mut kernel = KernelEnd::over(up, down_view, CAPACITY);
    let store = |index: usize, word: u64| down.words()[index].store(word, Ordering::Relaxed);
    let in_ring = |index: usize| HEADER / 8 + index % (CAPACITY as usize / 8);
    let (mut appended, mut pushed, mut out) = (0_usize, 0_u8, Vec::new());
    let mut waiting: VecDeque<Vec<u8>> = VecDeque::new();
    for step in steps {
        match step {
            Step::Word { index, word } => store(usize::from(index) % (SIZE / 8), word),
            Step::Record { index, size, kind, second } => {
                let index = usize::from(index);
                store(in_ring(index), u64::from(size) | u64::from(kind % 5) << 32);
                store(in_ring(index + 1), u64::from(second));
            }
            Step::Append { size, kind, second } => {
                let kind = u64::from(kind % 4);
                let size = match kind {
                    0 => CAPACITY as usize - appended % CAPACITY as usize,
                    1 => 24 + usize::from(size),
                    _ => 16,
                };
                store(in_ring(appended / 8), size as u64 | kind << 32);
                store(in_ring(appended / 8 + 1), u64::from(second));
                appended += size.next_multiple_of(8);
                store(0, appended as u64);
            }
            Step::Produced { words } => {
                appended = usize::from(words) * 8;
                store(0, appended as u64);
            }
            Step::Push { size, packet } => {
                pushed = pushed.wrapping_add(1);
                let body = vec![pushed; usize::from(size) % 2100];
                let room = if packet { Room::AllButReserve } else { Room::All };
                if kernel.push(&[6 << 32], &body, room) {
                    waiting.push_back(body);
                }
            }
            Step::Write { size, times, packet } => {
                let room = if packet { Room::AllButReserve } else { Room::All };
                kernel.write(room, |span| {
                    for _ in 0..times {
                        pushed = pushed.wrapping_add(1);
                        let body = vec![pushed; usize::from(size) % 2100];
                        if span.push(&[6 << 32], &body) {
                            waiting.push_back(body);
                        }
                    }
                });
            }
            Step::Publish => drop(kernel.publish()),
            Step::Take { times } => {
                for _ in 0..times {
                    out.clear();
                    match kernel.take(&mut out) {
                        Ok(Some(Down::Done(n))) => drop(waiting.drain(..n as usize)),
                        Ok(Some(Down::Stop(n))) => assert!((n as usize) < waiting.len()),
                        Ok(Some(Down::Send { message, .. })) => {
                            assert!(message.len() <= CAPACITY as usize / 2 - 24);
                        }
                        Ok(None) => break,
                        Err(_) => return check(&mut kernel, waiting, &mut out),
                    }
                }
            }
            Step::Release => drop(kernel.release()),
            Step::Sleep => {
                if kernel.prepare_to_sleep().is_err() {
                    return check(&mut kernel, waiting, &mut out);
                }
                kernel.awake();
            }
        }
        assert_eq!(kernel.outstanding() as usize, waiting.len());
    }
    check(&mut kernel, waiting, &mut out);
});

/// Checks that the pending records are those that a new zone would receive.
fn check(kernel: &mut KernelEnd, waiting: VecDeque<Vec<u8>>, out: &mut Vec<u8>) {
    for body in waiting {
        assert!(kernel.oldest(out));
        assert_eq!(out[8..], body);
        kernel.drop_oldest(1);
    }
    assert!(!kernel.oldest(out));
}
