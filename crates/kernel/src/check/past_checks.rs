//! Finds messages and actions of experimenters that have a switch write flows past the checks. No grant allows them.
//!
//! Sources: Open vSwitch 2.10, `ofp-actions.c` and `ofp-msgs.h`; ONF extension 230 (bundles for OpenFlow 1.3).
//!
//! | what | why |
//! | --- | --- |
//! | actions `learn`, `learn2` | write flows with any priority and cookie |
//! | actions `ct`, `clone` that contain such an action | the same |
//! | messages that write flows or groups, and bundles | the kernel examines only flow-mods and group-mods of OpenFlow itself |
//! | messages that set the role, the format of flows or the filter of messages | the connection is that of all apps |

use openflow::Version;

/// The experimenter id of Nicira, which Open vSwitch uses.
const NICIRA: u32 = 0x2320;

/// The experimenter id of the Open Networking Foundation.
const ONF: u32 = 0x4f4e_4600;

/// Nicira's actions that write flows: `learn`, `learn2`.
const LEARNS: [u16; 2] = [16, 45];

/// Nicira's actions that contain other actions, with the place of these in the action's data.
const NESTS: [(u16, usize); 2] = [(35, 16), (42, 8)];

/// The deepest nesting that is examined; deeper actions are refused.
const DEEPEST: usize = 4;

/// Nicira's messages that write flows (13) or groups (31), or change the connection: role, format of flows, table ids in
/// commands, format of packet-ins, asynchronous messages, controller id.
const NICIRA_MESSAGES: [u32; 8] = [10, 12, 13, 15, 16, 19, 20, 31];

/// The messages of bundles.
const ONF_MESSAGES: [u32; 2] = [2300, 2301];

/// The type of an experimenter's action, in every version.
const EXPERIMENTER_ACTION: u16 = 0xffff;

/// Bytes before the data of an experimenter's action.
const ACTION_HEAD: usize = 8;

/// Whether an experimenter's action writes flows. `data` follows the experimenter id.
#[cold]
pub(super) fn action_writes(experimenter: u32, data: &[u8]) -> bool {
    writes_within(experimenter, data, DEEPEST)
}

fn writes_within(experimenter: u32, data: &[u8], depth: usize) -> bool {
    let Some(subtype) = u16_at(data, 0).filter(|_| experimenter == NICIRA) else { return false };
    if LEARNS.contains(&subtype) {
        return true;
    }
    let Some((_, at)) = NESTS.iter().find(|(nest, _)| *nest == subtype) else { return false };
    if depth == 0 {
        return true;
    }
    let mut rest = data.get(*at..).unwrap_or_default();
    while let (Some(kind), Some(size)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let size = usize::from(size);
        let Some(action) = rest.get(..size).filter(|_| size >= ACTION_HEAD) else {
            return true; // malformed: where the next action begins is unknown
        };
        let id = u32::from(u16_at(action, 4).unwrap_or_default()) << 16
            | u32::from(u16_at(action, 6).unwrap_or_default());
        if kind == EXPERIMENTER_ACTION && writes_within(id, &action[ACTION_HEAD..], depth - 1) {
            return true;
        }
        rest = &rest[size..];
    }
    false
}

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

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|it| u16::from_be_bytes([it[0], it[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An action of Nicira's with this subtype, `pad` further bytes, and what it contains.
    fn action(subtype: u16, pad: usize, inner: &[u8]) -> Vec<u8> {
        let size = u16::try_from(10 + pad + inner.len()).unwrap();
        let mut bytes = [0xffff_u16.to_be_bytes(), size.to_be_bytes()].concat();
        bytes.extend(NICIRA.to_be_bytes());
        bytes.extend(subtype.to_be_bytes());
        bytes.resize(10 + pad, 0);
        bytes.extend_from_slice(inner);
        bytes
    }

    fn writes(action: &[u8]) -> bool {
        action_writes(NICIRA, &action[ACTION_HEAD..])
    }

    #[test]
    fn learn_is_found_at_any_depth() {
        let (learn, note) = (action(16, 22, &[]), action(8, 6, &[]));
        assert!(writes(&learn) && writes(&action(45, 22, &[])));
        assert!(
            !writes(&note) && !writes(&action(35, 14, &note)) && !writes(&action(42, 6, &note))
        );
        assert!(!action_writes(NICIRA + 1, &learn[ACTION_HEAD..]));
        let both = [&note[..], &learn].concat();
        assert!(writes(&action(35, 14, &both)) && writes(&action(42, 6, &both)));
        let mut deep = learn;
        for _ in 0..2 {
            deep = action(42, 6, &action(35, 14, &deep));
            assert!(writes(&deep));
        }
        let harmless = (0..6).fold(note, |inner, _| action(42, 6, &inner));
        assert!(writes(&harmless), "nesting beyond the limit");
    }

    #[test]
    fn malformed_contents_are_refused() {
        let mut contents = action(8, 6, &[]);
        contents[3] = 4; // its size
        assert!(writes(&action(42, 6, &contents)));
        contents[3] = 200;
        assert!(writes(&action(42, 6, &contents)));
        assert!(!writes(&action(42, 6, &[])) && !action_writes(NICIRA, &[0]));
    }

    #[test]
    fn messages_that_write_are_found() {
        let message = |id, subtype: u32| message_writes(Version::V1_3, id, &subtype.to_be_bytes());
        assert!(message(NICIRA, 13) && message(NICIRA, 31) && message(NICIRA, 10));
        assert!(message(ONF, 2300) && message(ONF, 2301));
        assert!(!message(NICIRA, 0xffff) && !message(ONF, 1) && !message(7, 13));
        assert!(!message_writes(Version::V1_3, NICIRA, &[]));
    }
}
