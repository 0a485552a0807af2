//! Translates rows between the messages of apps and the library.

use std::collections::BTreeMap;

use ovsdb::open_vswitch::WANTED;
use ovsdb::{Image, Uuid, ownership};
use sdk::services::ovsdb::{Atom, Columns, Parent, Row, RowId, Value, WantedRow};

/// The prefix of the entries of `external_ids` that name the owner. An app may not write them.
const RESERVED: &str = "rosemary-";

/// The column with options of tunnels.
const OPTIONS: &str = "options";

/// Entries of `Interface.options` that are secrets of tunnels. No app reads them.
const SECRETS: [&str; 1] = ["psk"];

/// Whether the service reads a table.
pub(super) fn is_table(name: &str) -> bool {
    WANTED.tables.iter().any(|table| table.name == name)
}

/// Whether the service reads a column. It cannot tell whether another one has the wanted value.
fn is_column(table: &str, column: &str) -> bool {
    let tables = WANTED.tables.iter().filter(|it| it.name == table);
    tables.flat_map(|table| table.columns).any(|it| it.name == column)
}

/// Returns a row of the image for an app.
pub(super) fn of_image(id: Uuid, row: &ovsdb::Row) -> Row {
    let column = |(name, value): (&str, &ovsdb::Value)| {
        let mut value = value_of(value);
        if let (OPTIONS, Value::Map(pairs)) = (name, &mut value) {
            let is_secret =
                |key: &Atom| matches!(key, Atom::Text(key) if SECRETS.contains(&key.as_str()));
            pairs.retain(|(key, _)| !is_secret(key));
        }
        (name.to_owned(), value)
    };
    Row { id: RowId(id.0), columns: row.columns().map(column).collect(), is_cut: false }
}

fn value_of(value: &ovsdb::Value) -> Value {
    match value {
        ovsdb::Value::Set(atoms) => Value::Set(atoms.iter().map(atom_of).collect()),
        ovsdb::Value::Map(pairs) => {
            Value::Map(pairs.iter().map(|(key, value)| (atom_of(key), atom_of(value))).collect())
        }
    }
}

fn atom_of(atom: &ovsdb::Atom) -> Atom {
    match atom {
        ovsdb::Atom::Integer(number) => Atom::Integer(*number),
        ovsdb::Atom::Real(number) => Atom::Real(*number),
        ovsdb::Atom::Boolean(is) => Atom::Boolean(*is),
        ovsdb::Atom::String(text) => Atom::Text(text.clone()),
        ovsdb::Atom::Uuid(id) => Atom::Row(RowId(id.0)),
        ovsdb::Atom::NamedUuid(name) => Atom::Wanted(name.clone()),
    }
}

/// Finds rows by their names.
pub(super) struct Names<'a> {
    image: &'a Image,
    tables: BTreeMap<String, BTreeMap<&'a str, Uuid>>,
}

impl<'a> Names<'a> {
    pub(super) fn of(image: &'a Image) -> Self {
        Self { image, tables: BTreeMap::new() }
    }

    fn find(&mut self, table: &str, name: &str) -> Option<Uuid> {
        let image = self.image;
        let rows = self.tables.entry(table.to_owned()).or_insert_with(|| {
            let named = |(id, row): (Uuid, &'a ovsdb::Row)| Some((row.text("name")?, id));
            image.rows(table).filter_map(named).collect()
        });
        rows.get(name).copied()
    }

    /// Translates a wanted row.
    ///
    /// # Errors
    /// Why it cannot be brought about now, as a phrase with a remedy.
    pub(super) fn wanted(&mut self, row: &WantedRow) -> Result<ownership::WantedRow, String> {
        let table = &row.table;
        if !is_table(table) {
            let table = quoted(table);
            return Err(format!("Rosemary does not write the table {table}; remove the row"));
        }
        if let Some(column) = row.columns.keys().find(|column| !is_column(table, column)) {
            return Err(not_written(table, column));
        }
        let mut columns = ovsdb::Row::new();
        for (name, value) in &row.columns {
            columns.set(name, self.value(value)?);
        }
        let keys = columns.pairs(ownership::IDS).map(|(key, _)| key.to_string());
        if let Some(key) = { keys }.find(|key| key.starts_with(RESERVED)) {
            let key = quoted(&key);
            return Err(format!("the entry {key} of external_ids is Rosemary's; remove it"));
        }
        let parent = row.parent.as_ref().map(|it| self.parent(it)).transpose()?;
        let (table, key) = (table.clone(), row.key.clone());
        Ok(ownership::WantedRow { table, key, row: columns, parent })
    }

    fn parent(&mut self, parent: &Parent) -> Result<ownership::Parent, String> {
        let Parent { table, name, column } = parent;
        if !is_column(table, column) {
            return Err(not_written(table, column));
        }
        let uuid = self.find(table, name).ok_or_else(|| absent(table, name))?;
        Ok(ownership::Parent { table: table.clone(), uuid, column: column.clone() })
    }

    fn value(&mut self, value: &Value) -> Result<ovsdb::Value, String> {
        Ok(match value {
            Value::Set(atoms) => {
                let atoms: Result<_, _> = atoms.iter().map(|it| self.atom(it)).collect();
                ovsdb::Value::Set(atoms?)
            }
            Value::Map(pairs) => {
                let pairs: Result<_, String> = pairs
                    .iter()
                    .map(|(key, value)| Ok((self.atom(key)?, self.atom(value)?)))
                    .collect();
                ovsdb::Value::Map(pairs?)
            }
            _ => return Err("the value is of an unknown kind; update Rosemary".to_owned()),
        })
    }

    fn atom(&mut self, atom: &Atom) -> Result<ovsdb::Atom, String> {
        Ok(match atom {
            Atom::Integer(number) => ovsdb::Atom::Integer(*number),
            // JSON has no other numbers.
            Atom::Real(number) if !number.is_finite() => {
                return Err(format!("{number} is no number of a database; choose another"));
            }
            Atom::Real(number) => ovsdb::Atom::Real(*number),
            Atom::Boolean(is) => ovsdb::Atom::Boolean(*is),
            Atom::Text(text) => ovsdb::Atom::String(text.clone()),
            Atom::Row(id) => ovsdb::Atom::Uuid(Uuid(id.0)),
            Atom::Wanted(key) => ovsdb::Atom::NamedUuid(key.clone()),
            Atom::Port(name) => {
                ovsdb::Atom::Uuid(self.find("Port", name).ok_or_else(|| absent("Port", name))?)
            }
            _ => return Err("the value is of an unknown kind; update Rosemary".to_owned()),
        })
    }
}

fn absent(table: &str, name: &str) -> String {
    format!("{table} has no row {}; the service tries again when it appears", quoted(name))
}

fn not_written(table: &str, column: &str) -> String {
    let (table, column) = (quoted(table), quoted(column));
    format!("Rosemary does not write the column {table}.{column}; remove the column")
}

/// Returns the beginning of a name that an app has chosen, for the app and the log.
pub(super) fn quoted(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_debug).collect()
}

/// Returns the bytes of rows in messages, estimated from above.
pub(super) fn size(rows: &[WantedRow]) -> usize {
    let text = |text: &String| text.len() + 4;
    let atom = |atom: &Atom| match atom {
        Atom::Text(it) | Atom::Wanted(it) | Atom::Port(it) => it.len() + 8,
        _ => 24,
    };
    let value = |value: &Value| match value {
        Value::Set(atoms) => atoms.iter().map(atom).sum::<usize>(),
        Value::Map(pairs) => pairs.iter().map(|(key, value)| atom(key) + atom(value)).sum(),
        _ => 0,
    };
    let columns = |columns: &Columns| -> usize {
        columns.iter().map(|(name, it)| text(name) + value(it) + 8).sum()
    };
    let parent = |it: &Parent| text(&it.table) + text(&it.name) + text(&it.column);
    let row = |row: &WantedRow| {
        let parent = row.parent.as_ref().map_or(0, parent);
        text(&row.table) + text(&row.key) + parent + 64 + columns(&row.columns)
    };
    rows.iter().map(row).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        let port = ovsdb::Row::new().with("name", ovsdb::Value::one("p1"));
        Image::of_rows([("Port", Uuid([1; 16]), port)])
    }

    fn refusal(row: &WantedRow) -> String {
        let image = image();
        Names::of(&image).wanted(row).unwrap_err()
    }

    #[test]
    fn secrets_of_tunnels_are_left_out() {
        let options = [("remote_ip", "192.0.2.1"), ("psk", "swordfish")];
        let options = options.map(|(key, value)| (key.into(), value.into()));
        let row = ovsdb::Row::new().with("options", ovsdb::Value::Map(options.into()));
        let row = of_image(Uuid([1; 16]), &row);
        assert_eq!(row.columns["options"], Value::map([("remote_ip", "192.0.2.1")]));
    }

    #[test]
    fn names_become_rows() {
        let image = image();
        let row = WantedRow::new("Mirror", "m")
            .with("select_dst_port", Atom::Port("p1".into()))
            .under("Port", "p1", "qos");
        let wanted = Names::of(&image).wanted(&row).unwrap();
        assert!(wanted.row.references("select_dst_port").contains(&Uuid([1; 16])));
        assert_eq!(wanted.parent.unwrap().uuid, Uuid([1; 16]));
    }

    #[test]
    fn reasons_are_short_whatever_the_app_names() {
        let long = "\n".repeat(40_000);
        let row = || WantedRow::new("Queue", "q");
        for row in [
            WantedRow::new(long.clone(), "q"),
            row().with(long.clone(), 1),
            row().with("dscp", Atom::Port(long.clone())),
            row().with("external_ids", Value::map([(format!("rosemary-{long}"), "x")])),
            row().under(long.clone(), "p1", "qos"),
            row().under("Port", long.clone(), "qos"),
            row().under("Port", "p1", long.clone()),
        ] {
            let why = refusal(&row);
            assert!(why.len() < 300 && !why.contains('\n'), "{} bytes: {why:.400}", why.len());
        }
    }

    #[test]
    fn size_has_all_texts_of_a_row() {
        let long = || "x".repeat(1000);
        let row = WantedRow::new(long(), long()).with(long(), long()).under(long(), long(), long());
        assert!(size(&[row]) > 7000);
    }

    #[test]
    fn rows_that_cannot_be_written_are_refused_with_a_reason() {
        let row = |table: &str| WantedRow::new(table, "k");
        assert!(refusal(&row("SSLx")).contains("does not write the table SSLx"));
        assert!(refusal(&row("QoS").with("x", 1)).contains("the column QoS.x"));
        assert!(refusal(&row("QoS").under("Port", "p2", "qos")).contains("Port has no row p2"));
        assert!(refusal(&row("Queue").with("dscp", f64::NAN)).contains("NaN"));
        let ids = Value::map([("rosemary-owner", "other")]);
        assert!(refusal(&row("Queue").with("external_ids", ids)).contains("rosemary-owner"));
    }
}
