//! Multipart replies.

use super::MORE;
use super::groups::{GroupDesc, GroupFeatures, GroupStats, MeterConfig, MeterFeatures, MeterStats};
use super::request::{unknown, write_experimenter};
use super::stats::{AggregateStats, FlowStats, PortStats, QueueStats, TableStats};
use crate::header::{begin, open};
use crate::wire::{List, Pad, WireFormat};
use crate::{
    DecodeError, DescText, EncodeError, Header, Kind, PortDesc, Version, Writer, v1_0, v1_3,
};

/// One part of the reply to a [`crate::MultipartRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MultipartReply<'a> {
    /// Whether more parts with the same xid follow.
    pub more: bool,
    /// Content of this part.
    pub body: ReplyBody<'a>,
}

/// Content of a multipart reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ReplyBody<'a> {
    /// Description of the switch.
    Desc(Box<DescText>),
    /// Statistics of individual flow entries.
    Flow(Vec<FlowStats<'a>>),
    /// Aggregate statistics of flow entries.
    Aggregate(AggregateStats),
    /// Counters of tables.
    Table(Vec<TableStats>),
    /// Counters of ports.
    PortStats(Vec<PortStats>),
    /// Counters of queues.
    Queue(Vec<QueueStats>),
    /// Counters of groups.
    Group(Vec<GroupStats>),
    /// Groups and their buckets.
    GroupDesc(Vec<GroupDesc>),
    /// Group features.
    GroupFeatures(GroupFeatures),
    /// Counters of meters.
    Meter(Vec<MeterStats>),
    /// Meters and their bands.
    MeterConfig(Vec<MeterConfig>),
    /// Meter features.
    MeterFeatures(MeterFeatures),
    /// Table features.
    TableFeatures(List<'a, v1_3::TableFeatures<'a>>),
    /// Ports.
    PortDesc(Vec<PortDesc>),
    /// Experimenter-defined.
    Experimenter {
        /// Experimenter id.
        experimenter: u32,
        /// Data; from OpenFlow 1.3 on it starts with a 4-byte type.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
        data: &'a [u8],
    },
}

/// Offset of the first item in the message, for errors.
const BODY_AT: usize = Header::SIZE + 8;

impl<'a> MultipartReply<'a> {
    /// Decodes a whole multipart reply of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one such reply, if the specification does not
    /// define its type, or if a match or an entry repeats a field or instruction.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::MultipartReply)?;
        let reply = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::StatsReply::read(&mut body, "stats_reply")?),
            Version::V1_3 => {
                Self::from_v1_3(&v1_3::MultipartReply::read(&mut body, "multipart_reply")?)
            }
        }?;
        body.finish("multipart_reply")?;
        Ok(reply)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::StatsReply<'a>) -> Result<Self, DecodeError> {
        use v1_0::ReplyBody as Wired;
        let body = match wire.body {
            Wired::Desc(desc) => ReplyBody::Desc(Box::new(desc.fields())),
            Wired::Flow(list) => {
                ReplyBody::Flow(list.iter().map(|item| FlowStats::from_v1_0(&item)).collect())
            }
            Wired::Aggregate(item) => ReplyBody::Aggregate(AggregateStats {
                packet_count: item.packet_count,
                byte_count: item.byte_count,
                flow_count: item.flow_count,
            }),
            Wired::Table(list) => {
                ReplyBody::Table(list.iter().map(|item| TableStats::from_v1_0(&item)).collect())
            }
            Wired::Port(list) => {
                ReplyBody::PortStats(list.iter().map(|item| PortStats::from_v1_0(&item)).collect())
            }
            Wired::Queue(list) => {
                ReplyBody::Queue(list.iter().map(|item| QueueStats::from_v1_0(&item)).collect())
            }
            Wired::Vendor(vendor) => {
                ReplyBody::Experimenter { experimenter: vendor.vendor, data: vendor.data }
            }
            Wired::Unknown { kind, .. } => return Err(unknown(kind)),
        };
        Ok(Self { more: wire.flags & MORE != 0, body })
    }

    pub(crate) fn from_v1_3(wire: &v1_3::MultipartReply<'a>) -> Result<Self, DecodeError> {
        use v1_3::ReplyBody as Wired;
        let body = match wire.body {
            Wired::Desc(desc) => ReplyBody::Desc(Box::new(desc.fields())),
            Wired::Flow(list) => {
                let flows = list.iter().map(|item| FlowStats::from_v1_3(&item, BODY_AT));
                ReplyBody::Flow(flows.collect::<Result<_, _>>()?)
            }
            Wired::Aggregate(item) => ReplyBody::Aggregate(AggregateStats {
                packet_count: item.packet_count,
                byte_count: item.byte_count,
                flow_count: item.flow_count,
            }),
            Wired::Table(list) => {
                ReplyBody::Table(list.iter().map(|item| TableStats::from_v1_3(&item)).collect())
            }
            Wired::PortStats(list) => {
                ReplyBody::PortStats(list.iter().map(|item| PortStats::from_v1_3(&item)).collect())
            }
            Wired::Queue(list) => {
                ReplyBody::Queue(list.iter().map(|item| QueueStats::from_v1_3(&item)).collect())
            }
            Wired::Group(list) => {
                ReplyBody::Group(list.iter().map(|item| GroupStats::from_v1_3(&item)).collect())
            }
            Wired::GroupDesc(list) => {
                ReplyBody::GroupDesc(list.iter().map(|item| GroupDesc::from_v1_3(&item)).collect())
            }
            Wired::GroupFeatures(item) => ReplyBody::GroupFeatures(GroupFeatures {
                types: item.types,
                capabilities: item.capabilities,
                max_groups: item.max_groups,
                actions: item.actions,
            }),
            Wired::Meter(list) => {
                ReplyBody::Meter(list.iter().map(|item| MeterStats::from_v1_3(&item)).collect())
            }
            Wired::MeterConfig(list) => {
                let meters = list.iter().map(|item| MeterConfig::from_v1_3(&item));
                ReplyBody::MeterConfig(meters.collect())
            }
            Wired::MeterFeatures(item) => ReplyBody::MeterFeatures(MeterFeatures {
                max_meter: item.max_meter,
                band_types: item.band_types,
                capabilities: item.capabilities,
                max_bands: item.max_bands,
                max_color: item.max_color,
            }),
            Wired::TableFeatures(tables) => ReplyBody::TableFeatures(tables),
            Wired::PortDesc(list) => {
                ReplyBody::PortDesc(list.iter().map(|item| PortDesc::from_v1_3(&item)).collect())
            }
            Wired::Experimenter(found) => {
                ReplyBody::Experimenter { experimenter: found.experimenter, data: found.body }
            }
            Wired::Unknown { kind, .. } => return Err(unknown(kind)),
        };
        Ok(Self { more: wire.flags & MORE != 0, body })
    }

    /// Encodes the reply for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// `out` is too small, [`EncodeError::TooLong`] if no message can hold it: it must be split
    /// into parts.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::MultipartReply, version, xid, out)?;
        match version {
            Version::V1_0 => self.write_v1_0(&mut to)?,
            Version::V1_3 => self.write_v1_3(&mut to)?,
        }
        to.finish()
    }

    fn write_v1_0(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        let kind = match &self.body {
            ReplyBody::Desc(_) => 0,
            ReplyBody::Flow(_) => 1,
            ReplyBody::Aggregate(_) => 2,
            ReplyBody::Table(_) => 3,
            ReplyBody::PortStats(_) => 4,
            ReplyBody::Queue(_) => 5,
            ReplyBody::Experimenter { .. } => 0xffff,
            ReplyBody::Group(_) => return unsupported("multipart group"),
            ReplyBody::GroupDesc(_) => return unsupported("multipart group_desc"),
            ReplyBody::GroupFeatures(_) => return unsupported("multipart group_features"),
            ReplyBody::Meter(_) => return unsupported("multipart meter"),
            ReplyBody::MeterConfig(_) => return unsupported("multipart meter_config"),
            ReplyBody::MeterFeatures(_) => return unsupported("multipart meter_features"),
            ReplyBody::TableFeatures(_) => return unsupported("multipart table_features"),
            ReplyBody::PortDesc(_) => return unsupported("multipart port_desc"),
        };
        to.u16(kind);
        to.u16(u16::from(self.more) * MORE);
        match &self.body {
            ReplyBody::Flow(list) => list.iter().try_for_each(|item| item.write_v1_0(to)),
            ReplyBody::PortStats(list) => list.iter().try_for_each(|item| item.write_v1_0(to)),
            ReplyBody::Queue(list) => list.iter().try_for_each(|item| item.write_v1_0(to)),
            ReplyBody::Table(list) => {
                for item in list {
                    item.write_v1_0(to);
                }
                Ok(())
            }
            ReplyBody::Experimenter { experimenter, data } => {
                to.u32(*experimenter);
                to.bytes(data);
                Ok(())
            }
            shared => {
                shared.write_shared(to);
                Ok(())
            }
        }
    }

    fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let flags = u16::from(self.more) * MORE;
        let kind = match &self.body {
            ReplyBody::Desc(_) => 0,
            ReplyBody::Flow(_) => 1,
            ReplyBody::Aggregate(_) => 2,
            ReplyBody::Table(_) => 3,
            ReplyBody::PortStats(_) => 4,
            ReplyBody::Queue(_) => 5,
            ReplyBody::Group(_) => 6,
            ReplyBody::GroupDesc(_) => 7,
            ReplyBody::GroupFeatures(_) => 8,
            ReplyBody::Meter(_) => 9,
            ReplyBody::MeterConfig(_) => 10,
            ReplyBody::MeterFeatures(_) => 11,
            ReplyBody::TableFeatures(_) => 12,
            ReplyBody::PortDesc(_) => 13,
            ReplyBody::Experimenter { experimenter, data } => {
                return write_experimenter(*experimenter, data, flags, to);
            }
        };
        to.u16(kind);
        to.u16(flags);
        to.zeros(4);
        match &self.body {
            ReplyBody::Flow(list) => list.iter().try_for_each(|item| item.write_v1_3(to))?,
            ReplyBody::Table(list) => list.iter().try_for_each(|item| item.write_v1_3(to))?,
            ReplyBody::GroupDesc(list) => list.iter().try_for_each(|item| item.write_v1_3(to))?,
            ReplyBody::MeterConfig(list) => list.iter().try_for_each(|item| item.write_v1_3(to))?,
            ReplyBody::PortStats(list) => list.iter().for_each(|item| item.write_v1_3(to)),
            ReplyBody::Queue(list) => list.iter().for_each(|item| item.write_v1_3(to)),
            ReplyBody::Group(list) => list.iter().for_each(|item| item.write_v1_3(to)),
            ReplyBody::Meter(list) => list.iter().for_each(|item| item.write_v1_3(to)),
            ReplyBody::PortDesc(list) => list.iter().for_each(|item| item.to_v1_3().write(to)),
            shared => shared.write_shared(to),
        }
        Ok(())
    }
}

impl ReplyBody<'_> {
    /// Writes a body whose format is the same in every version that has it.
    fn write_shared(&self, to: &mut Writer<'_>) {
        match self {
            Self::Desc(desc) => desc.write(to),
            Self::Aggregate(item) => v1_3::multipart::AggregateStats {
                packet_count: item.packet_count,
                byte_count: item.byte_count,
                flow_count: item.flow_count,
                pad: Pad::default(),
            }
            .write(to),
            Self::GroupFeatures(item) => v1_3::multipart::GroupFeatures {
                types: item.types,
                capabilities: item.capabilities,
                max_groups: item.max_groups,
                actions: item.actions,
            }
            .write(to),
            Self::MeterFeatures(item) => v1_3::multipart::MeterFeatures {
                max_meter: item.max_meter,
                band_types: item.band_types,
                capabilities: item.capabilities,
                max_bands: item.max_bands,
                max_color: item.max_color,
                pad: Pad::default(),
            }
            .write(to),
            Self::TableFeatures(tables) => tables.write(to),
            _ => {}
        }
    }
}
