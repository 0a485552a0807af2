//! Properties that hold for arbitrary bytes. Shared by the tests and, by path, by the fuzz targets.

use rosemary_openflow::{
    AsyncConfig, BundleAdd, BundleControl, ControllerStatus, DecodeError, Echo, EncodeError,
    ErrorMessage, Experimenter, Features, Field, FlowMod, FlowModView, FlowRemoved, GroupMod,
    Header, Hello, Kind, Message, MeterMod, MultipartReply, MultipartRequest, PacketIn, PacketOut,
    PortMod, PortStatus, QueueConfig, RequestForward, Role, RoleStatus, SwitchConfig, TableMod,
    TableStatus, Version, append,
};

/// Decodes a message with its version's types and checks that it encodes to the same bytes.
///
/// # Errors
/// The error of decoding.
///
/// # Panics
/// If the bytes differ.
pub fn raw_comes_back(bytes: &[u8]) -> Result<(), DecodeError> {
    let message = Message::decode(bytes)?;
    let out = encoded(bytes.len(), |room| message.encode(room)).expect("what was decoded has room");
    assert_eq!(out, bytes, "{message:?}");
    assert_eq!(Message::decode(&out).as_ref(), Ok(&message));
    assert!(!message.to_string().contains('\n'), "{message}");
    Ok(())
}

/// Decodes a message with its version-independent type, encodes the result, and checks that
/// decoding it again gives the same value.
///
/// # Errors
/// The error of decoding. It rejects messages that are valid on the wire but whose content has no
/// defined meaning, and accepts none that is invalid on the wire.
///
/// # Panics
/// If the values differ, or a decoded value cannot be encoded.
pub fn meaning_comes_back(bytes: &[u8]) -> Result<(), DecodeError> {
    let header = Header::decode(bytes)?;
    let version = Version::from_wire(header.version)?;
    let kind = Kind::from_wire(version, header.kind)?;
    let understood = by_kind(version, kind, bytes);
    if understood.is_ok() && kind != Kind::Hello {
        assert!(Message::decode(bytes).is_ok(), "only the version-independent type accepts it");
    }
    understood
}

/// Returns the bytes that `encode` writes; `size` is the expected number.
///
/// The buffer is made at once. A vector that grows, as in [`append`], is filled byte by byte in a debug build.
fn encoded(
    size: usize,
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = vec![0; size];
    match encode(&mut out) {
        Ok(size) => out.truncate(size),
        Err(EncodeError::NoRoom { .. }) => {
            out.clear();
            append(&mut out, encode)?;
        }
        Err(error) => return Err(error),
    }
    Ok(out)
}

macro_rules! again {
    ($bytes:expr, $decode:expr, |$value:ident, $room:ident| $encode:expr) => {{
        let $value = $decode($bytes)?;
        match encoded($bytes.len(), |$room| $encode) {
            Ok(out) => assert_eq!($decode(&out).as_ref(), Ok(&$value)),
            // Encoding may add omitted padding, so a message of maximum size may exceed the limit.
            Err(EncodeError::TooLong { .. }) => assert!($bytes.len() > 0xff00),
            Err(error) => panic!("{error}: {:?}", $value),
        }
        Ok(())
    }};
}

fn by_kind(version: Version, kind: Kind, bytes: &[u8]) -> Result<(), DecodeError> {
    let xid = 7;
    match kind {
        Kind::Hello => again!(bytes, Hello::decode, |value, out| value.encode(xid, out)),
        Kind::Error => again!(bytes, ErrorMessage::decode, |value, out| value.encode(xid, out)),
        Kind::EchoRequest | Kind::EchoReply => {
            again!(bytes, Echo::decode, |value, out| value.encode(version, out))
        }
        Kind::Experimenter => {
            again!(bytes, Experimenter::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::FeaturesReply => {
            again!(bytes, Features::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::GetConfigReply => {
            again!(bytes, SwitchConfig::decode, |value, out| value.encode_reply(version, xid, out))
        }
        Kind::SetConfig => {
            again!(bytes, SwitchConfig::decode_set, |value, out| value
                .encode_set(version, xid, out))
        }
        Kind::PacketIn => {
            // Encoding adds an in-port if there is none.
            let found = PacketIn::decode(bytes)?;
            if let Ok(out) = encoded(bytes.len(), |out| found.encode(version, xid, out)) {
                let again = PacketIn::decode(&out)?;
                assert_eq!((again.in_port, again.data), (found.in_port, found.data));
            }
            Ok(())
        }
        Kind::FlowRemoved => {
            again!(bytes, FlowRemoved::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::PortStatus => {
            again!(bytes, PortStatus::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::PacketOut => {
            again!(bytes, PacketOut::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::FlowMod => {
            viewed_as_decoded(bytes);
            again!(bytes, FlowMod::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::GroupMod => {
            again!(bytes, GroupMod::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::PortMod => {
            again!(bytes, PortMod::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::TableMod => {
            again!(bytes, TableMod::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::MultipartRequest => {
            again!(bytes, MultipartRequest::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::MultipartReply => {
            again!(bytes, MultipartReply::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::QueueGetConfigReply => {
            again!(bytes, QueueConfig::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::RoleRequest => {
            again!(bytes, Role::decode_request, |value, out| value
                .encode_request(version, xid, out))
        }
        Kind::RoleReply => {
            again!(bytes, Role::decode_reply, |value, out| value.encode_reply(version, xid, out))
        }
        Kind::GetAsyncReply => {
            again!(bytes, AsyncConfig::decode_reply, |v, out| v.encode_reply(version, xid, out))
        }
        Kind::SetAsync => {
            again!(bytes, AsyncConfig::decode_set, |value, out| value.encode_set(version, xid, out))
        }
        Kind::MeterMod => {
            again!(bytes, MeterMod::decode, |value, out| value.encode(version, xid, out))
        }
        _ => since_1_4(version, kind, bytes),
    }
}

/// Checks the kinds that OpenFlow 1.4 or 1.5 introduces.
fn since_1_4(version: Version, kind: Kind, bytes: &[u8]) -> Result<(), DecodeError> {
    let xid = 7;
    match kind {
        Kind::RoleStatus => {
            again!(bytes, RoleStatus::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::TableStatus => {
            again!(bytes, TableStatus::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::RequestForward => {
            again!(bytes, RequestForward::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::BundleControl => {
            again!(bytes, BundleControl::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::BundleAdd => {
            again!(bytes, BundleAdd::decode, |value, out| value.encode(version, xid, out))
        }
        Kind::ControllerStatus => {
            again!(bytes, ControllerStatus::decode, |value, out| value.encode(version, xid, out))
        }
        // The message has no body, or only the version's own types can represent it.
        _ => Message::decode(bytes).map(drop),
    }
}

/// Checks that the view accepts the same bytes and has the same values.
fn viewed_as_decoded(bytes: &[u8]) {
    let decoded = FlowMod::decode(bytes).map(|decoded| FlowModView {
        command: decoded.command,
        cookie: decoded.cookie,
        cookie_mask: decoded.cookie_mask,
        priority: decoded.priority,
        buffer_id: decoded.buffer_id,
        flags: decoded.flags,
        eth_type: decoded.match_.fields().find_map(|field| match field {
            Field::EthType(eth_type) => Some(eth_type),
            _ => None,
        }),
        has_opaque_field: decoded.match_.fields().any(|field| matches!(field, Field::Opaque(_))),
        instructions: decoded.instructions,
    });
    assert_eq!(FlowModView::decode(bytes).ok(), decoded.ok());
}
