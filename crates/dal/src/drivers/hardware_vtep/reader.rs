//! Reads the parts of a device from the image: logical switches, locators, ports, flows with their owners, and learned hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use openflow::{MacAddr, PortDesc, PortNo};
use ovsdb::{Atom, Image, Row, Uuid, Value};

use super::device::{Correction, Device, Entry, Network, NoDevice, Physical};
use super::numbering::{Binding, Numbers, tunnel};
use super::ownership::{KEY, MADE, Owner, PORT, address_subject, is_network};
use super::rule::Rule;
use super::schema::{
    LOCATOR, LOCATOR_SET, LOGICAL_ROUTER, LOGICAL_SWITCH, MULTICAST_LOCAL, MULTICAST_REMOTE,
    PHYSICAL_PORT, UNICAST_LOCAL, UNICAST_REMOTE, UNKNOWN, VXLAN,
};
use crate::session::HostReport;

/// Reads the parts of a device.
pub(super) struct Reader<'i> {
    image: &'i Image,
    /// The tunnel keys of logical switches.
    keys: BTreeMap<Uuid, u32>,
    /// The VLANs of each logical switch.
    bindings: BTreeMap<u32, Vec<Binding>>,
    /// The entries of `other_config` that make a row a flow of this controller: the row with the entry, and its key.
    used: BTreeSet<(Uuid, String)>,
}

impl<'i> Reader<'i> {
    pub(super) fn new(image: &'i Image) -> Self {
        let (keys, bindings, used) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { image, keys, bindings, used }
    }

    /// Reads the parts. Each part uses the parts before it.
    ///
    /// # Errors
    /// [`NoDevice::TooManyPorts`].
    pub(super) fn read(
        mut self,
        switch: &Row,
        numbers: &mut Numbers,
        device: &mut Device,
    ) -> Result<(), NoDevice> {
        self.networks(device);
        self.uses(device);
        self.locators(device);
        self.ports(switch, numbers, device)?;
        self.addresses(device);
        self.hosts(device);
        self.unused(device);
        Ok(())
    }

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
            let identified = address_subject(&rule.ends(), Some(row));
            let is_row = subject == identified;
            if is_row || subject == address_subject(&rule.ends(), None) {
                owner = Some(its);
                self.used.insert((network, key.clone()));
            }
            if !is_row {
                let text = Some(its.to_text(&identified));
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
