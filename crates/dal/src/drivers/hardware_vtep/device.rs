//! The device that a database describes: ports, logical switches, flows and learned hosts.
//!
//! It is read from the image of the database after each change, so that the image is the only state that can be wrong. Rows that OpenFlow
//! cannot express are left out: logical switches without a tunnel key, groups other than `unknown-dst`, addresses that are none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use openflow::{Dpid, FlowModFlags, MacAddr, PortDesc, PortNo};
use ovsdb::{Atom, Image, Row, Uuid};
use thiserror::Error;

use super::numbering::{Binding, dpid_of, number_ports, tunnel};
use super::ownership::{KEY, MADE, Owner};
use super::rule::{Key, Rule};
use super::schema::{
    LOCATOR, LOCATOR_SET, LOGICAL_SWITCH, MULTICAST_REMOTE, PHYSICAL_PORT, PHYSICAL_SWITCH,
    UNICAST_LOCAL, UNICAST_REMOTE, UNKNOWN, VXLAN,
};
use crate::session::{HostReport, MAX_PORTS};

/// A database that describes no device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum NoDevice {
    #[error("its database has no Physical_Switch; add one with `vtep-ctl add-ps`")]
    None,
    #[error(
        "its database has {0} rows of Physical_Switch, and this controller serves one for each connection; give each a database"
    )]
    Several(usize),
    #[error("the name of its Physical_Switch is empty; set it, as the datapath id depends on it")]
    NoName,
    #[error(
        "it has more than {MAX_PORTS} ports, VLAN bindings and tunnels, the most of one switch"
    )]
    TooManyPorts,
}

/// A flow of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) rule: Rule,
    /// `None` if another manager has written it.
    pub(super) owner: Option<Owner>,
    /// Its row in a table of addresses; `None` for a binding.
    pub(super) row: Option<Uuid>,
}

/// A logical switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) row: Uuid,
    /// Whether this controller made it.
    pub(super) is_ours: bool,
    /// Whether another row has the same tunnel key.
    pub(super) is_ambiguous: bool,
    /// Whether a row other than the tunnels' refers to it.
    pub(super) is_used: bool,
}

/// An entry of `other_config` without its flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) table: &'static str,
    pub(super) row: Uuid,
    pub(super) key: String,
}

/// See the module's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) dpid: Dpid,
    pub(super) ports: BTreeMap<u32, PortDesc>,
    /// The rows of physical ports, by number.
    pub(super) physical: BTreeMap<u32, Uuid>,
    /// By tunnel key.
    pub(super) networks: BTreeMap<u32, Network>,
    /// The locators without a tunnel key of their own.
    pub(super) locators: BTreeMap<Ipv4Addr, Uuid>,
    /// Its own ends of tunnels.
    pub(super) own: BTreeSet<Ipv4Addr>,
    pub(super) entries: BTreeMap<Key, Entry>,
    /// Learned hosts, by tunnel key and address.
    pub(super) hosts: BTreeMap<(u32, MacAddr), HostReport>,
    pub(super) stale: Vec<Stale>,
}

impl Device {
    /// Reads the device.
    ///
    /// # Errors
    /// [`NoDevice`].
    pub(super) fn read(image: &Image) -> Result<Self, NoDevice> {
        let mut rows = image.rows(PHYSICAL_SWITCH);
        let Some((_, switch)) = rows.next() else { return Err(NoDevice::None) };
        let more = rows.count();
        if more > 0 {
            return Err(NoDevice::Several(more + 1));
        }
        let name = switch.text("name").filter(|name| !name.is_empty()).ok_or(NoDevice::NoName)?;
        let own = switch.texts("tunnel_ips").into_iter().filter_map(|ip| ip.parse().ok()).collect();
        let mut device = Self {
            name: name.to_owned(),
            description: switch.text("description").unwrap_or_default().to_owned(),
            dpid: dpid_of(name),
            ports: BTreeMap::new(),
            physical: BTreeMap::new(),
            networks: BTreeMap::new(),
            locators: BTreeMap::new(),
            own,
            entries: BTreeMap::new(),
            hosts: BTreeMap::new(),
            stale: Vec::new(),
        };
        let mut reader = Reader { image, keys: BTreeMap::new(), bindings: BTreeMap::new() };
        reader.networks(&mut device);
        reader.locators(&mut device);
        reader.ports(switch, &mut device)?;
        reader.addresses(&mut device);
        reader.hosts(&mut device);
        reader.stale(&mut device);
        if device.ports.len() > MAX_PORTS {
            return Err(NoDevice::TooManyPorts);
        }
        Ok(device)
    }

    /// Returns the flows of this controller.
    pub(super) fn own_entries(&self) -> impl Iterator<Item = (&Entry, Owner)> {
        self.entries.values().filter_map(|entry| Some((entry, entry.owner?)))
    }
}

impl Entry {
    /// Returns what OpenFlow lists beside match and instructions: of another manager's entry a cookie of 0.
    pub(super) fn listed(&self) -> Owner {
        let foreign = Owner {
            cookie: 0,
            priority: openflow::FlowMod::DEFAULT_PRIORITY,
            flags: FlowModFlags::default(),
        };
        self.owner.unwrap_or(foreign)
    }
}

/// Reads the parts of a device.
struct Reader<'i> {
    image: &'i Image,
    /// The tunnel keys of logical switches.
    keys: BTreeMap<Uuid, u32>,
    /// The VLANs of each logical switch.
    bindings: BTreeMap<u32, Vec<Binding>>,
}

impl Reader<'_> {
    fn networks(&mut self, device: &mut Device) {
        for (row, columns) in self.image.rows(LOGICAL_SWITCH) {
            let key = columns.integer("tunnel_key").and_then(|key| u32::try_from(key).ok());
            let Some(vni) = key.filter(|vni| (1..1 << 24).contains(vni)) else { continue };
            self.keys.insert(row, vni);
            let is_ours = columns.entry("other_config", MADE.0) == Some(MADE.1);
            let network = Network { row, is_ours, is_ambiguous: false, is_used: false };
            device
                .networks
                .entry(vni)
                .and_modify(|known| known.is_ambiguous = true)
                .or_insert(network);
        }
    }

    fn locators(&mut self, device: &mut Device) {
        for (row, columns) in self.image.rows(LOCATOR) {
            let Some(end) = end_of(columns) else { continue };
            if columns.integer("tunnel_key").is_none() {
                device.locators.insert(end, row);
            }
            if let Some(port) = tunnel(end).filter(|_| !device.own.contains(&end)) {
                let desc = PortDesc::new(port, MacAddr::default(), &end.to_string());
                device.ports.insert(port.0, desc);
            }
        }
    }

    fn ports(&mut self, switch: &Row, device: &mut Device) -> Result<(), NoDevice> {
        let local = PortDesc::new(PortNo::LOCAL, MacAddr::default(), &device.name);
        device.ports.insert(local.port_no.0, local);
        let mut named = BTreeMap::new();
        for row in switch.references("ports") {
            let columns = self.image.row(PHYSICAL_PORT, row);
            if let Some((columns, name)) = columns.and_then(|it| Some((it, it.text("name")?))) {
                named.insert(name, (row, columns));
            }
        }
        let numbers = number_ports(named.keys().copied()).ok_or(NoDevice::TooManyPorts)?;
        for (number, name) in numbers {
            let Some((row, columns)) = named.get(name) else { continue };
            device.physical.insert(number, *row);
            let desc = PortDesc::new(PortNo(number), MacAddr::default(), name);
            device.ports.insert(number, desc);
            for (vlan, to) in columns.pairs("vlan_bindings") {
                let (Atom::Integer(vlan), Atom::Uuid(to)) = (vlan, to) else { continue };
                let vlan = u16::try_from(*vlan).ok().filter(|vlan| *vlan < 4096);
                let Some((vlan, vni)) = vlan.zip(self.keys.get(to).copied()) else { continue };
                let binding = Binding { port: number, vlan };
                self.binding(binding, vni, (name, columns), device);
            }
        }
        Ok(())
    }

    fn binding(
        &mut self,
        binding: Binding,
        vni: u32,
        (name, columns): (&str, &Row),
        device: &mut Device,
    ) {
        let port = binding.port_no();
        let name = format!("{name}.{}", binding.vlan);
        device.ports.insert(port.0, PortDesc::new(port, MacAddr::default(), &name));
        self.bindings.entry(vni).or_default().push(binding);
        let key = format!("{KEY}{}", binding.vlan);
        let owner = columns.entry("other_config", &key).and_then(Owner::read);
        let rule = Rule::Binding { binding, vni };
        device.entries.insert(rule.key(), Entry { rule, owner, row: None });
        if let Some(network) = device.networks.get_mut(&vni) {
            network.is_used = true;
        }
    }

    fn addresses(&self, device: &mut Device) {
        for table in [UNICAST_REMOTE, MULTICAST_REMOTE] {
            for (row, columns) in self.image.rows(table) {
                let Some((network, vni)) = self.network(columns) else { continue };
                let Some((rule, key)) = self.remote(table, columns, vni) else { continue };
                let owner = self.image.row(LOGICAL_SWITCH, network);
                let owner = owner.and_then(|it| it.entry("other_config", &key));
                let entry = Entry { rule, owner: owner.and_then(Owner::read), row: Some(row) };
                // Of two rows with one address, the first in the order of identifiers is listed; the other is not of this controller.
                device.entries.entry(entry.rule.key()).or_insert(entry);
                if let Some(network) = device.networks.get_mut(&vni) {
                    network.is_used = true;
                }
            }
        }
    }

    /// Reads a row of remote addresses: the flow, and the key of its owner.
    fn remote(&self, table: &str, columns: &Row, vni: u32) -> Option<(Rule, String)> {
        let address = columns.text("MAC")?;
        if table == UNICAST_REMOTE {
            let mac: MacAddr = address.parse().ok()?;
            let locator = columns.references("locator").into_iter().next()?;
            let to = end_of(self.image.row(LOCATOR, locator)?)?;
            return Some((Rule::Unicast { vni, mac, to }, format!("{KEY}{mac}")));
        }
        let set = columns.references("locator_set").into_iter().next()?;
        let ends = self.image.row(LOCATOR_SET, set)?.references("locators");
        let to = ends.into_iter().filter_map(|it| end_of(self.image.row(LOCATOR, it)?)).collect();
        (address == UNKNOWN).then(|| (Rule::Unknown { vni, to }, format!("{KEY}{UNKNOWN}")))
    }

    fn network(&self, columns: &Row) -> Option<(Uuid, u32)> {
        let network = columns.references("logical_switch").into_iter().next()?;
        Some((network, *self.keys.get(&network)?))
    }

    fn hosts(&self, device: &mut Device) {
        for (_, columns) in self.image.rows(UNICAST_LOCAL) {
            let Some((_, vni)) = self.network(columns) else { continue };
            if let Some(network) = device.networks.get_mut(&vni) {
                network.is_used = true;
            }
            let mac = columns.text("MAC").and_then(|mac| mac.parse::<MacAddr>().ok());
            let Some(mac) = mac.filter(|mac| !mac.is_multicast()) else { continue };
            // The row does not state the port.
            let (port, vlan) = match self.bindings.get(&vni).map(Vec::as_slice) {
                Some([only]) => (only.port_no(), only.vlan),
                _ => (PortNo::LOCAL, 0),
            };
            let ip = columns.text("ipaddr").and_then(|ip| ip.parse::<IpAddr>().ok());
            let host = HostReport { port, mac, vlan, ip, is_gone: false };
            device.hosts.insert((vni, mac), host);
        }
    }

    /// Finds entries of `other_config` whose flow is gone.
    fn stale(&self, device: &mut Device) {
        let of_table = |table: &'static str, is_known: &dyn Fn(Uuid, &str) -> bool| {
            let rows = self.image.rows(table);
            let keys =
                rows.flat_map(|(row, it)| it.pairs("other_config").map(move |(key, _)| (row, key)));
            let mut stale = Vec::new();
            for (row, key) in keys {
                let Atom::String(key) = key else { continue };
                let Some(what) = key.strip_prefix(KEY) else { continue };
                if !is_known(row, what) {
                    stale.push(Stale { table, row, key: key.clone() });
                }
            }
            stale
        };
        let entries = &device.entries;
        let mut stale = of_table(LOGICAL_SWITCH, &|row, what| {
            let Some(vni) = self.keys.get(&row).copied() else { return false };
            let key = match what.parse() {
                Ok(mac) => Key::Unicast { vni, mac },
                Err(_) if what == UNKNOWN => Key::Unknown { vni },
                Err(_) => return false,
            };
            entries.contains_key(&key)
        });
        let numbers: BTreeMap<Uuid, u32> =
            device.physical.iter().map(|(port, row)| (*row, *port)).collect();
        stale.extend(of_table(PHYSICAL_PORT, &|row, what| {
            let port = numbers.get(&row).copied();
            let Some((port, vlan)) = port.zip(what.parse().ok()) else { return false };
            entries.contains_key(&Key::Binding(Binding { port, vlan }))
        }));
        device.stale = stale;
    }
}

/// Returns the other end of a tunnel that a row of the locators names.
fn end_of(columns: &Row) -> Option<Ipv4Addr> {
    if columns.text("encapsulation_type")? != VXLAN {
        return None;
    }
    columns.text("dst_ip")?.parse().ok()
}
