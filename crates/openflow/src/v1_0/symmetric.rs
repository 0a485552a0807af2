//! Messages that either side sends: error, vendor. OpenFlow 1.0.2 §5.4.4, §5.5.4.

use crate::wire::wire_struct;

wire_struct! {
    /// The body of an error message (`ofp_error_msg`).
    pub struct ErrorMsg<'a> = "error_msg" {
        /// `ofp_error_type`.
        kind: u16,
        /// What it means depends on the type.
        code: u16,
        /// Usually the start of the message that failed.
        data: &'a [u8],
    }

    /// The body of a vendor message (`ofp_vendor_header`).
    pub struct Vendor<'a> = "vendor" {
        /// Whose it is.
        vendor: u32,
        /// What it says.
        data: &'a [u8],
    }
}
