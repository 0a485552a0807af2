//! Messages that either side may send: hello, error, experimenter. OpenFlow 1.3.5 §7.5.

use crate::tlv::tlv_enum;
use crate::wire::{List, Padded, wire_struct};

tlv_enum! {
    /// An element of a hello (`ofp_hello_elem_header`).
    pub enum HelloElement<'a> = "hello_elem", align 1 {
        /// The sender's versions: bit n of word w for version byte 32w + n.
        VersionBitmap(List<'a, u32>) = 1,
    }
}

wire_struct! {
    /// The body of a hello (`ofp_hello`).
    pub struct Hello<'a> = "hello" {
        /// Its elements.
        elements: List<'a, Padded<HelloElement<'a>>>,
    }

    /// The body of an error message (`ofp_error_msg`).
    pub struct ErrorMsg<'a> = "error_msg" {
        /// `ofp_error_type`.
        kind: u16,
        /// Error code, whose meaning depends on the type.
        code: u16,
        /// Usually the start of the rejected message; an experimenter's error starts with the
        /// experimenter id.
        data: &'a [u8],
    }

    /// The body of an experimenter message (`ofp_experimenter_header`).
    pub struct Experimenter<'a> = "experimenter" {
        /// Experimenter id.
        experimenter: u32,
        /// Experimenter-defined type.
        exp_type: u32,
        /// Data of the experimenter or vendor.
        data: &'a [u8],
    }
}
