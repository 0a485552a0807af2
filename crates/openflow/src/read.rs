//! A cursor over received bytes. Every read is bounds-checked, and its errors name the field and
//! its offset in the message.

use crate::DecodeError;

/// A read position in a byte slice; network byte order throughout.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Starts reading at the first byte of `bytes`, which is byte `offset` of the message.
    #[inline]
    pub fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    /// Returns the offset of the next byte in the message.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of bytes left.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether all bytes have been taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns all bytes that are left.
    #[inline]
    pub(crate) fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `n` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer than `n` bytes are left.
    #[inline]
    pub fn take(&mut self, field: &'static str, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or_else(|| self.truncated(field, n))?;
        self.rest = tail;
        self.offset += n;
        Ok(head)
    }

    /// Takes the next `n` bytes as a separate reader.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer than `n` bytes are left.
    #[inline]
    pub fn sub(&mut self, field: &'static str, n: usize) -> Result<Self, DecodeError> {
        let offset = self.offset;
        Ok(Self { rest: self.take(field, n)?, offset })
    }

    /// Takes the next `N` bytes as an array.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer than `N` bytes are left.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.rest.split_first_chunk().ok_or_else(|| self.truncated(field, N))?;
        self.rest = tail;
        self.offset += N;
        Ok(*head)
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] at the end of the bytes.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.array(field)?))
    }

    /// Takes a 16-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer than 2 bytes are left.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    /// Takes a 32-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer than 4 bytes are left.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    /// Takes a 64-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer than 8 bytes are left.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array(field)?))
    }

    /// Takes all bytes that are left.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.offset += rest.len();
        self.rest = &[];
        rest
    }

    /// Succeeds if nothing is left.
    ///
    /// # Errors
    /// [`DecodeError::BadLength`] with the number of bytes after the end of `field`.
    #[inline]
    pub fn finish(&self, field: &'static str) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError::BadLength {
            field,
            offset: self.offset,
            found: self.rest.len(),
            expected: "no bytes after its end",
        })
    }

    #[cold]
    fn truncated(&self, field: &'static str, need: usize) -> DecodeError {
        DecodeError::Truncated { field, offset: self.offset, need, have: self.rest.len() }
    }
}
