//! Reads and writes requests and answers of services.
//!
//! Numbers are little endian. A length stands before names and keys, in two bytes, and before values, in four.

/// Reads a message; holds the bytes not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads the next `size` bytes, or returns `None` if fewer are left.
    pub fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads the next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// Reads the next number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(*self.take(2)?.first_chunk()?))
    }

    /// Reads the next number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    /// Reads the next number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// Reads the next bytes with a length of two bytes before them.
    pub fn short(&mut self) -> Option<&'a [u8]> {
        let size = self.u16()?;
        self.take(usize::from(size))
    }

    /// Reads the next bytes with a length of four bytes before them.
    pub fn long(&mut self) -> Option<&'a [u8]> {
        let size = self.u32()?;
        self.take(usize::try_from(size).ok()?)
    }

    /// Reads the next text with a length of two bytes before it.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.short()?).ok()
    }

    /// Returns `Some` if nothing is left.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// A message being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Writes a byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// Writes a number of two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Writes a number of eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Writes bytes behind a length of two bytes. Of more than that can say, the message gets so
    /// long that nobody takes it.
    pub fn short(&mut self, bytes: &[u8]) -> &mut Self {
        self.u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
        self.0.extend_from_slice(bytes);
        self
    }

    /// Writes bytes behind a length of four bytes.
    pub fn long(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }
}
