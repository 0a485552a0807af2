//! The match. OpenFlow 1.3.5 §7.2.3.1.
//!
//! ```text
//!  0      2        4
//! +------+--------+-----------------+---------------------+
//! | type | length | OXM fields      | pad to a multiple   |
//! |  1   |        |                 | of 8, not in length |
//! +------+--------+-----------------+---------------------+
//! ```

use crate::oxm::Oxm;
use crate::wire::{Align8, List, WireFormat};
use crate::write::put;
use crate::{DecodeError, Reader, Writer};

/// `OFPMT_OXM`, the only match type in use.
const OXM: u16 = 1;
/// Size of type and length, which the length includes.
const HEAD_SIZE: usize = 4;

/// A match (`ofp_match`): its fields in wire order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Match<'a> {
    /// The fields.
    pub fields: List<'a, Oxm<'a>>,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Align8,
}

impl<'a> Match<'a> {
    /// The match with these fields, whose lengths are right.
    pub(crate) fn of(fields: &'a [u8]) -> Self {
        Self { fields: List::checked(fields), ..Self::default() }
    }
}

impl<'a> WireFormat<'a> for Match<'a> {
    #[inline]
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let (mut fields, pad) = read_parts(from)?;
        Ok(Self { fields: List::read(&mut fields, "match.oxm_fields")?, pad })
    }

    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u16(OXM);
        to.u16(0);
        self.fields.write(to);
        to.patch_size(start + 2, start);
        self.pad.write(to, to.position() - start);
    }
}

/// Reads a match without validating its fields.
#[inline]
pub(crate) fn read_parts<'a>(from: &mut Reader<'a>) -> Result<(Reader<'a>, Align8), DecodeError> {
    let offset = from.offset();
    let kind = from.u16("match.type")?;
    if kind != OXM {
        return Err(DecodeError::BadValue {
            field: "match.type",
            offset,
            found: kind.into(),
            expected: "1 (OXM)",
        });
    }
    let offset = from.offset();
    let length = usize::from(from.u16("match.length")?);
    let bad = |expected| DecodeError::BadLength {
        field: "match.length",
        offset,
        found: length,
        expected,
    };
    let size = length.checked_sub(HEAD_SIZE).ok_or_else(|| bad("at least its own 4-byte head"))?;
    if size > from.left() {
        return Err(bad("no more than the bytes left around it"));
    }
    let fields = from.sub("match.oxm_fields", size)?;
    let pad = Align8::read(from, "match.pad", length)?;
    Ok((fields, pad))
}

/// Writes a match; `fields` writes its fields.
#[inline]
pub(crate) fn write_with(to: &mut Writer<'_>, fields: impl FnOnce(&mut Writer<'_>)) {
    let start = to.position();
    if let Some(room) = to.array::<HEAD_SIZE>() {
        put(room, 0, OXM.to_be_bytes());
        put(room, 2, [0; 2]);
    }
    fields(to);
    to.patch_size(start + 2, start);
    to.beginning_of(&[0; 8], (to.position() - start).wrapping_neg() % 8);
}
