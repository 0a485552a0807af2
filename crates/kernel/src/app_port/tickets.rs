//! What waits for an app to be done with records: tickets, of which few records have one.

use std::collections::VecDeque;

use crate::hold_queue::Ticket;

/// What an app said about a record: its ticket, and whether it was `Stop`.
pub(crate) type Verdict = (Ticket, bool);

/// The tickets of records that are not done, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    /// How many records there were, and how many of them are done.
    written: u64,
    done: u64,
    /// Those that a record has, by how many were written before it; `true` once the app said `Stop`.
    marked: VecDeque<(u64, Verdict)>,
}

impl Tickets {
    /// A record is written.
    #[inline]
    pub(super) fn push(&mut self, ticket: Ticket) {
        if ticket != Ticket::NONE {
            self.marked.push_back((self.written, (ticket, false)));
        }
        self.written += 1;
    }

    /// So many records are written that have none.
    pub(super) fn push_none(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// The app said `Stop` of a record, by its number from the oldest.
    pub(super) fn stop(&mut self, number: u64) {
        let number = self.done + number;
        if let Ok(place) = self.marked.binary_search_by_key(&number, |(before, _)| *before)
            && let Some((_, (_, stop))) = self.marked.get_mut(place)
        {
            *stop = true;
        }
    }

    /// The oldest `count` records are done; what the app said about them is appended to `verdicts`.
    pub(super) fn done(&mut self, count: u64, verdicts: &mut Vec<Verdict>) {
        self.done += count;
        while let Some((before, verdict)) = self.marked.front()
            && *before < self.done
        {
            verdicts.push(*verdict);
            self.marked.pop_front();
        }
    }

    /// That of the oldest record.
    pub(super) fn oldest(&self) -> Ticket {
        let first = self.marked.front().filter(|(before, _)| *before == self.done);
        first.map_or(Ticket::NONE, |(_, (ticket, _))| *ticket)
    }

    /// Nobody waits for the oldest record any more.
    pub(super) fn drop_oldest(&mut self) {
        self.done(1, &mut Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_tickets_and_verdicts_whatever_is_between() {
        let (mut tickets, mut verdicts) = (Tickets::default(), Vec::new());
        for ticket in [0, 7, 0, 0, 8, 9, 0] {
            tickets.push(Ticket(ticket));
        }
        assert_eq!(tickets.oldest(), Ticket::NONE);
        tickets.stop(0); // nobody waits for it
        tickets.stop(4);
        tickets.done(1, &mut verdicts);
        assert_eq!((tickets.oldest(), verdicts.len()), (Ticket(7), 0));
        tickets.stop(4); // counted from the oldest, now
        tickets.drop_oldest();
        tickets.push(Ticket(10));
        tickets.done(4, &mut verdicts);
        assert_eq!(verdicts, [(Ticket(8), true), (Ticket(9), true)]);
        tickets.push_none(3);
        tickets.push(Ticket(11));
        tickets.done(2, &mut verdicts);
        assert_eq!(verdicts[2..], [(Ticket(10), false)]);
        tickets.stop(3);
        tickets.done(3, &mut verdicts);
        assert_eq!((verdicts.len(), tickets.oldest()), (3, Ticket(11)));
        tickets.done(1, &mut verdicts);
        assert_eq!(verdicts[3..], [(Ticket(11), true)]);
        assert_eq!(tickets.oldest(), Ticket::NONE);
    }
}
