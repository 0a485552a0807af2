//! A row: values by the names of their columns.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::value::{Atom, Uuid, Value};

/// Memory of a column in a row beside its name and value, in bytes: its share of a tree's node.
const COLUMN_SIZE: usize = 64;

/// Values by the names of their columns.
///
/// The typed readers return `None` for an absent column, another kind, or an empty optional value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row(BTreeMap<String, Value>);

impl Row {
    /// Returns a row without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the row with one more column.
    #[must_use]
    pub fn with(mut self, column: &str, value: Value) -> Self {
        self.set(column, value);
        self
    }

    /// Sets a column.
    pub fn set(&mut self, column: &str, value: Value) {
        self.0.insert(column.to_owned(), value);
    }

    /// Returns the value of a column.
    pub fn get(&self, column: &str) -> Option<&Value> {
        self.0.get(column)
    }

    /// Returns the columns by their names.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether it has no column.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text of a column with one string.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.get(column)?.single()? {
            Atom::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number of a column with one integer.
    pub fn integer(&self, column: &str) -> Option<i64> {
        match self.get(column)?.single()? {
            Atom::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the truth of a column with one boolean.
    pub fn boolean(&self, column: &str) -> Option<bool> {
        match self.get(column)?.single()? {
            Atom::Boolean(is) => Some(*is),
            _ => None,
        }
    }

    /// Returns the strings of a set, in their order; none for another kind.
    pub fn texts(&self, column: &str) -> BTreeSet<&str> {
        let mut texts = BTreeSet::new();
        for atom in self.set_of(column) {
            if let Atom::String(text) = atom {
                texts.insert(text.as_str());
            }
        }
        texts
    }

    /// Returns the integers of a set; none for another kind.
    pub fn integers(&self, column: &str) -> BTreeSet<i64> {
        let number = |atom: &Atom| match atom {
            Atom::Integer(number) => Some(*number),
            _ => None,
        };
        self.set_of(column).filter_map(number).collect()
    }

    /// Returns the rows that a set refers to; none for another kind.
    pub fn references(&self, column: &str) -> BTreeSet<Uuid> {
        let uuid = |atom: &Atom| match atom {
            Atom::Uuid(uuid) => Some(*uuid),
            _ => None,
        };
        self.set_of(column).filter_map(uuid).collect()
    }

    /// Returns the pairs of a map; none for another kind.
    pub fn pairs(&self, column: &str) -> impl Iterator<Item = (&Atom, &Atom)> {
        let pairs = match self.get(column) {
            Some(Value::Map(pairs)) => Some(pairs),
            _ => None,
        };
        pairs.into_iter().flatten()
    }

    /// Returns the text at a key of a map of strings.
    pub fn entry(&self, column: &str, key: &str) -> Option<&str> {
        self.pairs(column).find_map(|pair| match pair {
            (Atom::String(its), Atom::String(value)) if its == key => Some(value.as_str()),
            _ => None,
        })
    }

    fn set_of(&self, column: &str) -> impl Iterator<Item = &Atom> {
        let atoms = match self.get(column) {
            Some(Value::Set(atoms)) => Some(atoms),
            _ => None,
        };
        atoms.into_iter().flatten()
    }

    pub(crate) fn to_json(&self) -> Json {
        let columns = self.columns().map(|(name, value)| (name.to_owned(), value.to_json()));
        Json::Object(columns.collect::<Map<_, _>>())
    }

    /// Returns an estimate of its memory in bytes.
    pub(crate) fn size(&self) -> usize {
        let of = |(name, value): (&str, &Value)| COLUMN_SIZE + name.len() + value.size();
        COLUMN_SIZE + self.columns().map(of).sum::<usize>()
    }
}
