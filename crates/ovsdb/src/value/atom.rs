//! One value without parts, and its kinds.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Value as Json, json};

use super::{Uuid, ValueError, describe, tagged};
use crate::schema::BaseType;

/// Memory of an atom beside the bytes of its text, in bytes: the enum, and its share of a tree's node.
pub(super) const ATOM_SIZE: usize = 64;

/// The kind of an atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtomKind {
    /// A signed number of 64 bits.
    Integer,
    /// A number of IEEE 754, never infinite.
    Real,
    /// True or false.
    Boolean,
    /// Text.
    String,
    /// A row's identifier.
    Uuid,
}

/// One value that has no parts.
#[derive(Debug, Clone)]
pub enum Atom {
    /// See [`AtomKind::Integer`].
    Integer(i64),
    /// See [`AtomKind::Real`].
    Real(f64),
    /// See [`AtomKind::Boolean`].
    Boolean(bool),
    /// See [`AtomKind::String`].
    String(String),
    /// See [`AtomKind::Uuid`].
    Uuid(Uuid),
    /// A row that the same transaction inserts under this name. No server sends it.
    NamedUuid(String),
}

impl AtomKind {
    /// Returns the name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }

    /// Returns the kind with this name in a schema.
    pub fn from_name(name: &str) -> Option<Self> {
        let kinds = [Self::Integer, Self::Real, Self::Boolean, Self::String, Self::Uuid];
        kinds.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the atom of a column that was never set (RFC 7047 §5.2.1).
    pub fn default_atom(self) -> Atom {
        match self {
            Self::Integer => Atom::Integer(0),
            Self::Real => Atom::Real(0.0),
            Self::Boolean => Atom::Boolean(false),
            Self::String => Atom::String(String::new()),
            Self::Uuid => Atom::Uuid(Uuid::default()),
        }
    }
}

impl Atom {
    /// Returns its kind; a named row counts as a row.
    pub fn kind(&self) -> AtomKind {
        match self {
            Self::Integer(_) => AtomKind::Integer,
            Self::Real(_) => AtomKind::Real,
            Self::Boolean(_) => AtomKind::Boolean,
            Self::String(_) => AtomKind::String,
            Self::Uuid(_) | Self::NamedUuid(_) => AtomKind::Uuid,
        }
    }

    /// Reads an atom that a server sent.
    ///
    /// # Errors
    /// [`ValueError`]: the JSON is not an atom of this kind.
    pub fn read(json: &Json, kind: AtomKind) -> Result<Self, ValueError> {
        let wrong = || ValueError::Kind { expected: kind.name(), found: describe(json) };
        match kind {
            AtomKind::Integer => json.as_i64().map(Self::Integer).ok_or_else(wrong),
            AtomKind::Real => {
                let real = json.as_f64().filter(|it| it.is_finite()).ok_or_else(wrong)?;
                Ok(Self::Real(real + 0.0)) // makes 0 of -0
            }
            AtomKind::Boolean => json.as_bool().map(Self::Boolean).ok_or_else(wrong),
            AtomKind::String => {
                json.as_str().map(|it| Self::String(it.to_owned())).ok_or_else(wrong)
            }
            AtomKind::Uuid => match tagged(json) {
                Some(("uuid", Json::String(text))) => Ok(Self::Uuid(text.parse()?)),
                _ => Err(wrong()),
            },
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Integer(number) => json!(number),
            Self::Real(number) => json!(number),
            Self::Boolean(is) => json!(is),
            Self::String(text) => json!(text),
            Self::Uuid(uuid) => json!(["uuid", uuid.to_string()]),
            Self::NamedUuid(name) => json!(["named-uuid", name]),
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Self::String(text) | Self::NamedUuid(text) => ATOM_SIZE + text.len(),
            _ => ATOM_SIZE,
        }
    }

    pub(super) fn check(&self, base: &BaseType) -> Result<(), ValueError> {
        if self.kind() != base.kind {
            let (expected, found) = (base.kind.name(), self.kind().name());
            return Err(ValueError::Kind { expected, found });
        }
        if let Self::Real(real) = self
            && !real.is_finite()
        {
            return Err(ValueError::Unreadable("a finite number"));
        }
        base.constraint(self).map_or(Ok(()), |allowed| Err(ValueError::Constraint(allowed)))
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |atom: &Self| match atom {
            Self::Integer(_) => 0,
            Self::Real(_) => 1,
            Self::Boolean(_) => 2,
            Self::String(_) => 3,
            Self::Uuid(_) => 4,
            Self::NamedUuid(_) => 5,
        };
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Real(a), Self::Real(b)) => a.total_cmp(b),
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) | (Self::NamedUuid(a), Self::NamedUuid(b)) => {
                a.cmp(b)
            }
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Atom {}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Real(number) => number.fmt(f),
            Self::Boolean(is) => is.fmt(f),
            Self::String(text) | Self::NamedUuid(text) => f.write_str(text),
            Self::Uuid(uuid) => uuid.fmt(f),
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),*) => {
        $(impl From<$from> for Atom {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

from! { i64 => Integer, f64 => Real, bool => Boolean, &str => String, String => String, Uuid => Uuid }
