//! Reads the wildcards of an OpenFlow 1.0 flow-mod in place (OpenFlow 1.0.2 §5.2.3).

use crate::{FlowModCommand, Header, Version};

/// `OFPFW_ALL`: the bits of the wildcards that have a meaning.
const WILDCARDS: u32 = (1 << 22) - 1;

/// Wildcards of all fields. An address does not count from 32 wildcarded bits on.
const ALL_FIELDS: u32 = 0x0030_00ff | 32 << 8 | 32 << 14;

/// Where a delete names the port that flows must output to, in bytes; `OFPP_NONE` and `OFPP_CONTROLLER`.
const OUT_PORT: usize = 68;
const NO_PORT: u16 = 0xffff;
const CONTROLLER: u16 = 0xfffd;

/// Whether the flows of a whole flow-mod precede all others because their match is exact.
///
/// That is so in OpenFlow 1.0 if the match has no wildcards (OpenFlow 1.0.2 §3.4). A number of wildcarded address bits of 32
/// and more means that the address does not count, so only 0 has none.
#[inline]
pub fn precedes_all_priorities(version: Version, message: &[u8]) -> bool {
    version == Version::V1_0 && wildcards(message).is_some_and(|bits| bits & WILDCARDS == 0)
}

/// Whether a whole flow-mod certainly deletes the flow that sends all packets to the controller: it covers all packets, and
/// the flows that output to the controller.
///
/// It is never certain in later versions, where table and cookie select flows, too.
pub fn deletes_table_miss(version: Version, command: FlowModCommand, message: &[u8]) -> bool {
    if version != Version::V1_0 || command != FlowModCommand::Delete {
        return false;
    }
    let fields = wildcards(message).unwrap_or(0);
    let port = message.get(OUT_PORT..).and_then(|rest| rest.first_chunk());
    let port = port.map(|bits| u16::from_be_bytes(*bits));
    fields & ALL_FIELDS == ALL_FIELDS && matches!(port, Some(NO_PORT | CONTROLLER))
}

#[inline]
fn wildcards(message: &[u8]) -> Option<u32> {
    let wildcards = message.get(Header::SIZE..).and_then(|body| body.first_chunk());
    wildcards.map(|bits| u32::from_be_bytes(*bits))
}
