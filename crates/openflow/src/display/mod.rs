//! Formats messages as one line of text, in the style of `ovs-ofctl ofp-print`.
//!
//! Content that the version-independent types can express is printed in the same words for every
//! version. Other content, such as a repeated field, is printed as raw structures, because a tool
//! that shows messages must also show invalid ones.

mod controller;
mod flow;
mod message;
mod multipart;
mod switch;

use core::fmt;
use core::time::Duration;

/// Names of set bits, separated by spaces; unnamed bits as a number; `0` if no bit is set.
pub(crate) struct Bits<'n> {
    pub(crate) bits: u32,
    pub(crate) names: &'n [(u32, &'static str)],
}

impl fmt::Display for Bits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.bits;
        let mut separator = "";
        for (bit, name) in self.names {
            if rest & bit != 0 {
                write!(f, "{separator}{name}")?;
                separator = " ";
                rest &= !bit;
            }
        }
        match (rest, separator) {
            (0, "") => f.write_str("0"),
            (0, _) => Ok(()),
            (rest, separator) => write!(f, "{separator}{rest:#x}"),
        }
    }
}

/// A duration in seconds without trailing zeros, in groups of three digits: `1.243s`, `60s`.
///
/// Computed with integers: as a float, 1.243 s would print as 1.2429999999999999 s.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_secs())?;
        match self.0.subsec_nanos() {
            0 => f.write_str("s"),
            nanos if nanos % 1_000_000 == 0 => write!(f, ".{:03}s", nanos / 1_000_000),
            nanos if nanos % 1_000 == 0 => write!(f, ".{:06}s", nanos / 1_000),
            nanos => write!(f, ".{nanos:09}s"),
        }
    }
}

/// Bytes in hexadecimal, truncated after the first 64.
pub(crate) struct Hex<'b>(pub(crate) &'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 64;
        for byte in self.0.iter().take(MOST) {
            write!(f, "{byte:02x}")?;
        }
        match self.0.len().checked_sub(MOST) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "... {more} more"),
        }
    }
}

/// Formats items with a separator between them.
pub(crate) fn list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    between: &str,
) -> fmt::Result {
    let mut separator = "";
    for item in items {
        write!(f, "{separator}{item}")?;
        separator = between;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
