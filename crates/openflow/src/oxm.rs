//! OXM, the extensible match: match fields as type, length and value.
//!
//! OpenFlow 1.3.5 §7.2.3.2. The format is the same in every version from 1.2 on, so it is outside
//! the version folders:
//!
//! ```text
//!  0       2             3        4
//! +-------+-------+-----+--------+-------+-------------------+
//! | class | field | has | length | value | mask, if has_mask |
//! |  16   |   7   |  1  |   8    |       | as long as value  |
//! +-------+-------+-----+--------+-------+-------------------+
//! ```
//!
//! In class `0xffff` a 4-byte experimenter id precedes the value and is included in `length`.

use crate::wire::WireFormat;
use crate::{DecodeError, Reader, Writer};

/// The class of the fields that the specification defines (`OFPXMC_OPENFLOW_BASIC`).
pub const OPENFLOW_BASIC: u16 = 0x8000;
/// The class of experimenters' fields (`OFPXMC_EXPERIMENTER`).
pub const EXPERIMENTER: u16 = 0xffff;
/// The size of an OXM's header, in bytes.
pub(crate) const HEADER_SIZE: usize = 4;

/// One match field as on the wire.
///
/// A field of the specification has its specified length; other fields are opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Oxm<'a> {
    /// Class: who defined the field ([`OPENFLOW_BASIC`], [`EXPERIMENTER`], or another).
    pub class: u16,
    /// The field's number in its class; 7 bits.
    pub field: u8,
    /// Whether the second half of the payload is a mask.
    pub has_mask: bool,
    /// The bytes counted by `length`: experimenter id (if any), value, mask; at most 255 bytes.
    pub payload: &'a [u8],
}

/// Returns the value size in bytes of a field of class [`OPENFLOW_BASIC`], if OpenFlow 1.3 defines
/// the field. OpenFlow 1.3.5 §7.2.3.7.
pub fn basic_size(field: u8) -> Option<usize> {
    Some(match field {
        0 | 1 | 11 | 12 | 22 | 23 | 28 | 34 => 4,
        2 | 38 => 8,
        3 | 4 | 24 | 25 | 32 | 33 => 6,
        5 | 6 | 13..=18 | 21 | 39 => 2,
        7..=10 | 19 | 20 | 29 | 30 | 35 | 36 => 1,
        26 | 27 | 31 => 16,
        37 => 3,
        _ => return None,
    })
}

impl<'a> Oxm<'a> {
    /// Returns value and mask, which have equal length; an experimenter's field without its id.
    ///
    /// An opaque field of odd length has no mask here.
    pub fn value_and_mask(&self) -> (&'a [u8], Option<&'a [u8]>) {
        let body = match self.class {
            EXPERIMENTER => self.payload.get(4..).unwrap_or_default(),
            _ => self.payload,
        };
        match body.split_at_checked(body.len() / 2) {
            Some((value, mask)) if self.has_mask && value.len() == mask.len() => {
                (value, Some(mask))
            }
            _ => (body, None),
        }
    }

    /// Reads an OXM whose length is already validated.
    #[inline]
    pub(crate) fn read_canonical(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let [a, b, field, length] = from.array("oxm")?;
        Ok(Self {
            class: u16::from_be_bytes([a, b]),
            field: field >> 1,
            has_mask: field & 1 != 0,
            payload: from.take("oxm.value", length.into())?,
        })
    }

    /// Returns class, field and length as bytes.
    #[inline]
    pub(crate) fn head(&self) -> [u8; HEADER_SIZE] {
        let [a, b] = self.class.to_be_bytes();
        let length = u8::try_from(self.payload.len()).unwrap_or(u8::MAX);
        [a, b, self.field << 1 | u8::from(self.has_mask), length]
    }

    /// Returns the payload, truncated to the 255 bytes that the length can express.
    #[inline]
    pub(crate) fn value(&self) -> &'a [u8] {
        self.payload.get(..255).unwrap_or(self.payload)
    }

    /// Returns the size on the wire, in bytes.
    pub(crate) fn size(&self) -> usize {
        HEADER_SIZE + self.payload.len()
    }
}

impl<'a> WireFormat<'a> for Oxm<'a> {
    /// A field of the specification without a mask.
    #[inline]
    fn valid_size(bytes: &[u8]) -> Option<usize> {
        let [a, b, field, length, rest @ ..] = bytes else { return None };
        let size = usize::from(*length);
        let is_plain = [*a, *b] == OPENFLOW_BASIC.to_be_bytes() && field & 1 == 0;
        let is_valid = is_plain && basic_size(field >> 1) == Some(size) && size <= rest.len();
        is_valid.then_some(HEADER_SIZE + size)
    }

    #[inline]
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let class = from.u16("oxm.class")?;
        let field_and_has_mask = from.u8("oxm.field")?;
        let (field, has_mask) = (field_and_has_mask >> 1, field_and_has_mask & 1 != 0);
        let offset = from.offset();
        let length = usize::from(from.u8("oxm.length")?);
        let bad = |expected| DecodeError::BadLength {
            field: "oxm.length",
            offset,
            found: length,
            expected,
        };
        if class == OPENFLOW_BASIC {
            if basic_size(field).is_some_and(|size| length != size << u8::from(has_mask)) {
                return Err(bad("the size of the field, twice with a mask"));
            }
        } else if class == EXPERIMENTER && length < 4 {
            return Err(bad("at least the experimenter id's 4 bytes"));
        }
        Ok(Self { class, field, has_mask, payload: from.take("oxm.value", length)? })
    }

    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(&self.head());
        to.bytes(self.value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Oxm<'_>, DecodeError> {
        Oxm::read(&mut Reader::new(bytes, 0), "oxm")
    }

    #[test]
    fn masked_field_splits_into_value_and_mask() {
        let bytes = [0x80, 0, 11 << 1 | 1, 8, 10, 0, 0, 0, 255, 0, 0, 0];
        let oxm = read(&bytes).unwrap();
        assert_eq!(oxm.value_and_mask(), (&[10, 0, 0, 0][..], Some(&[255, 0, 0, 0][..])));
        let mut out = [0; 12];
        oxm.write(&mut Writer::new(&mut out));
        assert_eq!(out, bytes);
    }

    #[test]
    fn known_field_of_another_length_is_bad_length() {
        for length in (0..=255u8).filter(|&length| length != 4) {
            let mut bytes = vec![0x80, 0, 0, length];
            bytes.resize(4 + 255, 0);
            assert!(matches!(read(&bytes), Err(DecodeError::BadLength { offset: 3, .. })));
        }
    }

    #[test]
    fn unknown_field_is_kept_unchanged() {
        for class in [0x0001_u16, 0x8000, 0xffff] {
            let [a, b] = class.to_be_bytes();
            let bytes = [a, b, 100 << 1, 5, 1, 2, 3, 4, 5];
            assert_eq!(read(&bytes).unwrap().payload, [1, 2, 3, 4, 5]);
        }
    }
}
