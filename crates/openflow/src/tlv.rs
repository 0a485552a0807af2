//! Elements that start with a 16-bit type and a 16-bit length of the whole element: actions,
//! instructions, meter bands, properties. `tlv_enum!` defines an enum of them.

use crate::{DecodeError, Reader};

/// Size of an element's header, in bytes.
pub(crate) const HEAD_SIZE: usize = 4;

/// Reads an element's header; returns its type and a reader of the bytes after the header.
///
/// # Errors
/// [`DecodeError`] if the length is below the header's size, not a multiple of `align`, or beyond
/// the available bytes.
#[inline]
pub(crate) fn read_head<'a>(
    from: &mut Reader<'a>,
    type_field: &'static str,
    len_field: &'static str,
    align: usize,
) -> Result<(u16, Reader<'a>), DecodeError> {
    let kind = from.u16(type_field)?;
    let offset = from.offset();
    let len = usize::from(from.u16(len_field)?);
    let bad = |expected| DecodeError::BadLength { field: len_field, offset, found: len, expected };
    let body = len.checked_sub(HEAD_SIZE).ok_or_else(|| bad("at least its own 4-byte head"))?;
    if len % align != 0 {
        return Err(bad("a multiple of 8"));
    }
    if body > from.left() {
        return Err(bad("no more than the bytes left around it"));
    }
    Ok((kind, from.sub(len_field, body)?))
}

/// Defines an enum of elements from each variant's number and content; `$align` is the unit of all
/// lengths.
///
/// An enum with the parameter `V` is a table of several versions, and `V` is the version byte. A variant with
/// `in` belongs to these versions only; in others its number is an unknown type.
macro_rules! tlv_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident<$life:lifetime $(, $v:ident)?> = $label:literal, align $align:literal {
            $(
                $(#[$variant_meta:meta])*
                $variant:ident($body:ty) = $number:literal $(in $first:literal ..= $last:literal)?,
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize),
            serde(rename_all = "snake_case")
        )]
        #[non_exhaustive]
        pub enum $name<$life $(, const $v: u8)?> {
            $(
                $(#[$variant_meta])*
                $variant(
                    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::field"))]
                    $body,
                ),
            )*
            /// A type that the specification does not define, kept unchanged.
            Unknown {
                /// The type.
                kind: u16,
                /// The bytes after the element's header.
                #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::field"))]
                body: &$life [u8],
            },
        }

        #[cfg(feature = "serde")]
        impl<$life $(, const $v: u8)?> $crate::json::AsField for $name<$life $(, $v)?> {
            fn serialize_field<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }

        impl $(<const $v: u8>)? $name<'_ $(, $v)?> {
            /// The type's number.
            pub fn kind(&self) -> u16 {
                match self {
                    $( Self::$variant(_) => $number, )*
                    Self::Unknown { kind, .. } => *kind,
                }
            }
        }

        impl<$life $(, const $v: u8)?> $crate::wire::WireFormat<$life> for $name<$life $(, $v)?> {
            /// An element whose content has a fixed size.
            #[inline]
            fn valid_size(bytes: &[u8]) -> Option<usize> {
                let [a, b, c, d, ..] = *bytes else { return None };
                let content = match u16::from_be_bytes([a, b]) {
                    $( $number $(if matches!(V, $first..=$last))? => {
                        <$body as $crate::wire::WireFormat<$life>>::SIZE
                    } )*
                    _ => None,
                };
                let size = $crate::tlv::HEAD_SIZE + content?;
                let is_valid = usize::from(u16::from_be_bytes([c, d])) == size
                    && size.is_multiple_of($align)
                    && size <= bytes.len();
                is_valid.then_some(size)
            }

            #[inline]
            fn read(
                from: &mut $crate::Reader<$life>,
                _field: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                let (kind, mut body) = $crate::tlv::read_head(
                    from, concat!($label, ".type"), concat!($label, ".len"), $align)?;
                let item = match kind {
                    $( $number $(if matches!(V, $first..=$last))? => {
                        Self::$variant($crate::wire::WireFormat::read(&mut body, $label)?)
                    } )*
                    _ => Self::Unknown { kind, body: body.rest() },
                };
                body.finish(concat!($label, ".len"))?;
                Ok(item)
            }

            #[inline]
            fn write(&self, to: &mut $crate::Writer<'_>) {
                let start = to.position();
                to.u16(self.kind());
                to.u16(0);
                match self {
                    $( Self::$variant(body) => $crate::wire::WireFormat::write(body, to), )*
                    Self::Unknown { body, .. } => to.bytes(body),
                }
                to.patch_size(start + 2, start);
            }
        }
    };
}
pub(crate) use tlv_enum;

/// Writes an element and pads it with zeros to a multiple of 8 bytes.
///
/// Only elements with caller-chosen content (experimenter data) need this; the layout of all others
/// ensures the alignment.
///
/// # Errors
/// [`crate::EncodeError::TooLong`] if the length field cannot express it.
#[inline]
pub(crate) fn write_aligned<'a>(
    element: &impl crate::wire::WireFormat<'a>,
    to: &mut crate::Writer<'_>,
) -> Result<(), crate::EncodeError> {
    let start = to.position();
    element.write(to);
    let size = to.position() - start;
    if !size.is_multiple_of(8) {
        to.zeros(size.next_multiple_of(8) - size);
        to.patch_size(start + 2, start);
    }
    let size = to.position() - start;
    match size {
        0..=0xffff => Ok(()),
        _ => Err(crate::EncodeError::TooLong { field: "action", size, max: 0xffff }),
    }
}
