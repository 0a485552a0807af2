//! Flow tables: configuration, eviction and vacancy. OpenFlow 1.4.1 §7.3.3, §7.3.5.16, §7.4.5; 1.5.1 §7.3.3, §7.3.5.17,
//! §7.4.7.

use super::property::{Experimenter, Properties};
use crate::tlv::tlv_enum;
use crate::wire::{Pad, sized_struct, wire_struct};

wire_struct! {
    /// The body of a table-mod (`ofp_table_mod`).
    pub struct TableMod<'a> = "table_mod" {
        /// Table number; `0xff` means every table.
        table_id: u8,
        /// Padding.
        pad: Pad<3>,
        /// `ofp_table_config`.
        config: u32,
        /// Parameters of what `config` enables.
        properties: Properties<'a, TableModProperty<'a>>,
    }

    /// The body of a table-status message (`ofp_table_status`).
    pub struct TableStatus<'a> = "table_status" {
        /// `ofp_table_reason`.
        reason: u8,
        /// Padding.
        pad: Pad<7>,
        /// The table.
        table: TableDesc<'a>,
    }

    /// `ofp_table_mod_prop_vacancy`. Room is a percentage of the table's size.
    pub struct Vacancy = "table_mod_prop_vacancy" {
        /// The switch sends a table-status message when less room than this is left.
        vacancy_down: u8,
        /// The switch sends a table-status message when more room than this is left again.
        vacancy_up: u8,
        /// The room that is left; 0 in a table-mod.
        vacancy: u8,
        /// Padding.
        pad: Pad<1>,
    }
}

sized_struct! {
    /// Configuration of a table (`ofp_table_desc`).
    pub struct TableDesc<'a> = "table_desc" {
        before {}
        after {
            /// Table number.
            table_id: u8,
            /// Padding.
            pad: Pad<1>,
            /// `ofp_table_config`.
            config: u32,
            /// Parameters of what `config` enables.
            properties: Properties<'a, TableModProperty<'a>>,
        }
    }
}

tlv_enum! {
    /// A parameter of a table's configuration (`ofp_table_mod_prop_header`).
    pub enum TableModProperty<'a> = "table_mod_prop", align 1 {
        /// What determines which entries a switch evicts: `ofp_table_mod_prop_eviction_flag`.
        Eviction(u32) = 2,
        /// When the switch reports how much room is left.
        Vacancy(Vacancy) = 3,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}
