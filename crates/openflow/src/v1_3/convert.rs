//! Converts between the version-independent actions and those of OpenFlow 1.1 to 1.5.

use super::action::{self, Action as Wired, SetField};
use super::table::OxmId;
use crate::action::{Action, CopiedField};
use crate::matching::Field;
use crate::oxm::Oxm;
use crate::v1_5::action::CopyField;
use crate::wire::{Align8, Pad, WireFormat};
use crate::write::put;
use crate::{EncodeError, Version, Writer, nicira, v1_1};

/// Version bytes of the versions that introduce or remove actions.
const V1_1: u8 = 2;
const V1_3: u8 = 4;
const V1_5: u8 = 6;

/// Writes an action for the version byte `V`.
///
/// # Errors
/// [`EncodeError::Unsupported`] for actions that the version does not have, and for a masked set-field before OpenFlow 1.5.
#[inline]
pub(crate) fn write_action<const V: u8>(
    action: &Action,
    to: &mut Writer<'_>,
) -> Result<(), EncodeError> {
    if let Action::Output { port, max_len } = *action {
        if let Some(room) = to.array::<16>() {
            put(room, 0, [0, 0, 0, 16]); // type and length
            put(room, 4, port.0.to_be_bytes());
            put(room, 8, max_len.to_be_bytes());
            put(room, 10, [0; 6]);
        }
        return Ok(());
    }
    write_other_action::<V>(action, to)
}

/// Writes an uncommon action.
fn write_other_action<const V: u8>(
    action: &Action,
    to: &mut Writer<'_>,
) -> Result<(), EncodeError> {
    let unsupported = |field| EncodeError::Unsupported { field, version: Version::of::<V>() };
    let none = action::NoArgument { pad: Pad::default() };
    let ttl = |ttl| action::Ttl { ttl, pad: Pad::default() };
    let ethertype = |ethertype| action::EtherType { ethertype, pad: Pad::default() };
    let tp_port = |tp_port| crate::v1_0::action::TpPort { tp_port, pad: Pad::default() };
    let wired: Wired<'_, V> = match *action {
        Action::Output { port, max_len } => {
            Wired::Output(action::Output { port, max_len, pad: Pad::default() })
        }
        Action::SetField(ref field) if V == V1_1 => v1_1::convert::set_field_to_wire(field)?,
        Action::SetField(ref field) => return write_set_field::<V>(field, to),
        Action::PushVlan(tag) => Wired::PushVlan(ethertype(tag)),
        Action::PopVlan => Wired::PopVlan(none),
        Action::PushMpls(tag) => Wired::PushMpls(ethertype(tag)),
        Action::PopMpls(below) => Wired::PopMpls(ethertype(below)),
        Action::PushPbb(tag) if V >= V1_3 => Wired::PushPbb(ethertype(tag)),
        Action::PopPbb if V >= V1_3 => Wired::PopPbb(none),
        Action::SetQueue(queue) => Wired::SetQueue(queue),
        Action::Group(group) => Wired::Group(group),
        Action::SetNwTtl(value) => Wired::SetNwTtl(ttl(value)),
        Action::DecNwTtl => Wired::DecNwTtl(none),
        Action::SetMplsTtl(value) => Wired::SetMplsTtl(ttl(value)),
        Action::DecMplsTtl => Wired::DecMplsTtl(none),
        Action::CopyTtlOut => Wired::CopyTtlOut(none),
        Action::CopyTtlIn => Wired::CopyTtlIn(none),
        Action::Experimenter { experimenter, ref data } => {
            Wired::Experimenter(action::Experimenter { experimenter, data })
        }
        Action::Nicira(ref nicira) => return nicira.write(Version::of::<V>(), to),
        Action::Unknown { kind, ref body } => Wired::Unknown { kind, body },
        Action::SetTpSrc(port) if V == V1_1 => Wired::SetTpSrc(tp_port(port)),
        Action::SetTpDst(port) if V == V1_1 => Wired::SetTpDst(tp_port(port)),
        Action::CopyField { n_bits, from, to } if V >= V1_5 => Wired::CopyField(CopyField {
            n_bits,
            src_offset: from.offset,
            dst_offset: to.offset,
            pad: Pad::default(),
            src: from.field,
            dst: to.field,
            pad2: Align8::default(),
        }),
        Action::Meter(meter) if V >= V1_5 => Wired::Meter(meter),
        Action::Enqueue { .. } => return Err(unsupported("action enqueue")),
        Action::SetTpSrc(_) => return Err(unsupported("action set_tp_src")),
        Action::SetTpDst(_) => return Err(unsupported("action set_tp_dst")),
        Action::PushPbb(_) => return Err(unsupported("action push_pbb")),
        Action::PopPbb => return Err(unsupported("action pop_pbb")),
        Action::CopyField { .. } => return Err(unsupported("action copy_field")),
        Action::Meter(_) => return Err(unsupported("action meter")),
    };
    crate::tlv::write_aligned(&wired, to)
}

fn write_set_field<const V: u8>(field: &Field, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    field.with_oxm(|field: Oxm<'_>| {
        if !SetField::<V>::allows(&field) {
            return Err(EncodeError::Unsupported {
                field: "action set_field with a mask",
                version: Version::of::<V>(),
            });
        }
        Wired::SetField(SetField::<V> { field, pad: Align8::default() }).write(to);
        Ok(())
    })
}

/// Converts an action of the version byte `V`.
pub(crate) fn read_action<const V: u8>(action: &Wired<'_, V>) -> Action {
    let copied = |field: OxmId, offset| CopiedField { field, offset };
    match *action {
        Wired::Output(action::Output { port, max_len, .. }) => Action::Output { port, max_len },
        Wired::CopyTtlOut(_) => Action::CopyTtlOut,
        Wired::CopyTtlIn(_) => Action::CopyTtlIn,
        Wired::SetMplsTtl(action) => Action::SetMplsTtl(action.ttl),
        Wired::DecMplsTtl(_) => Action::DecMplsTtl,
        Wired::PushVlan(action) => Action::PushVlan(action.ethertype),
        Wired::PopVlan(_) => Action::PopVlan,
        Wired::PushMpls(action) => Action::PushMpls(action.ethertype),
        Wired::PopMpls(action) => Action::PopMpls(action.ethertype),
        Wired::SetQueue(queue) => Action::SetQueue(queue),
        Wired::Group(group) => Action::Group(group),
        Wired::SetNwTtl(action) => Action::SetNwTtl(action.ttl),
        Wired::DecNwTtl(_) => Action::DecNwTtl,
        Wired::SetField(action) => Action::SetField(Field::from_oxm(&action.field)),
        Wired::PushPbb(action) => Action::PushPbb(action.ethertype),
        Wired::PopPbb(_) => Action::PopPbb,
        Wired::SetTpSrc(action) => Action::SetTpSrc(action.tp_port),
        Wired::SetTpDst(action) => Action::SetTpDst(action.tp_port),
        Wired::CopyField(CopyField { n_bits, src_offset, dst_offset, src, dst, .. }) => {
            Action::CopyField { n_bits, from: copied(src, src_offset), to: copied(dst, dst_offset) }
        }
        Wired::Meter(meter) => Action::Meter(meter),
        Wired::Experimenter(action::Experimenter { experimenter, data }) => {
            nicira::action(Version::of::<V>(), experimenter, data)
        }
        Wired::Unknown { kind, body } => Action::Unknown { kind, body: body.into() },
        ref set => v1_1::convert::read_set_field(set),
    }
}
