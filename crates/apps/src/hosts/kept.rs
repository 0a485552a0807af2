//! Writes and reads hosts as the storage keeps them for the next process.
//!
//! ```text
//! shelf      version u8 = 1 | hosts
//! host       MAC 6 bytes | vlan u16 | datapath u64 | port u32 | first seen u64 | last seen u64 | addresses u8 | addresses
//! address    family u8 (4, 6), +0x80 if the host has stated it | 4 or 16 bytes
//! ```
//!
//! Numbers are big-endian. Times are seconds since 1970, because the monotonic clock starts again with the machine.

use std::net::IpAddr;

use rosemary_sdk::MacAddr;
use rosemary_sdk::openflow::{Dpid, PortNo};
use rosemary_sdk::services::hosts::Host;
use rosemary_sdk::services::storage::LONGEST_VALUE;

use super::sighting::Proof;

const VERSION: u8 = 1;
const STATED: u8 = 0x80;

/// A host and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// The host, with times of the monotonic clock.
    pub(super) host: Host,
    pub(super) addresses: Vec<(IpAddr, Proof)>,
}

/// The same moment on two clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    /// Seconds of the monotonic clock, as [`Host::last_seen_s`] counts them.
    pub(super) now_s: u64,
    /// Seconds since 1970.
    pub(super) unix_s: u64,
}

impl Clocks {
    fn to_unix(self, monotonic_s: u64) -> u64 {
        self.unix_s.saturating_sub(self.now_s.saturating_sub(monotonic_s))
    }

    fn to_monotonic(self, unix_s: u64) -> u64 {
        self.now_s.saturating_sub(self.unix_s.saturating_sub(unix_s))
    }
}

/// Encodes hosts; returns the value and the number of hosts, the last ones, for which a value has no room.
pub(super) fn encode(hosts: &[Kept], clocks: Clocks) -> (Vec<u8>, usize) {
    let mut value = vec![VERSION];
    for (at, kept) in hosts.iter().enumerate() {
        let before = value.len();
        write(kept, clocks, &mut value);
        if value.len() > LONGEST_VALUE {
            value.truncate(before);
            return (value, hosts.len() - at);
        }
    }
    (value, 0)
}

fn write(Kept { host, addresses }: &Kept, clocks: Clocks, value: &mut Vec<u8>) {
    value.extend(host.mac.0);
    value.extend(host.vlan.to_be_bytes());
    value.extend(host.dpid.0.to_be_bytes());
    value.extend(host.port.0.to_be_bytes());
    value.extend(clocks.to_unix(host.first_seen_s).to_be_bytes());
    value.extend(clocks.to_unix(host.last_seen_s).to_be_bytes());
    let count = u8::try_from(addresses.len()).unwrap_or(u8::MAX);
    value.push(count);
    for (ip, proof) in addresses.iter().take(count.into()) {
        let stated = if *proof == Proof::Stated { STATED } else { 0 };
        match ip {
            IpAddr::V4(ip) => {
                value.push(4 | stated);
                value.extend(ip.octets());
            }
            IpAddr::V6(ip) => {
                value.push(6 | stated);
                value.extend(ip.octets());
            }
        }
    }
}

/// Decodes hosts, all of them doubted; `None` if the value is of another version or damaged.
pub(super) fn decode(value: &[u8], clocks: Clocks) -> Option<Vec<Kept>> {
    let mut from = value.strip_prefix(&[VERSION])?;
    let mut hosts = Vec::new();
    while !from.is_empty() {
        hosts.push(read(&mut from, clocks)?);
    }
    Some(hosts)
}

fn read(from: &mut &[u8], clocks: Clocks) -> Option<Kept> {
    let host = Host {
        mac: MacAddr(take(from)?),
        vlan: u16::from_be_bytes(take(from)?),
        dpid: Dpid(u64::from_be_bytes(take(from)?)),
        port: PortNo(u32::from_be_bytes(take(from)?)),
        is_contested: false,
        is_doubted: true,
        first_seen_s: clocks.to_monotonic(u64::from_be_bytes(take(from)?)),
        last_seen_s: clocks.to_monotonic(u64::from_be_bytes(take(from)?)),
    };
    let [count] = take(from)?;
    let mut addresses = Vec::with_capacity(count.into());
    for _ in 0..count {
        let [family] = take(from)?;
        let ip = match family & !STATED {
            4 => IpAddr::from(take::<4>(from)?),
            6 => IpAddr::from(take::<16>(from)?),
            _ => return None,
        };
        let proof = if family & STATED == 0 { Proof::Used } else { Proof::Stated };
        addresses.push((ip, proof));
    }
    Some(Kept { host, addresses })
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(number: u8) -> Kept {
        let host = Host {
            mac: MacAddr([2, 0, 0, 0, 0, number]),
            vlan: number.into(),
            dpid: Dpid(1 << 60),
            port: PortNo(number.into()),
            is_contested: false,
            is_doubted: true,
            first_seen_s: 100,
            last_seen_s: 150,
        };
        let addresses = vec![
            ("10.0.0.1".parse().unwrap(), Proof::Stated),
            ("fe80::1".parse().unwrap(), Proof::Used),
        ];
        Kept { host, addresses }
    }

    #[test]
    fn hosts_survive_and_cut_values_are_refused() {
        let clocks = Clocks { now_s: 200, unix_s: 1_000_000 };
        let hosts = [kept(1), kept(2)];
        let (value, left_out) = encode(&hosts, clocks);
        assert_eq!((decode(&value, clocks).unwrap(), left_out), (hosts.to_vec(), 0));
        let one = encode(&hosts[..1], clocks).0.len();
        for cut in (0..value.len()).filter(|cut| ![1, one].contains(cut)) {
            assert_eq!(decode(&value[..cut], clocks), None, "{cut}");
        }
        assert_eq!(decode(&[2], clocks), None, "of a later version");
    }

    #[test]
    fn last_seen_survives_a_start_of_the_machine() {
        let (value, _) = encode(&[kept(1)], Clocks { now_s: 200, unix_s: 1_000_000 });
        let last_seen =
            |now_s, unix_s| decode(&value, Clocks { now_s, unix_s }).unwrap()[0].host.last_seen_s;
        assert_eq!(last_seen(500, 1_000_300), 150, "the same clock");
        assert_eq!(last_seen(80, 1_000_010), 20, "60 s ago");
        assert_eq!(last_seen(30, 1_000_300), 0, "before the machine started");
        assert_eq!(last_seen(30, 900_000), 30, "the wall clock was set back");
    }

    #[test]
    fn hosts_without_room_are_counted() {
        let hosts: Vec<Kept> = (0..1000_u16).map(|it| kept(it.to_be_bytes()[1])).collect();
        let clocks = Clocks { now_s: 200, unix_s: 1_000_000 };
        let (value, left_out) = encode(&hosts, clocks);
        assert!(left_out > 0 && value.len() <= LONGEST_VALUE);
        assert_eq!(decode(&value, clocks).unwrap().len(), 1000 - left_out);
    }
}
