//! Bundles: messages that a switch applies together. OpenFlow 1.4.1 §7.3.9, 1.5.1 §7.3.9.
//!
//! Layout of the body of a message that adds another message, with offsets in bytes:
//!
//! ```text
//!  0           4     6       8
//! +-----------+-----+-------+-------------+-------------------+------------+
//! | bundle id | pad | flags | message ... | pad to a multiple | properties |
//! +-----------+-----+-------+-------------+-------------------+------------+
//! ```
//!
//! Padding and properties are present only if there are properties.

use super::forward::read_message;
use super::property::{Experimenter, Properties};
use crate::tlv::tlv_enum;
use crate::v1_5::bundle::ScheduledTime;
use crate::wire::{Align8, Pad, Padded, WireFormat, wire_struct};
use crate::{DecodeError, Reader, Writer};

tlv_enum! {
    /// A property of a bundle (`ofp_bundle_prop_header`).
    pub enum BundleProperty<'a, V> = "bundle_prop", align 1 {
        /// Time at which the switch applies the bundle.
        Time(ScheduledTime) = 1 in 6..=6,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

wire_struct! {
    /// The body of a message that controls a bundle (`ofp_bundle_ctrl_msg`).
    pub struct BundleControl<'a, V> = "bundle_ctrl" {
        /// Id of the bundle.
        bundle_id: u32,
        /// `ofp_bundle_ctrl_type`.
        kind: u16,
        /// `ofp_bundle_flags`.
        flags: u16,
        /// Its properties.
        properties: Properties<'a, BundleProperty<'a, V>>,
    }
}

/// The body of a message that adds another one to a bundle (`ofp_bundle_add_msg`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BundleAdd<'a, const V: u8> {
    /// Id of the bundle.
    pub bundle_id: u32,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Pad<2>,
    /// `ofp_bundle_flags`.
    pub flags: u16,
    /// The added message with its header.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub message: &'a [u8],
    /// Padding after the message, if there are properties.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad2: Align8,
    /// Its properties.
    pub properties: Properties<'a, BundleProperty<'a, V>>,
}

impl<'a, const V: u8> WireFormat<'a> for BundleAdd<'a, V> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let bundle_id = from.u32("bundle_add.bundle_id")?;
        let pad = Pad::read(from, "bundle_add.pad")?;
        let flags = from.u16("bundle_add.flags")?;
        let message = read_message(from, "bundle_add.message.length")?;
        let mut read = Self {
            bundle_id,
            pad,
            flags,
            message,
            pad2: Align8::default(),
            properties: Properties::default(),
        };
        if !from.is_empty() {
            read.pad2 = Align8::read(from, "bundle_add.pad2", message.len())?;
            // Padding without a property would be lost in encoding.
            let mut first = *from;
            Padded::<BundleProperty<'_, V>>::read(&mut first, "bundle_add.properties")?;
            read.properties = Properties::read(from, "bundle_add.properties")?;
        }
        Ok(read)
    }
    fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.bundle_id);
        self.pad.write(to);
        to.u16(self.flags);
        to.bytes(self.message);
        if !self.properties.is_empty() {
            self.pad2.write(to, self.message.len());
            self.properties.write(to);
        }
    }
}

#[cfg(feature = "serde")]
crate::json::as_field_of_versions!(BundleAdd);
