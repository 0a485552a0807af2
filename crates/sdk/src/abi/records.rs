//! Reads the records that a host passes to an application, in the host's memory.

use super::{BatchTable, MAX_BATCH, RECORD_HEAD, Record};

/// The records of a batch in the host's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Records<'a> {
    /// Each points to a whole, aligned record that stays unchanged for `'a`.
    starts: &'a [*const Record],
}

impl<'a> Records<'a> {
    /// Takes the records of a batch.
    ///
    /// # Safety
    /// The batch has `count` pointers, each to a whole, aligned record, which stay unchanged
    /// for `'a`.
    pub(super) unsafe fn of(batch: &'a BatchTable) -> Self {
        let count = (batch.count as usize).min(MAX_BATCH);
        if count == 0 {
            return Self { starts: &[] }; // there may be no array in this case
        }
        // SAFETY: the caller's promise.
        Self { starts: unsafe { std::slice::from_raw_parts(batch.records, count) } }
    }

    /// Returns how many there are.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.starts.len()
    }

    /// Returns the head and the body of one.
    #[inline]
    pub(crate) fn get(self, number: usize) -> Option<(&'a Record, &'a [u8])> {
        self.from(number).next()
    }

    /// Returns those from this number on.
    #[inline]
    pub(crate) fn from(self, first: usize) -> impl Iterator<Item = (&'a Record, &'a [u8])> {
        let starts = self.starts.get(first..).unwrap_or_default();
        // SAFETY: as `starts` says.
        starts.iter().map(|start| unsafe { record_at(*start) })
    }
}

/// Returns the head and the body of the record at `start`.
///
/// # Safety
/// The pointer points to a whole, aligned record, which stays unchanged for `'a`.
#[inline]
pub(super) unsafe fn record_at<'a>(start: *const Record) -> (&'a Record, &'a [u8]) {
    // SAFETY: the caller's promise.
    let record = unsafe { &*start };
    let body = start.wrapping_add(1).cast::<u8>();
    let size = (record.size as usize).saturating_sub(RECORD_HEAD);
    // SAFETY: as above: a record has `size` bytes, and the head takes the first 48 of them.
    (record, unsafe { std::slice::from_raw_parts(body, size) })
}
