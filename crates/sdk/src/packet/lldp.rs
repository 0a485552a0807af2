//! Reads and builds LLDP data units (IEEE 802.1AB-2016 §8).
//!
//! ```text
//! type (7 bits) and size (9 bits) of a value, the value; in this order:
//!     chassis, port, time to live, any others, end
//! ```

use openflow::{MacAddr, ethernet};

/// The destination of LLDP that no bridge forwards (IEEE 802.1AB-2016 table 7-1).
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);

/// Subtype of a chassis or port: locally assigned (IEEE 802.1AB-2016 tables 8-2 and 8-3).
pub const LOCAL: u8 = 7;

/// Type of an organisation's own values (IEEE 802.1AB-2016 §8.6).
pub const ORGANISATION: u8 = 127;

const END: u8 = 0;
const CHASSIS: u8 = 1;
const PORT: u8 = 2;
const TIME_TO_LIVE: u8 = 3;

/// Bytes of the longest value.
const LONGEST_VALUE: usize = 0x1ff;

/// A value with its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Its type, at most 127.
    pub kind: u8,
    /// Its bytes, at most 511.
    pub value: &'a [u8],
}

/// The name of a chassis or of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id<'a> {
    /// Meaning of the bytes, as [`LOCAL`].
    pub subtype: u8,
    /// The name, 1 to 255 bytes.
    pub id: &'a [u8],
}

impl<'a> Id<'a> {
    fn of(tlv: Tlv<'a>, kind: u8) -> Option<Self> {
        let (subtype, id) = tlv.value.split_first()?;
        (tlv.kind == kind && (1..=255).contains(&id.len()))
            .then_some(Self { subtype: *subtype, id })
    }
}

/// An LLDP data unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lldp<'a> {
    /// The system that sent it.
    pub chassis: Id<'a>,
    /// The port that it left through.
    pub port: Id<'a>,
    /// How long the receiver may believe it, in seconds.
    pub seconds: u16,
    others: &'a [u8],
}

impl<'a> Lldp<'a> {
    /// Reads the bytes behind the ethertype, or returns `None` if the three values that each unit begins with are not there.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut tlvs = Tlvs { rest: bytes };
        let chassis = Id::of(tlvs.next()?, CHASSIS)?;
        let port = Id::of(tlvs.next()?, PORT)?;
        let life = tlvs.next().filter(|tlv| tlv.kind == TIME_TO_LIVE)?;
        let seconds = u16::from_be_bytes(*life.value.first_chunk()?);
        Some(Self { chassis, port, seconds, others: tlvs.rest })
    }

    /// Returns the values behind the time to live, up to the end or the first that is cut off.
    pub fn others(&self) -> Tlvs<'a> {
        Tlvs { rest: self.others }
    }
}

/// Iterates over values.
#[derive(Debug, Clone)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Tlv<'a>;

    fn next(&mut self) -> Option<Tlv<'a>> {
        let (head, behind) = self.rest.split_first_chunk()?;
        let head = u16::from_be_bytes(*head);
        let (value, rest) = behind.split_at_checked(usize::from(head & 0x1ff))?;
        let [kind, _] = (head >> 1).to_be_bytes();
        self.rest = rest;
        (kind != END).then_some(Tlv { kind, value })
    }
}

/// Builds the frame of a data unit that leaves a port with the address `eth_src`; returns `None` if a name or another value
/// has no size that the format allows.
pub fn frame(
    eth_src: MacAddr,
    chassis: Id<'_>,
    port: Id<'_>,
    seconds: u16,
    others: &[Tlv<'_>],
) -> Option<Vec<u8>> {
    let mut frame = [&NEAREST_BRIDGE.0[..], &eth_src.0, &ethernet::LLDP.to_be_bytes()].concat();
    for (kind, id) in [(CHASSIS, chassis), (PORT, port)] {
        let value = [&[id.subtype], id.id].concat();
        Id::of(Tlv { kind, value: &value }, kind)?;
        put(&mut frame, Tlv { kind, value: &value })?;
    }
    put(&mut frame, Tlv { kind: TIME_TO_LIVE, value: &seconds.to_be_bytes() })?;
    for tlv in others {
        put(&mut frame, *tlv)?;
    }
    put(&mut frame, Tlv { kind: END, value: &[] })?;
    Some(frame)
}

fn put(frame: &mut Vec<u8>, tlv: Tlv<'_>) -> Option<()> {
    let size = u16::try_from(tlv.value.len()).ok().filter(|_| tlv.value.len() <= LONGEST_VALUE)?;
    let kind = u16::from(tlv.kind).checked_shl(9).filter(|_| tlv.kind <= ORGANISATION)?;
    frame.extend((kind | size).to_be_bytes());
    frame.extend(tlv.value);
    Some(())
}
