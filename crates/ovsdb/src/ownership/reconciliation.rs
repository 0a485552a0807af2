//! Compares the wanted rows of an owner with the rows of a database, and writes the operations that bring them about.
//!
//! Rows that cannot be written are refused first, with the rows that refer to them. Then each group of rows that refer to each
//! other gets its operations, and last the rows are removed that nothing wants.

use std::collections::{BTreeMap, BTreeSet};

use super::scope::{Bridges, Scope};
use super::{
    Group, IDS, IDS_OF_OWNER, KEY, OWNER, OwnershipError, Parent, Plan, Refused, WantedRow,
};
use crate::image::Image;
use crate::row::Row;
use crate::schema::{ColumnType, Schema, UUID_COLUMN, is_name};
use crate::transaction::{Condition, Mutation, Mutator, Operation, check};
use crate::value::{Atom, Uuid, Value};

/// The rows of an owner, by table and key.
type Owned = BTreeMap<(String, String), Uuid>;

/// The work of [`reconcile`].
struct Reconciliation<'a> {
    image: &'a Image,
    schema: &'a Schema,
    owner: &'a str,
    wanted: Vec<&'a WantedRow>,
    rows: Owned,
    obsolete: BTreeMap<Uuid, String>,
    /// The parents' columns with room for one row, with the wanted row that takes it.
    taken: BTreeMap<(Uuid, String), String>,
    operations: Vec<Operation>,
}

/// Returns what is to be done so that exactly the wanted rows of `owner` exist.
pub fn reconcile(
    image: &Image,
    schema: &Schema,
    owner: &str,
    scope: &Scope,
    wanted: &[WantedRow],
) -> Plan {
    let (rows, obsolete) = rows_of(image, schema, owner);
    let mut plan = Plan::default();
    let mut work = Reconciliation {
        image,
        schema,
        owner,
        wanted: Vec::new(),
        rows,
        obsolete,
        taken: BTreeMap::new(),
        operations: Vec::new(),
    };
    let mut keys = BTreeSet::new();
    let bridges = Bridges::of(image);
    let mut kept = BTreeSet::new();
    for row in wanted {
        let key = row.key.clone();
        if !is_name(&key) || !keys.insert(key.clone()) {
            plan.refused.push(Refused { key: key.clone(), error: OwnershipError::Key(key) });
        } else if let Some(what) = scope.beyond(row, owner, &bridges) {
            let error = OwnershipError::NotGranted { key: key.clone(), what };
            plan.refused.push(Refused { key, error });
        } else {
            kept.insert((row.table.clone(), key));
            work.wanted.push(row);
        }
    }
    let obsolete = work.rows.iter().filter(|(key, _)| !kept.contains(key));
    let obsolete: Vec<_> = obsolete.map(|((table, _), uuid)| (*uuid, table.clone())).collect();
    work.obsolete.extend(obsolete);
    work.refuse(&mut plan.refused);
    let wanted = work.wanted.clone();
    for keys in groups(&wanted) {
        let of_group = || wanted.iter().filter(|row| keys.contains(&row.key));
        of_group().for_each(|row| work.bring_about(row));
        of_group().for_each(|row| work.refer_to(row));
        let operations = std::mem::take(&mut work.operations);
        plan.groups.push(Group { keys, operations });
    }
    work.remove();
    plan.removal = work.operations;
    plan
}

/// Divides the wanted rows into sets of keys that refer to each other, in the order of the rows.
fn groups(wanted: &[&WantedRow]) -> Vec<BTreeSet<String>> {
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for row in wanted {
        let mut keys: BTreeSet<_> = names(&row.row).map(ToOwned::to_owned).collect();
        keys.insert(row.key.clone());
        let (joined, others) = groups.into_iter().partition(|it| !it.is_disjoint(&keys));
        groups = others;
        let joined: Vec<BTreeSet<String>> = joined;
        keys.extend(joined.into_iter().flatten());
        groups.push(keys);
    }
    groups
}

/// Returns the names of wanted rows that a row refers to.
fn names(row: &Row) -> impl Iterator<Item = &str> {
    row.columns().flat_map(|(_, value)| value.atoms()).filter_map(|atom| match atom {
        Atom::NamedUuid(name) => Some(name.as_str()),
        _ => None,
    })
}

/// Returns the rows of an owner, and its rows that repeat the key of another.
fn rows_of(image: &Image, schema: &Schema, owner: &str) -> (Owned, BTreeMap<Uuid, String>) {
    let (mut rows, mut obsolete) = (Owned::new(), BTreeMap::new());
    for table in schema.tables.keys() {
        for (uuid, row) in image.rows(table) {
            if row.entry(IDS, OWNER) != Some(owner) {
                continue;
            }
            let key = (table.clone(), row.entry(IDS, KEY).unwrap_or_default().to_owned());
            // Of several rows with the same key, the first stays.
            if *rows.entry(key).or_insert(uuid) != uuid {
                obsolete.insert(uuid, table.clone());
            }
        }
    }
    (rows, obsolete)
}

impl Reconciliation<'_> {
    /// Takes the rows that cannot be written, and the rows that refer to them, out of the wanted ones.
    fn refuse(&mut self, refused: &mut Vec<Refused>) {
        loop {
            let before = self.wanted.len();
            self.taken.clear();
            for row in self.wanted.clone() {
                if let Err(error) = self.examine(row) {
                    refused.push(Refused { key: row.key.clone(), error });
                    self.wanted.retain(|it| it.key != row.key);
                }
            }
            if self.wanted.len() == before {
                return;
            }
        }
    }

    /// Checks that a row can be brought about beside the others.
    fn examine(&mut self, wanted: &WantedRow) -> Result<(), OwnershipError> {
        let WantedRow { table, key, .. } = wanted;
        if self.schema.column(table, IDS).is_none() {
            return Err(OwnershipError::NoIds(table.clone()));
        }
        let is_there = |name: &str| self.wanted.iter().any(|it| it.key == name);
        if let Some(to) = names(&wanted.row).find(|name| !is_there(name)) {
            return Err(OwnershipError::Depends { key: key.clone(), to: to.to_owned() });
        }
        // The check wants each name inserted; so the other rows are inserted without columns.
        let others = self.wanted.iter().filter(|it| it.key != *key);
        let insert = |table: &str, key: &str, row: Row| Operation::Insert {
            table: table.to_owned(),
            row,
            name: Some(key.to_owned()),
        };
        let mut operations = vec![insert(table, key, self.complete(wanted))];
        let referred: BTreeSet<_> = names(&wanted.row).collect();
        let others = others.filter(|it| referred.contains(it.key.as_str()));
        operations.extend(others.map(|it| insert(&it.table, &it.key, Row::new())));
        if let Some((uuid, (_, after))) = self.difference(wanted) {
            operations.push(Operation::update(table, uuid, after));
        }
        check(&operations, self.schema)
            .map_err(|error| OwnershipError::Schema { key: key.clone(), error })?;
        self.room_at_parent(wanted).map(drop)
    }

    /// Returns an existing wanted row, with its columns that differ, as they are and as they shall be.
    fn difference(&self, wanted: &WantedRow) -> Option<(Uuid, (Row, Row))> {
        let uuid = self.uuid(wanted)?;
        let existing = self.image.row(&wanted.table, uuid)?;
        let (mut before, mut after) = (Row::new(), Row::new());
        for (column, value) in self.complete(wanted).columns() {
            let old = existing.get(column);
            if old != Some(value) {
                after.set(column, value.clone());
                if let Some(old) = old {
                    before.set(column, old.clone());
                }
            }
        }
        Some((uuid, (before, after)))
    }

    /// Inserts a wanted row, or updates it.
    fn bring_about(&mut self, wanted: &WantedRow) {
        let WantedRow { table, key, .. } = wanted;
        match self.difference(wanted) {
            Some((_, (_, after))) if after.is_empty() => {}
            Some((uuid, (before, after))) => {
                self.guard(table, uuid, before);
                self.operations.push(Operation::update(table, uuid, after));
            }
            None => {
                let row = self.complete(wanted);
                let (table, name) = (table.clone(), Some(key.clone()));
                self.operations.push(Operation::Insert { table, row, name });
            }
        }
    }

    /// Returns the references in the parent's column, and whether the column has room for one only.
    fn room_at_parent(
        &mut self,
        wanted: &WantedRow,
    ) -> Result<Option<(BTreeSet<Atom>, bool)>, OwnershipError> {
        let Some(Parent { table, uuid, column }) = &wanted.parent else { return Ok(None) };
        let (key, uuid) = (wanted.key.clone(), *uuid);
        let names = || (key.clone(), table.clone(), column.clone());
        let kind = self.schema.column(table, column).map(|it| &it.kind);
        let value = self.image.row(table, uuid).and_then(|row| row.get(column));
        let (Some(kind), Some(Value::Set(references))) = (kind, value) else {
            let (key, table, column) = names();
            return Err(OwnershipError::NoParent { key, table, uuid, column });
        };
        let own = self.uuid(wanted).map(Atom::Uuid);
        let is_other = |it: &&Atom| Some(*it) != own.as_ref() && !is_obsolete(it, &self.obsolete);
        let is_single = kind.is_single();
        let place = (uuid, column.clone());
        let first = self.taken.entry(place).or_insert_with(|| key.clone());
        if is_single && (*first != key || references.iter().any(|it| is_other(&it))) {
            let (key, table, column) = names();
            return Err(OwnershipError::Taken { key, table, uuid, column });
        }
        Ok(Some((references.clone(), is_single)))
    }

    /// Makes the parent refer to a wanted row.
    fn refer_to(&mut self, wanted: &WantedRow) {
        let Ok(Some((references, is_single))) = self.room_at_parent(wanted) else { return };
        let Some(Parent { table, uuid, column }) = &wanted.parent else { return };
        let (key, uuid) = (&wanted.key, *uuid);
        let atom = self.uuid(wanted).map_or_else(|| Atom::NamedUuid(key.clone()), Atom::Uuid);
        if references.contains(&atom) {
            return;
        }
        let value = Value::Set(BTreeSet::from([atom]));
        if is_single {
            let before = Row::new().with(column, Value::Set(references));
            self.guard(table, uuid, before);
            self.operations.push(Operation::update(table, uuid, Row::new().with(column, value)));
        } else {
            self.guard(table, uuid, Row::new());
            let mutation = Mutation::new(column, Mutator::Insert, value);
            self.operations.push(Operation::mutate(table, uuid, mutation));
        }
    }

    /// Removes rows, and all references to them.
    fn remove(&mut self) {
        let obsolete = &std::mem::take(&mut self.obsolete);
        if obsolete.is_empty() {
            return;
        }
        for (table, columns) in &self.schema.tables {
            for (uuid, row) in
                self.image.rows(table).filter(|(uuid, _)| !obsolete.contains_key(uuid))
            {
                for (name, value) in row.columns() {
                    let kind = columns.columns.get(name).map(|it| &it.kind);
                    if let Some(value) =
                        references(value, obsolete).filter(|_| kind.is_some_and(refers))
                    {
                        let mutation = Mutation::new(name, Mutator::Delete, value);
                        self.operations.push(Operation::mutate(table, uuid, mutation));
                    }
                }
            }
        }
        for (uuid, table) in obsolete {
            // The owner may have changed since the image was current.
            let ids = self.image.row(table, *uuid).and_then(|row| row.get(IDS));
            let before = ids.map_or_else(Row::new, |ids| Row::new().with(IDS, ids.clone()));
            self.guard(table, *uuid, before);
            let (table, conditions) = (table.clone(), vec![Condition::is(*uuid)]);
            self.operations.push(Operation::Delete { table, conditions });
        }
    }

    /// Fails the transaction if the row is gone or has other values than `before`.
    fn guard(&mut self, table: &str, uuid: Uuid, before: Row) {
        let before = before.with(UUID_COLUMN, Value::one(uuid));
        self.operations.push(Operation::unless_changed(table, uuid, &before));
    }

    fn uuid(&self, wanted: &WantedRow) -> Option<Uuid> {
        self.rows.get(&(wanted.table.clone(), wanted.key.clone())).copied()
    }

    /// Returns the row with its owner, and with the identifiers of wanted rows that exist.
    fn complete(&self, wanted: &WantedRow) -> Row {
        let mut row = Row::new();
        for (name, value) in wanted.row.columns() {
            row.set(name, self.resolved(value));
        }
        let own: BTreeMap<Atom, Atom> =
            wanted.row.pairs(IDS).map(|(key, value)| (key.clone(), value.clone())).collect();
        let existing = self.uuid(wanted).and_then(|uuid| self.image.row(&wanted.table, uuid));
        let mut ids = existing.map_or_else(BTreeMap::new, foreign_ids);
        if !own.is_empty() {
            let keys: Vec<_> = own.keys().map(Atom::to_json).collect();
            ids.insert(IDS_OF_OWNER.into(), serde_json::Value::Array(keys).to_string().into());
        }
        ids.extend(own);
        ids.insert(OWNER.into(), self.owner.into());
        ids.insert(KEY.into(), wanted.key.as_str().into());
        row.set(IDS, Value::Map(ids));
        row
    }

    fn resolved(&self, value: &Value) -> Value {
        let atom = |atom: &Atom| match atom {
            Atom::NamedUuid(name) => {
                let found = self.wanted.iter().copied().find(|row| row.key == *name);
                let uuid = found.and_then(|row| self.uuid(row));
                uuid.map_or_else(|| atom.clone(), Atom::Uuid)
            }
            _ => atom.clone(),
        };
        match value {
            Value::Set(atoms) => Value::Set(atoms.iter().map(atom).collect()),
            Value::Map(pairs) => {
                Value::Map(pairs.iter().map(|(k, v)| (atom(k), atom(v))).collect())
            }
        }
    }
}

/// Returns the entries in `external_ids` of a row that its owner has not set.
fn foreign_ids(row: &Row) -> BTreeMap<Atom, Atom> {
    let own: Vec<String> = row
        .entry(IDS, IDS_OF_OWNER)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let is_own = |key: &Atom| {
        let Atom::String(key) = key else { return false };
        [OWNER, KEY, IDS_OF_OWNER].contains(&key.as_str()) || own.contains(key)
    };
    let pairs = row.pairs(IDS).filter(|(key, _)| !is_own(key));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Whether a column refers to rows.
fn refers(kind: &ColumnType) -> bool {
    kind.key.ref_table.is_some() || kind.value.as_ref().is_some_and(|it| it.ref_table.is_some())
}

/// Returns the part of a value that refers to obsolete rows.
fn references(value: &Value, obsolete: &BTreeMap<Uuid, String>) -> Option<Value> {
    let is = |atom: &Atom| is_obsolete(atom, obsolete);
    let part = match value {
        Value::Set(atoms) => Value::Set(atoms.iter().filter(|it| is(it)).cloned().collect()),
        Value::Map(pairs) => {
            let pairs = pairs.iter().filter(|(k, v)| is(k) || is(v));
            Value::Map(pairs.map(|(k, v)| (k.clone(), v.clone())).collect())
        }
    };
    (!part.is_empty()).then_some(part)
}

fn is_obsolete(atom: &Atom, obsolete: &BTreeMap<Uuid, String>) -> bool {
    matches!(atom, Atom::Uuid(uuid) if obsolete.contains_key(uuid))
}
