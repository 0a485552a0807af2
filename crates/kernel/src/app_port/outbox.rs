//! Holds the messages that an app in the kernel's process sends in one batch, in place of a down ring.

use sys::ring::{Down, MAX_MESSAGES};

use super::messages::{ALIGNMENT, has_length};

/// Bytes of messages that an app can send in one batch.
const CAPACITY: usize = 256 * 1024;

/// The messages of one batch, in the order in which they were sent.
#[derive(Debug)]
pub(super) struct Outbox {
    /// The memory; its first `used` bytes are messages.
    bytes: Box<[u8]>,
    used: usize,
    records: Vec<Record>,
    /// The number of the next record to take.
    next: usize,
}

/// One message, several for one connection, or a series of `number` flow-mods if that is not 0.
#[derive(Debug, Clone, Copy)]
struct Record {
    dpid: u64,
    epoch: u32,
    number: u32,
    start: usize,
    end: usize,
    /// How many messages it has; 0 if no further ones may follow.
    messages: usize,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::with_capacity(CAPACITY)
    }
}

impl Outbox {
    /// An outbox for `capacity` bytes of messages.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into(), used: 0, records: Vec::new(), next: 0 }
    }

    /// Free bytes.
    pub(super) fn room(&self) -> usize {
        self.bytes.len() - self.used
    }

    /// Returns room for a message of up to `size` bytes.
    #[inline]
    pub(super) fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(self.used..)?.get_mut(..size)
    }

    /// Makes the first `size` bytes of that room a message, or a series if `number` is not 0. `false` if no such room
    /// was reserved.
    #[inline]
    pub(super) fn commit(&mut self, dpid: u64, epoch: u32, size: usize, number: u32) -> bool {
        let (start, end) = (self.used, self.used.saturating_add(size));
        if end > self.bytes.len() {
            return false;
        }
        self.used = end.next_multiple_of(ALIGNMENT).min(self.bytes.len());
        if number > 0 || !has_length(&self.bytes[start..end], size) {
            self.records.push(Record { dpid, epoch, number, start, end, messages: 0 });
            return true;
        }
        match self.records.last_mut() {
            Some(last)
                if (last.dpid, last.epoch) == (dpid, epoch)
                    && (1..MAX_MESSAGES).contains(&last.messages) =>
            {
                (last.end, last.messages) = (end, last.messages + 1);
            }
            _ => self.records.push(Record { dpid, epoch, number, start, end, messages: 1 }),
        }
        true
    }

    /// Whether the app has sent no message.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Takes the next record, its message appended to `out`, as [`KernelEnd::take`](sys::ring::KernelEnd::take) does.
    pub(super) fn take<'o>(&mut self, out: &'o mut Vec<u8>) -> Option<Down<'o>> {
        let Record { dpid, epoch, number, start, end, .. } = *self.records.get(self.next)?;
        self.next += 1;
        let before = out.len();
        out.extend_from_slice(&self.bytes[start..end]);
        Some(Down::Send { epoch, dpid, number, message: &out[before..] })
    }

    /// Removes all messages and keeps the memory.
    pub(super) fn clear(&mut self) {
        (self.used, self.next) = (0, 0);
        self.records.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(outbox: &mut Outbox, dpid: u64, message: &[u8]) {
        outbox.reserve(message.len()).unwrap().copy_from_slice(message);
        assert!(outbox.commit(dpid, 9, message.len(), 0));
    }

    #[test]
    fn records_are_taken_in_order_and_only_once() {
        let mut outbox = Outbox::with_capacity(18);
        let messages = [(1, &[1, 2, 3][..]), (1, &[]), (3, &[4])];
        for (dpid, message) in &messages {
            send(&mut outbox, *dpid, message);
        }
        assert_eq!((outbox.room(), outbox.is_empty()), (2, false));
        assert!(outbox.reserve(3).is_none() && !outbox.commit(1, 9, 3, 0), "no such room");
        let mut out = vec![7];
        for (dpid, message) in messages {
            let expected = Down::Send { epoch: 9, dpid, number: 0, message };
            assert_eq!(outbox.take(&mut out), Some(expected));
        }
        assert_eq!(outbox.take(&mut out), None);
        assert_eq!(out, [7, 1, 2, 3, 4]);
        outbox.clear();
        assert_eq!((outbox.room(), outbox.is_empty(), outbox.take(&mut out)), (18, true, None));
    }

    #[test]
    fn messages_for_one_connection_are_one_record() {
        let mut outbox = Outbox::with_capacity(1 << 16);
        let message = |size: u8| {
            let mut message = vec![size; size.into()];
            message[..4].copy_from_slice(&[4, 14, 0, size]);
            message
        };
        let together = |sizes: &[u8]| {
            sizes.iter().fold(Vec::new(), |mut all, size| {
                all.resize(all.len().next_multiple_of(8), 0);
                all.extend(message(*size));
                all
            })
        };
        for (dpid, size) in [(1, 16), (1, 12), (1, 8), (2, 8), (1, 9)] {
            send(&mut outbox, dpid, &message(size));
        }
        send(&mut outbox, 1, &[4, 14, 0, 16, 0, 0, 0, 0]); // its length is wrong
        (0..=MAX_MESSAGES).for_each(|_| send(&mut outbox, 1, &message(8)));
        let mut records = Vec::new();
        let mut out = Vec::new();
        while let Some(Down::Send { dpid, message, .. }) = outbox.take(&mut out) {
            records.push((dpid, message.to_vec()));
        }
        assert_eq!(records[..3], [(1, together(&[16, 12, 8])), (2, message(8)), (1, message(9))]);
        assert_eq!(records[3], (1, vec![4, 14, 0, 16, 0, 0, 0, 0]));
        assert_eq!(records[4..], [(1, together(&[8; MAX_MESSAGES])), (1, message(8))]);
    }
}
