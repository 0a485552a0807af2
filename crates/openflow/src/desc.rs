//! What a switch says it is: the same five texts in every version.
//! OpenFlow 1.3.5 §7.3.5.1, OpenFlow 1.0.2 §5.3.5.

use crate::text::Text;
use crate::wire::{Wire, wire_struct};
use crate::{DecodeError, Reader, Writer};

/// The size of all five texts.
const SIZE: usize = 256 * 4 + 32;

/// The five texts as they came, borrowed: they are kilobytes of zeros as a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescBytes<'a>(&'a [u8; SIZE]);

impl<'a> DescBytes<'a> {
    /// The texts one after the other, each filled up with zeros.
    pub fn new(bytes: &'a [u8; SIZE]) -> Self {
        Self(bytes)
    }

    /// The five texts.
    pub fn text(self) -> DescText {
        // There are as many bytes as the texts take, so this does not fail.
        DescText::read(&mut Reader::new(self.0, 0), "desc").unwrap_or_default()
    }
}

impl<'a> Wire<'a> for DescBytes<'a> {
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
    /// What a switch says it is (`ofp_desc`).
    #[derive(Default)]
    pub struct DescText = "desc" {
        /// Who made it.
        mfr_desc: Text<256>,
        /// Its hardware.
        hw_desc: Text<256>,
        /// Its software.
        sw_desc: Text<256>,
        /// Its serial number.
        serial_num: Text<32>,
        /// The datapath, in words for people.
        dp_desc: Text<256>,
    }
}
