//! Translates matches of OpenFlow 1.3.
//!
//! A request may use the names of OpenFlow 1.3 (`eth_type`) or those of 1.0 (`dl_type`). An answer has the names of 1.0 where there is one,
//! as Ryu's answers.

use std::net::{Ipv4Addr, Ipv6Addr};

use openflow::matching::{Isid, VLAN_PRESENT};
use openflow::{Field, MacAddr, Masked, Match, PortNo, Version};
use serde_json::{Map, Value};

use crate::number::{integer, narrow, port, port_json};
use crate::{OfctlError, invalid};

const ARP: u64 = 0x0806;
const TCP: u64 = 6;
const UDP: u64 = 17;

/// The fields by the name of OpenFlow 1.3 and the name in an answer.
const IN_ANSWERS: [(&str, &str); 11] = [
    ("eth_src", "dl_src"),
    ("eth_dst", "dl_dst"),
    ("eth_type", "dl_type"),
    ("vlan_vid", "dl_vlan"),
    ("ipv4_src", "nw_src"),
    ("ipv4_dst", "nw_dst"),
    ("ip_proto", "nw_proto"),
    ("tcp_src", "tp_src"),
    ("tcp_dst", "tp_dst"),
    ("udp_src", "tp_src"),
    ("udp_dst", "tp_dst"),
];

/// Reads a match.
pub(crate) fn read(attributes: &Value, version: Version) -> Result<Match, OfctlError> {
    let Some(attributes) = attributes.as_object() else {
        return invalid(format!("match is {attributes}; expected an object"));
    };
    let number = |keys: [&str; 2]| {
        let value = keys.iter().find_map(|key| attributes.get(*key));
        value.map(|value| integer(keys[0], value)).transpose()
    };
    let is_arp = number(["dl_type", "eth_type"])? == Some(ARP);
    let protocol = number(["nw_proto", "ip_proto"])?;
    let mut match_ = Match::new();
    for (key, value) in attributes {
        let name = match (key.as_str(), protocol) {
            ("dl_dst", _) => "eth_dst",
            ("dl_src", _) => "eth_src",
            ("dl_type", _) => "eth_type",
            ("dl_vlan", _) => "vlan_vid",
            ("nw_src", _) if is_arp => "arp_spa",
            ("nw_dst", _) if is_arp => "arp_tpa",
            ("nw_src", _) => "ipv4_src",
            ("nw_dst", _) => "ipv4_dst",
            ("nw_proto", _) => "ip_proto",
            ("tp_src", Some(TCP)) => "tcp_src",
            ("tp_dst", Some(TCP)) => "tcp_dst",
            ("tp_src", Some(UDP)) => "udp_src",
            ("tp_dst", Some(UDP)) => "udp_dst",
            ("tp_src" | "tp_dst", _) => {
                return invalid(format!("{key} needs ip_proto 6 (TCP) or 17 (UDP)"));
            }
            (other, _) => other,
        };
        let field = field(name, (key, value), version)?;
        let is_there = |other: Field| other.name() == field.name();
        if match_.fields().any(is_there) {
            return invalid(format!("{key} repeats a condition that another name states"));
        }
        match_.set(&field);
    }
    Ok(match_)
}

/// Reads a field of a version with OXM; `key` is its name in the request.
pub(crate) fn field(
    name: &str,
    (key, value): (&str, &Value),
    version: Version,
) -> Result<Field, OfctlError> {
    use Field as F;
    Ok(match name {
        "in_port" => F::InPort(port(key, value, version)?),
        "in_phy_port" => F::InPhyPort(PortNo(narrow(key, value)?)),
        "metadata" => F::Metadata(masked(key, value)?),
        "eth_dst" => F::EthDst(address(key, value)?),
        "eth_src" => F::EthSrc(address(key, value)?),
        "eth_type" => F::EthType(narrow(key, value)?),
        "vlan_vid" => F::VlanVid(vid(key, value)?),
        "vlan_pcp" => F::VlanPcp(bits(key, value, 3)?),
        "ip_dscp" => F::IpDscp(bits(key, value, 6)?),
        "ip_ecn" => F::IpEcn(bits(key, value, 2)?),
        "ip_proto" => F::IpProto(narrow(key, value)?),
        "ipv4_src" => F::Ipv4Src(ipv4(key, value)?),
        "ipv4_dst" => F::Ipv4Dst(ipv4(key, value)?),
        "tcp_src" => F::TcpSrc(narrow(key, value)?),
        "tcp_dst" => F::TcpDst(narrow(key, value)?),
        "udp_src" => F::UdpSrc(narrow(key, value)?),
        "udp_dst" => F::UdpDst(narrow(key, value)?),
        "sctp_src" => F::SctpSrc(narrow(key, value)?),
        "sctp_dst" => F::SctpDst(narrow(key, value)?),
        "icmpv4_type" => F::Icmpv4Type(narrow(key, value)?),
        "icmpv4_code" => F::Icmpv4Code(narrow(key, value)?),
        "arp_op" => F::ArpOp(narrow(key, value)?),
        "arp_spa" => F::ArpSpa(ipv4(key, value)?),
        "arp_tpa" => F::ArpTpa(ipv4(key, value)?),
        "arp_sha" => F::ArpSha(address(key, value)?),
        "arp_tha" => F::ArpTha(address(key, value)?),
        "ipv6_src" => F::Ipv6Src(ipv6(key, value)?),
        "ipv6_dst" => F::Ipv6Dst(ipv6(key, value)?),
        "ipv6_flabel" => F::Ipv6Flabel(masked(key, value)?),
        "icmpv6_type" => F::Icmpv6Type(narrow(key, value)?),
        "icmpv6_code" => F::Icmpv6Code(narrow(key, value)?),
        "ipv6_nd_target" => F::Ipv6NdTarget(ipv6(key, value)?.value),
        "ipv6_nd_sll" => F::Ipv6NdSll(address(key, value)?.value),
        "ipv6_nd_tll" => F::Ipv6NdTll(address(key, value)?.value),
        "mpls_label" => F::MplsLabel(bits(key, value, 20)?),
        "mpls_tc" => F::MplsTc(bits(key, value, 3)?),
        "mpls_bos" => F::MplsBos(bits(key, value, 1)?),
        "pbb_isid" => {
            let Masked { value, mask } = masked::<u32>(key, value)?;
            F::PbbIsid(Masked { value: Isid(value), mask: mask.map(Isid) })
        }
        "tunnel_id" => F::TunnelId(masked(key, value)?),
        "ipv6_exthdr" => F::Ipv6Exthdr(masked(key, value)?),
        _ => return invalid(format!("{key} is no field of OpenFlow 1.3 that Ryu knows")),
    })
}

/// Reads a value with an optional mask behind a slash.
fn split(value: &Value) -> (Value, Option<Value>) {
    match value.as_str().and_then(|text| text.split_once('/')) {
        Some((value, mask)) => (Value::from(value), Some(Value::from(mask))),
        None => (value.clone(), None),
    }
}

fn masked<T: TryFrom<u64>>(key: &str, value: &Value) -> Result<Masked<T>, OfctlError> {
    let (value, mask) = split(value);
    let mask = mask.map(|mask| narrow(key, &mask)).transpose()?;
    Ok(Masked { value: narrow(key, &value)?, mask })
}

/// Reads an integer of this number of bits.
fn bits<T: TryFrom<u64>>(key: &str, value: &Value, bits: u32) -> Result<T, OfctlError> {
    let number = integer(key, value)?;
    match T::try_from(number) {
        Ok(it) if number < 1 << bits => Ok(it),
        _ => invalid(format!("{key} is {number}; expected at most {bits} bits")),
    }
}

pub(crate) fn address(key: &str, value: &Value) -> Result<Masked<MacAddr>, OfctlError> {
    let (value, mask) = split(value);
    let read = |value: &Value| {
        let parsed = value.as_str().and_then(|text| text.parse::<MacAddr>().ok());
        let what =
            || format!("{key} is {value}; expected an address such as \"02:00:00:00:00:01\"");
        parsed.ok_or_else(|| OfctlError::Invalid(what()))
    };
    Ok(Masked { value: read(&value)?, mask: mask.as_ref().map(read).transpose()? })
}

pub(crate) fn ipv4(key: &str, value: &Value) -> Result<Masked<Ipv4Addr>, OfctlError> {
    ip(key, value, |length| {
        (length <= 32).then(|| Ipv4Addr::from(u32::MAX.checked_shl(32 - length).unwrap_or(0)))
    })
}

fn ipv6(key: &str, value: &Value) -> Result<Masked<Ipv6Addr>, OfctlError> {
    ip(key, value, |length| {
        (length <= 128).then(|| Ipv6Addr::from(u128::MAX.checked_shl(128 - length).unwrap_or(0)))
    })
}

/// Reads an IP address with an optional mask or length of the prefix; `mask_of` makes a mask of the latter.
fn ip<T: std::str::FromStr>(
    key: &str,
    value: &Value,
    mask_of: impl Fn(u32) -> Option<T>,
) -> Result<Masked<T>, OfctlError> {
    let wrong = || OfctlError::Invalid(format!("{key} is {value}; expected an IP address"));
    let text = value.as_str().ok_or_else(wrong)?;
    let (text, mask) = text.split_once('/').map_or((text, None), |(text, mask)| (text, Some(mask)));
    let mask = mask.map(|mask| match mask.parse::<u32>() {
        Ok(length) => mask_of(length).ok_or_else(wrong),
        Err(_) => mask.parse().map_err(|_| wrong()),
    });
    Ok(Masked { value: text.parse().map_err(|_| wrong())?, mask: mask.transpose()? })
}

/// Reads a VLAN id: decimal without the bit that a tag has, hexadecimal with it.
fn vid(key: &str, value: &Value) -> Result<Masked<u16>, OfctlError> {
    let is_decimal = match value {
        Value::String(text) => text.bytes().all(|byte| byte.is_ascii_digit()),
        _ => true,
    };
    if is_decimal {
        let number: u16 = match value {
            // Python takes leading zeros here.
            Value::String(text) => text.parse().or_else(|_| narrow(key, value))?,
            value => narrow(key, value)?,
        };
        return Ok((number | VLAN_PRESENT).into());
    }
    masked(key, value)
}

/// Writes a match.
pub(crate) fn json(match_: &Match, version: Version) -> Value {
    let mut object = Map::new();
    for field in match_.fields() {
        let name = field.name();
        let key = IN_ANSWERS.iter().find(|(it, _)| *it == name).map_or(name, |(_, key)| key);
        // A flow has at most one of the fields that share a name.
        object.entry(key).or_insert_with(|| value(&field, version));
    }
    Value::Object(object)
}

fn value(field: &Field, version: Version) -> Value {
    match field {
        Field::InPort(port) => port_json(*port, version),
        Field::VlanVid(Masked { value, mask: Some(mask) }) => {
            Value::from(format!("{value:#06x}/{mask:#06x}"))
        }
        Field::VlanVid(Masked { value, mask: None }) if value & VLAN_PRESENT != 0 => {
            Value::from((value & !VLAN_PRESENT).to_string())
        }
        Field::VlanVid(Masked { value, mask: None }) => Value::from(format!("{value:#06x}")),
        other => plain(other),
    }
}

/// Writes the value of a field: a number or an address, with its mask behind a slash.
pub(crate) fn plain(field: &Field) -> Value {
    fn number<T: Into<u64> + Copy>(masked: &Masked<T>) -> Value {
        let value: u64 = masked.value.into();
        match masked.mask {
            None => Value::from(value),
            Some(mask) => Value::from(format!("{value}/{}", mask.into())),
        }
    }
    use Field as F;
    match field {
        F::InPort(port) | F::InPhyPort(port) => Value::from(port.0),
        F::EthType(it)
        | F::TcpSrc(it)
        | F::TcpDst(it)
        | F::UdpSrc(it)
        | F::UdpDst(it)
        | F::SctpSrc(it)
        | F::SctpDst(it)
        | F::ArpOp(it) => Value::from(*it),
        F::VlanPcp(it)
        | F::IpDscp(it)
        | F::IpEcn(it)
        | F::IpProto(it)
        | F::Icmpv4Type(it)
        | F::Icmpv4Code(it)
        | F::Icmpv6Type(it)
        | F::Icmpv6Code(it)
        | F::MplsTc(it)
        | F::MplsBos(it) => Value::from(*it),
        F::MplsLabel(it) => Value::from(*it),
        F::Metadata(it) | F::TunnelId(it) => number(it),
        F::VlanVid(it) | F::Ipv6Exthdr(it) => number(it),
        F::Ipv6Flabel(it) => number(it),
        F::PbbIsid(it) => number(&Masked { value: it.value.0, mask: it.mask.map(|it| it.0) }),
        F::Ipv6NdTarget(it) => Value::from(it.to_string()),
        F::Ipv6NdSll(it) | F::Ipv6NdTll(it) => Value::from(it.to_string()),
        F::EthDst(it) | F::EthSrc(it) | F::ArpSha(it) | F::ArpTha(it) => {
            Value::from(it.to_string())
        }
        F::Ipv4Src(it) | F::Ipv4Dst(it) | F::ArpSpa(it) | F::ArpTpa(it) => {
            Value::from(it.to_string())
        }
        F::Ipv6Src(it) | F::Ipv6Dst(it) => Value::from(it.to_string()),
        other => {
            let text = other.to_string();
            Value::from(text.split_once('=').map_or(text.clone(), |(_, value)| value.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(attributes: &Value) -> Result<Match, OfctlError> {
        super::read(attributes, Version::PREFERRED)
    }

    fn json(match_: &Match) -> Value {
        super::json(match_, Version::PREFERRED)
    }

    #[test]
    fn names_of_both_versions_are_read() {
        let old = json!({"dl_type": 2048, "nw_src": "10.0.0.0/8", "nw_proto": 6, "tp_dst": 80,
                         "dl_vlan": 100, "dl_dst": "02:00:00:00:00:01", "in_port": 1});
        let new = json!({"eth_type": "0x800", "ipv4_src": "10.0.0.0/255.0.0.0", "ip_proto": 6,
                         "tcp_dst": "80", "vlan_vid": "0x1064", "eth_dst": "02:00:00:00:00:01",
                         "in_port": 1});
        assert_eq!(read(&old), read(&new));
        let answer = json!({"dl_type": 2048, "nw_src": "10.0.0.0/255.0.0.0", "nw_proto": 6, "tp_dst": 80,
                            "dl_vlan": "100", "dl_dst": "02:00:00:00:00:01", "in_port": 1});
        assert_eq!(json(&read(&new).unwrap()), answer);
    }

    #[test]
    fn arp_and_masks_are_read() {
        let arp = json!({"dl_type": 2054, "nw_src": "10.0.0.1", "arp_tpa": "10.0.0.2"});
        let match_ = read(&arp).unwrap();
        assert_eq!(match_.to_string(), "eth_type=0x0806,arp_spa=10.0.0.1,arp_tpa=10.0.0.2");
        let masked = json!({"metadata": "0x10/0xf0", "dl_vlan": "0x1000/0x1000",
                            "eth_src": "aa:bb:cc:11:22:33/00:00:00:00:ff:ff"});
        let answer = json!({"metadata": "16/240", "dl_vlan": "0x1000/0x1000",
                            "dl_src": "00:00:00:00:22:33/00:00:00:00:ff:ff"});
        assert_eq!(json(&read(&masked).unwrap()), answer);
        let untagged = read(&json!({"vlan_vid": "0x0000"})).unwrap();
        assert_eq!(json(&untagged), json!({"dl_vlan": "0x0000"}));
    }

    #[test]
    fn wrong_matches_are_refused() {
        for (match_, words) in [
            (json!([]), "expected an object"),
            (json!({"nonsense": 1}), "no field"),
            (json!({"tp_src": 1}), "needs ip_proto"),
            (json!({"dl_type": 1, "eth_type": 2}), "repeats"),
            (json!({"eth_src": "x"}), "an address such as"),
            (json!({"ipv4_src": "10.0.0.1/33"}), "an IP address"),
            (json!({"vlan_pcp": 8}), "3 bits"),
            (json!({"eth_type": 65536}), "16 bits"),
            (json!({"in_port": {}}), "an integer"),
        ] {
            let error = read(&match_).unwrap_err().to_string();
            assert!(error.contains(words), "{match_}: {error}");
        }
    }
}
