//! Says which flows of a switch a flow-mod can add, change or delete.
//!
//! A switch does not always use the priority that a flow-mod states:
//!
//! | version | command | flows that it names or adds | and others |
//! | --- | --- | --- | --- |
//! | 1.0, 1.3 | add, modify strict, delete strict | of its match and priority | none |
//! | 1.0 | modify | of its priority, added if it finds none (OpenFlow 1.0.2 §4.6) | all that its match covers |
//! | 1.3 | modify | none | all that its match covers |
//! | 1.0, 1.3 | delete | none | all that its match covers |
//!
//! In OpenFlow 1.0 a flow whose match has no wildcards is above all others (OpenFlow 1.0.2 §3.4). Open vSwitch gives it
//! priority 65535, in every command, and decides so by the wildcards as received, before it normalises the match. Other
//! switches may compare the stated priority, so both count here.

use openflow::{FlowModCommand as Command, Header, Version};

use control::policy::{Band, TableSet};

/// `OFPFW_ALL`, OpenFlow 1.0.2 §5.2.3: the bits of the wildcards that have a meaning.
const WILDCARDS_1_0: u32 = (1 << 22) - 1;

/// Wildcards of all fields, OpenFlow 1.0.2 §5.2.3. An address does not count from 32 wildcarded bits on.
const ALL_FIELDS_1_0: u32 = 0x0030_00ff | 32 << 8 | 32 << 14;

/// Where an OpenFlow 1.0 delete names the port that flows must output to, in bytes; `OFPP_NONE` and `OFPP_CONTROLLER`.
const OUT_PORT_1_0: usize = 68;
const NO_PORT_1_0: u16 = 0xffff;
const CONTROLLER_1_0: u16 = 0xfffd;

/// Where a 1.3 flow-mod names its table, in bytes.
const TABLE_1_3: usize = 24;

/// The flows that a flow-mod can touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// The lowest and the highest priority at which it names a flow or adds one; `None` if it does neither.
    priorities: Option<(u16, u16)>,
    /// Whether it changes or deletes all flows that its match covers, whatever their priorities. Only a cookie mask
    /// narrows that.
    pub(super) covers_all: bool,
}

impl Reach {
    /// Of a flow-mod with this command and stated priority. `message` is the whole of it; its shape was checked.
    #[inline]
    pub(super) fn of(version: Version, command: Command, priority: u16, message: &[u8]) -> Self {
        let old = version == Version::V1_0;
        let covers_all = matches!(command, Command::Modify | Command::Delete);
        let is_named = !covers_all || old && command == Command::Modify;
        let highest = if old && is_exact_v1_0(message) { u16::MAX } else { priority };
        Self { priorities: is_named.then_some((priority, highest)), covers_all }
    }

    /// Whether each flow that it names or adds is in this band.
    #[inline]
    pub(super) fn keeps_to(self, band: Band) -> bool {
        self.priorities
            .is_none_or(|(lowest, highest)| band.lowest <= lowest && highest <= band.highest)
    }
}

/// The table into which a flow-mod with this command may put one more flow; `None` if it adds none.
///
/// In OpenFlow 1.0 a modify adds what it does not find (OpenFlow 1.0.2 §4.6), and a flow-mod names no table.
#[inline]
pub(super) fn adds_to(version: Version, command: Command, message: &[u8]) -> Option<u8> {
    match (version, command) {
        (Version::V1_0, Command::Add | Command::Modify | Command::ModifyStrict) => Some(0),
        (Version::V1_3, Command::Add) => message.get(TABLE_1_3).copied(),
        _ => None,
    }
}

/// The table whose flows a flow-mod with this command can touch; [`TableSet::ALL`] if it names none or all.
///
/// An OpenFlow 1.0 flow-mod names no table. Open vSwitch adds to table 0, and modifies and deletes in all tables.
#[inline]
pub(super) fn table(version: Version, command: Command, message: &[u8]) -> u8 {
    match (version, command) {
        (Version::V1_0, Command::Add) => 0,
        (Version::V1_0, _) => TableSet::ALL,
        (Version::V1_3, _) => message.get(TABLE_1_3).copied().unwrap_or(TableSet::ALL),
    }
}

/// Whether an OpenFlow 1.0 flow-mod deletes the table-miss entry: it covers all packets, and the flows that output to the
/// controller.
pub(super) fn deletes_all_v1_0(version: Version, command: Command, message: &[u8]) -> bool {
    if version != Version::V1_0 || command != Command::Delete {
        return false;
    }
    let fields = message.get(Header::SIZE..).and_then(|body| body.first_chunk());
    let fields = fields.map_or(0, |bits| u32::from_be_bytes(*bits));
    let port = message.get(OUT_PORT_1_0..).and_then(|rest| rest.first_chunk());
    let port = port.map(|bits| u16::from_be_bytes(*bits));
    fields & ALL_FIELDS_1_0 == ALL_FIELDS_1_0 && matches!(port, Some(NO_PORT_1_0 | CONTROLLER_1_0))
}

/// Whether the match of an OpenFlow 1.0 flow-mod has no wildcards.
///
/// A number of wildcarded address bits of 32 and more means that the address does not count, so only 0 has none.
#[inline]
fn is_exact_v1_0(message: &[u8]) -> bool {
    let wildcards = message.get(Header::SIZE..).and_then(|body| body.first_chunk());
    wildcards.is_some_and(|bits| u32::from_be_bytes(*bits) & WILDCARDS_1_0 == 0)
}
