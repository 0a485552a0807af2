//! Packet-ins made ahead, of which only what differs is written; and which of them wait for an answer.
//!
//! ```text
//! OpenFlow 1.0   header 8 | buffer_id 4 | total_len 2 | in_port 2 | reason, pad 2 | frame
//! OpenFlow 1.3   header 8 | buffer_id 4 | total_len 2 | reason, table 2 | cookie 8
//!                | match: type, length 4, oxm header 4, in_port 4, pad 4 | pad 2 | frame
//! frame          destination 6 | source 6 | ethertype 2 | IPv4 20 | UDP 8 | number 4 | zeros
//! ```
//!
//! With the default frame of 64 bytes a packet-in of OpenFlow 1.0 takes 82 bytes, as cbench's does.
//! Where the switch keeps the packet, the question's number is its buffer; where it does not, the
//! number in the frame says which question a packet-out answers.

use openflow::{EncodeError, PacketIn, PortNo, Version};

use crate::hosts::SwitchHosts;

/// The least bytes of a frame: its headers and the number.
pub const LEAST_FRAME: usize = NUMBER_AT + 4;

/// Where in the frame the question's number is.
pub(crate) const NUMBER_AT: usize = 14 + 20 + 8;

/// Bytes that are sent at once, at most: as many packet-ins as fit, and one at least.
pub const CHUNK: usize = 64 * 1024;

/// The most questions a switch may have open.
pub const MOST_OPEN: usize = 1 << 20;

/// A chunk full of packet-ins that are alike.
#[derive(Debug, Clone)]
pub struct Template {
    version: Version,
    buffered: bool,
    /// Bytes of one.
    size: usize,
    frame_at: usize,
    chunk: Box<[u8]>,
}

impl Template {
    /// Packet-ins with frames of `frame` bytes, buffered or whole.
    ///
    /// # Errors
    /// [`EncodeError`] if no message can hold the frame.
    pub fn new(version: Version, buffered: bool, frame: usize) -> Result<Self, EncodeError> {
        let frame = frame_of(frame.max(LEAST_FRAME));
        let packet_in = PacketIn {
            buffer_id: buffered.then_some(0),
            cookie: if version == Version::V1_0 { PacketIn::NO_COOKIE } else { 0 },
            ..PacketIn::new(PortNo(1), &frame)
        };
        let mut one = vec![0; 64 + frame.len()];
        let size = packet_in.encode(version, 0, &mut one)?;
        one.truncate(size);
        let chunk = one.repeat((CHUNK / size).max(1)).into_boxed_slice();
        Ok(Self { version, buffered, size, frame_at: size - frame.len(), chunk })
    }

    /// Bytes of one packet-in.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many fit into a chunk.
    pub fn per_chunk(&self) -> usize {
        self.chunk.len() / self.size
    }

    /// The frame as every question has it; addresses and number are to be left out of account.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.chunk[self.frame_at..self.size]
    }

    /// Whether the switch keeps the packets.
    pub fn is_buffered(&self) -> bool {
        self.buffered
    }

    /// Makes the first `count` packet-ins of the chunk questions of `hosts`, each with a number that
    /// `open` gives; returns their bytes.
    pub fn ask(&mut self, count: usize, hosts: &mut SwitchHosts, open: &mut Open) -> &[u8] {
        let count = count.min(self.per_chunk()).min(open.room());
        // With constant offsets the compiler makes stores of it.
        match self.version {
            Version::V1_0 => self.fill::<14, 18>(count, hosts, open),
            Version::V1_3 => self.fill::<34, 42>(count, hosts, open),
        }
        &self.chunk[..count * self.size]
    }

    /// `PORT`: where the lower 16 bits of the in-port are.
    fn fill<const PORT: usize, const FRAME: usize>(
        &mut self,
        count: usize,
        hosts: &mut SwitchHosts,
        open: &mut Open,
    ) {
        for message in self.chunk.chunks_exact_mut(self.size).take(count) {
            let number = open.next_id;
            let pair = hosts.talk(open.open());
            let Some((head, frame)) = message.split_first_chunk_mut::<FRAME>() else { return };
            let Some(frame) = frame.first_chunk_mut::<LEAST_FRAME>() else { return };
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

/// A frame of IPv4 and UDP whose addresses are to be filled in.
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

/// The questions of a switch that wait for an answer: a bit for each.
///
/// Questions are counted; on the wire their number is the count modulo the number of ids, which is 2^31 unless the
/// caller says otherwise, as some controllers take buffers for signed. There are always more ids than places, so that
/// two questions that wait never share one.
#[derive(Debug, Clone)]
pub struct Open {
    bits: Box<[u64]>,
    /// How many questions were asked.
    next: u64,
    /// The number of the next question on the wire, below `ids`.
    next_id: u32,
    ids: u32,
    /// No question that waits is older; only [`Open::find`] moves it.
    oldest: u64,
    /// How many wait.
    count: usize,
    /// How many may wait.
    window: usize,
    /// Questions that were given up as never answered; bounded.
    expired: Vec<u64>,
    overtaken: u64,
}

/// Most ids of questions.
pub const MOST_IDS: u32 = 1 << 31;

/// As many later questions may be answered before one that waits, at least.
pub const OVERTAKEN: usize = 512;

/// Expired questions that are remembered.
const MOST_EXPIRED: usize = 4096;

/// What became of a number that somebody answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It waited; this was the question.
    Now(u64),
    /// It had been given up.
    Late,
    /// It was answered before, or never asked.
    Never,
}

impl Open {
    /// At most `window` questions at a time.
    pub fn new(window: usize) -> Self {
        Self::with_ids(window, MOST_IDS)
    }

    /// At most `window` questions at a time, with ids below `ids`.
    ///
    /// # Panics
    /// If there are fewer ids than [places](Self::places_for), or more than [`MOST_IDS`].
    pub fn with_ids(window: usize, ids: u32) -> Self {
        let places = Self::places_for(window);
        assert!(places <= ids as usize && ids <= MOST_IDS, "an id for each place");
        Self {
            bits: vec![0; places / 64].into_boxed_slice(),
            next: 0,
            next_id: 0,
            ids,
            oldest: 0,
            count: 0,
            window: window.clamp(1, MOST_OPEN),
            expired: Vec::new(),
            overtaken: 0,
        }
    }

    /// How many places there are if `window` questions may wait.
    pub fn places_for(window: usize) -> usize {
        (window.clamp(1, MOST_OPEN) + OVERTAKEN).next_power_of_two()
    }

    /// The number of a question on the wire.
    #[expect(clippy::cast_possible_truncation, reason = "it is less than a number of 32 bits")]
    fn number_of(&self, question: u64) -> u32 {
        (question % u64::from(self.ids)) as u32
    }

    /// How many questions wait.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many more may be asked.
    #[inline]
    pub fn room(&self) -> usize {
        self.window - self.count
    }

    /// How many were asked so far: the next question.
    #[inline]
    pub fn asked(&self) -> u64 {
        self.next
    }

    /// How many places there are: questions that wait never share one.
    pub fn places(&self) -> usize {
        self.bits.len() * 64
    }

    /// The place of a question.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower bits are meant")]
    pub fn place(&self, question: u64) -> usize {
        question as usize & (self.places() - 1)
    }

    /// Where a question's bit is, and which it is.
    #[inline]
    fn bit(&self, question: u64) -> (usize, u64) {
        let place = self.place(question);
        (place / 64, 1 << (place % 64))
    }

    /// How many questions were given up because so many later ones had been asked and answered
    /// meanwhile that their place was needed: [`OVERTAKEN`] at least.
    pub fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// Another question. There has to be [`room`](Self::room).
    #[inline]
    fn open(&mut self) -> u64 {
        let question = self.next;
        self.next += 1;
        self.next_id = if self.next_id + 1 == self.ids { 0 } else { self.next_id + 1 };
        let (word, bit) = self.bit(question);
        if self.bits[word] & bit == 0 {
            self.count += 1;
            self.bits[word] |= bit;
        } else {
            self.overtake(question);
        }
        question
    }

    /// The place of a question is needed.
    #[cold]
    fn overtake(&mut self, by: u64) {
        self.overtaken += 1;
        self.forget(by - self.places() as u64);
    }

    /// Remembers a question that was given up.
    fn forget(&mut self, question: u64) {
        if self.expired.len() == MOST_EXPIRED {
            self.expired.remove(0);
        }
        self.expired.push(question);
    }

    /// The latest question with a number, if there is one that could still wait.
    #[inline]
    fn latest(&self, number: u32) -> Option<u64> {
        let ids_before = if number < self.next_id { 0 } else { self.ids };
        let back = (self.next_id + ids_before).wrapping_sub(number);
        let question = self.next.checked_sub(back.into())?;
        (back as usize <= self.places() && number < self.ids).then_some(question)
    }

    /// The question with a number, if it waits.
    #[inline]
    pub fn get(&self, number: u32) -> Option<u64> {
        let question = self.latest(number)?;
        let (word, bit) = self.bit(question);
        (self.bits[word] & bit != 0).then_some(question)
    }

    /// Takes a question as answered.
    #[inline]
    pub fn close(&mut self, number: u32) -> Closed {
        let Some(question) = self.get(number) else { return self.close_late(number) };
        self.close_waiting(question);
        Closed::Now(question)
    }

    /// Takes a question that waits as answered.
    #[inline]
    pub(crate) fn close_waiting(&mut self, question: u64) {
        let (word, bit) = self.bit(question);
        self.bits[word] &= !bit;
        self.count -= 1;
    }

    #[cold]
    fn close_late(&mut self, number: u32) -> Closed {
        match self.expired.iter().position(|question| self.number_of(*question) == number) {
            Some(place) => {
                self.expired.swap_remove(place);
                Closed::Late
            }
            None => Closed::Never,
        }
    }

    /// The number of the oldest question that waits and of which `what` is so.
    pub fn find(&mut self, mut what: impl FnMut(u64) -> bool) -> Option<u32> {
        self.oldest = self.oldest.max(self.next.saturating_sub(self.places() as u64));
        let waits = |open: &Self, question| open.get(open.number_of(question)).is_some();
        while self.oldest < self.next && !waits(self, self.oldest) {
            self.oldest += 1;
        }
        let mut questions = self.oldest..self.next;
        let found = questions.find(|question| waits(self, *question) && what(*question));
        found.map(|question| self.number_of(question))
    }

    /// Gives up all that wait; returns how many they were.
    pub fn expire(&mut self) -> usize {
        if self.count > 0 {
            for question in self.next.saturating_sub(self.places() as u64)..self.next {
                if self.get(self.number_of(question)).is_some() {
                    self.forget(question);
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
    fn packet_in_of_openflow_1_0_is_as_long_as_cbenchs() {
        assert_eq!(Template::new(Version::V1_0, true, 64).unwrap().size(), 82);
        assert_eq!(Template::new(Version::V1_3, true, 64).unwrap().size(), 106);
    }

    #[test]
    fn questions_are_the_packet_ins_they_seem_to_be() {
        for (version, buffered, frame) in [
            (Version::V1_0, true, 64),
            (Version::V1_0, false, 64),
            (Version::V1_3, true, 0),
            (Version::V1_3, false, 1500),
        ] {
            let mut template = Template::new(version, buffered, frame).unwrap();
            let mut hosts = Hosts::new(1, 9, 3).of_switch(1);
            let (mut open, mut same) = (Open::new(20), hosts.clone());
            let size = template.size();
            let bytes = template.ask(1000, &mut hosts, &mut open).to_vec();
            assert_eq!((bytes.len(), open.count(), open.room()), (20 * size, 20, 0));
            for (number, message) in (0..).zip(bytes.chunks(size)) {
                let packet_in = PacketIn::decode(message).unwrap();
                let pair = same.talk(number.into());
                assert_eq!(packet_in.buffer_id, buffered.then_some(number));
                assert_eq!(packet_in.in_port, PortNo(pair.in_port().into()));
                assert_eq!(packet_in.data.len(), frame.max(LEAST_FRAME));
                assert_eq!(packet_in.total_len as usize, packet_in.data.len());
                assert_eq!(packet_in.data[..12], pair.addresses());
                assert_eq!(packet_in.data[NUMBER_AT..][..4], number.to_be_bytes());
                assert_eq!(open.get(number), Some(number.into()));
            }
        }
    }

    #[test]
    fn ip_header_sums_up_to_ones() {
        let frame = frame_of(64);
        let words = frame[14..34].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn question_is_answered_once_and_late_is_not_never() {
        let mut template = Template::new(Version::V1_0, true, 64).unwrap();
        let mut hosts = Hosts::new(1, 9, 3).of_switch(1);
        let mut open = Open::new(3);
        template.ask(3, &mut hosts, &mut open);
        assert!(matches!(open.close(1), Closed::Now(_)));
        assert_eq!(open.close(1), Closed::Never);
        assert_eq!(open.close(7), Closed::Never);
        assert_eq!(open.close(u32::MAX), Closed::Never);
        assert_eq!(open.close(1 << 31), Closed::Never);
        assert_eq!(open.expire(), 2);
        assert_eq!((open.close(0), open.close(0)), (Closed::Late, Closed::Never));
        assert_eq!(open.room(), 3);
    }

    #[test]
    fn numbers_go_round_and_are_told_apart() {
        for ids in [MOST_IDS, 100_000] {
            let last = u64::from(ids) - 1;
            let mut open = Open::with_ids(3, ids);
            (open.next, open.next_id) = (last - 1, ids - 2);
            let asked = [open.open(), open.open(), open.open()];
            assert_eq!(asked, [last - 1, last, last + 1]);
            assert_eq!(asked.map(|question| open.number_of(question)), [ids - 2, ids - 1, 0]);
            assert_eq!(open.find(|question| question > last), Some(0));
            assert_eq!((open.get(ids), open.get(u32::MAX)), (None, None));
            for question in asked {
                let number = open.number_of(question);
                assert_eq!(open.close(number), Closed::Now(question));
                assert_eq!(open.close(number), Closed::Never);
            }
            assert_eq!(open.room(), 3);
        }
    }

    #[test]
    fn as_many_ids_as_places_are_told_apart() {
        let mut open = Open::with_ids(512, 1024);
        for _ in 0..10 {
            let asked: Vec<u64> = (0..512).map(|_| open.open()).collect();
            for question in asked {
                assert_eq!(open.close(open.number_of(question)), Closed::Now(question));
            }
        }
        assert_eq!((open.next_id, open.overtaken()), (0, 0));
    }

    #[test]
    fn question_that_many_overtake_is_given_up() {
        let mut template = Template::new(Version::V1_0, true, 64).unwrap();
        let mut hosts = Hosts::new(1, 9, 3).of_switch(1);
        let mut open = Open::new(3);
        template.ask(1, &mut hosts, &mut open);
        let places = u32::try_from(open.places()).unwrap();
        for number in 1..=places {
            assert_eq!((open.get(0), open.overtaken()), (Some(0), 0));
            template.ask(1, &mut hosts, &mut open);
            assert_eq!(open.close(number), Closed::Now(number.into()));
        }
        assert_eq!((open.get(0), open.overtaken()), (None, 1));
        assert_eq!((open.close(0), open.count()), (Closed::Late, 0));
    }
}
