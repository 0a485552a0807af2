//! Finds messages of experimenters that have a switch write flows past the checks. No grant allows them.
//!
//! Sources: Open vSwitch 2.10, `ofp-msgs.h`; ONF extension 230 (bundles for OpenFlow 1.3).
//!
//! | what | why |
//! | --- | --- |
//! | messages that write flows or groups, and bundles | the kernel examines only flow-mods and group-mods of OpenFlow itself |
//! | messages that resume a paused packet | they carry actions in a form that only the switch knows |
//! | messages that set the role, the format of flows or the filter of messages | the connection is that of all apps |

use openflow::Version;
use openflow::nicira::NICIRA;

/// The experimenter id of the Open Networking Foundation.
const ONF: u32 = 0x4f4e_4600;

/// Nicira's messages that write flows (13) or groups (31), or change the connection: role, format of flows, table ids in
/// commands, format of packet-ins, asynchronous messages (19, 27), controller id. 28 resumes a packet.
const NICIRA_MESSAGES: [u32; 10] = [10, 12, 13, 15, 16, 19, 20, 27, 28, 31];

/// The messages of bundles.
const ONF_MESSAGES: [u32; 2] = [2300, 2301];

/// Whether an experimenter's message writes flows or groups, or changes the connection. `data` follows the experimenter id.
#[cold]
pub(super) fn message_writes(version: Version, experimenter: u32, data: &[u8]) -> bool {
    let subtype = data.first_chunk().copied().map(u32::from_be_bytes);
    let Some(subtype) = subtype else { return false };
    match experimenter {
        NICIRA => NICIRA_MESSAGES.contains(&subtype),
        ONF => version.features().onf_extensions && ONF_MESSAGES.contains(&subtype),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_write_are_found() {
        let message = |id, subtype: u32| message_writes(Version::V1_3, id, &subtype.to_be_bytes());
        assert!(message(NICIRA, 13) && message(NICIRA, 31) && message(NICIRA, 10));
        assert!(message(NICIRA, 27) && message(NICIRA, 28));
        assert!(message(ONF, 2300) && message(ONF, 2301));
        assert!(!message(NICIRA, 0xffff) && !message(ONF, 1) && !message(7, 13));
        assert!(!message_writes(Version::V1_3, NICIRA, &[]));
    }
}
