//! Writes packet-ins into the ring of an app, one or a run of them.

use dal::whole_packet_in;
use openflow::{PacketIn, Version};
use sdk::abi::{COOKIE_WORD, Record, RecordKind, Words};
use sys::ring::Room;

use super::{AppPort, Delivery, Phase};
use crate::check::{OWN_BITS, Rights};
use crate::frame::is_vital;
use crate::hold_queue::Ticket;
use crate::plan::Set;
use crate::record::{packet_in_record_with_head, switch_record};
use crate::rewrite::{owner, put_cookie};
use crate::switch::Switch;

impl AppPort {
    /// Writes the packet-ins that `bytes` begins with, as [`packet_in`](Self::packet_in) does for each. Returns their
    /// size.
    ///
    /// For the sole, unfiltered subscriber: what is the same for all of them is computed once. It ends at a packet-in
    /// that takes more than a copy into the ring: one of a flow of the app's own, one for which there is no ordinary room
    /// without padding, or one before which an app in this process must be called. So it may return 0 although
    /// `packet_in` would take the first. It also ends at a malformed one.
    #[inline(never)] // a loop of its own: the caller's would keep its state in memory
    pub(crate) fn packet_ins(&mut self, switch: &mut Switch, bytes: &mut [u8]) -> usize {
        if self.snapshot.phase != Phase::Live || self.is_full() || !self.announce(switch) {
            return 0;
        }
        let to = (self.rights.at(switch.dpid.0), Set::of(self.slot));
        let (count, size) = match &mut self.delivery {
            Delivery::Nowhere => return 0,
            Delivery::Rings(rings) => rings.ring.write(Room::Ordinary, |span| {
                write_run(to, switch, bytes, |words, body| span.push(words, body))
            }),
            Delivery::Calls(hosted) => hosted.write(|writer| {
                write_run(to, switch, bytes, |words, body| writer.push(words, body))
            }),
        };
        switch.counters.packet_ins += count;
        self.counts.delivered += count;
        self.counts.delivered_bytes += size as u64;
        size
    }

    /// Writes a packet-in into the ring or the backlog, and counts it. `false` if there is no
    /// room.
    ///
    /// The app's verdict comes with `ticket`. `record` has the flow's cookie and `body` has none: only the flow's owner
    /// learns the cookie.
    #[inline]
    pub(crate) fn packet_in(
        &mut self,
        switch: &mut Switch,
        record: &Record,
        body: &[u8],
        ticket: Ticket,
    ) -> bool {
        let taken = if owner(record.cookie) == self.app {
            self.own_packet_in(switch, record, body, ticket)
        } else {
            let mut words = record.words();
            words[COOKIE_WORD] = u64::MAX;
            self.packet(switch, &words, record.data_offset, body, ticket)
        };
        let frame = || body.get(record.data_offset.into()..).unwrap_or_default();
        if taken
            && record.buffer_id != u32::MAX
            && self.rights.at(switch.dpid.0).may_use_buffer_of(frame())
        {
            switch.buffer_table.note(record.buffer_id, self.slot);
        }
        taken
    }

    /// The same for a packet-in that a flow of the app itself has sent.
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
        let told = self.snapshot.phase != Phase::Live || self.announce(switch);
        let taken = told
            && (!self.is_full() && self.put(words, body, Room::Ordinary, ticket)
                || is_vital(frame)
                    && switch.vital.spend()
                    && self.put(words, body, Room::AllButReserve, ticket));
        self.counts.packet_in(taken, body.len());
        taken
    }

    /// Writes a packet-in into the ring, or into the backlog while the app is away.
    #[inline]
    fn put(&mut self, words: &Words, body: &[u8], room: Room, ticket: Ticket) -> bool {
        if self.snapshot.phase == Phase::Live {
            self.delivery.push_ticket(words, body, room, ticket)
        } else {
            self.backlog.push(words, body, room, ticket, self.capacity)
        }
    }
}

/// Writes packet-ins of a switch for an app, as [`AppPort::packet_ins`] does; returns their number and size.
#[inline]
fn write_run(
    to: (&Rights, Set),
    switch: &mut Switch,
    bytes: &mut [u8],
    push: impl FnMut(&Words, &[u8]) -> bool,
) -> (u64, usize) {
    // A loop for each version: the places of the fields are constants in it.
    match switch.version {
        Version::V1_0 => write_run_of(Version::V1_0, to, switch, bytes, push),
        Version::V1_3 => write_run_of(Version::V1_3, to, switch, bytes, push),
        other => write_run_of(other, to, switch, bytes, push),
    }
}

#[expect(clippy::inline_always, reason = "the version is a constant where it is called")]
#[inline(always)]
fn write_run_of(
    version: Version,
    (rights, app_ports): (&Rights, Set),
    switch: &mut Switch,
    bytes: &mut [u8],
    mut push: impl FnMut(&Words, &[u8]) -> bool,
) -> (u64, usize) {
    let head = switch_record(RecordKind::PacketIn, switch);
    let (mut count, mut size) = (0, 0);
    while let Some(message) = whole_packet_in(version, &mut bytes[size..]) {
        let Ok(view) = PacketIn::decode(message) else { break };
        let Some(record) = packet_in_record_with_head(&head, &view, message) else { break };
        if owner(record.cookie) == rights.app || !write(&record, message, &mut push) {
            break;
        }
        if record.buffer_id != u32::MAX {
            let frame = message.get(record.data_offset.into()..).unwrap_or_default();
            let given = if rights.may_use_buffer_of(frame) { app_ports } else { Set::EMPTY };
            switch.buffer_table.kept(record.buffer_id, given);
        }
        (count, size) = (count + 1, size + message.len());
    }
    (count, size)
}

/// Writes a packet-in without the cookie of its flow. `false`, and the message is as it was, if there is no room.
#[inline]
fn write(
    record: &Record,
    message: &mut [u8],
    push: &mut impl FnMut(&Words, &[u8]) -> bool,
) -> bool {
    let has_cookie = record.cookie != PacketIn::NO_COOKIE;
    let mut words = record.words();
    words[COOKIE_WORD] = PacketIn::NO_COOKIE;
    if has_cookie {
        put_cookie(message, PacketIn::NO_COOKIE);
    }
    let has_room = push(&words, message);
    if has_cookie && !has_room {
        put_cookie(message, record.cookie);
    }
    has_room
}
