//! Serialises types for tools that print JSON.
//!
//! Structures use their field names, and variants use `snake_case`. Values with a text form are
//! strings: addresses, match fields (`"ipv4_dst": "10.0.0.1"`), names. Bytes are hexadecimal
//! strings, and padding appears only if it is not zero. Deserialisation is not supported: the wire
//! format is the format for both directions.

use crate::matching::Field;
use crate::v1_3::action::SetField;
use crate::v1_3::packet::PacketOut;
use crate::wire::{Align8, Empty, List, Pad, Padded, WireFormat};
use crate::{Actions, Dpid, MacAddr, Match, OtherInstructions, PacketInMatch, PortNo, Text, v1_3};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// A field of a wire structure.
pub(crate) trait AsField {
    /// Serializes it.
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Whether it can be omitted: padding of zeros.
    fn says_nothing(&self) -> bool {
        false
    }
}

/// [`AsField::serialize_field`] with the signature of `serialize_with`.
pub(crate) fn field<T: AsField, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.serialize_field(serializer)
}

/// [`AsField::says_nothing`] with the signature of `skip_serializing_if`.
pub(crate) fn nothing<T: AsField>(value: &T) -> bool {
    value.says_nothing()
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex<T: AsRef<[u8]> + ?Sized, S: Serializer>(
    bytes: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    use core::fmt::Write;
    let mut text = String::new();
    for byte in bytes.as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    serializer.serialize_str(&text)
}

/// A value by its text.
pub(crate) fn display<T: core::fmt::Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Wraps a value that serialises like a field.
struct Item<T>(T);

impl<T: AsField> Serialize for Item<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_field(serializer)
    }
}

/// Implements [`AsField`] for types whose `Serialize` has the same form.
macro_rules! as_field {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::json::AsField for $type {
            fn serialize_field<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }
    )*};
}
pub(crate) use as_field;

/// Implements [`AsField`] like `as_field!`, for types with a lifetime and a version byte.
macro_rules! as_field_of_versions {
    ($($name:ident),* $(,)?) => {$(
        impl<const V: u8> $crate::json::AsField for $name<'_, V> {
            fn serialize_field<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }
    )*};
}
pub(crate) use as_field_of_versions;

as_field_of_versions!(PacketOut, SetField);

as_field!(
    u8,
    u16,
    u32,
    u64,
    MacAddr,
    std::net::Ipv4Addr,
    PortNo,
    v1_3::Match<'_>,
    crate::v1_0::PacketOut<'_>,
    v1_3::table::FeatureId<'_>,
    v1_3::table::OxmId,
    crate::oxm::Oxm<'_>,
    v1_3::multipart::Experimenter<'_>,
);

impl<const N: usize> AsField for [u32; N] {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl AsField for &[u8] {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex(self, serializer)
    }
}

impl<const N: usize> AsField for Pad<N> {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex(&self.0, serializer)
    }
    fn says_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl<const N: usize> Serialize for Pad<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize_field(serializer)
    }
}

impl Serialize for Align8 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize_field(serializer)
    }
}

impl AsField for Align8 {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex(self.as_bytes(), serializer)
    }
    fn says_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl<T: AsField> AsField for Padded<T> {
    /// Padding after an item is always omitted.
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.item.serialize_field(serializer)
    }
}

impl AsField for Empty {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl AsField for v1_3::multipart::DescBytes<'_> {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text().serialize(serializer)
    }
}

impl Serialize for crate::oxm::Oxm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Field::from_oxm(self).serialize(serializer)
    }
}

impl<const N: usize> AsField for Text<N> {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }
}

impl<'a, T: WireFormat<'a> + AsField> AsField for List<'a, T> {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Item))
    }
}

impl<'a, T: WireFormat<'a> + AsField> Serialize for List<'a, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize_field(serializer)
    }
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}
as_text!(crate::Version, Dpid, MacAddr);

impl<const N: usize> Serialize for Text<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A reserved port serialises as its name, any other port as its number.
impl Serialize for PortNo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.reserved_name() {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_u32(self.0),
        }
    }
}

/// Returns the value of a field without its name.
fn value(field: &Field) -> String {
    let text = field.to_string();
    match text.split_once('=') {
        Some((_, value)) => value.to_owned(),
        None => text,
    }
}

/// Returns the name of a field, including unknown fields.
fn name(field: &Field) -> String {
    let text = field.to_string();
    match text.split_once('=') {
        Some((name, _)) => name.to_owned(),
        None => text,
    }
}

/// `{"eth_type": "0x0800"}`
impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(&name(self), &value(self))?;
        map.end()
    }
}

/// `{"in_port": "1", "eth_type": "0x0800"}`
fn fields<S: Serializer>(
    fields: impl Iterator<Item = Field>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.map(|field| (name(&field), value(&field))))
}

impl Serialize for Match {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields(self.fields(), serializer)
    }
}

impl Serialize for PacketInMatch<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields(self.fields(), serializer)
    }
}

impl Serialize for Actions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Serialize for OtherInstructions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// `{"version": "1.3", "xid": 7, "body": {"barrier_request": null}}`
impl Serialize for crate::Message<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("version", &self.version())?;
        map.serialize_entry("xid", &self.xid())?;
        crate::message::in_its_version!(self, message => map.serialize_entry("body", &message.body)?);
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use crate::matching::OpaqueField;
    use crate::{Action, Field, FlowMod, Match, Message, PortNo, Version};

    #[test]
    fn message_serializes_with_field_names() {
        let actions = [Action::output(PortNo::CONTROLLER)];
        let flow_mod =
            FlowMod::add(Match::new().in_port(PortNo(1)).eth_type(0x800)).apply(&actions);
        let mut out = [0; 128];
        let size = flow_mod.encode(Version::V1_3, 7, &mut out).unwrap();
        let message = Message::decode(&out[..size]).unwrap();
        let json = serde_json::to_value(message).unwrap();
        assert_eq!(json["version"], "1.3");
        let body = &json["body"]["flow_mod"];
        assert_eq!(body["priority"], 0x8000);
        assert_eq!(body["match"]["fields"][1]["eth_type"], "0x0800");
        assert_eq!(body["pad"], serde_json::Value::Null);
        let apply = &body["instructions"][0]["apply_actions"];
        assert_eq!(apply["actions"][0]["output"]["port"], "CONTROLLER");

        let json = serde_json::to_value(&flow_mod).unwrap();
        assert_eq!(json["match"]["in_port"], "1");
        assert_eq!(json["instructions"]["apply"][0]["output"]["max_len"], 0xffff);
    }

    #[test]
    fn addresses_and_unknown_fields_serialize_as_text() {
        let actions = [Action::SetField(Field::Ipv4Dst(Ipv4Addr::new(10, 0, 0, 9).into()))];
        let match_ = Match::new().eth_type(0x800).ipv4_src(Ipv4Addr::new(10, 0, 0, 1));
        let flow_mod = FlowMod::add(match_).apply(&actions);
        let mut out = [0; 128];
        let size = flow_mod.encode(Version::V1_0, 7, &mut out).unwrap();
        let json = serde_json::to_value(Message::decode(&out[..size]).unwrap()).unwrap();
        let body = &json["body"]["flow_mod"];
        assert_eq!(body["match"]["nw_src"], "10.0.0.1");
        assert_eq!(body["match"]["dl_src"], "00:00:00:00:00:00");
        assert_eq!(body["actions"][0]["set_nw_dst"], "10.0.0.9");

        let payload = [0, 0x12, 0, 0xff].into();
        let opaque = OpaqueField { class: 0x8000, field: 50, has_mask: true, payload };
        let flow_mod = FlowMod::add(Match::new().with(&Field::Opaque(opaque)));
        let size = flow_mod.encode(Version::V1_3, 7, &mut out).unwrap();
        let json = serde_json::to_value(Message::decode(&out[..size]).unwrap()).unwrap();
        let field = &json["body"]["flow_mod"]["match"]["fields"][0];
        assert_eq!(field["oxm_0x8000_50"], "0012/00ff");
        assert_eq!(serde_json::to_value(&flow_mod).unwrap()["match"]["oxm_0x8000_50"], "0012/00ff");
    }

    #[test]
    fn bytes_serialize_as_hexadecimal() {
        let message = Message::decode(&[1, 2, 0, 10, 0, 0, 0, 7, 0xca, 0xfe]).unwrap();
        let json = serde_json::to_string(&message).unwrap();
        assert_eq!(json, r#"{"version":"1.0","xid":7,"body":{"echo_request":"cafe"}}"#);
    }
}
