//! Copies an app's messages out of its ring, in portions, expands series, and checks each message.
//!
//! A record has one message, several for one connection, a series, or a change set, which ends the portion. Several are divided by the lengths in their headers;
//! if these do not add up, the record is refused as one message.
//!
//! This is the boundary between the app's memory and the kernel's: behind it a message is a private copy that nobody
//! changes, and no series ([`series`]) exists. The flow-mod of a series was checked once, the ports and packets of each
//! message for themselves.

use std::ops::Range;

use openflow::Header;
use sdk::Refusal;
use sdk::changes::CHANGE_SET;
use series::{Expanded, ExpandedKind, Problem, Series};
use sys::ring::{Down, MAX_MESSAGES, PeerFault};

use super::AppPort;
use super::tickets::Verdict;
use crate::check::{Checked, Rights};
use crate::rewrite::xid;

/// Most records of an app, and bytes of its messages, in one portion, about: they stay in the core's first cache.
const PORTION: usize = 128;
const PORTION_BYTES: usize = 16 * 1024;

/// The beginning of each message in a record is a multiple of this number of bytes.
pub(super) const ALIGNMENT: usize = 8;

/// Bytes of a record that cost as much time as another record.
const LONG: usize = 1024;

/// Bytes of a usual message in a change set.
const USUAL_CHANGE: usize = 96;

/// A portion of an app's messages. Emptied and filled again, so that nothing is allocated per message.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    list: Vec<Alike>,
    /// The record of the series that is being expanded.
    record: Vec<u8>,
    /// The change set behind the other messages.
    change_set: Option<SetRecord>,
}

/// A change set that was copied and neither divided nor checked.
#[derive(Debug, Clone)]
pub(crate) struct SetRecord {
    pub(crate) dpid: u64,
    pub(crate) epoch: u32,
    range: Range<usize>,
}

/// One message of an app, or several that lie side by side in the bytes of the portion and are decided about together:
/// of one size, for one connection, [alike](Checked::is_alike), and with transaction ids that count up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alike {
    pub(crate) dpid: u64,
    pub(crate) epoch: u32,
    /// At least 1.
    pub(crate) count: u32,
    /// Whether the app may send each, as far as the message itself says; why not, otherwise.
    pub(crate) checked: Result<Checked, Refusal>,
    /// The transaction id that the app gave the first.
    pub(crate) xid: u32,
    /// Where the first begins, and bytes of each.
    start: usize,
    pub(crate) size: usize,
}

impl Alike {
    /// One message for the connection `epoch` of the switch `dpid`, which begins at `start`.
    #[inline]
    pub(crate) fn one(
        (dpid, epoch): (u64, u32),
        checked: Result<Checked, Refusal>,
        (start, message): (usize, &[u8]),
    ) -> Self {
        Self { dpid, epoch, count: 1, checked, xid: xid(message), start, size: message.len() }
    }

    /// Each message by itself.
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        let xids = (0..).map(move |number| self.xid.wrapping_add(number));
        self.ranges().zip(xids).map(move |(range, xid)| Self {
            count: 1,
            xid,
            start: range.start,
            ..self
        })
    }

    /// The place of each message in the bytes of the portion.
    #[inline]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let Self { start, size, .. } = *self;
        (0..self.count as usize).map(move |number| {
            let start = start + number * size;
            start..start + size
        })
    }

    /// Adds messages; `false` if they do not follow these or are not like them.
    #[inline]
    fn extend(&mut self, next: &Self) -> bool {
        let is_alike = match (&self.checked, &next.checked) {
            (Ok(checked), Ok(next)) => checked.is_alike(next),
            _ => false,
        };
        let is_alike = is_alike
            && (self.dpid, self.epoch, self.size) == (next.dpid, next.epoch, next.size)
            && self.start + self.count as usize * self.size == next.start
            && self.xid.wrapping_add(self.count) == next.xid;
        if is_alike {
            self.count += next.count;
        }
        is_alike
    }
}

impl Messages {
    /// The messages, and the bytes in which they are.
    pub(crate) fn parts(&mut self) -> (&[Alike], &mut [u8]) {
        (&self.list, &mut self.bytes)
    }

    /// Takes the change set behind the other messages, which are sent before it.
    pub(crate) fn take_change_set(&mut self) -> Option<(SetRecord, &mut [u8])> {
        let set = self.change_set.take()?;
        let bytes = &mut self.bytes[set.range.clone()];
        Some((set, bytes))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.change_set = None;
    }

    /// Keeps the record of `size` bytes that was appended, a change set. Returns about how much work it is, in records.
    fn keep_change_set(&mut self, (dpid, epoch): (u64, u32), size: usize) -> usize {
        let range = self.bytes.len() - size..self.bytes.len();
        self.change_set = Some(SetRecord { dpid, epoch, range });
        1 + size / USUAL_CHANGE
    }

    /// Checks the messages of the record of `size` bytes that was appended. Returns how much work they were, in records.
    #[inline]
    fn push(&mut self, rights: &Rights, to: (u64, u32), size: usize) -> usize {
        let Self { bytes, list, .. } = self;
        let mut start = bytes.len() - size;
        let mut work = 0;
        // A record that cannot be divided is checked, and refused, as one message.
        let is_divided = are_messages(&bytes[start..]);
        while work == 0 || start < bytes.len() {
            let rest = &bytes[start..];
            let size = if is_divided { length(rest).unwrap_or(rest.len()) } else { rest.len() };
            let message = &rest[..size];
            note(list, Alike::one(to, rights.check_message(message), (start, message)));
            (start, work) = (start + size.next_multiple_of(ALIGNMENT), work + 1 + size / LONG);
        }
        work
    }

    /// Replaces the record of `size` bytes that was appended, which claims to be a series of `count` flow-mods, by the
    /// messages of the series. Returns how much work they were, in records.
    fn expand(&mut self, rights: &Rights, to: (u64, u32), size: usize, count: u32) -> usize {
        let Self { bytes, list, record, .. } = self;
        let start = bytes.len() - size;
        record.clear();
        if start == 0 {
            std::mem::swap(record, bytes); // instead of a copy
        } else {
            record.extend_from_slice(&bytes[start..]);
            bytes.truncate(start);
        }
        let Some(series) = Series::read(record, count) else {
            bytes.extend_from_slice(record);
            note(list, Alike::one(to, Err(Refusal::Shape), (start, record)));
            return 1 + size / LONG;
        };
        let mut messages = 0;
        let flow_mod = rights.check_message(series.flow_mod());
        series.expand(rights, bytes, |expanded, bytes| {
            let Expanded { start, size, count, kind, problem } = expanded;
            let first = &bytes[..size];
            // One check for all: they differ only in what the rights' `Limits` have decided for each, in buffers and in
            // addresses. For packet-outs it is that of the first.
            let checked = match (kind, problem) {
                (_, Some(Problem::Inexpressible)) => Err(Refusal::Shape),
                (ExpandedKind::FlowMod, None) => flow_mod,
                (ExpandedKind::FlowMod, Some(Problem::Forbidden)) => {
                    flow_mod.and(Err(Refusal::Capability))
                }
                (ExpandedKind::PacketOut, _) => rights.check_message(first),
            };
            note(list, Alike { count, ..Alike::one(to, checked, (start, first)) });
            messages += count as usize;
        });
        messages + size / LONG
    }
}

/// The length of the message that the bytes begin with, as its header has it (OpenFlow 1.3.5 §7.1); `None` if they have
/// not all of it.
#[inline]
fn length(bytes: &[u8]) -> Option<usize> {
    let [_, _, high, low, ..] = *bytes.first_chunk::<{ Header::SIZE }>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    (Header::SIZE..=bytes.len()).contains(&length).then_some(length)
}

/// Whether the header of a message has this length.
#[inline]
pub(super) fn has_length(message: &[u8], size: usize) -> bool {
    length(message) == Some(size)
}

/// Whether the bytes are at most [`MAX_MESSAGES`] whole messages, each at a multiple of [`ALIGNMENT`].
#[inline]
fn are_messages(bytes: &[u8]) -> bool {
    let (mut start, mut count) = (0, 0);
    while let Some(length) = bytes.get(start..).and_then(length) {
        if start + length == bytes.len() {
            return true;
        }
        (start, count) = (start + length.next_multiple_of(ALIGNMENT), count + 1);
        if count == MAX_MESSAGES {
            return false;
        }
    }
    false
}

/// Notes messages: with the last ones if they are like them.
#[inline]
fn note(list: &mut Vec<Alike>, message: Alike) {
    if !list.last_mut().is_some_and(|last| last.extend(&message)) {
        list.push(message);
    }
}

impl AppPort {
    /// Replaces `messages` by the next portion of the app's messages; what the app said about tickets is appended to
    /// `verdicts`. Returns how much work the portion was, in records; 0 if there is nothing more.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone broke its ring, behind what was taken.
    pub(crate) fn receive(
        &mut self,
        messages: &mut Messages,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<usize, PeerFault> {
        messages.clear();
        let mut taken = 0;
        while taken < PORTION
            && messages.bytes.len() <= PORTION_BYTES
            && messages.change_set.is_none()
        {
            match self.take(&mut messages.bytes, verdicts)? {
                Some(Down::Send { epoch, dpid, number, message }) => {
                    let (to, size) = ((dpid, epoch), message.len());
                    let rights = self.rights.at(dpid);
                    taken += match number {
                        0 => messages.push(rights, to, size),
                        CHANGE_SET => messages.keep_change_set(to, size),
                        count => messages.expand(rights, to, size, count),
                    };
                    self.throttle.note_message();
                }
                Some(Down::Done(count)) => {
                    self.throttle.note_done(count);
                    taken += 1;
                }
                Some(Down::Stop(_)) => taken += 1,
                None => return Ok(taken),
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use control::app::AppId;
    use control::policy::{Capability, Grant, Policy};
    use openflow::{Blanks, FlowMod, FlowModTemplate, MacAddr, Match, PortNo, Version};

    use super::*;
    use crate::check::AppRights;

    /// A port that OpenFlow 1.0 does not have, and ports that need a capability or that no app may use.
    const PORTS: [PortNo; 6] = [
        PortNo(3),
        PortNo(0x1_0000),
        PortNo::CONTROLLER,
        PortNo::NORMAL,
        PortNo::IN_PORT,
        PortNo::LOCAL,
    ];

    const TO: (u64, u32) = (7, 1);

    fn rights(capabilities: &[Capability]) -> Rights {
        let capabilities = Grant::unscoped(capabilities);
        let policy = Policy { capabilities, ..Policy::default() };
        AppRights::of(AppId(1), &policy).at(TO.0).clone()
    }

    /// Series of all combinations of ports and packets, each with its number of flow-mods.
    fn all_series(version: Version) -> Vec<(Vec<u8>, u32)> {
        let add = FlowMod::add(Match::new()).priority(9);
        let template = FlowModTemplate::new(&add, version).unwrap();
        let lldp = [&[7; 12][..], &[0x88, 0xcc, 0, 0]].concat();
        // Of one size, so that they can be alike.
        let packets = [&b""[..], b"a plain packet..", &lldp, b"another packet.."];
        let mut flows = Vec::new();
        for in_port in PORTS {
            for output in PORTS {
                let (eth_dst, eth_src) = (MacAddr([2; 6]), MacAddr([4; 6]));
                flows.push(Blanks { in_port, eth_dst, eth_src, buffer_id: Some(5), output });
            }
        }
        let written = |flow: &Blanks| {
            let numbers = [flow.in_port.0, flow.output.0, flow.buffer_id.unwrap_or(u32::MAX)];
            let numbers = numbers.map(u32::to_le_bytes).concat();
            [&numbers[..], &flow.eth_dst.0, &flow.eth_src.0].concat()
        };
        let mut alone = template.message().to_vec();
        alone.extend(flows.iter().flat_map(written));
        let mut all = vec![(alone, 36)];
        for first in 0..packets.len() {
            let mut record = template.message().to_vec();
            for (flow, packet) in flows.iter().zip(packets.iter().cycle().skip(first)) {
                let size = u32::try_from(packet.len()).unwrap().to_le_bytes();
                record.extend([&written(flow)[..], &size, packet].concat());
            }
            all.push((record, 36));
        }
        all
    }

    #[test]
    fn message_of_a_series_is_checked_as_if_it_were_alone() {
        let all_rights = [
            rights(&[Capability::FlowWrite, Capability::PacketOut]),
            rights(&[Capability::FlowWrite]),
            rights(&[Capability::FlowWrite, Capability::PacketOut, Capability::PacketOutReserved]),
            rights(&[Capability::PacketOut, Capability::FlowWrite, Capability::TopologyProbe]),
            rights(&[Capability::PacketOut]),
        ];
        let (mut sent, mut refused, mut together) = (0, 0, 0);
        for version in Version::ALL.iter().copied() {
            for (rights, (record, count)) in all_rights
                .iter()
                .flat_map(|rights| all_series(version).into_iter().map(move |it| (rights, it)))
            {
                let mut messages = Messages::default();
                messages.bytes.extend_from_slice(&record);
                messages.expand(rights, TO, record.len(), count);
                let (list, bytes) = messages.parts();
                let (mut end, mut next_xid) = (0, list[0].xid);
                for alike in list {
                    together = together.max(alike.count);
                    for one in alike.each() {
                        let range = one.ranges().next().unwrap();
                        let message = &bytes[range.clone()];
                        assert_eq!((range.start, one.xid, xid(message)), (end, next_xid, next_xid));
                        (end, next_xid) = (range.end, next_xid + 1);
                        let (sent_or_refused, alone) = (one.checked, rights.check_message(message));
                        // One with a port that OpenFlow 1.0 lacks is written with port 0.
                        let is_other =
                            version == Version::V1_0 && sent_or_refused == Err(Refusal::Shape);
                        assert!(is_other || sent_or_refused == alone, "{one:?} {alone:?}");
                        sent += u32::from(sent_or_refused.is_ok());
                        refused += u32::from(sent_or_refused.is_err());
                    }
                }
                assert_eq!(end, bytes.len());
            }
        }
        assert!(sent > 500 && refused > 500 && together > 2, "{sent} {refused} {together}");
    }

    #[test]
    fn messages_that_are_alike_are_kept_together() {
        let rights = rights(&[Capability::FlowWrite, Capability::PacketOut]);
        let add = FlowMod::add(Match::new()).priority(9);
        let template = FlowModTemplate::new(&add, Version::V1_3).unwrap();
        let flow = |output, buffer_id| Blanks {
            in_port: PortNo(1),
            eth_dst: MacAddr([2; 6]),
            eth_src: MacAddr([4; 6]),
            buffer_id,
            output: PortNo(output),
        };
        let mut messages = Messages::default();
        let mut push = |to, output, buffer_id, xid| {
            let before = messages.bytes.len();
            template.append_all([flow(output, buffer_id)], xid, &mut messages.bytes);
            messages.push(&rights, to, messages.bytes.len() - before);
            messages.list.last().unwrap().count
        };
        assert_eq!(push(TO, 1, None, u32::MAX), 1);
        assert_eq!(push(TO, 2, Some(5), 0), 2, "another buffer and output");
        assert_eq!(push(TO, 2, None, 2), 1, "a gap in the transaction ids");
        assert_eq!(push((7, 2), 2, None, 3), 1, "another connection");
        assert_eq!(push((8, 2), 2, None, 4), 1, "another switch");
        assert_eq!(push((8, 2), PortNo::NORMAL.0, None, 5), 1, "it is refused");
        assert_eq!(push((8, 2), PortNo::NORMAL.0, None, 6), 1, "so is it");
    }

    /// The messages of a record: whether each is allowed, its place and its size.
    fn divided(record: &[u8]) -> Vec<(bool, usize, usize)> {
        let rights = rights(&[Capability::FlowWrite]);
        let mut messages = Messages { bytes: vec![7; 24], ..Messages::default() };
        messages.bytes.extend(record);
        messages.push(&rights, TO, record.len());
        let one = |it: &Alike| it.each().collect::<Vec<_>>();
        let all = messages.list.iter().flat_map(one);
        all.map(|it| (it.checked.is_ok(), it.start - 24, it.size)).collect()
    }

    #[test]
    fn record_is_divided_by_the_lengths_of_its_messages() {
        for version in Version::ALL.iter().copied() {
            let mut flow_mod = Vec::new();
            let add = FlowMod::add(Match::new()).priority(9);
            openflow::append(&mut flow_mod, |out| add.encode(version, 1, out)).unwrap();
            let size = flow_mod.len();
            let odd = [version.wire(), 2, 0, 9, 0, 0, 0, 0, 0]; // an echo request, which is refused
            let record = [&flow_mod[..], &odd, &[0xaa; 7], &flow_mod, &flow_mod].concat();
            let behind = size + 16;
            let expected = [(true, 0, size), (false, size, 9), (true, behind, size)];
            let all = [&expected[..], &[(true, behind + size, size)]].concat();
            assert_eq!(divided(&record), all);
            for cut in 1..record.len() {
                let ends = [size, size + 9, behind + size];
                let is_whole = ends.contains(&cut);
                let expected = if is_whole { &all[..all.len()] } else { &[(false, 0, cut)][..] };
                let expected: Vec<_> = expected.iter().filter(|it| it.1 < cut).copied().collect();
                assert_eq!(divided(&record[..cut]), expected, "the first {cut} bytes");
            }
            let (most, more) = (flow_mod.repeat(MAX_MESSAGES), flow_mod.repeat(MAX_MESSAGES + 1));
            assert!(divided(&most).iter().all(|it| it.0));
            assert_eq!(divided(&more), [(false, 0, more.len())], "too many");
            assert_eq!(divided(&[]), [(false, 0, 0)]);
            assert_eq!(divided(&[version.wire(), 14, 0, 0, 0, 0, 0, 0]), [(false, 0, 8)]);
        }
    }
}
