//! Fixed offsets of OpenFlow 1.5 packet-outs, whose in-port is in a match.
//!
//! OpenFlow 1.5.1 §7.3.6.
//!
//! ```text
//! packet-out   header 8 | buffer_id 4 | actions_len 2 | pad 2 | match | actions | frame
//! match        type 2 (1) | length 2 (12) | field head 4 | in_port 4 | pad 4
//! ```

use super::v1_3::outputs;
use super::{PacketOutFields, u16_at, u32_at};

/// Size of a packet-out whose match has only the in-port, without actions and frame.
const PACKET_OUT_SIZE: usize = 32;
/// Type and length of that match.
const MATCH: u32 = 0x0001_000c;
/// Head of the in-port.
const IN_PORT: u32 = 0x8000_0004;

/// Returns `None` if the message is no packet-out or has another shape.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn packet_out(message: &[u8]) -> Option<PacketOutFields<'_>> {
    let (head, rest) = message.split_first_chunk::<PACKET_OUT_SIZE>()?;
    let different = (u32_at(head, 16)? ^ MATCH) | (u32_at(head, 20)? ^ IN_PORT);
    if different != 0 || usize::from(u16_at(head, 2)?) != message.len() {
        return None;
    }
    let (actions, frame) = rest.split_at_checked(u16_at(head, 12)?.into())?;
    Some(PacketOutFields {
        buffer_id: u32_at(head, 8)?,
        in_port: u32_at(head, 24)?,
        out: outputs(actions)?,
        frame,
    })
}
