//! Packet-ins on their way to an app.

use sdk::abi::{COOKIE_WORD, Record, Words};
use sys::ring::Room;

use super::{Link, Phase};
use crate::check::OWN_BITS;
use crate::frame::is_vital;
use crate::held::Ticket;
use crate::rewrite::{owner, put_cookie};
use crate::switch::Switch;

impl Link {
    /// Gives the app a packet-in, now or after the backlog, and counts it. `false` if there was no
    /// room.
    ///
    /// What the app says of it will come with `ticket`. The cookie in `record` is that of the flow,
    /// the one in `body` that of no flow: whose flow it is, is nobody else's business.
    #[inline]
    pub(crate) fn packet_in(
        &mut self,
        switch: &mut Switch,
        record: &Record,
        body: &[u8],
        ticket: Ticket,
    ) -> bool {
        if record.buffer_id != u32::MAX {
            switch.given.note(record.buffer_id, self.slot);
        }
        if owner(record.cookie) == self.app {
            return self.own_packet_in(switch, record, body, ticket);
        }
        let mut words = record.words();
        words[COOKIE_WORD] = u64::MAX;
        self.packet(switch, &words, record.data_offset, body, ticket)
    }

    /// The same of one that a flow of the app's own has sent.
    #[inline(never)]
    fn own_packet_in(
        &mut self,
        switch: &mut Switch,
        record: &Record,
        body: &[u8],
        ticket: Ticket,
    ) -> bool {
        let mut words = record.words();
        let cookie = record.cookie & OWN_BITS;
        words[COOKIE_WORD] = cookie;
        let mut own = std::mem::take(&mut self.own_packet);
        own.clear();
        own.extend_from_slice(body);
        put_cookie(&mut own, cookie);
        let taken = self.packet(switch, &words, record.data_offset, &own, ticket);
        self.own_packet = own;
        taken
    }

    #[inline]
    fn packet(
        &mut self,
        switch: &mut Switch,
        words: &Words,
        data_offset: u16,
        body: &[u8],
        ticket: Ticket,
    ) -> bool {
        let frame = body.get(data_offset.into()..).unwrap_or_default();
        let told = self.phase != Phase::Live || self.announce(switch);
        let taken = told
            && (!self.is_full() && self.put(words, body, Room::Ordinary, ticket)
                || is_vital(frame)
                    && switch.vital.spend()
                    && self.put(words, body, Room::AllButReserve, ticket));
        self.counts.packet_in(taken);
        taken
    }

    /// Writes a packet-in where it belongs now.
    #[inline]
    fn put(&mut self, words: &Words, body: &[u8], room: Room, ticket: Ticket) -> bool {
        if self.phase == Phase::Live {
            self.push_ticket(words, body, room, ticket)
        } else {
            self.backlog.push(words, body, room, ticket, self.capacity)
        }
    }
}
