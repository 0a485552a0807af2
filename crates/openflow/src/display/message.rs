//! Formats a whole message: name, version, xid and content.

use super::{Hex, list};
use crate::instruction::{Lists, OfVersion};
use crate::message::in_its_version;
use crate::v1_3::message;
use crate::wire::{List, WireFormat};
use crate::{
    AsyncConfig, BundleAdd, BundleControl, ControllerStatus, DecodeError, ErrorMessage, Features,
    FlowMod, FlowRemoved, GroupMod, Hello, Message, MeterMod, MultipartReply, MultipartRequest,
    PacketIn, PacketOut, PortMod, PortStatus, QueueConfig, RequestForward, Role, RoleStatus,
    SwitchConfig, TableMod, TableStatus, Version, v1_0, v1_3,
};
use core::fmt;

/// `OFPT_FLOW_MOD (OF1.3) (xid=0x7): ADD priority=100,in_port=1 actions=output:2`
impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        in_its_version!(self, message => message.fmt(f))
    }
}

/// Formats like [`Message`].
impl fmt::Display for v1_0::Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            v1_0::Body::StatsRequest(wire) => {
                let name = multipart_name(Version::V1_0, wire.body.kind());
                write!(f, "{name} request (OF1.0) (xid={:#x}):", self.xid)?;
            }
            v1_0::Body::StatsReply(wire) => {
                let name = multipart_name(Version::V1_0, wire.body.kind());
                write!(f, "{name} reply (OF1.0) (xid={:#x}):", self.xid)?;
            }
            body => title(f, Version::V1_0, body.kind(), self.xid)?,
        }
        self.body.fmt(f)
    }
}

/// Formats like [`Message`].
impl<const V: u8> fmt::Display for message::Message<'_, V>
where
    Lists: OfVersion<V>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = Version::of::<V>();
        match &self.body {
            message::Body::MultipartRequest(wire) => {
                let name = multipart_name(version, wire.body.kind());
                write!(f, "{name} request (OF{version}) (xid={:#x}):", self.xid)?;
            }
            message::Body::MultipartReply(wire) => {
                let name = multipart_name(version, wire.body.kind());
                write!(f, "{name} reply (OF{version}) (xid={:#x}):", self.xid)?;
            }
            body => title(f, version, body.kind(), self.xid)?,
        }
        self.body.fmt(f)
    }
}

/// `OFPT_FLOW_MOD (OF1.3) (xid=0x7):`
fn title(f: &mut fmt::Formatter<'_>, version: Version, kind: u8, xid: u32) -> fmt::Result {
    match crate::Kind::from_wire(version, kind) {
        Ok(crate::Kind::Experimenter) if version == Version::V1_0 => f.write_str("OFPT_VENDOR")?,
        Ok(kind) => write!(f, "OFPT_{}", kind.name().to_ascii_uppercase())?,
        Err(_) => write!(f, "OFPT_{kind}")?,
    }
    write!(f, " (OF{version}) (xid={xid:#x}):")
}

/// Returns the name of a multipart or statistics type. OpenFlow 1.5 gives one of them another meaning.
fn multipart_name(version: Version, kind: u16) -> String {
    const NAMES: [&str; 20] = [
        "DESC",
        "FLOW",
        "AGGREGATE",
        "TABLE",
        "PORT",
        "QUEUE",
        "GROUP",
        "GROUP_DESC",
        "GROUP_FEATURES",
        "METER",
        "METER_CONFIG",
        "METER_FEATURES",
        "TABLE_FEATURES",
        "PORT_DESC",
        "TABLE_DESC",
        "QUEUE_DESC",
        "FLOW_MONITOR",
        "FLOW_STATS",
        "CONTROLLER_STATUS",
        "BUNDLE_FEATURES",
    ];
    match (NAMES.get(usize::from(kind)), kind) {
        (_, 1) if version == Version::V1_5 => "OFPST_FLOW_DESC".to_owned(),
        (Some(name), _) => format!("OFPST_{name}"),
        (None, 0xffff) => "OFPST_EXPERIMENTER".to_owned(),
        (None, kind) => format!("OFPST_{kind}"),
    }
}

/// Prints a space and the interpreted value, or the raw structure if it has no valid
/// interpretation.
fn said<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    made: Result<T, DecodeError>,
    wire: &impl fmt::Debug,
) -> fmt::Result {
    match made {
        Ok(made) => {
            let text = made.to_string();
            if text.is_empty() { Ok(()) } else { write!(f, " {text}") }
        }
        Err(error) => write!(f, " ({error}) {wire:?}"),
    }
}

fn error(
    f: &mut fmt::Formatter<'_>,
    version: Version,
    (kind, code, data): (u16, u16, &[u8]),
) -> fmt::Result {
    write!(f, " {}", ErrorMessage { version, kind, code, data })?;
    if kind == ErrorMessage::HELLO_FAILED {
        return write!(f, " \"{}\"", data.escape_ascii());
    }
    if data.is_empty() { Ok(()) } else { write!(f, " data: {}", Hex(data)) }
}

/// Formats a hello without elements, and its data.
fn hello(f: &mut fmt::Formatter<'_>, version: u8, data: &[u8]) -> fmt::Result {
    write!(f, " {}", Hello { version, bitmap: None })?;
    if data.is_empty() { Ok(()) } else { write!(f, " data: {}", Hex(data)) }
}

fn echo(f: &mut fmt::Formatter<'_>, data: &[u8]) -> fmt::Result {
    write!(f, " {} bytes of payload", data.len())?;
    if data.is_empty() { Ok(()) } else { write!(f, ": {}", Hex(data)) }
}

fn config(f: &mut fmt::Formatter<'_>, flags: u16, miss_send_len: u16) -> fmt::Result {
    write!(f, " {}", SwitchConfig { flags, miss_send_len })
}

/// Formats ` version bitmap: 0x01, 0x04`, also for several words; an unknown element as type and
/// bytes.
fn hello_element(
    f: &mut fmt::Formatter<'_>,
    element: &v1_3::symmetric::HelloElement<'_>,
) -> fmt::Result {
    use v1_3::symmetric::HelloElement;
    match element {
        HelloElement::VersionBitmap(words) => {
            let bits = words.iter().zip(0_u32..).flat_map(|(word, at)| {
                let set = (0..u32::BITS).filter(move |bit| word & 1 << bit != 0);
                set.map(move |bit| format!("{:#04x}", at * u32::BITS + bit))
            });
            f.write_str(" version bitmap: ")?;
            list(f, bits, ", ")
        }
        HelloElement::Unknown { kind, body } => write!(f, " unknown({kind}:{})", Hex(body)),
    }
}

/// Formats the queue properties that the queue's own line omits: those of types other than `known`,
/// and repeated properties of a known type.
fn other_properties<'a, T: WireFormat<'a>>(
    f: &mut fmt::Formatter<'_>,
    properties: List<'a, T>,
    known: [u16; 2],
) -> fmt::Result {
    const HEAD_SIZE: usize = 4;
    let mut shown = known.map(Some);
    let mut rest = properties.received().unwrap_or_default();
    while let Some(&[a, b, c, d]) = rest.first_chunk() {
        let (kind, size) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (property, behind) = rest.split_at(usize::from(size).clamp(HEAD_SIZE, rest.len()));
        rest = behind;
        if let Some(first) = shown.iter_mut().find(|shown| **shown == Some(kind)) {
            *first = None;
            continue;
        }
        write!(f, " property({kind}:{})", Hex(property.get(HEAD_SIZE..).unwrap_or_default()))?;
    }
    Ok(())
}

/// Formats the content after a space; nothing for an empty body.
impl fmt::Display for v1_0::Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello(data) => hello(f, 1, data),
            Self::Error(wire) => error(f, Version::V1_0, (wire.kind, wire.code, wire.data)),
            Self::EchoRequest(data) | Self::EchoReply(data) => echo(f, data),
            Self::Vendor(wire) => write!(f, " vendor={:#x} {}", wire.vendor, Hex(wire.data)),
            Self::FeaturesRequest(_)
            | Self::GetConfigRequest(_)
            | Self::BarrierRequest(_)
            | Self::BarrierReply(_) => Ok(()),
            Self::FeaturesReply(wire) => write!(f, " {}", Features::from_v1_0(wire)),
            Self::GetConfigReply(wire) | Self::SetConfig(wire) => {
                config(f, wire.flags, wire.miss_send_len)
            }
            Self::PacketIn(wire) => write!(f, " {}", PacketIn::from_v1_0(wire)),
            Self::FlowRemoved(wire) => write!(f, " {}", FlowRemoved::from_v1_0(wire)),
            Self::PortStatus(wire) => said(f, PortStatus::from_v1_0(wire), wire),
            Self::PacketOut(wire) => write!(f, " {}", PacketOut::from_v1_0(wire)),
            Self::FlowMod(wire) => said(f, FlowMod::from_v1_0(wire), wire),
            Self::PortMod(wire) => write!(f, " {}", PortMod::from_v1_0(wire)),
            Self::StatsRequest(wire) => said(f, MultipartRequest::from_v1_0(wire), wire),
            Self::StatsReply(wire) => said(f, MultipartReply::from_v1_0(wire), wire),
            Self::QueueGetConfigRequest(wire) => {
                write!(f, " port={}", v1_0::port_from_wire(wire.port))
            }
            Self::QueueGetConfigReply(wire) => {
                let config = QueueConfig::from_v1_0(wire);
                queue_config(f, &config, wire.queues, |queue| queue.properties, [0, 1])
            }
            Self::Unknown { body, .. } => write!(f, " {}", Hex(body)),
        }
    }
}

/// Formats a queue configuration; `known` are the types of properties that a queue's own line has.
fn queue_config<'a, Q: WireFormat<'a>, P: WireFormat<'a> + 'a>(
    f: &mut fmt::Formatter<'_>,
    config: &QueueConfig,
    queues: List<'a, Q>,
    properties: impl Fn(Q) -> List<'a, P>,
    known: [u16; 2],
) -> fmt::Result {
    write!(f, " port={}", config.port)?;
    for (queue, raw) in config.queues.iter().zip(queues) {
        write!(f, "; {queue}")?;
        other_properties(f, properties(raw), known)?;
    }
    Ok(())
}

/// Formats the content after a space; nothing for an empty body.
impl<const V: u8> fmt::Display for message::Body<'_, V>
where
    Lists: OfVersion<V>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HelloV1_1(data) => hello(f, V, data),
            Self::Hello(wire) => {
                if wire.elements.is_empty() {
                    write!(f, " {}", Hello { version: V, bitmap: None })?;
                }
                wire.elements.iter().try_for_each(|element| hello_element(f, &element.item))
            }
            Self::Error(wire) => error(f, Version::of::<V>(), (wire.kind, wire.code, wire.data)),
            Self::EchoRequest(data) | Self::EchoReply(data) => echo(f, data),
            Self::Experimenter(wire) => write!(
                f,
                " experimenter={:#x} type={} {}",
                wire.experimenter,
                wire.exp_type,
                Hex(wire.data)
            ),
            Self::FeaturesRequest(_)
            | Self::GetConfigRequest(_)
            | Self::BarrierRequest(_)
            | Self::BarrierReply(_)
            | Self::GetAsyncRequest(_) => Ok(()),
            Self::FeaturesReply(wire) => write!(f, " {}", Features::from_v1_3(wire)),
            Self::FeaturesReplyV1_1(wire) => write!(f, " {}", Features::from_v1_1(wire)),
            Self::GetConfigReply(wire) | Self::SetConfig(wire) => {
                config(f, wire.flags, wire.miss_send_len)
            }
            Self::PacketIn(wire) => write!(f, " {}", PacketIn::from_v1_3(wire)),
            Self::PacketInV1_1(wire) => write!(f, " {}", PacketIn::from_v1_1(wire)),
            Self::PacketInV1_2(wire) => write!(f, " {}", PacketIn::from_v1_2(wire)),
            Self::FlowRemoved(wire) => said(f, FlowRemoved::from_v1_3(wire), wire),
            Self::FlowRemovedV1_1(wire) => write!(f, " {}", FlowRemoved::from_v1_1(wire)),
            Self::FlowRemovedV1_5(wire) => said(f, FlowRemoved::from_v1_5(wire), wire),
            Self::PortStatus(wire) => said(f, PortStatus::from_v1_3(wire), wire),
            Self::PortStatusV1_4(wire) => said(f, PortStatus::from_v1_4(wire), wire),
            Self::PacketOut(wire) => write!(f, " {}", PacketOut::from_v1_3(wire)),
            Self::PacketOutV1_5(wire) => write!(f, " {}", PacketOut::from_v1_5(wire)),
            Self::FlowMod(wire) => said(f, FlowMod::from_v1_3(wire), wire),
            Self::FlowModV1_1(wire) => said(f, FlowMod::from_v1_1(wire), wire),
            Self::FlowModV1_4(wire) => said(f, FlowMod::from_v1_4(wire), wire),
            Self::GroupMod(wire) => said(f, GroupMod::from_v1_3(wire), wire),
            Self::GroupModV1_5(wire) => said(f, GroupMod::from_v1_5(wire), wire),
            Self::PortMod(wire) => write!(f, " {}", PortMod::from_v1_3(wire)),
            Self::PortModV1_4(wire) => write!(f, " {}", PortMod::from_v1_4(wire)),
            Self::TableMod(wire) => write!(f, " {}", TableMod::new(wire.table_id, wire.config)),
            Self::TableModV1_4(wire) => write!(f, " {}", TableMod::from_v1_4(wire)),
            Self::MultipartRequest(wire) => said(f, MultipartRequest::from_since_1_1(wire), wire),
            Self::MultipartReply(wire) => said(f, MultipartReply::from_since_1_1(wire), wire),
            Self::QueueGetConfigRequest(wire) => write!(f, " port={}", wire.port),
            Self::QueueGetConfigReply(wire) => {
                let config = QueueConfig::from_v1_3(wire);
                queue_config(f, &config, wire.queues, |queue| queue.properties, [1, 2])
            }
            Self::QueueGetConfigReplyV1_1(wire) => {
                let config = QueueConfig::from_v1_1(wire);
                queue_config(f, &config, wire.queues, |queue| queue.properties, [0, 1])
            }
            Self::RoleRequest(wire) | Self::RoleReply(wire) => said(f, Role::from_v1_3(wire), wire),
            Self::RoleRequestV1_5(wire) | Self::RoleReplyV1_5(wire) => {
                said(f, Role::from_v1_5(wire), wire)
            }
            Self::GetAsyncReply(wire) | Self::SetAsync(wire) => {
                write!(f, " {}", AsyncConfig::from_v1_3(wire))
            }
            Self::GetAsyncReplyV1_4(wire) | Self::SetAsyncV1_4(wire) => {
                write!(f, " {}", AsyncConfig::from_v1_4(wire))
            }
            Self::MeterMod(wire) => said(f, MeterMod::from_v1_3(wire), wire),
            Self::RoleStatus(wire) => said(f, RoleStatus::from_v1_4(wire), wire),
            Self::TableStatus(wire) => said(f, TableStatus::from_v1_4(wire), wire),
            Self::RequestForward(wire) => {
                write!(f, " {}", RequestForward { request: wire.request })
            }
            Self::BundleControl(wire) => said(f, BundleControl::from_v1_4(wire), wire),
            Self::BundleAdd(wire) => write!(f, " {}", BundleAdd::from_v1_4(wire)),
            Self::ControllerStatus(wire) => said(f, ControllerStatus::from_v1_5(wire), wire),
            Self::Unknown { body, .. } => write!(f, " {}", Hex(body)),
        }
    }
}
