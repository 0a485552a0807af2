//! Writes and reads the entry of `other_config` that makes a row a flow of this controller: cookie, priority, flags and subject.
//!
//! ```text
//! column                         key                             value
//! Logical_Switch.other_config    rosemary-02:00:00:00:00:0a      000100000000002a 49600 0x1 10.0.0.2 6f1c2a34-....
//!                                rosemary-unknown-dst            (the entry for unknown addresses)
//!                                rosemary                        made (this controller made the logical switch)
//! Physical_Port.other_config     rosemary-100                    000100000000002a 49600 0x1 5000 rosemary-5000
//!                                rosemary-port                   3 (the number of the port, once a flow uses it)
//! ```
//!
//! The subject ties the entry to the thing that this controller wrote:
//!
//! * The subject of a binding is the tunnel key and the name of its logical switch.
//! * The subject of an address is the other ends of its tunnels and the identifier of its row. The database chooses the identifier when it
//!   inserts the row, and the session adds it to the entry later.
//!
//! Another manager may replace or change a row and leave the entry behind. Then the subject differs, and the row belongs to the other manager.
//! The session removes an entry without its subject when it is idle.

use std::net::Ipv4Addr;

use openflow::FlowModFlags;
use ovsdb::Uuid;

/// The beginning of each key.
pub(super) const KEY: &str = "rosemary-";

/// The key, and its value, in a logical switch that this controller made.
pub(super) const MADE: (&str, &str) = ("rosemary", "made");

/// The key, in a physical port, of the number that flows use.
pub(super) const PORT: &str = "rosemary-port";

/// What OpenFlow keeps with a flow beside match and instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) cookie: u64,
    pub(super) priority: u16,
    pub(super) flags: FlowModFlags,
}

impl Owner {
    pub(super) fn to_text(self, subject: &str) -> String {
        format!("{:016x} {} {:#x} {subject}", self.cookie, self.priority, self.flags.0)
    }

    /// Reads the text and its subject; `None` if another program has written it.
    pub(super) fn read(text: &str) -> Option<(Self, &str)> {
        let mut words = text.splitn(4, ' ');
        let (cookie, priority, flags) = (words.next()?, words.next()?, words.next()?);
        let flags = u16::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        let owner = Self {
            cookie: u64::from_str_radix(cookie, 16).ok()?,
            priority: priority.parse().ok()?,
            flags: FlowModFlags(flags),
        };
        Some((owner, words.next()?))
    }
}

/// Returns the subject of a binding to a logical switch.
pub(super) fn network_subject(vni: u32, name: &str) -> String {
    format!("{vni} {name}")
}

/// Whether the subject of a binding is this logical switch. The name counts if several have the tunnel key: it may change otherwise.
pub(super) fn is_network(subject: &str, vni: u32, name: &str, is_ambiguous: bool) -> bool {
    let Some((its_vni, its_name)) = subject.split_once(' ') else { return false };
    its_vni == vni.to_string() && (!is_ambiguous || its_name == name)
}

/// Returns the subject of an address: the other ends of its tunnels, and the identifier of its row if the row exists already.
pub(super) fn address_subject(ends: &[Ipv4Addr], row: Option<Uuid>) -> String {
    let ends: Vec<String> = ends.iter().map(ToString::to_string).collect();
    let ends = ends.join(",");
    row.map_or_else(|| ends.clone(), |row| format!("{ends} {row}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_written() {
        let owner = Owner { cookie: u64::MAX - 1, priority: 49_600, flags: FlowModFlags(1) };
        assert_eq!(Owner::read(&owner.to_text("5 a b")), Some((owner, "5 a b")));
        for text in ["", "1 2", "1 2 3 a", "x 2 0x1 a", "1 70000 0x1 a", "1 2 0x1"] {
            assert_eq!(Owner::read(text), None, "{text}");
        }
    }

    #[test]
    fn name_of_a_network_counts_if_its_key_is_ambiguous() {
        let subject = network_subject(5, "a b");
        assert!(is_network(&subject, 5, "a b", true) && is_network(&subject, 5, "c", false));
        assert!(!is_network(&subject, 5, "c", true) && !is_network(&subject, 6, "a b", false));
        assert!(!is_network("5", 5, "", false));
    }
}
