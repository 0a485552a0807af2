//! The action that copies bits of a field. OpenFlow 1.5.1 §7.2.6.9.

use crate::v1_3::table::OxmId;
use crate::wire::{Align8, Pad, WireFormat};
use crate::{DecodeError, Reader, Writer};

/// Size of type and length, which come before and count for the padding.
const ACTION_HEAD_SIZE: usize = 4;

/// `ofp_action_copy_field`: two fields without values, and padding that `len` includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CopyField {
    /// Number of bits to copy.
    pub n_bits: u16,
    /// First bit in the source.
    pub src_offset: u16,
    /// First bit in the destination.
    pub dst_offset: u16,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Pad<2>,
    /// The source.
    pub src: OxmId,
    /// The destination.
    pub dst: OxmId,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad2: Align8,
}

impl<'a> WireFormat<'a> for CopyField {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let start = from.left();
        let n_bits = from.u16("action_copy_field.n_bits")?;
        let src_offset = from.u16("action_copy_field.src_offset")?;
        let dst_offset = from.u16("action_copy_field.dst_offset")?;
        let pad = Pad::read(from, "action_copy_field.pad")?;
        let src = OxmId::read(from, "action_copy_field.src")?;
        let dst = OxmId::read(from, "action_copy_field.dst")?;
        let size = ACTION_HEAD_SIZE + start - from.left();
        let pad2 = Align8::read(from, "action_copy_field.pad2", size)?;
        Ok(Self { n_bits, src_offset, dst_offset, pad, src, dst, pad2 })
    }
    fn write(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u16(self.n_bits);
        to.u16(self.src_offset);
        to.u16(self.dst_offset);
        self.pad.write(to);
        self.src.write(to);
        self.dst.write(to);
        self.pad2.write(to, ACTION_HEAD_SIZE + to.position() - start);
    }
}

#[cfg(feature = "serde")]
crate::json::as_field!(CopyField);
