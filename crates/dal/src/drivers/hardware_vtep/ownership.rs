//! Writes and reads the entry of `other_config` that makes a row a flow of this controller: cookie, priority and flags.
//!
//! ```text
//! column                         key                             value
//! Logical_Switch.other_config    rosemary-02:00:00:00:00:0a      000100000000002a 49600 0x1
//!                                rosemary-unknown-dst            (the entry for unknown addresses)
//!                                rosemary                        made (this controller made the logical switch)
//! Physical_Port.other_config     rosemary-100                    (the binding of VLAN 100)
//! ```
//!
//! An entry without its row has no meaning; the session removes the entry when it is idle.

use openflow::FlowModFlags;

/// The beginning of each key.
pub(super) const KEY: &str = "rosemary-";

/// The key, and its value, in a logical switch that this controller made.
pub(super) const MADE: (&str, &str) = ("rosemary", "made");

/// What OpenFlow keeps with a flow beside match and instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) cookie: u64,
    pub(super) priority: u16,
    pub(super) flags: FlowModFlags,
}

impl Owner {
    pub(super) fn to_text(self) -> String {
        format!("{:016x} {} {:#x}", self.cookie, self.priority, self.flags.0)
    }

    /// Reads the text; `None` if another program has written it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (cookie, priority, flags) = (words.next()?, words.next()?, words.next()?);
        let flags = u16::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        let owner = Self {
            cookie: u64::from_str_radix(cookie, 16).ok()?,
            priority: priority.parse().ok()?,
            flags: FlowModFlags(flags),
        };
        words.next().is_none().then_some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_written() {
        let owner = Owner { cookie: u64::MAX - 1, priority: 49_600, flags: FlowModFlags(1) };
        assert_eq!(Owner::read(&owner.to_text()), Some(owner));
        for text in ["", "1 2", "1 2 3", "x 2 0x1", "1 70000 0x1", "1 2 0x1 4"] {
            assert_eq!(Owner::read(text), None, "{text}");
        }
    }
}
