//! Records for an application in the caller's own process, from when they are written until the
//! application has handled them.

use std::collections::VecDeque;

use super::{MAX_BATCH, Record};

const WORD: usize = size_of::<u64>();

const _: () = assert!(align_of::<Record>() <= align_of::<u64>(), "a record may lie at any word");

/// Whole records, one behind the other, each at a multiple of 8 bytes; the oldest first.
#[derive(Debug, Default)]
pub struct Gathered {
    words: Vec<u64>,
    /// Where each begins in `words`, and how many bytes it has.
    places: VecDeque<(usize, usize)>,
}

impl Gathered {
    /// Writes a record: `head`, whose first word's low half is replaced by the size, then `body`.
    ///
    /// # Panics
    /// If `head` is empty, or the record has more than `u32::MAX` bytes.
    pub fn push(&mut self, head: &[u64], body: &[u8]) {
        let size = head.len() * WORD + body.len();
        let start = self.words.len();
        let size_in_head = u64::from(u32::try_from(size).expect("a record is short"));
        self.words.push(head[0] >> 32 << 32 | size_in_head);
        self.words.extend_from_slice(&head[1..]);
        let (words, tail) = body.as_chunks::<WORD>();
        self.words.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        if !tail.is_empty() {
            let mut last = [0; WORD];
            last[..tail.len()].copy_from_slice(tail);
            self.words.push(u64::from_ne_bytes(last));
        }
        self.places.push_back((start, size));
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes that they take.
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
        for (place, (start, size)) in batch.iter_mut().zip(&self.places) {
            *place = &bytes[start * WORD..start * WORD + size];
            count += 1;
        }
        count
    }

    /// Forgets the oldest `count`.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn drop_oldest(&mut self, count: usize) {
        self.places.drain(..count);
        match self.places.front() {
            None => self.words.clear(),
            // What was left over is little, and seldom: an application takes whole batches.
            Some((first, _)) if count > 0 => {
                let first = *first;
                self.words.drain(..first);
                self.places.iter_mut().for_each(|(start, _)| *start -= first);
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
