//! Defines the report of a host that a switch has learned by itself: [`LearnedHost`], and its record.
//!
//! ```text
//! head    in_port: the port | reason: 1 if the switch has forgotten the host, otherwise 0
//! body    0: Ethernet address (6) | 6: VLAN (2, little endian) | 8: IP address (16), IPv4 as ::ffff:a.b.c.d, 0 for none
//! ```

use std::net::{IpAddr, Ipv6Addr};

use openflow::{MacAddr, PortNo};

use crate::Switch;
use crate::abi::{Record, RecordKind};

/// Bytes of the record's body.
pub(crate) const HOST_SIZE: usize = 24;

/// A host that a switch without packet-ins has learned by itself. The switch reports the host again while it has it, and reports
/// that it has forgotten the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedHost {
    /// The switch.
    pub switch: Switch,
    /// The port behind which the host is; [`PortNo::LOCAL`] if the switch knows only that the host is its own.
    pub port: PortNo,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its VLAN; 0 for none, or if the switch does not state it.
    pub vlan: u16,
    /// Its IP address, if the switch knows it.
    pub ip: Option<IpAddr>,
    /// Whether the switch has forgotten the host.
    pub is_gone: bool,
}

impl LearnedHost {
    /// Returns the head and the body of the record.
    pub fn to_record(&self) -> (Record, [u8; HOST_SIZE]) {
        let Switch { dpid, epoch, version } = self.switch;
        let ip = match self.ip {
            Some(IpAddr::V4(ip)) => ip.to_ipv6_mapped(),
            Some(IpAddr::V6(ip)) => ip,
            None => Ipv6Addr::UNSPECIFIED,
        };
        let mut body = [0; HOST_SIZE];
        body[..6].copy_from_slice(&self.mac.0);
        body[6..8].copy_from_slice(&self.vlan.to_le_bytes());
        body[8..].copy_from_slice(&ip.octets());
        let head = Record::new(RecordKind::Host, version.wire(), dpid.0, epoch);
        #[expect(clippy::cast_possible_truncation, reason = "24")]
        let body_size = HOST_SIZE as u16;
        let reason = u8::from(self.is_gone);
        (Record { in_port: self.port.0, reason, body_size, ..head }, body)
    }

    /// Reads a record; `None` if it is malformed.
    pub(crate) fn of(switch: Switch, record: &Record, body: &[u8]) -> Option<Self> {
        let body: &[u8; HOST_SIZE] = body.first_chunk()?;
        let [mac @ .., low, high] = body.first_chunk::<8>()?;
        let ip = Ipv6Addr::from(*body.last_chunk::<16>()?);
        let ip = match ip.to_ipv4_mapped() {
            Some(ip) => IpAddr::V4(ip),
            None => IpAddr::V6(ip),
        };
        Some(Self {
            switch,
            port: PortNo(record.in_port),
            mac: MacAddr(*mac),
            vlan: u16::from_le_bytes([*low, *high]),
            ip: (!ip.is_unspecified()).then_some(ip),
            is_gone: record.reason != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use openflow::{Dpid, Version};

    use super::*;
    use crate::Event;

    #[test]
    fn host_survives_as_record() {
        let switch = Switch { dpid: Dpid(7), epoch: 2, version: Version::V1_3 };
        let (mac, port, vlan) = (MacAddr([2, 0, 0, 0, 0, 9]), PortNo(12_388), 100);
        let v4 = "10.0.0.9".parse().ok();
        for (ip, is_gone) in [(v4, false), ("fe80::9".parse().ok(), true), (None, false)] {
            let host = LearnedHost { switch, port, mac, vlan, ip, is_gone };
            let (record, body) = host.to_record();
            assert_eq!(Event::of(&record, &body), Some(Event::Host(host)));
            assert_eq!(Event::of(&record, &body[1..]), None);
        }
    }
}
