//! A read-only view of a flow-mod that does not build a [`Match`](crate::Match).

use super::{COMMAND_AT, FLAGS_AT, FlowModCommand, FlowModFlags, MATCH_AT, NO_BUFFER};
use crate::action::Actions;
use crate::header::open;
use crate::instruction::{Instructions, Lists, OfVersion};
use crate::matching::{Field, Match};
use crate::oxm::{OPENFLOW_BASIC, basic_size};
use crate::v1_0::matching::wildcard::DL_TYPE;
use crate::wire::WireFormat;
use crate::{DecodeError, Header, Kind, Reader, Version, v1_0, v1_1, v1_2, v1_3, v1_4, v1_5};

/// Field name for errors that the caller discards.
const FIELDS: &str = "flow_mod";

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

/// Converts a flow-mod of OpenFlow 1.1 or later; the last argument is its ethertype, and whether it has an opaque field.
macro_rules! since_1_1 {
    ($wire:ident, $v:expr, $looked_at:expr) => {{
        let flags = FlowModFlags::from_wire::<{ $v }>($wire.flags, FLAGS_AT)?;
        let (eth_type, has_opaque_field) = $looked_at;
        Ok(Self {
            command: FlowModCommand::from_wire($wire.command.into(), COMMAND_AT)?,
            cookie: $wire.cookie,
            cookie_mask: $wire.cookie_mask,
            priority: $wire.priority,
            buffer_id: ($wire.buffer_id != NO_BUFFER).then_some($wire.buffer_id),
            flags,
            eth_type,
            has_opaque_field,
            instructions: Instructions::from_wire($wire.instructions, MATCH_AT)?,
        })
    }};
}

impl<'a> FlowModView<'a> {
    /// Decodes a whole flow-mod of any version.
    ///
    /// # Errors
    /// Like [`FlowMod::decode`](super::FlowMod::decode).
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::FlowMod)?;
        let body = &mut body;
        let decoded = match version {
            Version::V1_0 => Self::from_v1_0(&v1_0::FlowMod::read(body, "flow_mod")?),
            Version::V1_1 => Self::from_v1_1(&v1_1::FlowMod::read(body, "flow_mod")?),
            Version::V1_2 => Self::from_v1_3(&v1_2::FlowMod::read(body, "flow_mod")?),
            Version::V1_3 => Self::from_v1_3(&v1_3::FlowMod::read(body, "flow_mod")?),
            Version::V1_4 => Self::from_v1_4(&v1_4::FlowMod::read(body, "flow_mod")?),
            Version::V1_5 => Self::from_v1_4(&v1_5::FlowMod::read(body, "flow_mod")?),
        }?;
        body.finish("flow_mod")?;
        Ok(decoded)
    }

    /// Decodes the common shape of OpenFlow 1.0 and 1.3 at fixed offsets: a match without masks, and only apply-actions
    /// outputs to ports that [`PortNo::is_usual_output`](crate::PortNo::is_usual_output) accepts.
    ///
    /// `None` means another shape, not an error; [`decode`](Self::decode) handles it. The result
    /// equals that of `decode`.
    #[inline]
    pub fn usual(message: &'a [u8]) -> Option<Self> {
        let (version, body) = match message.split_first_chunk::<4>()? {
            ([1, 14, high, low], body) => (Version::V1_0, (high, low, body)),
            ([4, 14, high, low], body) => (Version::V1_3, (high, low, body)),
            _ => return None,
        };
        let (high, low, body) = body;
        if usize::from(u16::from_be_bytes([*high, *low])) != message.len() {
            return None;
        }
        if version == Version::V1_0 { Self::usual_v1_0(body) } else { Self::usual_v1_3(body) }
    }

    /// `body` starts after the header's length field.
    #[inline]
    fn usual_v1_0(body: &'a [u8]) -> Option<Self> {
        let (head, actions) = body.split_first_chunk::<68>()?;
        let apply = Actions::outputs(Version::V1_0, actions)?;
        let mut head = Reader::new(head, 0);
        head.u32(FIELDS).ok()?; // transaction id
        let wildcards = head.u32(FIELDS).ok()?;
        head.take(FIELDS, 18).ok()?; // fields before the ethertype
        let eth_type = Some(head.u16(FIELDS).ok()?).filter(|_| wildcards & DL_TYPE == 0);
        head.take(FIELDS, 16).ok()?; // fields behind it
        let cookie = head.u64(FIELDS).ok()?;
        let command = FlowModCommand::from_wire(head.u16(FIELDS).ok()?, 0).ok()?;
        head.u32(FIELDS).ok()?; // timeouts
        let priority = head.u16(FIELDS).ok()?;
        let buffer_id = Some(head.u32(FIELDS).ok()?).filter(|id| *id != NO_BUFFER);
        head.u16(FIELDS).ok()?; // port of a delete
        let flags = FlowModFlags::from_v1_0(head.u16(FIELDS).ok()?, 0).ok()?;
        Some(Self {
            command,
            cookie,
            cookie_mask: 0,
            priority,
            buffer_id,
            flags,
            eth_type,
            has_opaque_field: false,
            instructions: Instructions { apply, ..Instructions::default() },
        })
    }

    /// `body` starts after the header's length field.
    #[inline]
    fn usual_v1_3(body: &'a [u8]) -> Option<Self> {
        let (head, rest) = body.split_first_chunk::<44>()?;
        // OFPMT_OXM, OpenFlow 1.3.5 §7.2.3.1.
        let ([0, 1, high, low], _) = rest.split_first_chunk::<4>()? else { return None };
        let match_size = usize::from(u16::from_be_bytes([*high, *low]));
        let oxms = rest.get(4..match_size)?;
        let eth_type = usual_eth_type(oxms).ok()?;
        let instructions = rest.get((4 + oxms.len()).next_multiple_of(8)..)?;
        let apply = match instructions.split_first_chunk::<8>() {
            None if instructions.is_empty() => Actions::default(),
            // OFPIT_APPLY_ACTIONS, OpenFlow 1.3.5 §7.2.4, and nothing after it.
            Some(([0, 4, high, low, ..], actions))
                if usize::from(u16::from_be_bytes([*high, *low])) == instructions.len() =>
            {
                Actions::outputs(Version::V1_3, actions)?
            }
            _ => return None,
        };
        let mut head = Reader::new(head, 0);
        head.u32(FIELDS).ok()?; // transaction id
        let (cookie, cookie_mask) = (head.u64(FIELDS).ok()?, head.u64(FIELDS).ok()?);
        head.u8(FIELDS).ok()?; // table
        let command = FlowModCommand::from_wire(head.u8(FIELDS).ok()?.into(), 0).ok()?;
        head.u32(FIELDS).ok()?; // timeouts
        let priority = head.u16(FIELDS).ok()?;
        let buffer_id = Some(head.u32(FIELDS).ok()?).filter(|id| *id != NO_BUFFER);
        head.u64(FIELDS).ok()?; // port and group of a delete
        let flags = FlowModFlags::from_wire::<4>(head.u16(FIELDS).ok()?, 0).ok()?;
        Some(Self {
            command,
            cookie,
            cookie_mask,
            priority,
            buffer_id,
            flags,
            eth_type,
            has_opaque_field: false,
            instructions: Instructions { apply, ..Instructions::default() },
        })
    }

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
        let eth_type = Some(wire.match_.dl_type).filter(|_| has_type);
        since_1_1!(wire, 2, (eth_type, false))
    }

    fn from_v1_3<const V: u8>(wire: &v1_3::flow_mod::FlowMod<'a, V>) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        since_1_1!(wire, V, look_at(&wire.match_, MATCH_AT)?)
    }

    fn from_v1_4<const V: u8>(wire: &v1_4::flow_mod::FlowMod<'a, V>) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        since_1_1!(wire, V, look_at(&wire.match_, MATCH_AT)?)
    }
}

/// Returns the ethertype of a match, and whether it has an opaque field; `at` is the match's offset
/// in the message.
fn look_at(match_: &v1_3::Match<'_>, at: usize) -> Result<(Option<u16>, bool), DecodeError> {
    if let Some(Ok(eth_type)) = match_.fields.received().map(usual_eth_type) {
        return Ok((eth_type, false));
    }
    let match_ = Match::from_v1_3(match_, at)?;
    let eth_type = match_.fields().find_map(|field| match field {
        Field::EthType(eth_type) => Some(eth_type),
        _ => None,
    });
    Ok((eth_type, match_.fields().any(|field| matches!(field, Field::Opaque(_)))))
}

/// The fields have another shape than [`usual_eth_type`] reads.
struct Unusual;

/// Reads the ethertype from specification-defined OXMs without masks in ascending order. The order
/// guarantees that no field is repeated.
///
/// # Errors
/// [`Unusual`] for any other list.
#[inline]
fn usual_eth_type(mut oxms: &[u8]) -> Result<Option<u16>, Unusual> {
    const BASIC: [u8; 2] = OPENFLOW_BASIC.to_be_bytes();
    const ETH_TYPE: u8 = 5; // OFPXMT_OFB_ETH_TYPE, OpenFlow 1.3.5 §7.2.3.7
    let (mut least, mut eth_type) = (0, None);
    while let Some(([a, b, field, length], rest)) = oxms.split_first_chunk() {
        let (number, has_mask) = (field >> 1, field & 1 != 0);
        let length = usize::from(*length);
        let usual = [*a, *b] == BASIC && !has_mask && number >= least;
        let Some((value, rest)) = rest.split_at_checked(length) else { return Err(Unusual) };
        if !usual || basic_size(number) != Some(length) {
            return Err(Unusual);
        }
        if number == ETH_TYPE {
            eth_type = value.first_chunk().map(|value| u16::from_be_bytes(*value));
        }
        (least, oxms) = (number + 1, rest);
    }
    if oxms.is_empty() { Ok(eth_type) } else { Err(Unusual) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Field, FlowMod, MacAddr, PortNo};

    /// Encodes a flow-mod and checks whether the fast path accepts it.
    fn is_usual(flow_mod: &FlowMod<'_>, version: Version) -> bool {
        let mut bytes = [0; 512];
        let size = flow_mod.encode(version, 7, &mut bytes).unwrap();
        let bytes = &bytes[..size];
        let usual = FlowModView::usual(bytes);
        assert!(
            usual.as_ref().is_none_or(|usual| Ok(usual) == FlowModView::decode(bytes).as_ref())
        );
        usual.is_some()
    }

    #[test]
    fn learning_switch_flow_mods_take_the_fast_path() {
        for version in [Version::V1_0, Version::V1_3] {
            let pair = Match::new()
                .in_port(PortNo(3))
                .eth_src(MacAddr([2, 0, 0, 0, 0, 1]))
                .eth_dst(MacAddr([2, 0, 0, 0, 0, 2]));
            let out = [Action::output(PortNo(2)), Action::output(PortNo::FLOOD)];
            let add = FlowMod::add(pair.clone()).priority(9).cookie(0x1234_5678_9abc);
            assert!(is_usual(&add.clone().buffer_id(Some(77)).apply(&out), version));
            assert!(is_usual(&add, version), "drops");
            assert!(is_usual(&FlowMod::delete(pair).flags(FlowModFlags::SEND_FLOW_REM), version));
            for other in [Action::PopVlan, Action::output(PortNo::CONTROLLER)] {
                assert!(!is_usual(&add.clone().apply(&[other]), version));
            }
        }
        let masked = Match::new().with(&Field::Metadata(crate::Masked { value: 1, mask: Some(3) }));
        assert!(!is_usual(&FlowMod::add(masked), Version::V1_3));
        assert!(!is_usual(&FlowMod::add(Match::new()).goto_table(2), Version::V1_3));
    }
}
