//! Keeps the tickets of records until the app has handled them; few records have one.

use std::collections::VecDeque;

use crate::hold_queue::Ticket;

/// An app's verdict on a record: the ticket, and whether the app has sent `Stop`.
pub(crate) type Verdict = (Ticket, bool);

/// The tickets of records that are not done, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    /// Number of records written, and of those that are done.
    written: u64,
    done: u64,
    /// The tickets with the number of records before theirs; `true` once the app has sent `Stop`.
    marked: VecDeque<(u64, Verdict)>,
}

impl Tickets {
    /// Notes a record with its ticket.
    #[inline]
    pub(super) fn push(&mut self, ticket: Ticket) {
        if ticket != Ticket::NONE {
            self.marked.push_back((self.written, (ticket, false)));
        }
        self.written += 1;
    }

    /// Notes records without a ticket.
    pub(super) fn push_none(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// Notes `Stop` for a record, by its number from the oldest.
    pub(super) fn stop(&mut self, number: u64) {
        let number = self.done + number;
        if let Ok(place) = self.marked.binary_search_by_key(&number, |(before, _)| *before)
            && let Some((_, (_, stop))) = self.marked.get_mut(place)
        {
            *stop = true;
        }
    }

    /// Notes that the oldest `count` records are done; the verdicts on them are appended to `verdicts`.
    pub(super) fn done(&mut self, count: u64, verdicts: &mut Vec<Verdict>) {
        self.done += count;
        while let Some((before, verdict)) = self.marked.front()
            && *before < self.done
        {
            verdicts.push(*verdict);
            self.marked.pop_front();
        }
    }

    /// The ticket of the oldest record.
    pub(super) fn oldest(&self) -> Ticket {
        let first = self.marked.front().filter(|(before, _)| *before == self.done);
        first.map_or(Ticket::NONE, |(_, (ticket, _))| *ticket)
    }

    /// Drops the oldest record with its ticket.
    pub(super) fn drop_oldest(&mut self) {
        self.done(1, &mut Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_match_tickets_between_other_records() {
        let (mut tickets, mut verdicts) = (Tickets::default(), Vec::new());
        for ticket in [0, 7, 0, 0, 8, 9, 0] {
            tickets.push(Ticket(ticket));
        }
        assert_eq!(tickets.oldest(), Ticket::NONE);
        tickets.stop(0); // a record without a ticket
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
