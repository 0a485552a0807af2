//! Holds the messages that an app in the kernel's process sends in one batch, in place of a down ring.

use sys::ring::Down;

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

/// One message, or a series of `number` flow-mods if that is not 0.
#[derive(Debug, Clone, Copy)]
struct Record {
    dpid: u64,
    epoch: u32,
    number: u32,
    start: usize,
    end: usize,
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
        self.records.push(Record { dpid, epoch, number, start, end });
        self.used = end;
        true
    }

    /// Whether the app has sent no message.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Takes the next record, its message appended to `out`, as [`KernelEnd::take`](sys::ring::KernelEnd::take) does.
    pub(super) fn take<'o>(&mut self, out: &'o mut Vec<u8>) -> Option<Down<'o>> {
        let Record { dpid, epoch, number, start, end } = *self.records.get(self.next)?;
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

    #[test]
    fn records_are_taken_in_order_and_only_once() {
        let mut outbox = Outbox::with_capacity(10);
        for (dpid, bytes) in [(1, &[1, 2, 3][..]), (2, &[]), (3, &[4])] {
            outbox.reserve(bytes.len()).unwrap().copy_from_slice(bytes);
            assert!(outbox.commit(dpid, 9, bytes.len(), 0));
        }
        assert_eq!((outbox.room(), outbox.is_empty()), (6, false));
        assert!(outbox.reserve(7).is_none() && !outbox.commit(1, 9, 7, 0), "no such room");
        let mut out = vec![7];
        for (dpid, message) in [(1, &[1, 2, 3][..]), (2, &[]), (3, &[4])] {
            let expected = Down::Send { epoch: 9, dpid, number: 0, message };
            assert_eq!(outbox.take(&mut out), Some(expected));
        }
        assert_eq!(outbox.take(&mut out), None);
        assert_eq!(out, [7, 1, 2, 3, 4]);
        outbox.clear();
        assert_eq!((outbox.room(), outbox.is_empty(), outbox.take(&mut out)), (10, true, None));
    }
}
