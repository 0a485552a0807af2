//! Follows the messages that a switch has received and not yet confirmed.
//!
//! Messages are sent in windows. A barrier ends a window: the switch reports errors before its reply to the barrier, so
//! that reply says that the messages without an error are done.

use std::collections::VecDeque;
use std::time::Duration;

use super::set::EntryId;
use crate::network::Xid;

use super::difference::Stray;

/// Most messages in a window. The next window begins when the switch has confirmed this one.
pub(super) const MOST_IN_WINDOW: usize = 512;

/// A message of the library to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    /// Adds an entry, or replaces what is there in its place and keeps its counters.
    Put(EntryId),
    /// Replaces the instructions of a flow, or a group's or meter's content.
    Modify(EntryId),
    /// Adds an entry and forgets the one in its place.
    Replace(EntryId),
    /// Removes an entry.
    Remove(Stray),
}

/// The messages that wait for confirmation.
#[derive(Debug, Default)]
pub(super) struct Window {
    sent: VecDeque<(Xid, Op)>,
    barrier: Option<(Xid, Duration)>,
}

impl Window {
    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Whether no message waits.
    pub(super) fn has_none(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether neither a message nor a barrier waits.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.barrier.is_none()
    }

    /// Whether a barrier waits for its reply.
    pub(super) fn is_closed(&self) -> bool {
        self.barrier.is_some()
    }

    /// Whether the reply to the barrier is overdue.
    pub(super) fn is_overdue(&self, patience: Duration, now: Duration) -> bool {
        self.barrier.is_some_and(|(_, since)| now >= since + patience)
    }

    /// Returns the last message.
    pub(super) fn last(&self) -> Option<&Op> {
        self.sent.back().map(|(_, op)| op)
    }

    /// Notes a message.
    pub(super) fn push(&mut self, xid: Xid, op: Op) {
        self.sent.push_back((xid, op));
    }

    /// Notes the barrier behind all messages so far.
    pub(super) fn close(&mut self, barrier: Xid, now: Duration) {
        self.barrier = Some((barrier, now));
    }

    /// Removes a message that failed; returns it.
    pub(super) fn fail(&mut self, xid: Xid) -> Option<Op> {
        let at = self.sent.iter().position(|(sent, _)| *sent == xid)?;
        self.sent.remove(at).map(|(_, op)| op)
    }

    /// Whether this is the barrier's transaction id.
    pub(super) fn is_barrier(&self, xid: Xid) -> bool {
        self.barrier.is_some_and(|(barrier, _)| barrier == xid)
    }

    /// Returns the messages that the reply to the barrier confirms.
    pub(super) fn confirm(&mut self) -> Vec<Op> {
        let Some((barrier, _)) = self.barrier.take() else { return Vec::new() };
        // Transaction ids count up and may begin again at 0.
        let is_before = |xid: Xid| barrier.0.wrapping_sub(xid.0) < u32::MAX / 2;
        let confirmed = self.sent.iter().take_while(|(xid, _)| is_before(*xid)).count();
        self.sent.drain(..confirmed).map(|(_, op)| op).collect()
    }

    /// Forgets everything; returns whether something waited.
    pub(super) fn clear(&mut self) -> bool {
        let waited = !self.is_empty();
        *self = Self::default();
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Key;
    use super::*;

    fn op(number: u32) -> Op {
        Op::Remove(Stray { key: Key::Group(number), cookie: 0 })
    }

    #[test]
    fn barrier_confirms_what_was_sent_before_it() {
        let mut window = Window::default();
        window.push(Xid(u32::MAX), op(1));
        window.push(Xid(0), op(2));
        window.close(Xid(1), Duration::ZERO);
        window.push(Xid(2), op(3));
        assert_eq!(window.fail(Xid(0)), Some(op(2)));
        assert!(
            window.is_barrier(Xid(1)) && !window.is_overdue(Duration::from_secs(1), Duration::ZERO)
        );
        assert_eq!(window.confirm(), [op(1)]);
        assert_eq!((window.len(), window.is_closed()), (1, false));
    }
}
