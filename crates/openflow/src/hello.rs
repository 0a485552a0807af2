//! Hello messages and version negotiation.
//!
//! OpenFlow 1.3.5 §6.3.1 (negotiation) and §7.5.1 (the message). In OpenFlow 1.0.2 §5.5.1 a hello
//! may carry arbitrary data, which is ignored. After the header come elements:
//!
//! ```text
//!  0      2        4
//! +------+--------+-----------------------+---------------------+
//! | type | length | type 1: words of bits | pad to a multiple   |
//! |      |        |  bit n = version n    | of 8, not in length |
//! +------+--------+-----------------------+---------------------+
//! ```

use crate::header::Header;
use crate::{DecodeError, EncodeError, Kind, Reader, Version, Writer};
use thiserror::Error;

/// `OFPHET_VERSIONBITMAP`.
const VERSION_BITMAP: u16 = 1;
/// The first version whose hello has elements.
const FIRST_WITH_ELEMENTS: u8 = 4;

/// Two peers have no version in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "no version in common: the peer's hello has version byte {version:#04x} and version bitmap \
     {bitmap:#x?}"
)]
pub struct NegotiationError {
    /// The version byte of the peer's hello.
    pub version: u8,
    /// The bitmap of the hello, if it has one.
    pub bitmap: Option<u32>,
}

/// A hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Hello {
    /// The version byte: the sender's highest version.
    pub version: u8,
    /// The sender's versions, bit n for version byte n, if the hello has a bitmap. Version bytes
    /// above 31 do not exist yet and are left out.
    pub bitmap: Option<u32>,
}

impl Hello {
    /// Creates the hello of a side that speaks `versions`.
    ///
    /// It has a bitmap unless all versions predate bitmaps.
    pub fn new(versions: &[Version]) -> Self {
        let version = versions.iter().map(|version| version.wire()).max().unwrap_or(0);
        let bitmap = versions.iter().fold(0, |bits, version| bits | 1_u32 << version.wire());
        Self { version, bitmap: (version >= FIRST_WITH_ELEMENTS).then_some(bitmap) }
    }

    /// Decodes a whole hello with any version byte.
    ///
    /// Elements other than the bitmap are ignored, as is the body of a hello older than OpenFlow
    /// 1.3. Invalid bytes and all bytes after them are also ignored: a later version may define
    /// another body, and negotiation must still work.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one hello.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (header, mut body) = Header::split(message)?;
        if header.kind != 0 {
            return Err(DecodeError::WrongKind {
                version: header.version,
                found: header.kind,
                expected: Kind::Hello.name(),
            });
        }
        let mut bitmap = None;
        if header.version >= FIRST_WITH_ELEMENTS {
            while let Ok(found) = read_element(&mut body) {
                bitmap = bitmap.or(found);
            }
        }
        Ok(Self { version: header.version, bitmap })
    }

    /// Encodes the hello; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode(&self, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = Writer::message(out, self.version, 0, xid);
        if let Some(bitmap) = self.bitmap {
            to.u16(VERSION_BITMAP);
            to.u16(8);
            to.u32(bitmap);
        }
        to.finish()
    }

    /// Negotiates the version with the peer that sent this hello, assuming that this side sent
    /// `Hello::new(ours)`.
    ///
    /// If the peer's hello has a bitmap, the result is the highest common version in it. A peer
    /// that lists its versions speaks no other, whatever its version byte is. Without a bitmap, the
    /// result is the smaller of the two version bytes, if this side speaks it. An empty bitmap
    /// counts as none.
    ///
    /// # Errors
    /// [`NegotiationError`] if there is no common version; the caller should then send an error of
    /// type hello-failed.
    pub fn negotiate(&self, ours: &[Version]) -> Result<Version, NegotiationError> {
        let smaller = self.version.min(Self::new(ours).version);
        let is_offered = |version: &Version| match self.offered() {
            Some(bitmap) => bitmap & 1 << version.wire() != 0,
            None => version.wire() == smaller,
        };
        let best = ours.iter().copied().filter(is_offered).max();
        best.ok_or(NegotiationError { version: self.version, bitmap: self.bitmap })
    }

    /// Returns the bitmap, unless it is empty. Version 0 does not exist.
    pub fn offered(&self) -> Option<u32> {
        self.bitmap.map(|bitmap| bitmap & !1).filter(|bitmap| *bitmap != 0)
    }
}

/// Reads an element with its padding; returns the first word of a bitmap.
fn read_element(body: &mut Reader<'_>) -> Result<Option<u32>, DecodeError> {
    let kind = body.u16("hello_elem.type")?;
    let offset = body.offset();
    let found = usize::from(body.u16("hello_elem.length")?);
    let bad =
        |expected| DecodeError::BadLength { field: "hello_elem.length", offset, found, expected };
    let size = found.checked_sub(4).ok_or_else(|| bad("at least its own 4-byte head"))?;
    if size > body.left() {
        return Err(bad("no more than the bytes left"));
    }
    let mut element = body.sub("hello_elem", size)?;
    // Some senders omit the padding of the last element.
    let pad = found.next_multiple_of(8) - found;
    body.take("hello_elem.pad", pad.min(body.left()))?;
    if kind != VERSION_BITMAP {
        return Ok(None);
    }
    if size == 0 || size % 4 != 0 {
        return Err(bad("4 bytes and one or more 4-byte words for a version bitmap"));
    }
    element.u32("hello_elem.bitmaps").map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Version::{V1_0, V1_3};

    #[test]
    fn hello_equals_the_bytes_of_the_figure() {
        let mut out = [0; 16];
        assert_eq!(Hello::new(&[V1_0, V1_3]).encode(1, &mut out), Ok(16));
        assert_eq!(out, [4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x12]);
        assert_eq!(Hello::decode(&out), Ok(Hello::new(&[V1_0, V1_3])));
        assert_eq!(Hello::new(&[V1_0]).encode(1, &mut out), Ok(8));
    }

    #[test]
    fn common_bitmap_version_is_chosen() {
        let ovs = Hello { version: 6, bitmap: Some(1 << 1 | 1 << 4 | 1 << 6) };
        assert_eq!(ovs.negotiate(&[V1_0, V1_3]), Ok(V1_3));
        assert_eq!(ovs.negotiate(&[V1_0]), Ok(V1_0));
        let odd = Hello { version: 5, bitmap: Some(1 << 1 | 1 << 5) };
        assert_eq!(odd.negotiate(&[V1_0, V1_3]), Ok(V1_0));
        // A bitmap overrides the version byte, even if they contradict each other.
        for version in [0, 1, 2, 4, 6, 7, 0xff] {
            let hello = |bitmap| Hello { version, bitmap: Some(bitmap) };
            assert_eq!(hello(1 << 1 | 1 << 4 | 1 << 7).negotiate(&[V1_0, V1_3]), Ok(V1_3));
            assert_eq!(hello(1 << 1).negotiate(&[V1_0, V1_3]), Ok(V1_0));
            assert!(hello(1 << 5).negotiate(&[V1_0, V1_3]).is_err(), "it does not speak 1.3");
        }
        let nothing = Hello { version: 7, bitmap: Some(1) };
        assert_eq!(nothing.negotiate(&[V1_0, V1_3]), Ok(V1_3), "there is no version 0");
    }

    #[test]
    fn smaller_version_is_chosen_without_bitmap() {
        let hello = |version| Hello { version, bitmap: None };
        assert_eq!(hello(1).negotiate(&[V1_0, V1_3]), Ok(V1_0));
        assert_eq!(hello(4).negotiate(&[V1_0, V1_3]), Ok(V1_3));
        for above in [5, 6, 7, 0x16, 0x80, 0xff] {
            assert_eq!(hello(above).negotiate(&[V1_0, V1_3]), Ok(V1_3), "{above:#x}");
        }
        assert!(hello(2).negotiate(&[V1_0, V1_3]).is_err());
        assert!(hello(3).negotiate(&[V1_0, V1_3]).is_err());
        assert!(hello(1).negotiate(&[V1_3]).is_err());
        assert!(hello(0).negotiate(&[V1_0, V1_3]).is_err());
    }

    #[test]
    fn hello_of_1_0_may_carry_anything() {
        let bytes = [1, 0, 0, 11, 0, 0, 0, 0, 9, 9, 9];
        assert_eq!(Hello::decode(&bytes), Ok(Hello { version: 1, bitmap: None }));
    }

    #[test]
    fn invalid_elements_are_ignored() {
        let head = |size: u8| vec![7, 0, 0, size, 0, 0, 0, 1];
        let decode = |body: &[u8]| {
            let size = u8::try_from(8 + body.len()).unwrap();
            Hello::decode(&[&head(size)[..], body].concat()).unwrap()
        };
        for len in [0, 3, 4, 5, 9, 0xff] {
            assert_eq!(decode(&[0, 1, 0, len, 0, 0, 0, 0x12]).bitmap, None, "{len}");
        }
        let bitmap = [0, 1, 0, 8, 0, 0, 0, 0x92];
        for tail in [&[][..], &[1], &[0xde, 0xad, 0xbe, 0xef], &[0, 9, 0, 0], &bitmap] {
            let hello = decode(&[&bitmap, tail].concat());
            assert_eq!(hello, Hello { version: 7, bitmap: Some(0x92) }, "{tail:?}");
        }
        // An unknown element, padded to 8 bytes, and a bitmap of three words.
        let unknown = [0, 2, 0, 5, 0xff, 0, 0, 0];
        let long = [0, 1, 0, 16, 0, 0, 0, 0x10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1];
        assert_eq!(decode(&[&unknown[..], &long].concat()).bitmap, Some(0x10));
    }
}
