//! The values of columns, and their layout in messages.
//!
//! ```text
//! value       kind u8: 0 set, 1 map | count u32 | count x atom, of a map twice as many: key, value, ...
//! atom        kind u8 | ...
//!     0  integer  u64
//!     1  real     u64: its bits (IEEE 754)
//!     2  boolean  u8
//!     3  text     long
//!     4  row      16 bytes: the identifier of an existing row
//!     5  wanted   key text: a row that the same application wants
//!     6  port     name text: the port of this name
//! row         table text | id 16 bytes | cut u8 | columns
//! wanted      table text | key text | parent u8: 0 none, 1 | [table text | name text | column text] | columns
//! columns     count u16 | count x (name text | value)
//! ```

use std::collections::BTreeMap;
use std::fmt;

use super::super::wire::{Reader, Writer};

/// The identifier of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RowId(pub [u8; 16]);

impl fmt::Display for RowId {
    /// Writes the form of Open vSwitch, as in `ovs-vsctl list`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let dash = if [4, 6, 8, 10].contains(&place) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// An element of a value (RFC 7047 §5.1).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Atom {
    /// A number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A truth value.
    Boolean(bool),
    /// A text.
    Text(String),
    /// An existing row.
    Row(RowId),
    /// A row that this application wants, by its key. Only in wanted rows.
    Wanted(String),
    /// The port with this name, whichever row it is at the time. Only in wanted rows.
    Port(String),
}

/// The value of a column: a set, which may have one element, or a map.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A set. A column with one value is a set with one element, and an empty optional column an empty set.
    Set(Vec<Atom>),
    /// A map.
    Map(Vec<(Atom, Atom)>),
}

/// The columns of a row.
pub type Columns = BTreeMap<String, Value>;

/// A row of a database.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its identifier.
    pub id: RowId,
    /// Its columns that the server has and Rosemary knows.
    pub columns: Columns,
    /// Whether columns are missing because the row is too long for a message.
    pub is_cut: bool,
}

/// A row that an application wants.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedRow {
    /// The table.
    pub table: String,
    /// The row's name among all rows that the application wants of this database: a letter or an underscore, then also digits.
    pub key: String,
    /// The row that must refer to this one.
    pub parent: Option<Parent>,
    /// The columns. Other columns keep the server's values.
    pub columns: Columns,
}

/// A column of an existing row that refers to a wanted row, such as `qos` of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The table.
    pub table: String,
    /// The value of the row's column `name`.
    pub name: String,
    /// The column.
    pub column: String,
}

impl WantedRow {
    /// A row without columns.
    pub fn new(table: impl Into<String>, key: impl Into<String>) -> Self {
        Self { table: table.into(), key: key.into(), parent: None, columns: Columns::new() }
    }

    /// The same row with a column.
    #[must_use]
    pub fn with(mut self, column: impl Into<String>, value: impl Into<Value>) -> Self {
        self.columns.insert(column.into(), value.into());
        self
    }

    /// The same row, to which `column` of the row `name` of `table` must refer.
    #[must_use]
    pub fn under(
        mut self,
        table: impl Into<String>,
        name: impl Into<String>,
        column: impl Into<String>,
    ) -> Self {
        self.parent =
            Some(Parent { table: table.into(), name: name.into(), column: column.into() });
        self
    }

    /// Writes it.
    pub(super) fn write(&self, out: &mut Writer) {
        out.short(self.table.as_bytes()).short(self.key.as_bytes());
        match &self.parent {
            None => drop(out.u8(0)),
            Some(Parent { table, name, column }) => {
                out.u8(1).short(table.as_bytes()).short(name.as_bytes()).short(column.as_bytes());
            }
        }
        write_columns(&self.columns, out);
    }

    /// Reads it; `None` if it is malformed.
    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (table, key) = (text(from)?, text(from)?);
        let parent = match from.u8()? {
            0 => None,
            1 => Some(Parent { table: text(from)?, name: text(from)?, column: text(from)? }),
            _ => return None,
        };
        Some(Self { table, key, parent, columns: read_columns(from)? })
    }
}

impl Row {
    /// The text of a column; `None` if it has none.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.single(column)? {
            Atom::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number in a column; `None` if it has none.
    pub fn integer(&self, column: &str) -> Option<i64> {
        match self.single(column)? {
            Atom::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The truth value of a column; `None` if it has none.
    pub fn boolean(&self, column: &str) -> Option<bool> {
        match self.single(column)? {
            Atom::Boolean(is) => Some(*is),
            _ => None,
        }
    }

    /// The rows to which a column refers.
    pub fn rows(&self, column: &str) -> Vec<RowId> {
        let atoms: Vec<&Atom> = match self.columns.get(column) {
            Some(Value::Set(atoms)) => atoms.iter().collect(),
            Some(Value::Map(pairs)) => pairs.iter().map(|(_, value)| value).collect(),
            None => Vec::new(),
        };
        let row = |atom: &Atom| match atom {
            Atom::Row(id) => Some(*id),
            _ => None,
        };
        atoms.into_iter().filter_map(row).collect()
    }

    /// The value of a text in a map, such as `rx_errors` in `statistics`.
    pub fn entry(&self, column: &str, key: &str) -> Option<&Atom> {
        let Value::Map(pairs) = self.columns.get(column)? else { return None };
        let is_it = |atom: &Atom| matches!(atom, Atom::Text(text) if text == key);
        pairs.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value)
    }

    fn single(&self, column: &str) -> Option<&Atom> {
        match self.columns.get(column)? {
            Value::Set(atoms) if atoms.len() == 1 => atoms.first(),
            _ => None,
        }
    }

    /// Writes it.
    pub(super) fn write(&self, out: &mut Writer) {
        out.0.extend_from_slice(&self.id.0);
        out.u8(u8::from(self.is_cut));
        write_columns(&self.columns, out);
    }

    /// Reads it; `None` if it is malformed.
    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let id = RowId(from.take(16)?.try_into().ok()?);
        let is_cut = from.u8()? != 0;
        Some(Self { id, is_cut, columns: read_columns(from)? })
    }
}

impl Value {
    /// A set of these elements.
    pub fn set<T: Into<Atom>>(atoms: impl IntoIterator<Item = T>) -> Self {
        Self::Set(atoms.into_iter().map(Into::into).collect())
    }

    /// A map of these pairs.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Map(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    fn write(&self, out: &mut Writer) {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
        match self {
            Self::Set(atoms) => {
                out.u8(0).0.extend(count(atoms.len()));
                for atom in atoms {
                    atom.write(out);
                }
            }
            Self::Map(pairs) => {
                out.u8(1).0.extend(count(pairs.len()));
                for (key, value) in pairs {
                    key.write(out);
                    value.write(out);
                }
            }
        }
    }

    // Each element takes at least a byte of the message, so its size bounds the memory.
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (kind, count) = (from.u8()?, from.u32()?);
        match kind {
            0 => (0..count).map(|_| Atom::read(from)).collect::<Option<_>>().map(Self::Set),
            1 => {
                let pairs = (0..count).map(|_| Some((Atom::read(from)?, Atom::read(from)?)));
                pairs.collect::<Option<_>>().map(Self::Map)
            }
            _ => None,
        }
    }
}

impl<T: Into<Atom>> From<T> for Value {
    /// A column with one value.
    fn from(atom: T) -> Self {
        Self::Set(vec![atom.into()])
    }
}

impl Atom {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Integer(number) => out.u8(0).u64(number.cast_unsigned()),
            Self::Real(number) => out.u8(1).u64(number.to_bits()),
            Self::Boolean(is) => out.u8(2).u8(u8::from(*is)),
            Self::Text(text) => out.u8(3).long(text.as_bytes()),
            Self::Row(id) => {
                out.u8(4).0.extend_from_slice(&id.0);
                out
            }
            Self::Wanted(key) => out.u8(5).short(key.as_bytes()),
            Self::Port(name) => out.u8(6).short(name.as_bytes()),
        };
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.u8()? {
            0 => Self::Integer(from.u64()?.cast_signed()),
            1 => Self::Real(f64::from_bits(from.u64()?)),
            2 => Self::Boolean(from.u8()? != 0),
            3 => Self::Text(std::str::from_utf8(from.long()?).ok()?.to_owned()),
            4 => Self::Row(RowId(from.take(16)?.try_into().ok()?)),
            5 => Self::Wanted(text(from)?),
            6 => Self::Port(text(from)?),
            _ => return None,
        })
    }
}

impl From<i64> for Atom {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Atom {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<bool> for Atom {
    fn from(is: bool) -> Self {
        Self::Boolean(is)
    }
}

impl From<&str> for Atom {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Atom {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<RowId> for Atom {
    fn from(id: RowId) -> Self {
        Self::Row(id)
    }
}

pub(super) fn text(from: &mut Reader<'_>) -> Option<String> {
    from.text().map(ToOwned::to_owned)
}

fn write_columns(columns: &Columns, out: &mut Writer) {
    out.u16(u16::try_from(columns.len()).unwrap_or(u16::MAX));
    for (name, value) in columns {
        out.short(name.as_bytes());
        value.write(out);
    }
}

fn read_columns(from: &mut Reader<'_>) -> Option<Columns> {
    let count = from.u16()?;
    let mut columns = Columns::new();
    for _ in 0..count {
        let name = text(from)?;
        // A column that occurs twice is a mistake of the sender.
        if columns.insert(name, Value::read(from)?).is_some() {
            return None;
        }
    }
    Some(columns)
}
