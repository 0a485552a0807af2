//! Frames of hosts, and a simulated network of two switches around the tracker.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rosemary_sdk::packet::{Arp, PacketBuilder};
use rosemary_sdk::services::hosts::{Host, UNTAGGED, find_address, find_host};
use rosemary_sdk::services::table::Slot;
use rosemary_sdk::services::topology::Endpoint;
use rosemary_sdk::{Dpid, MacAddr, PortNo};

use crate::ports::Behind;
use crate::reports::Report;
use crate::settings::Settings;
use crate::tracker::{Probe, Tracker};

pub(super) const SLOTS: u32 = 1024;

pub(crate) const ALICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
pub(super) const BOB: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
pub(crate) const MALLORY: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xe]);

pub(crate) const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

pub(super) fn at(dpid: u64, port: u32) -> Endpoint {
    Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
}

/// A gratuitous request: the host states its address.
pub(crate) fn arp(mac: MacAddr, ip: Ipv4Addr) -> Vec<u8> {
    let (target_mac, target_ip) = (MacAddr([0; 6]), Ipv4Addr::new(10, 0, 0, 254));
    let (operation, sender_mac, sender_ip) = (Arp::REQUEST, mac, ip);
    Arp { operation, sender_mac, sender_ip, target_mac, target_ip }.frame(MacAddr([0xff; 6]))
}

pub(super) fn udp(mac: MacAddr, ip: Ipv4Addr) -> Vec<u8> {
    let builder =
        PacketBuilder::ethernet2(mac.0, BOB.0).ipv4(ip.octets(), [10, 0, 0, 9], 64).udp(1000, 2000);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"data").unwrap();
    frame
}

pub(super) fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &vlan.to_be_bytes(), &frame[12..]].concat()
}

/// A message of neighbour discovery with one option.
pub(super) fn nd(
    mac: MacAddr,
    src: Ipv6Addr,
    kind: u8,
    body: &[u8],
    option: (u8, MacAddr),
) -> Vec<u8> {
    let behind = [body, &[option.0, 1], &option.1.0].concat();
    let builder = PacketBuilder::ethernet2(mac.0, BOB.0)
        .ipv6(src.octets(), Ipv6Addr::LOCALHOST.octets(), 255)
        .icmpv6_raw(kind, 0, [0; 4]);
    let mut frame = Vec::new();
    builder.write(&mut frame, &behind).unwrap();
    frame
}

/// A DHCP message; `op` 1 from a client, 2 from a server.
pub(super) fn dhcp(from: MacAddr, op: u8, client: MacAddr, given: Ipv4Addr) -> Vec<u8> {
    use rosemary_sdk::packet::dhcp::{ACK, Dhcp, REQUEST, option};
    let none = Ipv4Addr::UNSPECIFIED;
    let message = Dhcp {
        op,
        xid: 1,
        flags: 0,
        client_ip: if op == 1 { given } else { none },
        your_ip: if op == 2 { given } else { none },
        server_ip: none,
        relay_ip: none,
        client_mac: client,
        options: &[],
    };
    let kind = if op == 1 { REQUEST } else { ACK };
    let message = message.encode(&[(option::MESSAGE_TYPE, &[kind])]).unwrap();
    let (src, ports) =
        if op == 1 { (none, (68, 67)) } else { (Ipv4Addr::new(10, 0, 0, 250), (67, 68)) };
    let builder = PacketBuilder::ethernet2(from.0, [0xff; 6])
        .ipv4(src.octets(), [255; 4], 64)
        .udp(ports.0, ports.1);
    let mut frame = Vec::new();
    builder.write(&mut frame, &message).unwrap();
    frame
}

/// A tracker, the table that it writes, and a clock.
pub(super) struct Net {
    pub(super) tracker: Tracker,
    pub(super) table: Vec<Slot>,
    pub(super) now: Duration,
}

impl Net {
    /// Two switches with four edge ports each.
    pub(super) fn new() -> Self {
        Self::with(Settings::default(), SLOTS)
    }

    pub(super) fn with(settings: Settings, slots: u32) -> Self {
        let tracker = Tracker::new(settings, slots).unwrap();
        let now = Duration::from_secs(1000);
        let mut net = Self { tracker, table: vec![[0; 7]; slots as usize], now };
        for dpid in [1, 2] {
            net.tracker.switch_up(Dpid(dpid), 1, now);
            for port in 1..=4 {
                net.tracker.port(at(dpid, port), 1, true);
                net.tracker.behind(at(dpid, port), Behind::Edge, now);
            }
        }
        net
    }

    pub(super) fn write(&mut self) {
        for (slot, record) in self.tracker.directory.writes.drain(..) {
            self.table[slot as usize] = record;
        }
    }

    pub(super) fn packet(&mut self, place: Endpoint, frame: &[u8]) {
        self.tracker.packet(place, frame, self.now);
        self.write();
    }

    pub(super) fn behind(&mut self, place: Endpoint, behind: Behind) {
        self.tracker.behind(place, behind, self.now);
        self.write();
    }

    pub(super) fn port(&mut self, place: Endpoint, epoch: u32, is_up: bool) {
        self.tracker.port(place, epoch, is_up);
        self.write();
    }

    /// Lets time pass in steps of 100 ms; returns the probes.
    pub(super) fn pass(&mut self, time: Duration) -> Vec<Probe> {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(100);
            self.tracker.tick(self.now);
            self.write();
        }
        std::mem::take(&mut self.tracker.probes)
    }

    pub(super) fn host(&self, mac: MacAddr) -> Option<Host> {
        find_host(&self.table, mac, UNTAGGED)
    }

    pub(super) fn place(&self, mac: MacAddr) -> Option<Endpoint> {
        self.host(mac).map(|host| Endpoint { dpid: host.dpid, port: host.port })
    }

    pub(super) fn owner(&self, ip: impl Into<IpAddr>) -> Option<MacAddr> {
        find_address(&self.table, ip.into(), UNTAGGED).map(|it| it.mac)
    }

    pub(super) fn reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.tracker.reports.pending)
    }
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
