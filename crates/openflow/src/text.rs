//! Fixed-size text fields: names and descriptions that a switch sends.

use crate::wire::WireFormat;
use crate::{DecodeError, Reader, Writer};
use core::fmt;

/// A text field of `N` bytes; the text ends at the first zero.
///
/// A switch controls its content, so all characters except printable ASCII are escaped in output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Text<N> {
    /// Creates a text, truncated so that it fits with a terminating zero.
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().take(N.saturating_sub(1)).zip(text.as_bytes()) {
            *to = *from;
        }
        Self(bytes)
    }

    /// Returns the bytes before the first zero.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Returns the text up to the first invalid byte.
    pub fn as_str(&self) -> &str {
        let bytes = self.as_bytes();
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => bytes
                .get(..error.valid_up_to())
                .and_then(|valid| core::str::from_utf8(valid).ok())
                .unwrap_or_default(),
        }
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().escape_ascii().fmt(f)
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl<'a, const N: usize> WireFormat<'a> for Text<N> {
    const SIZE: Option<usize> = Some(N);
    #[inline]
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        from.array(field).map(Self)
    }
    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(&self.0);
    }
}

impl<const N: usize> From<[u8; N]> for Text<N> {
    /// Wraps the field unchanged.
    fn from(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}
