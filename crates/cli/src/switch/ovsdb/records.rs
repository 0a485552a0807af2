//! The contents of a switch's database, with names in place of identifiers.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb::{Atom, Image, Row, Uuid, ownership};
use serde::Serialize;

/// The tables of a switch; its JSON is a stable interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Database {
    pub(super) address: String,
    /// The version of Open vSwitch.
    pub(super) version: Option<String>,
    /// The version of the schema.
    pub(super) schema: String,
    pub(super) bridges: Vec<Bridge>,
    pub(super) ports: Vec<Port>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) qos: Vec<Qos>,
    pub(super) queues: Vec<Queue>,
    pub(super) mirrors: Vec<Mirror>,
    pub(super) netflow: Vec<NetFlow>,
    pub(super) sflow: Vec<Sflow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Bridge {
    pub(super) name: String,
    pub(super) datapath_id: Option<String>,
    pub(super) datapath_type: String,
    pub(super) fail_mode: Option<String>,
    pub(super) protocols: Vec<String>,
    pub(super) controllers: Vec<Controller>,
    pub(super) stp: bool,
    pub(super) rstp: bool,
    pub(super) ports: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Controller {
    pub(super) target: String,
    pub(super) connected: bool,
    pub(super) role: Option<String>,
    /// The last error of the connection.
    pub(super) last_error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Port {
    pub(super) bridge: String,
    pub(super) name: String,
    pub(super) interfaces: Vec<String>,
    pub(super) tag: Option<i64>,
    pub(super) trunks: Vec<i64>,
    pub(super) vlan_mode: Option<String>,
    pub(super) bond_mode: Option<String>,
    pub(super) lacp: Option<String>,
    pub(super) stp_state: Option<String>,
    pub(super) stp_role: Option<String>,
    pub(super) rstp_state: Option<String>,
    pub(super) rstp_role: Option<String>,
    /// The identifier of its `QoS`.
    pub(super) qos: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Interface {
    pub(super) bridge: String,
    pub(super) port: String,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// The number in OpenFlow; -1 if the interface could not be added.
    pub(super) ofport: Option<i64>,
    pub(super) admin_state: Option<String>,
    pub(super) link_state: Option<String>,
    /// In bit/s.
    pub(super) link_speed: Option<i64>,
    pub(super) duplex: Option<String>,
    pub(super) mtu: Option<i64>,
    pub(super) hw_addr: Option<String>,
    /// Why the switch could not configure it.
    pub(super) error: Option<String>,
    pub(super) lacp_current: Option<bool>,
    /// Counters by their names in Open vSwitch, such as `rx_errors`.
    pub(super) statistics: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Qos {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) ports: Vec<String>,
    /// Settings such as `max-rate`, in bit/s.
    pub(super) config: BTreeMap<String, String>,
    /// The owner that `external_ids:rosemary-owner` names.
    pub(super) owner: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Queue {
    pub(super) id: String,
    /// The `QoS` that has it; `None` if none does.
    pub(super) qos: Option<String>,
    /// Its number in OpenFlow.
    pub(super) number: Option<i64>,
    pub(super) dscp: Option<i64>,
    /// Settings such as `min-rate` and `max-rate`, in bit/s.
    pub(super) config: BTreeMap<String, String>,
    /// The owner that `external_ids:rosemary-owner` names.
    pub(super) owner: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Mirror {
    pub(super) bridge: String,
    pub(super) name: String,
    pub(super) select_all: bool,
    pub(super) select_src_ports: Vec<String>,
    pub(super) select_dst_ports: Vec<String>,
    pub(super) select_vlans: Vec<i64>,
    pub(super) output_port: Option<String>,
    pub(super) output_vlan: Option<i64>,
    pub(super) tx_packets: Option<i64>,
    pub(super) tx_bytes: Option<i64>,
    /// The owner that `external_ids:rosemary-owner` names.
    pub(super) owner: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct NetFlow {
    pub(super) bridge: String,
    pub(super) targets: Vec<String>,
    /// In seconds; 0 stands for the default of Open vSwitch, -1 for never.
    pub(super) active_timeout: Option<i64>,
    /// The owner that `external_ids:rosemary-owner` names.
    pub(super) owner: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Sflow {
    pub(super) bridge: String,
    pub(super) targets: Vec<String>,
    /// One of this many packets is sampled.
    pub(super) sampling: Option<i64>,
    /// The interval of counters, in seconds.
    pub(super) polling: Option<i64>,
    /// The bytes of a packet that are sent.
    pub(super) header: Option<i64>,
    pub(super) agent: Option<String>,
    /// The owner that `external_ids:rosemary-owner` names.
    pub(super) owner: Option<String>,
}

impl Database {
    /// Reads the tables of an image. Rows that no bridge has are left out, except for `QoS` and queues.
    pub(super) fn of(image: &Image, address: String, schema: String) -> Self {
        let mut bridges: Vec<&Row> = image.rows("Bridge").map(|(_, row)| row).collect();
        bridges.sort_by_key(|row| text(row, "name"));
        let ports: Vec<(&Row, &Row)> = bridges
            .iter()
            .flat_map(|bridge| rows(image, "Port", bridge, "ports").map(|port| (*bridge, port)))
            .collect();
        let owned = |table, column| {
            let rows = move |bridge| rows(image, table, bridge, column);
            bridges
                .iter()
                .flat_map(move |bridge| rows(bridge).map(|row| (text(bridge, "name"), row)))
        };
        Self {
            address,
            version: image.rows("Open_vSwitch").find_map(|(_, row)| optional(row, "ovs_version")),
            schema,
            mirrors: owned("Mirror", "mirrors")
                .map(|(name, row)| Mirror::of(image, name, row))
                .collect(),
            netflow: owned("NetFlow", "netflow")
                .map(|(name, row)| NetFlow::of(name, row))
                .collect(),
            sflow: owned("sFlow", "sflow").map(|(name, row)| Sflow::of(name, row)).collect(),
            bridges: bridges.iter().map(|row| Bridge::of(image, row)).collect(),
            ports: ports.iter().map(|(bridge, port)| Port::of(image, bridge, port)).collect(),
            interfaces: ports
                .iter()
                .flat_map(|(bridge, port)| interfaces(image, bridge, port))
                .collect(),
            qos: image.rows("QoS").map(|(id, row)| Qos::of(id, row, &ports)).collect(),
            queues: image.rows("Queue").map(|(id, row)| Queue::of(image, id, row)).collect(),
        }
    }
}

impl Bridge {
    fn of(image: &Image, row: &Row) -> Self {
        let flag = |column| row.boolean(column).unwrap_or_default();
        Self {
            name: text(row, "name"),
            datapath_id: optional(row, "datapath_id"),
            datapath_type: text(row, "datapath_type"),
            fail_mode: optional(row, "fail_mode"),
            protocols: row.texts("protocols").into_iter().map(Into::into).collect(),
            controllers: rows(image, "Controller", row, "controller").map(Controller::of).collect(),
            stp: flag("stp_enable"),
            rstp: flag("rstp_enable"),
            ports: row.references("ports").len(),
        }
    }
}

impl Controller {
    fn of(row: &Row) -> Self {
        Self {
            target: text(row, "target"),
            connected: row.boolean("is_connected").unwrap_or_default(),
            role: optional(row, "role"),
            last_error: row.entry("status", "last_error").map(Into::into),
        }
    }
}

impl Port {
    fn of(image: &Image, bridge: &Row, row: &Row) -> Self {
        let interfaces = rows(image, "Interface", row, "interfaces");
        let status = |column, key| row.entry(column, key).map(Into::into);
        Self {
            bridge: text(bridge, "name"),
            name: text(row, "name"),
            interfaces: interfaces.map(|it| text(it, "name")).collect(),
            tag: row.integer("tag"),
            trunks: row.integers("trunks").into_iter().collect(),
            vlan_mode: optional(row, "vlan_mode"),
            bond_mode: optional(row, "bond_mode"),
            lacp: optional(row, "lacp"),
            stp_state: status("status", "stp_state"),
            stp_role: status("status", "stp_role"),
            rstp_state: status("rstp_status", "rstp_port_state"),
            rstp_role: status("rstp_status", "rstp_port_role"),
            qos: row.references("qos").first().map(Uuid::to_string),
        }
    }
}

fn interfaces(image: &Image, bridge: &Row, port: &Row) -> Vec<Interface> {
    let of = |row: &Row| Interface {
        bridge: text(bridge, "name"),
        port: text(port, "name"),
        name: text(row, "name"),
        kind: text(row, "type"),
        ofport: row.integer("ofport"),
        admin_state: optional(row, "admin_state"),
        link_state: optional(row, "link_state"),
        link_speed: row.integer("link_speed"),
        duplex: optional(row, "duplex"),
        mtu: row.integer("mtu"),
        hw_addr: optional(row, "mac_in_use"),
        error: optional(row, "error"),
        lacp_current: row.boolean("lacp_current"),
        statistics: numbers(row, "statistics"),
    };
    rows(image, "Interface", port, "interfaces").map(of).collect()
}

impl Qos {
    fn of(id: Uuid, row: &Row, ports: &[(&Row, &Row)]) -> Self {
        let its = ports.iter().filter(|(_, port)| port.references("qos").contains(&id));
        let ports = its.map(|(_, port)| text(port, "name")).collect();
        let (kind, config) = (text(row, "type"), texts(row, "other_config"));
        Self { id: id.to_string(), kind, ports, config, owner: owner(row) }
    }
}

impl Queue {
    fn of(image: &Image, id: Uuid, row: &Row) -> Self {
        let place = image.rows("QoS").find_map(|(qos, row)| {
            let number = row.pairs("queues").find(|(_, queue)| **queue == Atom::Uuid(id))?.0;
            Some((qos, number))
        });
        let number = place.and_then(|(_, number)| match number {
            Atom::Integer(number) => Some(*number),
            _ => None,
        });
        Self {
            id: id.to_string(),
            qos: place.map(|(qos, _)| qos.to_string()),
            number,
            dscp: row.integer("dscp"),
            config: texts(row, "other_config"),
            owner: owner(row),
        }
    }
}

impl Mirror {
    fn of(image: &Image, bridge: String, row: &Row) -> Self {
        let ports = |column| rows(image, "Port", row, column).map(|it| text(it, "name"));
        let statistics = numbers(row, "statistics");
        Self {
            bridge,
            name: text(row, "name"),
            select_all: row.boolean("select_all").unwrap_or_default(),
            select_src_ports: ports("select_src_port").collect(),
            select_dst_ports: ports("select_dst_port").collect(),
            select_vlans: row.integers("select_vlan").into_iter().collect(),
            output_port: ports("output_port").next(),
            output_vlan: row.integer("output_vlan"),
            tx_packets: statistics.get("tx_packets").copied(),
            tx_bytes: statistics.get("tx_bytes").copied(),
            owner: owner(row),
        }
    }
}

impl NetFlow {
    fn of(bridge: String, row: &Row) -> Self {
        let targets = row.texts("targets").into_iter().map(Into::into).collect();
        let active_timeout = row.integer("active_timeout");
        Self { bridge, targets, active_timeout, owner: owner(row) }
    }
}

impl Sflow {
    fn of(bridge: String, row: &Row) -> Self {
        Self {
            bridge,
            targets: row.texts("targets").into_iter().map(Into::into).collect(),
            sampling: row.integer("sampling"),
            polling: row.integer("polling"),
            header: row.integer("header"),
            agent: optional(row, "agent"),
            owner: owner(row),
        }
    }
}

/// Returns the rows to which a column refers, by their names.
fn rows<'a>(
    image: &'a Image,
    table: &'static str,
    row: &Row,
    column: &str,
) -> impl Iterator<Item = &'a Row> + use<'a> {
    let references: BTreeSet<Uuid> = row.references(column);
    let mut rows: Vec<&Row> =
        references.into_iter().filter_map(|uuid| image.row(table, uuid)).collect();
    rows.sort_by_key(|row| text(row, "name"));
    rows.into_iter()
}

/// Returns the owner of a row; `None` if it names none.
fn owner(row: &Row) -> Option<String> {
    row.entry(ownership::IDS, ownership::OWNER).map(Into::into)
}

fn text(row: &Row, column: &str) -> String {
    optional(row, column).unwrap_or_default()
}

fn optional(row: &Row, column: &str) -> Option<String> {
    row.text(column).map(Into::into)
}

fn texts(row: &Row, column: &str) -> BTreeMap<String, String> {
    row.pairs(column).map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn numbers(row: &Row, column: &str) -> BTreeMap<String, i64> {
    let number = |(key, value): (&Atom, &Atom)| match value {
        Atom::Integer(number) => Some((key.to_string(), *number)),
        _ => None,
    };
    row.pairs(column).filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use ovsdb::Value;

    use super::*;

    fn queue(ids: Value) -> Row {
        Row::new().with(ownership::IDS, ids)
    }

    #[test]
    fn owner_is_read_from_external_ids() {
        let owned = Value::map([(ownership::OWNER, "limiter"), (ownership::KEY, "slow")]);
        let rows = [("Queue", Uuid([1; 16]), queue(owned)), ("Queue", Uuid([2; 16]), Row::new())];
        let other = ("Queue", Uuid([3; 16]), queue(Value::map([("owner", "limiter")])));
        let image = Image::of_rows(rows.into_iter().chain([other]));
        let database = Database::of(&image, "unix:db".into(), "8".into());
        let owners: Vec<_> = database.queues.iter().map(|it| it.owner.as_deref()).collect();
        assert_eq!(owners, [Some("limiter"), None, None]);
    }
}
