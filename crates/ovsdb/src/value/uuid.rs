//! The identifier of a row (RFC 4122 §3).

use std::fmt;
use std::str::FromStr;

use super::ValueError;

/// The identifier of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = ValueError;

    /// Parses the form `550e8400-e29b-41d4-a716-446655440000`.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        const UNREADABLE: ValueError =
            ValueError::Unreadable("a uuid such as 550e8400-e29b-41d4-a716-446655440000");
        let mut bytes = [0; 16];
        let mut digits = text.bytes().enumerate();
        if text.len() != 36 {
            return Err(UNREADABLE);
        }
        let mut digit = || {
            let (at, byte) = digits.next()?;
            let (_, byte) = match (at, byte) {
                (8 | 13 | 18 | 23, b'-') => digits.next()?,
                (8 | 13 | 18 | 23, _) => return None,
                other => other,
            };
            match byte {
                b'0'..=b'9' => Some(byte - b'0'),
                b'a'..=b'f' => Some(byte - b'a' + 10),
                _ => None, // a row would have several names
            }
        };
        for byte in &mut bytes {
            let (high, low) = (digit().ok_or(UNREADABLE)?, digit().ok_or(UNREADABLE)?);
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}
