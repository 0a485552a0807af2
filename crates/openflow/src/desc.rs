//! What a switch says it is: the same five texts in every version.
//! OpenFlow 1.3.5 §7.3.5.1, OpenFlow 1.0.2 §5.3.5.

use crate::text::Text;
use crate::wire::Wire;
use crate::{DecodeError, Reader, Writer};

/// The sizes of the texts: manufacturer, hardware, software, serial number, datapath.
const SIZES: [usize; 5] = [256, 256, 256, 32, 256];
/// The size of all of them.
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
    pub(crate) fn text(self) -> DescText {
        let mut from = Reader::new(self.0, 0);
        let mut next = |size| from.take("desc", size).unwrap_or_default();
        let [mfr, hw, sw, serial, dp] = SIZES.map(|size| {
            let text = next(size).split(|&byte| byte == 0).next().unwrap_or_default();
            text.escape_ascii().to_string()
        });
        DescText { mfr_desc: mfr, hw_desc: hw, sw_desc: sw, serial_num: serial, dp_desc: dp }
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

/// What a switch says it is. Bytes that are not printable ASCII are escaped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DescText {
    /// Who made it; at most 255 bytes, as the others.
    pub mfr_desc: String,
    /// Its hardware.
    pub hw_desc: String,
    /// Its software.
    pub sw_desc: String,
    /// Its serial number; at most 31 bytes.
    pub serial_num: String,
    /// The datapath, in words for people.
    pub dp_desc: String,
}

impl DescText {
    /// Writes the texts, each cut to what fits with a zero after it.
    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        Text::<256>::new(&self.mfr_desc).write(to);
        Text::<256>::new(&self.hw_desc).write(to);
        Text::<256>::new(&self.sw_desc).write(to);
        Text::<32>::new(&self.serial_num).write(to);
        Text::<256>::new(&self.dp_desc).write(to);
    }
}
