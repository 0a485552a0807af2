//! Groups: sets of action lists. OpenFlow 1.5.1 §7.3.4.3, §7.3.5.12.
//!
//! ```text
//!  0     2                  4           8
//! +-----+------------------+-----------+-------------+------------+
//! | len | action_array_len | bucket id | actions ... | properties |   a bucket
//! +-----+------------------+-----------+-------------+------------+
//! ```

use crate::tlv::tlv_enum;
use crate::v1_3::action::Action;
use crate::v1_4::property::{Experimenter, Properties};
use crate::wire::{List, Pad, WireFormat, read_sized, wire_struct};
use crate::{DecodeError, PortNo, Reader, Writer};

tlv_enum! {
    /// A property of a bucket (`ofp_group_bucket_prop_header`).
    pub enum BucketProperty<'a> = "group_bucket_prop", align 1 {
        /// Weight in a select group.
        Weight(Weight) = 0,
        /// Port whose state decides whether the bucket is live, in a fast-failover group.
        WatchPort(PortNo) = 1,
        /// Group whose state decides whether the bucket is live.
        WatchGroup(u32) = 2,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_group_bucket_prop_weight`.
    pub struct Weight = "group_bucket_prop_weight" {
        /// The weight.
        weight: u16,
        /// Padding.
        pad: Pad<2>,
    }
}

/// A bucket (`ofp_bucket`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Bucket<'a> {
    /// Number of the bucket in its group.
    pub bucket_id: u32,
    /// Actions on a packet that takes this bucket.
    pub actions: List<'a, Action<'a, 6>>,
    /// Its properties.
    pub properties: Properties<'a, BucketProperty<'a>>,
}

impl<'a> WireFormat<'a> for Bucket<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let start = from.left();
        let mut body = read_sized(from, "bucket.len", start)?;
        let (size, offset) = (body.u16("bucket.action_array_len")?, body.offset() - 2);
        let bucket_id = body.u32("bucket.bucket_id")?;
        let mut actions = array(&mut body, "bucket.action_array_len", offset, size)?;
        Ok(Self {
            bucket_id,
            actions: List::read(&mut actions, "bucket.actions")?,
            properties: List::read(&mut body, "bucket.properties")?,
        })
    }
    fn write(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.zeros(4);
        to.u32(self.bucket_id);
        let actions_at = to.position();
        self.actions.write(to);
        to.patch_size(start + 2, actions_at);
        self.properties.write(to);
        to.patch_size(start, start);
    }
}

/// Takes an array whose size in bytes was read from the field at `offset`.
fn array<'a>(
    from: &mut Reader<'a>,
    field: &'static str,
    offset: usize,
    size: u16,
) -> Result<Reader<'a>, DecodeError> {
    let found = usize::from(size);
    if found > from.left() {
        let expected = "no more than the bytes left around it";
        return Err(DecodeError::BadLength { field, offset, found, expected });
    }
    from.sub(field, found)
}

/// The body of a group-mod (`ofp_group_mod`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupMod<'a> {
    /// `ofp_group_mod_command`.
    pub command: u16,
    /// `ofp_group_type`.
    pub kind: u8,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Pad<1>,
    /// Group number; `0xfffffffc` in a delete means every group.
    pub group_id: u32,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad2: Pad<2>,
    /// The bucket that a command names: `ofp_group_bucket`.
    pub command_bucket_id: u32,
    /// Its buckets.
    pub buckets: List<'a, Bucket<'a>>,
    /// Its properties.
    pub properties: Properties<'a>,
}

impl<'a> WireFormat<'a> for GroupMod<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        const SIZE: &str = "group_mod.bucket_array_len";
        let command = from.u16("group_mod.command")?;
        let kind = from.u8("group_mod.type")?;
        let pad = Pad::read(from, "group_mod.pad")?;
        let group_id = from.u32("group_mod.group_id")?;
        let offset = from.offset();
        let size = from.u16(SIZE)?;
        let pad2 = Pad::read(from, "group_mod.pad2")?;
        let command_bucket_id = from.u32("group_mod.command_bucket_id")?;
        let mut buckets = array(from, SIZE, offset, size)?;
        let buckets = List::read(&mut buckets, "group_mod.buckets")?;
        let properties = List::read(from, "group_mod.properties")?;
        Ok(Self { command, kind, pad, group_id, pad2, command_bucket_id, buckets, properties })
    }
    fn write(&self, to: &mut Writer<'_>) {
        to.u16(self.command);
        to.u8(self.kind);
        self.pad.write(to);
        to.u32(self.group_id);
        let size_at = to.position();
        to.u16(0);
        self.pad2.write(to);
        to.u32(self.command_bucket_id);
        let buckets_at = to.position();
        self.buckets.write(to);
        to.patch_size(size_at, buckets_at);
        self.properties.write(to);
    }
}

/// A group in a reply (`ofp_group_desc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupDesc<'a> {
    /// `ofp_group_type`.
    pub kind: u8,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Pad<1>,
    /// Group number.
    pub group_id: u32,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad2: Pad<6>,
    /// Its buckets.
    pub buckets: List<'a, Bucket<'a>>,
    /// Its properties.
    pub properties: Properties<'a>,
}

impl<'a> WireFormat<'a> for GroupDesc<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        const SIZE: &str = "group_desc.bucket_array_len";
        let start = from.left();
        let mut body = read_sized(from, "group_desc.length", start)?;
        let kind = body.u8("group_desc.type")?;
        let pad = Pad::read(&mut body, "group_desc.pad")?;
        let group_id = body.u32("group_desc.group_id")?;
        let offset = body.offset();
        let size = body.u16(SIZE)?;
        let pad2 = Pad::read(&mut body, "group_desc.pad2")?;
        let mut buckets = array(&mut body, SIZE, offset, size)?;
        let buckets = List::read(&mut buckets, "group_desc.buckets")?;
        let properties = List::read(&mut body, "group_desc.properties")?;
        Ok(Self { kind, pad, group_id, pad2, buckets, properties })
    }
    fn write(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u16(0);
        to.u8(self.kind);
        self.pad.write(to);
        to.u32(self.group_id);
        let size_at = to.position();
        to.u16(0);
        self.pad2.write(to);
        let buckets_at = to.position();
        self.buckets.write(to);
        to.patch_size(size_at, buckets_at);
        self.properties.write(to);
        to.patch_size(start, start);
    }
}

#[cfg(feature = "serde")]
crate::json::as_field!(Bucket<'_>, GroupMod<'_>, GroupDesc<'_>);
