//! Turns edits of flows into the operations of one transaction.
//!
//! Rows that edits share, logical switches and locators, are inserted once and first. `wait` operations let the transaction fail if
//! another manager has changed a row since it was read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ovsdb::{Condition, Function, Mutation, Mutator, Operation, Row, Until, Uuid, Value};

use super::device::{Correction, Device, Entry, Network, Physical};
use super::numbering::Binding;
use super::ownership::{KEY, MADE, Owner, PORT, address_subject, network_subject};
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
    /// The ports whose bindings must be as they were read.
    guarded: BTreeSet<u32>,
    operations: Vec<Operation>,
    sets: usize,
}

impl<'d> Builder<'d> {
    pub(super) fn new(device: &'d Device) -> Self {
        Self {
            device,
            networks: BTreeMap::new(),
            locators: BTreeSet::new(),
            guarded: BTreeSet::new(),
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
        // The guards precede every change of the columns that they compare.
        for Physical { row, bindings, .. } in
            self.guarded.iter().filter_map(|port| self.device.physical.get(port))
        {
            let known = Row::new().with("vlan_bindings", bindings.clone());
            all.push(Operation::unless_changed(PHYSICAL_PORT, *row, &known));
        }
        for (vni, config) in self.networks {
            let row = Row::new()
                .with("name", Value::one(new_name(vni)))
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
        let Some(physical) = self.device.physical.get(&binding.port) else { return };
        let port = physical.row;
        let is_first = self.guarded.insert(binding.port);
        if is_first && !physical.is_kept {
            let number = Some(binding.port.to_string());
            self.operations.push(set_config(PHYSICAL_PORT, port, PORT.to_owned(), number));
        }
        let known = self.device.networks.get(&vni);
        let name = known.map_or_else(|| new_name(vni), |network| network.name.clone());
        let text = owner.to_text(&network_subject(vni, &name));
        let network = self.network(vni, None);
        let vlan = i64::from(binding.vlan);
        let mut bound = BTreeMap::new();
        bound.insert(ovsdb::Atom::from(vlan), network);
        let keys = Value::set([vlan]);
        let bind = set_entries(PHYSICAL_PORT, port, ("vlan_bindings", keys), Value::Map(bound));
        self.operations.push(bind);
        self.own(PHYSICAL_PORT, port, &binding.vlan.to_string(), Some(text));
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
        let text = owner.to_text(&address_subject(&rule.ends(), known));
        let network = self.network(vni, Some((&what, &text)));
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
            self.own(LOGICAL_SWITCH, *row, &what, Some(text));
        }
    }

    fn remove(&mut self, key: Key) {
        // Another manager may have taken the entry since the deletion was resolved.
        let entry = self.device.entries.get(&key).filter(|entry| entry.owner.is_some());
        let Some(entry) = entry else { return };
        match key {
            Key::Binding(Binding { port: number, vlan }) => {
                let Some(port) = self.device.physical.get(&number).map(|it| it.row) else { return };
                self.guarded.insert(number);
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

    /// Returns the logical switch, and adds it if it is new; `own` is the flow of the new one, and the text of its owner.
    fn network(&mut self, vni: u32, own: Option<(&str, &str)>) -> ovsdb::Atom {
        if let Some(network) = self.device.networks.get(&vni) {
            return ovsdb::Atom::Uuid(network.row);
        }
        let made = || BTreeMap::from([(MADE.0.to_owned(), MADE.1.to_owned())]);
        let config = self.networks.entry(vni).or_insert_with(made);
        config.extend(own.map(|(what, text)| (format!("{KEY}{what}"), text.to_owned())));
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
    fn own(&mut self, table: &str, row: Uuid, what: &str, text: Option<String>) {
        self.operations.push(set_config(table, row, format!("{KEY}{what}"), text));
    }
}

/// Writes or removes an entry of `other_config`.
fn set_config(table: &str, row: Uuid, key: String, text: Option<String>) -> Operation {
    let pair = text.map(|text| (key.clone(), text));
    set_entries(table, row, ("other_config", Value::set([key])), Value::map(pair))
}

/// Replaces entries of a map: an insert alone would keep the values of known keys.
fn set_entries(table: &str, row: Uuid, (column, keys): (&str, Value), pairs: Value) -> Operation {
    let mut mutations = vec![Mutation::new(column, Mutator::Delete, keys)];
    if !pairs.is_empty() {
        mutations.push(Mutation::new(column, Mutator::Insert, pairs));
    }
    let (table, conditions) = (table.to_owned(), vec![Condition::is(row)]);
    Operation::Mutate { table, conditions, mutations }
}

/// Corrects entries of `other_config`.
pub(super) fn correct(device: &Device) -> Vec<Operation> {
    const MOST: usize = 256;
    let correct = |Correction { table, row, key, text }: &Correction| {
        set_config(table, *row, key.clone(), text.clone())
    };
    device.corrections.iter().take(MOST).map(correct).collect()
}

/// Removes a logical switch.
pub(super) fn remove_network(row: Uuid) -> Vec<Operation> {
    let (table, conditions) = (LOGICAL_SWITCH.to_owned(), vec![Condition::is(row)]);
    vec![Operation::Delete { table, conditions }]
}

/// The address in a row of remote addresses.
fn address(key: Key) -> String {
    match key {
        Key::Unicast { mac, .. } => mac.to_string(),
        Key::Unknown { .. } | Key::Binding(_) => UNKNOWN.to_owned(),
    }
}

/// The name of a logical switch that this controller makes.
fn new_name(vni: u32) -> String {
    format!("rosemary-{vni}")
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
