//! Datapath ids and Ethernet addresses, with their text forms.

use crate::wire::WireFormat;
use crate::{DecodeError, Reader, Writer};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;
use std::net::Ipv4Addr;
use thiserror::Error;

/// A text has the wrong form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseError {
    /// The text.
    text: String,
    /// The expected form.
    expected: &'static str,
}

impl ParseError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
}

/// A datapath id: the 64 bits that name a switch. OpenFlow 1.3.5 §7.3.1.
///
/// Printed as eight bytes, `00:00:00:00:00:00:00:01`. Parsed from that form, from 16 hexadecimal
/// digits (as `ovs-vsctl` prints it), from these behind `of:` (as ONOS prints it), from hexadecimal with `0x`, and
/// from a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dpid(pub u64);

impl fmt::Display for Dpid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_colon_bytes(&self.0.to_be_bytes(), f)
    }
}

impl FromStr for Dpid {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let value = if let Some(hex) = text.strip_prefix("of:") {
            digits(hex, 16).filter(|_| hex.len() == 16)
        } else if text.contains(':') {
            colon_bytes(text).map(u64::from_be_bytes)
        } else if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            digits(hex, 16)
        } else if text.len() == 16 {
            digits(text, 16)
        } else {
            digits(text, 10)
        };
        value.map(Self).ok_or_else(|| {
            ParseError::new(text, "a datapath id such as 00:00:00:00:00:00:00:01, 0x1 or 1")
        })
    }
}

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MacAddr(pub [u8; 6]);

impl Hash for MacAddr {
    /// Hashes the address as one number: an array hashes its length and then byte after byte.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut number = [0; 8];
        number[..6].copy_from_slice(&self.0);
        state.write_u64(u64::from_ne_bytes(number));
    }
}

impl MacAddr {
    /// The broadcast address, `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether this is a multicast or broadcast address.
    pub fn is_multicast(self) -> bool {
        let [first, ..] = self.0;
        first & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_colon_bytes(&self.0, f)
    }
}

impl FromStr for MacAddr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        colon_bytes(text)
            .map(Self)
            .ok_or_else(|| ParseError::new(text, "an Ethernet address such as 02:00:00:00:00:01"))
    }
}

impl<'a> WireFormat<'a> for MacAddr {
    const SIZE: Option<usize> = Some(6);
    #[inline]
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        from.array(field).map(Self)
    }
    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(&self.0);
    }
}

/// Four bytes in network byte order.
impl<'a> WireFormat<'a> for Ipv4Addr {
    const SIZE: Option<usize> = Some(4);
    #[inline]
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        from.array::<4>(field).map(Self::from)
    }
    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(&self.octets());
    }
}

fn write_colon_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut separator = "";
    for byte in bytes {
        write!(f, "{separator}{byte:02x}")?;
        separator = ":";
    }
    Ok(())
}

/// Parses `N` colon-separated bytes of one or two hexadecimal digits.
fn colon_bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() <= 2)?;
        *byte = u8::try_from(digits(part, 16)?).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}

/// Parses digits only; the standard parser would also accept a sign.
fn digits(text: &str, radix: u32) -> Option<u64> {
    if !text.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpid_parses_from_every_form() {
        for text in [
            "00:00:00:00:00:00:00:2a",
            "000000000000002a",
            "of:000000000000002a",
            "0x2a",
            "0X2A",
            "42",
            "00042",
        ] {
            assert_eq!(text.parse(), Ok(Dpid(42)), "{text}");
        }
        assert_eq!("ffffffffffffffff".parse(), Ok(Dpid(u64::MAX)));
        assert_eq!(Dpid(42).to_string(), "00:00:00:00:00:00:00:2a");
    }

    #[test]
    fn invalid_dpid_is_quoted_in_the_error() {
        for text in [
            "",
            ":",
            "00:00",
            "+1",
            "-1",
            "0x",
            "0x+1",
            "s1",
            "10a",
            "of:1",
            "of:00000000000000000",
            "of:+000000000000001",
            "0x10000000000000000",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4:5:6:7:123",
            "99999999999999999999",
        ] {
            let error = text.parse::<Dpid>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is not a datapath id")));
        }
    }

    #[test]
    fn mac_address_prints_as_it_is_read() {
        let mac: MacAddr = "02:00:5e:00:00:ff".parse().unwrap();
        assert_eq!(mac, MacAddr([2, 0, 0x5e, 0, 0, 0xff]));
        assert_eq!(mac.to_string(), "02:00:5e:00:00:ff");
        assert!("02:00:5e:00:00".parse::<MacAddr>().is_err());
        assert!("02:00:5e:00:00:0g".parse::<MacAddr>().is_err());
    }
}
