//! Produces up records for a zone, and consumes down records of a zone that may be hostile.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use super::{
    ASLEEP, AWAKE, CONSUMED, DONE, FOR_RECORDS, FOR_ROOM, First, HEADER, PAD, PRODUCED, PeerFault,
    RingFds, SEND, SEND_HEAD, STOP, Slot, VERDICT, WORD, last_word, memory_size, offset,
};
use crate::shm::{Shared, SharedView, Word, fence};

/// The part of the ring that a class of records may use, so that a flood of packet-ins leaves room for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The whole ring, for events.
    All,
    /// Three quarters, for packet-ins that a network cannot do without, and for answers to the app.
    AllButReserve,
    /// Five eighths, for all other packet-ins, whose number has no limit. The eighth that they leave free holds some 200
    /// ARP or LLDP packets in a ring of 256 KB. Half of five eighths of such a ring just holds the longest message.
    Ordinary,
}

impl Room {
    /// Bytes of a ring of `capacity` bytes that this class may use.
    pub fn of(self, capacity: u32) -> usize {
        capacity as usize - self.keep(capacity)
    }

    /// Bytes of a ring of `capacity` bytes that this class must leave free.
    pub fn keep(self, capacity: u32) -> usize {
        let eighth = capacity as usize / 8;
        match self {
            Self::All => 0,
            Self::AllButReserve => 2 * eighth,
            Self::Ordinary => 3 * eighth,
        }
    }
}

/// A down record of the zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down<'o> {
    /// A message for a switch, or several messages, each at a multiple of 8 bytes.
    Send {
        /// The connection of the datapath that the app means.
        epoch: u32,
        /// The datapath.
        dpid: u64,
        /// A number that belongs to the message and has no meaning for the ring; usually 0.
        number: u32,
        /// The unchecked messages, in the caller's private memory.
        message: &'o [u8],
    },
    /// The record with this number, counted from the oldest one that is not done, must not go to later apps.
    Stop(u32),
    /// This number of the oldest records is handled. Their room is free already.
    Done(u32),
}

/// Consecutive words of an up ring for new records.
#[derive(Debug)]
pub struct Span<'r> {
    words: &'r [Word],
    /// Most bytes of a record.
    longest: usize,
    /// The end of the last record written.
    written: &'r mut u64,
    ends: &'r mut VecDeque<u32>,
}

impl Span<'_> {
    /// Writes a record in the same way as [`KernelEnd::push`]. `false` if these words have no room for it.
    ///
    /// # Panics
    /// If `head` is empty.
    #[expect(clippy::inline_always, reason = "as for `KernelEnd::push`")]
    #[inline(always)]
    pub fn push(&mut self, head: &[u64], body: &[u8]) -> bool {
        let size = (head.len() * WORD + body.len()).next_multiple_of(WORD);
        if size > self.longest {
            return false;
        }
        let Some((to, rest)) = self.words.split_at_checked(size / WORD) else { return false };
        store_record(to, head, body);
        self.words = rest;
        *self.written += size as u64;
        self.ends.push_back(low_half(*self.written));
        true
    }
}

/// The kernel's side of a ring pair.
#[derive(Debug)]
pub struct KernelEnd {
    up: Shared,
    down: SharedView,
    capacity: u32,
    /// Up: end of the last record written, and of the last one published.
    written: u64,
    published: u64,
    /// Up: start of the oldest record that is not done, and the low halves of the positions where each record from there
    /// ends. The ring contains the sizes too, and reading one after the other there would be a chain of cache misses.
    freed: u64,
    ends: VecDeque<u32>,
    /// How many of these records were published.
    shown: u32,
    /// Down: start of the next record, and the checked end of the readable records.
    next: u64,
    limit: u64,
    /// Down: the position up to which the zone knows that its room is free.
    released: u64,
}

impl KernelEnd {
    /// Makes a ring pair whose rings hold `capacity` bytes each.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    ///
    /// # Panics
    /// If `capacity` is not a power of two of at least a page.
    pub fn create(capacity: u32) -> io::Result<(Self, RingFds)> {
        let (up, up_fd) = Shared::written_by_us("rosemary-up", memory_size(capacity))?;
        let (down, down_fd) = SharedView::written_by_peer("rosemary-down", memory_size(capacity))?;
        Ok((Self::over(up, down, capacity), RingFds { up: up_fd, down: down_fd }))
    }

    /// The kernel's end of rings with `capacity` bytes each in these two memories. The zone has their other sides.
    ///
    /// # Panics
    /// If the memories have another size.
    pub fn over(up: Shared, down: SharedView, capacity: u32) -> Self {
        let words = memory_size(capacity) / WORD;
        assert!(up.words().len() == words && down.words().len() == words, "of a ring's size");
        Self {
            up,
            down,
            capacity,
            written: 0,
            published: 0,
            freed: 0,
            ends: VecDeque::with_capacity(capacity as usize / 64), // most records are longer
            shown: 0,
            next: 0,
            limit: 0,
            released: 0,
        }
    }

    /// Writes an up record: `head`, with the size in the low half of its first word, and `body`. The zone sees it after
    /// [`publish`](Self::publish).
    ///
    /// `false` if there is no room now, or if the record is longer than half of the part that `room` allows.
    ///
    /// # Panics
    /// If `head` is empty.
    #[expect(clippy::inline_always, reason = "so that the words of a new head stay in registers")]
    #[inline(always)]
    pub fn push(&mut self, head: &[u64], body: &[u8], room: Room) -> bool {
        let size = head.len() * WORD + body.len();
        let keep = room.keep(self.capacity);
        let Some(slot) = Slot::find(self.capacity, keep, self.written, size) else {
            return false;
        };
        if slot.total() + keep > self.free() {
            return false;
        }
        if slot.pad > 0 {
            self.store(self.written, First { size: to_u32(slot.pad), kind: PAD }.word());
            self.written += slot.pad as u64;
        }
        let start = self.index(self.written);
        store_record(&self.up.words()[start..start + slot.size / WORD], head, body);
        self.written += slot.size as u64;
        self.ends.push_back(low_half(self.written));
        true
    }

    /// Calls `write` with the words up to the ring's end, for several records without padding between them. Returns its
    /// result.
    #[inline]
    pub fn write<T>(&mut self, room: Room, write: impl for<'w> FnOnce(&mut Span<'w>) -> T) -> T {
        let to_end = self.capacity as usize - offset(self.written, self.capacity as usize);
        let (start, count) = (self.index(self.written), self.room(room).min(to_end) / WORD);
        let words = &self.up.words()[start..start + count];
        let longest = room.of(self.capacity) / 2;
        write(&mut Span { words, longest, written: &mut self.written, ends: &mut self.ends })
    }

    /// Publishes the pushed records. `true` if the zone sleeps and the caller must ring its doorbell.
    pub fn publish(&mut self) -> bool {
        if self.published == self.written {
            return false;
        }
        self.published = self.written;
        self.shown = self.outstanding();
        self.up.words()[PRODUCED].store(self.written, Ordering::Release);
        fence(Ordering::SeqCst); // pairs with the fence of `DownWriter::prepare_to_sleep`
        self.down.load(ASLEEP) == FOR_RECORDS
    }

    /// Takes the next down record and appends its message to `out`; `None` if there is none.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone wrote an impossible value.
    pub fn take<'o>(&mut self, out: &'o mut Vec<u8>) -> Result<Option<Down<'o>>, PeerFault> {
        loop {
            if self.next == self.limit && !self.look()? {
                return Ok(None);
            }
            let at = self.next;
            let start = self.index(at);
            let first = First::of(self.down.load(start)); // once: the peer may change it
            let to_end = self.capacity - to_u32(offset(at, self.capacity as usize));
            let most = to_end.min(to_u32_saturating(self.limit - at));
            let check = |least: usize, most: u32| {
                let (size, least) = (first.size, to_u32(least));
                if size < least || size > most || size.next_multiple_of(8) > most {
                    return Err(PeerFault::Size { at, size, least, most });
                }
                Ok(())
            };
            match first.kind {
                PAD => {
                    // Padding is shorter than the record behind it, so two never follow each other. A zone that
                    // writes during the read therefore cannot keep this loop running.
                    let most = most.min(self.capacity / 2);
                    if first.size != to_end || first.size > most {
                        let (least, most) = (to_end, to_end.min(most));
                        return Err(PeerFault::Size { at, size: first.size, least, most });
                    }
                    self.next += u64::from(first.size);
                }
                SEND => {
                    check(SEND_HEAD, most.min(self.capacity / 2))?;
                    self.next += u64::from(first.size.next_multiple_of(8));
                    let word = self.down.load(start + 1);
                    let (epoch, number) = (low_half(word), low_half(word >> 32));
                    let dpid = self.down.load(start + 2);
                    let before = out.len();
                    self.copy_down(start + 3, first.size as usize - SEND_HEAD, out);
                    let message = &out[before..];
                    return Ok(Some(Down::Send { epoch, dpid, number, message }));
                }
                STOP | DONE => {
                    check(VERDICT, to_u32(VERDICT).min(most))?;
                    self.next += VERDICT as u64;
                    let claimed = low_half(self.down.load(start + 1));
                    let outstanding = self.shown;
                    let stop = first.kind == STOP;
                    if claimed > outstanding || (stop && claimed == outstanding) {
                        return Err(PeerFault::Verdict { claimed, outstanding });
                    }
                    if stop {
                        return Ok(Some(Down::Stop(claimed)));
                    }
                    self.drop_oldest(claimed);
                    return Ok(Some(Down::Done(claimed)));
                }
                kind => return Err(PeerFault::Kind { at, kind }),
            }
        }
    }

    /// Frees the room of all down records taken so far. `true` if the zone sleeps until there is room and the caller
    /// must ring its doorbell.
    pub fn release(&mut self) -> bool {
        if self.released == self.next {
            return false;
        }
        self.released = self.next;
        self.up.words()[CONSUMED].store(self.next, Ordering::Release);
        fence(Ordering::SeqCst); // pairs with the fence of `DownWriter::prepare_to_wait_for_room`
        self.down.load(ASLEEP) == FOR_ROOM
    }

    /// Announces that this end is about to sleep. `true` if there is a record to take after all.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone's index is impossible.
    pub fn prepare_to_sleep(&mut self) -> Result<bool, PeerFault> {
        self.up.words()[ASLEEP].store(FOR_RECORDS, Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with the fence of `DownWriter::done`
        self.look()
    }

    /// Announces that this end is awake again.
    pub fn awake(&mut self) {
        self.up.words()[ASLEEP].store(AWAKE, Ordering::Relaxed);
    }

    /// Free bytes for records of a class. A record of that size may still be refused, if it needs padding up to the
    /// ring's end.
    pub fn room(&self, room: Room) -> usize {
        self.free().saturating_sub(room.keep(self.capacity))
    }

    /// Bytes of all handled records since the start, with their padding.
    pub fn handled(&self) -> u64 {
        self.freed
    }

    /// The number of records that the zone has not handled.
    pub fn outstanding(&self) -> u32 {
        to_u32(self.ends.len())
    }

    /// Copies the oldest record that is not done into `out`; `false` if there is none.
    ///
    /// This is for a zone that has ended. The record is intact, because only the kernel can write the up memory.
    pub fn oldest(&self, out: &mut Vec<u8>) -> bool {
        if self.ends.is_empty() {
            return false;
        }
        let (at, first) = self.oldest_index();
        out.clear();
        let words = self.up.words()[at..].iter().take((first.size as usize).div_ceil(WORD));
        out.extend(words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()));
        out.truncate(first.size as usize);
        true
    }

    /// Drops the oldest `count` records that are not done.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn drop_oldest(&mut self, count: u32) {
        let Some(last) = count.checked_sub(1) else { return };
        let end = self.ends[last as usize];
        self.freed += u64::from(end.wrapping_sub(low_half(self.freed)));
        self.ends.drain(..count as usize);
        self.shown = self.shown.saturating_sub(count);
        if self.ends.is_empty() {
            self.freed = self.written; // frees the padding, too, so that an idle ring is empty
        }
    }

    /// The index of the oldest record's first word behind any padding, and that word.
    fn oldest_index(&self) -> (usize, First) {
        let at = self.index(self.freed);
        let first = First::of(self.up.words()[at].load(Ordering::Relaxed));
        if first.kind != PAD {
            return (at, first);
        }
        let at = self.index(self.freed + u64::from(first.size));
        (at, First::of(self.up.words()[at].load(Ordering::Relaxed)))
    }

    /// Reads and checks the peer's index. Returns whether there is a record to take.
    fn look(&mut self) -> Result<bool, PeerFault> {
        let index = self.down.load_acquire(PRODUCED);
        let (from, capacity) = (self.next, self.capacity);
        let ahead = index.checked_sub(self.limit.max(from)).and_then(|_| index.checked_sub(from));
        if !ahead.is_some_and(|ahead| ahead <= u64::from(capacity) && index.is_multiple_of(8)) {
            return Err(PeerFault::Index { index, from, capacity });
        }
        self.limit = index;
        Ok(self.next != self.limit)
    }

    fn copy_down(&self, start: usize, size: usize, out: &mut Vec<u8>) {
        let words = &self.down.words()[start..start + size.div_ceil(WORD)];
        out.reserve(words.len() * WORD);
        let end = out.len() + size;
        let room = out.spare_capacity_mut().as_chunks_mut::<WORD>().0;
        for (to, word) in room.iter_mut().zip(words) {
            *to = word.load(Ordering::Relaxed).to_ne_bytes().map(MaybeUninit::new);
        }
        // SAFETY: the vector has capacity for all words, each was written, and `size` is at most their size.
        unsafe { out.set_len(end) };
    }

    fn free(&self) -> usize {
        let used = self.written - self.freed;
        self.capacity as usize - usize::try_from(used).expect("used is at most a u32 capacity")
    }

    fn store(&self, position: u64, word: u64) {
        self.up.words()[self.index(position)].store(word, Ordering::Relaxed);
    }

    fn index(&self, position: u64) -> usize {
        (HEADER + offset(position, self.capacity as usize)) / WORD
    }
}

/// Writes an up record to words of exactly its size.
#[expect(clippy::inline_always, reason = "as in `KernelEnd::push`")]
#[inline(always)]
fn store_record(to: &[Word], head: &[u64], body: &[u8]) {
    let (to_head, to_body) = to.split_at(head.len());
    for (to, word) in to_head.iter().zip(head) {
        to.store(*word, Ordering::Relaxed);
    }
    let first = head[0] >> 32 << 32 | u64::from(to_u32(size_of_val(head) + body.len()));
    to_head[0].store(first, Ordering::Relaxed);
    let (words, _) = body.as_chunks::<WORD>();
    for (to, word) in to_body.iter().zip(words) {
        to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
    if let (Some(last), Some(to)) = (last_word(body), to_body.last()) {
        to.store(last, Ordering::Relaxed);
    }
}

fn to_u32(size: usize) -> u32 {
    u32::try_from(size).expect("sizes in a ring are below its u32 capacity")
}

fn to_u32_saturating(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is the field")]
fn low_half(word: u64) -> u32 {
    word as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::shm::on_heap;

    #[test]
    fn records_are_freed_across_padding_and_wrapped_low_halves() {
        const CAPACITY: u32 = 4096;
        let size = memory_size(CAPACITY);
        let mut kernel = KernelEnd::over(on_heap(size).0, on_heap(size).1, CAPACITY);
        let begin = (1 << 32) - 1000;
        (kernel.written, kernel.published, kernel.freed) = (begin, begin, begin);
        let (mut waiting, mut number, mut out) = (VecDeque::new(), 0_u8, Vec::new());
        let mut next = || {
            number = number.wrapping_add(1);
            vec![number; usize::from(number) * 37 % 200 + 1]
        };
        for step in 0..200 {
            kernel.write(Room::All, |span| {
                for body in std::iter::repeat_with(&mut next).take(step % 5) {
                    if span.push(&[6 << 32], &body) {
                        waiting.push_back(body);
                    }
                }
            });
            let body = next(); // behind padding, perhaps
            if kernel.push(&[6 << 32], &body, Room::All) {
                waiting.push_back(body);
            }
            assert_eq!(kernel.outstanding() as usize, waiting.len());
            let count = waiting.len() * (step % 4) / 3;
            kernel.drop_oldest(to_u32(count));
            waiting.drain(..count);
            assert_eq!(kernel.oldest(&mut out), !waiting.is_empty());
            if let Some(body) = waiting.front() {
                assert_eq!(&out[8..], body, "step {step}");
            }
        }
        assert!(kernel.written > 1 << 32, "{}", kernel.written);
    }

    #[test]
    fn last_word_is_filled_up_with_zeros() {
        let bytes: Vec<u8> = (1..=20).collect();
        for size in 0..bytes.len() {
            let (_, tail) = bytes[..size].as_chunks::<8>();
            let mut word = [0; 8];
            word[..tail.len()].copy_from_slice(tail);
            let expected = (!tail.is_empty()).then(|| u64::from_ne_bytes(word));
            assert_eq!(last_word(&bytes[..size]), expected, "{size}");
        }
    }
}
