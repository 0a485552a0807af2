//! Flow monitors. From OpenFlow 1.4 on.
//!
//! OpenFlow 1.4.1 §6.9, §7.3.5.17.

use crate::instruction::{Instructions, Lists, OfVersion};
use crate::matching::Match;
use crate::port::bits;
use crate::v1_4::monitor::{self, UpdateContent};
use crate::wire::{Pad, WireFormat};
use crate::{DecodeError, EncodeError, FlowMod, FlowRemovedReason, PortNo, Version, Writer, v1_3};

bits! {
    /// Which changes a flow monitor reports, and how (`ofp_flow_monitor_flags`).
    pub struct FlowMonitorFlags(u16) {
        /// Entries that are present when the monitor is added.
        INITIAL = 1 << 0;
        /// Added entries.
        ADD = 1 << 1;
        /// Removed entries.
        REMOVED = 1 << 2;
        /// Changed entries.
        MODIFY = 1 << 3;
        /// Updates have instructions.
        INSTRUCTIONS = 1 << 4;
        /// Changes by the controller itself are reported in full.
        NO_ABBREV = 1 << 5;
        /// Only changes by the controller itself are reported.
        ONLY_OWN = 1 << 6;
    }
}

/// The command of a request about a flow monitor (`ofp_flow_monitor_command`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum FlowMonitorCommand {
    /// Adds it.
    Add,
    /// Changes it.
    Modify,
    /// Deletes it.
    Delete,
    /// A number that the specification does not define.
    Other(u8),
}

impl FlowMonitorCommand {
    fn from_wire(found: u8) -> Self {
        match found {
            0 => Self::Add,
            1 => Self::Modify,
            2 => Self::Delete,
            other => Self::Other(other),
        }
    }

    fn wire(self) -> u8 {
        match self {
            Self::Add => 0,
            Self::Modify => 1,
            Self::Delete => 2,
            Self::Other(other) => other,
        }
    }
}

/// A flow monitor to add, change or delete.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowMonitorRequest {
    /// Number of the monitor, chosen by the controller.
    pub monitor_id: u32,
    /// The command.
    pub command: FlowMonitorCommand,
    /// Which changes it reports, and how.
    pub flags: FlowMonitorFlags,
    /// Table number; [`FlowMod::ALL_TABLES`] means every table.
    pub table_id: u8,
    /// Selects only entries that output to this port; [`PortNo::ANY`] disables the filter.
    pub out_port: PortNo,
    /// Selects only entries that use this group; [`FlowMod::ANY_GROUP`] disables the filter.
    pub out_group: u32,
    /// Selects only entries that this match covers.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
}

impl FlowMonitorRequest {
    /// Adds a monitor of every entry of every table covered by the match.
    pub fn add(monitor_id: u32, flags: FlowMonitorFlags, match_: Match) -> Self {
        Self {
            monitor_id,
            command: FlowMonitorCommand::Add,
            flags,
            table_id: FlowMod::ALL_TABLES,
            out_port: PortNo::ANY,
            out_group: FlowMod::ANY_GROUP,
            match_,
        }
    }

    pub(super) fn from_v1_4(
        wire: &monitor::FlowMonitorRequest<'_>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            monitor_id: wire.monitor_id,
            command: FlowMonitorCommand::from_wire(wire.command),
            flags: FlowMonitorFlags(wire.flags),
            table_id: wire.table_id,
            out_port: wire.out_port,
            out_group: wire.out_group,
            match_: Match::from_v1_3(&wire.match_, at)?,
        })
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) {
        let fields = self.match_.to_bytes();
        monitor::FlowMonitorRequest {
            monitor_id: self.monitor_id,
            out_port: self.out_port,
            out_group: self.out_group,
            flags: self.flags.0,
            table_id: self.table_id,
            command: self.command.wire(),
            match_: v1_3::Match::of(&fields),
        }
        .write(to);
    }
}

/// What happened to an entry (`ofp_flow_update_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum FlowEvent {
    /// It was present when the monitor was added.
    Initial,
    /// It was added.
    Added,
    /// It was removed.
    Removed,
    /// Its instructions changed.
    Modified,
}

/// An update of a flow monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum FlowUpdate<'a> {
    /// An entry is present, was added, removed or changed.
    Full(Box<FlowChange<'a>>),
    /// The controller's own request with this transaction id changed entries.
    Abbreviated(u32),
    /// No updates follow until [`FlowUpdate::Resumed`], because the switch has no room for them.
    Paused,
    /// Updates follow again.
    Resumed,
}

/// A changed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowChange<'a> {
    /// What happened to it.
    pub event: FlowEvent,
    /// Its table.
    pub table_id: u8,
    /// Reason of a removal.
    pub reason: FlowRemovedReason,
    /// Its idle timeout, in seconds; 0 is none.
    pub idle_timeout: u16,
    /// Its hard timeout, in seconds; 0 is none.
    pub hard_timeout: u16,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// The match.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub match_: Match,
    /// Treatment of matching packets, if the monitor asks for it.
    pub instructions: Instructions<'a>,
}

impl<'a> FlowUpdate<'a> {
    pub(super) fn from_v1_4<const V: u8>(
        wire: &monitor::FlowUpdate<'a, V>,
        at: usize,
    ) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        let event = match wire.event {
            0 => FlowEvent::Initial,
            1 => FlowEvent::Added,
            2 => FlowEvent::Removed,
            _ => FlowEvent::Modified,
        };
        Ok(match wire.content {
            UpdateContent::Full(entry) => Self::Full(Box::new(FlowChange {
                event,
                table_id: entry.table_id,
                reason: FlowRemovedReason::from_wire(entry.reason),
                idle_timeout: entry.idle_timeout,
                hard_timeout: entry.hard_timeout,
                priority: entry.priority,
                cookie: entry.cookie,
                match_: Match::from_v1_3(&entry.match_, at)?,
                instructions: Instructions::from_wire(entry.instructions, at)?,
            })),
            UpdateContent::Abbreviated(xid) => Self::Abbreviated(xid),
            UpdateContent::Pause(_) if wire.event == PAUSED => Self::Paused,
            UpdateContent::Pause(_) => Self::Resumed,
            UpdateContent::Unknown(_) => {
                return Err(DecodeError::BadValue {
                    field: "flow_update.event",
                    offset: at,
                    found: wire.event.into(),
                    expected: "0 (initial) to 6 (resumed)",
                });
            }
        })
    }

    pub(super) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let start = to.position();
        to.u16(0);
        match self {
            Self::Full(change) => change.write(version, to)?,
            Self::Abbreviated(xid) => {
                to.u16(4);
                to.u32(*xid);
            }
            Self::Paused => {
                to.u16(PAUSED);
                to.zeros(4);
            }
            Self::Resumed => {
                to.u16(6);
                to.zeros(4);
            }
        }
        to.patch_size(start, start);
        Ok(())
    }
}

/// `OFPFME_PAUSED`.
const PAUSED: u16 = 5;

impl FlowChange<'_> {
    fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        to.u16(match self.event {
            FlowEvent::Initial => 0,
            FlowEvent::Added => 1,
            FlowEvent::Removed => 2,
            FlowEvent::Modified => 3,
        });
        to.u8(self.table_id);
        to.u8(self.reason.wire());
        to.u16(self.idle_timeout);
        to.u16(self.hard_timeout);
        to.u16(self.priority);
        Pad([0; 4]).write(to);
        to.u64(self.cookie);
        v1_3::matching::write_with(to, |to| self.match_.write_oxms(to));
        self.instructions.write(version, to)
    }
}
