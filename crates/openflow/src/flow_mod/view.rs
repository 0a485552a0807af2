//! A read-only view of a flow-mod that does not build a [`Match`](crate::Match).

use super::{COMMAND_AT, FLAGS_AT, FlowModCommand, FlowModFlags, MATCH_AT, NO_BUFFER};
use crate::header::open;
use crate::instruction::{Instructions, Lists, OfVersion};
use crate::matching::{Field, Match};
use crate::oxm::{OPENFLOW_BASIC, basic_size};
use crate::v1_0::matching::wildcard::DL_TYPE;
use crate::v1_3::matching::read_parts;
use crate::wire::{List, WireFormat, read_apart};
use crate::{DecodeError, Header, Kind, Reader, Version, v1_0, v1_1, v1_3, v1_4};

/// The fields of a flow-mod that a proxy or a guard checks; see [`FlowMod`](super::FlowMod) for
/// their meaning.
///
/// Decoding a view takes about half the time of [`FlowMod::decode`](super::FlowMod::decode), which
/// accepts exactly the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowModView<'a> {
    /// The command.
    pub command: FlowModCommand,
    /// Its cookie.
    pub cookie: u64,
    /// Mask of the cookie. 0 in OpenFlow 1.0.
    pub cookie_mask: u64,
    /// Its priority.
    pub priority: u16,
    /// Id of a buffered packet.
    pub buffer_id: Option<u32>,
    /// Its flags.
    pub flags: FlowModFlags,
    /// Ethertype in its match, if present.
    pub eth_type: Option<u16>,
    /// Whether its match contains a [`Field::Opaque`].
    pub has_opaque_field: bool,
    /// Treatment of matching packets.
    pub instructions: Instructions<'a>,
}

impl<'a> FlowModView<'a> {
    /// Decodes a whole flow-mod of any version.
    ///
    /// # Errors
    /// Like [`FlowMod::decode`](super::FlowMod::decode).
    #[inline]
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::FlowMod)?;
        let body = &mut body;
        match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::FlowMod::read(body, "flow_mod")?),
            Version::V1_1 => {
                read_apart(body, |body| Self::from_v1_1(&v1_1::FlowMod::read(body, "flow_mod")?))
            }
            Version::V1_2 => read_apart(body, Self::read_since_1_2::<3>),
            Version::V1_3 => Self::read_since_1_2::<4>(body),
            Version::V1_4 => read_apart(body, Self::read_since_1_2::<5>),
            Version::V1_5 => read_apart(body, Self::read_since_1_2::<6>),
        }
    }

    #[inline]
    fn from_v1_0(wire: &v1_0::FlowMod<'a>) -> Result<Self, DecodeError> {
        let flags = FlowModFlags::from_v1_0(wire.flags, Header::SIZE + 62)?;
        Ok(Self {
            command: FlowModCommand::from_wire(wire.command, Header::SIZE + 48)?,
            cookie: wire.cookie,
            cookie_mask: 0,
            priority: wire.priority,
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            flags,
            eth_type: Some(wire.match_.dl_type).filter(|_| wire.match_.wildcards & DL_TYPE == 0),
            has_opaque_field: false,
            instructions: Instructions { apply: wire.actions.into(), ..Instructions::default() },
        })
    }

    fn from_v1_1(wire: &v1_1::FlowMod<'a>) -> Result<Self, DecodeError> {
        let has_type = wire.match_.wildcards & v1_1::matching::wildcard::DL_TYPE == 0;
        Ok(Self {
            command: FlowModCommand::from_wire(wire.command.into(), COMMAND_AT)?,
            cookie: wire.cookie,
            cookie_mask: wire.cookie_mask,
            priority: wire.priority,
            buffer_id: (wire.buffer_id != NO_BUFFER).then_some(wire.buffer_id),
            flags: FlowModFlags::from_wire::<2>(wire.flags, FLAGS_AT)?,
            eth_type: Some(wire.match_.dl_type).filter(|_| has_type),
            has_opaque_field: false,
            instructions: Instructions::from_wire(wire.instructions, MATCH_AT)?,
        })
    }

    /// Reads the body of the version byte `V` in the order of [`v1_3::FlowMod`]. Later versions have the importance, which is
    /// not in a view, in place of its padding.
    #[expect(clippy::inline_always, reason = "the caller uses the fields in registers")]
    #[inline(always)]
    fn read_since_1_2<const V: u8>(body: &mut Reader<'a>) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        let Some(head) = body.peek().first_chunk::<40>() else {
            return Err(cut::<V>(body));
        };
        body.take("flow_mod", head.len())?;
        let mut head = Reader::new(head, Header::SIZE);
        let (cookie, cookie_mask) =
            (head.u64("flow_mod.cookie")?, head.u64("flow_mod.cookie_mask")?);
        head.u8("flow_mod.table_id")?;
        let command = head.u8("flow_mod.command")?.into();
        head.u32("flow_mod.timeouts")?;
        let priority = head.u16("flow_mod.priority")?;
        let buffer_id = head.u32("flow_mod.buffer_id")?;
        head.u64("flow_mod.out")?;
        let flags = head.u16("flow_mod.flags")?;
        let (fields, _) = read_parts(body)?;
        let (eth_type, has_opaque_field) = look_at(fields, MATCH_AT)?;
        let instructions = Instructions::read::<V>(body, MATCH_AT)?;
        Ok(Self {
            command: FlowModCommand::from_wire(command, COMMAND_AT)?,
            cookie,
            cookie_mask,
            priority,
            buffer_id: (buffer_id != NO_BUFFER).then_some(buffer_id),
            flags: FlowModFlags::from_wire::<V>(flags, FLAGS_AT)?,
            eth_type,
            has_opaque_field,
            instructions,
        })
    }
}

/// The error of a body that ends before its match, which names the missing field.
#[cold]
fn cut<const V: u8>(body: &mut Reader<'_>) -> DecodeError {
    let (field, offset, have) = ("flow_mod", body.offset(), body.left());
    let whole = if V < 5 {
        v1_3::flow_mod::FlowMod::<V>::read(body, field).err()
    } else {
        v1_4::flow_mod::FlowMod::<V>::read(body, field).err()
    };
    whole.unwrap_or(DecodeError::Truncated { field, offset, need: 40, have })
}

/// Returns the ethertype of a match, and whether it has an opaque field; `at` is the match's offset
/// in the message.
#[inline]
fn look_at(fields: Reader<'_>, at: usize) -> Result<(Option<u16>, bool), DecodeError> {
    match plain_eth_type(fields.peek()) {
        Ok(eth_type) => Ok((eth_type, false)),
        Err(NotPlain) => look_at_any(fields, at),
    }
}

#[inline(never)]
fn look_at_any(mut fields: Reader<'_>, at: usize) -> Result<(Option<u16>, bool), DecodeError> {
    let match_ = Match::from_oxms(List::read(&mut fields, "match.oxm_fields")?, at)?;
    let eth_type = match_.fields().find_map(|field| match field {
        Field::EthType(eth_type) => Some(eth_type),
        _ => None,
    });
    Ok((eth_type, match_.fields().any(|field| matches!(field, Field::Opaque(_)))))
}

/// The fields have another shape than [`plain_eth_type`] reads.
struct NotPlain;

/// Reads the ethertype from specification-defined OXMs without masks in ascending order. The order
/// guarantees that no field is repeated.
///
/// # Errors
/// [`NotPlain`] for any other list.
#[inline]
fn plain_eth_type(mut oxms: &[u8]) -> Result<Option<u16>, NotPlain> {
    const BASIC: [u8; 2] = OPENFLOW_BASIC.to_be_bytes();
    const ETH_TYPE: u8 = 5; // OFPXMT_OFB_ETH_TYPE, OpenFlow 1.3.5 §7.2.3.7
    let (mut least, mut eth_type) = (0, None);
    while let Some(([a, b, field, length], rest)) = oxms.split_first_chunk() {
        let (number, has_mask) = (field >> 1, field & 1 != 0);
        let length = usize::from(*length);
        let is_plain = [*a, *b] == BASIC && !has_mask && number >= least;
        let Some((value, rest)) = rest.split_at_checked(length) else { return Err(NotPlain) };
        if !is_plain || basic_size(number) != Some(length) {
            return Err(NotPlain);
        }
        if number == ETH_TYPE {
            eth_type = value.first_chunk().map(|value| u16::from_be_bytes(*value));
        }
        (least, oxms) = (number + 1, rest);
    }
    if oxms.is_empty() { Ok(eth_type) } else { Err(NotPlain) }
}
