//! Records for an application in the caller's own process, from when they are written until the
//! application has handled them.

use super::{MAX_BATCH, Record, Words};

const WORD: usize = size_of::<u64>();

const _: () = assert!(align_of::<Record>() <= align_of::<u64>(), "a record may lie at any word");

/// Whole records, one behind the other, each at a multiple of 8 bytes; the oldest first.
#[derive(Debug, Default)]
pub struct Gathered {
    words: Vec<u64>,
    places: Vec<Place>,
}

/// Where a record is.
#[derive(Debug)]
struct Place {
    /// Its first word.
    start: usize,
    /// How many bytes it has.
    size: usize,
}

impl Gathered {
    /// Writes a record: `head`, whose first word's low half is replaced by the size, then `body`.
    ///
    /// # Panics
    /// If the record has more than `u32::MAX` bytes.
    #[expect(
        clippy::inline_always,
        reason = "a head that was just made is not read from memory anew"
    )]
    #[inline(always)]
    pub fn push(&mut self, head: &Words, body: &[u8]) {
        let size = size_of_val(head) + body.len();
        let start = self.words.len();
        let size_in_head = u64::from(u32::try_from(size).expect("a record is short"));
        let count = head.len() + body.len().div_ceil(WORD);
        // Room is looked for once, and not for each word.
        self.words.reserve(count);
        let room = &mut self.words.spare_capacity_mut()[..count];
        let (to_head, to_body) = room.split_at_mut(head.len());
        for (to, word) in to_head.iter_mut().zip(head) {
            to.write(*word);
        }
        to_head[0].write(head[0] >> 32 << 32 | size_in_head);
        if let Some(last) = to_body.last_mut() {
            last.write(0); // what the body leaves of it
        }
        // SAFETY: `to_body` has as many words as the body begins, so at least its bytes, which are no part of
        // it: that was borrowed from elsewhere.
        unsafe {
            to_body.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(body.as_ptr(), body.len());
        };
        // SAFETY: there is capacity for `count` more, and each was written above: the head's, the body's last,
        // and with the body's bytes all before that.
        unsafe { self.words.set_len(start + count) };
        self.places.push(Place { start, size });
    }

    /// How many records there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes that they take.
    #[inline]
    pub fn size(&self) -> usize {
        self.words.len() * WORD
    }

    /// Puts the oldest into `batch`, as many as there are and as it holds; says how many.
    pub fn oldest<'r>(&'r self, batch: &mut [&'r [u8]; MAX_BATCH]) -> usize {
        let bytes = self.words.len() * WORD;
        // SAFETY: the words' own memory, of which any byte may be looked at, for as long as they
        // are borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<u8>(), bytes) };
        let mut count = 0;
        for (slot, place) in batch.iter_mut().zip(&self.places) {
            let start = place.start * WORD;
            *slot = &bytes[start..start + place.size];
            count += 1;
        }
        count
    }

    /// Forgets the oldest `count`, or all if there are not as many.
    pub fn drop_oldest(&mut self, count: usize) {
        match self.places.get(count) {
            None => {
                self.words.clear();
                self.places.clear();
            }
            // What is left over is little, and seldom: an application takes whole batches.
            Some(first) if count > 0 => {
                let first = first.start;
                self.words.drain(..first);
                self.places.drain(..count);
                self.places.iter_mut().for_each(|place| place.start -= first);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{RECORD_HEAD, RecordKind};

    fn push(gathered: &mut Gathered, number: u8, size: usize) {
        let head = Record::new(RecordKind::PacketIn, 4, u64::from(number), 1).words();
        gathered.push(&head, &vec![number; size]);
    }

    #[test]
    fn records_come_out_as_they_went_in_whatever_their_size() {
        let mut gathered = Gathered::default();
        let mut next = 0;
        for step in 0..50_usize {
            for _ in 0..step % 7 {
                let number = u8::try_from(gathered.len() + next).unwrap();
                push(&mut gathered, number, usize::from(number) % 19);
            }
            let mut batch: [&[u8]; MAX_BATCH] = [&[]; MAX_BATCH];
            let count = gathered.oldest(&mut batch);
            assert_eq!(count, gathered.len());
            for (place, record) in batch[..count].iter().enumerate() {
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
    fn batch_holds_the_oldest_if_there_are_more() {
        let mut gathered = Gathered::default();
        for number in 0..=u8::try_from(MAX_BATCH).unwrap() {
            push(&mut gathered, number, 8);
        }
        let mut batch: [&[u8]; MAX_BATCH] = [&[]; MAX_BATCH];
        assert_eq!(gathered.oldest(&mut batch), MAX_BATCH);
        gathered.drop_oldest(MAX_BATCH);
        let mut batch: [&[u8]; MAX_BATCH] = [&[]; MAX_BATCH];
        assert_eq!(gathered.oldest(&mut batch), 1);
        assert_eq!(batch[0][8], u8::try_from(MAX_BATCH).unwrap());
    }
}
