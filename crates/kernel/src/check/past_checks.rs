//! Decides what an experimenter's message may do beyond its grant. A grant of an experimenter allows no message that writes flows
//! past the checks.
//!
//! Sources: Open vSwitch 3.1, `ofp-msgs.h`; ONF extensions 187 (flow monitors) and 230 (bundles) for OpenFlow 1.3.
//!
//! | messages | needs |
//! | --- | --- |
//! | Nicira's request for the map of tunnel metadata | the grant |
//! | Nicira's changes of that map, and the removal of tracked connections | `switch.config`: the switch has one map and one table of connections |
//! | Nicira's statistics of flows | `flow.read`: the kernel does not narrow them |
//! | all others of Nicira: flow-mods, group-mods, resumed packets, role, format of flows and packet-ins, filters, monitors | refused |
//! | bundles and flow monitors of the ONF | refused: the connection is that of all apps |
//! | other messages of other experimenters | the grant |

use openflow::nicira::NICIRA;
use openflow::{ONF, Version};

/// What a message of an experimenter needs beside its grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    SwitchConfig,
    FlowRead,
    /// No grant suffices.
    Refused,
}

/// `NXT_TLV_TABLE_MOD`, `NXT_TLV_TABLE_REQUEST`, `NXT_CT_FLUSH_ZONE`, `NXT_CT_FLUSH`.
const TLV_TABLE_MOD: u32 = 24;
const TLV_TABLE_REQUEST: u32 = 25;
const CT_FLUSH_ZONE: u32 = 29;
const CT_FLUSH: u32 = 32;

/// `NXST_FLOW`, `NXST_AGGREGATE`, `NXST_FLOW_MONITOR`.
const FLOW_STATS: [u32; 2] = [0, 1];
const FLOW_MONITOR: u32 = 2;

/// Bundles (2300, 2301) and flow monitors (1870 to 1872) of the ONF.
const ONF_MESSAGES: [u32; 5] = [1870, 1871, 1872, 2300, 2301];

/// Says what a message needs. `data` follows the experimenter id.
#[cold]
pub(super) fn of_message(version: Version, experimenter: u32, data: &[u8]) -> Needs {
    match (experimenter, subtype(data)) {
        (NICIRA, Some(TLV_TABLE_REQUEST)) => Needs::Nothing,
        (NICIRA, Some(TLV_TABLE_MOD | CT_FLUSH_ZONE | CT_FLUSH)) => Needs::SwitchConfig,
        (NICIRA, _) => Needs::Refused,
        (ONF, subtype) => of_onf(version, subtype),
        _ => Needs::Nothing,
    }
}

/// Says what a request for statistics needs. `data` follows the experimenter id.
#[cold]
pub(super) fn of_statistics(version: Version, experimenter: u32, data: &[u8]) -> Needs {
    match (experimenter, subtype(data)) {
        (NICIRA, Some(subtype)) if FLOW_STATS.contains(&subtype) => Needs::FlowRead,
        (NICIRA, None | Some(FLOW_MONITOR)) => Needs::Refused,
        (ONF, subtype) => of_onf(version, subtype),
        _ => Needs::Nothing,
    }
}

fn of_onf(version: Version, subtype: Option<u32>) -> Needs {
    let is_refused = version.features().onf_extensions
        && subtype.is_some_and(|subtype| ONF_MESSAGES.contains(&subtype));
    if is_refused { Needs::Refused } else { Needs::Nothing }
}

fn subtype(data: &[u8]) -> Option<u32> {
    data.first_chunk().copied().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_write_are_found() {
        let message = |id, subtype: u32| of_message(Version::V1_3, id, &subtype.to_be_bytes());
        for subtype in [10, 12, 13, 15, 16, 19, 20, 21, 27, 28, 31, 0xffff] {
            assert_eq!(message(NICIRA, subtype), Needs::Refused, "{subtype}");
        }
        for subtype in [24, 29, 32] {
            assert_eq!(message(NICIRA, subtype), Needs::SwitchConfig, "{subtype}");
        }
        assert_eq!(message(NICIRA, 25), Needs::Nothing);
        assert_eq!([2300, 2301, 1870].map(|it| message(ONF, it)), [Needs::Refused; 3]);
        assert_eq!([message(ONF, 1), message(7, 13)], [Needs::Nothing; 2]);
        assert_eq!(of_message(Version::V1_3, NICIRA, &[]), Needs::Refused);
    }

    #[test]
    fn statistics_of_flows_are_found() {
        let of = |id, subtype: u32| of_statistics(Version::V1_0, id, &subtype.to_be_bytes());
        assert_eq!([0, 1].map(|it| of(NICIRA, it)), [Needs::FlowRead; 2]);
        assert_eq!(of(NICIRA, 2), Needs::Refused);
        assert_eq!([of(NICIRA, 3), of(7, 0), of(ONF, 1870)], [Needs::Nothing; 3]);
        let monitor = of_statistics(Version::V1_3, ONF, &1870_u32.to_be_bytes());
        assert_eq!(monitor, Needs::Refused);
        assert_eq!(of_statistics(Version::V1_0, NICIRA, &[]), Needs::Refused);
    }
}
