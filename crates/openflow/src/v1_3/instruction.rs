//! Instructions of flow entries. OpenFlow 1.3.5 §7.2.4.
//!
//! [`Instruction`] is the table of OpenFlow 1.1 to 1.5 (1.1 §A.2.4, 1.2 §A.2.4, 1.4.1 §7.2.4, 1.5.1 §7.2.5).

use super::action::Action;
use crate::tlv::tlv_enum;
use crate::v1_5::instruction::StatTrigger;
use crate::wire::{List, Pad, wire_struct};

tlv_enum! {
    /// An instruction (`ofp_instruction_*`).
    pub enum Instruction<'a, V> = "instruction", align 8 {
        /// Continues in a later table.
        GotoTable(GotoTable) = 1,
        /// Writes the metadata that later tables see.
        WriteMetadata(WriteMetadata) = 2,
        /// Merges actions into the action set.
        WriteActions(Actions<'a, V>) = 3,
        /// Applies actions immediately, in order.
        ApplyActions(Actions<'a, V>) = 4,
        /// Empties the action set; it carries no actions.
        ClearActions(Actions<'a, V>) = 5,
        /// Sends the packet through a meter.
        Meter(u32) = 6 in 4..=5,
        /// Sends the entry's statistics when they reach thresholds.
        StatTrigger(StatTrigger<'a>) = 7 in 6..=6,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_instruction_goto_table`.
    pub struct GotoTable = "instruction_goto_table" {
        /// The next table.
        table_id: u8,
        /// Padding.
        pad: Pad<3>,
    }

    /// `ofp_instruction_write_metadata`.
    pub struct WriteMetadata = "instruction_write_metadata" {
        /// Padding.
        pad: Pad<4>,
        /// The bits to write.
        metadata: u64,
        /// Mask of the bits to write.
        metadata_mask: u64,
    }

    /// `ofp_instruction_actions`.
    pub struct Actions<'a, V> = "instruction_actions" {
        /// Padding.
        pad: Pad<4>,
        /// The actions.
        actions: List<'a, Action<'a, V>>,
    }

    /// `ofp_instruction_experimenter_header`.
    pub struct Experimenter<'a> = "instruction_experimenter" {
        /// Experimenter id.
        experimenter: u32,
        /// Data of the experimenter or vendor.
        data: &'a [u8],
    }
}
