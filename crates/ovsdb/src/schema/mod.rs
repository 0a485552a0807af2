//! The schema of a database: tables, columns and their types (RFC 7047 §3.2).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};
use thiserror::Error;

use crate::value::{Atom, AtomKind, Value, ValueError, describe};

/// The column with a row's identifier, which every table has.
pub const UUID_COLUMN: &str = "_uuid";

/// The column that changes with each change of the row, which every table has.
const VERSION_COLUMN: &str = "_version";

/// A database's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The name of the database, such as `Open_vSwitch`.
    pub name: String,
    /// Its version, such as `8.3.1`; empty if the server states none.
    pub version: String,
    /// The tables by their names.
    pub tables: BTreeMap<String, TableSchema>,
}

/// A table of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// The columns by their names, with `_uuid` and `_version`.
    pub columns: BTreeMap<String, ColumnSchema>,
    /// Whether rows stay that no other row refers to.
    pub is_root: bool,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSchema {
    /// The type of its values.
    pub kind: ColumnType,
    /// Whether it may change after the row was inserted.
    pub mutable: bool,
}

/// The type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnType {
    /// The type of the elements of a set, or of the keys of a map.
    pub key: BaseType,
    /// The type of the values of a map; `None` for a set.
    pub value: Option<BaseType>,
    /// The least number of elements: 0 or 1.
    pub min: usize,
    /// The largest number of elements; `None` for no limit.
    pub max: Option<usize>,
}

/// The type of an atom, with its constraints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseType {
    /// The kind.
    pub kind: AtomKind,
    /// The table to whose rows it refers.
    pub ref_table: Option<String>,
    limit: Limit,
}

/// A constraint of atoms.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Limit {
    None,
    OneOf(BTreeSet<Atom>),
    Number { least: Atom, most: Atom },
    Length { least: usize, most: usize },
}

/// The server's schema cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the server's schema is not one: {place}: {why}; update the server")]
pub struct SchemaError {
    /// The table and column at fault.
    pub place: String,
    /// The mistake, a phrase.
    pub why: String,
}

impl SchemaError {
    fn new(why: impl Into<String>) -> Self {
        Self { place: String::new(), why: why.into() }
    }

    /// Puts the name of a table or column before the place. The server chose the name, which may have any length.
    fn in_place(mut self, name: &str) -> Self {
        let name: String = name.chars().take(64).collect();
        let rest = if self.place.is_empty() { "" } else { "." };
        self.place = format!("{name}{rest}{}", self.place);
        self
    }
}

impl From<ValueError> for SchemaError {
    fn from(error: ValueError) -> Self {
        Self::new(error.to_string())
    }
}

/// Whether `text` may name a table or column (RFC 7047 §3.1, `<id>`), at most 255 bytes long.
pub(crate) fn is_name(text: &str) -> bool {
    let is_first = |it: char| it.is_ascii_alphabetic() || it == '_';
    text.len() <= 255
        && text.starts_with(is_first)
        && text.chars().all(|it| is_first(it) || it.is_ascii_digit())
}

impl Schema {
    /// Reads the answer to `get_schema`.
    ///
    /// # Errors
    /// [`SchemaError`] names table and column.
    pub fn read(json: &Json) -> Result<Self, SchemaError> {
        let schema = object(json)?;
        let text = |key: &str| schema.get(key).and_then(Json::as_str);
        let name = text("name").filter(|it| is_name(it));
        let name = name.ok_or_else(|| SchemaError::new("it has no name"))?;
        let tables = object(schema.get("tables").unwrap_or(&Json::Null))?;
        let read = |(name, json): (&String, &Json)| {
            let table = named(name).and_then(|()| TableSchema::read(json));
            Ok((name.clone(), table.map_err(|error| error.in_place(name))?))
        };
        Ok(Self {
            name: name.to_owned(),
            version: text("version").unwrap_or_default().chars().take(32).collect(),
            tables: tables.iter().map(read).collect::<Result<_, SchemaError>>()?,
        })
    }

    /// Returns the type of a column.
    pub fn column(&self, table: &str, column: &str) -> Option<&ColumnSchema> {
        self.tables.get(table)?.columns.get(column)
    }
}

impl TableSchema {
    fn read(json: &Json) -> Result<Self, SchemaError> {
        let table = object(json)?;
        let columns = object(table.get("columns").unwrap_or(&Json::Null))?;
        let read = |(name, json): (&String, &Json)| {
            let column = named(name).and_then(|()| ColumnSchema::read(json));
            Ok((name.clone(), column.map_err(|error| error.in_place(name))?))
        };
        let mut columns =
            columns.iter().map(read).collect::<Result<BTreeMap<_, _>, SchemaError>>()?;
        for name in [UUID_COLUMN, VERSION_COLUMN] {
            let kind = ColumnType::scalar(AtomKind::Uuid);
            columns.insert(name.to_owned(), ColumnSchema { kind, mutable: false });
        }
        Ok(Self { columns, is_root: flag(table, "isRoot", false)? })
    }
}

impl ColumnSchema {
    fn read(json: &Json) -> Result<Self, SchemaError> {
        let column = object(json)?;
        let kind = ColumnType::read(column.get("type").unwrap_or(&Json::Null))?;
        Ok(Self { kind, mutable: flag(column, "mutable", true)? })
    }
}

impl ColumnType {
    /// Returns the type of exactly one atom without constraints.
    pub fn scalar(kind: AtomKind) -> Self {
        Self { key: BaseType::plain(kind), value: None, min: 1, max: Some(1) }
    }

    fn read(json: &Json) -> Result<Self, SchemaError> {
        if json.is_string() {
            return Ok(Self { key: BaseType::read(json)?, value: None, min: 1, max: Some(1) });
        }
        let kind = object(json)?;
        let count = |key: &str| -> Result<usize, SchemaError> {
            let Some(json) = kind.get(key) else { return Ok(1) };
            let count = json.as_u64().and_then(|it| usize::try_from(it).ok());
            count.ok_or_else(|| SchemaError::new(format!("`{key}` is {}", describe(json))))
        };
        let is_unlimited = kind.get("max").and_then(Json::as_str) == Some("unlimited");
        let (min, max) = (count("min")?, if is_unlimited { None } else { Some(count("max")?) });
        if min > 1 || max.is_some_and(|max| max < 1) {
            return Err(SchemaError::new("`min` and `max` allow no value"));
        }
        Ok(Self {
            key: BaseType::read(kind.get("key").unwrap_or(&Json::Null))?,
            value: kind.get("value").map(BaseType::read).transpose()?,
            min,
            max,
        })
    }

    /// Whether it has at most one element, so that the server sends a change as the new value.
    pub fn is_single(&self) -> bool {
        self.max == Some(1)
    }

    /// Returns the value of a column that was never set (RFC 7047 §5.2.1).
    pub fn default_value(&self) -> Value {
        let key = || self.key.kind.default_atom();
        match (&self.value, self.min) {
            (None, 0) => Value::none(),
            (None, _) => Value::one(key()),
            (Some(_), 0) => Value::Map(BTreeMap::new()),
            (Some(value), _) => Value::Map(BTreeMap::from([(key(), value.kind.default_atom())])),
        }
    }

    /// # Errors
    /// [`ValueError::Count`]: a value with `len` elements does not fit.
    pub(crate) fn check_count(&self, len: usize) -> Result<(), ValueError> {
        if len >= self.min && self.max.is_none_or(|max| len <= max) {
            return Ok(());
        }
        let max = self.max.map_or_else(|| "any number".to_owned(), |max| max.to_string());
        Err(ValueError::Count { found: len, allowed: format!("{} to {max}", self.min) })
    }
}

impl BaseType {
    /// Returns the type without constraints.
    pub fn plain(kind: AtomKind) -> Self {
        Self { kind, ref_table: None, limit: Limit::None }
    }

    fn read(json: &Json) -> Result<Self, SchemaError> {
        let unknown = || SchemaError::new("its type is unknown");
        if let Some(name) = json.as_str() {
            return AtomKind::from_name(name).map(Self::plain).ok_or_else(unknown);
        }
        let base = object(json)?;
        let kind = base.get("type").and_then(Json::as_str).and_then(AtomKind::from_name);
        let kind = kind.ok_or_else(unknown)?;
        let ref_table = base.get("refTable").and_then(Json::as_str).filter(|it| is_name(it));
        Ok(Self { kind, ref_table: ref_table.map(ToOwned::to_owned), limit: limit(base, kind)? })
    }

    /// Returns the allowed values if `atom`, which has the right kind, is none of them.
    pub(crate) fn constraint(&self, atom: &Atom) -> Option<String> {
        match (&self.limit, atom) {
            (Limit::OneOf(allowed), atom) if !allowed.contains(atom) => {
                let names: Vec<String> = allowed.iter().take(16).map(Atom::to_string).collect();
                Some(format!("only {}", names.join(", ")))
            }
            (Limit::Number { least, most }, atom) if atom < least || atom > most => {
                Some(format!("{least} to {most}"))
            }
            (Limit::Length { least, most }, Atom::String(text)) => {
                let length = text.chars().count();
                (length < *least || length > *most).then(|| format!("{least} to {most} characters"))
            }
            _ => None,
        }
    }
}

fn limit(base: &Map<String, Json>, kind: AtomKind) -> Result<Limit, SchemaError> {
    if let Some(allowed) = base.get("enum") {
        let kind = ColumnType { min: 0, max: None, ..ColumnType::scalar(kind) };
        let Value::Set(allowed) = Value::read(allowed, &kind)? else {
            return Err(SchemaError::new("`enum` is no set"));
        };
        return Ok(Limit::OneOf(allowed));
    }
    let number =
        |key: &str, default: Atom| base.get(key).map_or(Ok(default), |json| Atom::read(json, kind));
    Ok(match kind {
        AtomKind::Integer => Limit::Number {
            least: number("minInteger", Atom::Integer(i64::MIN))?,
            most: number("maxInteger", Atom::Integer(i64::MAX))?,
        },
        AtomKind::Real => Limit::Number {
            least: number("minReal", Atom::Real(f64::MIN))?,
            most: number("maxReal", Atom::Real(f64::MAX))?,
        },
        AtomKind::String => {
            let length = |key: &str, default| {
                let length = base.get(key).and_then(Json::as_u64);
                length.and_then(|it| usize::try_from(it).ok()).unwrap_or(default)
            };
            Limit::Length { least: length("minLength", 0), most: length("maxLength", usize::MAX) }
        }
        AtomKind::Boolean | AtomKind::Uuid => Limit::None,
    })
}

fn object(json: &Json) -> Result<&Map<String, Json>, SchemaError> {
    json.as_object()
        .ok_or_else(|| SchemaError::new(format!("expected an object, found {}", describe(json))))
}

fn flag(object: &Map<String, Json>, key: &str, default: bool) -> Result<bool, SchemaError> {
    let Some(json) = object.get(key) else { return Ok(default) };
    json.as_bool().ok_or_else(|| SchemaError::new(format!("`{key}` is {}", describe(json))))
}

/// Checks the name of a table or column.
fn named(name: &str) -> Result<(), SchemaError> {
    if is_name(name) { Ok(()) } else { Err(SchemaError::new("a name has other characters")) }
}

#[cfg(test)]
mod tests;
