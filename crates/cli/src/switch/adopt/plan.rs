//! Decides how a bridge's database changes: a pure function of the database and the operator's wishes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use openflow::Dpid;
use ovsdb::ownership::{IDS, OWNER};
use ovsdb::{Atom, Image, Mutation, Mutator, Operation, Row, Uuid, Value};
use serde::Serialize;
use thiserror::Error;

/// The owner of a bridge's controller row in `external_ids`.
const ADOPTION: &str = "operator";

/// The names of inserted rows in the transaction.
const CONTROLLER: &str = "controller";
const KEYS: &str = "keys";

/// The settings that a bridge is to have.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    /// The bridge; `None` for the only one.
    pub(super) bridge: Option<String>,
    /// The controller, such as `ssl:192.0.2.1:6653`.
    pub(super) target: String,
    /// The OpenFlow versions, as Open vSwitch names them.
    pub(super) protocols: Vec<String>,
    /// The column `fail_mode`.
    pub(super) fail_mode: &'static str,
    /// The description of the datapath, which OpenFlow reports.
    pub(super) name: Option<String>,
    pub(super) datapath_id: Option<Dpid>,
    pub(super) keys: Option<SwitchKeys>,
    /// Whether other controllers and other keys are replaced.
    pub(super) replace: bool,
}

/// Paths of the keys on the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SwitchKeys {
    pub(super) key: PathBuf,
    pub(super) cert: PathBuf,
    pub(super) ca_cert: PathBuf,
}

/// The changes of a bridge, for people and for the database.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) bridge: String,
    pub(super) uuid: Uuid,
    /// The datapath id after the change; `None` while the bridge has none.
    pub(super) datapath_id: Option<Dpid>,
    /// The changes, for people; empty if the bridge is as wished.
    pub(super) changes: Vec<Change>,
    /// The transaction; its last operation reads `next_cfg`.
    pub(super) operations: Vec<Operation>,
}

/// The change of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Change {
    /// The table of the database.
    pub(super) table: &'static str,
    pub(super) setting: String,
    /// The values, with spaces between them; `None` if there is none.
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

/// The bridge cannot be adopted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    /// The database has no row of the switch itself.
    #[error("the database has no switch; start ovs-vswitchd there, or type: ovs-vsctl init")]
    NoSwitch,
    /// The switch has no bridge.
    #[error("the switch has no bridge; add one: ovs-vsctl add-br NAME")]
    NoBridge,
    /// The switch has other bridges.
    #[error("the switch has no bridge {name}; its bridges are {found}")]
    UnknownBridge {
        /// The name.
        name: String,
        /// The bridges.
        found: String,
    },
    /// The switch has several bridges.
    #[error("the switch has the bridges {0}; name one with --bridge")]
    SeveralBridges(String),
    /// The bridge has other controllers.
    #[error(
        "the bridge {bridge} belongs to {targets}; --replace removes that controller from the bridge"
    )]
    OtherControllers {
        /// The bridge.
        bridge: String,
        /// The controllers.
        targets: String,
    },
    /// The switch has other keys.
    #[error("the switch uses the key {key} for all of its bridges; --replace replaces it")]
    OtherKeys {
        /// The path of its private key.
        key: String,
    },
    /// The switch has no keys.
    #[error(
        "the switch has no keys for TLS, and the database cannot transport files; copy those of `rosemary pki switch {0}` to the switch, and \
         name their paths there with --switch-key, --switch-cert and --switch-ca-cert"
    )]
    NoKeys(String),
}

/// The rows of a plan.
struct Planning<'a> {
    image: &'a Image,
    /// The row of the switch.
    switch: (Uuid, &'a Row),
    bridge: (Uuid, &'a Row),
    changes: Vec<Change>,
    inserts: Vec<Operation>,
    /// The new values of the bridge.
    after: Row,
    /// The new values of the switch.
    switch_after: Row,
}

/// Plans the changes.
///
/// # Errors
/// [`Refusal`].
pub(super) fn plan(image: &Image, wish: &Wish) -> Result<Plan, Refusal> {
    let switch = image.rows("Open_vSwitch").next().ok_or(Refusal::NoSwitch)?;
    let bridge = chosen(image, wish.bridge.as_deref())?;
    let mut planning = Planning {
        image,
        switch,
        bridge,
        changes: Vec::new(),
        inserts: Vec::new(),
        after: Row::new(),
        switch_after: Row::new(),
    };
    planning.keys(wish)?;
    planning.controller(wish)?;
    planning.set("protocols", Value::set(wish.protocols.iter().map(String::as_str)));
    planning.set("fail_mode", Value::one(wish.fail_mode));
    planning.other_config(wish);
    Ok(planning.finish(wish))
}

/// Returns the bridge with this name, or the only one.
fn chosen<'a>(image: &'a Image, name: Option<&str>) -> Result<(Uuid, &'a Row), Refusal> {
    let bridges: BTreeMap<&str, (Uuid, &Row)> = image
        .rows("Bridge")
        .map(|(id, row)| (row.text("name").unwrap_or_default(), (id, row)))
        .collect();
    let found = || bridges.keys().copied().collect::<Vec<_>>().join(", ");
    match (name, bridges.len()) {
        (_, 0) => Err(Refusal::NoBridge),
        (Some(name), _) => bridges
            .get(name)
            .copied()
            .ok_or_else(|| Refusal::UnknownBridge { name: name.to_owned(), found: found() }),
        (None, 1) => bridges.into_values().next().ok_or(Refusal::NoBridge),
        (None, _) => Err(Refusal::SeveralBridges(found())),
    }
}

impl Planning<'_> {
    fn name(&self) -> &str {
        self.bridge.1.text("name").unwrap_or_default()
    }

    /// Sets a column of the bridge.
    fn set(&mut self, column: &str, value: Value) {
        let before = self.bridge.1.get(column);
        if before != Some(&value) {
            self.changed("Bridge", column, before.map(shown), Some(shown(&value)));
            self.after.set(column, value);
        }
    }

    fn changed(
        &mut self,
        table: &'static str,
        setting: &str,
        before: Option<String>,
        after: Option<String>,
    ) {
        let some = |text: Option<String>| text.filter(|it| !it.is_empty());
        let (before, after) = (some(before), some(after));
        self.changes.push(Change { table, setting: setting.to_owned(), before, after });
    }

    /// Makes the controller the only one of the bridge.
    fn controller(&mut self, wish: &Wish) -> Result<(), Refusal> {
        let rows = self.bridge.1.references("controller");
        let rows: Vec<&Row> =
            rows.into_iter().filter_map(|uuid| self.image.row("Controller", uuid)).collect();
        let mut targets: Vec<&str> =
            rows.iter().map(|row| row.text("target").unwrap_or_default()).collect();
        targets.sort_unstable();
        if targets == [wish.target.as_str()] {
            return Ok(());
        }
        let others: Vec<&str> = targets.iter().copied().filter(|it| *it != wish.target).collect();
        if !others.is_empty() && !wish.replace {
            let (bridge, targets) = (self.name().to_owned(), others.join(", "));
            return Err(Refusal::OtherControllers { bridge, targets });
        }
        let row = Row::new().with("target", Value::one(wish.target.as_str()));
        let row = row.with(IDS, Value::map([(OWNER, ADOPTION)]));
        self.insert("Controller", CONTROLLER, row);
        self.after.set("controller", Value::Set([Atom::NamedUuid(CONTROLLER.into())].into()));
        self.changed("Bridge", "controller", Some(targets.join(" ")), Some(wish.target.clone()));
        Ok(())
    }

    /// Sets the keys of the switch, which all bridges share.
    fn keys(&mut self, wish: &Wish) -> Result<(), Refusal> {
        let existing = self.switch.1.references("ssl").into_iter().next();
        let existing = existing.and_then(|uuid| self.image.row("SSL", uuid));
        let Some(keys) = &wish.keys else {
            let needs_keys = wish.target.starts_with("ssl:") && existing.is_none();
            return if needs_keys { Err(Refusal::NoKeys(self.name().to_owned())) } else { Ok(()) };
        };
        let path = |path: &PathBuf| path.display().to_string();
        let settings = [
            ("private_key", path(&keys.key)),
            ("certificate", path(&keys.cert)),
            ("ca_cert", path(&keys.ca_cert)),
        ];
        let before = |column| existing.and_then(|row| row.text(column));
        if settings.iter().all(|(column, path)| before(column) == Some(path)) {
            return Ok(());
        }
        if let Some(key) = before("private_key").filter(|_| !wish.replace) {
            return Err(Refusal::OtherKeys { key: key.to_owned() });
        }
        let mut row = Row::new();
        for (column, path) in settings {
            row.set(column, Value::one(path.as_str()));
            self.changed("SSL", column, before(column).map(Into::into), Some(path));
        }
        self.insert("SSL", KEYS, row);
        self.switch_after.set("ssl", Value::Set([Atom::NamedUuid(KEYS.into())].into()));
        Ok(())
    }

    /// Sets the name and the datapath id, and keeps the other settings of the column.
    fn other_config(&mut self, wish: &Wish) {
        let before: BTreeMap<Atom, Atom> =
            self.bridge.1.pairs("other_config").map(|(k, v)| (k.clone(), v.clone())).collect();
        let mut after = before.clone();
        let id = wish.datapath_id.map(|dpid| format!("{:016x}", dpid.0));
        for (key, value) in [("dp-desc", wish.name.clone()), ("datapath-id", id)] {
            let Some(value) = value else { continue };
            let old = after.insert(key.into(), value.as_str().into()).map(|it| it.to_string());
            if old.as_deref() != Some(value.as_str()) {
                self.changed("Bridge", &format!("other_config:{key}"), old, Some(value));
            }
        }
        if after != before {
            self.after.set("other_config", Value::Map(after));
        }
    }

    fn insert(&mut self, table: &str, name: &str, row: Row) {
        let (table, name) = (table.to_owned(), Some(name.to_owned()));
        self.inserts.push(Operation::Insert { table, row, name });
    }

    /// Puts guards before the changes, and lets the switch report when it has carried them out.
    fn finish(self, wish: &Wish) -> Plan {
        let own = self.bridge.1.text("datapath_id").and_then(|it| it.parse().ok());
        let mut plan = Plan {
            bridge: self.name().to_owned(),
            uuid: self.bridge.0,
            datapath_id: wish.datapath_id.or(own),
            changes: self.changes,
            operations: Vec::new(),
        };
        if plan.changes.is_empty() {
            return plan;
        }
        let comment = format!("rosemary switch adopt: bridge {}", plan.bridge);
        plan.operations.push(Operation::Comment(comment));
        let guarded = ["name", "controller", "protocols", "fail_mode", "other_config"];
        plan.operations.push(guard("Bridge", self.bridge, &guarded));
        plan.operations.push(guard("Open_vSwitch", self.switch, &["ssl", "bridges"]));
        plan.operations.extend(self.inserts);
        for (table, uuid, row) in [
            ("Bridge", self.bridge.0, self.after),
            ("Open_vSwitch", self.switch.0, self.switch_after),
        ] {
            if !row.is_empty() {
                plan.operations.push(Operation::update(table, uuid, row));
            }
        }
        let count = Mutation::new("next_cfg", Mutator::Add, Value::one(1));
        plan.operations.push(Operation::mutate("Open_vSwitch", self.switch.0, count));
        let (table, columns) = ("Open_vSwitch".to_owned(), vec!["next_cfg".to_owned()]);
        plan.operations.push(Operation::Select { table, conditions: Vec::new(), columns });
        plan
    }
}

/// Fails the transaction if these columns of a row have changed since they were read.
fn guard(table: &str, (uuid, row): (Uuid, &Row), columns: &[&str]) -> Operation {
    let mut before = Row::new();
    for column in columns {
        if let Some(value) = row.get(column) {
            before.set(column, value.clone());
        }
    }
    Operation::unless_changed(table, uuid, &before)
}

fn shown(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests;
