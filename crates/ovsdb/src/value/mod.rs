//! The value of a column: a set or a map of atoms (RFC 7047 §5.1).
//!
//! | JSON | value |
//! | --- | --- |
//! | `5`, `1.5`, `true`, `"text"` | a set with this one atom |
//! | `["uuid", "36ef..."]`, `["named-uuid", "new"]` | a set with this one atom |
//! | `["set", [1, 2]]` | a set |
//! | `["map", [["key", "value"]]]` | a map |
//!
//! A scalar and an optional value are sets too, so that a column that becomes a set in a later schema is still read.

mod atom;
mod uuid;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value as Json, json};
use thiserror::Error;

use self::atom::ATOM_SIZE;
pub use self::atom::{Atom, AtomKind};
pub use self::uuid::Uuid;

use crate::schema::ColumnType;

/// The value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Atoms without order, each once.
    Set(BTreeSet<Atom>),
    /// Atoms by their keys.
    Map(BTreeMap<Atom, Atom>),
}

/// A value does not fit the type of its column.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueError {
    /// The value is of another kind.
    #[error("expected {expected}, found {found}")]
    Kind {
        /// The kind by the schema.
        expected: &'static str,
        /// A description of the value.
        found: &'static str,
    },
    /// A number, name or identifier cannot be read.
    #[error("expected {0}")]
    Unreadable(&'static str),
    /// The value has too few or too many elements.
    #[error("it has {found} elements, and the schema allows {allowed}")]
    Count {
        /// The number of elements.
        found: usize,
        /// The numbers that the schema allows.
        allowed: String,
    },
    /// A set has an atom twice, or a map has a key twice.
    #[error("an element or key occurs twice")]
    Twice,
    /// The schema does not allow this value.
    #[error("the schema allows {0}")]
    Constraint(String),
}

impl Value {
    /// Returns a set with one atom.
    pub fn one(atom: impl Into<Atom>) -> Self {
        Self::Set(BTreeSet::from([atom.into()]))
    }

    /// Returns the empty set.
    pub fn none() -> Self {
        Self::Set(BTreeSet::new())
    }

    /// Returns a set of these atoms.
    pub fn set<T: Into<Atom>>(atoms: impl IntoIterator<Item = T>) -> Self {
        Self::Set(atoms.into_iter().map(Into::into).collect())
    }

    /// Returns a map of these pairs.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Map(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// Reads a value that a server sent for a column. The counts are checked, the other constraints are the server's.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn read(json: &Json, column: &ColumnType) -> Result<Self, ValueError> {
        let value = Self::read_any_count(json, column)?;
        column.check_count(value.len())?;
        Ok(value)
    }

    /// Like [`read`](Self::read), without a check of the count: the difference between two sets may be larger than both.
    pub(crate) fn read_any_count(json: &Json, column: &ColumnType) -> Result<Self, ValueError> {
        if let Some(value) = &column.value {
            let Some(("map", Json::Array(pairs))) = tagged(json) else {
                return Err(ValueError::Kind { expected: "a map", found: describe(json) });
            };
            let mut map = BTreeMap::new();
            for pair in pairs {
                let [k, v] = pair.as_array().map(Vec::as_slice).unwrap_or_default() else {
                    return Err(ValueError::Unreadable("pairs in a map"));
                };
                let pair = (Atom::read(k, column.key.kind)?, Atom::read(v, value.kind)?);
                if map.insert(pair.0, pair.1).is_some() {
                    return Err(ValueError::Twice);
                }
            }
            return Ok(Self::Map(map));
        }
        let Some(("set", Json::Array(atoms))) = tagged(json) else {
            return Ok(Self::one(Atom::read(json, column.key.kind)?));
        };
        let mut set = BTreeSet::new();
        for atom in atoms {
            if !set.insert(Atom::read(atom, column.key.kind)?) {
                return Err(ValueError::Twice);
            }
        }
        Ok(Self::Set(set))
    }

    /// Checks a value that is to be written to a column: kinds, count and constraints.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn check(&self, column: &ColumnType) -> Result<(), ValueError> {
        self.check_atoms(column)?;
        column.check_count(self.len())
    }

    /// Like [`check`](Self::check), without the count, for the operands of conditions and mutations.
    pub(crate) fn check_atoms(&self, column: &ColumnType) -> Result<(), ValueError> {
        match (self, &column.value) {
            (Self::Set(atoms), None) => atoms.iter().try_for_each(|it| it.check(&column.key)),
            (Self::Map(pairs), Some(value)) => pairs.iter().try_for_each(|(k, v)| {
                k.check(&column.key)?;
                v.check(value)
            }),
            (Self::Set(_), Some(_)) => Err(ValueError::Kind { expected: "a map", found: "a set" }),
            (Self::Map(_), None) => Err(ValueError::Kind { expected: "a set", found: "a map" }),
        }
    }

    /// Returns the JSON for the wire.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Set(atoms) => match (atoms.first(), atoms.len()) {
                (Some(atom), 1) => atom.to_json(),
                _ => json!(["set", atoms.iter().map(Atom::to_json).collect::<Vec<_>>()]),
            },
            Self::Map(pairs) => {
                let pairs = pairs.iter().map(|(k, v)| json!([k.to_json(), v.to_json()]));
                json!(["map", pairs.collect::<Vec<_>>()])
            }
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Set(atoms) => atoms.len(),
            Self::Map(pairs) => pairs.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the atom of a set that has exactly one.
    pub fn single(&self) -> Option<&Atom> {
        match self {
            Self::Set(atoms) if atoms.len() == 1 => atoms.first(),
            _ => None,
        }
    }

    /// Returns an estimate of its memory in bytes.
    pub(crate) fn size(&self) -> usize {
        let atoms: usize = match self {
            Self::Set(atoms) => atoms.iter().map(Atom::size).sum(),
            Self::Map(pairs) => pairs.iter().map(|(k, v)| k.size() + v.size()).sum(),
        };
        ATOM_SIZE + atoms
    }

    /// Returns all atoms: of a map, the keys and the values.
    pub(crate) fn atoms(&self) -> Box<dyn Iterator<Item = &Atom> + '_> {
        match self {
            Self::Set(atoms) => Box::new(atoms.iter()),
            Self::Map(pairs) => Box::new(pairs.iter().flat_map(|(k, v)| [k, v])),
        }
    }

    /// Applies the difference between two values, as a server sends it (ovsdb-server(7) §4.1.14).
    ///
    /// # Errors
    /// [`ValueError`]: the result does not fit the column.
    pub(crate) fn apply(&self, difference: Self, column: &ColumnType) -> Result<Self, ValueError> {
        if column.is_single() {
            column.check_count(difference.len())?;
            return Ok(difference);
        }
        let mut value = self.clone();
        match (&mut value, difference) {
            (Self::Set(atoms), Self::Set(changed)) => {
                for atom in changed {
                    if !atoms.remove(&atom) {
                        atoms.insert(atom);
                    }
                }
            }
            (Self::Map(pairs), Self::Map(changed)) => {
                for (key, new) in changed {
                    if pairs.get(&key) == Some(&new) {
                        pairs.remove(&key);
                    } else {
                        pairs.insert(key, new);
                    }
                }
            }
            _ => return Err(ValueError::Kind { expected: "the same kind", found: "another one" }),
        }
        column.check_count(value.len())?;
        Ok(value)
    }
}

/// Returns the tag and the content of an array such as `["set", [...]]`.
fn tagged(json: &Json) -> Option<(&str, &Json)> {
    match json.as_array()?.as_slice() {
        [Json::String(tag), content] => Some((tag, content)),
        _ => None,
    }
}

/// Names the kind of some JSON, without its content.
pub(crate) fn describe(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(number) if number.is_i64() => "an integer",
        Json::Number(_) => "a number beyond integers",
        Json::String(_) => "a string",
        Json::Array(_) => match tagged(json) {
            Some(("uuid", _)) => "a uuid",
            Some(("set", _)) => "a set",
            Some(("map", _)) => "a map",
            _ => "an array",
        },
        Json::Object(_) => "an object",
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(atoms) => {
                for (at, atom) in atoms.iter().enumerate() {
                    write!(f, "{}{atom}", if at > 0 { " " } else { "" })?;
                }
            }
            Self::Map(pairs) => {
                for (at, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}={value}", if at > 0 { " " } else { "" })?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
