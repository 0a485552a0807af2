//! Packet-ins on their way to an app.

use openflow::{PacketIn, Version};
use sdk::abi::{COOKIE_WORD, Record, RecordKind, Words};
use sys::ring::Room;

use super::{AppPort, Hosting, Phase};
use crate::check::{OWN_BITS, Rights};
use crate::control::AppId;
use crate::frame::{is_vital, whole_packet_in};
use crate::hold_queue::Ticket;
use crate::plan::Set;
use crate::record::{packet_in_record_with_head, switch_record};
use crate::rewrite::{owner, put_cookie};
use crate::switch::Switch;

impl AppPort {
    /// Gives the app the packet-ins that `bytes` begins with, and counts them, until one needs more than to
    /// be written into its place: it is of the app's own flow, or there is no ordinary room for it without padding,
    /// or an app in this process is to be called first. Returns how many bytes they are, which may be none although
    /// [`packet_in`](Self::packet_in) would take the first.
    ///
    /// It is [`packet_in`](Self::packet_in) for an app that gets all and alone does; what is the same for
    /// all of them is looked at once.
    pub(crate) fn packet_ins(&mut self, switch: &mut Switch, bytes: &mut [u8]) -> usize {
        if self.snapshot.phase != Phase::Live || self.is_full() || !self.announce(switch) {
            return 0;
        }
        let to = (&self.rights, Set::of(self.slot.index()));
        let (count, size) = match &mut self.hosting {
            Hosting::Nowhere => return 0,
            Hosting::Zone(rings) => rings.ring.write(Room::Ordinary, |span| {
                write_all(to, switch, bytes, |words, body| span.push(words, body))
            }),
            Hosting::Kernel(hosted) => hosted.write(|writer| {
                write_all(to, switch, bytes, |words, body| writer.push(words, body))
            }),
        };
        switch.counters.packet_ins += count;
        self.counts.delivered += count;
        size
    }

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
        let taken = if owner(record.cookie) == self.app {
            self.own_packet_in(switch, record, body, ticket)
        } else {
            let mut words = record.words();
            words[COOKIE_WORD] = u64::MAX;
            self.packet(switch, &words, record.data_offset, body, ticket)
        };
        let frame = || body.get(record.data_offset.into()..).unwrap_or_default();
        if taken && record.buffer_id != u32::MAX && self.rights.may_use_buffer_of(frame()) {
            switch.buffer_table.note(record.buffer_id, self.slot);
        }
        taken
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
        let told = self.snapshot.phase != Phase::Live || self.announce(switch);
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
        if self.snapshot.phase == Phase::Live {
            self.hosting.push_ticket(words, body, room, ticket)
        } else {
            self.backlog.push(words, body, room, ticket, self.capacity)
        }
    }
}

/// Writes packet-ins of a switch for an app, as [`AppPort::packet_ins`] says; how many, and their bytes.
#[inline]
fn write_all(
    to: (&Rights, Set),
    switch: &mut Switch,
    bytes: &mut [u8],
    push: impl FnMut(&Words, &[u8]) -> bool,
) -> (u64, usize) {
    // A loop for each: where things stand in a message is then known in it.
    match switch.version {
        Version::V1_0 => write_all_of(Version::V1_0, to, switch, bytes, push),
        Version::V1_3 => write_all_of(Version::V1_3, to, switch, bytes, push),
    }
}

#[expect(clippy::inline_always, reason = "the version is known where it is called")]
#[inline(always)]
fn write_all_of(
    version: Version,
    (rights, app_ports): (&Rights, Set),
    switch: &mut Switch,
    bytes: &mut [u8],
    mut push: impl FnMut(&Words, &[u8]) -> bool,
) -> (u64, usize) {
    let head = switch_record(RecordKind::PacketIn, switch);
    let (mut count, mut size) = (0, 0);
    while let Some(message) = whole_packet_in(version, &mut bytes[size..]) {
        // Code of their own for the usual ones, in which it is known where buffer, in-port and packet stand.
        let written = if let Some(usual) = PacketIn::usual(message) {
            let record = packet_in_record_with_head(&head, &usual, message);
            write_one(rights.app, record, message, &mut push)
        } else if let Ok(other) = PacketIn::decode(message) {
            let record = packet_in_record_with_head(&head, &other, message);
            write_one(rights.app, record, message, &mut push)
        } else {
            None
        };
        let Some(record) = written else { break };
        if record.buffer_id != u32::MAX {
            let frame = message.get(record.data_offset.into()..).unwrap_or_default();
            let given = if rights.may_use_buffer_of(frame) { app_ports } else { Set::EMPTY };
            switch.buffer_table.kept(record.buffer_id, given);
        }
        (count, size) = (count + 1, size + message.len());
    }
    (count, size)
}

/// Writes a packet-in; `None`, and the message is as it was, if it is of the app's own flow or there is no room.
#[expect(clippy::inline_always, reason = "what is known of the record is then known in it")]
#[inline(always)]
fn write_one(
    app: AppId,
    record: Option<Record>,
    message: &mut [u8],
    push: &mut impl FnMut(&Words, &[u8]) -> bool,
) -> Option<Record> {
    let record = record?;
    let cookie = record.cookie;
    if owner(cookie) == app {
        return None;
    }
    let mut words = record.words();
    words[COOKIE_WORD] = PacketIn::NO_COOKIE;
    if cookie != PacketIn::NO_COOKIE {
        put_cookie(message, PacketIn::NO_COOKIE);
    }
    if !push(&words, message) {
        if cookie != PacketIn::NO_COOKIE {
            put_cookie(message, cookie);
        }
        return None;
    }
    Some(record)
}
