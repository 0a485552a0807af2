//! Actions that read or write fields.
//!
//! Offsets are from the subtype on, which has bytes 0 and 1. `ofs_nbits` has the offset in its upper 10 bits and the number of
//! bits less 1 in its lower 6. A header of a field has 4 or 8 bytes.
//!
//! ```text
//!  move 6               2 n_bits     4 src_ofs    6 dst_ofs       8 header of src, header of dst, padding
//!  load 7               2 ofs_nbits  4 header (4 bytes)           8 value (8 bytes)
//!  output_reg 15        2 ofs_nbits  4 header (4 bytes)           8 max_len     10 padding (6)
//!  output_reg2 32       2 ofs_nbits  4 max_len    6 header, padding up to 16
//!  push 27, pop 28      2 offset     4 header     8 or 12 n_bits, padding up to 16
//!  load_field 33        2 one OXM with value and mask, padding
//!  check_pkt_larger 49  2 pkt_len    4 offset     6 header, padding up to 16
//!  delete_field 50      2 header, padding up to 16
//! ```

use super::NiciraAction as Action;
use super::body::Body;
use super::fault::Fault;
use super::field::{FieldId, Subfield};
use crate::matching::Field;
use crate::oxm::{EXPERIMENTER, Oxm};

/// The size of actions with a field whose header has 4 or 8 bytes, from the subtype on.
const PADDED: usize = 16;

pub(super) fn read(subtype: u16, mut from: Body<'_>) -> Result<Action, Fault> {
    match subtype {
        6 => read_move(from),
        7 => {
            let packed = from.u16()?;
            let to = destination(Subfield::of_packed(packed, FieldId::read_short(&mut from)?)?)?;
            let value = from.u64()?;
            from.end(1)?;
            if to.n_bits < 64 && value >> to.n_bits != 0 {
                return Err(Fault("a value that fits in the bits"));
            }
            Ok(Action::Load { to, value })
        }
        15 => {
            let packed = from.u16()?;
            let source = Subfield::of_packed(packed, FieldId::read_short(&mut from)?)?;
            let max_len = from.u16()?;
            from.zeros(6)?;
            from.end(1)?;
            Ok(Action::OutputReg { from: source, max_len })
        }
        32 => {
            sized(&from)?;
            let (packed, max_len) = (from.u16()?, from.u16()?);
            let source = Subfield::of_packed(packed, FieldId::read(&mut from)?)?;
            from.end(PADDED)?;
            // A field with a short header has an action of its own, so each meaning has one form.
            if source.field.class_and_number().0 != EXPERIMENTER {
                return Err(Fault("a field with a header of 8 bytes"));
            }
            Ok(Action::OutputReg { from: source, max_len })
        }
        27 | 28 => {
            sized(&from)?;
            let offset = from.u16()?;
            let field = FieldId::read(&mut from)?;
            let bits = Subfield { field, offset, n_bits: from.u16()? }.checked()?;
            from.end(PADDED)?;
            Ok(if subtype == 27 { Action::Push(bits) } else { Action::Pop(destination(bits)?) })
        }
        33 => read_load_field(from),
        49 => {
            sized(&from)?;
            let (pkt_len, offset) = (from.u16()?, from.u16()?);
            let to = Subfield { field: FieldId::read(&mut from)?, offset, n_bits: 1 };
            from.end(PADDED)?;
            Ok(Action::CheckPktLarger { pkt_len, to: destination(to.checked()?)? })
        }
        _ => {
            sized(&from)?;
            let field = FieldId::read(&mut from)?;
            from.end(PADDED)?;
            if field.name() != "tun_metadata" {
                return Err(Fault("a field of tunnel metadata"));
            }
            Ok(Action::DeleteField(field))
        }
    }
}

/// Checks the size of an action that has 16 bytes from the subtype on.
fn sized(from: &Body<'_>) -> Result<(), Fault> {
    if from.0.len() == PADDED - 2 { Ok(()) } else { Err(Fault("an action of 24 bytes")) }
}

fn destination(to: Subfield) -> Result<Subfield, Fault> {
    if to.field.is_writable() { Ok(to) } else { Err(Fault("a field that can be written")) }
}

fn read_move(mut from: Body<'_>) -> Result<Action, Fault> {
    let (n_bits, source, target) = (from.u16()?, from.u16()?, from.u16()?);
    let source = Subfield { field: FieldId::read(&mut from)?, offset: source, n_bits };
    let target = Subfield { field: FieldId::read(&mut from)?, offset: target, n_bits };
    from.end(8)?;
    Ok(Action::Move { from: source.checked()?, to: destination(target.checked()?)? })
}

fn read_load_field(mut from: Body<'_>) -> Result<Action, Fault> {
    let [a, b, field, length] = from.array("the header of a field")?;
    let payload = from.take(length.into())?;
    let oxm = Oxm {
        class: u16::from_be_bytes([a, b]),
        field: field >> 1,
        has_mask: field & 1 != 0,
        payload,
    };
    from.end(8)?;
    let (id, value, mask) = FieldId::of_oxm(&oxm).ok_or(Fault("a field of Open vSwitch"))?;
    if !id.is_writable() {
        return Err(Fault("a field that can be written"));
    }
    let fits = mask.is_none_or(|mask| value & !mask == 0);
    if fits {
        Ok(Action::LoadField(Field::from_oxm(&oxm)))
    } else {
        Err(Fault("a value in its mask"))
    }
}

/// Writes an action of this file. Returns `false` for another one.
pub(super) fn write(action: &Action, to: &mut Vec<u8>) -> bool {
    let numbers = |to: &mut Vec<u8>, numbers: &[u16]| {
        for number in numbers {
            to.extend(number.to_be_bytes());
        }
    };
    match action {
        Action::Move { from, to: target } => {
            numbers(to, &[6, from.n_bits, from.offset, target.offset]);
            from.field.write(to);
            target.field.write(to);
        }
        Action::Load { to: target, value } => {
            numbers(to, &[7, target.packed()]);
            target.field.write(to);
            to.extend(value.to_be_bytes());
        }
        Action::OutputReg { from, max_len } => {
            if from.field.class_and_number().0 == EXPERIMENTER {
                numbers(to, &[32, from.packed(), *max_len]);
                from.field.write(to);
                to.resize(PADDED, 0);
            } else {
                numbers(to, &[15, from.packed()]);
                from.field.write(to);
                numbers(to, &[*max_len, 0, 0, 0]);
            }
        }
        Action::Push(bits) | Action::Pop(bits) => {
            let subtype = if matches!(action, Action::Push(_)) { 27 } else { 28 };
            numbers(to, &[subtype, bits.offset]);
            bits.field.write(to);
            numbers(to, &[bits.n_bits]);
            to.resize(PADDED, 0);
        }
        Action::LoadField(field) => field.with_oxm(|oxm| {
            numbers(to, &[33]);
            to.extend(oxm.head());
            to.extend_from_slice(oxm.value());
        }),
        Action::CheckPktLarger { pkt_len, to: bit } => {
            numbers(to, &[49, *pkt_len, bit.offset]);
            bit.field.write(to);
            to.resize(PADDED, 0);
        }
        Action::DeleteField(field) => {
            numbers(to, &[50]);
            field.write(to);
            to.resize(PADDED, 0);
        }
        _ => return false,
    }
    true
}
