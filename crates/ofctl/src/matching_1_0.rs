//! Translates matches of OpenFlow 1.0, whose fields Ryu names as its specification does (OpenFlow 1.0.2 §5.2.3).
//!
//! The fields `nw_proto`, `nw_src`, `nw_dst`, `tp_src` and `tp_dst` have different meanings for ARP, TCP, UDP and ICMP.

use std::net::Ipv4Addr;

use openflow::matching::VLAN_PRESENT;
use openflow::{Field, Masked, Match, Version};
use serde_json::{Map, Value};

use crate::matching::{address, ipv4};
use crate::number::{integer, narrow, port, port_json};
use crate::{OfctlError, invalid};

const ARP: u64 = 0x0806;

/// The VLAN id that stands for packets without a tag.
const NO_VLAN: u16 = 0xffff;

/// Reads a match.
pub(crate) fn read(attributes: &Value, version: Version) -> Result<Match, OfctlError> {
    let Some(attributes) = attributes.as_object() else {
        return invalid(format!("match is {attributes}; expected an object"));
    };
    let number = |key: &str| attributes.get(key).map(|value| integer(key, value)).transpose();
    let is_arp = number("dl_type")? == Some(ARP);
    let protocol = number("nw_proto")?;
    let mut match_ = Match::new();
    for (key, value) in attributes {
        let field = match (key.as_str(), protocol) {
            ("in_port", _) => Field::InPort(port(key, value, version)?),
            ("dl_src", _) => Field::EthSrc(address(key, value)?.value.into()),
            ("dl_dst", _) => Field::EthDst(address(key, value)?.value.into()),
            ("dl_vlan", _) => match narrow(key, value)? {
                NO_VLAN => Field::VlanVid(0.into()),
                vid if vid < VLAN_PRESENT => Field::VlanVid((vid | VLAN_PRESENT).into()),
                vid => {
                    return invalid(format!("dl_vlan is {vid}; expected at most 12 bits or 65535"));
                }
            },
            ("dl_vlan_pcp", _) => Field::VlanPcp(narrow(key, value)?),
            ("dl_type", _) => Field::EthType(narrow(key, value)?),
            ("nw_tos", _) => Field::IpDscp(narrow::<u8>(key, value)? >> 2),
            ("nw_proto", _) if is_arp => Field::ArpOp(narrow(key, value)?),
            ("nw_proto", _) => Field::IpProto(narrow(key, value)?),
            ("nw_src", _) if is_arp => Field::ArpSpa(ipv4(key, value)?),
            ("nw_dst", _) if is_arp => Field::ArpTpa(ipv4(key, value)?),
            ("nw_src", _) => Field::Ipv4Src(ipv4(key, value)?),
            ("nw_dst", _) => Field::Ipv4Dst(ipv4(key, value)?),
            ("tp_src", Some(6)) => Field::TcpSrc(narrow(key, value)?),
            ("tp_dst", Some(6)) => Field::TcpDst(narrow(key, value)?),
            ("tp_src", Some(17)) => Field::UdpSrc(narrow(key, value)?),
            ("tp_dst", Some(17)) => Field::UdpDst(narrow(key, value)?),
            ("tp_src", Some(1)) => Field::Icmpv4Type(narrow(key, value)?),
            ("tp_dst", Some(1)) => Field::Icmpv4Code(narrow(key, value)?),
            ("tp_src" | "tp_dst", _) => {
                return invalid(format!("{key} needs nw_proto 6 (TCP), 17 (UDP) or 1 (ICMP)"));
            }
            _ => return invalid(format!("{key} is no field of OpenFlow 1.0")),
        };
        match_.set(&field);
    }
    Ok(match_)
}

/// Writes a match.
pub(crate) fn json(match_: &Match, version: Version) -> Value {
    let mut object = Map::new();
    for field in match_.fields() {
        let (key, value) = match field {
            Field::InPort(port) => ("in_port", port_json(port, version)),
            Field::EthSrc(it) => ("dl_src", it.value.to_string().into()),
            Field::EthDst(it) => ("dl_dst", it.value.to_string().into()),
            Field::VlanVid(Masked { value: 0, .. }) => ("dl_vlan", NO_VLAN.into()),
            Field::VlanVid(it) => ("dl_vlan", (it.value & !VLAN_PRESENT).into()),
            Field::VlanPcp(it) => ("dl_vlan_pcp", it.into()),
            Field::EthType(it) => ("dl_type", it.into()),
            Field::IpDscp(it) => ("nw_tos", (it << 2).into()),
            Field::IpProto(it) => ("nw_proto", it.into()),
            Field::ArpOp(it) => ("nw_proto", it.into()),
            Field::Ipv4Src(it) | Field::ArpSpa(it) => ("nw_src", net(it).into()),
            Field::Ipv4Dst(it) | Field::ArpTpa(it) => ("nw_dst", net(it).into()),
            Field::TcpSrc(it) | Field::UdpSrc(it) => ("tp_src", it.into()),
            Field::TcpDst(it) | Field::UdpDst(it) => ("tp_dst", it.into()),
            Field::Icmpv4Type(it) => ("tp_src", it.into()),
            Field::Icmpv4Code(it) => ("tp_dst", it.into()),
            // OpenFlow 1.0 has no other fields.
            other => (other.name(), crate::matching::plain(&other)),
        };
        object.insert(key.to_owned(), value);
    }
    Value::Object(object)
}

/// Writes an address with the length of its prefix.
fn net(masked: Masked<Ipv4Addr>) -> String {
    match masked.mask {
        None => masked.value.to_string(),
        Some(mask) => format!("{}/{}", masked.value, mask.to_bits().leading_ones()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(attributes: &Value) -> Result<Match, OfctlError> {
        super::read(attributes, Version::V1_0)
    }

    fn json(match_: &Match) -> Value {
        super::json(match_, Version::V1_0)
    }

    #[test]
    fn matches_survive() {
        for match_ in [
            json!({}),
            json!({"in_port": 1, "dl_src": "aa:bb:cc:11:22:33", "dl_vlan": 100, "dl_vlan_pcp": 3}),
            json!({"dl_type": 2048, "nw_src": "10.0.0.0/8", "nw_dst": "10.0.0.1", "nw_tos": 16}),
            json!({"dl_type": 2048, "nw_proto": 6, "tp_src": 1, "tp_dst": 2}),
            json!({"dl_type": 2048, "nw_proto": 17, "tp_src": 1, "tp_dst": 2}),
            json!({"dl_type": 2048, "nw_proto": 1, "tp_src": 8, "tp_dst": 0}),
            json!({"dl_type": 2054, "nw_proto": 1, "nw_src": "10.0.0.1"}),
            json!({"dl_vlan": 65535, "in_port": "LOCAL"}),
        ] {
            assert_eq!(json(&read(&match_).unwrap()), match_);
        }
    }

    #[test]
    fn wrong_matches_are_refused() {
        for match_ in [
            json!(1),
            json!({"eth_type": 2048}),
            json!({"tp_src": 1}),
            json!({"dl_vlan": 5000}),
            json!({"nw_src": "10.0.0.1/x"}),
        ] {
            assert!(read(&match_).is_err(), "{match_}");
        }
    }
}
