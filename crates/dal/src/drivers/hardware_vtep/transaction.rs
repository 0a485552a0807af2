//! Turns edits of flows into the operations of one transaction.
//!
//! Rows that edits share, logical switches and locators, are inserted once and first. `wait` operations let the transaction fail if
//! another manager has changed a row since it was read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ovsdb::{Condition, Function, Mutation, Mutator, Operation, Row, Until, Uuid, Value};

use super::device::{Device, Entry, Network, Stale};
use super::numbering::Binding;
use super::ownership::{KEY, MADE, Owner};
use super::refusal::Refusal;
use super::rule::{Key, Rule};
use super::schema::{
    LOCATOR, LOCATOR_SET, LOGICAL_SWITCH, MULTICAST_REMOTE, PHYSICAL_PORT, UNICAST_REMOTE, UNKNOWN,
    VXLAN,
};

/// A change of one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// Adds or replaces a flow.
    Put(Rule, Owner),
    /// Removes a flow.
    Remove(Key),
}

impl Edit {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Put(rule, _) => rule.key(),
            Self::Remove(key) => *key,
        }
    }

    /// Checks the edit against the device, before anything is sent.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(super) fn check(&self, device: &Device) -> Result<(), Refusal> {
        let Self::Put(rule, owner) = self else { return Ok(()) };
        match device.entries.get(&rule.key()) {
            Some(Entry { owner: None, .. }) => return Err(Refusal::Foreign),
            Some(Entry { owner: Some(known), .. }) if known.priority != owner.priority => {
                return Err(Refusal::OtherPriority(known.priority));
            }
            _ => {}
        }
        if device.networks.get(&rule.vni()).is_some_and(|it| it.is_ambiguous) {
            return Err(Refusal::Ambiguous(rule.vni()));
        }
        if let Some(own) = rule.ends().into_iter().find(|end| device.own.contains(end)) {
            return Err(Refusal::OwnAddress(own));
        }
        match rule {
            Rule::Binding { binding, .. } if !device.physical.contains_key(&binding.port) => {
                Err(Refusal::NoPort(binding.port))
            }
            _ => Ok(()),
        }
    }
}

/// Collects the operations of a transaction.
#[derive(Debug)]
pub(super) struct Builder<'d> {
    device: &'d Device,
    /// New logical switches: their entries in `other_config`.
    networks: BTreeMap<u32, BTreeMap<String, String>>,
    /// New locators.
    locators: BTreeSet<Ipv4Addr>,
    operations: Vec<Operation>,
    sets: usize,
}

impl<'d> Builder<'d> {
    pub(super) fn new(device: &'d Device) -> Self {
        Self {
            device,
            networks: BTreeMap::new(),
            locators: BTreeSet::new(),
            operations: Vec::new(),
            sets: 0,
        }
    }

    /// Adds an edit that was [checked](Edit::check). No other edit of the transaction has its key.
    pub(super) fn add(&mut self, edit: &Edit) {
        match edit {
            Edit::Put(Rule::Binding { binding, vni }, owner) => self.bind(*binding, *vni, *owner),
            Edit::Put(rule, owner) => self.put(rule, *owner),
            Edit::Remove(key) => self.remove(*key),
        }
    }

    /// Returns the operations in their order.
    pub(super) fn finish(self) -> Vec<Operation> {
        let mut all = Vec::new();
        for (vni, config) in self.networks {
            let row = Row::new()
                .with("name", Value::one(format!("rosemary-{vni}")))
                .with("description", Value::one("made by Rosemary".to_owned()))
                .with("tunnel_key", Value::one(i64::from(vni)))
                .with("other_config", Value::map(config));
            let (table, name) = (LOGICAL_SWITCH.to_owned(), Some(network_name(vni)));
            all.push(Operation::Insert { table, row, name });
        }
        for end in self.locators {
            let row = Row::new()
                .with("encapsulation_type", Value::one(VXLAN.to_owned()))
                .with("dst_ip", Value::one(end.to_string()));
            let (table, name) = (LOCATOR.to_owned(), Some(locator_name(end)));
            all.push(Operation::Insert { table, row, name });
        }
        all.extend(self.operations);
        all
    }

    fn bind(&mut self, binding: Binding, vni: u32, owner: Owner) {
        let Some(port) = self.device.physical.get(&binding.port).copied() else { return };
        let network = self.network(vni, None);
        let vlan = i64::from(binding.vlan);
        let mut bound = BTreeMap::new();
        bound.insert(ovsdb::Atom::from(vlan), network);
        self.set_entries(
            PHYSICAL_PORT,
            port,
            ("vlan_bindings", Value::set([vlan])),
            Value::Map(bound),
        );
        self.own(PHYSICAL_PORT, port, &binding.vlan.to_string(), Some(owner));
    }

    fn put(&mut self, rule: &Rule, owner: Owner) {
        let (vni, what) = (rule.vni(), address(rule.key()));
        let locators: Vec<ovsdb::Atom> =
            rule.ends().into_iter().map(|end| self.locator(end)).collect();
        let (table, column, value) = if let Rule::Unknown { .. } = rule {
            let name = format!("set{}", self.sets);
            self.sets += 1;
            let row = Row::new().with("locators", Value::set(locators));
            let (table, name_of) = (LOCATOR_SET.to_owned(), Some(name.clone()));
            self.operations.push(Operation::Insert { table, row, name: name_of });
            (MULTICAST_REMOTE, "locator_set", Value::one(ovsdb::Atom::NamedUuid(name)))
        } else {
            (UNICAST_REMOTE, "locator", Value::set(locators))
        };
        let known = self.device.entries.get(&rule.key()).and_then(|entry| entry.row);
        let network = self.network(vni, Some((&what, owner)));
        let row = Row::new().with(column, value);
        if let Some(known) = known {
            self.operations.push(still_there(table, known, &what));
            self.operations.push(Operation::update(table, known, row));
        } else {
            if let Some(Network { row, .. }) = self.device.networks.get(&vni) {
                self.operations.push(not_there(table, *row, &what));
            }
            let row = row
                .with("MAC", Value::one(what.clone()))
                .with("logical_switch", Value::one(network));
            self.operations.push(Operation::Insert { table: table.to_owned(), row, name: None });
        }
        if let Some(Network { row, .. }) = self.device.networks.get(&vni) {
            self.own(LOGICAL_SWITCH, *row, &what, Some(owner));
        }
    }

    fn remove(&mut self, key: Key) {
        let Some(entry) = self.device.entries.get(&key) else { return };
        match key {
            Key::Binding(Binding { port, vlan }) => {
                let Some(port) = self.device.physical.get(&port).copied() else { return };
                let vlans = Value::set([i64::from(vlan)]);
                let delete = Mutation::new("vlan_bindings", Mutator::Delete, vlans);
                self.operations.push(Operation::mutate(PHYSICAL_PORT, port, delete));
                self.own(PHYSICAL_PORT, port, &vlan.to_string(), None);
            }
            Key::Unicast { vni, .. } | Key::Unknown { vni } => {
                let (Some(row), Some(network)) = (entry.row, self.device.networks.get(&vni)) else {
                    return;
                };
                let is_unicast = matches!(key, Key::Unicast { .. });
                let table = if is_unicast { UNICAST_REMOTE } else { MULTICAST_REMOTE };
                let (table, conditions) = (table.to_owned(), vec![Condition::is(row)]);
                self.operations.push(Operation::Delete { table, conditions });
                self.own(LOGICAL_SWITCH, network.row, &address(key), None);
            }
        }
    }

    /// Returns the logical switch, and adds it if it is new; `own` is the flow of the new one.
    fn network(&mut self, vni: u32, own: Option<(&str, Owner)>) -> ovsdb::Atom {
        if let Some(network) = self.device.networks.get(&vni) {
            return ovsdb::Atom::Uuid(network.row);
        }
        let made = || BTreeMap::from([(MADE.0.to_owned(), MADE.1.to_owned())]);
        let config = self.networks.entry(vni).or_insert_with(made);
        config.extend(own.map(|(what, owner)| (format!("{KEY}{what}"), owner.to_text())));
        ovsdb::Atom::NamedUuid(network_name(vni))
    }

    fn locator(&mut self, end: Ipv4Addr) -> ovsdb::Atom {
        if let Some(row) = self.device.locators.get(&end) {
            return ovsdb::Atom::Uuid(*row);
        }
        self.locators.insert(end);
        ovsdb::Atom::NamedUuid(locator_name(end))
    }

    /// Writes or removes the entry that makes a row a flow of this controller.
    fn own(&mut self, table: &str, row: Uuid, what: &str, owner: Option<Owner>) {
        let key = format!("{KEY}{what}");
        let pair = owner.map(|owner| (key.clone(), owner.to_text()));
        self.set_entries(table, row, ("other_config", Value::set([key])), Value::map(pair));
    }

    /// Replaces entries of a map: an insert alone would keep the values of known keys.
    fn set_entries(&mut self, table: &str, row: Uuid, (column, keys): (&str, Value), pairs: Value) {
        let mut mutations = vec![Mutation::new(column, Mutator::Delete, keys)];
        if !pairs.is_empty() {
            mutations.push(Mutation::new(column, Mutator::Insert, pairs));
        }
        let (table, conditions) = (table.to_owned(), vec![Condition::is(row)]);
        self.operations.push(Operation::Mutate { table, conditions, mutations });
    }
}

/// Removes entries of `other_config` that are not needed, and each logical switch that this controller made and no row refers to.
pub(super) fn clean(device: &Device) -> Vec<Operation> {
    const MOST: usize = 256;
    let mut operations = Vec::new();
    for Stale { table, row, key } in device.stale.iter().take(MOST) {
        let delete = Mutation::new("other_config", Mutator::Delete, Value::set([key.clone()]));
        operations.push(Operation::mutate(table, *row, delete));
    }
    let unused =
        device.networks.values().filter(|it| it.is_ours && !it.is_used && !it.is_ambiguous);
    for network in unused.take(MOST) {
        let (table, conditions) = (LOGICAL_SWITCH.to_owned(), vec![Condition::is(network.row)]);
        operations.push(Operation::Delete { table, conditions });
    }
    operations
}

/// The address in a row of remote addresses.
fn address(key: Key) -> String {
    match key {
        Key::Unicast { mac, .. } => mac.to_string(),
        Key::Unknown { .. } | Key::Binding(_) => UNKNOWN.to_owned(),
    }
}

fn network_name(vni: u32) -> String {
    format!("network{vni}")
}

fn locator_name(end: Ipv4Addr) -> String {
    format!("locator{}", u32::from(end))
}

fn still_there(table: &str, row: Uuid, address: &str) -> Operation {
    Operation::unless_changed(table, row, &Row::new().with("MAC", Value::one(address.to_owned())))
}

fn not_there(table: &str, network: Uuid, address: &str) -> Operation {
    let is = |column: &str, value| Condition {
        column: column.to_owned(),
        function: Function::Equal,
        value,
    };
    Operation::Wait {
        table: table.to_owned(),
        conditions: vec![
            is("MAC", Value::one(address.to_owned())),
            is("logical_switch", Value::one(network)),
        ],
        columns: vec!["MAC".to_owned()],
        until: Until::Equal,
        rows: Vec::new(),
        timeout_ms: 0,
    }
}
