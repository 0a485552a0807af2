//! Turns rights into scopes, and a refusal into the line that the operator has to add.

use std::collections::{BTreeMap, BTreeSet};

use control::service::OvsdbRight;
use ovsdb::Image;
use ovsdb::ownership::{Columns, Scope};
use sdk::services::ovsdb::{Parent, WantedRow};

/// Returns the scopes of an app in a database: one for all bridges, and one for each bridge that its rights name.
pub(super) fn scopes(rights: &[OvsdbRight], database: &str) -> Vec<Scope> {
    let of_database: Vec<&OvsdbRight> = rights.iter().filter(|it| it.is_of(database)).collect();
    let tables = |bridge: Option<&String>| {
        let mut tables = BTreeMap::<String, Columns>::new();
        for right in &of_database {
            if right.bridge.is_none() || right.bridge.as_ref() == bridge {
                add(&mut tables, right);
            }
        }
        tables
    };
    let bridges: BTreeSet<&String> =
        of_database.iter().filter_map(|it| it.bridge.as_ref()).collect();
    let of_all = Scope { tables: Some(tables(None)), bridges: None };
    let of_one = |bridge: &String| Scope {
        tables: Some(tables(Some(bridge))),
        bridges: Some(BTreeSet::from([bridge.clone()])),
    };
    std::iter::once(of_all).chain(bridges.into_iter().map(of_one)).collect()
}

fn add(tables: &mut BTreeMap<String, Columns>, right: &OvsdbRight) {
    let columns =
        tables.entry(right.table.clone()).or_insert_with(|| Columns::Only(BTreeSet::new()));
    match (&right.column, columns) {
        (None, columns) => *columns = Columns::All,
        (Some(_), Columns::All) => {}
        (Some(column), Columns::Only(columns)) => drop(columns.insert(column.clone())),
    }
}

/// Returns the rights that a row needs and does not have, for the operator to add.
pub(super) fn missing(
    rights: &[OvsdbRight],
    database: &str,
    row: &WantedRow,
    all: &[WantedRow],
    image: &Image,
) -> Vec<OvsdbRight> {
    // A row without a parent belongs to the rows that have one.
    let parent = row.parent.as_ref().or_else(|| all.iter().find_map(|it| it.parent.as_ref()));
    let bridge = match (row.table.as_str(), row.columns.get("name")) {
        ("Bridge", Some(sdk::services::ovsdb::Value::Set(names))) => {
            names.iter().find_map(|it| match it {
                // A longer one names no bridge of Linux, and the reason has the name.
                sdk::services::ovsdb::Atom::Text(name) if name.len() <= 255 => Some(name.clone()),
                _ => None,
            })
        }
        _ => parent.and_then(|parent| bridge_of(parent, image)),
    };
    let right = |table: &str, column: Option<&String>| OvsdbRight {
        database: Some(database.to_owned()),
        bridge: bridge.clone(),
        table: table.to_owned(),
        column: column.cloned(),
    };
    let own = std::iter::once(right(&row.table, None));
    let of_parent = row.parent.iter().map(|it| right(&it.table, Some(&it.column)));
    own.chain(of_parent).filter(|it| !rights.iter().any(|has| it.is_within(has))).collect()
}

/// Returns the name of the bridge to which a parent belongs, if there is one.
fn bridge_of(parent: &Parent, image: &Image) -> Option<String> {
    if parent.table == "Bridge" {
        return Some(parent.name.clone());
    }
    let is_it = |row: &ovsdb::Row| row.text("name") == Some(parent.name.as_str());
    let (port, _) = image.rows("Port").find(|(_, row)| is_it(row))?;
    let mut bridges = image.rows("Bridge").map(|(_, row)| row);
    let bridge = bridges.find(|row| row.references("ports").contains(&port))?;
    bridge.text("name").map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use ovsdb::{Row, Uuid, Value};

    use super::*;

    fn rights(texts: &[&str]) -> Vec<OvsdbRight> {
        texts.iter().map(|text| OvsdbRight::of_scope(text).unwrap()).collect()
    }

    #[test]
    fn rights_of_one_bridge_do_not_reach_another() {
        let rights = rights(&["edge:a:QoS", "edge:b:Mirror", "*:*:Queue.dscp", "other:*:Bridge"]);
        let scopes = scopes(&rights, "edge");
        let shown = |scope: &Scope| {
            let tables: Vec<_> = scope.tables.iter().flatten().map(|(it, _)| it.clone()).collect();
            let bridges: Vec<_> = scope.bridges.iter().flatten().cloned().collect();
            format!("{}: {}", bridges.join(" "), tables.join(" "))
        };
        let shown: Vec<String> = scopes.iter().map(shown).collect();
        assert_eq!(shown, [": Queue", "a: QoS Queue", "b: Mirror Queue"]);
    }

    #[test]
    fn missing_rights_name_the_bridge_of_the_port() {
        let port = Row::new().with("name", Value::one("p1"));
        let bridge = Row::new().with("name", Value::one("br0"));
        let bridge = bridge.with("ports", Value::one(Uuid([1; 16])));
        let image =
            Image::of_rows([("Port", Uuid([1; 16]), port), ("Bridge", Uuid([2; 16]), bridge)]);
        let row = WantedRow::new("QoS", "q").under("Port", "p1", "qos");
        let missing = missing(&rights(&["*:*:QoS"]), "edge", &row, &[], &image);
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        assert_eq!(missing, ["ovsdb.write:edge:br0:Port.qos"]);
    }
}
