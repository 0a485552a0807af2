//! The device that a database describes: ports, logical switches, flows and learned hosts.
//!
//! It is read from the image of the database after each change, so that the image is the only state that can be wrong. Rows that OpenFlow
//! cannot express are left out: logical switches without a tunnel key, groups other than `unknown-dst`, addresses that are none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use openflow::{Dpid, FlowModFlags, MacAddr, PortDesc, PortNo};
use ovsdb::{Atom, Image, Row, Uuid, Value};
use thiserror::Error;

use super::numbering::{Binding, Numbers, dpid_of, tunnel};
use super::ownership::{KEY, MADE, Owner, PORT, ends_subject, is_network};
use super::rule::{Key, Rule};
use super::schema::{
    LOCATOR, LOCATOR_SET, LOGICAL_ROUTER, LOGICAL_SWITCH, MULTICAST_LOCAL, MULTICAST_REMOTE,
    PHYSICAL_PORT, PHYSICAL_SWITCH, UNICAST_LOCAL, UNICAST_REMOTE, UNKNOWN, VXLAN,
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
    pub(super) name: String,
    /// Whether this controller made it.
    pub(super) is_ours: bool,
    /// Whether another row has the same tunnel key.
    pub(super) is_ambiguous: bool,
    /// Whether a row refers to it.
    pub(super) is_used: bool,
}

/// A physical port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Physical {
    pub(super) row: Uuid,
    /// Its column `vlan_bindings`.
    pub(super) bindings: Value,
    /// Whether the database keeps its number.
    pub(super) is_kept: bool,
}

/// A change of an entry of `other_config` that makes the entry agree with the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Correction {
    pub(super) table: &'static str,
    pub(super) row: Uuid,
    pub(super) key: String,
    /// The new text; `None` removes the entry.
    pub(super) text: Option<String>,
}

/// See the module's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) dpid: Dpid,
    pub(super) ports: BTreeMap<u32, PortDesc>,
    /// The physical ports, by number.
    pub(super) physical: BTreeMap<u32, Physical>,
    /// By tunnel key.
    pub(super) networks: BTreeMap<u32, Network>,
    /// The locators without a tunnel key of their own.
    pub(super) locators: BTreeMap<Ipv4Addr, Uuid>,
    /// Its own ends of tunnels.
    pub(super) own: BTreeSet<Ipv4Addr>,
    pub(super) entries: BTreeMap<Key, Entry>,
    /// Learned hosts, by tunnel key and address.
    pub(super) hosts: BTreeMap<(u32, MacAddr), HostReport>,
    pub(super) corrections: Vec<Correction>,
}

impl Device {
    /// Reads the device. `numbers` are the numbers of ports in the session.
    ///
    /// # Errors
    /// [`NoDevice`].
    pub(super) fn read(image: &Image, numbers: &mut Numbers) -> Result<Self, NoDevice> {
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
            corrections: Vec::new(),
        };
        let (keys, bindings, used) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut reader = Reader { image, keys, bindings, used };
        reader.networks(&mut device);
        reader.uses(&mut device);
        reader.locators(&mut device);
        reader.ports(switch, numbers, &mut device)?;
        reader.addresses(&mut device);
        reader.hosts(&mut device);
        reader.unused(&mut device);
        if device.ports.len() > MAX_PORTS {
            return Err(NoDevice::TooManyPorts);
        }
        Ok(device)
    }

    /// Returns the flows of this controller.
    pub(super) fn own_entries(&self) -> impl Iterator<Item = (&Entry, Owner)> {
        self.entries.values().filter_map(|entry| Some((entry, entry.owner?)))
    }

    /// Returns the logical switches that this controller made and no row refers to.
    pub(super) fn unused_networks(&self) -> impl Iterator<Item = Uuid> {
        let unused = |it: &&Network| it.is_ours && !it.is_used && !it.is_ambiguous;
        self.networks.values().filter(unused).map(|network| network.row)
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
    /// The entries of `other_config` that make a row a flow of this controller: the row with the entry, and its key.
    used: BTreeSet<(Uuid, String)>,
}

impl Reader<'_> {
    fn networks(&mut self, device: &mut Device) {
        for (row, columns) in self.image.rows(LOGICAL_SWITCH) {
            let key = columns.integer("tunnel_key").and_then(|key| u32::try_from(key).ok());
            let Some(vni) = key.filter(|vni| (1..1 << 24).contains(vni)) else { continue };
            self.keys.insert(row, vni);
            let is_ours = columns.entry("other_config", MADE.0) == Some(MADE.1);
            let name = columns.text("name").unwrap_or_default().to_owned();
            let network = Network { row, name, is_ours, is_ambiguous: false, is_used: false };
            device
                .networks
                .entry(vni)
                .and_modify(|known| known.is_ambiguous = true)
                .or_insert(network);
        }
    }

    /// Notes which logical switches a row refers to, whether or not OpenFlow can express the row.
    fn uses(&self, device: &mut Device) {
        let mut used = BTreeSet::new();
        for table in [UNICAST_LOCAL, UNICAST_REMOTE, MULTICAST_LOCAL, MULTICAST_REMOTE] {
            for (_, columns) in self.image.rows(table) {
                used.extend(columns.references("logical_switch"));
            }
        }
        for (table, column) in
            [(PHYSICAL_PORT, "vlan_bindings"), (LOGICAL_ROUTER, "switch_binding")]
        {
            for (_, columns) in self.image.rows(table) {
                used.extend(columns.pairs(column).filter_map(|(_, to)| match to {
                    Atom::Uuid(to) => Some(*to),
                    _ => None,
                }));
            }
        }
        for network in device.networks.values_mut() {
            network.is_used = used.contains(&network.row);
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

    fn ports(
        &mut self,
        switch: &Row,
        numbers: &mut Numbers,
        device: &mut Device,
    ) -> Result<(), NoDevice> {
        let local = PortDesc::new(PortNo::LOCAL, MacAddr::default(), &device.name);
        device.ports.insert(local.port_no.0, local);
        let mut named = BTreeMap::new();
        for row in switch.references("ports") {
            let columns = self.image.row(PHYSICAL_PORT, row);
            if let Some((columns, name)) = columns.and_then(|it| Some((it, it.text("name")?))) {
                named.insert(name, (row, columns));
            }
        }
        let kept = |columns| config(columns, PORT).and_then(|number| number.parse().ok());
        let kept = named.iter().map(|(name, (_, columns))| (*name, kept(columns))).collect();
        let numbers = numbers.assign(&kept).ok_or(NoDevice::TooManyPorts)?;
        for (number, name) in numbers {
            let Some((row, columns)) = named.get(name) else { continue };
            let bindings = columns.get("vlan_bindings").cloned();
            let bindings = bindings.unwrap_or_else(|| Value::Map(BTreeMap::new()));
            let is_kept = kept.get(name).is_some_and(|kept| *kept == Some(number));
            device.physical.insert(number, Physical { row: *row, bindings, is_kept });
            let mut is_in_use = is_kept;
            let desc = PortDesc::new(PortNo(number), MacAddr::default(), name);
            device.ports.insert(number, desc);
            for (vlan, to) in columns.pairs("vlan_bindings") {
                let (Atom::Integer(vlan), Atom::Uuid(to)) = (vlan, to) else { continue };
                let vlan = u16::try_from(*vlan).ok().filter(|vlan| *vlan < 4096);
                let Some((vlan, vni)) = vlan.zip(self.keys.get(to).copied()) else { continue };
                let binding = Binding { port: number, vlan };
                let key = format!("{KEY}{vlan}");
                let owner = config(columns, &key).and_then(Owner::read);
                let owner =
                    owner.filter(|(_, subject)| self.is_bound_by_us(subject, *to, vni, device));
                if owner.is_some() {
                    self.used.insert((*row, key));
                    is_in_use = true;
                }
                let owner = owner.map(|(owner, _)| owner);
                self.binding(binding, vni, (name, owner), device);
            }
            if is_in_use {
                self.used.insert((*row, PORT.to_owned()));
            }
            if is_in_use && !is_kept {
                let (key, text) = (PORT.to_owned(), Some(number.to_string()));
                let correction = Correction { table: PHYSICAL_PORT, row: *row, key, text };
                device.corrections.push(correction);
            }
        }
        Ok(())
    }

    fn binding(
        &mut self,
        binding: Binding,
        vni: u32,
        (name, owner): (&str, Option<Owner>),
        device: &mut Device,
    ) {
        let port = binding.port_no();
        let name = format!("{name}.{}", binding.vlan);
        device.ports.insert(port.0, PortDesc::new(port, MacAddr::default(), &name));
        self.bindings.entry(vni).or_default().push(binding);
        let rule = Rule::Binding { binding, vni };
        device.entries.insert(rule.key(), Entry { rule, owner, row: None });
    }

    /// Whether a binding whose entry has this subject is bound to the logical switch to which this controller bound it.
    fn is_bound_by_us(&self, subject: &str, to: Uuid, vni: u32, device: &Device) -> bool {
        let name = self.image.row(LOGICAL_SWITCH, to).and_then(|it| it.text("name"));
        let is_ambiguous = device.networks.get(&vni).is_some_and(|it| it.is_ambiguous);
        is_network(subject, vni, name.unwrap_or_default(), is_ambiguous)
    }

    fn addresses(&mut self, device: &mut Device) {
        for table in [UNICAST_REMOTE, MULTICAST_REMOTE] {
            for (row, columns) in self.image.rows(table) {
                let Some((network, vni)) = self.network(columns) else { continue };
                let Some((rule, key)) = self.remote(table, columns, vni) else { continue };
                self.address(rule, row, (network, key), device);
            }
        }
    }

    /// Adds a row of remote addresses. `own` is the logical switch with the entry of the owner, and the entry's key.
    fn address(&mut self, rule: Rule, row: Uuid, own: (Uuid, String), device: &mut Device) {
        let (network, key) = own;
        let columns = self.image.row(LOGICAL_SWITCH, network);
        let text = columns.and_then(|it| config(it, &key)).and_then(Owner::read);
        let (mut owner, mut correction) = (None, None);
        if let Some((its, subject)) = text {
            let identifier = row.to_string();
            let is_row = subject == identifier;
            if is_row || subject == ends_subject(&rule.ends()) {
                owner = Some(its);
                self.used.insert((network, key.clone()));
            }
            if !is_row {
                let text = Some(its.to_text(&identifier));
                correction = Some(Correction { table: LOGICAL_SWITCH, row: network, key, text });
            }
        }
        // Several rows may have one address. The row of this controller is listed, otherwise the first in the order of identifiers.
        let known = device.entries.get(&rule.key());
        if known.is_some_and(|known| known.owner.is_some() || owner.is_none()) {
            return;
        }
        if owner.is_some() {
            device.corrections.extend(correction);
        }
        device.entries.insert(rule.key(), Entry { rule, owner, row: Some(row) });
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

    /// Finds entries of `other_config` whose subject is gone.
    fn unused(&self, device: &mut Device) {
        for table in [LOGICAL_SWITCH, PHYSICAL_PORT] {
            for (row, columns) in self.image.rows(table) {
                let keys = columns.pairs("other_config").filter_map(|(key, _)| match key {
                    Atom::String(key) if key.starts_with(KEY) => Some(key),
                    _ => None,
                });
                let unused = keys.filter(|key| !self.used.contains(&(row, (*key).clone())));
                let removal =
                    |key: &String| Correction { table, row, key: key.clone(), text: None };
                device.corrections.extend(unused.map(removal));
            }
        }
    }
}

/// Returns the text at a key of `other_config`. Unlike [`Row::entry`], it does not visit each of up to thousands of entries.
fn config<'r>(columns: &'r Row, key: &str) -> Option<&'r str> {
    let Some(Value::Map(pairs)) = columns.get("other_config") else { return None };
    match pairs.get(&Atom::String(key.to_owned()))? {
        Atom::String(text) => Some(text),
        _ => None,
    }
}

/// Returns the other end of a tunnel that a row of the locators names.
fn end_of(columns: &Row) -> Option<Ipv4Addr> {
    if columns.text("encapsulation_type")? != VXLAN {
        return None;
    }
    columns.text("dst_ip")?.parse().ok()
}
