//! Text in a field of fixed size: names and descriptions that switches give.

use crate::wire::Wire;
use crate::{DecodeError, Reader, Writer};
use core::fmt;

/// Text in a field of `N` bytes, of which those before the first zero count.
///
/// A switch chose it: it prints with everything but printable ASCII escaped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Text<N> {
    /// The text cut to what fits with a zero after it.
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().take(N.saturating_sub(1)).zip(text.as_bytes()) {
            *to = *from;
        }
        Self(bytes)
    }

    /// The text's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// The text, up to the first byte that is no text.
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

impl<'a, const N: usize> Wire<'a> for Text<N> {
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
    /// The field as it stands.
    fn from(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}
