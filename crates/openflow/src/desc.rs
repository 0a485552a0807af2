//! The description of a switch: the same five texts in every version.
//! OpenFlow 1.3.5 §7.3.5.1, OpenFlow 1.0.2 §5.3.5.

use crate::text::Text;
use crate::wire::{WireFormat, wire_struct};
use crate::{DecodeError, Reader, Writer};

/// Size of the five texts, in bytes.
const SIZE: usize = 256 * 4 + 32;

/// The five raw texts, borrowed because they are mostly zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescBytes<'a>(&'a [u8; SIZE]);

impl<'a> DescBytes<'a> {
    /// Wraps the concatenated texts, each padded with zeros.
    pub fn new(bytes: &'a [u8; SIZE]) -> Self {
        Self(bytes)
    }

    /// Returns the five texts.
    pub fn text(self) -> DescText {
        // The bytes have exactly the size of the texts, so reading cannot fail.
        DescText::read(&mut Reader::new(self.0, 0), "desc").unwrap_or_default()
    }
}

impl<'a> WireFormat<'a> for DescBytes<'a> {
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        let offset = from.offset();
        let have = from.left();
        let bytes = from.take(field, SIZE)?.first_chunk();
        bytes.map(Self).ok_or(DecodeError::Truncated { field, offset, need: SIZE, have })
    }
    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(self.0);
    }
}

wire_struct! {
    /// Description of a switch (`ofp_desc`).
    #[derive(Default)]
    pub struct DescText = "desc" {
        /// Manufacturer.
        mfr_desc: Text<256>,
        /// Hardware.
        hw_desc: Text<256>,
        /// Software.
        sw_desc: Text<256>,
        /// Serial number.
        serial_num: Text<32>,
        /// Description of the datapath for people.
        dp_desc: Text<256>,
    }
}
