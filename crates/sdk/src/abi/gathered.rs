//! Queues records for an application in the caller's own process, until the application has handled them.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::slice;

use sys::ring::Batch;

use super::{RECORD_HEAD, Record, Words};

const WORD: usize = size_of::<u64>();

const _: () = assert!(align_of::<Record>() <= align_of::<u64>(), "a record may lie at any word");

/// A whole record at a multiple of 8 bytes, which stays there for `'r`.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct WholeRecord<'r> {
    /// Not a reference: that would cover the head only, and the body behind it is read through the pointer too.
    start: *const Record,
    lies: PhantomData<&'r Record>,
}

impl<'r> WholeRecord<'r> {
    /// Returns the record at the beginning of these bytes.
    ///
    /// # Panics
    /// If the record is not whole or not aligned. Records come from a ring that was checked.
    #[inline]
    pub fn of(record: &'r [u8]) -> Self {
        #[expect(clippy::cast_ptr_alignment, reason = "checked in the next line")]
        let words = record.as_ptr().cast::<u64>();
        let size = record
            .first_chunk::<RECORD_HEAD>()
            .map_or(0, |[a, b, c, d, ..]| u32::from_le_bytes([*a, *b, *c, *d]) as usize);
        let is_whole = (RECORD_HEAD..=record.len()).contains(&size);
        assert!(is_whole && words.is_aligned(), "a whole record");
        // SAFETY: it is borrowed for `'r`, and has all that its head says, as was just checked.
        unsafe { Self::at(words) }
    }

    /// Returns the records of a ring's batch.
    ///
    /// # Panics
    /// If one has no whole head. The kernel writes only records with one.
    #[inline]
    pub fn all<'b>(batch: &'b Batch<'r>) -> &'b [Self] {
        assert!(batch.least() as usize >= RECORD_HEAD, "whole records");
        let starts = batch.starts();
        // SAFETY: each is a pointer to a whole record that lies there for `'r`, as the batch says.
        unsafe { slice::from_raw_parts(starts.as_ptr().cast(), starts.len()) }
    }

    /// Returns the beginning of each record.
    #[inline]
    pub(super) fn pointers(records: &[Self]) -> &[*const Record] {
        // SAFETY: a record is `repr(transparent)` over such a pointer.
        unsafe { slice::from_raw_parts(records.as_ptr().cast(), records.len()) }
    }

    /// Returns the record at these words.
    ///
    /// # Safety
    /// A whole record is there for `'r`, and nobody changes it.
    #[inline]
    unsafe fn at(words: *const u64) -> Self {
        Self { start: words.cast(), lies: PhantomData }
    }

    /// Returns its bytes.
    #[inline]
    pub fn bytes(self) -> &'r [u8] {
        // SAFETY: a whole record begins there, as the field says, and stays for `'r`.
        let size = unsafe { (*self.start).size } as usize;
        // SAFETY: a whole record has as many bytes as its head says.
        unsafe { slice::from_raw_parts(self.start.cast(), size) }
    }

    /// Returns its beginning.
    #[inline]
    pub(super) fn start(self) -> *const Record {
        self.start
    }
}

/// A queue of whole records in one buffer, each at a multiple of 8 bytes; the oldest first.
#[derive(Debug, Default)]
pub struct Gathered {
    words: Vec<u64>,
    /// The first word of each.
    starts: Vec<usize>,
}

/// Writes records into room that was made once for all of them.
#[derive(Debug)]
pub struct Writer<'g> {
    words: &'g mut [MaybeUninit<u64>],
    starts: slice::IterMut<'g, MaybeUninit<usize>>,
    /// The first word of the next.
    next: usize,
}

impl Writer<'_> {
    /// Writes a record: `head`, whose first word's low half is replaced by the size, then `body`. Returns `false` if there
    /// is no room for it.
    ///
    /// # Panics
    /// If the record has more than `u32::MAX` bytes.
    #[expect(
        clippy::inline_always,
        reason = "the words of a head that was just made stay in registers"
    )]
    #[inline(always)]
    pub fn push(&mut self, head: &Words, body: &[u8]) -> bool {
        // First of all: nothing behind it can panic, so each start that is taken is written.
        let size = u32::try_from(size_of_val(head) + body.len()).expect("a record is short");
        let count = head.len() + body.len().div_ceil(WORD);
        if self.words.len() < count {
            return false;
        }
        let Some(start) = self.starts.next() else { return false };
        let (room, rest) = std::mem::take(&mut self.words).split_at_mut(count);
        let (to_head, to_body) = room.split_at_mut(head.len());
        for (to, word) in to_head.iter_mut().zip(head) {
            to.write(*word);
        }
        to_head[0].write(head[0] >> 32 << 32 | u64::from(size));
        if let Some(last) = to_body.last_mut() {
            last.write(0); // for the bytes behind the body
        }
        // SAFETY: `to_body` has room for all bytes of `body`, and does not overlap it, as both are borrowed.
        unsafe {
            to_body.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(body.as_ptr(), body.len());
        };
        start.write(self.next);
        self.next += count;
        self.words = rest;
        true
    }
}

impl Gathered {
    /// Writes a record, as [`Writer::push`] does.
    ///
    /// # Panics
    /// If the record has more than `u32::MAX` bytes.
    pub fn push(&mut self, head: &Words, body: &[u8]) {
        let size = size_of_val(head) + body.len().next_multiple_of(WORD);
        self.write(1, size, |writer| writer.push(head, body));
    }

    /// Makes room for up to `records` records of together up to `bytes` bytes, lets `write` write them, and returns its
    /// result.
    #[inline]
    pub fn write<T>(
        &mut self,
        records: usize,
        bytes: usize,
        write: impl for<'w> FnOnce(&mut Writer<'w>) -> T,
    ) -> T {
        let (next, words) = (self.words.len(), bytes / WORD);
        self.words.reserve(words);
        self.starts.reserve(records);
        let mut writer = Writer {
            words: &mut self.words.spare_capacity_mut()[..words],
            starts: self.starts.spare_capacity_mut()[..records].iter_mut(),
            next,
        };
        let written = write(&mut writer);
        let (next, left) = (writer.next, writer.starts.len());
        let count = self.starts.len() + records - left;
        // SAFETY: there is capacity for `words` more. `Writer::push` has written all of them before `next`: each record's
        // head, its body's last word, and all bytes of the body before that. `write` cannot have replaced the writer: no
        // other has its lifetime.
        unsafe { self.words.set_len(next) };
        // SAFETY: there is capacity for `records` more, and those that are no longer left were written.
        unsafe { self.starts.set_len(count) };
        written
    }

    /// Returns the number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the bytes of all records.
    #[inline]
    pub fn size(&self) -> usize {
        self.words.len() * WORD
    }

    /// Returns the bytes of each record, the oldest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.words.len() * WORD;
        // SAFETY: the memory of the words, which are borrowed for as long and have no padding.
        let bytes = unsafe { slice::from_raw_parts(self.words.as_ptr().cast::<u8>(), bytes) };
        self.starts.iter().map(|start| {
            let size = self.words[*start] & 0xffff_ffff;
            &bytes[*start * WORD..][..size as usize]
        })
    }

    /// Returns the records as an application gets them.
    #[inline]
    pub fn records(&self) -> impl Iterator<Item = WholeRecord<'_>> + Clone {
        let words = self.words.as_ptr();
        // SAFETY: `Writer::push` wrote a whole record from there on, and nobody changes it while it is borrowed.
        self.starts.iter().map(move |start| unsafe { WholeRecord::at(words.wrapping_add(*start)) })
    }

    /// Removes the oldest `count` records, or all if there are fewer.
    pub fn drop_oldest(&mut self, count: usize) {
        match self.starts.get(count) {
            None => {
                self.words.clear();
                self.starts.clear();
            }
            // This is rare and moves little: an application takes whole batches.
            Some(&first) if count > 0 => {
                self.words.drain(..first);
                self.starts.drain(..count);
                self.starts.iter_mut().for_each(|start| *start -= first);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use sys::ring::{KernelEnd, Room, ZoneEnd, memory_size};
    use sys::shm::on_heap;

    use super::*;
    use crate::abi::RecordKind;

    fn push(gathered: &mut Gathered, number: u8, size: usize) {
        let head = Record::new(RecordKind::PacketIn, 4, u64::from(number), 1).words();
        gathered.push(&head, &vec![number; size]);
    }

    #[test]
    fn records_of_any_size_come_out_unchanged() {
        let mut gathered = Gathered::default();
        let mut next = 0;
        for step in 0..50_usize {
            for _ in 0..step % 7 {
                let number = u8::try_from(gathered.len() + next).unwrap();
                push(&mut gathered, number, usize::from(number) % 19);
            }
            let count = gathered.len();
            assert_eq!(gathered.iter().count(), count);
            let starts = gathered.iter().map(|record| WholeRecord::of(record).start());
            assert!(gathered.records().map(WholeRecord::start).eq(starts));
            for (place, record) in gathered.iter().enumerate() {
                let number = u8::try_from(next + place).unwrap();
                let body = vec![number; usize::from(number) % 19];
                assert_eq!(record.len(), RECORD_HEAD + body.len());
                assert_eq!(record[..4], u32::try_from(record.len()).unwrap().to_le_bytes());
                assert_eq!(record[8..16], u64::from(number).to_le_bytes());
                assert_eq!(record[RECORD_HEAD..], body);
                assert_eq!(record.as_ptr().align_offset(align_of::<Record>()), 0);
            }
            let handled = count.min(step % 5);
            gathered.drop_oldest(handled);
            next += handled;
        }
        gathered.drop_oldest(gathered.len());
        assert_eq!((gathered.size(), gathered.is_empty()), (0, true));
    }

    #[test]
    fn only_a_whole_aligned_slice_is_a_record() {
        let mut gathered = Gathered::default();
        push(&mut gathered, 7, 20);
        push(&mut gathered, 8, 0);
        let size = gathered.iter().next().unwrap().len();
        // SAFETY: the words' own memory.
        let all =
            unsafe { slice::from_raw_parts(gathered.words.as_ptr().cast::<u8>(), gathered.size()) };
        let is_one =
            |slice: &[u8]| std::panic::catch_unwind(|| WholeRecord::of(slice).start()).is_ok();
        assert!(is_one(&all[..size]) && is_one(all), "with more behind it, too");
        assert!(!is_one(&all[..size - 1]), "it says more than there is");
        assert!(!is_one(&all[..RECORD_HEAD - 1]) && !is_one(&[]));
        assert!(!is_one(&all[4..]), "it lies between two words");
    }

    #[test]
    fn batch_with_a_cut_head_panics() {
        const CAPACITY: u32 = 4096;
        let size = memory_size(CAPACITY);
        let ((up, up_view), (down, down_view)) = (on_heap(size), on_heap(size));
        let mut kernel = KernelEnd::over(up, down_view, CAPACITY);
        let mut zone = ZoneEnd::over(up_view, down, CAPACITY).records;
        assert!(WholeRecord::all(&zone.batch(9).unwrap()).is_empty());
        let head = Record::new(RecordKind::PacketIn, 4, 7, 1).words();
        assert!(kernel.push(&head, &[1; 20], Room::All) && kernel.push(&head, &[], Room::All));
        kernel.publish();
        let batch = zone.batch(9).unwrap();
        let sizes: Vec<_> = WholeRecord::all(&batch)
            .iter()
            // SAFETY: it is a whole record.
            .map(|record| unsafe { record.start().read() }.size as usize)
            .collect();
        assert_eq!(sizes, [RECORD_HEAD + 20, RECORD_HEAD]);
        assert!(kernel.push(&head[..5], &[1; 7], Room::All), "a byte less than a head");
        assert!(kernel.push(&head, &[1; 20], Room::All));
        kernel.publish();
        let batch = zone.batch(9).unwrap();
        assert_eq!(batch.len(), 4);
        assert!(std::panic::catch_unwind(|| WholeRecord::all(&batch).len()).is_err());
    }

    #[test]
    fn writer_stops_at_its_room() {
        let head = Record::new(RecordKind::PacketIn, 4, 7, 1).words();
        for (records, bytes, sizes) in [
            (2, 1000, &[true, true, false][..]),
            (9, 2 * RECORD_HEAD + 32, &[true, true, false]),
            (9, 2 * RECORD_HEAD + 31, &[true, false, false]),
            (0, 1000, &[false]),
            (9, 0, &[false]),
        ] {
            let mut gathered = Gathered::default();
            push(&mut gathered, 1, 5);
            let written = gathered.write(records, bytes, |writer| {
                sizes.iter().map(|_| writer.push(&head, &[9; 11])).collect::<Vec<_>>()
            });
            assert_eq!(written, sizes, "{records} {bytes}");
            push(&mut gathered, 2, 6);
            let bodies: Vec<&[u8]> = gathered.iter().map(|record| &record[RECORD_HEAD..]).collect();
            let count = written.iter().filter(|written| **written).count();
            assert_eq!(bodies[0], [1; 5]);
            assert_eq!(bodies[1..=count], vec![&[9_u8; 11][..]; count]);
            assert_eq!((bodies[count + 1], bodies.len()), (&[2; 6][..], count + 2));
        }
    }
}
