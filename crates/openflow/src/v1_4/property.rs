//! What all properties share. OpenFlow 1.4.1 §7.2.8, 1.5.1 §7.2.9.
//!
//! ```text
//!  0      2        4
//! +------+--------+------------------+---------------------+
//! | type | length | as the type says | pad to a multiple   |
//! |      |        |                  | of 8, not in length |
//! +------+--------+------------------+---------------------+
//! ```
//!
//! The content of type `0xffff` is an experimenter's in every list of properties.

use crate::tlv::tlv_enum;
use crate::wire::{List, Padded, wire_struct};

wire_struct! {
    /// The content of an experimenter's property (`ofp_prop_experimenter`).
    pub struct Experimenter<'a> = "property_experimenter" {
        /// Experimenter id.
        experimenter: u32,
        /// Experimenter-defined type.
        exp_type: u32,
        /// Data of the experimenter or vendor.
        data: &'a [u8],
    }
}

tlv_enum! {
    /// A property in a list that has only experimenters' properties.
    pub enum Property<'a> = "property", align 1 {
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

/// Properties, each with its padding.
pub type Properties<'a, P = Property<'a>> = List<'a, Padded<P>>;
