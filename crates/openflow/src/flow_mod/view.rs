//! A flow-mod that is only looked at: what stands in it, without a [`Match`](crate::Match) made of
//! its match.

use super::{FlowModCommand, FlowModFlags, NO_BUFFER};
use crate::header::open;
use crate::instruction::Instructions;
use crate::matching::{Field, Match};
use crate::oxm::{OPENFLOW_BASIC, basic_size};
use crate::wire::Wire;
use crate::{DecodeError, Header, Kind, Version, v1_0, v1_3};

/// What a flow-mod says, as far as a proxy or a guard asks; see [`FlowMod`](super::FlowMod) for
/// the meaning of each.
///
/// Reading one takes about half the time of [`FlowMod::decode`](super::FlowMod::decode), which
/// accepts exactly the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowModView<'a> {
    /// What it does.
    pub command: FlowModCommand,
    /// Its cookie.
    pub cookie: u64,
    /// Which bits of it count. 0 in OpenFlow 1.0.
    pub cookie_mask: u64,
    /// Its priority.
    pub priority: u16,
    /// A packet that the switch holds.
    pub buffer_id: Option<u32>,
    /// Whether its match has a field that has no name here: [`Field::Opaque`].
    pub has_opaque_field: bool,
    /// What happens to the packets.
    pub instructions: Instructions<'a>,
}

impl<'a> FlowModView<'a> {
    /// Reads a whole flow-mod of any version.
    ///
    /// # Errors
    /// As [`FlowMod::decode`](super::FlowMod::decode).
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::FlowMod)?;
        let decoded = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::FlowMod::read(&mut body, "flow_mod")?),
            Version::V1_3 => Self::from_v1_3(&v1_3::FlowMod::read(&mut body, "flow_mod")?),
        }?;
        body.finish("flow_mod")?;
        Ok(decoded)
    }

    fn from_v1_0(wire: &v1_0::FlowMod<'a>) -> Result<Self, DecodeError> {
        FlowModFlags::from_v1_0(wire.flags, Header::SIZE + 62)?;
        Ok(Self {
            command: FlowModCommand::from_wire(wire.command, Header::SIZE + 48)?,
            cookie: wire.cookie,
            cookie_mask: 0,
            priority: wire.priority,
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            has_opaque_field: false,
            instructions: Instructions { apply: wire.actions.into(), ..Instructions::default() },
        })
    }

    fn from_v1_3(wire: &v1_3::FlowMod<'a>) -> Result<Self, DecodeError> {
        const MATCH_AT: usize = Header::SIZE + 40;
        FlowModFlags::from_v1_3(wire.flags, Header::SIZE + 36)?;
        Ok(Self {
            command: FlowModCommand::from_wire(wire.command.into(), Header::SIZE + 17)?,
            cookie: wire.cookie,
            cookie_mask: wire.cookie_mask,
            priority: wire.priority,
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            has_opaque_field: has_opaque_field(&wire.match_, MATCH_AT)?,
            instructions: Instructions::from_v1_3(wire.instructions, MATCH_AT)?,
        })
    }
}

/// `at` is where the match stands in its message.
fn has_opaque_field(match_: &v1_3::Match<'_>, at: usize) -> Result<bool, DecodeError> {
    if match_.fields.received().is_some_and(are_usual) {
        return Ok(false);
    }
    let match_ = Match::from_v1_3(match_, at)?;
    Ok(match_.fields().any(|field| matches!(field, Field::Opaque(_))))
}

/// Whether these OXMs, whose lengths were checked, are fields of the specification without masks,
/// in ascending order, and so none comes twice.
fn are_usual(mut oxms: &[u8]) -> bool {
    const BASIC: [u8; 2] = OPENFLOW_BASIC.to_be_bytes();
    let mut least = 0;
    while let Some(([a, b, field, length], rest)) = oxms.split_first_chunk() {
        let (number, has_mask) = (field >> 1, field & 1 != 0);
        let usual = [*a, *b] == BASIC && !has_mask && number >= least;
        let Some(rest) = rest.get(usize::from(*length)..) else { return false };
        if !usual || basic_size(number).is_none() {
            return false;
        }
        (least, oxms) = (number + 1, rest);
    }
    oxms.is_empty()
}
