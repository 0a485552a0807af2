//! Which tables, columns and bridges an owner may write.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::{IDS, WantedRow};
use crate::image::Image;
use crate::row::Row;
use crate::value::{Atom, Uuid};

/// Depth of references between a bridge and a row of it: the bridge, its port, the port's interface, and rows of these.
const DEPTH: usize = 4;

/// The table of bridges.
const BRIDGE: &str = "Bridge";

/// The columns of a table that an owner may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Columns {
    /// All columns.
    All,
    /// These columns.
    Only(BTreeSet<String>),
}

/// The columns and bridges that an owner may write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The tables with their columns; `None` for all.
    pub tables: Option<BTreeMap<String, Columns>>,
    /// The names of the bridges; `None` for all. Each wanted row's parent, and each existing row that a wanted row refers to, must
    /// belong to these bridges only, or be a row of the owner.
    pub bridges: Option<BTreeSet<String>>,
}

/// Returns a phrase about what the row would write beyond each of the scopes; `None` if it is within one of them.
///
/// Of several phrases, it is the one of a scope that has the row's table.
pub(super) fn beyond_all(
    scopes: &[Scope],
    wanted: &WantedRow,
    owner: &str,
    rows: &Bridges<'_>,
) -> Option<String> {
    let mut found = format!("the table {}", wanted.table);
    for scope in scopes {
        let beyond = scope.beyond(wanted, owner, rows)?;
        if scope.has_table(&wanted.table) {
            found = beyond;
        }
    }
    Some(found)
}

impl Scope {
    /// Returns a phrase about what the row would write beyond the scope; `None` if it writes nothing beyond.
    fn beyond(&self, wanted: &WantedRow, owner: &str, rows: &Bridges<'_>) -> Option<String> {
        let names = wanted.row.columns().map(|(name, _)| name).filter(|name| *name != IDS);
        let parent = wanted.parent.as_ref().map(|it| (it.table.as_str(), it.column.as_str()));
        if !self.has_table(&wanted.table) {
            return Some(format!("the table {}", wanted.table));
        }
        let columns = names.map(|name| (wanted.table.as_str(), name)).chain(parent);
        for (table, column) in columns {
            if !self.has_column(table, column) {
                return Some(format!("the column {table}.{column}"));
            }
        }
        let bridges = self.bridges.as_ref()?;
        if wanted.table == BRIDGE && wanted.row.text("name").is_none_or(|it| !bridges.contains(it))
        {
            return Some(format!(
                "the bridge {}",
                wanted.row.text("name").unwrap_or("without name")
            ));
        }
        // The parent of a bridge is the root row, which belongs to no bridge. Another bridge is none of its parents.
        if let Some(parent) = &wanted.parent
            && (wanted.table != BRIDGE || parent.table == BRIDGE)
            && !rows.are_all(bridges, owner, parent.uuid)
        {
            return Some(format!(
                "row {} of {}, which other bridges use",
                parent.uuid, parent.table
            ));
        }
        let atoms = wanted.row.columns().flat_map(|(_, value)| value.atoms());
        let referred = atoms.filter_map(|atom| match atom {
            Atom::Uuid(uuid) => Some(*uuid),
            _ => None,
        });
        let mut foreign = referred.filter(|uuid| !rows.are_all(bridges, owner, *uuid));
        foreign.next().map(|uuid| format!("a reference to row {uuid}, which other bridges use"))
    }

    fn has_table(&self, table: &str) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.contains_key(table))
    }

    fn has_column(&self, table: &str, column: &str) -> bool {
        let Some(tables) = &self.tables else { return true };
        match tables.get(table) {
            Some(Columns::All) => true,
            Some(Columns::Only(columns)) => columns.contains(column),
            None => false,
        }
    }
}

/// The bridges that rows of an image belong to.
pub(super) struct Bridges<'a> {
    image: &'a Image,
    /// The rows that refer to a row.
    referrers: BTreeMap<Uuid, BTreeSet<Uuid>>,
    /// The results of [`names`](Self::names): many wanted rows have the same parent.
    known: RefCell<BTreeMap<Uuid, BTreeSet<&'a str>>>,
}

impl<'a> Bridges<'a> {
    pub(super) fn of(image: &'a Image) -> Self {
        let mut referrers = BTreeMap::<Uuid, BTreeSet<Uuid>>::new();
        for (uuid, row) in image.tables().flat_map(|table| image.rows(table)) {
            for atom in row.columns().flat_map(|(_, value)| value.atoms()) {
                if let Atom::Uuid(referred) = atom {
                    referrers.entry(*referred).or_default().insert(uuid);
                }
            }
        }
        Self { image, referrers, known: RefCell::default() }
    }

    /// Whether a row belongs to the owner, or to these bridges and to no other.
    fn are_all(&self, bridges: &BTreeSet<String>, owner: &str, uuid: Uuid) -> bool {
        let is_own = |row: &Row| row.entry(IDS, super::OWNER) == Some(owner);
        let mut rows = self.image.tables().filter_map(|table| self.image.row(table, uuid));
        if rows.any(is_own) {
            return true;
        }
        let mut known = self.known.borrow_mut();
        let found = known.entry(uuid).or_insert_with(|| self.names(uuid));
        !found.is_empty() && found.iter().all(|name| bridges.contains(*name))
    }

    /// Returns the names of the bridges that a row belongs to.
    fn names(&self, uuid: Uuid) -> BTreeSet<&'a str> {
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::from([uuid]));
        let mut level = vec![uuid];
        for _ in 0..=DEPTH {
            let mut next = Vec::new();
            for uuid in level {
                if let Some(row) = self.image.row(BRIDGE, uuid) {
                    found.insert(row.text("name").unwrap_or_default());
                    continue;
                }
                let referrers = self.referrers.get(&uuid).into_iter().flatten();
                next.extend(referrers.copied().filter(|it| seen.insert(*it)));
            }
            level = next;
        }
        found
    }
}
