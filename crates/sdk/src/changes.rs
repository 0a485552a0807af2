//! Change sets: flow-mods, group-mods and meter-mods that one switch applies wholly or not at all.
//!
//! [`Network::commit`](crate::Network::commit) sends a set, and [`Event::Committed`](crate::Event::Committed) has its outcome.
//! `docs/change-sets.md` explains the guarantees.
//!
//! The layout of a set in the down ring, in bytes:
//!
//! ```text
//! 0          4           8
//! +----------+-----------+---------+-----+---------+-----
//! | reserved | commit id | message | pad | message | ...     numbers are little endian,
//! +----------+-----------+---------+-----+---------+-----    each message begins at a multiple of 8 bytes
//! ```
//!
//! The invariant: the reserved bytes are 0, which is no OpenFlow version. So a set is never a message.

use std::ops::Range;

use openflow::{ErrorMessage, FlowMod, GroupMod, Header, MeterMod};

use crate::abi::{Record, Refusal};
use crate::event::Switch;

/// The `count` of a series that marks a change set instead.
pub const CHANGE_SET: u32 = u32::MAX;

/// Most changes in a set.
pub const MAX_CHANGES: usize = 2048;

/// Most bytes of a set, with its head. A ring of the default size has room for it.
pub const MAX_CHANGE_SET: usize = 192 * 1024;

/// Bytes before the first message.
const HEAD: usize = 8;

/// Each message begins at a multiple of this number of bytes.
const ALIGNMENT: usize = 8;

/// One change of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all changes are flows")]
pub enum Change<'a> {
    /// Adds, changes or deletes flows. It may name no buffer.
    Flow(FlowMod<'a>),
    /// Adds, changes or deletes a group.
    Group(GroupMod),
    /// Adds, changes or deletes a meter.
    Meter(MeterMod),
}

impl<'a> From<FlowMod<'a>> for Change<'a> {
    fn from(flow_mod: FlowMod<'a>) -> Self {
        Self::Flow(flow_mod)
    }
}

impl From<GroupMod> for Change<'_> {
    fn from(group_mod: GroupMod) -> Self {
        Self::Group(group_mod)
    }
}

impl From<MeterMod> for Change<'_> {
    fn from(meter_mod: MeterMod) -> Self {
        Self::Meter(meter_mod)
    }
}

/// The number of a change set that this application sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId(pub u32);

/// How the switch applied a change set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guarantee {
    /// In one step: each packet met the state before all changes or the state after them.
    Atomic,
    /// One after the other, additions first. Packets may have met states between the two.
    Ordered,
}

/// The result of a change set that the switch has applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// How the switch applied the changes.
    pub guarantee: Guarantee,
    /// Number of changes that the switch takes in no bundle, so that it applied them before or after the step of
    /// [`Guarantee::Atomic`].
    pub outside: u32,
}

/// Why a change set was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotApplied<'a> {
    /// The kernel refused a change. Nothing was sent.
    Refused {
        /// Index of the change in the set.
        index: usize,
        /// The reason; `None` if this SDK does not know it.
        why: Option<Refusal>,
        /// The missing capability and the line of the configuration that grants it; `None` if no capability would admit
        /// the change.
        remedy: Option<&'a str>,
    },
    /// The switch refused a change, or the set as a whole.
    Failed {
        /// Index of the change in the set; `None` if the error concerns the whole set.
        index: Option<usize>,
        /// The switch's error, without the message that it is about.
        error: ErrorMessage<'a>,
        /// Whether other changes of the set may have been applied.
        is_partial: bool,
    },
    /// The switch did not answer in time.
    Unanswered {
        /// Whether all or some changes may have been applied.
        is_partial: bool,
    },
}

/// The outcome of a change set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed<'a> {
    /// The switch that the set was for.
    pub switch: Switch,
    /// The set, as [`Network::commit`](crate::Network::commit) returned it.
    pub commit: CommitId,
    /// The result.
    pub outcome: Result<Applied, NotApplied<'a>>,
}

/// The number of an outcome: `reason` of its record.
mod number {
    pub(super) const ATOMIC: u8 = 0;
    pub(super) const ORDERED: u8 = 1;
    pub(super) const REFUSED: u8 = 2;
    pub(super) const FAILED: u8 = 3;
    pub(super) const UNANSWERED: u8 = 4;
}

/// `in_port` of a record about no single change.
const NO_INDEX: u32 = u32::MAX;

impl<'a> Committed<'a> {
    /// Reads a record; `None` if it is malformed or of a later SDK.
    pub(crate) fn of(switch: Switch, record: &Record, body: &'a [u8]) -> Option<Self> {
        let commit = CommitId(u32::try_from(record.cookie).ok()?);
        let (number, is_partial) = (record.in_port, record.table_id != 0);
        let applied = |guarantee| Ok(Applied { guarantee, outside: number });
        let outcome = match record.reason {
            number::ATOMIC => applied(Guarantee::Atomic),
            number::ORDERED => applied(Guarantee::Ordered),
            number::REFUSED => Err(NotApplied::Refused {
                index: number as usize,
                why: Refusal::from_wire(record.table_id),
                remedy: std::str::from_utf8(body).ok().filter(|text| !text.is_empty()),
            }),
            number::FAILED => Err(NotApplied::Failed {
                index: (number != NO_INDEX).then_some(number as usize),
                error: ErrorMessage::decode(body).ok()?,
                is_partial,
            }),
            number::UNANSWERED => Err(NotApplied::Unanswered { is_partial }),
            _ => return None,
        };
        Some(Self { switch, commit, outcome })
    }

    /// Writes the outcome into `record`, which has its kind and switch. Returns the text behind a refusal. For hosts.
    ///
    /// The body of the record is that text, or the error of [`NotApplied::Failed`], which the caller encodes.
    pub fn write(&self, record: &mut Record) -> Option<&'a str> {
        record.cookie = self.commit.0.into();
        let index = |index: usize| u32::try_from(index).unwrap_or(NO_INDEX);
        (record.reason, record.in_port, record.table_id) = match self.outcome {
            Ok(Applied { guarantee: Guarantee::Atomic, outside }) => (number::ATOMIC, outside, 0),
            Ok(Applied { guarantee: Guarantee::Ordered, outside }) => (number::ORDERED, outside, 0),
            Err(NotApplied::Refused { index: at, why, remedy }) => {
                (record.reason, record.in_port) = (number::REFUSED, index(at));
                record.table_id = why.map_or(0, |why| why as u8);
                return remedy;
            }
            Err(NotApplied::Failed { index: at, is_partial, .. }) => {
                (number::FAILED, at.map_or(NO_INDEX, index), is_partial.into())
            }
            Err(NotApplied::Unanswered { is_partial }) => {
                (number::UNANSWERED, NO_INDEX, is_partial.into())
            }
        };
        None
    }
}

/// A change set that is being written.
#[derive(Debug)]
pub(crate) struct SetWriter {
    pub(crate) bytes: Vec<u8>,
}

impl SetWriter {
    pub(crate) fn new(commit: CommitId) -> Self {
        Self { bytes: [[0; 4], commit.0.to_le_bytes()].concat() }
    }

    /// Pads the set, so that the next message begins where it must.
    pub(crate) fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// Divides a change set into its number and its messages, which are not decoded. For hosts.
///
/// `None` if the bytes are not 1 to [`MAX_CHANGES`] whole messages behind a head, or more than [`MAX_CHANGE_SET`].
pub fn divide(set: &[u8]) -> Option<(CommitId, Vec<Range<usize>>)> {
    let (head, mut rest) = set.split_first_chunk::<HEAD>()?;
    let [0, 0, 0, 0, id @ ..] = head else { return None };
    if set.len() > MAX_CHANGE_SET {
        return None;
    }
    let mut ranges = Vec::new();
    loop {
        let header: &[u8; Header::SIZE] = rest.first_chunk()?;
        let size = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if size < Header::SIZE || size > rest.len() || ranges.len() == MAX_CHANGES {
            return None;
        }
        let start = set.len() - rest.len();
        ranges.push(start..start + size);
        if size == rest.len() {
            return Some((CommitId(u32::from_le_bytes(*id)), ranges));
        }
        rest = rest.get(size.next_multiple_of(ALIGNMENT)..)?;
    }
}

#[cfg(test)]
mod tests {
    use openflow::Version;

    use super::*;
    use crate::abi::RecordKind;

    #[test]
    fn set_is_divided_only_into_whole_messages() {
        let message = |size: u8| {
            let mut message = vec![9; size.into()];
            message[..4].copy_from_slice(&[4, 14, 0, size]);
            message
        };
        let mut writer = SetWriter::new(CommitId(0x0102_0304));
        for size in [8, 13, 16] {
            writer.align();
            writer.bytes.extend(message(size));
        }
        let set = writer.bytes;
        assert_eq!(divide(&set), Some((CommitId(0x0102_0304), vec![8..16, 16..29, 32..48])));
        for cut in 0..set.len() {
            let expected = [16, 29].contains(&cut);
            assert_eq!(divide(&set[..cut]).is_some(), expected, "the first {cut} bytes");
        }
        assert_eq!(divide(&[&[1][..], &set[1..]].concat()), None, "not reserved bytes");
        let many = |count| [&[0; 8][..], &message(8).repeat(count)].concat();
        assert_eq!(divide(&many(MAX_CHANGES)).unwrap().1.len(), MAX_CHANGES);
        assert_eq!(divide(&many(MAX_CHANGES + 1)), None);
        let mut long = vec![0; 60_000];
        long[..4].copy_from_slice(&[4, 14, 0xea, 0x60]);
        assert!(divide(&[&[0; 8][..], &long.repeat(3)].concat()).is_some());
        assert_eq!(divide(&[&[0; 8][..], &long.repeat(4)].concat()), None);
    }

    #[test]
    fn outcome_survives_as_a_record() {
        let switch = Switch { dpid: openflow::Dpid(7), epoch: 2, version: Version::V1_4 };
        let error = ErrorMessage { version: Version::V1_4, kind: 5, code: 1, data: &[] };
        let mut body = Vec::new();
        openflow::append(&mut body, |out| error.encode(0, out)).unwrap();
        let refused = |why, remedy| Err(NotApplied::Refused { index: 4, why, remedy });
        let failed = |index, is_partial| Err(NotApplied::Failed { index, error, is_partial });
        let applied = |guarantee, outside| Ok(Applied { guarantee, outside });
        for outcome in [
            applied(Guarantee::Atomic, 3),
            applied(Guarantee::Ordered, 0),
            refused(Some(Refusal::Foreign), Some("a text")),
            refused(Some(Refusal::Quota), None),
            failed(Some(8), false),
            failed(None, true),
            Err(NotApplied::Unanswered { is_partial: true }),
        ] {
            let committed = Committed { switch, commit: CommitId(9), outcome };
            let mut record = Record::new(RecordKind::Committed, 5, 7, 2);
            let text = committed.write(&mut record).map(str::as_bytes);
            let body = match outcome {
                Err(NotApplied::Failed { .. }) => &body[..],
                _ => text.unwrap_or_default(),
            };
            assert_eq!(Committed::of(switch, &record, body), Some(committed));
        }
        let mut record = Record::new(RecordKind::Committed, 5, 7, 2);
        assert_eq!(Committed::of(switch, &record, &[]), None, "no commit has this number");
        (record.cookie, record.reason) = (1, 9);
        assert_eq!(Committed::of(switch, &record, &[]), None, "an unknown outcome");
    }
}
