//! Messages that either side may send: error, vendor. OpenFlow 1.0.2 §5.4.4, §5.5.4.

use crate::wire::wire_struct;

wire_struct! {
    /// The body of an error message (`ofp_error_msg`).
    pub struct ErrorMsg<'a> = "error_msg" {
        /// `ofp_error_type`.
        kind: u16,
        /// Error code, whose meaning depends on the type.
        code: u16,
        /// Usually the start of the rejected message.
        data: &'a [u8],
    }

    /// The body of a vendor message (`ofp_vendor_header`).
    pub struct Vendor<'a> = "vendor" {
        /// Experimenter id.
        vendor: u32,
        /// Data of the experimenter or vendor.
        data: &'a [u8],
    }
}
