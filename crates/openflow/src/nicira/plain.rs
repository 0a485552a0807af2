//! Actions that later versions of OpenFlow have as standard actions, or that are like one.
//!
//! Offsets are from the subtype on, which has bytes 0 and 1; zeros fill up to a multiple of 8.
//!
//! ```text
//!  set_tunnel 2         4 tunnel id (4)      set_tunnel64 9       8 tunnel id (8)
//!  set_queue 4          4 queue (4)          pop_queue 5          -
//!  dec_ttl 18           -                    dec_mpls_ttl 26      -
//!  dec_ttl(ids) 21      2 number of ids      4 padding (4)        8 ids (2 each)
//!  push_mpls 23         2 ethertype          pop_mpls 24          2 ethertype
//!  set_mpls_ttl 25      2 TTL (1)            set_mpls_tc 31       2 traffic class (1)
//!  set_mpls_label 30    4 label (4)          group 40             4 group (4)
//!  output_trunc 39      2 port               4 max_len (4)
//!  dec_nsh_ttl 48       -
//! ```

use super::NiciraAction as Action;
use super::body::Body;
use super::fault::Fault;
use super::lookup::port;
use crate::v1_0::port_from_wire;
use crate::{Action as Standard, Field};

/// The shortest packet that a truncating output keeps, in bytes: an Ethernet header.
const SHORTEST: u32 = 14;

pub(super) fn read(subtype: u16, mut from: Body<'_>) -> Result<Action, Fault> {
    let wide = |from: &mut Body<'_>| {
        from.zeros(2)?;
        from.u32()
    };
    let action = match subtype {
        2 => Action::SetTunnel(wide(&mut from)?),
        4 => Action::SetQueue(wide(&mut from)?),
        5 => Action::PopQueue,
        9 => {
            from.zeros(6)?;
            Action::SetTunnel64(from.u64()?)
        }
        18 => Action::DecTtl,
        21 => {
            let count = from.u16()?;
            from.zeros(4)?;
            if count == 0 {
                return Err(Fault("at least one id of a controller"));
            }
            Action::DecTtlControllers((0..count).map(|_| from.u16()).collect::<Result<_, _>>()?)
        }
        23 => Action::PushMpls(from.u16()?),
        24 => Action::PopMpls(from.u16()?),
        25 => Action::SetMplsTtl(from.u8()?),
        26 => Action::DecMplsTtl,
        30 => Action::SetMplsLabel(wide(&mut from)?),
        31 => Action::SetMplsTc(from.u8()?),
        39 => {
            let (to, max_len) = (port_from_wire(from.u16()?), from.u32()?);
            if max_len < SHORTEST {
                return Err(Fault("at least 14 bytes"));
            }
            Action::OutputTrunc { port: to, max_len }
        }
        40 => Action::Group(wide(&mut from)?),
        _ => Action::DecNshTtl,
    };
    let is_in_bits = match action {
        Action::SetMplsLabel(label) => label >> 20 == 0,
        Action::SetMplsTc(class) => class >> 3 == 0,
        _ => true,
    };
    from.end(8)?;
    if is_in_bits { Ok(action) } else { Err(Fault("a value that fits in the field")) }
}

/// Writes an action of this file. Returns `false` for another one.
pub(super) fn write(action: &Action, to: &mut Vec<u8>) -> bool {
    let narrow = |subtype: u16, value: u16| [subtype.to_be_bytes(), value.to_be_bytes()].concat();
    let wide = |subtype: u16, value: u32| {
        [&subtype.to_be_bytes()[..], &[0; 2], &value.to_be_bytes()].concat()
    };
    let bytes = match action {
        Action::SetTunnel(id) => wide(2, *id),
        Action::SetQueue(queue) => wide(4, *queue),
        Action::PopQueue => narrow(5, 0),
        Action::SetTunnel64(id) => [&narrow(9, 0)[..], &[0; 4], &id.to_be_bytes()].concat(),
        Action::DecTtl => narrow(18, 0),
        Action::DecTtlControllers(ids) => {
            let count = u16::try_from(ids.len()).unwrap_or(0);
            let ids = ids.iter().flat_map(|id| id.to_be_bytes());
            narrow(21, count).into_iter().chain([0; 4]).chain(ids).collect()
        }
        Action::PushMpls(ethertype) => narrow(23, *ethertype),
        Action::PopMpls(ethertype) => narrow(24, *ethertype),
        Action::SetMplsTtl(ttl) => narrow(25, u16::from(*ttl) << 8),
        Action::DecMplsTtl => narrow(26, 0),
        Action::SetMplsLabel(label) => wide(30, *label),
        Action::SetMplsTc(class) => narrow(31, u16::from(*class) << 8),
        Action::OutputTrunc { port: out, max_len } => {
            [&narrow(39, port(*out))[..], &max_len.to_be_bytes()].concat()
        }
        Action::Group(group) => wide(40, *group),
        Action::DecNshTtl => narrow(48, 0),
        _ => return false,
    };
    to.extend(bytes);
    true
}

/// Returns the standard action with the same effect.
pub(super) fn standard(action: &Action) -> Option<Standard> {
    Some(match *action {
        Action::SetTunnel(id) => Standard::SetField(Field::TunnelId(u64::from(id).into())),
        Action::SetTunnel64(id) => Standard::SetField(Field::TunnelId(id.into())),
        Action::SetQueue(queue) => Standard::SetQueue(queue),
        Action::DecTtl => Standard::DecNwTtl,
        Action::PushMpls(ethertype) => Standard::PushMpls(ethertype),
        Action::PopMpls(ethertype) => Standard::PopMpls(ethertype),
        Action::SetMplsTtl(ttl) => Standard::SetMplsTtl(ttl),
        Action::DecMplsTtl => Standard::DecMplsTtl,
        Action::SetMplsLabel(label) => Standard::SetField(Field::MplsLabel(label)),
        Action::SetMplsTc(class) => Standard::SetField(Field::MplsTc(class)),
        Action::Group(group) => Standard::Group(group),
        Action::LoadField(ref field) => Standard::SetField(field.clone()),
        _ => return None,
    })
}
