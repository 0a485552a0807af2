//! The version-independent match of packets.
//!
//! A [`Match`] is a set of [`Field`]s, at most one of each kind. It stores the link-layer fields
//! separately, and the others as OpenFlow 1.3 bytes in canonical order and form. Two matches are
//! therefore equal exactly if they have the same meaning, encoding for 1.3 is a copy, and a match of
//! usual size needs no allocation.

mod bytes;
mod field;
mod link;

pub(crate) use bytes::Bytes;
pub use field::{Field, Isid, Masked, OpaqueField, VLAN_PRESENT};
pub(crate) use link::Link;

use crate::oxm::{OPENFLOW_BASIC, Oxm};
use crate::wire::{List, WireFormat as _};
use crate::{DecodeError, MacAddr, PortNo, Reader, Writer, v1_3};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Range;
use field::{Value as _, order, with_canonical};
use smallvec::SmallVec;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A condition on packets: every field must match. A match without fields accepts every packet.
///
/// Versions with a fixed set of fields, OpenFlow 1.0 and 1.1, cannot express others. All later versions encode any field, as the
/// list of fields is extensible: a switch refuses fields that it does not have.
///
/// ```
/// use rosemary_openflow::{Match, PortNo};
///
/// let web = Match::new().in_port(PortNo(1)).eth_type(0x0800).ip_proto(6).tcp_dst(80);
/// assert_eq!(web.to_string(), "in_port=1,eth_type=0x0800,ip_proto=6,tcp_dst=80");
/// ```
#[derive(Clone, Default)]
pub struct Match {
    /// Link-layer fields without masks.
    link: Link,
    /// Canonical OXMs of all other fields, in ascending order. A field that `link` also contains is
    /// ignored here.
    others: Bytes,
    /// Upper bound of the [`order`] of these others.
    end: u64,
}

impl Match {
    /// Creates a match that accepts every packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field; replaces an existing condition on it.
    #[must_use]
    #[inline]
    pub fn with(mut self, field: &Field) -> Self {
        self.set(field);
        self
    }

    /// Adds a field; replaces an existing condition on it. A field with a zero mask is removed.
    #[inline]
    pub fn set(&mut self, field: &Field) {
        field.with_oxm(|oxm| self.set_oxm(&oxm));
    }

    /// Like [`Match::with`], for a field of the specification without a mask.
    #[inline]
    fn exact<const N: usize>(mut self, number: u8, value: [u8; N]) -> Self {
        if Link::keeps(number) {
            // Plain stores instead of a call: otherwise each builder method would copy the match.
            self.link.set(number, &value);
            return self;
        }
        let key = u64::from(number);
        // Common case: the field goes to the end.
        if key >= self.end && self.others.append(field::basic(number, false, &value).head(), value)
        {
            self.end = key + 1;
        } else {
            self.set_oxm(&field::basic(number, false, &value));
        }
        self
    }

    /// Whether one of the others is, or may precede, a link-layer field.
    #[inline]
    fn others_begin_low(&self) -> bool {
        const BASIC: [u8; 2] = OPENFLOW_BASIC.to_be_bytes();
        match *self.others {
            [class_high, class_low, field, ..] => {
                [class_high, class_low] == BASIC && field >> 1 <= Link::LAST
            }
            _ => false,
        }
    }

    /// Returns the link-layer fields without masks.
    #[inline]
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Returns in-port, destination and source, if these are all fields.
    #[inline]
    pub(crate) fn pair(&self) -> Option<(PortNo, MacAddr, MacAddr)> {
        let (in_port, eth_dst, eth_src) = self.link.pair().filter(|_| self.is_only_link())?;
        Some((PortNo(u32::from_be_bytes(in_port)), MacAddr(eth_dst), MacAddr(eth_src)))
    }

    /// Returns whether there are only link-layer fields.
    #[inline]
    pub(crate) fn is_only_link(&self) -> bool {
        self.others.is_empty()
    }

    /// Iterates over the other fields in canonical order.
    pub(crate) fn other_oxms(&self) -> impl Iterator<Item = Oxm<'_>> {
        let is_shadowed = |oxm: &Oxm<'_>| oxm.class == OPENFLOW_BASIC && self.link.has(oxm.field);
        let mut rest = Reader::new(&self.others, 0);
        core::iter::from_fn(move || Oxm::read_canonical(&mut rest).ok())
            .filter(move |oxm| !is_shadowed(oxm))
    }

    /// Like [`Match::set`].
    #[inline(never)]
    fn set_oxm(&mut self, oxm: &Oxm<'_>) {
        let key = order(oxm);
        let is_plain = oxm.class == OPENFLOW_BASIC && !oxm.has_mask;
        if is_plain && !self.others_begin_low() && self.link.set(oxm.field, oxm.payload) {
            return;
        }
        // Remove the existing condition on the field.
        if oxm.class == OPENFLOW_BASIC {
            self.link.remove(oxm.field);
        }
        let place =
            if key >= self.end { self.others.len()..self.others.len() } else { self.place_of(key) };
        if !place.is_empty() {
            self.others.remove(place.clone());
            self.end = self.last_order();
        }
        with_canonical(oxm, |oxm| self.insert(&oxm, place.start));
    }

    /// Returns the range of a field among the others, or the empty range at which to insert it.
    fn place_of(&self, key: u64) -> Range<usize> {
        let mut rest = Reader::new(&self.others, 0);
        let mut place = 0..0;
        while let Ok(other) = Oxm::read_canonical(&mut rest) {
            let found = order(&other);
            if found > key {
                break;
            }
            place.end = rest.offset();
            place.start = if found == key { place.end - other.size() } else { place.end };
        }
        place
    }

    /// Inserts a missing canonical field; at this position if it belongs to the others.
    #[inline]
    fn insert(&mut self, oxm: &Oxm<'_>, at: usize) {
        let is_plain = oxm.class == OPENFLOW_BASIC && !oxm.has_mask;
        if !is_plain || !self.link.set(oxm.field, oxm.payload) {
            self.others.insert(at, oxm.head(), oxm.value());
            self.end = self.end.max(order(oxm) + 1);
        }
    }

    /// Returns one more than the order of the last of the others.
    fn last_order(&self) -> u64 {
        let mut rest = Reader::new(&self.others, 0);
        let others = core::iter::from_fn(|| Oxm::read_canonical(&mut rest).ok());
        others.last().map_or(0, |last| order(&last) + 1)
    }

    /// Iterates over the fields in canonical order.
    pub fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        self.oxms().map(|oxm| Field::from_oxm(&oxm))
    }

    /// Iterates over the fields as OXMs in canonical order.
    pub fn oxms(&self) -> impl Iterator<Item = Oxm<'_>> {
        let is_mixed = self.others_begin_low();
        let in_a_row = (!is_mixed).then(|| self.link.oxms().chain(self.other_oxms()));
        let mixed = is_mixed.then(|| self.mixed_oxms());
        in_a_row.into_iter().flatten().chain(mixed.into_iter().flatten())
    }

    /// Like `oxms`, if some of the other fields come first.
    fn mixed_oxms(&self) -> impl Iterator<Item = Oxm<'_>> {
        let (mut link, mut others) = (self.link.oxms().peekable(), self.other_oxms().peekable());
        core::iter::from_fn(move || {
            let key = link.peek().map_or(u64::MAX, order);
            others.next_if(|other| order(other) < key).or_else(|| link.next())
        })
    }

    /// Whether it matches every packet.
    pub fn is_empty(&self) -> bool {
        self.link.is_empty() && self.others.is_empty()
    }

    /// Writes the fields in OpenFlow 1.3 format.
    #[inline]
    pub(crate) fn write_oxms(&self, to: &mut Writer<'_>) {
        if self.others_begin_low() {
            self.oxms().for_each(|oxm| oxm.write(to));
        } else {
            self.link.write(to);
            self.others.write(to);
        }
    }

    /// Converts a match of OpenFlow 1.3; `at` is its offset in the message.
    ///
    /// # Errors
    /// [`DecodeError::BadValue`] if a field is repeated.
    pub(crate) fn from_oxms(oxms: List<'_, Oxm<'_>>, at: usize) -> Result<Self, DecodeError> {
        let mut last = None;
        let mut is_masked = false;
        for oxm in oxms {
            let key = Some(order(&oxm));
            if last >= key {
                return Self::from_unordered(oxms, at);
            }
            last = key;
            is_masked |= oxm.has_mask;
        }
        // Without masks, fields in order are canonical as they are.
        if let (Some(bytes), false) = (oxms.received(), is_masked)
            && let Some(match_) = Self::from_canonical(bytes, last)
        {
            return Ok(match_);
        }
        let mut match_ = Self::new();
        for oxm in oxms {
            match_.push(&oxm);
        }
        Ok(match_)
    }

    /// Reads canonical OXMs that end with the field of order `last`. Returns `None` if another field comes before the
    /// link-layer fields.
    #[inline]
    fn from_canonical(bytes: &[u8], last: Option<u64>) -> Option<Self> {
        let mut match_ = Self::new();
        let (mut rest, mut others) = (Reader::new(bytes, 0), bytes);
        while let Ok(oxm) = Oxm::read_canonical(&mut rest) {
            if order(&oxm) > Link::LAST.into() {
                match_.others = Bytes::of(others);
                match_.end = last.map_or(0, |last| last + 1);
                break;
            }
            if !match_.link.set(oxm.field, oxm.payload) {
                return None;
            }
            others = bytes.get(rest.offset()..).unwrap_or_default();
        }
        Some(match_)
    }

    /// Like [`Match::from_oxms`], for fields in any order.
    ///
    /// It sorts instead of inserting field by field, so a hostile match of 16,000 fields takes no
    /// longer than reading it.
    #[cold]
    fn from_unordered(oxms: List<'_, Oxm<'_>>, at: usize) -> Result<Self, DecodeError> {
        let mut sorted: SmallVec<[Oxm<'_>; 16]> = oxms.iter().collect();
        sorted.sort_by_key(order);
        let mut match_ = Self::new();
        let mut last = None;
        for oxm in &sorted {
            let key = Some(order(oxm));
            if core::mem::replace(&mut last, key) == key {
                return Err(DecodeError::BadValue {
                    field: "match.oxm_fields",
                    offset: at,
                    found: u64::from(oxm.class) << 8 | u64::from(oxm.field),
                    expected: "no field (class and number are given) twice",
                });
            }
            match_.push(oxm);
        }
        Ok(match_)
    }

    /// Appends a field that follows all present ones.
    #[inline]
    fn push(&mut self, oxm: &Oxm<'_>) {
        with_canonical(oxm, |oxm| self.insert(&oxm, self.others.len()));
    }

    /// Returns the fields in canonical order in OpenFlow 1.3 format.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut bytes = Bytes::default();
        for oxm in self.oxms() {
            let end = bytes.len();
            bytes.insert(end, oxm.head(), oxm.value());
        }
        bytes
    }

    /// Converts from the OpenFlow 1.3 structure.
    pub(crate) fn from_v1_3(wire: &v1_3::Match<'_>, at: usize) -> Result<Self, DecodeError> {
        Self::from_oxms(wire.fields, at)
    }
}

macro_rules! builders {
    ($( $(#[$meta:meta])* $name:ident: $variant:ident($type:ty); )*) => {
        /// One builder method per field.
        impl Match {
            $(
                $(#[$meta])*
                #[must_use]
                #[inline]
                pub fn $name(self, value: $type) -> Self {
                    self.exact(field::number::$variant, value.to_bytes())
                }
            )*
        }
    };
}

builders! {
    /// Matches the in-port.
    in_port: InPort(PortNo);
    /// Matches the Ethernet source.
    eth_src: EthSrc(MacAddr);
    /// Matches the Ethernet destination.
    eth_dst: EthDst(MacAddr);
    /// Matches the ethertype.
    eth_type: EthType(u16);
    /// Matches the VLAN priority.
    vlan_pcp: VlanPcp(u8);
    /// Matches the IP protocol.
    ip_proto: IpProto(u8);
    /// Matches the differentiated services code point.
    ip_dscp: IpDscp(u8);
    /// Matches the IPv4 source.
    ipv4_src: Ipv4Src(Ipv4Addr);
    /// Matches the IPv4 destination.
    ipv4_dst: Ipv4Dst(Ipv4Addr);
    /// Matches the IPv6 source.
    ipv6_src: Ipv6Src(Ipv6Addr);
    /// Matches the IPv6 destination.
    ipv6_dst: Ipv6Dst(Ipv6Addr);
    /// Matches the ARP opcode.
    arp_op: ArpOp(u16);
    /// Matches the ARP sender's IPv4 address.
    arp_spa: ArpSpa(Ipv4Addr);
    /// Matches the ARP target's IPv4 address.
    arp_tpa: ArpTpa(Ipv4Addr);
    /// Matches the TCP source port.
    tcp_src: TcpSrc(u16);
    /// Matches the TCP destination port.
    tcp_dst: TcpDst(u16);
    /// Matches the UDP source port.
    udp_src: UdpSrc(u16);
    /// Matches the UDP destination port.
    udp_dst: UdpDst(u16);
}

impl Match {
    /// Matches packets with a VLAN tag of this id (12 bits).
    #[must_use]
    pub fn vlan_vid(self, vid: u16) -> Self {
        self.with(&Field::VlanVid((VLAN_PRESENT | vid & 0x0fff).into()))
    }

    /// Matches packets without a VLAN tag.
    #[must_use]
    pub fn untagged(self) -> Self {
        self.with(&Field::VlanVid(0.into()))
    }
}

impl PartialEq for Match {
    fn eq(&self, other: &Self) -> bool {
        self.oxms().eq(other.oxms())
    }
}

impl Eq for Match {}

impl Hash for Match {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oxms().for_each(|oxm| oxm.hash(state));
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for field in self.fields() {
            write!(f, "{separator}{field}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.fields()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_and_numbers() {
        for number in (0..40).chain(41..45) {
            let name = Field::name_of(number).unwrap();
            assert_eq!(Field::number_of(name), Some(number), "{name}");
        }
        assert_eq!((Field::name_of(40), Field::number_of("eth")), (None, None));
        assert_eq!(Field::name_of(3), Some(Field::EthDst(MacAddr([2; 6]).into()).name()));
    }

    #[test]
    fn matches_built_in_any_order_are_equal() {
        let one = Match::new().eth_type(0x800).in_port(PortNo(3)).ip_proto(17);
        let other = Match::new().ip_proto(17).in_port(PortNo(9)).eth_type(0x800).in_port(PortNo(3));
        assert_eq!(one, other);
        assert_eq!(one.fields().count(), 3);
    }

    #[test]
    fn exact_fields_match_those_set_one_by_one() {
        type Builder = (fn(Match) -> Match, Field);
        let builders: [Builder; 6] = [
            (|it| it.in_port(PortNo(3)), Field::InPort(PortNo(3))),
            (|it| it.eth_dst(MacAddr([2; 6])), Field::EthDst(MacAddr([2; 6]).into())),
            (|it| it.eth_src(MacAddr([4; 6])), Field::EthSrc(MacAddr([4; 6]).into())),
            (|it| it.eth_type(0x86dd), Field::EthType(0x86dd)),
            (|it| it.ipv6_src(Ipv6Addr::LOCALHOST), Field::Ipv6Src(Ipv6Addr::LOCALHOST.into())),
            (|it| it.ipv6_dst(Ipv6Addr::LOCALHOST), Field::Ipv6Dst(Ipv6Addr::LOCALHOST.into())),
        ];
        // Every sequence of six builders, with repetitions: 46,656.
        for sequence in 0..6_usize.pow(6) {
            let chosen = (0..6).map(|place| sequence / 6_usize.pow(place) % 6);
            let mut fields: Vec<Field> = chosen.clone().map(|it| builders[it].1.clone()).collect();
            let built = chosen.fold(Match::new(), |it, number| builders[number].0(it));
            let set = fields.iter().fold(Match::new(), Match::with);
            assert_eq!(built, set, "sequence {sequence}");
            fields.sort();
            fields.dedup();
            let mut found: Vec<Field> = built.fields().collect();
            found.sort();
            assert_eq!(found, fields, "sequence {sequence}");
        }
    }

    #[test]
    fn exact_and_masked_link_fields_replace_each_other() {
        let masked = Field::EthDst(Masked::new(MacAddr([2; 6]), MacAddr([0xff, 0, 0, 0, 0, 0])));
        let (exact, metadata) = (MacAddr([4; 6]), Field::Metadata(7.into()));
        let exact_last =
            Match::new().with(&masked).with(&metadata).eth_dst(exact).in_port(PortNo(1));
        assert_eq!(exact_last, Match::new().in_port(PortNo(1)).eth_dst(exact).with(&metadata));
        let masked_last = Match::new().eth_dst(exact).with(&masked).eth_src(exact);
        assert_eq!(masked_last, Match::new().eth_src(exact).with(&masked));
        let none = Field::EthDst(Masked::new(exact, MacAddr([0; 6])));
        assert_eq!(Match::new().eth_dst(exact).with(&none), Match::new());
        for (match_, numbers) in [(exact_last, &[0, 2, 3][..]), (masked_last, &[3, 4])] {
            assert!(match_.oxms().map(|oxm| oxm.field).eq(numbers.iter().copied()));
            let mut out = [0; 128];
            let flow_mod = crate::FlowMod::add(match_);
            let size = flow_mod.encode(crate::Version::V1_3, 0, &mut out).unwrap();
            assert_eq!(crate::FlowMod::decode(&out[..size]).unwrap(), flow_mod);
        }
    }

    #[test]
    fn full_mask_is_dropped_and_zero_mask_removes_field() {
        let ip = Ipv4Addr::new(10, 1, 2, 3);
        let exact = Field::Ipv4Dst(Masked::new(ip, Ipv4Addr::BROADCAST));
        assert_eq!(Match::new().with(&exact), Match::new().ipv4_dst(ip));
        let nothing = Field::Ipv4Dst(Masked::new(ip, Ipv4Addr::UNSPECIFIED));
        assert_eq!(Match::new().ipv4_dst(ip).with(&nothing), Match::new());
        let net = Masked::new(ip, Ipv4Addr::new(255, 0, 0, 0));
        let ten = Masked::new(Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(255, 0, 0, 0));
        assert_eq!(
            Match::new().with(&Field::Ipv4Src(net)),
            Match::new().with(&Field::Ipv4Src(ten))
        );
    }

    #[test]
    fn unknown_field_is_kept() {
        let opaque = Field::Opaque(OpaqueField {
            class: 1,
            field: 34,
            has_mask: true,
            payload: [0, 1, 0xff, 0xff].into(),
        });
        let match_ = Match::new().with(&opaque).in_port(PortNo(1));
        assert_eq!(match_.fields().nth(1), Some(opaque));
    }
}
