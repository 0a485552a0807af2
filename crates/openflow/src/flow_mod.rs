//! The version-independent flow-mod, which adds, changes or deletes flow entries.
//!
//! OpenFlow 1.3.5 §7.3.4.1, OpenFlow 1.0.2 §5.3.3, OpenFlow 1.1.0 §A.3.4.1, OpenFlow 1.4.1 §7.3.4.1. Building a flow-mod from a match of usual size
//! and a slice of actions does not allocate, nor does encoding it. A decoded flow-mod borrows its
//! actions.

mod template;
mod view;
mod wildcards;

pub use template::{Blanks, FlowModTemplate};
pub use view::FlowModView;
pub use wildcards::{deletes_table_miss, precedes_all_priorities};

use crate::action::Action;
use crate::header::{begin, open};
use crate::instruction::{Instructions, Lists, OfVersion};
use crate::matching::Match;
use crate::wire::WireFormat;
use crate::write::put;
use crate::{
    DecodeError, EncodeError, Header, Kind, PortNo, Version, Writer, v1_0, v1_1, v1_2, v1_3, v1_4,
    v1_5,
};

/// The `buffer_id` that means "no buffer" (`OFP_NO_BUFFER`).
pub(crate) const NO_BUFFER: u32 = 0xffff_ffff;

/// Command of a flow-mod. The numbers are the same in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum FlowModCommand {
    /// Adds an entry; replaces one with the same match and priority.
    Add,
    /// Changes the instructions of every entry covered by the match.
    Modify,
    /// Changes the instructions of the entry with exactly this match and priority.
    ModifyStrict,
    /// Deletes every entry covered by the match.
    Delete,
    /// Deletes the entry with exactly this match and priority.
    DeleteStrict,
}

impl FlowModCommand {
    /// Every command, indexed by its number.
    const ALL: [Self; 5] =
        [Self::Add, Self::Modify, Self::ModifyStrict, Self::Delete, Self::DeleteStrict];

    /// Returns the command's number.
    pub fn wire(self) -> u8 {
        match self {
            Self::Add => 0,
            Self::Modify => 1,
            Self::ModifyStrict => 2,
            Self::Delete => 3,
            Self::DeleteStrict => 4,
        }
    }

    pub(crate) fn from_wire(found: u16, offset: usize) -> Result<Self, DecodeError> {
        Self::ALL.get(usize::from(found)).copied().ok_or(DecodeError::BadValue {
            field: "flow_mod.command",
            offset,
            found: found.into(),
            expected: "0 (add) to 4 (delete strict)",
        })
    }

    /// Whether it is a delete.
    pub fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteStrict)
    }
}

/// Flags of a flow-mod, with OpenFlow 1.3's numbers (`ofp_flow_mod_flags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowModFlags(pub u16);

impl FlowModFlags {
    /// Send a flow-removed message when the entry is removed.
    pub const SEND_FLOW_REM: Self = Self(1 << 0);
    /// Reject an entry that overlaps another of the same priority.
    pub const CHECK_OVERLAP: Self = Self(1 << 1);
    /// Reset the counters of a replaced or changed entry. From OpenFlow 1.2 on.
    pub const RESET_COUNTS: Self = Self(1 << 2);
    /// Do not count packets. From OpenFlow 1.3 on.
    pub const NO_PKT_COUNTS: Self = Self(1 << 3);
    /// Do not count bytes. From OpenFlow 1.3 on.
    pub const NO_BYT_COUNTS: Self = Self(1 << 4);
    /// Put the entry into the emergency table. OpenFlow 1.0 only, where it is bit 2.
    pub const EMERGENCY: Self = Self(1 << 15);

    /// Whether all of `flags` are set.
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The bits that all versions share.
    const SHARED: u16 = 0b11;
    /// The bit of [`FlowModFlags::EMERGENCY`] in OpenFlow 1.0.
    const EMERGENCY_1_0: u16 = 1 << 2;

    /// Returns the bits of the version byte `V`, and the words for an error.
    const fn of_version<const V: u8>() -> (u16, &'static str) {
        match V {
            2 => (0b11, "only bits of OpenFlow 1.1: 0x3"),
            3 => (0b111, "only bits of OpenFlow 1.2: 0x7"),
            4 => (0b1_1111, "only bits of OpenFlow 1.3: 0x1f"),
            _ => (0b1_1111, "only bits of OpenFlow 1.4 and later: 0x1f"),
        }
    }

    fn from_wire<const V: u8>(found: u16, offset: usize) -> Result<Self, DecodeError> {
        let (bits, expected) = const { Self::of_version::<V>() };
        match found & !bits {
            0 => Ok(Self(found)),
            _ => Err(DecodeError::BadValue {
                field: "flow_mod.flags",
                offset,
                found: found.into(),
                expected,
            }),
        }
    }

    pub(crate) fn from_v1_0(found: u16, offset: usize) -> Result<Self, DecodeError> {
        let emergency = if found & Self::EMERGENCY_1_0 == 0 { 0 } else { Self::EMERGENCY.0 };
        match found & !(Self::SHARED | Self::EMERGENCY_1_0) {
            0 => Ok(Self(found & Self::SHARED | emergency)),
            _ => Err(DecodeError::BadValue {
                field: "flow_mod.flags",
                offset,
                found: found.into(),
                expected: "only bits of OpenFlow 1.0: 0x7",
            }),
        }
    }

    pub(crate) fn to_v1_0(self) -> Result<u16, EncodeError> {
        let emergency = if self.contains(Self::EMERGENCY) { Self::EMERGENCY_1_0 } else { 0 };
        match self.0 & !(Self::SHARED | Self::EMERGENCY.0) {
            0 => Ok(self.0 & Self::SHARED | emergency),
            _ => Err(EncodeError::Unsupported { field: "flow_mod.flags", version: Version::V1_0 }),
        }
    }
}

impl core::ops::BitOr for FlowModFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A flow-mod.
///
/// ```
/// use rosemary_openflow::{Action, FlowMod, Match, PortNo, Version};
///
/// let actions = [Action::output(PortNo(2))];
/// let flow_mod = FlowMod::add(Match::new().in_port(PortNo(1)))
///     .priority(100)
///     .idle_timeout(60)
///     .apply(&actions);
///
/// let mut buffer = [0; 128];
/// let size = flow_mod.encode(Version::V1_3, 7, &mut buffer)?;
/// assert_eq!(FlowMod::decode(&buffer[..size])?, flow_mod);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowMod<'a> {
    /// The command.
    pub command: FlowModCommand,
    /// Table number; [`FlowMod::ALL_TABLES`] in a delete means every table. 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// Cookie chosen by the controller.
    pub cookie: u64,
    /// Mask of the cookie in modify and delete. 0 in OpenFlow 1.0.
    pub cookie_mask: u64,
    /// The match.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
    /// Priority; the highest matching entry applies.
    pub priority: u16,
    /// Idle timeout in seconds; 0 means none.
    pub idle_timeout: u16,
    /// Hard timeout in seconds; 0 means none.
    pub hard_timeout: u16,
    /// Id of a buffered packet that the new entry then processes.
    pub buffer_id: Option<u32>,
    /// Deletes only entries that output to this port; [`PortNo::ANY`] disables the filter.
    pub out_port: PortNo,
    /// Deletes only entries that use this group; [`FlowMod::ANY_GROUP`] disables the filter.
    pub out_group: u32,
    /// Flags.
    pub flags: FlowModFlags,
    /// Importance for eviction: a switch evicts entries of lower importance first. From OpenFlow 1.4 on, otherwise 0.
    pub importance: u16,
    /// Treatment of matching packets; an empty list drops them.
    pub instructions: Instructions<'a>,
}

/// Offsets of command, flags and match in a message of OpenFlow 1.1 and later, for errors.
const COMMAND_AT: usize = Header::SIZE + 17;
const FLAGS_AT: usize = Header::SIZE + 36;
const MATCH_AT: usize = Header::SIZE + 40;

/// Converts a flow-mod of OpenFlow 1.1 or later, whose structures differ only in match and importance.
macro_rules! since_1_1 {
    ($wire:ident, $v:expr, $match_:expr, $importance:expr) => {
        Ok(Self {
            command: FlowModCommand::from_wire($wire.command.into(), COMMAND_AT)?,
            table_id: $wire.table_id,
            cookie: $wire.cookie,
            cookie_mask: $wire.cookie_mask,
            match_: $match_,
            priority: $wire.priority,
            idle_timeout: $wire.idle_timeout,
            hard_timeout: $wire.hard_timeout,
            buffer_id: ($wire.buffer_id != NO_BUFFER).then_some($wire.buffer_id),
            out_port: $wire.out_port,
            out_group: $wire.out_group,
            flags: FlowModFlags::from_wire::<{ $v }>($wire.flags, FLAGS_AT)?,
            importance: $importance,
            instructions: Instructions::from_wire($wire.instructions, MATCH_AT)?,
        })
    };
}

impl<'a> FlowMod<'a> {
    /// `table_id` of a delete in every table (`OFPTT_ALL`).
    pub const ALL_TABLES: u8 = 0xff;
    /// `out_group` that disables the filter (`OFPG_ANY`).
    pub const ANY_GROUP: u32 = 0xffff_ffff;
    /// Default priority, the same as Open vSwitch's.
    pub const DEFAULT_PRIORITY: u16 = 0x8000;

    /// Creates a flow-mod for table 0 with the default priority.
    #[inline]
    pub fn new(command: FlowModCommand, match_: Match) -> Self {
        Self {
            command,
            table_id: 0,
            cookie: 0,
            cookie_mask: 0,
            match_,
            priority: Self::DEFAULT_PRIORITY,
            idle_timeout: 0,
            hard_timeout: 0,
            buffer_id: None,
            out_port: PortNo::ANY,
            out_group: Self::ANY_GROUP,
            flags: FlowModFlags::default(),
            importance: 0,
            instructions: Instructions::default(),
        }
    }

    /// Creates a flow-mod that adds an entry.
    #[inline]
    pub fn add(match_: Match) -> Self {
        Self::new(FlowModCommand::Add, match_)
    }

    /// Creates a flow-mod that deletes the entries covered by the match, in table 0.
    #[inline]
    pub fn delete(match_: Match) -> Self {
        Self::new(FlowModCommand::Delete, match_)
    }

    /// Sets the table.
    #[must_use]
    #[inline]
    pub fn table(mut self, table_id: u8) -> Self {
        self.table_id = table_id;
        self
    }

    /// Sets the cookie.
    #[must_use]
    #[inline]
    pub fn cookie(mut self, cookie: u64) -> Self {
        self.cookie = cookie;
        self
    }

    /// Restricts a modify or delete to entries whose cookie equals this one under the mask.
    #[must_use]
    #[inline]
    pub fn only_cookie(mut self, cookie: u64, mask: u64) -> Self {
        self.cookie = cookie;
        self.cookie_mask = mask;
        self
    }

    /// Sets the priority.
    #[must_use]
    #[inline]
    pub fn priority(mut self, priority: u16) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the idle timeout in seconds.
    #[must_use]
    #[inline]
    pub fn idle_timeout(mut self, seconds: u16) -> Self {
        self.idle_timeout = seconds;
        self
    }

    /// Sets the hard timeout in seconds.
    #[must_use]
    #[inline]
    pub fn hard_timeout(mut self, seconds: u16) -> Self {
        self.hard_timeout = seconds;
        self
    }

    /// Sets the buffered packet that the new entry then processes.
    #[must_use]
    #[inline]
    pub fn buffer_id(mut self, buffer_id: Option<u32>) -> Self {
        self.buffer_id = buffer_id;
        self
    }

    /// Restricts a delete to entries that output to this port.
    #[must_use]
    #[inline]
    pub fn out_port(mut self, port: PortNo) -> Self {
        self.out_port = port;
        self
    }

    /// Sets flags.
    #[must_use]
    #[inline]
    pub fn flags(mut self, flags: FlowModFlags) -> Self {
        self.flags = self.flags | flags;
        self
    }

    /// Sets the importance for eviction. From OpenFlow 1.4 on.
    #[must_use]
    #[inline]
    pub fn importance(mut self, importance: u16) -> Self {
        self.importance = importance;
        self
    }

    /// Sets actions that are applied to matching packets immediately.
    #[must_use]
    #[inline]
    pub fn apply(mut self, actions: &'a [Action]) -> Self {
        self.instructions.apply = actions.into();
        self
    }

    /// Sets actions that are merged into the packets' action set.
    #[must_use]
    #[inline]
    pub fn write(mut self, actions: &'a [Action]) -> Self {
        self.instructions.write = actions.into();
        self
    }

    /// Sets the later table in which processing continues.
    #[must_use]
    #[inline]
    pub fn goto_table(mut self, table_id: u8) -> Self {
        self.instructions.goto_table = Some(table_id);
        self
    }

    /// Sets the meter that packets pass.
    #[must_use]
    #[inline]
    pub fn meter(mut self, meter_id: u32) -> Self {
        self.instructions.meter = Some(meter_id);
        self
    }

    /// Encodes the flow-mod in a version's format; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    #[inline]
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        self.encode_with_priority(self.priority, version, xid, out)
    }

    /// Like [`FlowMod::encode`], with another priority.
    ///
    /// # Errors
    /// Like `encode`.
    pub fn encode_with_priority(
        &self,
        priority: u16,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        // The most frequent flow: all of its fields have constant places.
        if let Some(pair) = self.pair()
            && let Ok(size) = template::encode_pair(self, priority, &pair, (version, xid), out)
        {
            return Ok(size);
        }
        self.encode_any(priority, version, xid, out)
    }

    #[inline]
    fn encode_any(
        &self,
        priority: u16,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::FlowMod, version, xid, out)?;
        match version {
            Version::V1_0 => self.write_v1_0(priority, &mut to)?,
            Version::V1_3 => self.write_since_1_1::<4>(priority, &mut to)?,
            Version::V1_1 => self.write_since_1_1::<2>(priority, &mut to)?,
            Version::V1_2 => self.write_since_1_1::<3>(priority, &mut to)?,
            Version::V1_4 => self.write_since_1_1::<5>(priority, &mut to)?,
            Version::V1_5 => self.write_since_1_1::<6>(priority, &mut to)?,
        }
        to.finish()
    }

    /// Returns the values of a flow from one host to another that has a template's match and action.
    #[inline]
    fn pair(&self) -> Option<Blanks> {
        let (in_port, eth_dst, eth_src) = self.match_.pair()?;
        let output = self.instructions.only_output()?;
        Some(Blanks { in_port, eth_dst, eth_src, buffer_id: self.buffer_id, output })
    }

    #[inline]
    fn write_since_1_1<const V: u8>(
        &self,
        priority: u16,
        to: &mut Writer<'_>,
    ) -> Result<(), EncodeError> {
        let unsupported =
            |field| Err(EncodeError::Unsupported { field, version: Version::of::<V>() });
        let (bits, _) = const { FlowModFlags::of_version::<V>() };
        if self.flags.0 & !bits != 0 {
            return unsupported("flow_mod.flags");
        }
        if V < 5 && self.importance != 0 {
            return unsupported("flow_mod.importance");
        }
        if let Some(room) = to.array::<40>() {
            put(room, 0, self.cookie.to_be_bytes());
            put(room, 8, self.cookie_mask.to_be_bytes());
            put(room, 16, [self.table_id, self.command.wire()]);
            put(room, 18, self.idle_timeout.to_be_bytes());
            put(room, 20, self.hard_timeout.to_be_bytes());
            put(room, 22, priority.to_be_bytes());
            put(room, 24, self.buffer_id.unwrap_or(NO_BUFFER).to_be_bytes());
            put(room, 28, self.out_port.0.to_be_bytes());
            put(room, 32, self.out_group.to_be_bytes());
            put(room, 36, self.flags.0.to_be_bytes());
            put(room, 38, self.importance.to_be_bytes()); // padding before OpenFlow 1.4
        }
        if V == 2 {
            v1_1::convert::match_to_wire(&self.match_)?.write(to);
        } else {
            v1_3::matching::write_with(to, |to| self.match_.write_oxms(to));
        }
        self.instructions.write_since_1_1::<V>(to)
    }

    #[inline]
    fn write_v1_0(&self, priority: u16, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        if self.table_id != 0 && !(self.command.is_delete() && self.table_id == Self::ALL_TABLES) {
            return unsupported("flow_mod.table_id");
        }
        if self.cookie_mask != 0 {
            return unsupported("flow_mod.cookie_mask");
        }
        if self.out_group != Self::ANY_GROUP {
            return unsupported("flow_mod.out_group");
        }
        if self.importance != 0 {
            return unsupported("flow_mod.importance");
        }
        let out_port = v1_0::convert::port(self.out_port, "flow_mod.out_port")?;
        let flags = self.flags.to_v1_0()?;
        match to.array::<40>() {
            Some(room) => v1_0::convert::put_match(&self.match_, room)?,
            // Without room, a match that the version cannot express is still the error to report.
            None => v1_0::convert::match_to_wire(&self.match_).map(|_| ())?,
        }
        if let Some(room) = to.array::<24>() {
            put(room, 0, self.cookie.to_be_bytes());
            put(room, 8, [0, self.command.wire()]);
            put(room, 10, self.idle_timeout.to_be_bytes());
            put(room, 12, self.hard_timeout.to_be_bytes());
            put(room, 14, priority.to_be_bytes());
            put(room, 16, self.buffer_id.unwrap_or(NO_BUFFER).to_be_bytes());
            put(room, 20, out_port.to_be_bytes());
            put(room, 22, flags.to_be_bytes());
        }
        self.instructions.write_v1_0(to)
    }

    /// Decodes a whole flow-mod of any version.
    ///
    /// Decoding validates the length of every action and instruction and the match, and rejects a
    /// repeated field or instruction: the specification does not define its meaning.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one flow-mod.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::FlowMod)?;
        let body = &mut body;
        let decoded = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::FlowMod::read(body, "flow_mod")?),
            Version::V1_1 => Self::from_v1_1(&v1_1::FlowMod::read(body, "flow_mod")?),
            Version::V1_2 => Self::from_v1_3(&v1_2::FlowMod::read(body, "flow_mod")?),
            Version::V1_3 => Self::from_v1_3(&v1_3::FlowMod::read(body, "flow_mod")?),
            Version::V1_4 => Self::from_v1_4(&v1_4::FlowMod::read(body, "flow_mod")?),
            Version::V1_5 => Self::from_v1_4(&v1_5::FlowMod::read(body, "flow_mod")?),
        }?;
        body.finish("flow_mod")?;
        Ok(decoded)
    }

    pub(crate) fn from_v1_1(wire: &v1_1::FlowMod<'a>) -> Result<Self, DecodeError> {
        let match_ = v1_1::convert::match_from_wire(&wire.match_);
        since_1_1!(wire, 2, match_, 0)
    }

    pub(crate) fn from_v1_3<const V: u8>(
        wire: &v1_3::flow_mod::FlowMod<'a, V>,
    ) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        since_1_1!(wire, V, Match::from_v1_3(&wire.match_, MATCH_AT)?, 0)
    }

    pub(crate) fn from_v1_4<const V: u8>(
        wire: &v1_4::flow_mod::FlowMod<'a, V>,
    ) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        since_1_1!(wire, V, Match::from_v1_3(&wire.match_, MATCH_AT)?, wire.importance)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::FlowMod<'a>) -> Result<Self, DecodeError> {
        /// Offsets of command and flags in the message, for errors.
        const COMMAND_AT: usize = Header::SIZE + 48;
        const FLAGS_AT: usize = Header::SIZE + 62;
        Ok(Self {
            command: FlowModCommand::from_wire(wire.command, COMMAND_AT)?,
            table_id: 0,
            cookie: wire.cookie,
            cookie_mask: 0,
            match_: v1_0::convert::match_from_wire(&wire.match_),
            priority: wire.priority,
            idle_timeout: wire.idle_timeout,
            hard_timeout: wire.hard_timeout,
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            out_port: v1_0::port_from_wire(wire.out_port),
            out_group: Self::ANY_GROUP,
            flags: FlowModFlags::from_v1_0(wire.flags, FLAGS_AT)?,
            importance: 0,
            instructions: Instructions { apply: wire.actions.into(), ..Instructions::default() },
        })
    }
}

#[cfg(test)]
mod tests;
