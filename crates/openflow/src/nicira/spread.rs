//! Actions that spread packets over links or ports by a hash of their fields.
//!
//! Offsets are from the subtype on, which has bytes 0 and 1.
//!
//! ```text
//!  multipath 10    2 fields  4 basis  6 padding (2)  8 algorithm  10 max_link  12 arg (4)  16 padding (2)
//!                  18 ofs_nbits   20 header (4 bytes)
//!  bundle 12       2 algorithm  4 fields  6 basis  8 header of the members: NXM_OF_IN_PORT  12 n_members
//!  bundle_load 13  14 ofs_nbits, in bundle 0   16 header (4 bytes), in bundle 0   20 padding (4)
//!                  24 members (2 each), padding
//! ```

use super::NiciraAction;
use super::body::Body;
use super::fault::Fault;
use super::field::{FieldId, Subfield};
use super::lookup::port;
use crate::PortNo;
use crate::v1_0::port_from_wire;

/// The header of `NXM_OF_IN_PORT`, the only type of members.
const PORTS: u32 = 0x0000_0002;

/// The most members of a bundle.
const MOST_MEMBERS: u16 = 2048;

/// The fields of a packet that are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HashFields {
    /// The Ethernet source.
    EthSrc,
    /// Ethernet, VLAN, IP addresses, protocol and ports; both directions alike.
    SymmetricL4,
    /// IP addresses, protocol and ports of TCP and SCTP; both directions alike.
    SymmetricL3L4,
    /// The same with the ports of UDP.
    SymmetricL3L4Udp,
    /// The IP source.
    NwSrc,
    /// The IP destination.
    NwDst,
    /// The IP addresses; both directions alike.
    SymmetricL3,
}

/// How a hash chooses a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MultipathAlgorithm {
    /// The remainder.
    ModuloN,
    /// Ranges of the hash.
    HashThreshold,
    /// The link with the highest weight for the packet.
    Hrw,
    /// Hashing until a link below the number is found.
    IterHash,
}

/// How a member of a bundle is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BundleAlgorithm {
    /// The first member that is up.
    ActiveBackup,
    /// The member that is up with the highest weight for the packet.
    Hrw,
}

/// Names and numbers of an enum.
macro_rules! numbers {
    ($($type:ident { $($variant:ident = $number:literal $name:literal,)* })*) => {$(
        impl $type {
            fn from_wire(number: u16) -> Result<Self, Fault> {
                match number {
                    $( $number => Ok(Self::$variant), )*
                    _ => Err(Fault("a known algorithm and fields to hash")),
                }
            }

            fn to_wire(self) -> u16 {
                match self { $( Self::$variant => $number, )* }
            }

            /// Returns the name, as `ovs-ofctl` writes it.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// Returns the one with this name.
            pub fn by_name(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
    )*};
}
numbers! {
    HashFields {
        EthSrc = 0 "eth_src",
        SymmetricL4 = 1 "symmetric_l4",
        SymmetricL3L4 = 2 "symmetric_l3l4",
        SymmetricL3L4Udp = 3 "symmetric_l3l4+udp",
        NwSrc = 4 "nw_src",
        NwDst = 5 "nw_dst",
        SymmetricL3 = 6 "symmetric_l3",
    }
    MultipathAlgorithm {
        ModuloN = 0 "modulo_n",
        HashThreshold = 1 "hash_threshold",
        Hrw = 2 "hrw",
        IterHash = 3 "iter_hash",
    }
    BundleAlgorithm {
        ActiveBackup = 0 "active_backup",
        Hrw = 1 "hrw",
    }
}

/// Writes the number of a link into a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Multipath {
    /// The fields that are hashed.
    pub fields: HashFields,
    /// A number that goes into the hash.
    pub basis: u16,
    /// How the hash chooses.
    pub algorithm: MultipathAlgorithm,
    /// The highest number of a link; the lowest is 0.
    pub max_link: u16,
    /// The argument of the algorithm.
    pub arg: u32,
    /// Where the number goes.
    pub to: Subfield,
}

/// Outputs to one of several ports, or writes its number into a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bundle {
    /// The fields that are hashed.
    pub fields: HashFields,
    /// A number that goes into the hash.
    pub basis: u16,
    /// How a member is chosen.
    pub algorithm: BundleAlgorithm,
    /// The ports, at most 2048.
    pub members: Vec<PortNo>,
    /// Where the port's number goes, at least 16 bits; `None` outputs.
    pub to: Option<Subfield>,
}

pub(super) fn read(subtype: u16, mut from: Body<'_>) -> Result<NiciraAction, Fault> {
    if subtype == 10 {
        return read_multipath(from).map(NiciraAction::Multipath);
    }
    let algorithm = BundleAlgorithm::from_wire(from.u16()?)?;
    let fields = HashFields::from_wire(from.u16()?)?;
    let basis = from.u16()?;
    if from.u32()? != PORTS {
        return Err(Fault("members that are ports"));
    }
    let count = from.u16()?;
    if count > MOST_MEMBERS {
        return Err(Fault("at most 2048 members"));
    }
    let to = if subtype == 13 {
        let packed = from.u16()?;
        let to = Subfield::of_packed(packed, FieldId::read_short(&mut from)?)?;
        if to.n_bits < 16 || !to.field.is_writable() {
            return Err(Fault("a field of 16 bits that can be written"));
        }
        Some(to)
    } else {
        from.zeros(6)?;
        None
    };
    from.zeros(4)?;
    let members = (0..count).map(|_| from.u16().map(port_from_wire));
    let members = members.collect::<Result<_, _>>()?;
    from.end(8)?;
    Ok(NiciraAction::Bundle(Bundle { fields, basis, algorithm, members, to }))
}

fn read_multipath(mut from: Body<'_>) -> Result<Multipath, Fault> {
    let fields = HashFields::from_wire(from.u16()?)?;
    let basis = from.u16()?;
    from.zeros(2)?;
    let algorithm = MultipathAlgorithm::from_wire(from.u16()?)?;
    let (max_link, arg) = (from.u16()?, from.u32()?);
    from.zeros(2)?;
    let packed = from.u16()?;
    let to = Subfield::of_packed(packed, FieldId::read_short(&mut from)?)?;
    from.end(1)?;
    let holds_all = u32::from(max_link) >> to.n_bits.min(16) == 0;
    if !holds_all || !to.field.is_writable() {
        return Err(Fault("a field that can be written and holds the highest link"));
    }
    Ok(Multipath { fields, basis, algorithm, max_link, arg, to })
}

/// Writes an action of this file. Returns `false` for another one.
pub(super) fn write(action: &NiciraAction, to: &mut Vec<u8>) -> bool {
    let mut numbers =
        |numbers: &[u16]| numbers.iter().for_each(|number| to.extend(number.to_be_bytes()));
    match action {
        NiciraAction::Multipath(it) => {
            let [high, low] =
                [it.arg >> 16, it.arg & 0xffff].map(|half| half.try_into().unwrap_or(0));
            numbers(&[10, it.fields.to_wire(), it.basis, 0, it.algorithm.to_wire(), it.max_link]);
            numbers(&[high, low, 0, it.to.packed()]);
            it.to.field.write(to);
        }
        NiciraAction::Bundle(it) => {
            let subtype = if it.to.is_some() { 13 } else { 12 };
            let count = u16::try_from(it.members.len()).unwrap_or(u16::MAX);
            numbers(&[subtype, it.algorithm.to_wire(), it.fields.to_wire(), it.basis, 0, 2, count]);
            numbers(&[it.to.map_or(0, Subfield::packed)]);
            match it.to {
                Some(bits) => bits.field.write(to),
                None => to.extend([0; 4]),
            }
            to.extend([0; 4]);
            it.members.iter().for_each(|member| to.extend(port(*member).to_be_bytes()));
        }
        _ => return false,
    }
    true
}
