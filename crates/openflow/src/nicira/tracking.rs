//! Connection tracking, address translation, and actions on a copy of the packet.
//!
//! Offsets are from the subtype on, which has bytes 0 and 1.
//!
//! ```text
//!  ct 35        2 flags (1 commit, 2 force)     4 header of the zone's field, or 0
//!               8 ofs_nbits of it, or the zone  10 table, or 255   11 padding (3)   14 alg (a port, or 0)
//!               16 actions up to the end
//!  nat 36       2 padding (2)   4 flags   6 which bounds follow
//!               8 IPv4 min (4), IPv4 max (4), IPv6 min (16), IPv6 max (16), port min (2), port max (2), padding
//!  clone 42     2 padding (6)   8 actions up to the end
//!  ct_clear 43  2 padding (6)
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::NiciraAction;
use super::body::Body;
use super::fault::Fault;
use super::field::{FieldId, Subfield};
use super::nested;
use crate::{Action, EncodeError, Version};

/// `table` of a [`Ct`] whose packet does not come back to the tables.
const NO_TABLE: u8 = 0xff;

/// Sends a packet through connection tracking.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ct {
    /// Whether the connection is remembered.
    pub commit: bool,
    /// Whether a connection in the other direction is forgotten first; only with `commit`.
    pub force: bool,
    /// The zone, in which connections are kept apart.
    pub zone: CtZone,
    /// The table in which the packet continues, with its state of tracking; `None` continues with the next action, without.
    pub table: Option<u8>,
    /// The port of a protocol with further connections, as 21 of FTP; 0 for none.
    pub alg: u16,
    /// What happens to the connection: writes of `ct_mark` and `ct_label`, and [`NiciraAction::Nat`].
    pub actions: Vec<Action>,
}

/// The zone of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CtZone {
    /// A number.
    Number(u16),
    /// 16 bits of a field.
    Field(Subfield),
}

impl Default for CtZone {
    fn default() -> Self {
        Self::Number(0)
    }
}

/// Translates addresses and ports of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of its own on the wire")]
pub struct Nat {
    /// Whether the source is translated; not with `dst`. Without both, the packet is translated as its connection is.
    pub src: bool,
    /// Whether the destination is translated.
    pub dst: bool,
    /// Whether an address keeps its translation when the switch restarts.
    pub persistent: bool,
    /// Whether ports are chosen by a hash; not with `random`.
    pub hash: bool,
    /// Whether ports are chosen at random.
    pub random: bool,
    /// The addresses and ports; `None` leaves the choice to the switch.
    pub range: Option<NatRange>,
}

/// The new addresses and ports of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NatRange {
    /// The lowest address, which is not zero.
    pub min: IpAddr,
    /// The highest address, of the same family.
    pub max: Option<IpAddr>,
    /// The lowest port, which is not zero.
    pub min_port: Option<u16>,
    /// The highest port; only with the lowest.
    pub max_port: Option<u16>,
}

/// Bits of `flags` of [`Ct`].
const COMMIT: u16 = 1;
const FORCE: u16 = 2;

/// Bits that say which bounds follow.
mod bound {
    pub(super) const IPV4_MIN: u16 = 1;
    pub(super) const IPV4_MAX: u16 = 2;
    pub(super) const IPV6_MIN: u16 = 4;
    pub(super) const IPV6_MAX: u16 = 8;
    pub(super) const PORT_MIN: u16 = 16;
    pub(super) const PORT_MAX: u16 = 32;
    pub(super) const ALL: u16 = 63;
}

pub(super) fn read(
    subtype: u16,
    version: Version,
    mut from: Body<'_>,
    depth: usize,
) -> Result<NiciraAction, Fault> {
    match subtype {
        35 => read_ct(version, from, depth).map(NiciraAction::Ct),
        36 => read_nat(from).map(NiciraAction::Nat),
        42 => {
            from.zeros(6)?;
            Ok(NiciraAction::Clone(nested::read(version, from.0, depth)?))
        }
        _ => {
            from.zeros(6)?;
            from.end(1)?;
            Ok(NiciraAction::CtClear)
        }
    }
}

fn read_ct(version: Version, mut from: Body<'_>, depth: usize) -> Result<Ct, Fault> {
    let flags = from.u16()?;
    let mut header = Body(from.take(4)?);
    let number = from.u16()?;
    let zone = if header.0 == [0; 4] {
        CtZone::Number(number)
    } else {
        let bits = Subfield::of_packed(number, FieldId::read_short(&mut header)?)?;
        if bits.n_bits != 16 {
            return Err(Fault("a zone of 16 bits"));
        }
        CtZone::Field(bits)
    };
    let table = from.u8()?;
    from.zeros(3)?;
    let alg = from.u16()?;
    let (commit, force) = (flags & COMMIT != 0, flags & FORCE != 0);
    if flags & !(COMMIT | FORCE) != 0 || force && !commit {
        return Err(Fault("flags of ct, and force only with commit"));
    }
    let actions = nested::read(version, from.0, depth)?;
    let is_plain_nat = |action: &Action| matches!(action, Action::Nicira(it) if **it == NiciraAction::Nat(Nat::default()));
    if !commit && !actions.iter().all(is_plain_nat) {
        return Err(Fault("actions in ct only with commit"));
    }
    Ok(Ct { commit, force, zone, table: (table != NO_TABLE).then_some(table), alg, actions })
}

fn read_nat(mut from: Body<'_>) -> Result<Nat, Fault> {
    from.zeros(2)?;
    let (flags, present) = (from.u16()?, from.u16()?);
    let has = |bit: u16| flags & bit != 0;
    let (src, dst, persistent, hash, random) = (has(1), has(2), has(4), has(8), has(16));
    if flags >> 5 != 0 || src && dst || hash && random {
        return Err(Fault("flags of nat: src or dst, hash or random"));
    }
    let range = read_range(present, &mut from)?;
    from.end(8)?;
    Ok(Nat { src, dst, persistent, hash, random, range })
}

fn read_range(present: u16, from: &mut Body<'_>) -> Result<Option<NatRange>, Fault> {
    use bound::{ALL, IPV4_MAX, IPV4_MIN, IPV6_MAX, IPV6_MIN, PORT_MAX, PORT_MIN};
    let has = |bit: u16| present & bit != 0;
    let is_4 = has(IPV4_MIN | IPV4_MAX);
    let is_6 = has(IPV6_MIN | IPV6_MAX);
    let lacks_lowest = |min, max| has(max) && !has(min);
    if present & !ALL != 0
        || is_4 && is_6
        || lacks_lowest(IPV4_MIN, IPV4_MAX)
        || lacks_lowest(IPV6_MIN, IPV6_MAX)
        || lacks_lowest(PORT_MIN, PORT_MAX)
        || has(PORT_MIN) && !is_4 && !is_6
    {
        return Err(Fault(
            "bounds of nat: of one family, a highest with its lowest, ports with addresses",
        ));
    }
    if present == 0 {
        return Ok(None);
    }
    let address = |from: &mut Body<'_>| -> Result<IpAddr, Fault> {
        Ok(if is_4 {
            Ipv4Addr::from(from.array("an IPv4 address")?).into()
        } else {
            Ipv6Addr::from(from.array("an IPv6 address")?).into()
        })
    };
    let min = address(from)?;
    let max = if has(IPV4_MAX | IPV6_MAX) { Some(address(from)?) } else { None };
    let min_port = if has(PORT_MIN) { Some(from.u16()?) } else { None };
    let max_port = if has(PORT_MAX) { Some(from.u16()?) } else { None };
    if min.is_unspecified()
        || max.is_some_and(|max| max < min)
        || min_port == Some(0)
        || max_port.is_some_and(|max| Some(max) < min_port)
    {
        return Err(Fault("bounds of nat above zero, the lowest first"));
    }
    Ok(Some(NatRange { min, max, min_port, max_port }))
}

/// Writes an action of this file.
///
/// # Errors
/// An action inside cannot be encoded for the version.
pub(super) fn write(
    action: &NiciraAction,
    version: Version,
    to: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    match action {
        NiciraAction::Ct(ct) => {
            let flags = (u16::from(ct.commit) * COMMIT) | (u16::from(ct.force) * FORCE);
            to.extend(35_u16.to_be_bytes());
            to.extend(flags.to_be_bytes());
            match ct.zone {
                CtZone::Number(number) => {
                    to.extend([0; 4]);
                    to.extend(number.to_be_bytes());
                }
                CtZone::Field(bits) => {
                    bits.field.write(to);
                    to.extend(bits.packed().to_be_bytes());
                }
            }
            to.extend([ct.table.unwrap_or(NO_TABLE), 0, 0, 0]);
            to.extend(ct.alg.to_be_bytes());
            nested::write(version, &ct.actions, to)
        }
        NiciraAction::Clone(actions) => {
            to.extend(42_u16.to_be_bytes());
            to.extend([0; 6]);
            nested::write(version, actions, to)
        }
        NiciraAction::Nat(nat) => {
            write_nat(nat, to);
            Ok(())
        }
        NiciraAction::CtClear => {
            to.extend(43_u16.to_be_bytes());
            Ok(())
        }
        other => Err(EncodeError::Unsupported { field: other.name(), version }),
    }
}

fn write_nat(nat: &Nat, to: &mut Vec<u8>) {
    let flags = [nat.src, nat.dst, nat.persistent, nat.hash, nat.random];
    let flags = flags.iter().rev().fold(0_u16, |flags, flag| flags << 1 | u16::from(*flag));
    let (mut present, mut bounds) = (0, Vec::new());
    let mut address = |address: Option<IpAddr>, bits: [u16; 2]| match address {
        Some(IpAddr::V4(it)) => {
            present |= bits[0];
            bounds.extend(it.octets());
        }
        Some(IpAddr::V6(it)) => {
            present |= bits[1];
            bounds.extend(it.octets());
        }
        None => {}
    };
    let range = nat.range.as_ref();
    address(range.map(|range| range.min), [bound::IPV4_MIN, bound::IPV6_MIN]);
    address(range.and_then(|range| range.max), [bound::IPV4_MAX, bound::IPV6_MAX]);
    for (port, bit) in [
        (range.and_then(|range| range.min_port), bound::PORT_MIN),
        (range.and_then(|range| range.max_port), bound::PORT_MAX),
    ] {
        if let Some(port) = port {
            present |= bit;
            bounds.extend(port.to_be_bytes());
        }
    }
    to.extend(36_u16.to_be_bytes());
    to.extend([0; 2]);
    to.extend(flags.to_be_bytes());
    to.extend(present.to_be_bytes());
    to.extend(bounds);
}
