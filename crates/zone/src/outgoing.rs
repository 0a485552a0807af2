//! Writes an app's messages into a down ring: consecutive messages to one connection as one record.
//!
//! An app reserves room before it names the connection. So the room for a message follows the message before. A message
//! to another connection, a series, and a message whose header has another length move into a record of their own.
//!
//! ```text
//! +------+---------+-----+---------+-----+---------+
//! | head | message | pad | message | pad | message |     each message begins at a multiple of 8 bytes
//! +------+---------+-----+---------+-----+---------+
//! ```
//!
//! The invariant: behind the messages of the open record and each room there is room for another head. So a message that
//! moves always finds room.

use sys::ring::{DownWriter, MAX_MESSAGES, SEND_HEAD, UpReader};

/// Bytes of the messages in one record, if there are several.
const SHARED: usize = 8192;

/// The beginning of each message in a record is a multiple of this number of bytes.
const ALIGNMENT: usize = 8;

/// The head of an OpenFlow message (OpenFlow 1.3.5 §7.1): version, type, length, transaction id.
type Head = [u8; 8];

/// The writing half of a ring pair, with the record that is being written.
#[derive(Debug)]
pub struct Outgoing {
    ring: DownWriter,
    open: Open,
    /// Bytes of the room that the app has reserved; `None` if it has none.
    reserved: Option<usize>,
    /// The first bytes of the message that was committed last.
    head: Option<Head>,
    /// A message that moves.
    moving: Vec<u8>,
}

/// The record that is being written.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    /// The connection of its messages.
    dpid: u64,
    epoch: u32,
    /// Number of messages.
    count: usize,
    /// Bytes of the messages so far, without padding behind the last.
    used: usize,
    /// Where the next message begins.
    next: usize,
    /// Bytes that the ring has reserved for the record; 0 if there is no record.
    room: usize,
    /// Bytes that the next message may have; 0 if this record can have no more.
    left: usize,
}

impl Open {
    /// Adds a message of `size` bytes.
    #[inline]
    fn add(&mut self, dpid: u64, epoch: u32, size: usize) {
        let (used, count) = (self.next + size, self.count + 1);
        let next = used.next_multiple_of(ALIGNMENT);
        let left =
            if count < MAX_MESSAGES { self.room.saturating_sub(next + SEND_HEAD) } else { 0 };
        *self = Self { dpid, epoch, count, used, next, left, ..*self };
    }
}

impl From<DownWriter> for Outgoing {
    fn from(ring: DownWriter) -> Self {
        Self { ring, open: Open::default(), reserved: None, head: None, moving: Vec::new() }
    }
}

impl Outgoing {
    /// Reserves room for a message of up to `size` bytes; see [`DownWriter::reserve`].
    #[inline]
    pub fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.reserved = None;
        if size > self.open.left || size == 0 {
            self.begin(size)?;
        }
        self.reserved = Some(size);
        let start = self.open.next;
        self.ring.room().get_mut(start..start + size)
    }

    /// Begins a record for a message of up to `size` bytes.
    #[inline(never)]
    fn begin(&mut self, size: usize) -> Option<()> {
        self.close();
        let room = self.ring.reserve_between(size, SHARED.max(size))?.len();
        self.open = Open { room, left: room, ..Open::default() };
        Some(())
    }

    /// Makes the first `size` bytes of the room a message, or a series of `series` flow-mods if that is not 0. `false` if
    /// there is no such room.
    #[inline]
    pub fn commit(&mut self, dpid: u64, epoch: u32, size: usize, series: u32) -> bool {
        let Some(room) = self.reserved.take().filter(|room| size <= *room) else { return false };
        let start = self.open.next;
        let message = self.ring.room().get(start..start + room);
        self.head = message.and_then(|message| message.first_chunk().copied());
        // The kernel divides a record by the lengths in its messages.
        let is_message = series == 0 && self.head.is_some_and(|head| has_length(head, size));
        let is_first = self.open.count == 0;
        if is_message && (is_first || (self.open.dpid, self.open.epoch) == (dpid, epoch)) {
            self.open.add(dpid, epoch, size);
            return true;
        }
        if !is_first && !self.move_message(size) {
            return false;
        }
        if is_message {
            self.open.add(dpid, epoch, size);
            return true;
        }
        self.open = Open::default();
        self.ring.commit_with(dpid, epoch, size, series)
    }

    /// The first bytes of the room whose message was committed last; `None` if it had fewer.
    #[inline]
    pub fn last_head(&self) -> Option<Head> {
        self.head
    }

    /// Moves the message of `size` bytes behind the open record into room of its own.
    #[inline(never)]
    fn move_message(&mut self, size: usize) -> bool {
        let start = self.open.next;
        let Some(message) = self.ring.room().get(start..start + size) else { return false };
        self.moving.clear();
        self.moving.extend_from_slice(message);
        if self.begin(size).is_none() {
            return false;
        }
        let room = self.ring.room().get_mut(..size);
        room.is_some_and(|room| {
            room.copy_from_slice(&self.moving);
            true
        })
    }

    /// Completes the open record.
    fn close(&mut self) {
        let Open { dpid, epoch, count, used, .. } = std::mem::take(&mut self.open);
        if count > 0 {
            let is_room = self.ring.commit_with(dpid, epoch, used, 0);
            debug_assert!(is_room, "the ring has reserved it");
        }
    }

    /// Free bytes for messages with their heads; see [`DownWriter::free`].
    pub fn free(&self) -> usize {
        let taken = if self.open.count > 0 { SEND_HEAD + self.open.next } else { 0 };
        self.ring.free().saturating_sub(taken)
    }

    /// Keeps record `number` of the current batch from later apps; see [`DownWriter::stop`].
    pub fn stop(&mut self, number: usize) {
        self.ring.stop(number);
    }

    /// Closes the batch; see [`DownWriter::done`].
    pub fn done(&mut self, records: &mut UpReader, n: usize) -> bool {
        self.close();
        self.reserved = None;
        self.ring.done(records, n)
    }

    /// Discards all messages and verdicts since the last batch.
    pub fn roll_back(&mut self) {
        (self.open, self.reserved) = (Open::default(), None);
        self.ring.roll_back();
    }

    /// Whether there are unpublished messages or verdicts.
    pub fn is_open(&self) -> bool {
        self.open.count > 0 || self.ring.is_open()
    }

    /// Announces that this end is about to sleep until there are records; see [`DownWriter::prepare_to_sleep`].
    pub fn prepare_to_sleep(&mut self, records: &UpReader) -> bool {
        self.ring.prepare_to_sleep(records)
    }

    /// Announces that this end is about to sleep until there is more room than `had`; see
    /// [`DownWriter::prepare_to_wait_for_room`].
    pub fn prepare_to_wait_for_room(&mut self, had: usize) -> bool {
        self.ring.prepare_to_wait_for_room(had)
    }

    /// Announces that this end is awake again.
    pub fn awake(&mut self) {
        self.ring.awake();
    }
}

/// Whether a message of this size has all of its head, and this length there.
#[inline]
fn has_length(head: Head, size: usize) -> bool {
    let [_, _, high, low, ..] = head;
    size >= head.len() && usize::from(u16::from_be_bytes([high, low])) == size
}

#[cfg(test)]
mod tests {
    use sys::ring::{Down, KernelEnd, Room, ZoneEnd, memory_size};
    use sys::shm::on_heap;

    use super::*;

    const CAPACITY: u32 = 32 * 1024;

    /// Both ends of a ring pair.
    struct Pair {
        kernel: KernelEnd,
        records: UpReader,
        outgoing: Outgoing,
    }

    /// The messages of a record: datapath, epoch, number, bytes.
    type Sent = (u64, u32, u32, Vec<u8>);

    impl Pair {
        fn new() -> Self {
            let size = memory_size(CAPACITY);
            let ((up, up_view), (down, down_view)) = (on_heap(size), on_heap(size));
            let kernel = KernelEnd::over(up, down_view, CAPACITY);
            let ZoneEnd { records, messages } = ZoneEnd::over(up_view, down, CAPACITY);
            Self { kernel, records, outgoing: messages.into() }
        }

        /// Sends a message as an app does: it reserves more than it needs.
        fn send(&mut self, (dpid, epoch): (u64, u32), bytes: &[u8], series: u32) -> bool {
            let Some(room) = self.outgoing.reserve(bytes.len() + 100) else { return false };
            room[..bytes.len()].copy_from_slice(bytes);
            assert!(self.outgoing.commit(dpid, epoch, bytes.len(), series));
            true
        }

        /// Closes the batch and takes its records.
        fn take(&mut self) -> Vec<Sent> {
            self.outgoing.done(&mut self.records, 0);
            let (mut all, mut out) = (Vec::new(), Vec::new());
            while let Some(down) = self.kernel.take(&mut out).unwrap() {
                if let Down::Send { dpid, epoch, number, message } = down {
                    all.push((dpid, epoch, number, message.to_vec()));
                }
            }
            self.kernel.release();
            all
        }
    }

    /// A message of this size whose bytes are `number`.
    fn message(number: u8, size: u16) -> Vec<u8> {
        let mut message = vec![number; size.into()];
        message[2..4].copy_from_slice(&size.to_be_bytes());
        message
    }

    /// The bytes of a record with these messages.
    fn together(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut all: Vec<u8> = Vec::new();
        for message in messages {
            all.resize(all.len().next_multiple_of(ALIGNMENT), 0);
            all.extend(message);
        }
        all
    }

    #[test]
    fn messages_for_one_connection_are_one_record() {
        let mut pair = Pair::new();
        let all: Vec<_> =
            (0..3).map(|number| message(number, 72 + 3 * u16::from(number))).collect();
        for message in &all {
            assert!(pair.send((7, 1), message, 0));
        }
        let [(7, 1, 0, record)] = &pair.take()[..] else { panic!("one record") };
        let expected = together(&all);
        for (at, byte) in record.iter().enumerate().filter(|(at, _)| expected[*at] != 0) {
            assert_eq!(*byte, expected[at], "at {at}");
        }
        assert_eq!(record.len(), expected.len());
        assert_eq!(pair.take(), []);
    }

    #[test]
    fn others_are_records_of_their_own() {
        let mut pair = Pair::new();
        let short = message(9, 7);
        let mut wrong = message(8, 24);
        wrong[3] = 32;
        let sent = [
            ((7, 1), message(1, 16), 0),
            ((8, 1), message(2, 16), 0),
            ((8, 2), message(3, 16), 0),
            ((8, 2), vec![4; 200], 5),
            ((8, 2), short, 0),
            ((8, 2), message(5, 16), 0),
            ((8, 2), wrong, 0),
            ((8, 2), Vec::new(), 0),
            ((7, 1), message(6, 16), 0),
        ];
        for _ in 0..40 {
            for ((dpid, epoch), bytes, series) in &sent {
                assert!(pair.send((*dpid, *epoch), bytes, *series));
            }
            let expected = sent
                .iter()
                .map(|((dpid, epoch), bytes, series)| (*dpid, *epoch, *series, bytes.clone()));
            assert_eq!(pair.take(), expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn record_has_at_most_max_messages() {
        let mut pair = Pair::new();
        for _ in 0..=MAX_MESSAGES {
            assert!(pair.send((7, 1), &message(1, 8), 0));
        }
        let sizes: Vec<_> = pair.take().iter().map(|(.., record)| record.len()).collect();
        assert_eq!(sizes, [8 * MAX_MESSAGES, 8]);
    }

    #[test]
    fn whole_ring_is_used_and_free_counts_every_byte() {
        for size in [8, 80, 100, 1000, 3000] {
            let mut pair = Pair::new();
            for round in 0..50 {
                let (mut count, mut connection) = (0, 0);
                let before = pair.outgoing.free();
                loop {
                    let free = pair.outgoing.free();
                    if !pair.send((connection / 9, 1), &message(1, size), 0) {
                        // Padding takes at most the size of the message, and the room that was reserved.
                        assert!(free < 2 * (usize::from(size) + 100 + 2 * SEND_HEAD), "{free}");
                        break;
                    }
                    let taken = free - pair.outgoing.free();
                    assert!(taken >= usize::from(size), "{taken}");
                    (count, connection) = (count + 1, connection + 1);
                }
                let taken = pair.take();
                let bytes: usize = taken.iter().map(|(.., record)| record.len()).sum();
                assert!(bytes >= count * usize::from(size), "{count} of {size} in round {round}");
                assert_eq!(pair.outgoing.free(), before);
            }
        }
    }

    #[test]
    fn discarded_batch_leaves_nothing() {
        let mut pair = Pair::new();
        let free = pair.outgoing.free();
        assert!(pair.send((7, 1), &message(1, 80), 0) && pair.outgoing.is_open());
        pair.outgoing.roll_back();
        assert!(!pair.outgoing.is_open() && !pair.outgoing.commit(7, 1, 80, 0));
        assert_eq!(pair.outgoing.free(), free);
        assert!(pair.outgoing.reserve(80).is_some());
        assert!(!pair.outgoing.commit(7, 1, 81, 0), "more than was reserved");
        assert!(!pair.outgoing.commit(7, 1, 80, 0), "it was used");
        assert_eq!(pair.take(), []);
        assert!(pair.kernel.push(&[6 << 32], &[1; 8], Room::All));
    }
}
