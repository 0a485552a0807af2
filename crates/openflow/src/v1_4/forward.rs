//! Forwarded requests of other controllers. OpenFlow 1.4.1 §7.4.6, 1.5.1 §7.4.5.

use crate::Header;
use crate::wire::WireFormat;
use crate::{DecodeError, Reader, Writer};

/// The body of a requestforward message (`ofp_requestforward_header`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RequestForward<'a> {
    /// The request of the other controller: a whole group-mod or meter-mod with its header.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub request: &'a [u8],
}

impl<'a> WireFormat<'a> for RequestForward<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let request = read_message(from, "requestforward.request.length")?;
        from.finish("requestforward.request")?;
        Ok(Self { request })
    }
    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(self.request);
    }
}

#[cfg(feature = "serde")]
crate::json::as_field!(RequestForward<'_>);

/// Takes a whole message inside of another one; `field` is the name of its length.
///
/// # Errors
/// [`DecodeError`] if its length is shorter than a header or beyond the available bytes. Its content is not decoded.
pub(crate) fn read_message<'a>(
    from: &mut Reader<'a>,
    field: &'static str,
) -> Result<&'a [u8], DecodeError> {
    let offset = from.offset() + 2;
    let mut head = *from;
    head.u16(field)?; // version and type
    let found = usize::from(head.u16(field)?);
    let bad = |expected| DecodeError::BadLength { field, offset, found, expected };
    if found < Header::SIZE {
        return Err(bad("at least the header's own 8 bytes"));
    }
    if found > from.left() {
        return Err(bad("no more than the bytes left around it"));
    }
    from.take(field, found)
}
