//! Fixed offsets of OpenFlow 1.1 flow-mods, whose match has a fixed set of fields.
//!
//! OpenFlow 1.1.0 §A.3.4.1, §A.2.3. Bits of 1 in a mask do not count, unlike in later versions.
//!
//! ```text
//! flow-mod     header 8 | cookie, mask 16 | table 1 | command 1 | timeouts, priority 6 | buffer_id 4
//!              | out_port, out_group 8 | flags, pad 4 | match 88 | instructions
//! match        type 2 (0) | length 2 (88) | in_port 4 | wildcards 4 | dl_src 6 | mask 6 | dl_dst 6 | mask 6
//!              | 48 more
//! ```

use super::v1_3::{APPLY_OUTPUT, FLOW_MOD_SIZE, OUTPUT, OUTPUT_SIZE, output_of};
use super::{ADDRESS, CommonFlowMod, FlowModFields, le64_at, u16_at, u32_at};

/// Size of a flow-mod without instructions.
const WITH_MATCH: usize = FLOW_MOD_SIZE + 88;
/// Size of a flow-mod with one output, and the first four bytes of its header.
const COMMON_SIZE: usize = WITH_MATCH + 8 + OUTPUT_SIZE;
const COMMON_HEAD: u32 = 0x020e_00a0;
/// Type and length of the match.
const MATCH: u32 = 88;
/// Wildcard bit of the in-port (`ofp_flow_wildcards`).
const IN_PORT: u32 = 1;
/// The flags that the version defines (`ofp_flow_mod_flags`).
const FLAGS: u16 = 0x3;

/// Returns `None` for any other shape; see [`CommonFlowMod`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn common_flow_mod(message: &[u8]) -> Option<CommonFlowMod> {
    let message: &[u8; COMMON_SIZE] = message.try_into().ok()?;
    let different = (u32_at(message, 0)? ^ COMMON_HEAD)
        | (u32_at(message, 48)? ^ MATCH)
        | (u32_at(message, 56)? & IN_PORT)
        | (u32_at(message, WITH_MATCH)? ^ APPLY_OUTPUT)
        | (u32_at(message, WITH_MATCH + 8)? ^ OUTPUT)
        // The command: add.
        | u32::from(message[25]);
    let masks = (le64_at(message, 66)? | le64_at(message, 78)?) & ADDRESS;
    if different != 0 || masks != 0 || u16_at(message, 44)? > FLAGS {
        return None;
    }
    Some(CommonFlowMod {
        buffer_id: u32_at(message, 32)?,
        in_port: u32_at(message, 52)?,
        eth_src: le64_at(message, 60)? & ADDRESS,
        eth_dst: le64_at(message, 72)? & ADDRESS,
        out_port: u32_at(message, WITH_MATCH + 12)?,
    })
}

/// Returns `None` if the message is no flow-mod or has another shape.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn flow_mod(message: &[u8]) -> Option<FlowModFields> {
    let (head, instructions) = message.split_first_chunk::<WITH_MATCH>()?;
    let whole = usize::from(u16_at(head, 2)?) == message.len();
    if !whole || head[25] > 4 || u16_at(head, 44)? > FLAGS || u32_at(head, 48)? != MATCH {
        return None;
    }
    let in_port = (u32_at(head, 56)? & IN_PORT == 0).then_some(u32_at(head, 52)?);
    Some(FlowModFields {
        deletes: head[25] >= 3,
        buffer_id: u32_at(head, 32)?,
        in_port,
        eth_src: address(le64_at(head, 60)?, le64_at(head, 66)?),
        eth_dst: address(le64_at(head, 72)?, le64_at(head, 78)?),
        out: output_of(instructions)?,
    })
}

/// Returns an address without a mask. The upper two bytes of both numbers are other fields.
#[inline]
fn address(address: u64, mask: u64) -> Option<u64> {
    (mask & ADDRESS == 0).then_some(address & ADDRESS)
}
