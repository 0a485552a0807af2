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

use openflow::{FlowModCommand as Command, Version, precedes_all_priorities};

use control::policy::{Band, TableSet};

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
        let covers_all = matches!(command, Command::Modify | Command::Delete);
        let adds = version.features().modify_adds && command == Command::Modify;
        let is_named = !covers_all || adds;
        let highest = if precedes_all_priorities(version, message) { u16::MAX } else { priority };
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
    let adds = match command {
        Command::Add => true,
        Command::Modify | Command::ModifyStrict => version.features().modify_adds,
        Command::Delete | Command::DeleteStrict => false,
    };
    match version.layout().flow_mod_table {
        _ if !adds => None,
        None => Some(0),
        Some(at) => message.get(usize::from(at)).copied(),
    }
}

/// The table whose flows a flow-mod with this command can touch; [`TableSet::ALL`] if it names none or all.
///
/// An OpenFlow 1.0 flow-mod names no table. Open vSwitch adds to table 0, and modifies and deletes in all tables.
#[inline]
pub(super) fn table(version: Version, command: Command, message: &[u8]) -> u8 {
    match version.layout().flow_mod_table {
        None if command == Command::Add => 0,
        None => TableSet::ALL,
        Some(at) => message.get(usize::from(at)).copied().unwrap_or(TableSet::ALL),
    }
}
