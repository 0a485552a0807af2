//! Opens the application's side of the ABI to libraries in Rust that applications in C link: [`ForeignHost`].
//!
//! The application has received a host table in `create`, and records in `on_batch`. It passes them to the library, whose
//! functions have the C ABI (`c/wanted/lib.rs`). This module makes a [`Network`] and [`Event`]s of them, as
//! [`guest`](super::guest) does for applications in Rust.

use std::any::Any;

use super::guest::{Host, report};
use super::records::record_at;
use super::{HostFunctions, Level, RECORD_HEAD, Record};
use crate::event::Event;
use crate::network::Network;

/// The transaction ids of a library have this bit. Those of the application have not, so that neither takes a reply to the
/// other's request.
pub const LIBRARY_XIDS: u32 = 1 << 31;

/// The host of an application that is not written in Rust.
#[derive(Debug)]
pub struct ForeignHost(Host);

impl ForeignHost {
    /// Takes the table that the application received in `create`. Returns `None` if it is NULL or not aligned, or, after the
    /// host has logged that, if the table is of another version of the ABI.
    ///
    /// # Safety
    /// A table that is not NULL is the host's. It lives as long as the result, which is used only where the ABI allows calls of
    /// the host: during `create`, `on_batch` and `destroy`, in their thread.
    pub unsafe fn new(table: *const HostFunctions) -> Option<Self> {
        if table.is_null() || !table.is_aligned() {
            return None;
        }
        Host::open(table).map(Self)
    }

    /// Calls `with` with a [`Network`] that sends through the host, at this monotonic time. Returns its result, and when the
    /// timer that it set expires, in nanoseconds; `u64::MAX` if it set none.
    ///
    /// `with` does not call [`Network::stop`]: the number of the record in its batch is not known here.
    pub fn network<T>(
        &mut self,
        now_ns: u64,
        with: impl FnOnce(&mut Network<'_>) -> T,
    ) -> (T, u64) {
        let Self(host) = self;
        // The application has sent messages since the last call.
        host.begin_batch();
        host.sent(own_xid(host.last_xid()));
        let mut network = Network::new(host, now_ns);
        let result = with(&mut network);
        let wake_at_ns = network.wake_at_ns();
        host.end_series();
        (result, wake_at_ns)
    }

    /// Writes a line to the operator's log.
    pub fn log(&self, level: Level, text: &str) {
        self.0.log(level, text);
    }

    /// Logs that the function `what` of the library has panicked.
    pub fn report_panic(&self, what: &str, panic: &(dyn Any + Send)) {
        report(&self.0, what, panic);
    }
}

/// The transaction id from which the library counts in its next call. It starts again in time, as a call must not reach the
/// application's ids.
fn own_xid(last: u32) -> u32 {
    const MOST_OF_A_CALL: u32 = 1 << 20;
    let next = last | LIBRARY_XIDS;
    if next > u32::MAX - MOST_OF_A_CALL { LIBRARY_XIDS } else { next }
}

/// Why the bytes at a pointer are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRecord;

/// Reads a record that the application received in `on_batch`; `None` if this SDK does not know its kind or the record is
/// malformed.
///
/// # Errors
/// [`NoRecord`]: the pointer is not aligned, or the record is shorter than its head.
///
/// # Safety
/// The pointer points to a record of as many bytes as its head states, at least four, which stays unchanged for `'a`.
pub unsafe fn event<'a>(record: *const Record) -> Result<Option<Event<'a>>, NoRecord> {
    if record.is_null() || !record.is_aligned() {
        return Err(NoRecord);
    }
    // SAFETY: the caller's promise: its first four bytes, the size, are there.
    let size = unsafe { record.cast::<u32>().read() };
    if (size as usize) < RECORD_HEAD {
        return Err(NoRecord);
    }
    // SAFETY: the caller's promise; it is aligned and has a whole head, as was just checked.
    let (head, body) = unsafe { record_at(record) };
    Ok(Event::of(head, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_library_stay_apart_from_those_of_the_app() {
        for last in [0, 7, LIBRARY_XIDS - 1, LIBRARY_XIDS, u32::MAX - 1, u32::MAX] {
            let next = own_xid(last);
            assert!(next >= LIBRARY_XIDS && u32::MAX - next >= 1 << 20, "{last:x} {next:x}");
        }
        assert_eq!(own_xid(LIBRARY_XIDS + 9), LIBRARY_XIDS + 9);
    }
}
