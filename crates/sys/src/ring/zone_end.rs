//! Reads up records in place, and writes messages directly into the down ring.
//!
//! The zone trusts the kernel, so it may use shared memory as byte slices: the kernel does not change a record before
//! `Done`, and does not read behind the published index.

use std::fmt;
use std::hint::black_box;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{
    ASLEEP, AWAKE, CONSUMED, DONE, FOR_RECORDS, FOR_ROOM, First, HEADER, LEAST_CAPACITY, MAX_BATCH,
    PAD, PRODUCED, PeerFault, RingFds, SEND, SEND_HEAD, STOP, Slot, VERDICT, WORD, memory_size,
    offset,
};
use crate::shm::{Shared, SharedView, fence};

/// Bytes that stay free for the verdicts on a batch: a `Stop` for each record, `Done`, and padding shorter than one of
/// them.
const VERDICTS: usize = (MAX_BATCH + 2) * VERDICT;

const _: () = assert!(MAX_BATCH <= u64::BITS as usize, "a bit for each record of a batch");

/// The zone's side of a ring pair. It has two halves, because the app holds records while it writes messages.
#[derive(Debug)]
pub struct ZoneEnd {
    /// Reads records.
    pub records: UpReader,
    /// Writes messages.
    pub messages: DownWriter,
}

impl ZoneEnd {
    /// Maps a ring pair that the kernel made.
    ///
    /// # Errors
    /// The descriptors are not such a pair with this capacity, or the system refuses.
    pub fn map(fds: &RingFds, capacity: u32) -> io::Result<Self> {
        if !capacity.is_power_of_two() || capacity < LEAST_CAPACITY {
            let text = format!("a ring cannot have a capacity of {capacity} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let up = SharedView::map(&fds.up, memory_size(capacity))?;
        let down = Shared::map(&fds.down, memory_size(capacity))?;
        Ok(Self::over(up, down, capacity))
    }

    /// The zone's end of rings with `capacity` bytes each in these two memories. The kernel has their other sides.
    ///
    /// # Panics
    /// If the memories have another size.
    pub fn over(up: SharedView, down: Shared, capacity: u32) -> Self {
        let words = memory_size(capacity) / WORD;
        assert!(up.words().len() == words && down.words().len() == words, "of a ring's size");
        let up = Arc::new(up);
        let records = UpReader {
            up: Arc::clone(&up),
            capacity,
            next: 0,
            ends: Box::new([0; MAX_BATCH]),
            count: 0,
            step: 0,
        };
        let messages =
            DownWriter { down, up, capacity, written: 0, published: 0, reserved: None, stopped: 0 };
        Self { records, messages }
    }
}

/// Records in the ring, the oldest first.
pub struct Batch<'r> {
    up: &'r SharedView,
    starts: [*const u64; MAX_BATCH],
    count: usize,
    least: u32,
}

impl<'r> Batch<'r> {
    /// The number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The size of the shortest record in bytes; `u32::MAX` if there are none.
    #[inline]
    pub fn least(&self) -> u32 {
        self.least
    }

    /// The address of each record, a multiple of 8. The whole record lies there and does not change for `'r`. The lower
    /// half of its first word is its size in bytes, which is at least [`least`](Self::least).
    #[inline]
    pub fn starts(&self) -> &[*const u64] {
        &self.starts[..self.count]
    }

    /// The records in place.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'r [u8]> {
        self.starts().iter().map(|start| {
            // SAFETY: `UpReader::batch` found the address inside the memory.
            let First { size, .. } = First::of(unsafe { start.read() });
            // SAFETY: the kernel, which the zone trusts, does not change a record before `Done` frees it. Only
            // `DownWriter::done` writes `Done`, and it needs the reader that is borrowed for `'r`.
            unsafe { self.up.bytes(*start, size as usize) }
        })
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The reading half.
#[derive(Debug)]
pub struct UpReader {
    up: Arc<SharedView>,
    capacity: u32,
    next: u64,
    /// The end positions of the current batch's records, and their number.
    ends: Box<[u64; MAX_BATCH]>,
    count: usize,
    /// The distance from the last record that was read to the next.
    step: u32,
}

impl UpReader {
    /// The oldest records that are not done, at most `most` and at most [`MAX_BATCH`], in place.
    ///
    /// # Errors
    /// [`PeerFault`] if the kernel wrote an impossible value, which is a bug in Rosemary.
    pub fn batch(&mut self, most: usize) -> Result<Batch<'_>, PeerFault> {
        self.count = 0;
        let produced = self.up.load_acquire(PRODUCED);
        let (from, capacity) = (self.next, self.capacity);
        if produced.checked_sub(from).is_none_or(|ahead| ahead > u64::from(capacity)) {
            return Err(PeerFault::Index { index: produced, from, capacity });
        }
        let (words, mut at, mut step) = (self.up.words(), from, self.step);
        let mut starts = [ptr::null(); MAX_BATCH];
        let (mut count, mut least) = (0, u32::MAX);
        let mut slots = starts.iter_mut().zip(&mut *self.ends).take(most);
        while at < produced {
            let at_byte = HEADER + offset(at, capacity as usize);
            let First { size, kind } = First::of(words[at_byte / WORD].load(Ordering::Relaxed));
            let to_end = HEADER + capacity as usize - at_byte;
            if size < 8 || size as usize > to_end {
                let most = u32::try_from(to_end).unwrap_or(capacity);
                return Err(PeerFault::Size { at, size, least: 8, most });
            }
            // Most records are as long as the one before. A core that predicts this branch reads the next record without
            // waiting for the size of this one.
            let padded = (size + 7) & !7;
            if padded != step {
                step = changed_step(padded);
            }
            let end = at + u64::from(step);
            if kind != PAD {
                let Some((start, its_end)) = slots.next() else { break };
                (*start, *its_end) = (self.up.address(at_byte / WORD, size as usize), end);
                (count, least) = (count + 1, least.min(size));
            }
            at = end;
        }
        (self.step, self.count) = (step, count);
        Ok(Batch { up: &self.up, starts, count, least })
    }

    /// Moves behind the first `n` records of the last batch.
    fn advance(&mut self, n: usize) {
        if let Some(last) = n.checked_sub(1) {
            self.next = self.ends[..self.count][last];
            self.count = 0;
        }
    }

    /// Whether the kernel has published further records.
    pub fn is_waiting(&self) -> bool {
        self.up.load_acquire(PRODUCED) != self.next
    }
}

/// Returns `step`, unknown to the compiler: if it saw that the step is the record's size, it would drop the branch.
#[cold]
#[inline(never)]
fn changed_step(step: u32) -> u32 {
    black_box(step)
}

/// The writing half.
#[derive(Debug)]
pub struct DownWriter {
    down: Shared,
    up: Arc<SharedView>,
    capacity: u32,
    /// End of the last record written, and of the last one published.
    written: u64,
    published: u64,
    /// The reserved room: where its record begins, and the longest message that fits.
    reserved: Option<(u64, usize)>,
    /// A bit for each record of the current batch that must not go to later apps.
    stopped: u64,
}

impl DownWriter {
    /// Reserves room in the ring for a message of up to `size` bytes. `None` if there is no room now, or if the record
    /// is longer than half of the ring without the room for verdicts.
    ///
    /// [`commit`](Self::commit) makes it a record. Another `reserve`, or the end of the batch, discards it.
    pub fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.reserve_between(size, size)
    }

    /// Reserves in the same way room for at least `least` bytes, and for up to `most` bytes where that needs no more padding.
    pub fn reserve_between(&mut self, least: usize, most: usize) -> Option<&mut [u8]> {
        self.reserved = None;
        let at = self.position_for(SEND_HEAD.checked_add(least)?, VERDICTS)?;
        let mut size = least;
        if most > least {
            let capacity = self.capacity as usize;
            let longest = (capacity - VERDICTS) / 2; // as in `Slot::find`
            let record = (capacity - offset(at, capacity)).min(self.free()).min(longest);
            let room = (record & !(WORD - 1)).saturating_sub(SEND_HEAD);
            size = least.max(most.min(room));
        }
        self.reserved = Some((at, size));
        Some(self.room())
    }

    /// The reserved room; empty if there is none.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        let Some((at, size)) = self.reserved else { return &mut [] };
        let at_byte = HEADER + offset(at, self.capacity as usize) + SEND_HEAD;
        // SAFETY: these bytes lie behind the published index, where the kernel does not read. The borrow of `self`
        // excludes other writers in this process.
        unsafe { self.down.bytes_mut(at_byte, size) }
    }

    /// Makes the first `size` bytes of the reserved room one or several messages for a switch. The next [`done`](Self::done)
    /// publishes it. `false` if there is no such reserved room.
    pub fn commit(&mut self, dpid: u64, epoch: u32, size: usize) -> bool {
        self.commit_with(dpid, epoch, size, 0)
    }

    /// Commits in the same way with the number of [`Down::Send`](super::Down::Send).
    pub fn commit_with(&mut self, dpid: u64, epoch: u32, size: usize, number: u32) -> bool {
        let Some((at, _)) = self.reserved.take().filter(|(_, room)| size <= *room) else {
            return false;
        };
        let record = SEND_HEAD + size;
        self.store(at, First { size: to_u32(record), kind: SEND }.word());
        self.store(at + 8, u64::from(epoch) | u64::from(number) << 32);
        self.store(at + 16, dpid);
        self.written = at + record.next_multiple_of(WORD) as u64;
        true
    }

    /// Keeps record `number` of the current batch from later apps.
    ///
    /// # Panics
    /// If `number` is not below [`MAX_BATCH`].
    pub fn stop(&mut self, number: usize) {
        assert!(number < MAX_BATCH, "a batch has at most {MAX_BATCH} records");
        self.stopped |= 1 << number;
    }

    /// Closes the batch: its oldest `n` records are handled. One store publishes all messages and verdicts since the
    /// last batch. `true` if the kernel sleeps and the caller must ring its doorbell.
    ///
    /// The borrow of `records` excludes holders of records, which the kernel may overwrite from here on. An empty batch
    /// writes nothing.
    ///
    /// # Panics
    /// If the last batch had fewer than `n` records, `records` belongs to another pair of rings, or the batch began
    /// without room ([`free`](Self::free) was 0).
    pub fn done(&mut self, records: &mut UpReader, n: usize) -> bool {
        assert!(Arc::ptr_eq(&self.up, &records.up), "the records are of this pair of rings");
        self.reserved = None;
        if n == 0 && !self.is_open() {
            return false;
        }
        while self.stopped != 0 {
            self.verdict(STOP, self.stopped.trailing_zeros());
            self.stopped &= self.stopped - 1;
        }
        records.advance(n);
        self.verdict(DONE, to_u32(n));
        self.published = self.written;
        self.down.words()[PRODUCED].store(self.written, Ordering::Release);
        fence(Ordering::SeqCst); // pairs with the fence of `KernelEnd::prepare_to_sleep`
        self.up.load(ASLEEP) != AWAKE
    }

    /// Discards all messages and verdicts since the last batch.
    pub fn roll_back(&mut self) {
        self.reserved = None;
        self.stopped = 0;
        self.written = self.published;
    }

    /// Free bytes for messages with their heads; padding may use some of them.
    ///
    /// At 0 no batch may begin, because there may be no room for its `Done`.
    pub fn free(&self) -> usize {
        let used = self.written - self.up.load_acquire(CONSUMED);
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        (self.capacity as usize).saturating_sub(used).saturating_sub(VERDICTS)
    }

    /// Whether there are unpublished messages or verdicts.
    pub fn is_open(&self) -> bool {
        self.written != self.published || self.stopped != 0
    }

    /// Announces that this end is about to sleep until there are records. `true` if there are some after all.
    pub fn prepare_to_sleep(&mut self, records: &UpReader) -> bool {
        self.down.words()[ASLEEP].store(FOR_RECORDS, Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with the fence of `KernelEnd::publish`
        records.is_waiting()
    }

    /// Announces that this end is about to sleep until there is more room than `had`. `true` if there is more after
    /// all.
    ///
    /// `had` must be a result of [`free`](Self::free) from *before* a message found no room. A later one may count room
    /// that the kernel has freed meanwhile. The kernel, which has no more room to free, would then never ring.
    pub fn prepare_to_wait_for_room(&mut self, had: usize) -> bool {
        self.down.words()[ASLEEP].store(FOR_ROOM, Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with the fence of `KernelEnd::release`
        self.free() > had
    }

    /// Announces that this end is awake again.
    pub fn awake(&mut self) {
        self.down.words()[ASLEEP].store(AWAKE, Ordering::Relaxed);
    }

    fn verdict(&mut self, kind: u16, number: u32) {
        let at = self.position_for(VERDICT, 0).expect("the batch was begun when there was room");
        self.store(at, First { size: to_u32(VERDICT), kind }.word());
        self.store(at + 8, u64::from(number));
        self.written = at + VERDICT as u64;
    }

    /// Returns the position for a record of `size` bytes if `keep` bytes must stay free behind it. Writes the padding
    /// before it.
    fn position_for(&mut self, size: usize, keep: usize) -> Option<u64> {
        let slot = Slot::find(self.capacity, keep, self.written, size)?;
        let used = self.written - self.up.load_acquire(CONSUMED);
        let free = (self.capacity as usize).checked_sub(usize::try_from(used).ok()?)?;
        if slot.total() + keep > free {
            return None;
        }
        if slot.pad > 0 {
            self.store(self.written, First { size: to_u32(slot.pad), kind: PAD }.word());
            self.written += slot.pad as u64;
        }
        Some(self.written)
    }

    fn store(&self, position: u64, word: u64) {
        let index = (HEADER + offset(position, self.capacity as usize)) / WORD;
        self.down.words()[index].store(word, Ordering::Relaxed);
    }
}

fn to_u32(size: usize) -> u32 {
    u32::try_from(size).expect("sizes in a ring are below its u32 capacity")
}
