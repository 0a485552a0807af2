//! The match fields and registers of Open vSwitch: numbers, sizes, masks and prerequisites.
//!
//! Source: Open vSwitch, `include/openvswitch/meta-flow.h`. A field has a header of 4 bytes (class, number, mask bit, length),
//! or of 8 bytes in class `0xffff`, where the experimenter's id follows:
//!
//! | class | experimenter | prefix of the names | fields |
//! | --- | --- | --- | --- |
//! | `0x0000` | - | `NXM_OF_` | those of OpenFlow 1.0 |
//! | `0x0001` | - | `NXM_NX_` | registers, tunnel, connection tracking, IPv6 |
//! | `0x8000` | - | `OXM_OF_` | those of the specification ([`Field`]) |
//! | `0x8001` | - | `OXM_OF_PKT_REG` | registers of 64 bits |
//! | `0xffff` | `0x4f4e4600` | `ONFOXM_ET_` | fields of OpenFlow 1.5 for 1.3 |
//! | `0xffff` | `0x00002320` | `NXOXM_ET_` | ERSPAN, GTP-U |
//! | `0xffff` | `0x005ad650` | `NXOXM_NSH_` | network service header |
//!
//! A register of 64 bits is two of 32 bits, and one of 128 bits is four: `xreg0` is `reg0` in its high half and `reg1` in its low
//! half, `xxreg0` is `reg0` to `reg3` from the highest bits on.

use core::fmt;

use super::fault::Fault;
use super::table::{ALL, Row};
use crate::matching::{Field, OpaqueField};
use crate::oxm::{EXPERIMENTER, Oxm, basic_size};
use crate::{Match, oxm::OPENFLOW_BASIC};

/// The kind of packets that have a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Prerequisite {
    /// Every packet has the field.
    None,
    /// A packet of ARP or RARP.
    Arp,
    /// A packet of IPv6.
    Ipv6,
    /// A packet of IPv4.
    Ipv4,
    /// A packet of IPv4 or IPv6.
    Ip,
    /// A packet of MPLS.
    Mpls,
    /// A packet with a network service header.
    Nsh,
    /// A packet with this protocol over IPv4 or IPv6.
    Protocol(u8),
    /// A packet of `ICMPv4`.
    Icmpv4,
    /// A packet of ICMPv6.
    Icmpv6,
    /// A neighbour solicitation (ICMPv6 type 135).
    NdSolicit,
    /// A neighbour advertisement (ICMPv6 type 136).
    NdAdvert,
    /// A neighbour solicitation or advertisement.
    Nd,
}

/// A field of Open vSwitch: a header without a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId {
    class: u16,
    number: u8,
    /// 0 outside of the experimenter class.
    experimenter: u32,
    /// The size of a value, in bytes. Of tunnel metadata the switch's table decides it.
    size: u8,
}

/// The most bytes of a tunnel metadata field.
const MAX_TUNNEL_METADATA: u8 = 124;

impl FieldId {
    /// Returns the field with this name, as in `reg0`, `NXM_NX_REG0` or `OXM_OF_METADATA`.
    ///
    /// A name that several fields share means the field of Open vSwitch's actions: `tun_id` is `NXM_NX_TUN_ID`.
    pub fn by_name(name: &str) -> Option<Self> {
        let row = ALL.iter().find(|row| row.name == name || row.nxm == name);
        row.map(Self::of_row).or_else(|| Self::tunnel_metadata(name)).or_else(|| basic(name))
    }

    /// `tun_metadata0` to `tun_metadata63`, of the largest size.
    fn tunnel_metadata(name: &str) -> Option<Self> {
        let number = name
            .strip_prefix("tun_metadata")
            .or_else(|| name.strip_prefix("NXM_NX_TUN_METADATA"))?
            .parse()
            .ok()
            .filter(|number: &u8| *number < 64)?;
        Some(Self { class: 1, number: 40 + number, experimenter: 0, size: MAX_TUNNEL_METADATA })
    }

    fn of_row(row: &Row) -> Self {
        Self {
            class: row.class,
            number: row.number,
            experimenter: row.experimenter,
            size: row.size,
        }
    }

    /// Returns a register of 32 bits, `reg0` to `reg15`.
    ///
    /// # Panics
    /// If `number` is above 15.
    #[must_use]
    pub const fn reg(number: u8) -> Self {
        assert!(number < 16, "there are reg0 to reg15");
        Self { class: 1, number, experimenter: 0, size: 4 }
    }

    /// Reads the header of a field: 4 bytes, or 8 with an experimenter's id.
    pub(super) fn read(from: &mut super::body::Body<'_>) -> Result<Self, Fault> {
        let [a, b, field_and_has_mask, size] = from.array("the header of a field")?;
        let class = u16::from_be_bytes([a, b]);
        let experimenter = match class {
            EXPERIMENTER => from.u32()?,
            _ => 0,
        };
        if field_and_has_mask & 1 != 0 {
            return Err(Fault("a field without a mask"));
        }
        let size = match class {
            EXPERIMENTER => size.checked_sub(4).ok_or(Fault("the length of a field's header"))?,
            _ => size,
        };
        let field = Self { class, number: field_and_has_mask >> 1, experimenter, size };
        if field.is_known() { Ok(field) } else { Err(Fault("a field of Open vSwitch")) }
    }

    /// Reads a header of exactly 4 bytes.
    pub(super) fn read_short(from: &mut super::body::Body<'_>) -> Result<Self, Fault> {
        let field = Self::read(from)?;
        if field.class == EXPERIMENTER {
            return Err(Fault("a field with a header of 4 bytes"));
        }
        Ok(field)
    }

    /// Writes the header.
    pub(super) fn write(self, to: &mut Vec<u8>) {
        let id: &[u8] =
            if self.class == EXPERIMENTER { &self.experimenter.to_be_bytes() } else { &[] };
        to.extend(self.class.to_be_bytes());
        to.extend([
            self.number << 1,
            self.size.saturating_add(u8::try_from(id.len()).unwrap_or(0)),
        ]);
        to.extend_from_slice(id);
    }

    fn row(self) -> Option<&'static Row> {
        let is_it = |row: &&Row| {
            (row.class, row.number, row.experimenter)
                == (self.class, self.number, self.experimenter)
        };
        ALL.iter().find(is_it)
    }

    /// Returns the number of a tunnel metadata field.
    fn tunnel_metadata_number(self) -> Option<u8> {
        self.number.checked_sub(40).filter(|number| self.class == 1 && *number < 64)
    }

    /// Whether the field exists and has this size.
    fn is_known(self) -> bool {
        if self.tunnel_metadata_number().is_some() {
            return (1..=MAX_TUNNEL_METADATA).contains(&self.size);
        }
        if self.class == OPENFLOW_BASIC {
            let known = Field::name_of(self.number).is_some();
            return known && size_of_basic(self.number) == Some(usize::from(self.size));
        }
        self.row().is_some_and(|row| row.size == self.size)
    }

    /// Returns the class and the number in it.
    pub fn class_and_number(self) -> (u16, u8) {
        (self.class, self.number)
    }

    /// Returns the number of bits of a value.
    pub fn bits(self) -> u16 {
        match self.row() {
            Some(row) => row.bits,
            None if self.class == OPENFLOW_BASIC => {
                bits_of_basic(self.number).unwrap_or(u16::from(self.size) * 8)
            }
            None => u16::from(self.size) * 8,
        }
    }

    /// Whether a match on the field may have a mask.
    pub fn is_maskable(self) -> bool {
        self.row().map_or(self.class == OPENFLOW_BASIC || self.class == 1, |row| row.maskable)
    }

    /// Whether Open vSwitch lets an action write the field.
    pub fn is_writable(self) -> bool {
        match self.row() {
            Some(row) => row.writable,
            // in_phy_port, eth_type, mpls_bos, pbb, exthdr, flags, actset_output, packet_type
            None if self.class == OPENFLOW_BASIC => {
                !matches!(self.number, 1 | 5 | 10 | 36..=37 | 39 | 41..=44)
            }
            None => self.tunnel_metadata_number().is_some(),
        }
    }

    /// Returns what a packet must be to have the field.
    pub fn prerequisite(self) -> Prerequisite {
        self.row().map_or(Prerequisite::None, |row| row.needs)
    }

    /// Returns the number of the specification's field with the same meaning, if there is one.
    ///
    /// `NXM_OF_VLAN_TCI` and `NXM_OF_IP_TOS` have other bits than the specification's fields, and have none.
    pub fn same_as(self) -> Option<u8> {
        match self.class {
            OPENFLOW_BASIC => Some(self.number),
            _ => self.row()?.same_as,
        }
    }

    /// Returns the name in matches, as `ovs-ofctl` writes it: `reg0`.
    pub fn name(self) -> &'static str {
        match self.row() {
            Some(row) => row.name,
            None if self.class == OPENFLOW_BASIC => Field::name_of(self.number).unwrap_or("oxm"),
            None => "tun_metadata",
        }
    }

    /// Returns a match field with this value, right-aligned, and a mask.
    ///
    /// # Errors
    /// [`Fault`] if the value or the mask does not fit, or the field has no masks.
    pub fn with_value(self, value: u128, mask: Option<u128>) -> Result<Field, Fault> {
        let bits = if self == (Self { class: OPENFLOW_BASIC, number: 6, ..self }) {
            13
        } else {
            self.bits()
        };
        let bytes = |value: u128| {
            let fits = bits >= 128 || value >> bits == 0;
            let all = value.to_be_bytes();
            match all.len().checked_sub(usize::from(self.size)) {
                Some(start) if fits => Ok(all.get(start..).unwrap_or_default().to_vec()),
                None if fits => {
                    Ok([vec![0; usize::from(self.size) - all.len()], all.to_vec()].concat())
                }
                _ => Err(Fault("a value that fits in the field")),
            }
        };
        if mask.is_some() && !self.is_maskable() {
            return Err(Fault("a field that can have a mask"));
        }
        let mut payload = match self.class {
            EXPERIMENTER => self.experimenter.to_be_bytes().to_vec(),
            _ => Vec::new(),
        };
        payload.extend(bytes(value)?);
        payload.extend(mask.map(bytes).transpose()?.unwrap_or_default());
        let (class, field, has_mask) = (self.class, self.number, mask.is_some());
        Ok(Field::from_oxm(&Oxm { class, field, has_mask, payload: &payload }))
    }

    /// Returns the field of a match field, with its value and its mask; `None` if this crate does not know it or the length is
    /// wrong.
    pub fn of_field(field: &Field) -> Option<(Self, u128, Option<u128>)> {
        field.with_oxm(|oxm| Self::of_oxm(&oxm))
    }

    /// Like [`of_field`](Self::of_field).
    pub fn of_oxm(oxm: &Oxm<'_>) -> Option<(Self, u128, Option<u128>)> {
        let (value, mask) = oxm.value_and_mask();
        if oxm.has_mask != mask.is_some() {
            return None;
        }
        let experimenter = match oxm.class {
            EXPERIMENTER => u32::from_be_bytes(*oxm.payload.first_chunk()?),
            _ => 0,
        };
        let size = u8::try_from(value.len()).ok()?;
        let field = Self { class: oxm.class, number: oxm.field, experimenter, size };
        let number = |bytes: &[u8]| {
            bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
        };
        // Longer values are of tunnel metadata, whose low 128 bits are shown.
        field.is_known().then(|| (field, number(value), mask.map(number)))
    }
}

/// `NXM_NX_REG0`.
impl fmt::Display for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.row(), self.tunnel_metadata_number()) {
            (Some(row), _) => f.write_str(row.nxm),
            (None, Some(number)) => write!(f, "NXM_NX_TUN_METADATA{number}"),
            (None, None) => write!(f, "OXM_OF_{}", self.name().to_uppercase()),
        }
    }
}

impl fmt::Debug for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the specification's field with this name.
fn basic(name: &str) -> Option<FieldId> {
    let lower;
    let short = match name.strip_prefix("OXM_OF_") {
        Some(upper) => {
            lower = upper.to_lowercase();
            &lower
        }
        None => name,
    };
    let number = Field::number_of(short)?;
    let size = u8::try_from(size_of_basic(number)?).ok()?;
    Some(FieldId { class: OPENFLOW_BASIC, number, experimenter: 0, size })
}

/// The size of the specification's field, also of those of OpenFlow 1.4 and 1.5.
fn size_of_basic(number: u8) -> Option<usize> {
    match number {
        41 => Some(1),
        42 => Some(2),
        43 | 44 => Some(4),
        _ => basic_size(number),
    }
}

/// The bits of the specification's field whose size in bytes leaves bits over (OpenFlow 1.3.5 §7.2.3.7).
fn bits_of_basic(number: u8) -> Option<u16> {
    Some(match number {
        6 | 42 => 12,  // vlan_vid, without the bit for "there is a tag"; tcp_flags
        7 | 35 => 3,   // vlan_pcp, mpls_tc
        8 => 6,        // ip_dscp
        9 => 2,        // ip_ecn
        28 | 34 => 20, // ipv6_flabel, mpls_label
        36 | 41 => 1,  // mpls_bos, pbb_uca
        39 => 9,       // ipv6_exthdr
        _ => return None,
    })
}

/// Bits of a field: the low `n_bits` from bit `offset` on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: FieldId,
    /// The lowest bit.
    pub offset: u16,
    /// The number of bits, at least 1.
    pub n_bits: u16,
}

impl Subfield {
    /// Returns all bits of a field.
    pub fn whole(field: FieldId) -> Self {
        Self { field, offset: 0, n_bits: field.bits() }
    }

    /// Returns `n_bits` bits of a field from bit `offset` on.
    pub fn part(field: FieldId, offset: u16, n_bits: u16) -> Self {
        Self { field, offset, n_bits }
    }

    /// Checks that the bits are in the field.
    pub(super) fn checked(self) -> Result<Self, Fault> {
        let end = self.offset.checked_add(self.n_bits);
        let fits = end.is_some_and(|end| end <= self.field.bits());
        if self.n_bits > 0 && fits { Ok(self) } else { Err(Fault("bits that are in the field")) }
    }

    /// Reads `ofs_nbits`: the offset in 10 bits, the number of bits less 1 in 6.
    pub(super) fn of_packed(packed: u16, field: FieldId) -> Result<Self, Fault> {
        Self { field, offset: packed >> 6, n_bits: (packed & 0x3f) + 1 }.checked()
    }

    /// Returns `ofs_nbits`; what does not fit is found when the action is checked.
    pub(super) fn packed(self) -> u16 {
        self.offset << 6 | self.n_bits.wrapping_sub(1) & 0x3f
    }
}

impl From<FieldId> for Subfield {
    fn from(field: FieldId) -> Self {
        Self::whole(field)
    }
}

/// `NXM_NX_REG0[]`, or `NXM_NX_REG0[0..15]`, or `NXM_NX_REG0[3]`.
impl fmt::Display for Subfield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.field)?;
        match (self.offset, self.n_bits) {
            (0, bits) if bits == self.field.bits() => f.write_str("[]"),
            (bit, 1) => write!(f, "[{bit}]"),
            (first, bits) => write!(f, "[{first}..{}]", (first + bits).saturating_sub(1)),
        }
    }
}

impl fmt::Debug for Subfield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes a field that this module knows, as `reg0=0x1/0xff`; returns `None` if it does not know it.
pub(crate) fn display(field: &OpaqueField, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
    let OpaqueField { class, field: number, has_mask, payload } = field;
    let oxm = Oxm { class: *class, field: *number, has_mask: *has_mask, payload };
    let (id, value, mask) = FieldId::of_oxm(&oxm)?;
    Some(write_value(id, value, mask, f))
}

fn write_value(
    id: FieldId,
    value: u128,
    mask: Option<u128>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match id.tunnel_metadata_number() {
        Some(number) => write!(f, "tun_metadata{number}={value:#x}")?,
        None => write!(f, "{}={value:#x}", id.name())?,
    }
    mask.map_or(Ok(()), |mask| write!(f, "/{mask:#x}"))
}

/// Finds a field of a match that Open vSwitch ignores or refuses, because the match lacks its prerequisite.
///
/// Only fields of Open vSwitch's own classes are looked at.
pub fn missing_prerequisite(matching: &Match) -> Option<(FieldId, Prerequisite)> {
    let value_of = |wanted: u8| {
        matching.fields().find_map(|field| {
            let (id, value, mask) = FieldId::of_field(&field)?;
            (id.same_as() == Some(wanted) && mask.is_none()).then_some(value)
        })
    };
    let (eth_type, protocol) = (value_of(5), value_of(10));
    let is_ip = matches!(eth_type, Some(0x0800 | 0x86dd));
    let holds = |needs| match needs {
        Prerequisite::None => true,
        Prerequisite::Arp => matches!(eth_type, Some(0x0806 | 0x8035)),
        Prerequisite::Ipv4 => eth_type == Some(0x0800),
        Prerequisite::Ipv6 => eth_type == Some(0x86dd),
        Prerequisite::Ip => is_ip,
        Prerequisite::Mpls => matches!(eth_type, Some(0x8847 | 0x8848)),
        Prerequisite::Nsh => eth_type == Some(0x894f),
        Prerequisite::Protocol(wanted) => is_ip && protocol == Some(wanted.into()),
        Prerequisite::Icmpv4 => eth_type == Some(0x0800) && protocol == Some(1),
        Prerequisite::Icmpv6 => eth_type == Some(0x86dd) && protocol == Some(58),
        Prerequisite::NdSolicit => value_of(29) == Some(135),
        Prerequisite::NdAdvert => value_of(29) == Some(136),
        Prerequisite::Nd => matches!(value_of(29), Some(135 | 136)),
    };
    let own = matching.fields().filter(|field| matches!(field, Field::Opaque(_)));
    own.filter_map(|field| FieldId::of_field(&field))
        .map(|(id, ..)| (id, id.prerequisite()))
        .find(|(_, needs)| !holds(*needs))
}
