//! The version-independent group-mod: adds, changes, deletes groups. Not in OpenFlow 1.0.
//!
//! OpenFlow 1.3.5 §5.6 (definition of groups), §7.3.4.2 (the message).

use crate::action::{Action, Actions};
use crate::header::{begin, open};
use crate::wire::WireFormat;
use crate::{DecodeError, EncodeError, Header, Kind, PortNo, Version, Writer, v1_3};

/// Command of a group-mod (`ofp_group_mod_command`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum GroupModCommand {
    /// Adds a group.
    Add,
    /// Replaces a group.
    Modify,
    /// Deletes a group and the flow entries that use it.
    Delete,
}

impl GroupModCommand {
    /// The command's number.
    pub fn wire(self) -> u16 {
        match self {
            Self::Add => 0,
            Self::Modify => 1,
            Self::Delete => 2,
        }
    }

    fn from_wire(found: u16) -> Result<Self, DecodeError> {
        match found {
            0 => Ok(Self::Add),
            1 => Ok(Self::Modify),
            2 => Ok(Self::Delete),
            _ => Err(DecodeError::BadValue {
                field: "group_mod.command",
                offset: Header::SIZE,
                found: found.into(),
                expected: "0 (add), 1 (modify) or 2 (delete)",
            }),
        }
    }
}

/// Which of a group's buckets a packet takes (`ofp_group_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum GroupKind {
    /// All buckets: multicast.
    All,
    /// One bucket chosen by the switch: load sharing.
    Select,
    /// The only bucket.
    Indirect,
    /// The first live bucket.
    FastFailover,
    /// A number that the specification does not define.
    Other(u8),
}

impl GroupKind {
    /// Returns the type with this number.
    pub fn from_wire(found: u8) -> Self {
        match found {
            0 => Self::All,
            1 => Self::Select,
            2 => Self::Indirect,
            3 => Self::FastFailover,
            other => Self::Other(other),
        }
    }

    /// Returns the type's number.
    pub fn wire(self) -> u8 {
        match self {
            Self::All => 0,
            Self::Select => 1,
            Self::Indirect => 2,
            Self::FastFailover => 3,
            Self::Other(other) => other,
        }
    }
}

/// A bucket of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Bucket {
    /// Weight in a select group; otherwise 0.
    pub weight: u16,
    /// Port whose state decides whether the bucket is live; [`PortNo::ANY`] means none.
    pub watch_port: PortNo,
    /// Group whose state decides whether the bucket is live; [`Bucket::ANY_GROUP`] means none.
    pub watch_group: u32,
    /// Actions on a packet that takes this bucket.
    pub actions: Vec<Action>,
}

impl Bucket {
    /// `watch_group` without a group (`OFPG_ANY`).
    pub const ANY_GROUP: u32 = 0xffff_ffff;

    /// Creates a bucket of weight 0 that watches nothing.
    pub fn new(actions: impl Into<Vec<Action>>) -> Self {
        Self {
            weight: 0,
            watch_port: PortNo::ANY,
            watch_group: Self::ANY_GROUP,
            actions: actions.into(),
        }
    }

    pub(crate) fn from_v1_3(wire: &v1_3::Bucket<'_>) -> Self {
        Self {
            weight: wire.weight,
            watch_port: wire.watch_port,
            watch_group: wire.watch_group,
            actions: Actions::from(wire.actions).iter().collect(),
        }
    }

    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.u16(0);
        to.u16(self.weight);
        to.u32(self.watch_port.0);
        to.u32(self.watch_group);
        to.zeros(4);
        Actions::from(&self.actions).write(Version::V1_3, to)?;
        to.patch_size(start, start);
        Ok(())
    }
}

/// A group-mod.
///
/// ```
/// use rosemary_openflow::{Action, Bucket, GroupKind, GroupMod, GroupModCommand, PortNo, Version};
///
/// let both = [PortNo(1), PortNo(2)].map(|port| Bucket::new([Action::output(port)]));
/// let group_mod = GroupMod {
///     command: GroupModCommand::Add,
///     kind: GroupKind::All,
///     group_id: 7,
///     buckets: both.into(),
/// };
/// let mut buffer = [0; 128];
/// let size = group_mod.encode(Version::V1_3, 1, &mut buffer)?;
/// assert_eq!(GroupMod::decode(&buffer[..size])?, group_mod);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupMod {
    /// The command.
    pub command: GroupModCommand,
    /// Type: which buckets a packet takes.
    pub kind: GroupKind,
    /// Group number; [`GroupMod::ALL_GROUPS`] in a delete means every group.
    pub group_id: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupMod {
    /// The highest group number (`OFPG_MAX`).
    pub const MAX_GROUP: u32 = 0xffff_ff00;
    /// `group_id` of a delete of every group (`OFPG_ALL`).
    pub const ALL_GROUPS: u32 = 0xffff_fffc;

    /// Decodes a whole group-mod.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one group-mod.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (_, _, mut body) = open(message, Kind::GroupMod)?;
        let group_mod = Self::from_v1_3(&v1_3::GroupMod::read(&mut body, "group_mod")?)?;
        body.finish("group_mod")?;
        Ok(group_mod)
    }

    pub(crate) fn from_v1_3(wire: &v1_3::GroupMod<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            command: GroupModCommand::from_wire(wire.command)?,
            kind: GroupKind::from_wire(wire.kind),
            group_id: wire.group_id,
            buckets: wire.buckets.iter().map(|bucket| Bucket::from_v1_3(&bucket)).collect(),
        })
    }

    /// Encodes the group-mod for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0 and for actions the version lacks,
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can
    /// hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::GroupMod, version, xid, out)?;
        to.u16(self.command.wire());
        to.u8(self.kind.wire());
        to.u8(0);
        to.u32(self.group_id);
        self.buckets.iter().try_for_each(|bucket| bucket.write_v1_3(&mut to))?;
        to.finish()
    }
}
