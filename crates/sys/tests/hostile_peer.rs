//! Runs the kernel's end of a ring against a second process that scribbles over the whole down memory.
//!
//! The peer is this test program, started with the memory as its standard input. It writes plausible data: valid
//! records whose sizes it then changes during the read, possible indices, and noise. The kernel's end must return a
//! record or a fault each time, even if two reads of a word differ.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rosemary_sys::ring::{Down, KernelEnd, PeerFault, Room};
use rosemary_sys::shm::{Shared, SharedView, on_heap};

const CAPACITY: u32 = 4096;
const HEADER: usize = 4096;
const SIZE: usize = HEADER + CAPACITY as usize;
const RECORDS: [&[u8]; 3] = [b"one", b"two", b"three"];
const PEER: &str = "ROSEMARY_TEST_HOSTILE_PEER";

/// The other process, which ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug, Default)]
struct Counts {
    messages: u64,
    verdicts: u64,
    index: u64,
    size: u64,
    kind: u64,
    verdict: u64,
}

#[test]
fn scribbling_zone_causes_faults_and_nothing_else() {
    let (view, fd) = SharedView::written_by_peer("rosemary-down", SIZE).unwrap();
    let peer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_hostile_peer_itself"])
        .env(PEER, "1")
        .stdin(fd.try_clone().unwrap())
        .stdout(Stdio::null())
        .spawn();
    let mut peer = Peer(peer.unwrap());
    let start = Instant::now();
    while view.load(SIZE / 8 - 1) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "the peer does not start");
        std::thread::sleep(Duration::from_millis(1));
    }

    let (mut counts, mut out) = (Counts::default(), Vec::new());
    let end = Instant::now() + Duration::from_secs(3);
    for rounds in 1..=1_000_000 {
        let down = SharedView::map(&fd, SIZE).unwrap();
        match round(&mut KernelEnd::over(on_heap(SIZE).0, down, CAPACITY), &mut out, &mut counts) {
            Ok(()) => {}
            Err(PeerFault::Index { .. }) => counts.index += 1,
            Err(PeerFault::Size { .. }) => counts.size += 1,
            Err(PeerFault::Kind { .. }) => counts.kind += 1,
            Err(PeerFault::Verdict { .. }) => counts.verdict += 1,
        }
        if Instant::now() > end {
            println!("{rounds} rounds: {counts:?}");
            break;
        }
    }
    assert_eq!(peer.0.try_wait().unwrap(), None, "the peer was there to the end");
    let Counts { messages, verdicts, index, size, kind, verdict } = counts;
    let all = [messages, verdicts, index, size, kind, verdict];
    assert!(all.iter().all(|&count| count > 0), "the peer was not hostile enough: {counts:?}");
}

/// Uses new rings as a kernel does, until 1,000 reads or a fault.
fn round(kernel: &mut KernelEnd, out: &mut Vec<u8>, counts: &mut Counts) -> Result<(), PeerFault> {
    for body in RECORDS {
        assert!(kernel.push(&[6 << 32], body, Room::All));
    }
    kernel.publish();
    let result = (0..1000).try_for_each(|_| {
        out.clear();
        match kernel.take(out)? {
            Some(Down::Send { message, .. }) => {
                assert!(message.len() <= CAPACITY as usize / 2);
                counts.messages += 1;
            }
            Some(Down::Stop(number)) => {
                assert!(number < kernel.outstanding());
                counts.verdicts += 1;
            }
            Some(Down::Done(_)) => counts.verdicts += 1,
            None => {
                kernel.prepare_to_sleep()?;
                kernel.awake();
            }
        }
        kernel.release();
        Ok(())
    });
    // The records that were not delivered must be unchanged.
    let done = RECORDS.len() - kernel.outstanding() as usize;
    for body in &RECORDS[done..] {
        assert!(kernel.oldest(out));
        assert_eq!(&out[8..], *body);
        kernel.drop_oldest(1);
    }
    result
}

/// The main function of the second process, and no test.
#[test]
fn the_hostile_peer_itself() {
    if std::env::var_os(PEER).is_none() {
        return;
    }
    let fd = io::stdin().as_fd().try_clone_to_owned().unwrap();
    let memory = Shared::map(&fd, SIZE).unwrap();
    let end = Instant::now() + Duration::from_secs(60); // in case the test does not end it
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    while Instant::now() < end {
        for _ in 0..1000 {
            scribble(&memory, &mut random);
        }
    }
}

fn scribble(memory: &Shared, random: &mut Random) {
    let store = |index: usize, word: u64| memory.words()[index].store(word, Ordering::Relaxed);
    let ring = HEADER / 8;
    let anywhere = ring + random.below(CAPACITY as usize / 8);
    match random.below(64) {
        0 => store(random.below(SIZE / 8), random.next()),
        1 => store(0, random.next()),
        2..8 => store(0, 8 * random.below(CAPACITY as usize / 8 + 2) as u64),
        8..16 => store(anywhere, random.record().0),
        16 => store(16, random.next()), // asleep
        // Valid records from the start, then the index.
        _ => {
            let (mut at, to) = (0, random.below(CAPACITY as usize));
            while at < to {
                let (first, size) = random.record();
                if at + size.max(16) > CAPACITY as usize {
                    break;
                }
                store(ring + at / 8, first);
                store(ring + at / 8 + 1, random.below(3) as u64);
                at += size;
            }
            store(SIZE / 8 - 1, 1);
            memory.words()[0].store(at as u64, Ordering::Release);
            // Then another size, while the reader may be at it.
            store(ring + random.below(64), random.record().0);
        }
    }
}

struct Random(u64);

impl Random {
    /// Marsaglia's xorshift.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % most
    }

    /// A record's first word, usually a valid one, and the bytes that it takes in the ring.
    fn record(&mut self) -> (u64, usize) {
        let (kind, size) = match self.below(64) {
            0 => (self.below(6), self.below(100)),
            1..16 => (3, 16),
            16..24 => (2, 16),
            _ => (1, 24 + self.below(200)),
        };
        ((size | kind << 32) as u64, size.next_multiple_of(8).max(8))
    }
}
