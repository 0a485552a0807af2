//! Reads the table of the service `hosts`: where each host of the network is, and which addresses it has.
//!
//! The table has the [layout](super::layout) of a hash table, so a look-up is a read of memory and no request.
//!
//! ```text
//! host      w0 = 1 | flags << 8 | vlan << 16 | port << 32
//!           w1 = MAC | w2 = datapath | w3 = first seen, s | w4 = last seen, s
//! address   w0 = 2 | family (4, 6) << 8 | vlan << 16
//!           w1, w2 = IP address, high and low half; IPv4 as ::ffff:a.b.c.d | w3 = MAC of its host | w4 = last seen, s
//! flags     1: contested, 2: doubted, see `Host::is_contested` and `Host::is_doubted`
//! ```
//!
//! A MAC address is a number whose highest byte is 0: 02:00:00:00:00:0a is `0x0200_0000_000a`. Times are seconds of the
//! machine's monotonic clock, like [`Network::now`](crate::Network::now).

// The tests of the layout would take many minutes under Miri, and there is no unsafe code to check.
#[cfg(all(test, not(miri)))]
mod tests;

use std::net::{IpAddr, Ipv6Addr};

use openflow::{Dpid, MacAddr, PortNo};

use super::Service;
use super::layout::{self, Name};
use super::table::{Change, Slot, Table, TableEvent, TableWatch, WORDS};
use crate::event::Event;
use crate::network::Network;

/// The VLAN of packets without a tag, or with the tag of VLAN 0, which states a priority only (IEEE 802.1Q-2018 §9.6).
pub const UNTAGGED: u16 = 0;

/// The Ethernet address from which the service asks a host whether it is still there. It belongs to no host, so a packet
/// to it need not be forwarded.
pub const PROBE_MAC: MacAddr = MacAddr([0x0e, 0x52, 0x6f, 0x73, 0x65, 0x01]);

const HOST: u64 = 1;
const ADDRESS: u64 = 2;
const CONTESTED: u64 = 1;
const DOUBTED: u64 = 2;

/// Bits of a record's first word that name what it is about: kind, family and VLAN.
const ADDRESS_NAME: u64 = 0xffff_ffff;
const HOST_NAME: u64 = 0xffff_00ff;

/// A host: an Ethernet address in a VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Host {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its VLAN; [`UNTAGGED`] for none.
    pub vlan: u16,
    /// The switch that it is attached to.
    pub dpid: Dpid,
    /// The port of that switch.
    pub port: PortNo,
    /// Whether packets with this address came in at another port, too, and the service has not decided yet where the
    /// host is. `dpid` and `port` state its place before.
    pub is_contested: bool,
    /// Whether an earlier process of the service saw the host there, and no packet has confirmed it since.
    pub is_doubted: bool,
    /// When it was first seen, in seconds of the monotonic clock.
    pub first_seen_s: u64,
    /// When it was last seen, in seconds of the monotonic clock; up to a minute before the truth, as the service does not
    /// write it with each packet. Packets that a switch forwards by a flow do not count. It is 0 for a doubted host that was
    /// last seen before the machine started.
    pub last_seen_s: u64,
}

/// An IP address of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Its VLAN; [`UNTAGGED`] for none.
    pub vlan: u16,
    /// The Ethernet address of its host.
    pub mac: MacAddr,
    /// When it was last seen, with the precision of [`Host::last_seen_s`].
    pub last_seen_s: u64,
}

/// A record of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// Where a host is.
    Host(Host),
    /// Whose an address is.
    Address(Address),
}

impl Host {
    /// Encodes it.
    pub fn to_slot(&self) -> Slot {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.is_contested, CONTESTED) | flag(self.is_doubted, DOUBTED);
        let vlan = u64::from(self.vlan) << 16;
        let head = HOST | flags << 8 | vlan | u64::from(self.port.0) << 32;
        [head, number(self.mac), self.dpid.0, self.first_seen_s, self.last_seen_s, 0, 0]
    }

    /// Decodes it; `None` if the slot holds no host.
    pub fn of_slot(slot: &Slot) -> Option<Self> {
        let [head, mac, dpid, first_seen_s, last_seen_s, ..] = *slot;
        (head & 0xff == HOST).then_some(Self {
            mac: mac_of(mac),
            vlan: vlan_of(head),
            dpid: Dpid(dpid),
            port: port_of(head),
            is_contested: head >> 8 & CONTESTED != 0,
            is_doubted: head >> 8 & DOUBTED != 0,
            first_seen_s,
            last_seen_s,
        })
    }
}

impl Address {
    /// Encodes it.
    pub fn to_slot(&self) -> Slot {
        let [head, high, low] = address_name(self.ip, self.vlan);
        [head, high, low, number(self.mac), self.last_seen_s, 0, 0]
    }

    /// Decodes it; `None` if the slot holds no address.
    pub fn of_slot(slot: &Slot) -> Option<Self> {
        let [head, high, low, mac, last_seen_s, ..] = *slot;
        let v6 = Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
        let ip = match head >> 8 & 0xff {
            4 => IpAddr::V4(v6.to_ipv4_mapped()?),
            6 => IpAddr::V6(v6),
            _ => return None,
        };
        let address = Self { ip, vlan: vlan_of(head), mac: mac_of(mac), last_seen_s };
        (head & 0xff == ADDRESS).then_some(address)
    }
}

impl Record {
    /// Decodes a slot; `None` if it is empty or of another kind.
    pub fn of_slot(slot: &Slot) -> Option<Self> {
        match slot[0] & 0xff {
            HOST => Host::of_slot(slot).map(Self::Host),
            ADDRESS => Address::of_slot(slot).map(Self::Address),
            _ => None,
        }
    }

    /// Whether both are about the same host, or about the same address.
    fn names_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host(a), Self::Host(b)) => (a.mac, a.vlan) == (b.mac, b.vlan),
            (Self::Address(a), Self::Address(b)) => (a.ip, a.vlan) == (b.ip, b.vlan),
            _ => false,
        }
    }
}

/// Returns a VLAN as the table names it: the identifier of a packet's tag, or [`UNTAGGED`].
pub fn vlan_number(tag: Option<u16>) -> u16 {
    tag.unwrap_or(UNTAGGED)
}

/// Finds a host. The result is as old as the table: read it again for each packet.
pub fn find_host(table: &impl Table, mac: MacAddr, vlan: u16) -> Option<Host> {
    let name = host_name(mac, vlan);
    let is_it = |slot: &Slot| [slot[0] & HOST_NAME, slot[1], 0] == name;
    Host::of_slot(&layout::find(table, name, is_it)?)
}

/// Finds an address.
pub fn find_address(table: &impl Table, ip: IpAddr, vlan: u16) -> Option<Address> {
    let name = address_name(ip, vlan);
    let is_it = |slot: &Slot| [slot[0] & ADDRESS_NAME, slot[1], slot[2]] == name;
    Address::of_slot(&layout::find(table, name, is_it)?)
}

/// Returns all records, in no particular order. Records that change meanwhile may or may not be among them.
pub fn records(table: &impl Table) -> impl Iterator<Item = Record> {
    layout::records(table).filter_map(|record| Record::of_slot(&record))
}

/// Returns all hosts, in no particular order.
pub fn hosts(table: &impl Table) -> impl Iterator<Item = Host> {
    records(table).filter_map(|record| match record {
        Record::Host(host) => Some(host),
        Record::Address(_) => None,
    })
}

/// Returns all addresses, in no particular order.
pub fn addresses(table: &impl Table) -> impl Iterator<Item = Address> {
    records(table).filter_map(|record| match record {
        Record::Address(address) => Some(address),
        Record::Host(_) => None,
    })
}

/// Follows the service for an application.
///
/// ```
/// use rosemary_sdk::services::hosts::{HostChange, Hosts, HostsEvent, UNTAGGED};
/// use rosemary_sdk::{Event, Network};
///
/// fn on_event(hosts: &mut Hosts, event: &Event<'_>, network: &Network<'_>) {
///     if let Some(HostsEvent::Changed(changes)) = hosts.on_event(event) {
///         for change in changes {
///             if let HostChange::AddressAppeared(address) = change {
///                 let host = hosts.by_mac(network, address.mac, UNTAGGED);
///                 network.info(&format!("{} is at {host:?}", address.ip));
///             }
///         }
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Hosts(TableWatch);

/// The meaning of an event for an application that follows the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostsEvent {
    /// The table is new, or changes were lost: an application that keeps a copy reads all records again.
    Reread,
    /// These hosts and addresses changed.
    Changed(Vec<HostChange>),
    /// The service has ended. Look-ups find nothing until the next [`Reread`](Self::Reread).
    Gone,
}

impl Default for Hosts {
    fn default() -> Self {
        Self::new()
    }
}

impl Hosts {
    /// Follows the service, which the application names in its configuration.
    pub fn new() -> Self {
        Self(TableWatch::new(Service::Hosts))
    }

    /// Handles an event; returns `None` if it is about something else.
    pub fn on_event(&mut self, event: &Event<'_>) -> Option<HostsEvent> {
        Some(match self.0.on_event(event)? {
            TableEvent::Reread => HostsEvent::Reread,
            TableEvent::Changed(changes) => {
                HostsEvent::Changed(changes.iter().flat_map(HostChange::of).collect())
            }
            TableEvent::Gone => HostsEvent::Gone,
        })
    }

    /// Returns whether the service is there. Without it, look-ups find nothing.
    pub fn is_available(&self) -> bool {
        self.0.is_attached()
    }

    /// Finds a host by its Ethernet address.
    pub fn by_mac(&self, network: &Network<'_>, mac: MacAddr, vlan: u16) -> Option<Host> {
        find_host(&self.0.table(network)?, mac, vlan)
    }

    /// Finds the host that has an IP address.
    pub fn by_ip(&self, network: &Network<'_>, ip: IpAddr, vlan: u16) -> Option<Host> {
        let table = self.0.table(network)?;
        let address = find_address(&table, ip, vlan)?;
        find_host(&table, address.mac, vlan)
    }

    /// Returns all records, in no particular order. It reads the whole table.
    pub fn records(&self, network: &Network<'_>) -> Vec<Record> {
        self.0.table(network).map(|table| records(&table).collect()).unwrap_or_default()
    }
}

/// The meaning of a change of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostChange {
    /// A host is new.
    Appeared(Host),
    /// A host is at another port, or became contested, or is no longer contested or doubted.
    Changed {
        /// The former record.
        before: Host,
        /// The record now.
        now: Host,
    },
    /// A host is no longer known: it was silent too long, or its port or switch has gone.
    Gone(Host),
    /// An address is new.
    AddressAppeared(Address),
    /// An address is now another host's.
    AddressMoved {
        /// Whose it was.
        before: Address,
        /// Whose it is.
        now: Address,
    },
    /// An address is no longer known.
    AddressGone(Address),
}

impl HostChange {
    /// Returns what a changed slot means: nothing if only the time of the last packet changed, and two changes if one
    /// record took another's place.
    pub fn of(change: &Change) -> impl Iterator<Item = Self> + use<> {
        let (before, now) = (Record::of_slot(&change.before), Record::of_slot(&change.after));
        let changes = match (before, now) {
            (Some(before), Some(now)) if before.names_the_same(&now) => {
                [Self::of_one(before, now), None]
            }
            (before, now) => [before.map(Self::gone), now.map(Self::appeared)],
        };
        changes.into_iter().flatten()
    }

    fn of_one(before: Record, now: Record) -> Option<Self> {
        match (before, now) {
            (Record::Host(before), Record::Host(now)) => {
                let flags = |host: Host| (host.is_contested, host.is_doubted);
                let of = |host: Host| (host.dpid, host.port, flags(host), host.first_seen_s);
                (of(before) != of(now)).then_some(Self::Changed { before, now })
            }
            (Record::Address(before), Record::Address(now)) => {
                (before.mac != now.mac).then_some(Self::AddressMoved { before, now })
            }
            _ => None,
        }
    }

    fn appeared(record: Record) -> Self {
        match record {
            Record::Host(host) => Self::Appeared(host),
            Record::Address(address) => Self::AddressAppeared(address),
        }
    }

    fn gone(record: Record) -> Self {
        match record {
            Record::Host(host) => Self::Gone(host),
            Record::Address(address) => Self::AddressGone(address),
        }
    }
}

/// Returns what a host's record is found by.
pub fn host_name(mac: MacAddr, vlan: u16) -> Name {
    [HOST | u64::from(vlan) << 16, number(mac), 0]
}

/// Returns what an address's record is found by.
pub fn address_name(ip: IpAddr, vlan: u16) -> Name {
    let (family, v6) = match ip {
        IpAddr::V4(v4) => (4, v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => (6, v6),
    };
    let [high, low] = halves(u128::from(v6));
    [ADDRESS | family << 8 | u64::from(vlan) << 16, high, low]
}

#[expect(clippy::cast_possible_truncation, reason = "one half each")]
fn halves(of: u128) -> [u64; 2] {
    [(of >> 64) as u64, of as u64]
}

fn number(mac: MacAddr) -> u64 {
    mac.0.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn mac_of(number: u64) -> MacAddr {
    let [_, _, mac @ ..] = number.to_be_bytes();
    MacAddr(mac)
}

#[expect(clippy::cast_possible_truncation, reason = "the 16 bits of the VLAN")]
fn vlan_of(head: u64) -> u16 {
    (head >> 16) as u16
}

fn port_of(head: u64) -> PortNo {
    PortNo((head >> 32) as u32)
}

const _: () = assert!(WORDS >= 5, "a record fits a slot");
