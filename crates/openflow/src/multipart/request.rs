//! Multipart requests.

use super::{ALL_QUEUES, MORE};
use crate::header::{begin, open};
use crate::matching::{Bytes, Match};
use crate::wire::{Empty, List, Pad, WireFormat};
use crate::{DecodeError, EncodeError, FlowMod, Header, Kind, PortNo, Version, Writer, v1_0, v1_3};

/// Selects flow entries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowStatsRequest {
    /// Table number; [`FlowMod::ALL_TABLES`] means every table.
    pub table_id: u8,
    /// Selects only entries that output to this port; [`PortNo::ANY`] disables the filter.
    pub out_port: PortNo,
    /// Selects only entries that use this group; [`FlowMod::ANY_GROUP`] disables the filter.
    pub out_group: u32,
    /// Selects only entries whose cookie has these bits where `cookie_mask` is 1.
    pub cookie: u64,
    /// Mask of `cookie`. 0 in OpenFlow 1.0.
    pub cookie_mask: u64,
    /// Selects only entries that this match covers.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
}

impl FlowStatsRequest {
    /// Selects every entry of every table covered by the match.
    pub fn new(match_: Match) -> Self {
        Self {
            table_id: FlowMod::ALL_TABLES,
            out_port: PortNo::ANY,
            out_group: FlowMod::ANY_GROUP,
            cookie: 0,
            cookie_mask: 0,
            match_,
        }
    }

    pub(crate) fn from_v1_0(wire: &v1_0::stats::FlowStatsRequest) -> Self {
        Self {
            table_id: wire.table_id,
            out_port: v1_0::port_from_wire(wire.out_port),
            ..Self::new(v1_0::convert::match_from_wire(&wire.match_))
        }
    }

    fn to_v1_0(&self) -> Result<v1_0::stats::FlowStatsRequest, EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        if self.out_group != FlowMod::ANY_GROUP {
            return unsupported("flow_stats_request.out_group");
        }
        if self.cookie_mask != 0 {
            return unsupported("flow_stats_request.cookie_mask");
        }
        Ok(v1_0::stats::FlowStatsRequest {
            match_: v1_0::convert::match_to_wire(&self.match_)?,
            table_id: self.table_id,
            pad: Pad::default(),
            out_port: v1_0::convert::port(self.out_port, "flow_stats_request.out_port")?,
        })
    }

    pub(crate) fn from_v1_3(
        wire: &v1_3::multipart::FlowStatsRequest<'_>,
    ) -> Result<Self, DecodeError> {
        /// Offset of the match in the message, for errors.
        const MATCH_AT: usize = Header::SIZE + 40;
        Ok(Self {
            table_id: wire.table_id,
            out_port: wire.out_port,
            out_group: wire.out_group,
            cookie: wire.cookie,
            cookie_mask: wire.cookie_mask,
            match_: Match::from_v1_3(&wire.match_, MATCH_AT)?,
        })
    }

    /// The request of OpenFlow 1.3 with these fields of its match.
    fn to_v1_3<'f>(&self, fields: &'f [u8]) -> v1_3::multipart::FlowStatsRequest<'f> {
        v1_3::multipart::FlowStatsRequest {
            table_id: self.table_id,
            pad: Pad::default(),
            out_port: self.out_port,
            out_group: self.out_group,
            pad2: Pad::default(),
            cookie: self.cookie,
            cookie_mask: self.cookie_mask,
            match_: v1_3::Match::of(fields),
        }
    }
}

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
    /// Statistics of individual flow entries.
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
    /// Group features.
    GroupFeatures,
    /// Counters of a meter; of every meter with [`crate::MeterMod::ALL_METERS`].
    Meter(u32),
    /// A meter and its bands; every meter with [`crate::MeterMod::ALL_METERS`].
    MeterConfig(u32),
    /// Meter features.
    MeterFeatures,
    /// Table features; a non-empty body requests a new configuration.
    TableFeatures(List<'a, v1_3::TableFeatures<'a>>),
    /// Ports.
    PortDesc,
    /// Experimenter-defined.
    Experimenter {
        /// Experimenter id.
        experimenter: u32,
        /// Data; from OpenFlow 1.3 on it starts with a 4-byte type.
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
        match version {
            Version::V1_0 => self.write_v1_0(&mut to)?,
            Version::V1_3 => self.write_v1_3(&mut to)?,
        }
        to.finish()
    }

    fn write_v1_0(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        use v1_0::RequestBody as Wired;
        use v1_0::stats;
        let unsupported = |field| Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        let body = match self {
            Self::Desc => Wired::Desc(Empty),
            Self::Flow(request) => Wired::Flow(request.to_v1_0()?),
            Self::Aggregate(request) => Wired::Aggregate(request.to_v1_0()?),
            Self::Table => Wired::Table(Empty),
            Self::PortStats(port_no) => Wired::Port(stats::PortStatsRequest {
                port_no: v1_0::convert::port(*port_no, "port_stats_request.port_no")?,
                pad: Pad::default(),
            }),
            Self::Queue { port_no, queue_id } => {
                // OFPP_ALL, 0xfffc, means every port here; later versions use 0xffff.
                let port_no = if *port_no == PortNo::ANY { PortNo::ALL } else { *port_no };
                Wired::Queue(stats::QueueStatsRequest {
                    port_no: v1_0::convert::port(port_no, "queue_stats_request.port_no")?,
                    pad: Pad::default(),
                    queue_id: queue_id.unwrap_or(ALL_QUEUES),
                })
            }
            Self::Experimenter { experimenter, data } => {
                Wired::Vendor(stats::Vendor { vendor: *experimenter, data })
            }
            Self::Group(_) => return unsupported("multipart group"),
            Self::GroupDesc => return unsupported("multipart group_desc"),
            Self::GroupFeatures => return unsupported("multipart group_features"),
            Self::Meter(_) => return unsupported("multipart meter"),
            Self::MeterConfig(_) => return unsupported("multipart meter_config"),
            Self::MeterFeatures => return unsupported("multipart meter_features"),
            Self::TableFeatures(_) => return unsupported("multipart table_features"),
            Self::PortDesc => return unsupported("multipart port_desc"),
        };
        v1_0::StatsRequest { flags: 0, pad: Pad::default(), body }.write(to);
        Ok(())
    }

    fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        use v1_3::RequestBody as Wired;
        use v1_3::multipart;
        let pad = Pad::default();
        let fields = match self {
            Self::Flow(request) | Self::Aggregate(request) => request.match_.to_bytes(),
            _ => Bytes::default(),
        };
        let body = match self {
            Self::Desc => Wired::Desc(Empty),
            Self::Flow(request) => Wired::Flow(request.to_v1_3(&fields)),
            Self::Aggregate(request) => Wired::Aggregate(request.to_v1_3(&fields)),
            Self::Table => Wired::Table(Empty),
            Self::PortStats(port_no) => {
                Wired::PortStats(multipart::PortRequest { port_no: *port_no, pad })
            }
            Self::Queue { port_no, queue_id } => Wired::Queue(multipart::QueueStatsRequest {
                port_no: *port_no,
                queue_id: queue_id.unwrap_or(ALL_QUEUES),
            }),
            Self::Group(id) => Wired::Group(multipart::IdRequest { id: *id, pad }),
            Self::GroupDesc => Wired::GroupDesc(Empty),
            Self::GroupFeatures => Wired::GroupFeatures(Empty),
            Self::Meter(id) => Wired::Meter(multipart::IdRequest { id: *id, pad }),
            Self::MeterConfig(id) => Wired::MeterConfig(multipart::IdRequest { id: *id, pad }),
            Self::MeterFeatures => Wired::MeterFeatures(Empty),
            Self::TableFeatures(tables) => Wired::TableFeatures(*tables),
            Self::PortDesc => Wired::PortDesc(Empty),
            Self::Experimenter { experimenter, data } => {
                return write_experimenter(*experimenter, data, 0, to);
            }
        };
        v1_3::MultipartRequest { flags: 0, pad, body }.write(to);
        Ok(())
    }

    /// Decodes a whole multipart request of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one such request, if the specification does not
    /// define its type, or if it is one of several parts.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::MultipartRequest)?;
        let (flags, request) = match version {
            Version::V1_0 => {
                let wire = v1_0::StatsRequest::read(&mut body, "stats_request")?;
                (wire.flags, Self::from_v1_0(&wire)?)
            }
            Version::V1_3 => {
                let wire = v1_3::MultipartRequest::read(&mut body, "multipart_request")?;
                (wire.flags, Self::from_v1_3(&wire)?)
            }
        };
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

    pub(crate) fn from_v1_3(wire: &v1_3::MultipartRequest<'a>) -> Result<Self, DecodeError> {
        use v1_3::RequestBody as Wired;
        Ok(match wire.body {
            Wired::Desc(_) => Self::Desc,
            Wired::Flow(request) => Self::Flow(FlowStatsRequest::from_v1_3(&request)?),
            Wired::Aggregate(request) => Self::Aggregate(FlowStatsRequest::from_v1_3(&request)?),
            Wired::Table(_) => Self::Table,
            Wired::PortStats(request) => Self::PortStats(request.port_no),
            Wired::Queue(request) => Self::Queue {
                port_no: request.port_no,
                queue_id: (request.queue_id != ALL_QUEUES).then_some(request.queue_id),
            },
            Wired::Group(request) => Self::Group(request.id),
            Wired::GroupDesc(_) => Self::GroupDesc,
            Wired::GroupFeatures(_) => Self::GroupFeatures,
            Wired::Meter(request) => Self::Meter(request.id),
            Wired::MeterConfig(request) => Self::MeterConfig(request.id),
            Wired::MeterFeatures(_) => Self::MeterFeatures,
            Wired::TableFeatures(tables) => Self::TableFeatures(tables),
            Wired::PortDesc(_) => Self::PortDesc,
            Wired::Experimenter(found) => {
                Self::Experimenter { experimenter: found.experimenter, data: found.body }
            }
            Wired::Unknown { kind, .. } => return Err(unknown(kind)),
        })
    }
}

/// Returns the error for a type that the specification does not define.
pub(super) fn unknown(kind: u16) -> DecodeError {
    DecodeError::BadValue {
        field: "multipart.type",
        offset: Header::SIZE,
        found: kind.into(),
        expected: "a type that the specification defines",
    }
}

/// Writes an experimenter's request or reply for OpenFlow 1.3.
pub(super) fn write_experimenter(
    experimenter: u32,
    data: &[u8],
    flags: u16,
    to: &mut Writer<'_>,
) -> Result<(), EncodeError> {
    if data.len() < 4 {
        return Err(EncodeError::Unsupported {
            field: "an experimenter's multipart message without a type",
            version: Version::V1_3,
        });
    }
    to.u16(0xffff);
    to.u16(flags);
    to.zeros(4);
    to.u32(experimenter);
    to.bytes(data);
    Ok(())
}
