//! Stores the exact link-layer fields that most matches have, each in a place of its own.
//!
//! The builder of a match sets them with stores to constant offsets, so that a compiler keeps the match in registers. In
//! canonical bytes the offset of a field depends on the fields before it, and each field would go through memory.

use crate::Writer;
use crate::oxm::{HEADER_SIZE, OPENFLOW_BASIC, Oxm};
use crate::write::put;

/// OXM numbers of the fields (OpenFlow 1.3.5 §7.2.3.7).
const IN_PORT: u8 = 0;
const ETH_DST: u8 = 3;
const ETH_SRC: u8 = 4;
const ETH_TYPE: u8 = 5;

/// In-port, Ethernet destination, source and type, without masks. A field that is not set is zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Link {
    /// One bit per set field, at its OXM number.
    set: u8,
    in_port: [u8; 4],
    eth_dst: [u8; 6],
    eth_src: [u8; 6],
    eth_type: [u8; 2],
}

impl Link {
    /// The highest OXM number of a field here.
    pub(super) const LAST: u8 = ETH_TYPE;

    /// Returns whether the field of this number is stored here if it has no mask.
    #[inline]
    pub(super) const fn keeps(number: u8) -> bool {
        matches!(number, IN_PORT | ETH_DST | ETH_SRC | ETH_TYPE)
    }

    /// Sets a field; returns `false` if it is not stored here or its value has the wrong size.
    #[inline]
    pub(super) fn set(&mut self, number: u8, value: &[u8]) -> bool {
        let is_set = match number {
            IN_PORT => copy(&mut self.in_port, value),
            ETH_DST => copy(&mut self.eth_dst, value),
            ETH_SRC => copy(&mut self.eth_src, value),
            ETH_TYPE => copy(&mut self.eth_type, value),
            _ => return false,
        };
        self.set |= u8::from(is_set) << number;
        is_set
    }

    /// Removes a field.
    pub(super) fn remove(&mut self, number: u8) {
        match number {
            IN_PORT => self.in_port = [0; 4],
            ETH_DST => self.eth_dst = [0; 6],
            ETH_SRC => self.eth_src = [0; 6],
            ETH_TYPE => self.eth_type = [0; 2],
            _ => return,
        }
        self.set &= !(1 << number);
    }

    /// Returns whether no field is set.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.set == 0
    }

    /// Iterates over the fields in canonical order.
    #[inline]
    pub(super) fn oxms(&self) -> impl Iterator<Item = Oxm<'_>> {
        let fields: [(u8, &[u8]); 4] = [
            (IN_PORT, &self.in_port),
            (ETH_DST, &self.eth_dst),
            (ETH_SRC, &self.eth_src),
            (ETH_TYPE, &self.eth_type),
        ];
        let set = self.set;
        fields
            .into_iter()
            .filter(move |(number, _)| set >> number & 1 != 0)
            .map(|(field, payload)| Oxm { class: OPENFLOW_BASIC, field, has_mask: false, payload })
    }

    /// Writes the fields as OpenFlow 1.3 sends them.
    #[inline]
    pub(super) fn write(&self, to: &mut Writer<'_>) {
        if let Some(in_port) = self.in_port() {
            write::<4, 8>(IN_PORT, in_port, to);
        }
        if let Some(eth_dst) = self.eth_dst() {
            write::<6, 10>(ETH_DST, eth_dst, to);
        }
        if let Some(eth_src) = self.eth_src() {
            write::<6, 10>(ETH_SRC, eth_src, to);
        }
        if let Some(eth_type) = self.eth_type() {
            write::<2, 6>(ETH_TYPE, eth_type, to);
        }
    }

    /// Returns the in-port in network order, if it is set.
    #[inline]
    pub(crate) fn in_port(&self) -> Option<[u8; 4]> {
        self.has(IN_PORT).then_some(self.in_port)
    }

    /// Returns the Ethernet destination, if it is set.
    #[inline]
    pub(crate) fn eth_dst(&self) -> Option<[u8; 6]> {
        self.has(ETH_DST).then_some(self.eth_dst)
    }

    /// Returns the Ethernet source, if it is set.
    #[inline]
    pub(crate) fn eth_src(&self) -> Option<[u8; 6]> {
        self.has(ETH_SRC).then_some(self.eth_src)
    }

    /// Returns in-port, destination and source, if these are all that is set.
    #[inline]
    pub(super) fn pair(&self) -> Option<([u8; 4], [u8; 6], [u8; 6])> {
        const PAIR: u8 = 1 << IN_PORT | 1 << ETH_DST | 1 << ETH_SRC;
        (self.set == PAIR).then_some((self.in_port, self.eth_dst, self.eth_src))
    }

    /// Returns the ethertype in network order, if it is set.
    #[inline]
    pub(crate) fn eth_type(&self) -> Option<[u8; 2]> {
        self.has(ETH_TYPE).then_some(self.eth_type)
    }

    /// Returns whether the field of this number is set.
    #[inline]
    pub(super) fn has(&self, number: u8) -> bool {
        number <= Self::LAST && self.set >> number & 1 != 0
    }
}

/// Copies a value of the right size.
#[inline]
fn copy<const N: usize>(to: &mut [u8; N], value: &[u8]) -> bool {
    let Ok(value) = <[u8; N]>::try_from(value) else { return false };
    *to = value;
    true
}

/// Writes a field of `N` bytes with its header, `M` bytes in all.
#[inline]
fn write<const N: usize, const M: usize>(number: u8, value: [u8; N], to: &mut Writer<'_>) {
    const { assert!(M == N + HEADER_SIZE, "a header and the value") };
    let [class_high, class_low] = OPENFLOW_BASIC.to_be_bytes();
    if let Some(room) = to.array::<M>() {
        #[expect(clippy::cast_possible_truncation, reason = "a few bytes")]
        put(room, 0, [class_high, class_low, number << 1, N as u8]);
        put(room, HEADER_SIZE, value);
    }
}
