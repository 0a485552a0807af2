//! The version-independent group-mod: adds, changes, deletes groups. Not in OpenFlow 1.0.
//!
//! OpenFlow 1.3.5 §5.6 (definition of groups), §7.3.4.2 (the message); OpenFlow 1.5.1 §7.3.4.3.

use crate::action::{Action, Actions};
use crate::header::{begin, open};
use crate::instruction::{Lists, OfVersion};
use crate::v1_5::group::{BucketProperty, Weight};
use crate::wire::{Pad, WireFormat};
use crate::{
    DecodeError, EncodeError, Header, Kind, PortNo, Version, Writer, v1_1, v1_2, v1_3, v1_4, v1_5,
};

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
    /// Inserts buckets behind the bucket with this id; [`Bucket::FIRST`] inserts them at the beginning, [`Bucket::LAST`] at the
    /// end. From OpenFlow 1.5 on.
    InsertBucket(u32),
    /// Removes the bucket with this id; [`Bucket::ALL`] removes every bucket. From OpenFlow 1.5 on.
    RemoveBucket(u32),
}

impl GroupModCommand {
    /// The command's number.
    pub fn wire(self) -> u16 {
        match self {
            Self::Add => 0,
            Self::Modify => 1,
            Self::Delete => 2,
            Self::InsertBucket(_) => 3,
            Self::RemoveBucket(_) => 5,
        }
    }

    /// Returns the bucket that the command names.
    fn bucket_id(self) -> u32 {
        match self {
            Self::InsertBucket(id) | Self::RemoveBucket(id) => id,
            Self::Add | Self::Modify | Self::Delete => Bucket::ALL,
        }
    }

    fn from_wire(found: u16) -> Result<Self, DecodeError> {
        match found {
            0 => Ok(Self::Add),
            1 => Ok(Self::Modify),
            2 => Ok(Self::Delete),
            _ => Err(bad_command(found, "0 (add), 1 (modify) or 2 (delete)")),
        }
    }

    fn from_v1_5(found: u16, bucket_id: u32) -> Result<Self, DecodeError> {
        const EXPECTED: &str =
            "0 (add), 1 (modify), 2 (delete), 3 (insert bucket) or 5 (remove bucket)";
        match found {
            3 => Ok(Self::InsertBucket(bucket_id)),
            5 => Ok(Self::RemoveBucket(bucket_id)),
            _ => Self::from_wire(found).map_err(|_| bad_command(found, EXPECTED)),
        }
    }
}

fn bad_command(found: u16, expected: &'static str) -> DecodeError {
    let (field, offset) = ("group_mod.command", Header::SIZE);
    DecodeError::BadValue { field, offset, found: found.into(), expected }
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
    /// Number of the bucket in its group, from OpenFlow 1.5 on; without it, encoding for 1.5 numbers the buckets from 0.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub bucket_id: Option<u32>,
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
    /// The first bucket in a command (`OFPG_BUCKET_FIRST`).
    pub const FIRST: u32 = 0xffff_fffd;
    /// The last bucket in a command (`OFPG_BUCKET_LAST`).
    pub const LAST: u32 = 0xffff_fffe;
    /// Every bucket in a command (`OFPG_BUCKET_ALL`).
    pub const ALL: u32 = 0xffff_ffff;

    /// Creates a bucket of weight 0 that watches nothing.
    pub fn new(actions: impl Into<Vec<Action>>) -> Self {
        Self {
            bucket_id: None,
            weight: 0,
            watch_port: PortNo::ANY,
            watch_group: Self::ANY_GROUP,
            actions: actions.into(),
        }
    }

    pub(crate) fn from_v1_3<const V: u8>(wire: &v1_3::group::Bucket<'_, V>) -> Self
    where
        Lists: OfVersion<V>,
    {
        Self {
            bucket_id: None,
            weight: wire.weight,
            watch_port: wire.watch_port,
            watch_group: wire.watch_group,
            actions: Lists::actions(wire.actions).iter().collect(),
        }
    }

    /// Experimenters' properties are out; [`v1_5::Bucket`] has them.
    pub(crate) fn from_v1_5(wire: &v1_5::Bucket<'_>) -> Self {
        let mut bucket = Self {
            bucket_id: Some(wire.bucket_id),
            ..Self::new(Actions::from(wire.actions).iter().collect::<Vec<_>>())
        };
        for property in wire.properties {
            match property.item {
                BucketProperty::Weight(it) => bucket.weight = it.weight,
                BucketProperty::WatchPort(port) => bucket.watch_port = port,
                BucketProperty::WatchGroup(group) => bucket.watch_group = group,
                _ => {}
            }
        }
        bucket
    }

    /// Writes the bucket with this place in its group.
    pub(crate) fn write(
        &self,
        place: usize,
        version: Version,
        to: &mut Writer<'_>,
    ) -> Result<(), EncodeError> {
        if version == Version::V1_5 {
            return self.write_v1_5(place, to);
        }
        if self.bucket_id.is_some() {
            return Err(EncodeError::Unsupported { field: "bucket.bucket_id", version });
        }
        let start = to.position();
        to.u16(0);
        to.u16(self.weight);
        to.u32(self.watch_port.0);
        to.u32(self.watch_group);
        to.zeros(4);
        Actions::from(&self.actions).write(version, to)?;
        to.patch_size(start, start);
        Ok(())
    }

    fn write_v1_5(&self, place: usize, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.zeros(4);
        to.u32(self.bucket_id.unwrap_or_else(|| u32::try_from(place).unwrap_or(u32::MAX)));
        let actions_at = to.position();
        Actions::from(&self.actions).write(Version::V1_5, to)?;
        to.patch_size(start + 2, actions_at);
        if self.weight != 0 {
            let weight = Weight { weight: self.weight, pad: Pad::default() };
            BucketProperty::Weight(weight).write(to);
        }
        if self.watch_port != PortNo::ANY {
            BucketProperty::WatchPort(self.watch_port).write(to);
        }
        if self.watch_group != Self::ANY_GROUP {
            BucketProperty::WatchGroup(self.watch_group).write(to);
        }
        to.patch_size(start, start);
        Ok(())
    }

    /// Writes all buckets of a group.
    pub(crate) fn write_all(
        buckets: &[Self],
        version: Version,
        to: &mut Writer<'_>,
    ) -> Result<(), EncodeError> {
        let mut places = buckets.iter().enumerate();
        places.try_for_each(|(place, bucket)| bucket.write(place, version, to))
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
        let (version, _, mut body) = open(message, Kind::GroupMod)?;
        let body = &mut body;
        let group_mod = match version {
            Version::V1_1 => Self::from_v1_3(&v1_1::GroupMod::read(body, "group_mod")?),
            Version::V1_2 => Self::from_v1_3(&v1_2::GroupMod::read(body, "group_mod")?),
            Version::V1_4 => Self::from_v1_3(&v1_4::GroupMod::read(body, "group_mod")?),
            Version::V1_5 => Self::from_v1_5(&v1_5::GroupMod::read(body, "group_mod")?),
            // OpenFlow 1.0 has no group-mod.
            Version::V1_0 | Version::V1_3 => {
                Self::from_v1_3(&v1_3::GroupMod::read(body, "group_mod")?)
            }
        }?;
        body.finish("group_mod")?;
        Ok(group_mod)
    }

    pub(crate) fn from_v1_3<const V: u8>(
        wire: &v1_3::group::GroupMod<'_, V>,
    ) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        Ok(Self {
            command: GroupModCommand::from_wire(wire.command)?,
            kind: GroupKind::from_wire(wire.kind),
            group_id: wire.group_id,
            buckets: wire.buckets.iter().map(|bucket| Bucket::from_v1_3(&bucket)).collect(),
        })
    }

    /// Experimenters' properties are out; [`v1_5::GroupMod`] has them.
    pub(crate) fn from_v1_5(wire: &v1_5::GroupMod<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            command: GroupModCommand::from_v1_5(wire.command, wire.command_bucket_id)?,
            kind: GroupKind::from_wire(wire.kind),
            group_id: wire.group_id,
            buckets: wire.buckets.iter().map(|bucket| Bucket::from_v1_5(&bucket)).collect(),
        })
    }

    /// Encodes the group-mod for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0, for actions that the version lacks, and for commands and ids of buckets
    /// before OpenFlow 1.5; [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can
    /// hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::GroupMod, version, xid, out)?;
        to.u16(self.command.wire());
        to.u8(self.kind.wire());
        to.u8(0);
        to.u32(self.group_id);
        if version == Version::V1_5 {
            let size_at = to.position();
            to.zeros(4);
            to.u32(self.command.bucket_id());
            let buckets_at = to.position();
            Bucket::write_all(&self.buckets, version, &mut to)?;
            to.patch_size(size_at, buckets_at);
            return to.finish();
        }
        if self.command.wire() > GroupModCommand::Delete.wire() {
            return Err(EncodeError::Unsupported { field: "group_mod.command", version });
        }
        Bucket::write_all(&self.buckets, version, &mut to)?;
        to.finish()
    }
}
