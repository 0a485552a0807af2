//! Multipart replies.

use super::MORE;
use super::bundles::BundleFeatures;
use super::flows::{FlowCounters, FlowStats};
use super::groups::{GroupDesc, GroupFeatures, GroupStats, MeterConfig, MeterFeatures, MeterStats};
use super::monitor::FlowUpdate;
use super::request::{BODY_AT, unknown, write_experimenter, write_head};
use super::stats::{AggregateStats, PortStats, QueueStats, TableStats};
use crate::header::{begin, open};
use crate::instruction::{Lists, OfVersion};
use crate::v1_3::multipart;
use crate::wire::{List, WireFormat};
use crate::{
    ControllerStatus, DecodeError, DescText, EncodeError, Kind, PortDesc, Queue, TableMod, Version,
    Writer, v1_0, v1_1, v1_2, v1_3, v1_4, v1_5,
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
    /// Flow entries with their statistics.
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
    /// Table features. In OpenFlow 1.5 the padding of a table is its command and flags ([`v1_5::TableFeatures`]).
    TableFeatures(List<'a, v1_3::TableFeatures<'a>>),
    /// Ports.
    PortDesc(Vec<PortDesc>),
    /// Configuration of tables. From OpenFlow 1.4 on.
    TableDesc(Vec<TableMod>),
    /// Configuration of queues. From OpenFlow 1.4 on.
    QueueDesc(Vec<Queue>),
    /// Updates of a flow monitor. From OpenFlow 1.4 on.
    FlowMonitor(Vec<FlowUpdate<'a>>),
    /// Statistics of flow entries without their descriptions. From OpenFlow 1.5 on.
    FlowCounters(Vec<FlowCounters>),
    /// State of the switch's controllers. From OpenFlow 1.5 on.
    ControllerStatus(Vec<ControllerStatus>),
    /// Features of bundles. From OpenFlow 1.5 on.
    BundleFeatures(BundleFeatures),
    /// Experimenter-defined.
    Experimenter {
        /// Experimenter id.
        experimenter: u32,
        /// Data; from OpenFlow 1.1 on it starts with 4 bytes that are a type from 1.2 on.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
        data: &'a [u8],
    },
}

/// Converts every item of a list.
fn each<'a, T: WireFormat<'a>, R>(list: List<'a, T>, convert: impl FnMut(T) -> R) -> Vec<R> {
    list.iter().map(convert).collect()
}

/// Converts every item of a list; the first error ends it.
fn try_each<'a, T: WireFormat<'a>, R>(
    list: List<'a, T>,
    convert: impl FnMut(T) -> Result<R, DecodeError>,
) -> Result<Vec<R>, DecodeError> {
    list.iter().map(convert).collect()
}

/// Returns received features of tables as features of OpenFlow 1.3.
///
/// The layout is the same in later versions: what these define in addition is padding, or a property of an unknown type.
pub(super) fn tables<'a, T: WireFormat<'a>>(
    list: List<'a, T>,
) -> List<'a, v1_3::TableFeatures<'a>> {
    list.received().map_or_else(List::default, List::checked)
}

impl<'a> MultipartReply<'a> {
    /// Decodes a whole multipart reply of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one such reply, if the specification does not
    /// define its type, or if a match or an entry repeats a field or instruction.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        const FIELD: &str = "multipart_reply";
        let (version, _, mut body) = open(message, Kind::MultipartReply)?;
        let body = &mut body;
        let reply = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::StatsReply::read(body, "stats_reply")?),
            Version::V1_1 => Self::from_since_1_1(&v1_1::StatsReply::read(body, FIELD)?),
            Version::V1_2 => Self::from_since_1_1(&v1_2::StatsReply::read(body, FIELD)?),
            Version::V1_3 => Self::from_since_1_1(&v1_3::MultipartReply::read(body, FIELD)?),
            Version::V1_4 => Self::from_since_1_1(&v1_4::MultipartReply::read(body, FIELD)?),
            Version::V1_5 => Self::from_since_1_1(&v1_5::MultipartReply::read(body, FIELD)?),
        }?;
        body.finish("multipart_reply")?;
        Ok(reply)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::StatsReply<'a>) -> Result<Self, DecodeError> {
        use v1_0::ReplyBody as Wired;
        let body = match wire.body {
            Wired::Desc(desc) => ReplyBody::Desc(Box::new(desc.fields())),
            Wired::Flow(list) => ReplyBody::Flow(each(list, |it| FlowStats::from_v1_0(&it))),
            Wired::Aggregate(item) => ReplyBody::Aggregate(AggregateStats {
                packet_count: item.packet_count,
                byte_count: item.byte_count,
                flow_count: item.flow_count,
            }),
            Wired::Table(list) => ReplyBody::Table(each(list, |it| TableStats::from_v1_0(&it))),
            Wired::Port(list) => ReplyBody::PortStats(each(list, |it| PortStats::from_v1_0(&it))),
            Wired::Queue(list) => ReplyBody::Queue(each(list, |it| QueueStats::from_v1_0(&it))),
            Wired::Vendor(vendor) => {
                ReplyBody::Experimenter { experimenter: vendor.vendor, data: vendor.data }
            }
            Wired::Unknown { kind, .. } => return Err(unknown(kind)),
        };
        Ok(Self { more: wire.flags & MORE != 0, body })
    }

    pub(crate) fn from_since_1_1<const V: u8>(
        wire: &multipart::MultipartReply<'a, V>,
    ) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        use ReplyBody as Body;
        use multipart::ReplyBody as Wired;
        const AT: usize = BODY_AT;
        let body = match wire.body {
            Wired::Desc(desc) => Body::Desc(Box::new(desc.fields())),
            Wired::Flow(list) => Body::Flow(try_each(list, |it| FlowStats::from_v1_3(&it, AT))?),
            Wired::FlowV1_1(list) => {
                Body::Flow(try_each(list, |it| FlowStats::from_v1_1(&it, AT))?)
            }
            Wired::FlowV1_2(list) => {
                Body::Flow(try_each(list, |it| FlowStats::from_v1_2(&it, AT))?)
            }
            Wired::FlowV1_4(list) => {
                Body::Flow(try_each(list, |it| FlowStats::from_v1_4(&it, AT))?)
            }
            Wired::FlowDesc(list) => {
                Body::Flow(try_each(list, |it| FlowStats::from_v1_5(&it, AT))?)
            }
            Wired::Aggregate(item) => Body::Aggregate(AggregateStats {
                packet_count: item.packet_count,
                byte_count: item.byte_count,
                flow_count: item.flow_count,
            }),
            Wired::AggregateV1_5(stats) => Body::Aggregate(AggregateStats::from_v1_5(&stats)),
            Wired::Table(list) => Body::Table(each(list, |it| TableStats::from_v1_3(&it))),
            Wired::TableV1_1(list) => Body::Table(each(list, |it| TableStats::from_v1_1(&it))),
            Wired::TableV1_2(list) => Body::Table(each(list, |it| TableStats::from_v1_2(&it))),
            Wired::PortStats(list) => Body::PortStats(each(list, |it| PortStats::from_v1_3(&it))),
            Wired::PortStatsV1_1(list) => {
                Body::PortStats(each(list, |it| PortStats::from_v1_1(&it)))
            }
            Wired::PortStatsV1_4(list) => {
                Body::PortStats(each(list, |it| PortStats::from_v1_4(&it)))
            }
            Wired::Queue(list) => Body::Queue(each(list, |it| QueueStats::from_v1_3(&it))),
            Wired::QueueV1_1(list) => Body::Queue(each(list, |it| QueueStats::from_v1_1(&it))),
            Wired::QueueV1_4(list) => Body::Queue(each(list, |it| QueueStats::from_v1_4(&it))),
            Wired::Group(list) => Body::Group(each(list, |it| GroupStats::from_v1_3(&it))),
            Wired::GroupV1_1(list) => Body::Group(each(list, |it| GroupStats::from_v1_1(&it))),
            Wired::GroupDesc(list) => Body::GroupDesc(each(list, |it| GroupDesc::from_v1_3(&it))),
            Wired::GroupDescV1_5(list) => {
                Body::GroupDesc(each(list, |it| GroupDesc::from_v1_5(&it)))
            }
            Wired::GroupFeatures(item) => Body::GroupFeatures(GroupFeatures {
                types: item.types,
                capabilities: item.capabilities,
                max_groups: item.max_groups,
                actions: item.actions,
            }),
            Wired::Meter(list) => Body::Meter(each(list, |it| MeterStats::from_v1_3(&it))),
            Wired::MeterConfig(list) => {
                Body::MeterConfig(each(list, |it| MeterConfig::from_v1_3(&it)))
            }
            Wired::MeterFeatures(item) => Body::MeterFeatures(MeterFeatures::from_v1_3(&item)),
            Wired::MeterFeaturesV1_5(item) => Body::MeterFeatures(MeterFeatures::from_v1_5(&item)),
            Wired::TableFeatures(list) => Body::TableFeatures(tables(list)),
            Wired::TableFeaturesV1_5(list) => Body::TableFeatures(tables(list)),
            Wired::PortDesc(list) => Body::PortDesc(each(list, |it| PortDesc::from_v1_3(&it))),
            Wired::PortDescV1_4(list) => Body::PortDesc(each(list, |it| PortDesc::from_v1_4(&it))),
            Wired::TableDesc(list) => Body::TableDesc(each(list, |it| TableMod::from_desc(&it))),
            Wired::QueueDesc(list) => Body::QueueDesc(each(list, |it| Queue::from_v1_4(&it))),
            Wired::FlowMonitor(list) => {
                Body::FlowMonitor(try_each(list, |it| FlowUpdate::from_v1_4(&it, AT))?)
            }
            Wired::FlowStats(list) => {
                Body::FlowCounters(try_each(list, |it| FlowCounters::from_v1_5(&it, AT))?)
            }
            Wired::ControllerStatus(list) => {
                Body::ControllerStatus(try_each(list, |it| ControllerStatus::from_v1_5(&it))?)
            }
            Wired::BundleFeatures(item) => Body::BundleFeatures(BundleFeatures::from_v1_5(&item)),
            Wired::Experimenter(found) => {
                Body::Experimenter { experimenter: found.experimenter, data: found.body }
            }
            Wired::Unknown { kind, .. } => return Err(unknown(kind)),
        };
        Ok(Self { more: wire.flags & MORE != 0, body })
    }

    /// Encodes the reply for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// `out` is too small, [`EncodeError::TooLong`] if no message can hold it: it must be split
    /// into parts.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::MultipartReply, version, xid, out)?;
        let (kind, first, field) = self.body.kind();
        write_head(kind, u16::from(self.more) * MORE, (first, field), version, &mut to)?;
        self.body.write(version, &mut to)?;
        to.finish()
    }
}

impl ReplyBody<'_> {
    /// Returns the type, the first version that has it, and its name in errors.
    fn kind(&self) -> (u16, Version, &'static str) {
        match self {
            Self::Desc(_) => (0, Version::V1_0, "multipart desc"),
            Self::Flow(_) => (1, Version::V1_0, "multipart flow"),
            Self::Aggregate(_) => (2, Version::V1_0, "multipart aggregate"),
            Self::Table(_) => (3, Version::V1_0, "multipart table"),
            Self::PortStats(_) => (4, Version::V1_0, "multipart port_stats"),
            Self::Queue(_) => (5, Version::V1_0, "multipart queue"),
            Self::Group(_) => (6, Version::V1_1, "multipart group"),
            Self::GroupDesc(_) => (7, Version::V1_1, "multipart group_desc"),
            Self::GroupFeatures(_) => (8, Version::V1_2, "multipart group_features"),
            Self::Meter(_) => (9, Version::V1_3, "multipart meter"),
            Self::MeterConfig(_) => (10, Version::V1_3, "multipart meter_config"),
            Self::MeterFeatures(_) => (11, Version::V1_3, "multipart meter_features"),
            Self::TableFeatures(_) => (12, Version::V1_3, "multipart table_features"),
            Self::PortDesc(_) => (13, Version::V1_3, "multipart port_desc"),
            Self::TableDesc(_) => (14, Version::V1_4, "multipart table_desc"),
            Self::QueueDesc(_) => (15, Version::V1_4, "multipart queue_desc"),
            Self::FlowMonitor(_) => (16, Version::V1_4, "multipart flow_monitor"),
            Self::FlowCounters(_) => (17, Version::V1_5, "multipart flow_stats"),
            Self::ControllerStatus(_) => (18, Version::V1_5, "multipart controller_status"),
            Self::BundleFeatures(_) => (19, Version::V1_5, "multipart bundle_features"),
            Self::Experimenter { .. } => (0xffff, Version::V1_0, "multipart experimenter"),
        }
    }

    fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Flow(list) => list.iter().try_for_each(|it| it.write(version, to))?,
            Self::Table(list) => list.iter().try_for_each(|it| it.write(version, to))?,
            Self::PortStats(list) => list.iter().try_for_each(|it| it.write(version, to))?,
            Self::Queue(list) => list.iter().try_for_each(|it| it.write(version, to))?,
            Self::Group(list) => list.iter().try_for_each(|it| it.write(version, to))?,
            Self::GroupDesc(list) => list.iter().try_for_each(|it| it.write(version, to))?,
            Self::MeterConfig(list) => list.iter().try_for_each(|it| it.write_v1_3(to))?,
            Self::FlowMonitor(list) => list.iter().try_for_each(|it| it.write(version, to))?,
            Self::MeterFeatures(item) => item.write(version, to)?,
            Self::Experimenter { experimenter, data } if version == Version::V1_0 => {
                to.u32(*experimenter);
                to.bytes(data);
            }
            Self::Experimenter { experimenter, data } => {
                write_experimenter(*experimenter, data, version, to)?;
            }
            Self::Desc(desc) => desc.write(to),
            Self::Aggregate(item) => item.write(version, to),
            Self::GroupFeatures(item) => multipart::GroupFeatures {
                types: item.types,
                capabilities: item.capabilities,
                max_groups: item.max_groups,
                actions: item.actions,
            }
            .write(to),
            Self::Meter(list) => list.iter().for_each(|it| it.write_v1_3(to)),
            Self::TableFeatures(tables) => tables.write(to),
            Self::PortDesc(list) if version == Version::V1_3 => {
                for port in list {
                    port.to_v1_3().write(to);
                }
            }
            Self::PortDesc(list) => list.iter().for_each(|it| it.write_v1_4(to)),
            Self::TableDesc(list) => list.iter().for_each(|it| it.write_desc(to)),
            Self::QueueDesc(list) => list.iter().for_each(|it| it.write_v1_4(to)),
            Self::FlowCounters(list) => list.iter().for_each(|it| it.write(to)),
            Self::ControllerStatus(list) => list.iter().for_each(|it| it.write(to)),
            Self::BundleFeatures(item) => item.write(to),
        }
        Ok(())
    }
}
