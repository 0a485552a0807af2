//! Generates packet-ins from a prebuilt template, and tracks which of them are pending.
//!
//! ```text
//! OpenFlow 1.0   header 8 | buffer_id 4 | total_len 2 | in_port 2 | reason, pad 2 | frame
//! OpenFlow 1.3   header 8 | buffer_id 4 | total_len 2 | reason, table 2 | cookie 8
//!                | match: type, length 4, oxm header 4, in_port 4, pad 4 | pad 2 | frame
//! frame          destination 6 | source 6 | ethertype 2 | IPv4 20 | UDP 8 | number 4 | zeros
//! ```
//!
//! With the default frame of 64 bytes, a packet-in of OpenFlow 1.0 has 82 bytes, like cbench's. If
//! the switch buffers packets, the packet-in's number is its buffer id. Otherwise the number in the
//! frame identifies the packet-in that a packet-out answers.

use openflow::{EncodeError, PacketIn, PortNo, Version};

use crate::hosts::SwitchHosts;

/// Minimum size of a frame: its headers and the number.
pub const MIN_FRAME: usize = NUMBER_AT + 4;

/// Offset of the packet-in's number in the frame.
pub(crate) const NUMBER_AT: usize = 14 + 20 + 8;

/// Maximum size of a write: as many packet-ins as fit, and at least one.
pub const CHUNK: usize = 64 * 1024;

/// Maximum number of pending packet-ins per switch.
pub const MAX_PENDING: usize = 1 << 20;

/// A chunk of packet-ins in which only the varying fields are overwritten.
#[derive(Debug, Clone)]
pub struct PacketInTemplate {
    version: Version,
    buffered: bool,
    /// Size of one packet-in, in bytes.
    size: usize,
    frame_at: usize,
    chunk: Box<[u8]>,
}

impl PacketInTemplate {
    /// Prebuilds packet-ins with frames of `frame` bytes, buffered or whole.
    ///
    /// # Errors
    /// [`EncodeError`] if no message can hold the frame.
    pub fn new(version: Version, buffered: bool, frame: usize) -> Result<Self, EncodeError> {
        let frame = frame_of(frame.max(MIN_FRAME));
        let packet_in = PacketIn {
            buffer_id: buffered.then_some(0),
            cookie: if version.features().packet_in_cookie { 0 } else { PacketIn::NO_COOKIE },
            ..PacketIn::new(PortNo(1), &frame)
        };
        let mut one = vec![0; 64 + frame.len()];
        let size = packet_in.encode(version, 0, &mut one)?;
        one.truncate(size);
        let chunk = one.repeat((CHUNK / size).max(1)).into_boxed_slice();
        Ok(Self { version, buffered, size, frame_at: size - frame.len(), chunk })
    }

    /// Returns the size of one packet-in, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of packet-ins per chunk.
    pub fn per_chunk(&self) -> usize {
        self.chunk.len() / self.size
    }

    /// Returns the frame that all packet-ins share, except for addresses and number.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.chunk[self.frame_at..self.size]
    }

    /// Whether the switch buffers packets.
    pub fn is_buffered(&self) -> bool {
        self.buffered
    }

    /// Fills the first `count` packet-ins of the chunk with pairs of `hosts` and with numbers from
    /// `open`; returns their bytes.
    pub fn ask(
        &mut self,
        count: usize,
        hosts: &mut SwitchHosts,
        open: &mut PendingPacketIns,
    ) -> &[u8] {
        let count = count.min(self.per_chunk()).min(open.available());
        // With constant offsets the compiler emits plain stores.
        match self.version {
            Version::V1_0 => self.fill::<14, 18>(count, hosts, open),
            Version::V1_1 => self.fill::<14, 24>(count, hosts, open),
            Version::V1_2 => self.fill::<26, 34>(count, hosts, open),
            _ => self.fill::<34, 42>(count, hosts, open),
        }
        &self.chunk[..count * self.size]
    }

    /// `PORT` is the offset of the lower 16 bits of the in-port, `FRAME` that of the frame.
    fn fill<const PORT: usize, const FRAME: usize>(
        &mut self,
        count: usize,
        hosts: &mut SwitchHosts,
        open: &mut PendingPacketIns,
    ) {
        for message in self.chunk.chunks_exact_mut(self.size).take(count) {
            let number = open.next_id;
            let pair = hosts.pair(open.add());
            let Some((head, frame)) = message.split_first_chunk_mut::<FRAME>() else { return };
            let Some(frame) = frame.first_chunk_mut::<MIN_FRAME>() else { return };
            let number = number.to_be_bytes();
            if self.buffered {
                [head[8], head[9], head[10], head[11]] = number;
            }
            [head[PORT], head[PORT + 1]] = pair.in_port().to_be_bytes();
            frame[..12].copy_from_slice(&pair.addresses());
            frame[NUMBER_AT..].copy_from_slice(&number);
        }
    }
}

/// Builds an IPv4/UDP frame with zero addresses.
fn frame_of(size: usize) -> Vec<u8> {
    let be = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    let [ip, ip2] = be(size - 14);
    let [udp, udp2] = be(size - 34);
    #[rustfmt::skip]
    let mut head = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00,
        0x45, 0, ip, ip2, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        0x27, 0x10, 0x27, 0x11, udp, udp2, 0, 0,
    ];
    let sum: u32 = head[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let [.., high, low] = (!folded).to_be_bytes();
    (head[24], head[25]) = (high, low);
    let mut frame = head.to_vec();
    frame.resize(size, 0);
    frame
}

/// The pending packet-ins of a switch: one bit each.
///
/// Packet-ins have consecutive sequence numbers. Their number on the wire is the sequence number
/// modulo the number of ids, by default 2^31, because some controllers treat buffer ids as signed.
/// There are at least as many ids as slots, so two pending packet-ins never share one.
#[derive(Debug, Clone)]
pub struct PendingPacketIns {
    bits: Box<[u64]>,
    /// The next sequence number.
    next: u64,
    /// The next number on the wire, below `ids`.
    next_id: u32,
    ids: u32,
    /// Lower bound of the oldest pending sequence number; only [`PendingPacketIns::find_oldest`] advances it.
    oldest: u64,
    /// Number of pending packet-ins.
    count: usize,
    /// Maximum number of pending packet-ins.
    window: usize,
    /// Sequence numbers of packet-ins that were given up; bounded.
    expired: Vec<u64>,
    overtaken: u64,
}

/// Maximum number of ids.
pub const MAX_IDS: u32 = 1 << 31;

/// Number of later packet-ins that may be answered before a pending one is given up, at least.
pub const MIN_OVERTAKEN: usize = 512;

/// Maximum number of given-up packet-ins that are remembered.
const MAX_EXPIRED: usize = 4096;

/// State of a packet-in when an answer to it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerState {
    /// It was pending; this is its sequence number.
    Pending(u64),
    /// It had been given up.
    Late,
    /// It was answered before, or never sent.
    Unknown,
}

impl PendingPacketIns {
    /// Allows at most `window` pending packet-ins.
    pub fn new(window: usize) -> Self {
        Self::with_ids(window, MAX_IDS)
    }

    /// Allows at most `window` pending packet-ins, with ids below `ids`.
    ///
    /// # Panics
    /// If there are fewer ids than [slots](Self::slots_for), or more than [`MAX_IDS`].
    pub fn with_ids(window: usize, ids: u32) -> Self {
        let slots = Self::slots_for(window);
        assert!(slots <= ids as usize && ids <= MAX_IDS, "at least one id per slot");
        Self {
            bits: vec![0; slots / 64].into_boxed_slice(),
            next: 0,
            next_id: 0,
            ids,
            oldest: 0,
            count: 0,
            window: window.clamp(1, MAX_PENDING),
            expired: Vec::new(),
            overtaken: 0,
        }
    }

    /// Returns the number of slots for a window of `window` packet-ins.
    pub fn slots_for(window: usize) -> usize {
        (window.clamp(1, MAX_PENDING) + MIN_OVERTAKEN).next_power_of_two()
    }

    /// Returns the wire number of a sequence number.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below a 32-bit number")]
    fn number_of(&self, seq: u64) -> u32 {
        (seq % u64::from(self.ids)) as u32
    }

    /// Returns the number of pending packet-ins.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns how many more may become pending.
    #[inline]
    pub fn available(&self) -> usize {
        self.window - self.count
    }

    /// Returns the number of packet-ins so far, which is the next sequence number.
    #[inline]
    pub fn asked(&self) -> u64 {
        self.next
    }

    /// Returns the number of slots. Pending packet-ins never share one.
    pub fn slots(&self) -> usize {
        self.bits.len() * 64
    }

    /// Returns the slot of a sequence number.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only the lower bits are used")]
    pub fn slot(&self, seq: u64) -> usize {
        seq as usize & (self.slots() - 1)
    }

    /// Returns the word and the mask of a sequence number's bit.
    #[inline]
    fn bit(&self, seq: u64) -> (usize, u64) {
        let slot = self.slot(seq);
        (slot / 64, 1 << (slot % 64))
    }

    /// Returns how many packet-ins were given up because their slot was needed: at least
    /// [`MIN_OVERTAKEN`] later ones had been sent and answered.
    pub fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// Adds a packet-in. [`available`](Self::available) must be positive.
    #[inline]
    fn add(&mut self) -> u64 {
        let seq = self.next;
        self.next += 1;
        self.next_id = if self.next_id + 1 == self.ids { 0 } else { self.next_id + 1 };
        let (word, bit) = self.bit(seq);
        if self.bits[word] & bit == 0 {
            self.count += 1;
            self.bits[word] |= bit;
        } else {
            self.overtake(seq);
        }
        seq
    }

    /// Gives up the packet-in whose slot `by` needs.
    #[cold]
    fn overtake(&mut self, by: u64) {
        self.overtaken += 1;
        self.remember_given_up(by - self.slots() as u64);
    }

    /// Remembers a packet-in that was given up.
    fn remember_given_up(&mut self, seq: u64) {
        if self.expired.len() == MAX_EXPIRED {
            // The oldest is the least likely to be answered still. The list is short and rarely
            // full.
            self.expired.remove(0);
        }
        self.expired.push(seq);
    }

    /// Returns the latest sequence number with this wire number, if it can be pending.
    #[inline]
    fn latest(&self, number: u32) -> Option<u64> {
        let ids_before = if number < self.next_id { 0 } else { self.ids };
        let back = (self.next_id + ids_before).wrapping_sub(number);
        let seq = self.next.checked_sub(back.into())?;
        (back as usize <= self.slots() && number < self.ids).then_some(seq)
    }

    /// Returns the pending packet-in with this wire number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<u64> {
        let seq = self.latest(number)?;
        let (word, bit) = self.bit(seq);
        (self.bits[word] & bit != 0).then_some(seq)
    }

    /// Removes a packet-in that is answered.
    #[inline]
    pub fn answer(&mut self, number: u32) -> AnswerState {
        let Some(seq) = self.get(number) else { return self.answer_late(number) };
        self.remove(seq);
        AnswerState::Pending(seq)
    }

    /// Removes a pending packet-in.
    #[inline]
    pub(crate) fn remove(&mut self, seq: u64) {
        let (word, bit) = self.bit(seq);
        self.bits[word] &= !bit;
        self.count -= 1;
    }

    #[cold]
    fn answer_late(&mut self, number: u32) -> AnswerState {
        match self.expired.iter().position(|seq| self.number_of(*seq) == number) {
            Some(slot) => {
                self.expired.swap_remove(slot);
                AnswerState::Late
            }
            None => AnswerState::Unknown,
        }
    }

    /// Returns the wire number of the oldest pending packet-in that satisfies `what`.
    pub fn find_oldest(&mut self, mut what: impl FnMut(u64) -> bool) -> Option<u32> {
        self.oldest = self.oldest.max(self.next.saturating_sub(self.slots() as u64));
        let waits = |open: &Self, seq| open.get(open.number_of(seq)).is_some();
        while self.oldest < self.next && !waits(self, self.oldest) {
            self.oldest += 1;
        }
        let mut sequence_numbers = self.oldest..self.next;
        let found = sequence_numbers.find(|seq| waits(self, *seq) && what(*seq));
        found.map(|seq| self.number_of(seq))
    }

    /// Gives up all pending packet-ins; returns their number.
    pub fn give_up_all(&mut self) -> usize {
        if self.count > 0 {
            for seq in self.next.saturating_sub(self.slots() as u64)..self.next {
                if self.get(self.number_of(seq)).is_some() {
                    self.remember_given_up(seq);
                }
            }
            self.bits.fill(0);
        }
        std::mem::take(&mut self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::Hosts;

    #[test]
    fn packet_in_has_the_size_of_cbenchs() {
        assert_eq!(PacketInTemplate::new(Version::V1_0, true, 64).unwrap().size(), 82);
        assert_eq!(PacketInTemplate::new(Version::V1_3, true, 64).unwrap().size(), 106);
    }

    #[test]
    fn generated_packet_ins_decode() {
        for (version, buffered, frame) in [
            (Version::V1_0, true, 64),
            (Version::V1_0, false, 64),
            (Version::V1_3, true, 0),
            (Version::V1_3, false, 1500),
        ] {
            let mut template = PacketInTemplate::new(version, buffered, frame).unwrap();
            let mut hosts = Hosts::new(1, 9, 3).of_switch(1);
            let (mut open, mut same) = (PendingPacketIns::new(20), hosts.clone());
            let size = template.size();
            let bytes = template.ask(1000, &mut hosts, &mut open).to_vec();
            assert_eq!((bytes.len(), open.count(), open.available()), (20 * size, 20, 0));
            for (number, message) in (0..).zip(bytes.chunks(size)) {
                let packet_in = PacketIn::decode(message).unwrap();
                let pair = same.pair(number.into());
                assert_eq!(packet_in.buffer_id, buffered.then_some(number));
                assert_eq!(packet_in.in_port, PortNo(pair.in_port().into()));
                assert_eq!(packet_in.data.len(), frame.max(MIN_FRAME));
                assert_eq!(packet_in.total_len as usize, packet_in.data.len());
                assert_eq!(packet_in.data[..12], pair.addresses());
                assert_eq!(packet_in.data[NUMBER_AT..][..4], number.to_be_bytes());
                assert_eq!(open.get(number), Some(number.into()));
            }
        }
    }

    #[test]
    fn ip_header_checksum_is_valid() {
        let frame = frame_of(64);
        let words = frame[14..34].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn packet_in_is_answered_once_and_late_answers_are_known() {
        let mut template = PacketInTemplate::new(Version::V1_0, true, 64).unwrap();
        let mut hosts = Hosts::new(1, 9, 3).of_switch(1);
        let mut open = PendingPacketIns::new(3);
        template.ask(3, &mut hosts, &mut open);
        assert!(matches!(open.answer(1), AnswerState::Pending(_)));
        assert_eq!(open.answer(1), AnswerState::Unknown);
        assert_eq!(open.answer(7), AnswerState::Unknown);
        assert_eq!(open.answer(u32::MAX), AnswerState::Unknown);
        assert_eq!(open.answer(1 << 31), AnswerState::Unknown);
        assert_eq!(open.give_up_all(), 2);
        assert_eq!((open.answer(0), open.answer(0)), (AnswerState::Late, AnswerState::Unknown));
        assert_eq!(open.available(), 3);
    }

    #[test]
    fn wire_numbers_wrap_without_ambiguity() {
        for ids in [MAX_IDS, 100_000] {
            let last = u64::from(ids) - 1;
            let mut open = PendingPacketIns::with_ids(3, ids);
            (open.next, open.next_id) = (last - 1, ids - 2);
            let asked = [open.add(), open.add(), open.add()];
            assert_eq!(asked, [last - 1, last, last + 1]);
            assert_eq!(asked.map(|seq| open.number_of(seq)), [ids - 2, ids - 1, 0]);
            assert_eq!(open.find_oldest(|seq| seq > last), Some(0));
            assert_eq!((open.get(ids), open.get(u32::MAX)), (None, None));
            for seq in asked {
                let number = open.number_of(seq);
                assert_eq!(open.answer(number), AnswerState::Pending(seq));
                assert_eq!(open.answer(number), AnswerState::Unknown);
            }
            assert_eq!(open.available(), 3);
        }
    }

    #[test]
    fn ids_may_equal_places() {
        let mut open = PendingPacketIns::with_ids(512, 1024);
        for _ in 0..10 {
            let asked: Vec<u64> = (0..512).map(|_| open.add()).collect();
            for seq in asked {
                assert_eq!(open.answer(open.number_of(seq)), AnswerState::Pending(seq));
            }
        }
        assert_eq!((open.next_id, open.overtaken()), (0, 0));
    }

    #[test]
    fn overtaken_packet_in_is_given_up() {
        let mut template = PacketInTemplate::new(Version::V1_0, true, 64).unwrap();
        let mut hosts = Hosts::new(1, 9, 3).of_switch(1);
        let mut open = PendingPacketIns::new(3);
        template.ask(1, &mut hosts, &mut open);
        let slots = u32::try_from(open.slots()).unwrap();
        for number in 1..=slots {
            assert_eq!((open.get(0), open.overtaken()), (Some(0), 0));
            template.ask(1, &mut hosts, &mut open);
            assert_eq!(open.answer(number), AnswerState::Pending(number.into()));
        }
        assert_eq!((open.get(0), open.overtaken()), (None, 1));
        assert_eq!((open.answer(0), open.count()), (AnswerState::Late, 0));
    }
}
