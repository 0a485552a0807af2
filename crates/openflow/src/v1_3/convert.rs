//! Converts between the version-independent types and OpenFlow 1.3.

use super::action::{self, Action as Wired};
use crate::action::Action;
use crate::matching::Field;
use crate::oxm::{OPENFLOW_BASIC, Oxm};
use crate::wire::{Align8, Pad, WireFormat};
use crate::write::put;
use crate::{EncodeError, Version, Writer};

/// Writes an action.
///
/// # Errors
/// [`EncodeError::Unsupported`] for actions of OpenFlow 1.0 only, and for a masked set-field.
#[inline]
pub(crate) fn write_action(action: &Action, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    if let Action::Output { port, max_len } = *action {
        if let Some(room) = to.array::<16>() {
            put(room, 0, [0, 0, 0, 16]); // type and length
            put(room, 4, port.0.to_be_bytes());
            put(room, 8, max_len.to_be_bytes());
            put(room, 10, [0; 6]);
        }
        return Ok(());
    }
    write_other_action(action, to)
}

/// Writes an uncommon action.
fn write_other_action(action: &Action, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    let unsupported = |field| EncodeError::Unsupported { field, version: Version::V1_3 };
    let none = action::NoArgument { pad: Pad::default() };
    let ttl = |ttl| action::Ttl { ttl, pad: Pad::default() };
    let ethertype = |ethertype| action::EtherType { ethertype, pad: Pad::default() };
    let wired = match *action {
        Action::Output { port, max_len } => {
            Wired::Output(action::Output { port, max_len, pad: Pad::default() })
        }
        Action::SetField(ref field) => return write_set_field(field, to),
        Action::PushVlan(tag) => Wired::PushVlan(ethertype(tag)),
        Action::PopVlan => Wired::PopVlan(none),
        Action::PushMpls(tag) => Wired::PushMpls(ethertype(tag)),
        Action::PopMpls(below) => Wired::PopMpls(ethertype(below)),
        Action::PushPbb(tag) => Wired::PushPbb(ethertype(tag)),
        Action::PopPbb => Wired::PopPbb(none),
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
        Action::Unknown { kind, ref body } => Wired::Unknown { kind, body },
        Action::Enqueue { .. } => return Err(unsupported("action enqueue")),
        Action::SetTpSrc(_) => return Err(unsupported("action set_tp_src")),
        Action::SetTpDst(_) => return Err(unsupported("action set_tp_dst")),
    };
    crate::tlv::write_aligned(&wired, to)
}

fn write_set_field(field: &Field, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    field.with_oxm(|field: Oxm<'_>| {
        if field.has_mask && field.class == OPENFLOW_BASIC {
            return Err(EncodeError::Unsupported {
                field: "action set_field with a mask",
                version: Version::V1_3,
            });
        }
        Wired::SetField(action::SetField { field, pad: Align8::default() }).write(to);
        Ok(())
    })
}

/// Converts an action of OpenFlow 1.3.
pub(crate) fn read_action(action: &Wired<'_>) -> Action {
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
        Wired::Experimenter(action::Experimenter { experimenter, data }) => {
            Action::Experimenter { experimenter, data: data.into() }
        }
        Wired::Unknown { kind, body } => Action::Unknown { kind, body: body.into() },
    }
}
