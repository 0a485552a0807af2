//! Finds the packet in an Ethernet frame in the same way as a switch.
//!
//! A frame has one type field or several, one inside the other:
//!
//! | type field | what stands before the next one | source |
//! | --- | --- | --- |
//! | 0x8100, 0x88a8; of older devices 0x9100, 0x9200, 0x9300 | the 2 bytes of a VLAN tag | IEEE 802.1Q-2018 §9.4 |
//! | below 0x0600: it is the frame's length | LLC and SNAP, 6 bytes: AA-AA-03, then 00-00-00 or 00-00-F8 | RFC 1042, IEEE 802.1H |
//! | 0x88e7 | 16 bytes: a PBB service instance and two addresses | IEEE 802.1Q-2018 §9.7 |
//! | any other | the packet follows: there is no next one | |
//!
//! `eth_type` of a match (OpenFlow 1.3.5 §7.2.3.7) is the last of them. PBB is the exception: a match has its own type.
//! Open vSwitch reads frames in the same way, with two exceptions: by default it looks behind one VLAN tag, and it knows
//! only 0x8100, 0x88a8 and the OUI 00-00-00. Other switches know more, and so does this module.

/// IPv4 (RFC 894).
pub const IPV4: u16 = 0x0800;

/// ARP (RFC 826).
pub const ARP: u16 = 0x0806;

/// IPv6 (RFC 2464 §3).
pub const IPV6: u16 = 0x86dd;

/// LLDP (IEEE 802.1AB-2016 §7.4).
pub const LLDP: u16 = 0x88cc;

/// The service instance tag of Provider Backbone Bridges.
pub const PBB: u16 = 0x88e7;

/// The lowest ethertype; a lower value is the length of the frame (IEEE 802.3-2018 §3.2.6).
const LEAST_ETHERTYPE: u16 = 0x0600;

/// LLC and SNAP headers in front of a type field: RFC 1042, and the bridge tunnels of IEEE 802.1H.
const SNAP: [[u8; 6]; 2] = [[0xaa, 0xaa, 3, 0, 0, 0], [0xaa, 0xaa, 3, 0, 0, 0xf8]];

/// A type field, and what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer<'a> {
    /// The type field: an ethertype, or a length if it is below 0x0600.
    pub ethertype: u16,
    /// The bytes behind it.
    pub payload: &'a [u8],
}

impl<'a> Layer<'a> {
    #[inline]
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (field, payload) = bytes.split_first_chunk()?;
        Some(Self { ethertype: u16::from_be_bytes(*field), payload })
    }

    /// The next layer; `None` if the packet follows this one, or the frame is cut off.
    #[inline]
    fn inner(&self) -> Option<Self> {
        if !may_hide(self.ethertype) {
            return None; // the case of nearly all frames
        }
        let size = match self.ethertype {
            PBB => 16,
            length if length < LEAST_ETHERTYPE => {
                let header = self.payload.first_chunk()?;
                SNAP.contains(header).then_some(header.len())?
            }
            _ => 2,
        };
        self.payload.get(size..).and_then(Self::read)
    }

    /// The layer inside this one that `eth_type` of a match is about, or this one.
    #[inline]
    #[must_use]
    pub fn innermost(self) -> Self {
        let mut layer = self;
        while layer.ethertype != PBB
            && let Some(inner) = layer.inner()
        {
            layer = inner;
        }
        layer
    }
}

/// Whether this is the type of a VLAN tag.
#[inline]
pub fn is_vlan_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300)
}

/// Whether another type field may stand behind one of this value: that of a VLAN tag or of PBB, or a length.
#[inline]
pub fn may_hide(ethertype: u16) -> bool {
    // The high byte alone decides for most frames.
    matches!(ethertype >> 8, 0..=5 | 0x81 | 0x88 | 0x91..=0x93)
        && (ethertype < LEAST_ETHERTYPE || ethertype == PBB || is_vlan_tag(ethertype))
}

/// The layer that `eth_type` of a match is about, for a frame from its Ethernet header on; `None` if it has no type
/// field.
///
/// A frame that is cut off behind a tag has the type of that tag. A frame with a length and without a SNAP header has
/// its length in place of an ethertype.
#[inline]
pub fn packet(frame: &[u8]) -> Option<Layer<'_>> {
    Some(Layer::read(frame.get(12..)?)?.innermost())
}

/// Whether a frame is of this ethertype, or becomes one when a switch removes what is around it: VLAN tags, SNAP, PBB.
#[inline]
pub fn carries(frame: &[u8], ethertype: u16) -> bool {
    let Some(first) = frame.get(12..).and_then(Layer::read) else { return false };
    first.ethertype == ethertype || may_hide(first.ethertype) && hides(first, ethertype)
}

/// Whether a frame with this beginning may be of this ethertype, in the sense of [`carries`]: one of its type fields has
/// this value, or the beginning ends before the last type field.
///
/// A packet-in contains only the beginning of a packet that the switch keeps in a buffer, or nothing of it
/// (OpenFlow 1.3.5 §7.4.1).
#[inline]
pub fn may_carry(beginning: &[u8], ethertype: u16) -> bool {
    let Some(first) = beginning.get(12..).and_then(Layer::read) else { return true };
    first.ethertype == ethertype
        || may_hide(first.ethertype) && (hides(first, ethertype) || is_cut_off(first))
}

/// Whether the bytes end before the last type field of this layer and those inside it.
#[inline(never)]
fn is_cut_off(first: Layer<'_>) -> bool {
    let layers = core::iter::successors(Some(first), Layer::inner);
    layers.last().is_some_and(|last| match last.ethertype {
        length if length < LEAST_ETHERTYPE => {
            last.payload.first_chunk().is_none_or(|header| SNAP.contains(header))
        }
        ethertype => may_hide(ethertype),
    })
}

/// Whether a layer inside this one is of this ethertype.
#[inline(never)]
fn hides(first: Layer<'_>, ethertype: u16) -> bool {
    core::iter::successors(Some(first), Layer::inner).any(|layer| layer.ethertype == ethertype)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RFC_1042: &[u8] = &[0, 0x2a, 0xaa, 0xaa, 3, 0, 0, 0];
    const BRIDGE_TUNNEL: &[u8] = &[0x05, 0xff, 0xaa, 0xaa, 3, 0, 0, 0xf8];
    const PBB_TAG: &[u8] = &[0x88, 0xe7, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4];

    fn tag(tpid: u16) -> Vec<u8> {
        [tpid.to_be_bytes(), [0, 7]].concat()
    }

    fn frame(layers: &[&[u8]], ethertype: u16) -> Vec<u8> {
        [&[2; 12], &*layers.concat(), &ethertype.to_be_bytes(), b"the packet"].concat()
    }

    #[test]
    fn type_is_found_behind_every_encapsulation() {
        let tags = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300].map(tag);
        let all = tags.iter().map(|tag| &**tag).chain([RFC_1042, BRIDGE_TUNNEL, PBB_TAG, &[]]);
        let all: Vec<&[u8]> = all.collect();
        for outer in &all {
            for middle in &all {
                for inner in &all {
                    let layers = [*outer, *middle, *inner];
                    let lldp = frame(&layers, LLDP);
                    assert!(carries(&lldp, LLDP), "{layers:02x?}");
                    assert!(!carries(&frame(&layers, 0x0800), LLDP), "{layers:02x?}");
                    let expected = if layers.contains(&PBB_TAG) { PBB } else { LLDP };
                    let packet = packet(&lldp).unwrap();
                    assert_eq!(packet.ethertype, expected, "{layers:02x?}");
                    assert!(packet.payload.ends_with(b"the packet"));
                }
            }
        }
    }

    #[test]
    fn other_headers_behind_a_length_hide_no_type() {
        for header in [[0xaa, 0xaa, 3, 0, 0, 1], [0x42, 0x42, 3, 0, 0, 0], [0xaa, 0xaa, 0, 0, 0, 0]]
        {
            let spanning_tree = frame(&[&[0, 0x2a], &header], LLDP);
            assert_eq!(packet(&spanning_tree).unwrap().ethertype, 0x2a);
            assert!(!carries(&spanning_tree, LLDP));
            for end in 0..spanning_tree.len() {
                assert_eq!(may_carry(&spanning_tree[..end], LLDP), end < 20, "{end}");
            }
        }
        assert!(!carries(&frame(&[&[0x06, 0, 0xaa, 0xaa, 3, 0, 0, 0]], LLDP), LLDP), "no length");
    }

    #[test]
    fn frame_cut_anywhere_has_the_last_type_before_the_cut() {
        let whole = frame(&[&tag(0x88a8), &tag(0x8100), RFC_1042, PBB_TAG], LLDP);
        let ends = [(14, 0x88a8), (18, 0x8100), (22, 0x2a), (30, PBB)];
        for end in 0..whole.len() {
            let cut = &whole[..end];
            let expected = ends.iter().rfind(|(least, _)| end >= *least).map(|(_, it)| *it);
            assert_eq!(packet(cut).map(|it| it.ethertype), expected, "{end}");
            assert_eq!(carries(cut, LLDP), end >= 48, "{end}");
            assert!(may_carry(cut, LLDP), "{end}");
            assert_eq!(may_carry(cut, 0x0800), end < 48, "{end}");
        }
    }

    #[test]
    fn only_types_of_encapsulations_may_hide_another() {
        for ethertype in 0..=u16::MAX {
            let layer = Layer { ethertype, payload: &[0xaa, 0xaa, 3, 0, 0, 0].repeat(4) };
            assert_eq!(may_hide(ethertype), layer.inner().is_some(), "{ethertype:#06x}");
        }
    }
}
