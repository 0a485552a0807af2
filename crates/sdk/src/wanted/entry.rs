//! Defines one wanted entry: a flow, a group or a meter, and the bytes that the storage keeps of it.
//!
//! An entry holds the OpenFlow message that adds it, with the application's own numbers, in OpenFlow 1.3 or, if only that
//! can express it, in 1.0. In the storage, numbers little endian:
//!
//! ```text
//! kind u8: 1 flow, 2 group, 3 meter, 4 group no longer wanted, 5 meter no longer wanted
//! scope u8: 0 all switches, 1 the switch that follows | datapath id u64
//! kind 1 to 3: message, a length of four bytes before it        kind 4, 5: number u32
//! ```

use openflow::{
    Dpid, EncodeError, FlowMod, FlowModCommand, FlowModFlags, GroupMod, GroupModCommand, Match,
    MeterMod, MeterModCommand, Version,
};
use thiserror::Error;

use crate::services::wire::{Reader, Writer};

/// The cookie bit of the flows that the library itself has added, unless it looks after all flows of the application.
pub const MARK: u64 = 1 << 47;

/// Most bytes of an entry's message.
const LONGEST: usize = 4096;

/// Bits of a cookie that an application may use.
const COOKIE_BITS: u64 = (1 << 48) - 1;

/// Where an entry is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum At {
    /// In every switch.
    All,
    /// In one switch. An entry for it replaces an entry for all switches with the same table, priority and match, or the
    /// same number.
    One(Dpid),
}

/// Why an entry cannot be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WantError {
    /// The message modifies or deletes.
    #[error("a wanted entry is declared with the message that adds it")]
    NotAnAdd,
    /// The flow has a timeout.
    #[error("a wanted flow has no timeouts: the library would restore it when it expires")]
    Expires,
    /// The flow names a buffer.
    #[error("a wanted flow names no buffer")]
    Buffer,
    /// The flow has a flag that is about the message and not about the flow.
    #[error("a wanted flow has neither RESET_COUNTS, CHECK_OVERLAP nor EMERGENCY")]
    Flags,
    /// The cookie has a bit that is not the application's.
    #[error("the cookie of a wanted flow has {0} bits at most")]
    Cookie(u32),
    /// The message is too long for the storage.
    #[error("a wanted entry has {LONGEST} bytes at most")]
    TooLong,
    /// The library holds as many entries as it may.
    #[error("{0} entries are the most that an app can want")]
    TooMany(usize),
    /// No version of OpenFlow can express it.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The identity of an entry in a switch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Flow {
        table: u8,
        /// As the application counts it.
        priority: u16,
        match_: Match,
    },
    Group(u32),
    Meter(u32),
    /// A group that was wanted once.
    OldGroup(u32),
    /// A meter that was wanted once.
    OldMeter(u32),
}

/// A wanted entry, or the note that one was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedEntry {
    pub(super) at: At,
    pub(super) key: Key,
    /// Empty for a note.
    message: Box<[u8]>,
    /// Whether the application has declared it since it started.
    pub(super) is_declared: bool,
}

/// An entry's message, decoded.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is made, used and dropped at once")]
pub(super) enum Content<'e> {
    Flow(FlowMod<'e>),
    Group(GroupMod),
    Meter(MeterMod),
    Note,
}

impl WantedEntry {
    /// Makes the entry of a flow.
    pub(super) fn flow(at: At, flow: &FlowMod<'_>, is_marked: bool) -> Result<Self, WantError> {
        let about_the_message = FlowModFlags::RESET_COUNTS.0
            | FlowModFlags::CHECK_OVERLAP.0
            | FlowModFlags::EMERGENCY.0;
        if flow.command != FlowModCommand::Add {
            return Err(WantError::NotAnAdd);
        }
        if flow.idle_timeout != 0 || flow.hard_timeout != 0 {
            return Err(WantError::Expires);
        }
        if flow.buffer_id.is_some() {
            return Err(WantError::Buffer);
        }
        if flow.flags.0 & about_the_message != 0 {
            return Err(WantError::Flags);
        }
        let own = if is_marked { COOKIE_BITS & !MARK } else { COOKIE_BITS };
        if flow.cookie & !own != 0 {
            return Err(WantError::Cookie(own.count_ones()));
        }
        let mark = if is_marked { MARK } else { 0 };
        let marked = flow.clone().cookie(flow.cookie | mark);
        let message = encode(|version, out| marked.encode(version, 0, out))?;
        let key = flow_key(flow.table_id, flow.priority, flow.match_.clone());
        Ok(Self { at, key, message, is_declared: true })
    }

    /// Makes the entry of a group.
    pub(super) fn group(at: At, group: &GroupMod) -> Result<Self, WantError> {
        if group.command != GroupModCommand::Add {
            return Err(WantError::NotAnAdd);
        }
        let message = encode(|version, out| group.encode(version, 0, out))?;
        Ok(Self { at, key: Key::Group(group.group_id), message, is_declared: true })
    }

    /// Makes the entry of a meter.
    pub(super) fn meter(at: At, meter: &MeterMod) -> Result<Self, WantError> {
        if meter.command != MeterModCommand::Add {
            return Err(WantError::NotAnAdd);
        }
        let message = encode(|version, out| meter.encode(version, 0, out))?;
        Ok(Self { at, key: Key::Meter(meter.meter_id), message, is_declared: true })
    }

    /// Makes the note that a group or meter was wanted once; `None` for a flow, which its cookie tells.
    pub(super) fn note(of: &Key) -> Option<Self> {
        let key = match of {
            Key::Group(number) => Key::OldGroup(*number),
            Key::Meter(number) => Key::OldMeter(*number),
            _ => return None,
        };
        Some(Self { at: At::All, key, message: Box::default(), is_declared: true })
    }

    /// Returns the message, decoded.
    pub(super) fn content(&self) -> Content<'_> {
        let content = match self.key {
            Key::Flow { .. } => FlowMod::decode(&self.message).ok().map(Content::Flow),
            Key::Group(_) => GroupMod::decode(&self.message).ok().map(Content::Group),
            Key::Meter(_) => MeterMod::decode(&self.message).ok().map(Content::Meter),
            Key::OldGroup(_) | Key::OldMeter(_) => None,
        };
        content.unwrap_or(Content::Note)
    }

    /// Whether this is the same entry with the same content.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.at == other.at && self.key == other.key && self.message == other.message
    }

    /// Writes the entry for the storage.
    pub(super) fn write(&self, out: &mut Writer) {
        let (kind, number) = match self.key {
            Key::Flow { .. } => (1, None),
            Key::Group(_) => (2, None),
            Key::Meter(_) => (3, None),
            Key::OldGroup(number) => (4, Some(number)),
            Key::OldMeter(number) => (5, Some(number)),
        };
        out.u8(kind);
        match self.at {
            At::All => out.u8(0),
            At::One(dpid) => out.u8(1).u64(dpid.0),
        };
        match number {
            Some(number) => out.0.extend(number.to_le_bytes()),
            None => {
                out.long(&self.message);
            }
        }
    }

    /// Returns the bytes that [`write`](Self::write) writes.
    pub(super) fn size(&self) -> usize {
        let scope = if self.at == At::All { 1 } else { 9 };
        1 + scope + 4 + self.message.len()
    }

    /// Reads an entry from the storage; `None` if the bytes are malformed. Another program may have written them, so they are
    /// checked like a declaration.
    pub(super) fn read(from: &mut Reader<'_>, is_marked: bool) -> Option<Self> {
        let kind = from.u8()?;
        let at = match from.u8()? {
            0 => At::All,
            1 => At::One(Dpid(from.u64()?)),
            _ => return None,
        };
        let entry = match kind {
            1 => {
                let mut flow = FlowMod::decode(from.long()?).ok()?;
                if is_marked {
                    flow.cookie &= !MARK;
                }
                Self::flow(at, &flow, is_marked).ok()?
            }
            2 => Self::group(at, &GroupMod::decode(from.long()?).ok()?).ok()?,
            3 => Self::meter(at, &MeterMod::decode(from.long()?).ok()?).ok()?,
            4 => Self::note(&Key::Group(from.u32()?))?,
            5 => Self::note(&Key::Meter(from.u32()?))?,
            _ => return None,
        };
        Some(Self { is_declared: false, ..entry })
    }
}

/// Describes the entry for people: `flow table=0,priority=3,in_port=1`, `group 7`.
impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flow { table, priority, match_ } if match_.is_empty() => {
                write!(f, "flow table={table},priority={priority}")
            }
            Self::Flow { table, priority, match_ } => {
                write!(f, "flow table={table},priority={priority},{match_}")
            }
            Self::Group(number) | Self::OldGroup(number) => write!(f, "group {number}"),
            Self::Meter(number) | Self::OldMeter(number) => write!(f, "meter {number}"),
        }
    }
}

/// The flags with which a wanted flow is added: the switch reports its removal, so that the library restores it at once.
pub(super) fn on_switch(flags: FlowModFlags) -> FlowModFlags {
    flags | FlowModFlags::SEND_FLOW_REM
}

/// Returns the key of a flow.
pub(super) fn flow_key(table: u8, priority: u16, match_: Match) -> Key {
    Key::Flow { table, priority, match_ }
}

/// Encodes a message in the first version, by preference, that can express it.
fn encode(
    message: impl Fn(Version, &mut [u8]) -> Result<usize, EncodeError>,
) -> Result<Box<[u8]>, WantError> {
    let in_version = |version| {
        let mut out = Vec::new();
        openflow::append(&mut out, |room| message(version, room)).map(|_| out.into_boxed_slice())
    };
    let mut others = Version::BY_PREFERENCE.iter().skip(1);
    let message = in_version(Version::PREFERRED);
    let message =
        message.or_else(|error| others.find_map(|it| in_version(*it).ok()).ok_or(error))?;
    if message.len() > LONGEST { Err(WantError::TooLong) } else { Ok(message) }
}
