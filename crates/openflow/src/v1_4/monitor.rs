//! Flow monitors: changes of flow entries that other controllers make. OpenFlow 1.4.1 §7.3.5.17, 1.5.1 §7.3.5.23.
//!
//! An update has one of three layouts, by its event:
//!
//! ```text
//!  0        2       4
//! +--------+-------+-----------------------------------------------+
//! | length | 0..=3 | entry: numbers, match, instructions           |
//! +--------+-------+-----------------------------------------------+
//! | length | 4     | xid of the controller's own request           |
//! +--------+-------+-----------------------------------------------+
//! | length | 5, 6  | pad                                           |
//! +--------+-------+-----------------------------------------------+
//! ```

use crate::v1_3::Match;
use crate::v1_3::instruction::Instruction;
use crate::wire::{List, Pad, WireFormat, read_sized, wire_struct};
use crate::{DecodeError, PortNo, Reader, Writer};

wire_struct! {
    /// A flow monitor to add, change or delete (`ofp_flow_monitor_request`).
    pub struct FlowMonitorRequest<'a> = "flow_monitor_request" {
        /// Number of the monitor, chosen by the controller.
        monitor_id: u32,
        /// Selects only entries that output to this port; [`PortNo::ANY`] disables the filter.
        out_port: PortNo,
        /// Selects only entries that use this group; `0xffffffff` disables the filter.
        out_group: u32,
        /// `ofp_flow_monitor_flags`.
        flags: u16,
        /// Table number; `0xff` means every table.
        table_id: u8,
        /// `ofp_flow_monitor_command`.
        command: u8,
        /// Selects only entries that this match covers.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
    }

    /// An entry that is present, was added, removed or changed (`ofp_flow_update_full`).
    pub struct FlowUpdateFull<'a, V> = "flow_update_full" {
        /// The entry's table.
        table_id: u8,
        /// Reason of a removal: `ofp_flow_removed_reason`.
        reason: u8,
        /// The entry's idle timeout, in seconds.
        idle_timeout: u16,
        /// The entry's hard timeout, in seconds.
        hard_timeout: u16,
        /// The entry's priority.
        priority: u16,
        /// Padding.
        pad: Pad<4>,
        /// The entry's cookie.
        cookie: u64,
        /// Its match.
        #[cfg_attr(feature = "serde", serde(rename = "match"))]
        match_: Match<'a>,
        /// Its instructions, if the monitor asks for them.
        instructions: List<'a, Instruction<'a, V>>,
    }
}

/// The events whose updates have an entry: initial, added, removed, modified.
const FULL: core::ops::RangeInclusive<u16> = 0..=3;
/// `OFPFME_ABBREV`.
const ABBREV: u16 = 4;
/// The events without further content: paused, resumed.
const PAUSE: core::ops::RangeInclusive<u16> = 5..=6;

/// An update of a flow monitor (`ofp_flow_update_header`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowUpdate<'a, const V: u8> {
    /// `ofp_flow_update_event`; determines the variant of `content`.
    pub event: u16,
    /// The content.
    pub content: UpdateContent<'a, V>,
}

/// The content of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum UpdateContent<'a, const V: u8> {
    /// An entry is present, was added, removed or changed.
    Full(FlowUpdateFull<'a, V>),
    /// The controller's own request with this xid changed entries (`ofp_flow_update_abbrev`).
    Abbreviated(u32),
    /// Updates pause because the switch has no room for them, or resume (`ofp_flow_update_paused`).
    Pause(Pad<4>),
    /// An event that the specification does not define, kept unchanged.
    Unknown(#[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))] &'a [u8]),
}

impl<'a, const V: u8> WireFormat<'a> for FlowUpdate<'a, V> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        const LENGTH: &str = "flow_update.length";
        let start = from.left();
        let mut body = read_sized(from, LENGTH, start)?;
        let event = body.u16("flow_update.event")?;
        let content = match event {
            ABBREV => UpdateContent::Abbreviated(body.u32("flow_update_abbrev.xid")?),
            _ if FULL.contains(&event) => {
                UpdateContent::Full(WireFormat::read(&mut body, "flow_update_full")?)
            }
            _ if PAUSE.contains(&event) => {
                UpdateContent::Pause(Pad::read(&mut body, "flow_update_paused.pad")?)
            }
            _ => UpdateContent::Unknown(body.rest()),
        };
        body.finish(LENGTH)?;
        Ok(Self { event, content })
    }
    fn write(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u16(0);
        to.u16(self.event);
        match &self.content {
            UpdateContent::Full(entry) => entry.write(to),
            UpdateContent::Abbreviated(xid) => to.u32(*xid),
            UpdateContent::Pause(pad) => pad.write(to),
            UpdateContent::Unknown(body) => to.bytes(body),
        }
        to.patch_size(start, start);
    }
}

#[cfg(feature = "serde")]
crate::json::as_field_of_versions!(FlowUpdate);
