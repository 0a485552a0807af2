//! A cursor that writes a message into the caller's buffer.
//!
//! Writing past the end is counted instead of rejected. Only [`Writer::finish`] fails, and it then
//! reports the size of the whole message. Encoders therefore handle no errors except features that
//! a version cannot express.

use crate::EncodeError;

/// Maximum size of a message: the header's length field has 16 bits.
const MAX_MESSAGE_SIZE: usize = 0xffff;

/// A write position in a byte slice; network byte order throughout.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut [u8],
    position: usize,
}

impl<'b> Writer<'b> {
    /// Starts writing at the first byte of `out`.
    #[inline]
    pub fn new(out: &'b mut [u8]) -> Self {
        Self { out, position: 0 }
    }

    /// Starts a message: writes its header, whose length [`Writer::finish`] fills in.
    #[inline]
    pub fn message(out: &'b mut [u8], version: u8, kind: u8, xid: u32) -> Self {
        let mut writer = Self::new(out);
        let [a, b, c, d] = xid.to_be_bytes();
        writer.bytes(&[version, kind, 0, 0, a, b, c, d]);
        writer
    }

    /// Returns the number of bytes written, including those that did not fit.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Writes `bytes`.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.position.wrapping_add(bytes.len());
        if let Some(room) = self.out.get_mut(self.position..end) {
            room.copy_from_slice(bytes);
        }
        self.position = end;
    }

    /// Returns the next `N` bytes; the caller must [`put`] all of them. Returns `None` if they do not fit, and
    /// only counts them.
    ///
    /// Several values at known offsets thus need one bounds check.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let start = self.position;
        self.position = start.wrapping_add(N);
        self.out.get_mut(start..)?.first_chunk_mut()
    }

    /// Writes the first `size` bytes of `bytes`. Bytes after them in the buffer may change as well:
    /// a copy of constant length is several times faster.
    #[inline]
    pub(crate) fn beginning_of<const N: usize>(&mut self, bytes: &[u8; N], size: usize) {
        let room = self.out.get_mut(self.position..).and_then(<[u8]>::first_chunk_mut::<N>);
        match room {
            Some(room) if size <= N => {
                *room = *bytes;
                self.position = self.position.wrapping_add(size);
            }
            _ => self.bytes(bytes.get(..size).unwrap_or(bytes)),
        }
    }

    /// Writes `n` zero bytes.
    #[inline]
    pub fn zeros(&mut self, n: usize) {
        let end = self.position.wrapping_add(n);
        if let Some(room) = self.out.get_mut(self.position..end) {
            room.fill(0);
        }
        self.position = end;
    }

    /// Writes a byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// Writes a 16-bit integer.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes a 32-bit integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes a 64-bit integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes the 16-bit number of bytes from `start` to here at offset `at`.
    ///
    /// [`Writer::finish`] reports a number that is too large for the field, because the enclosing
    /// message is even longer.
    #[inline]
    pub fn patch_size(&mut self, at: usize, start: usize) {
        let size = u16::try_from(self.position.saturating_sub(start)).unwrap_or(u16::MAX);
        if let Some(room) = self.out.get_mut(at..at.saturating_add(2)) {
            room.copy_from_slice(&size.to_be_bytes());
        }
    }

    /// Ends a message begun with [`Writer::message`]; returns its size in bytes.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] if the message exceeds the header's length field,
    /// [`EncodeError::NoRoom`] if it did not fit.
    #[inline]
    pub fn finish(mut self) -> Result<usize, EncodeError> {
        let need = self.position;
        if need > MAX_MESSAGE_SIZE {
            return Err(EncodeError::TooLong {
                field: "message",
                size: need,
                max: MAX_MESSAGE_SIZE,
            });
        }
        if need > self.out.len() {
            return Err(EncodeError::NoRoom { need, size: self.out.len() });
        }
        self.patch_size(2, 0);
        Ok(need)
    }
}

/// Writes `bytes` into an array at a constant offset.
#[inline]
pub(crate) fn put<const N: usize, const M: usize>(room: &mut [u8; N], at: usize, bytes: [u8; M]) {
    let place = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    debug_assert!(place.is_some(), "{M} bytes at {at} of {N}");
    if let Some(place) = place {
        *place = bytes;
    }
}

/// Appends the message that `encode` writes to `out`; returns its size.
///
/// ```
/// use rosemary_openflow::{append, Kind, Version};
///
/// let mut out = Vec::new();
/// append(&mut out, |buffer| Kind::FeaturesRequest.encode_empty(Version::V1_3, 7, buffer))?;
/// assert_eq!(out, [4, 5, 0, 8, 0, 0, 0, 7]);
/// # Ok::<(), rosemary_openflow::EncodeError>(())
/// ```
///
/// # Errors
/// The error of `encode`; `out` is then unchanged. Never [`EncodeError::NoRoom`].
pub fn append(
    out: &mut Vec<u8>,
    encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<usize, EncodeError> {
    const FIRST_TRY: usize = 128;
    let start = out.len();
    let mut room = FIRST_TRY;
    loop {
        out.resize(start + room, 0);
        match encode(out.get_mut(start..).unwrap_or_default()) {
            Err(EncodeError::NoRoom { need, size }) if need > size => room = need,
            Ok(size) => {
                out.truncate(start + size);
                return Ok(size);
            }
            Err(error) => {
                out.truncate(start);
                return Err(error);
            }
        }
    }
}
