//! Fixed offsets of OpenFlow 1.0 flow-mods and packet-outs.
//!
//! OpenFlow 1.0.2 §5.3.3, §5.3.6.
//!
//! ```text
//! flow-mod     header 8 | wildcards 4 | in_port 2 | dl_src 6 | dl_dst 6 | 22 more of the match
//!              | cookie 8 | command 2 | timeouts, priority 6 | buffer_id 4 | out_port, flags 4
//!              | actions
//! packet-out   header 8 | buffer_id 4 | in_port 2 | actions_len 2 | actions | frame
//! output       type 2 (0) | length 2 (8) | port 2 | max_len 2
//! ```

use openflow::v1_0::port_from_wire;

use super::{
    ADDRESS, CommonFlowMod, Egress, FlowModFields, PacketOutFields, address_to_u64, le64_at,
    u16_at, u32_at,
};

const FLOW_MOD_SIZE: usize = 72;
const PACKET_OUT_SIZE: usize = 16;
const OUTPUT_SIZE: usize = 8;

/// Wildcard bits (`ofp_flow_wildcards`).
const IN_PORT: u32 = 1;
const DL_SRC: u32 = 1 << 2;
const DL_DST: u32 = 1 << 3;

/// Size of a flow-mod with one output, and the first four bytes of its header.
const COMMON_SIZE: usize = FLOW_MOD_SIZE + OUTPUT_SIZE;
const COMMON_HEAD: u32 = 0x010e_0050;
/// Type and length of an output.
const OUTPUT: u32 = 8;

/// Returns `None` for any other shape; see [`CommonFlowMod`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn common_flow_mod(message: &[u8]) -> Option<CommonFlowMod> {
    let message: &[u8; COMMON_SIZE] = message.try_into().ok()?;
    let different = (u32_at(message, 0)? ^ COMMON_HEAD)
        | (u32_at(message, 8)? & (IN_PORT | DL_SRC | DL_DST))
        | (u32_at(message, FLOW_MOD_SIZE)? ^ OUTPUT)
        // The command: add.
        | u32::from(u16_at(message, 56)?);
    if different != 0 || u16_at(message, 70)? > 7 {
        return None;
    }
    Some(CommonFlowMod {
        buffer_id: u32_at(message, 64)?,
        in_port: port(u16_at(message, 12)?),
        eth_src: le64_at(message, 14)? & ADDRESS,
        eth_dst: le64_at(message, 20)? & ADDRESS,
        out_port: port(u16_at(message, 76)?),
    })
}

/// Returns `None` if the message is no flow-mod or has another shape.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn flow_mod(message: &[u8]) -> Option<FlowModFields> {
    let (head, actions) = message.split_first_chunk::<FLOW_MOD_SIZE>()?;
    let wildcards = u32_at(head, 8)?;
    let src = *head.get(14..)?.first_chunk()?;
    let dst = *head.get(20..)?.first_chunk()?;
    let command = u16_at(head, 56)?;
    let whole = usize::from(u16_at(head, 2)?) == message.len();
    if !whole || command > 4 || u16_at(head, 70)? > 7 {
        return None;
    }
    Some(FlowModFields {
        deletes: command >= 3,
        buffer_id: u32_at(head, 64)?,
        in_port: if wildcards & IN_PORT == 0 { Some(port(u16_at(head, 12)?)) } else { None },
        eth_src: (wildcards & DL_SRC == 0).then(|| address_to_u64(src)),
        eth_dst: (wildcards & DL_DST == 0).then(|| address_to_u64(dst)),
        out: output(actions)?,
    })
}

/// Returns `None` if the message is no packet-out or has another shape.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
pub(super) fn packet_out(message: &[u8]) -> Option<PacketOutFields<'_>> {
    let (head, rest) = message.split_first_chunk::<PACKET_OUT_SIZE>()?;
    let (actions, frame) = rest.split_at_checked(u16_at(head, 14)?.into())?;
    if usize::from(u16_at(head, 2)?) != message.len() {
        return None;
    }
    Some(PacketOutFields {
        buffer_id: u32_at(head, 8)?,
        in_port: port(u16_at(head, 12)?),
        out: output(actions)?,
        frame,
    })
}

/// Decodes a single output or an empty list.
#[inline]
fn output(actions: &[u8]) -> Option<Egress> {
    if actions.is_empty() {
        return Some(Egress::Nowhere);
    }
    let action: &[u8; OUTPUT_SIZE] = actions.try_into().ok()?;
    let [0, 0, 0, 8, high, low, _, _] = *action else { return None };
    Some(Egress::to(port_from_wire(u16::from_be_bytes([high, low]))))
}

/// Maps a 16-bit port to the 32-bit number; reserved ports get the values of later versions.
#[inline]
fn port(port: u16) -> u32 {
    port_from_wire(port).0
}
