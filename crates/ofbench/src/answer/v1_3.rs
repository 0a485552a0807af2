//! Fixed offsets of flow-mods of OpenFlow 1.2 to 1.5 and of packet-outs of OpenFlow 1.1 to 1.4.
//!
//! OpenFlow 1.3.5 §7.3.4.1, §7.3.7, §7.2.3, §7.2.4, §7.2.5. From OpenFlow 1.4 on the last two bytes before the match are the
//! importance of the flow (1.4.1 §7.3.4.1), which no answer depends on.
//!
//! ```text
//! flow-mod     header 8 | cookie, mask 16 | table 1 | command 1 | timeouts, priority 6 | buffer_id 4
//!              | out_port, out_group 8 | flags, pad 4 | match | instructions
//! match        type 2 (1) | length 2 | fields | zeros up to a multiple of 8
//! field        class 2 (0x8000) | number, mask bit 1 | length 1 | value
//! instruction  type 2 (apply: 4) | length 2 | pad 4 | actions
//! packet-out   header 8 | buffer_id 4 | in_port 4 | actions_len 2 | pad 6 | actions | frame
//! output       type 2 (0) | length 2 (16) | port 4 | max_len 2 | pad 6
//! ```
//!
//! The parameter `V` of the functions about flow-mods is the version byte.

use openflow::PortNo;

use super::{
    ADDRESS, CommonFlowMod, Egress, FlowModFields, PacketOutFields, address_to_u64, le64_at,
    u16_at, u32_at,
};

/// Size of a flow-mod without match and instructions. OpenFlow 1.1 has the same fields before its match.
pub(super) const FLOW_MOD_SIZE: usize = 48;
const PACKET_OUT_SIZE: usize = 24;
pub(super) const OUTPUT_SIZE: usize = 16;

/// Heads of fields without a mask.
const IN_PORT: u32 = 0x8000_0004;
const ETH_DST: u32 = 0x8000_0606;
const ETH_SRC: u32 = 0x8000_0806;

/// Head of an instruction that applies one output.
pub(super) const APPLY_OUTPUT: u32 = 0x0004_0018;
/// Head of an output.
pub(super) const OUTPUT: u32 = 0x0000_0010;

/// Size of a flow-mod with this match and one output, and the last three of the first four bytes of its header.
const COMMON_SIZE: usize = FLOW_MOD_SIZE + 32 + 8 + OUTPUT_SIZE;
const COMMON_HEAD: u32 = 0x0e_0068;
/// Type and length of a match of in-port, destination and source, in the canonical order.
const MATCH: u32 = 0x0001_0020;

/// Returns the flags that a version defines (`ofp_flow_mod_flags`): OpenFlow 1.3 added two. OpenFlow 1.2 §A.3.4.1.
const fn flags<const V: u8>() -> u16 {
    if V < 4 { 0x7 } else { 0x1f }
}

/// Returns `None` for any other shape; see [`CommonFlowMod`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn common_flow_mod<const V: u8>(message: &[u8]) -> Option<CommonFlowMod> {
    let message: &[u8; COMMON_SIZE] = message.try_into().ok()?;
    let different = (u32_at(message, 0)? ^ (u32::from(V) << 24 | COMMON_HEAD))
        | (u32_at(message, 48)? ^ MATCH)
        | (u32_at(message, 52)? ^ IN_PORT)
        | (u32_at(message, 60)? ^ ETH_DST)
        | (u32_at(message, 70)? ^ ETH_SRC)
        | (u32_at(message, 80)? ^ APPLY_OUTPUT)
        | (u32_at(message, 88)? ^ OUTPUT)
        // The command: add.
        | u32::from(message[25]);
    if different != 0 || u16_at(message, 44)? > flags::<V>() {
        return None;
    }
    Some(CommonFlowMod {
        buffer_id: u32_at(message, 32)?,
        in_port: u32_at(message, 56)?,
        eth_src: le64_at(message, 74)? & ADDRESS,
        eth_dst: le64_at(message, 64)? & ADDRESS,
        out_port: u32_at(message, 92)?,
    })
}

/// Returns `None` if the message is no flow-mod or has another shape.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn flow_mod<const V: u8>(message: &[u8]) -> Option<FlowModFields> {
    let (head, rest) = message.split_first_chunk::<FLOW_MOD_SIZE>()?;
    let whole = usize::from(u16_at(head, 2)?) == message.len();
    if !whole || head[25] > 4 || u16_at(head, 44)? > flags::<V>() || u16_at(rest, 0)? != 1 {
        return None;
    }
    let match_size = usize::from(u16_at(rest, 2)?);
    let (match_, instructions) = rest.split_at_checked(match_size.next_multiple_of(8))?;
    let mut fields = match_.get(4..match_size)?;
    let mut flow = FlowModFields {
        deletes: head[25] >= 3,
        buffer_id: u32_at(head, 32)?,
        in_port: None,
        eth_src: None,
        eth_dst: None,
        out: output_of(instructions)?,
    };
    while !fields.is_empty() {
        // The codec handles other fields and repeated ones.
        let value = fields.get(4..)?;
        let size = match u32_at(fields, 0)? {
            IN_PORT if flow.in_port.is_none() => {
                flow.in_port = Some(u32_at(value, 0)?);
                8
            }
            ETH_DST if flow.eth_dst.is_none() => {
                flow.eth_dst = Some(address_to_u64(*value.first_chunk()?));
                10
            }
            ETH_SRC if flow.eth_src.is_none() => {
                flow.eth_src = Some(address_to_u64(*value.first_chunk()?));
                10
            }
            _ => return None,
        };
        fields = fields.get(size..)?;
    }
    Some(flow)
}

/// Returns `None` if the message is no packet-out or has another shape.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn packet_out(message: &[u8]) -> Option<PacketOutFields<'_>> {
    let (head, rest) = message.split_first_chunk::<PACKET_OUT_SIZE>()?;
    let (actions, frame) = rest.split_at_checked(u16_at(head, 16)?.into())?;
    if usize::from(u16_at(head, 2)?) != message.len() {
        return None;
    }
    let out = outputs(actions)?;
    Some(PacketOutFields { buffer_id: u32_at(head, 8)?, in_port: u32_at(head, 12)?, out, frame })
}

/// Decodes a single "apply this output" instruction or an empty list.
#[inline]
pub(super) fn output_of(instructions: &[u8]) -> Option<Egress> {
    if instructions.is_empty() {
        return Some(Egress::Nowhere);
    }
    if u32_at(instructions, 0)? != APPLY_OUTPUT {
        return None;
    }
    output(instructions.get(8..)?)
}

/// Decodes a single output or an empty list.
#[inline]
pub(super) fn outputs(actions: &[u8]) -> Option<Egress> {
    if actions.is_empty() { Some(Egress::Nowhere) } else { output(actions) }
}

/// Decodes a single output.
#[inline]
fn output(actions: &[u8]) -> Option<Egress> {
    let action: &[u8; OUTPUT_SIZE] = actions.try_into().ok()?;
    if u32_at(action, 0)? != OUTPUT {
        return None;
    }
    Some(Egress::to(PortNo(u32_at(action, 4)?)))
}
