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

use openflow::{ErrorMessage, FlowMod, GroupMod, Header, MeterMod, Version};

use crate::abi::{Record, Refusal};
use crate::event::Switch;
use crate::network::SendError;
use crate::own::Own;

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

/// Writes a change set. For hosts of other languages; apps in Rust use [`Network::commit`](crate::Network::commit).
#[derive(Debug)]
pub struct SetWriter {
    bytes: Vec<u8>,
    changes: usize,
}

impl SetWriter {
    /// Begins a set with this number.
    pub fn new(commit: CommitId) -> Self {
        Self { bytes: [[0; 4], commit.0.to_le_bytes()].concat(), changes: 0 }
    }

    /// Returns the number of the set.
    pub fn commit(&self) -> CommitId {
        CommitId(u32::from_le_bytes([self.bytes[4], self.bytes[5], self.bytes[6], self.bytes[7]]))
    }

    /// Appends a change for a switch of this version. Its priority, groups and meters are converted; the kernel gives it a
    /// transaction id.
    ///
    /// # Errors
    /// [`SendError`]; the change is not appended. [`SendError::ChangeSet`]: the set would be too long.
    pub fn add(
        &mut self,
        change: &Change<'_>,
        own: &Own,
        version: Version,
    ) -> Result<(), SendError> {
        let end = self.bytes.len();
        self.bytes.resize(end.next_multiple_of(ALIGNMENT), 0);
        let encoded = encode(change, own, version, &mut self.bytes);
        let (changes, bytes) = (self.changes + 1, self.bytes.len());
        let is_too_long = changes > MAX_CHANGES || bytes > MAX_CHANGE_SET;
        let added = match encoded {
            Ok(()) if is_too_long => Err(SendError::ChangeSet { changes, bytes }),
            other => other,
        };
        match added {
            Ok(()) => self.changes = changes,
            Err(_) => self.bytes.truncate(end),
        }
        added
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes
    }

    /// Whether the set has no change.
    pub fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// Returns the bytes for the ring.
    ///
    /// # Errors
    /// [`SendError::ChangeSet`]: the set has no change.
    pub fn finish(self) -> Result<Vec<u8>, SendError> {
        match self.changes {
            0 => Err(SendError::ChangeSet { changes: 0, bytes: 0 }),
            _ => Ok(self.bytes),
        }
    }
}

/// Appends the message of a change, with its numbers converted.
fn encode(
    change: &Change<'_>,
    own: &Own,
    version: Version,
    bytes: &mut Vec<u8>,
) -> Result<(), SendError> {
    match change {
        Change::Flow(flow_mod) => {
            let priority = own.priority(flow_mod.priority)?;
            own.flow_mod(flow_mod, |flow_mod| {
                openflow::append(bytes, |out| {
                    flow_mod.encode_with_priority(priority, version, 0, out)
                })?;
                Ok(())
            })
        }
        Change::Group(group_mod) => {
            let group_mod = own.group_mod(group_mod)?;
            Ok(openflow::append(bytes, |out| group_mod.encode(version, 0, out)).map(drop)?)
        }
        Change::Meter(meter_mod) => {
            let meter_id = own.meter(meter_mod.meter_id)?;
            let meter_mod = MeterMod { meter_id, ..meter_mod.clone() };
            Ok(openflow::append(bytes, |out| meter_mod.encode(version, 0, out)).map(drop)?)
        }
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
    use openflow::Match;

    use super::*;
    use crate::abi::RecordKind;

    #[test]
    fn set_is_divided_only_into_whole_messages() {
        let message = |size: u8| {
            let mut message = vec![9; size.into()];
            message[..4].copy_from_slice(&[4, 14, 0, size]);
            message
        };
        let mut set = [[0; 4], 0x0102_0304_u32.to_le_bytes()].concat();
        for size in [8, 13, 16] {
            set.resize(set.len().next_multiple_of(ALIGNMENT), 0);
            set.extend(message(size));
        }
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
    fn refused_change_leaves_the_set_as_it_was() {
        let own = Own { priorities: (10, 20), groups: (0, 0), meters: (0, 0) };
        let flow = |priority| Change::Flow(FlowMod::add(Match::new()).priority(priority));
        let mut set = SetWriter::new(CommitId(7));
        let add = |set: &mut SetWriter, priority| set.add(&flow(priority), &own, Version::V1_3);
        assert_eq!(add(&mut set, 3), Ok(()));
        assert_eq!(add(&mut set, 11), Err(SendError::Priority { is: 11, most: 10 }));
        assert_eq!(add(&mut set, 4), Ok(()));
        assert_eq!((set.len(), set.commit()), (2, CommitId(7)));
        let (commit, messages) = divide(&set.bytes).unwrap();
        let priority =
            |range: &Range<usize>| FlowMod::decode(&set.bytes[range.clone()]).unwrap().priority;
        assert_eq!(commit, CommitId(7));
        assert_eq!(messages.iter().map(priority).collect::<Vec<_>>(), [13, 14]);
        while set.len() < MAX_CHANGES {
            add(&mut set, 3).unwrap();
        }
        assert!(matches!(add(&mut set, 3), Err(SendError::ChangeSet { changes: 2049, .. })));
        assert!(divide(&set.finish().unwrap()).is_some());
        assert!(SetWriter::new(CommitId(1)).finish().is_err());
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
