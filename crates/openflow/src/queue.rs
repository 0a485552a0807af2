//! The version-independent queue configuration: rates of a port's queues.
//!
//! OpenFlow 1.3.5 §7.2.2, §7.3.6; OpenFlow 1.0.2 §5.2.2, §5.3.4; OpenFlow 1.1.0 §A.2.2, §A.3.6; OpenFlow 1.4.1 §7.3.5.10.

use crate::header::{begin, open};
use crate::v1_4::queue::{self, QueueDescProperty};
use crate::wire::{List, Pad, WireFormat};
use crate::{DecodeError, EncodeError, Kind, PortNo, Version, Writer, v1_0, v1_1, v1_3};

/// A queue of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Queue {
    /// Number of the queue at its port.
    pub queue_id: u32,
    /// Its port.
    pub port: PortNo,
    /// Minimum rate in tenths of a percent; a value above 1000 disables it.
    pub min_rate: Option<u16>,
    /// Maximum rate in tenths of a percent. From OpenFlow 1.2 on.
    pub max_rate: Option<u16>,
}

impl Queue {
    /// Experimenters' properties are out; [`v1_4::queue::QueueDesc`] has them.
    pub(crate) fn from_v1_4(wire: &queue::QueueDesc<'_>) -> Self {
        let mut queue =
            Self { queue_id: wire.queue_id, port: wire.port_no, min_rate: None, max_rate: None };
        for property in wire.properties {
            match property.item {
                QueueDescProperty::MinRate(it) => queue.min_rate = Some(it.rate),
                QueueDescProperty::MaxRate(it) => queue.max_rate = Some(it.rate),
                _ => {}
            }
        }
        queue
    }

    /// Writes the queue as an item of a multipart reply (`ofp_queue_desc`, OpenFlow 1.4.1 §7.3.5.10).
    pub(crate) fn write_v1_4(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u32(self.port.0);
        to.u32(self.queue_id);
        let length_at = to.position();
        to.zeros(8); // length, and the padding
        let rate = |rate| queue::Rate { rate, pad: Pad::default() };
        if let Some(min_rate) = self.min_rate {
            QueueDescProperty::MinRate(rate(min_rate)).write(to);
        }
        if let Some(max_rate) = self.max_rate {
            QueueDescProperty::MaxRate(rate(max_rate)).write(to);
        }
        to.patch_size(length_at, start);
    }
}

/// Configuration of a port's queues. Experimenters' properties are
/// out; [`v1_3::QueueGetConfigReply`] has them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct QueueConfig {
    /// Port number; [`PortNo::ANY`] if the request was for all ports.
    pub port: PortNo,
    /// Its queues.
    pub queues: Vec<Queue>,
}

impl QueueConfig {
    /// Encodes a request for the queues of a port; returns its size. [`PortNo::ANY`] requests those
    /// of every port, except in OpenFlow 1.0.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version has no such port, and from OpenFlow 1.4 on, where a multipart message has the
    /// queues; [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode_request(
        port: PortNo,
        version: Version,
        xid: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        const FIELD: &str = "queue_get_config_request.port";
        let mut to = begin(Kind::QueueGetConfigRequest, version, xid, out)?;
        if version == Version::V1_0 {
            to.u16(v1_0::convert::port(port, FIELD)?);
            to.zeros(2);
        } else {
            to.u32(port.0);
            to.zeros(4);
        }
        to.finish()
    }

    /// Decodes a whole queue configuration request of any version: the port.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one queue configuration request.
    pub fn decode_request(message: &[u8]) -> Result<PortNo, DecodeError> {
        const FIELD: &str = "queue_get_config_request.port";
        let (version, _, mut body) = open(message, Kind::QueueGetConfigRequest)?;
        let (port, padding) = match version {
            Version::V1_0 => (v1_0::port_from_wire(body.u16(FIELD)?), 2),
            _ => (PortNo(body.u32(FIELD)?), 4),
        };
        body.take(FIELD, padding)?;
        body.finish("queue_get_config_request")?;
        Ok(port)
    }

    /// Decodes a whole queue configuration reply of any version.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one queue configuration reply.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::QueueGetConfigReply)?;
        let config = match version {
            Version::V1_0 => {
                Self::from_v1_0(&v1_0::QueueGetConfigReply::read(&mut body, "queue_config")?)
            }
            Version::V1_1 => {
                Self::from_v1_1(&v1_1::QueueGetConfigReply::read(&mut body, "queue_config")?)
            }
            _ => Self::from_v1_3(&v1_3::QueueGetConfigReply::read(&mut body, "queue_config")?),
        };
        body.finish("queue_get_config_reply")?;
        Ok(config)
    }

    pub(crate) fn from_v1_0(wire: &v1_0::QueueGetConfigReply<'_>) -> Self {
        Self::of_port(v1_0::port_from_wire(wire.port), wire.queues)
    }

    pub(crate) fn from_v1_1(wire: &v1_1::QueueGetConfigReply<'_>) -> Self {
        Self::of_port(wire.port, wire.queues)
    }

    /// Converts the queues of OpenFlow 1.0 and 1.1.
    fn of_port<'a>(port: PortNo, queues: List<'a, v1_0::queue::PacketQueue<'a>>) -> Self {
        let queue = |queue: v1_0::queue::PacketQueue<'_>| Queue {
            queue_id: queue.queue_id,
            port,
            min_rate: queue.properties.iter().find_map(|property| match property {
                v1_0::queue::QueueProperty::MinRate(rate) => Some(rate.rate),
                _ => None,
            }),
            max_rate: None,
        };
        Self { port, queues: queues.iter().map(queue).collect() }
    }

    pub(crate) fn from_v1_3(wire: &v1_3::QueueGetConfigReply<'_>) -> Self {
        let queue = |queue: v1_3::queue::PacketQueue<'_>| Queue {
            queue_id: queue.queue_id,
            port: queue.port,
            min_rate: queue.properties.iter().find_map(|property| match property {
                v1_3::queue::QueueProperty::MinRate(rate) => Some(rate.rate),
                _ => None,
            }),
            max_rate: queue.properties.iter().find_map(|property| match property {
                v1_3::queue::QueueProperty::MaxRate(rate) => Some(rate.rate),
                _ => None,
            }),
        };
        Self { port: wire.port, queues: wire.queues.iter().map(queue).collect() }
    }

    /// Encodes the reply for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] for a maximum rate, or queues of several ports, in OpenFlow
    /// 1.0 and 1.1, and from OpenFlow 1.4 on, where a multipart message has the queues; [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message
    /// can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version });
        let mut to = begin(Kind::QueueGetConfigReply, version, xid, out)?;
        let (pad, pad2) = (Pad::default(), Pad::default());
        match version {
            Version::V1_0 | Version::V1_1 => {
                if version == Version::V1_0 {
                    to.u16(v1_0::convert::port(self.port, "queue_get_config_reply.port")?);
                    to.zeros(6);
                } else {
                    to.u32(self.port.0);
                    to.zeros(4);
                }
                for queue in &self.queues {
                    if queue.max_rate.is_some() {
                        return unsupported("queue max_rate");
                    }
                    if queue.port != self.port {
                        return unsupported("queues of several ports");
                    }
                    let min_rate = queue.min_rate.map(|rate| {
                        let rate = v1_0::queue::Rate { pad, rate, pad2 };
                        v1_0::queue::QueueProperty::MinRate(rate)
                    });
                    v1_0::queue::PacketQueue {
                        queue_id: queue.queue_id,
                        pad: Pad::default(),
                        properties: min_rate.as_slice().into(),
                    }
                    .write(&mut to);
                }
            }
            _ => {
                to.u32(self.port.0);
                to.zeros(4);
                for queue in &self.queues {
                    let rate = |rate| v1_3::queue::Rate { pad, rate, pad2 };
                    let min = queue.min_rate.map(rate).map(v1_3::queue::QueueProperty::MinRate);
                    let max = queue.max_rate.map(rate).map(v1_3::queue::QueueProperty::MaxRate);
                    let properties: Vec<_> = min.into_iter().chain(max).collect();
                    v1_3::queue::PacketQueue {
                        queue_id: queue.queue_id,
                        port: queue.port,
                        pad: Pad::default(),
                        properties: (&properties).into(),
                    }
                    .write(&mut to);
                }
            }
        }
        to.finish()
    }
}
