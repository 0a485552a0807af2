//! A ring whose every undone record is known by the ticket of what waits for it.

use std::collections::VecDeque;
use std::io;

use sdk::abi::Words;
use sys::ring::{Down, KernelEnd, PeerFault, RingFds, Room};

use crate::held::Ticket;

/// What an app said about a record: its ticket, and whether it was `Stop`.
pub(crate) type Verdict = (Ticket, bool);

/// The kernel's end of a ring pair, and a ticket for each record in it.
#[derive(Debug)]
pub(super) struct Tracked {
    ring: KernelEnd,
    /// In the order of the records; `true` once the zone said `Stop`.
    tickets: VecDeque<Verdict>,
}

impl Tracked {
    /// As [`KernelEnd::create`].
    pub(super) fn create(capacity: u32) -> io::Result<(Self, RingFds)> {
        let (ring, fds) = KernelEnd::create(capacity)?;
        Ok((Self::of(ring), fds))
    }

    /// Of a ring pair that nothing was written into yet.
    pub(super) fn of(ring: KernelEnd) -> Self {
        Self { ring, tickets: VecDeque::new() }
    }

    /// As [`KernelEnd::push`].
    #[expect(clippy::inline_always, reason = "as there")]
    #[inline(always)]
    pub(super) fn push(&mut self, head: &Words, body: &[u8], room: Room, ticket: Ticket) -> bool {
        let pushed = self.ring.push(head, body, room);
        if pushed {
            self.tickets.push_back((ticket, false));
        }
        pushed
    }

    /// As [`KernelEnd::take`]; what the zone has now said about tickets is appended to `verdicts`.
    pub(super) fn take<'o>(
        &mut self,
        out: &'o mut Vec<u8>,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Option<Down<'o>>, PeerFault> {
        let taken = self.ring.take(out)?;
        match taken {
            Some(Down::Stop(number)) => {
                if let Some((_, stop)) = self.tickets.get_mut(number as usize) {
                    *stop = true;
                }
            }
            Some(Down::Done(count)) => {
                let done = self.tickets.drain(..count as usize);
                verdicts.extend(done.filter(|(ticket, _)| *ticket != Ticket::NONE));
            }
            Some(Down::Send { .. }) | None => {}
        }
        Ok(taken)
    }

    /// As [`KernelEnd::oldest`]; the record's ticket.
    pub(super) fn oldest(&self, out: &mut Vec<u8>) -> Option<Ticket> {
        let (ticket, _) = self.tickets.front()?;
        self.ring.oldest(out).then_some(*ticket)
    }

    /// As [`KernelEnd::drop_oldest`].
    pub(super) fn drop_oldest(&mut self) {
        self.tickets.pop_front();
        self.ring.drop_oldest();
    }

    /// As [`KernelEnd::outstanding`].
    pub(super) fn outstanding(&self) -> u32 {
        self.ring.outstanding()
    }

    /// As [`KernelEnd::room`].
    pub(super) fn room(&self, room: Room) -> usize {
        self.ring.room(room)
    }

    /// The ring itself, for what concerns no single record.
    pub(super) fn ring(&mut self) -> &mut KernelEnd {
        &mut self.ring
    }
}
