//! Combines a ring with the tickets of its records.

use std::io;

use sdk::abi::Words;
use sys::ring::{Down, KernelEnd, PeerFault, RingFds, Room, Span};

use super::tickets::{Tickets, Verdict};
use crate::hold_queue::Ticket;

/// The kernel's end of a ring pair, and the tickets of the records in it.
#[derive(Debug)]
pub(super) struct Tracked {
    ring: KernelEnd,
    tickets: Tickets,
}

impl Tracked {
    /// As [`KernelEnd::create`].
    pub(super) fn create(capacity: u32) -> io::Result<(Self, RingFds)> {
        let (ring, fds) = KernelEnd::create(capacity)?;
        Ok((Self::of(ring), fds))
    }

    /// Tracks a new ring pair.
    pub(super) fn of(ring: KernelEnd) -> Self {
        Self { ring, tickets: Tickets::default() }
    }

    /// As [`KernelEnd::push`].
    #[expect(clippy::inline_always, reason = "as there")]
    #[inline(always)]
    pub(super) fn push(&mut self, head: &Words, body: &[u8], room: Room, ticket: Ticket) -> bool {
        let pushed = self.ring.push(head, body, room);
        if pushed {
            self.tickets.push(ticket);
        }
        pushed
    }

    /// As [`KernelEnd::write`], for records without a ticket.
    #[inline]
    pub(super) fn write<T>(
        &mut self,
        room: Room,
        write: impl for<'w> FnOnce(&mut Span<'w>) -> T,
    ) -> T {
        let before = self.ring.outstanding();
        let written = self.ring.write(room, write);
        self.tickets.push_none((self.ring.outstanding() - before) as usize);
        written
    }

    /// As [`KernelEnd::take`]; the zone's verdicts are appended to `verdicts`.
    pub(super) fn take<'o>(
        &mut self,
        out: &'o mut Vec<u8>,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Option<Down<'o>>, PeerFault> {
        let taken = self.ring.take(out)?;
        match taken {
            Some(Down::Stop(number)) => self.tickets.stop(number.into()),
            Some(Down::Done(count)) => self.tickets.done(count.into(), verdicts),
            Some(Down::Send { .. }) | None => {}
        }
        Ok(taken)
    }

    /// As [`KernelEnd::oldest`]; returns the record's ticket.
    pub(super) fn oldest(&self, out: &mut Vec<u8>) -> Option<Ticket> {
        self.ring.oldest(out).then(|| self.tickets.oldest())
    }

    /// As [`KernelEnd::drop_oldest`].
    pub(super) fn drop_oldest(&mut self) {
        self.tickets.drop_oldest();
        self.ring.drop_oldest(1);
    }

    /// As [`KernelEnd::outstanding`].
    pub(super) fn outstanding(&self) -> u32 {
        self.ring.outstanding()
    }

    /// As [`KernelEnd::handled`].
    pub(super) fn handled(&self) -> u64 {
        self.ring.handled()
    }

    /// As [`KernelEnd::room`].
    pub(super) fn room(&self, room: Room) -> usize {
        self.ring.room(room)
    }

    /// The ring itself, for calls that concern no single record.
    pub(super) fn ring(&mut self) -> &mut KernelEnd {
        &mut self.ring
    }
}
