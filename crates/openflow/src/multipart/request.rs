//! Multipart requests.

use super::bundles::BundleFeaturesRequest;
use super::flows::FlowStatsRequest;
use super::monitor::FlowMonitorRequest;
use super::reply::tables;
use super::{ALL_QUEUES, MORE};
use crate::header::{begin, open};
use crate::v1_3::multipart;
use crate::wire::{List, Pad, WireFormat};
use crate::{
    DecodeError, EncodeError, GroupMod, Header, Kind, PortNo, Version, Writer, v1_0, v1_1, v1_2,
    v1_3, v1_4, v1_5,
};

/// A request for statistics or a description.
///
/// ```
/// use rosemary_openflow::{FlowStatsRequest, Match, MultipartRequest, Version};
///
/// let all_flows = MultipartRequest::Flow(FlowStatsRequest::new(Match::new()));
/// let mut buffer = [0; 64];
/// assert_eq!(all_flows.encode(Version::V1_0, 7, &mut buffer)?, 56);
/// assert_eq!(all_flows.encode(Version::V1_3, 7, &mut buffer)?, 56);
/// # Ok::<(), rosemary_openflow::EncodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum MultipartRequest<'a> {
    /// Description of the switch.
    Desc,
    /// Flow entries with their statistics.
    Flow(FlowStatsRequest),
    /// Aggregate statistics of flow entries.
    Aggregate(FlowStatsRequest),
    /// Counters of tables.
    Table,
    /// Counters of a port; of every port with [`PortNo::ANY`].
    PortStats(PortNo),
    /// Counters of queues.
    Queue {
        /// Port number; [`PortNo::ANY`] means every port.
        port_no: PortNo,
        /// Queue number; `None` means every queue.
        queue_id: Option<u32>,
    },
    /// Counters of a group; of every group with [`crate::GroupMod::ALL_GROUPS`].
    Group(u32),
    /// Groups and their buckets.
    GroupDesc,
    /// One group and its buckets. From OpenFlow 1.5 on.
    OneGroupDesc(u32),
    /// Group features.
    GroupFeatures,
    /// Counters of a meter; of every meter with [`crate::MeterMod::ALL_METERS`].
    Meter(u32),
    /// A meter and its bands; every meter with [`crate::MeterMod::ALL_METERS`].
    MeterConfig(u32),
    /// Meter features.
    MeterFeatures,
    /// Table features; a non-empty body requests a new configuration. In OpenFlow 1.5 the padding of a table is its command and
    /// flags ([`v1_5::TableFeatures`]).
    TableFeatures(List<'a, v1_3::TableFeatures<'a>>),
    /// Ports.
    PortDesc,
    /// One port. From OpenFlow 1.5 on.
    OnePortDesc(PortNo),
    /// Configuration of tables. From OpenFlow 1.4 on.
    TableDesc,
    /// Configuration of queues. From OpenFlow 1.4 on.
    QueueDesc {
        /// Port number; [`PortNo::ANY`] means every port.
        port_no: PortNo,
        /// Queue number; `None` means every queue.
        queue_id: Option<u32>,
    },
    /// Flow monitors to add, change or delete. From OpenFlow 1.4 on.
    FlowMonitor(Vec<FlowMonitorRequest>),
    /// Statistics of flow entries without their descriptions. From OpenFlow 1.5 on.
    FlowCounters(FlowStatsRequest),
    /// State of the switch's controllers. From OpenFlow 1.5 on.
    ControllerStatus,
    /// Features of bundles. From OpenFlow 1.5 on.
    BundleFeatures(BundleFeaturesRequest),
    /// Experimenter-defined.
    Experimenter {
        /// Experimenter id.
        experimenter: u32,
        /// Data; from OpenFlow 1.1 on it starts with 4 bytes that are a type from 1.2 on.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
        data: &'a [u8],
    },
}

impl<'a> MultipartRequest<'a> {
    /// Encodes the request for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express it, [`EncodeError::NoRoom`] if
    /// `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::MultipartRequest, version, xid, out)?;
        let (kind, first, field) = self.kind();
        write_head(kind, 0, (first, field), version, &mut to)?;
        if version == Version::V1_0 {
            self.write_v1_0(&mut to)?;
        } else {
            self.write_since_1_1(version, &mut to)?;
        }
        to.finish()
    }

    /// Returns the type, the first version that has it, and its name in errors.
    fn kind(&self) -> (u16, Version, &'static str) {
        match self {
            Self::Desc => (0, Version::V1_0, "multipart desc"),
            Self::Flow(_) => (1, Version::V1_0, "multipart flow"),
            Self::Aggregate(_) => (2, Version::V1_0, "multipart aggregate"),
            Self::Table => (3, Version::V1_0, "multipart table"),
            Self::PortStats(_) => (4, Version::V1_0, "multipart port_stats"),
            Self::Queue { .. } => (5, Version::V1_0, "multipart queue"),
            Self::Group(_) => (6, Version::V1_1, "multipart group"),
            Self::GroupDesc => (7, Version::V1_1, "multipart group_desc"),
            Self::OneGroupDesc(_) => (7, Version::V1_5, "multipart group_desc of one group"),
            Self::GroupFeatures => (8, Version::V1_2, "multipart group_features"),
            Self::Meter(_) => (9, Version::V1_3, "multipart meter"),
            Self::MeterConfig(_) => (10, Version::V1_3, "multipart meter_config"),
            Self::MeterFeatures => (11, Version::V1_3, "multipart meter_features"),
            Self::TableFeatures(_) => (12, Version::V1_3, "multipart table_features"),
            Self::PortDesc => (13, Version::V1_3, "multipart port_desc"),
            Self::OnePortDesc(_) => (13, Version::V1_5, "multipart port_desc of one port"),
            Self::TableDesc => (14, Version::V1_4, "multipart table_desc"),
            Self::QueueDesc { .. } => (15, Version::V1_4, "multipart queue_desc"),
            Self::FlowMonitor(_) => (16, Version::V1_4, "multipart flow_monitor"),
            Self::FlowCounters(_) => (17, Version::V1_5, "multipart flow_stats"),
            Self::ControllerStatus => (18, Version::V1_5, "multipart controller_status"),
            Self::BundleFeatures(_) => (19, Version::V1_5, "multipart bundle_features"),
            Self::Experimenter { .. } => (0xffff, Version::V1_0, "multipart experimenter"),
        }
    }

    fn write_v1_0(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Flow(request) | Self::Aggregate(request) => request.to_v1_0()?.write(to),
            Self::PortStats(port_no) => {
                to.u16(v1_0::convert::port(*port_no, "port_stats_request.port_no")?);
                to.zeros(6);
            }
            Self::Queue { port_no, queue_id } => {
                // OFPP_ALL, 0xfffc, means every port here; later versions use 0xffff.
                let port_no = if *port_no == PortNo::ANY { PortNo::ALL } else { *port_no };
                to.u16(v1_0::convert::port(port_no, "queue_stats_request.port_no")?);
                to.zeros(2);
                to.u32(queue_id.unwrap_or(ALL_QUEUES));
            }
            Self::Experimenter { experimenter, data } => {
                to.u32(*experimenter);
                to.bytes(data);
            }
            // The others have no content.
            _ => {}
        }
        Ok(())
    }

    fn write_since_1_1(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let id = |id: u32, to: &mut Writer<'_>| {
            to.u32(id);
            to.zeros(4);
        };
        match self {
            Self::Flow(request) | Self::Aggregate(request) | Self::FlowCounters(request) => {
                request.write(version, to)?;
            }
            Self::PortStats(port) | Self::OnePortDesc(port) => id(port.0, to),
            Self::PortDesc if version == Version::V1_5 => id(PortNo::ANY.0, to),
            Self::GroupDesc if version == Version::V1_5 => id(GroupMod::ALL_GROUPS, to),
            Self::Group(number)
            | Self::OneGroupDesc(number)
            | Self::Meter(number)
            | Self::MeterConfig(number) => id(*number, to),
            Self::Queue { port_no, queue_id } | Self::QueueDesc { port_no, queue_id } => {
                to.u32(port_no.0);
                to.u32(queue_id.unwrap_or(ALL_QUEUES));
            }
            Self::TableFeatures(tables) => tables.write(to),
            Self::FlowMonitor(monitors) => monitors.iter().for_each(|it| it.write(to)),
            Self::BundleFeatures(request) => request.write(to),
            Self::Experimenter { experimenter, data } => {
                write_experimenter(*experimenter, data, version, to)?;
            }
            Self::Desc
            | Self::Table
            | Self::GroupDesc
            | Self::GroupFeatures
            | Self::MeterFeatures
            | Self::PortDesc
            | Self::TableDesc
            | Self::ControllerStatus => {}
        }
        Ok(())
    }

    /// Decodes a whole multipart request of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one such request, if the specification does not
    /// define its type, or if it is one of several parts.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        const FIELD: &str = "multipart_request";
        let (version, _, mut body) = open(message, Kind::MultipartRequest)?;
        let flags = {
            let mut head = body;
            head.u16("multipart_request.type")?;
            head.u16("multipart_request.flags")?
        };
        let body = &mut body;
        let request = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::StatsRequest::read(body, "stats_request")?),
            Version::V1_1 => Self::from_since_1_1(&v1_1::StatsRequest::read(body, FIELD)?),
            Version::V1_2 => Self::from_since_1_1(&v1_2::StatsRequest::read(body, FIELD)?),
            Version::V1_3 => Self::from_since_1_1(&v1_3::MultipartRequest::read(body, FIELD)?),
            Version::V1_4 => Self::from_since_1_1(&v1_4::MultipartRequest::read(body, FIELD)?),
            Version::V1_5 => Self::from_since_1_1(&v1_5::MultipartRequest::read(body, FIELD)?),
        }?;
        body.finish("multipart_request")?;
        if flags & MORE != 0 {
            return Err(DecodeError::BadValue {
                field: "multipart_request.flags",
                offset: Header::SIZE + 2,
                found: flags.into(),
                expected: "a request in one part",
            });
        }
        Ok(request)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::StatsRequest<'a>) -> Result<Self, DecodeError> {
        use v1_0::RequestBody as Wired;
        Ok(match wire.body {
            Wired::Desc(_) => Self::Desc,
            Wired::Flow(request) => Self::Flow(FlowStatsRequest::from_v1_0(&request)),
            Wired::Aggregate(request) => Self::Aggregate(FlowStatsRequest::from_v1_0(&request)),
            Wired::Table(_) => Self::Table,
            Wired::Port(request) => Self::PortStats(v1_0::port_from_wire(request.port_no)),
            Wired::Queue(request) => {
                let port_no = v1_0::port_from_wire(request.port_no);
                Self::Queue {
                    port_no: if port_no == PortNo::ALL { PortNo::ANY } else { port_no },
                    queue_id: (request.queue_id != ALL_QUEUES).then_some(request.queue_id),
                }
            }
            Wired::Vendor(vendor) => {
                Self::Experimenter { experimenter: vendor.vendor, data: vendor.data }
            }
            Wired::Unknown { kind, .. } => return Err(unknown(kind)),
        })
    }

    pub(crate) fn from_since_1_1<const V: u8>(
        wire: &multipart::MultipartRequest<'a, V>,
    ) -> Result<Self, DecodeError> {
        use multipart::RequestBody as Wired;
        let queue = |id: u32| (id != ALL_QUEUES).then_some(id);
        Ok(match wire.body {
            Wired::Desc(_) => Self::Desc,
            Wired::Flow(request) => Self::Flow(FlowStatsRequest::from_v1_3(&request)?),
            Wired::FlowV1_1(request) => Self::Flow(FlowStatsRequest::from_v1_1(&request)),
            Wired::Aggregate(request) => Self::Aggregate(FlowStatsRequest::from_v1_3(&request)?),
            Wired::AggregateV1_1(request) => Self::Aggregate(FlowStatsRequest::from_v1_1(&request)),
            Wired::Table(_) => Self::Table,
            Wired::PortStats(request) => Self::PortStats(request.port_no),
            Wired::Queue(request) => {
                Self::Queue { port_no: request.port_no, queue_id: queue(request.queue_id) }
            }
            Wired::Group(request) => Self::Group(request.id),
            Wired::GroupDesc(_) => Self::GroupDesc,
            Wired::GroupDescV1_5(request) if request.id == GroupMod::ALL_GROUPS => Self::GroupDesc,
            Wired::GroupDescV1_5(request) => Self::OneGroupDesc(request.id),
            Wired::GroupFeatures(_) => Self::GroupFeatures,
            Wired::Meter(request) => Self::Meter(request.id),
            Wired::MeterConfig(request) => Self::MeterConfig(request.id),
            Wired::MeterFeatures(_) => Self::MeterFeatures,
            Wired::TableFeatures(list) => Self::TableFeatures(tables(list)),
            Wired::TableFeaturesV1_5(list) => Self::TableFeatures(tables(list)),
            Wired::PortDesc(_) => Self::PortDesc,
            Wired::PortDescV1_5(request) if request.port_no == PortNo::ANY => Self::PortDesc,
            Wired::PortDescV1_5(request) => Self::OnePortDesc(request.port_no),
            Wired::TableDesc(_) => Self::TableDesc,
            Wired::QueueDesc(request) => {
                Self::QueueDesc { port_no: request.port_no, queue_id: queue(request.queue_id) }
            }
            Wired::FlowMonitor(list) => {
                let monitors = list.iter().map(|it| FlowMonitorRequest::from_v1_4(&it, BODY_AT));
                Self::FlowMonitor(monitors.collect::<Result<_, _>>()?)
            }
            Wired::FlowStats(request) => Self::FlowCounters(FlowStatsRequest::from_v1_3(&request)?),
            Wired::ControllerStatus(_) => Self::ControllerStatus,
            Wired::BundleFeatures(request) => {
                Self::BundleFeatures(BundleFeaturesRequest::from_v1_5(&request))
            }
            Wired::Experimenter(found) => {
                Self::Experimenter { experimenter: found.experimenter, data: found.body }
            }
            Wired::Unknown { kind, .. } => return Err(unknown(kind)),
        })
    }
}

/// Offset of the content in a message of OpenFlow 1.1 and later, for errors.
pub(super) const BODY_AT: usize = Header::SIZE + 8;

/// Returns the error for a type that the specification does not define.
pub(super) fn unknown(kind: u16) -> DecodeError {
    DecodeError::BadValue {
        field: "multipart.type",
        offset: Header::SIZE,
        found: kind.into(),
        expected: "a type that the specification defines",
    }
}

/// Writes type and flags.
///
/// # Errors
/// [`EncodeError::Unsupported`] with `field` before the first version that has the type.
pub(super) fn write_head(
    kind: u16,
    flags: u16,
    (first, field): (Version, &'static str),
    version: Version,
    to: &mut Writer<'_>,
) -> Result<(), EncodeError> {
    if version < first {
        return Err(EncodeError::Unsupported { field, version });
    }
    to.u16(kind);
    to.u16(flags);
    if version != Version::V1_0 {
        Pad([0; 4]).write(to);
    }
    Ok(())
}

/// Writes the content of an experimenter's request or reply for OpenFlow 1.1 and later.
pub(super) fn write_experimenter(
    experimenter: u32,
    data: &[u8],
    version: Version,
    to: &mut Writer<'_>,
) -> Result<(), EncodeError> {
    if data.len() < 4 {
        let field = "an experimenter's multipart message without a type";
        return Err(EncodeError::Unsupported { field, version });
    }
    to.u32(experimenter);
    to.bytes(data);
    Ok(())
}
