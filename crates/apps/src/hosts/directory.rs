//! Keeps the known hosts and their addresses, and writes their records for the table.
//!
//! Each host and each address has a slot of the table from its first record to its last. The directory never learns more
//! than the table has room for: what finds no slot is counted and not kept.

#![expect(clippy::similar_names, reason = "`shelf` is the word, and `self` is near it")]

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use rosemary_sdk::MacAddr;
use rosemary_sdk::services::hosts::{Address, Host, address_name, host_name};
use rosemary_sdk::services::layout::{Placement, Writes};
use rosemary_sdk::services::topology::Endpoint;

use super::archive::{SHELVES, shelf_of};
use super::kept::Kept;
use super::sighting::Proof;

/// Most addresses of a host.
const ADDRESSES: usize = 16;

/// Most addresses of a host that are only the sources of its packets: a router has the whole world's.
const USED_ADDRESSES: usize = 4;

/// Seconds without a sighting after which an address gives way to a new one of the same host.
const STALE_S: u64 = 300;

/// Seconds by which the time in a record may lag, so that not each packet is a change of the table.
const LAG_S: u64 = 60;

/// The number of a known host. A number is used again after the host is gone.
pub(super) type HostId = u32;

/// A known host.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) host: Host,
    slot: u32,
    /// Its position in the list of its port's hosts.
    pub(super) position: u32,
    /// When its last packet came in, in seconds.
    pub(super) heard_s: u64,
    /// Probes since then, and when the last one was sent, in seconds.
    pub(super) probes: u8,
    pub(super) probed_s: u64,
    /// Moves between live ports since `moving_since_s`.
    pub(super) moves: u8,
    pub(super) moving_since_s: u64,
    /// Until then it is not asked again whether it has moved, in seconds.
    pub(super) held_until_s: u64,
    addresses: Vec<IpAddr>,
}

impl Known {
    pub(super) fn place(&self) -> Endpoint {
        Endpoint { dpid: self.host.dpid, port: self.host.port }
    }

    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }
}

/// Whose an address is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owned {
    pub(super) host: HostId,
    slot: u32,
    heard_s: u64,
    written_s: u64,
    is_stated: bool,
}

/// What became of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// It is the host's.
    Own,
    /// It is another host's.
    Others {
        /// The other host.
        owner: HostId,
        /// Whether that host has stated that the address is its own.
        is_stated: bool,
    },
    /// There is no room for it: neither at the host nor, perhaps, in the table.
    NoRoom,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Directory {
    known: Vec<Option<Known>>,
    free: Vec<HostId>,
    by_name: HashMap<(MacAddr, u16), HostId>,
    by_address: HashMap<(IpAddr, u16), Owned>,
    placement: Placement,
    /// The hosts of each shelf of the storage.
    shelves: Vec<BTreeSet<HostId>>,
    /// Shelves that have changed since they were stored.
    pub(super) dirty: BTreeSet<u8>,
    /// Records that wait to be published.
    pub(super) writes: Writes,
}

impl Directory {
    /// Starts an empty table of this many slots; `None` if it is too small.
    pub(super) fn new(slots: u32) -> Option<Self> {
        let mut writes = Writes::new();
        let placement = Placement::new(slots, &mut writes)?;
        Some(Self {
            known: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            by_address: HashMap::new(),
            placement,
            shelves: vec![BTreeSet::new(); SHELVES],
            dirty: BTreeSet::new(),
            writes,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns one more than the highest number of a host.
    pub(super) fn numbers(&self) -> HostId {
        HostId::try_from(self.known.len()).unwrap_or(HostId::MAX)
    }

    pub(super) fn find(&self, mac: MacAddr, vlan: u16) -> Option<HostId> {
        self.by_name.get(&(mac, vlan)).copied()
    }

    pub(super) fn get(&self, id: HostId) -> Option<&Known> {
        self.known.get(id as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: HostId) -> Option<&mut Known> {
        self.known.get_mut(id as usize)?.as_mut()
    }

    pub(super) fn owner(&self, ip: IpAddr, vlan: u16) -> Option<HostId> {
        self.by_address.get(&(ip, vlan)).map(|it| it.host)
    }

    /// Adds a host that is not known; `None` if the table has no room.
    pub(super) fn insert(&mut self, host: Host) -> Option<HostId> {
        let name = host_name(host.mac, host.vlan);
        let slot = self.placement.insert(name, host.to_slot(), &mut self.writes)?;
        let known = Known {
            host,
            slot,
            position: 0,
            heard_s: host.last_seen_s,
            probes: 0,
            probed_s: 0,
            moves: 0,
            moving_since_s: 0,
            held_until_s: 0,
            addresses: Vec::new(),
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.known.push(None);
            self.numbers() - 1
        });
        if let Some(place) = self.known.get_mut(id as usize) {
            *place = Some(known);
        }
        self.by_name.insert((host.mac, host.vlan), id);
        let shelf = shelf_of(host.mac, host.vlan);
        if let Some(hosts) = self.shelves.get_mut(usize::from(shelf)) {
            hosts.insert(id);
        }
        self.dirty.insert(shelf);
        Some(id)
    }

    /// Returns the hosts of a shelf with their addresses, in the order in which they were first seen.
    pub(super) fn shelf(&self, shelf: u8) -> Vec<Kept> {
        let ids = self.shelves.get(usize::from(shelf)).into_iter().flatten();
        let kept = |known: &Known| {
            let vlan = known.host.vlan;
            let address = |ip: &IpAddr| {
                let is_stated = self.by_address.get(&(*ip, vlan))?.is_stated;
                Some((*ip, if is_stated { Proof::Stated } else { Proof::Used }))
            };
            Kept {
                host: known.host,
                addresses: known.addresses.iter().filter_map(address).collect(),
            }
        };
        let mut hosts: Vec<Kept> = ids.filter_map(|id| self.get(*id)).map(kept).collect();
        hosts.sort_by_key(|it| it.host.first_seen_s);
        hosts
    }

    fn touch(&mut self, id: HostId) {
        if let Some(Known { host, .. }) = self.get(id) {
            let shelf = shelf_of(host.mac, host.vlan);
            self.dirty.insert(shelf);
        }
    }

    /// Notes that a packet of the host came in.
    pub(super) fn hear(&mut self, id: HostId, now_s: u64) {
        let Some(known) = self.get_mut(id) else { return };
        (known.heard_s, known.probes) = (now_s, 0);
        if known.host.is_doubted || now_s >= known.host.last_seen_s + LAG_S {
            self.change(id, |host| (host.last_seen_s, host.is_doubted) = (now_s, false));
        }
    }

    /// Changes a host's record.
    pub(super) fn change(&mut self, id: HostId, change: impl FnOnce(&mut Host)) {
        let Some(known) = self.get_mut(id) else { return };
        let before = known.host;
        change(&mut known.host);
        if known.host != before {
            let write = (known.slot, known.host.to_slot());
            self.writes.push(write);
            self.touch(id);
        }
    }

    /// Removes a host with its addresses.
    pub(super) fn remove(&mut self, id: HostId) -> Option<Known> {
        self.touch(id);
        let known = self.known.get_mut(id as usize)?.take()?;
        let shelf = shelf_of(known.host.mac, known.host.vlan);
        if let Some(hosts) = self.shelves.get_mut(usize::from(shelf)) {
            hosts.remove(&id);
        }
        self.by_name.remove(&(known.host.mac, known.host.vlan));
        for ip in &known.addresses {
            self.forget_address(*ip, known.host.vlan);
        }
        let name = host_name(known.host.mac, known.host.vlan);
        self.placement.remove(name, known.slot, &mut self.writes);
        self.free.push(id);
        Some(known)
    }

    /// Notes that the host has or uses an address.
    pub(super) fn add_address(
        &mut self,
        id: HostId,
        ip: IpAddr,
        proof: Proof,
        now_s: u64,
    ) -> Added {
        let Some(known) = self.get(id) else { return Added::NoRoom };
        let (vlan, mac) = (known.host.vlan, known.host.mac);
        if let Some(owned) = self.by_address.get_mut(&(ip, vlan)) {
            if owned.host != id {
                return Added::Others { owner: owned.host, is_stated: owned.is_stated };
            }
            owned.heard_s = now_s;
            let is_news = proof == Proof::Stated && !std::mem::replace(&mut owned.is_stated, true);
            if now_s >= owned.written_s + LAG_S {
                owned.written_s = now_s;
                let record = Address { ip, vlan, mac, last_seen_s: now_s };
                self.writes.push((owned.slot, record.to_slot()));
            }
            if is_news {
                self.touch(id);
            }
            return Added::Own;
        }
        if !self.make_room(id, proof, now_s) {
            return Added::NoRoom;
        }
        let record = Address { ip, vlan, mac, last_seen_s: now_s };
        let name = address_name(ip, vlan);
        let slot = self.placement.insert(name, record.to_slot(), &mut self.writes);
        let Some(slot) = slot else { return Added::NoRoom };
        let is_stated = proof == Proof::Stated;
        let owned = Owned { host: id, slot, heard_s: now_s, written_s: now_s, is_stated };
        self.by_address.insert((ip, vlan), owned);
        if let Some(known) = self.get_mut(id) {
            known.addresses.push(ip);
        }
        self.touch(id);
        Added::Own
    }

    /// Takes an address from its host.
    pub(super) fn take_address(&mut self, ip: IpAddr, vlan: u16) {
        let Some(host) = self.owner(ip, vlan) else { return };
        if let Some(known) = self.get_mut(host) {
            known.addresses.retain(|it| *it != ip);
        }
        self.touch(host);
        self.forget_address(ip, vlan);
    }

    /// Returns whether the host may have one more address; removes one that has not been seen for long, if need be.
    fn make_room(&mut self, id: HostId, proof: Proof, now_s: u64) -> bool {
        let Some(known) = self.get(id) else { return false };
        let vlan = known.host.vlan;
        let owned = |ip: &IpAddr| Some((*ip, *self.by_address.get(&(*ip, vlan))?));
        let all: Vec<(IpAddr, Owned)> = known.addresses.iter().filter_map(owned).collect();
        let used = all.iter().filter(|(_, it)| !it.is_stated).count();
        let is_full = match proof {
            Proof::Stated => all.len() >= ADDRESSES,
            Proof::Used => all.len() >= ADDRESSES || used >= USED_ADDRESSES,
        };
        if !is_full {
            return true;
        }
        let may_go = |it: &Owned| proof == Proof::Stated || !it.is_stated;
        let oldest = all.iter().filter(|(_, it)| may_go(it)).min_by_key(|(_, it)| it.heard_s);
        match oldest {
            Some((ip, it)) if now_s >= it.heard_s + STALE_S => {
                self.take_address(*ip, vlan);
                true
            }
            _ => false,
        }
    }

    fn forget_address(&mut self, ip: IpAddr, vlan: u16) {
        if let Some(owned) = self.by_address.remove(&(ip, vlan)) {
            self.placement.remove(address_name(ip, vlan), owned.slot, &mut self.writes);
        }
    }
}
