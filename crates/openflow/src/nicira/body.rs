//! A cursor over the bytes of one action or message, which checks padding.

use super::fault::Fault;

/// The bytes that were not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a>(pub(super) &'a [u8]);

impl<'a> Body<'a> {
    /// Takes `size` bytes.
    pub(super) fn take(&mut self, size: usize) -> Result<&'a [u8], Fault> {
        let (head, rest) = self.0.split_at_checked(size).ok_or(Fault("more bytes"))?;
        self.0 = rest;
        Ok(head)
    }

    /// Takes `N` bytes; `what` says for what.
    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Fault> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Fault(what))?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        Ok(u8::from_be_bytes(self.array("a byte")?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        Ok(u16::from_be_bytes(self.array("2 bytes")?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_be_bytes(self.array("4 bytes")?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_be_bytes(self.array("8 bytes")?))
    }

    /// Takes `size` bytes of padding.
    pub(super) fn zeros(&mut self, size: usize) -> Result<(), Fault> {
        let is_zero = self.take(size)?.iter().all(|byte| *byte == 0);
        if is_zero { Ok(()) } else { Err(Fault("zeros in padding")) }
    }

    /// Takes the padding up to the end.
    ///
    /// # Errors
    /// There are `limit` bytes or more, or one is not zero.
    pub(super) fn end(mut self, limit: usize) -> Result<(), Fault> {
        if self.0.len() >= limit {
            return Err(Fault("the size of the action"));
        }
        self.zeros(self.0.len())
    }
}
