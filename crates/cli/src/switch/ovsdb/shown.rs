//! Formats the database of a switch as tables.

use std::collections::BTreeMap;

use super::records::{Bridge, Database, Interface, Mirror, Port};
use crate::table::{Formatted, Table};

/// Returns the tables, each with a blank line before it, and notes about columns that were left out. Tables without rows are
/// left out.
pub(super) fn tables(database: &Database, width: Option<usize>) -> (String, Vec<String>) {
    let version = database.version.as_deref().unwrap_or("of an unknown version");
    let mut text =
        format!("Open vSwitch {version}, schema {}, at {}\n", database.schema, database.address);
    let mut notes = Vec::new();
    let mut add = |what: &str, is_empty: bool, table: Formatted| {
        if !is_empty {
            text.push('\n');
            text.push_str(&table.text);
            notes.extend(table.note().map(|note| format!("{what}: {note}")));
        }
    };
    add("bridges", database.bridges.is_empty(), bridges(&database.bridges).format(width));
    add("ports", database.ports.is_empty(), ports(&database.ports).format(width));
    add(
        "interfaces",
        database.interfaces.is_empty(),
        interfaces(&database.interfaces).format(width),
    );
    add("QoS", database.qos.is_empty(), qos(database).format(width));
    add("queues", database.queues.is_empty(), queues(database).format(width));
    add("mirrors", database.mirrors.is_empty(), mirrors(&database.mirrors).format(width));
    let has_exports = !database.netflow.is_empty() || !database.sflow.is_empty();
    add("exports", !has_exports, exports(database).format(width));
    (text, notes)
}

fn bridges(bridges: &[Bridge]) -> Table<8> {
    let head =
        ["BRIDGE", "DATAPATH ID", "TYPE", "CONTROLLER", "STATE", "FAIL MODE", "STP", "PORTS"];
    let mut table = Table::new(head).expendable(&["TYPE", "PORTS", "STP", "FAIL MODE"]);
    for bridge in bridges {
        let spanning_tree = match (bridge.stp, bridge.rstp) {
            (_, true) => "rstp",
            (true, false) => "stp",
            (false, false) => "-",
        };
        let targets: Vec<&str> = bridge.controllers.iter().map(|it| it.target.as_str()).collect();
        let state = |connected| if connected { "connected" } else { "not connected" };
        let states: Vec<&str> = bridge.controllers.iter().map(|it| state(it.connected)).collect();
        table.row([
            &bridge.name,
            or_dash(bridge.datapath_id.as_deref()),
            or_dash(Some(&bridge.datapath_type)),
            or_dash(Some(&targets.join(" "))),
            or_dash(Some(&states.join(", "))),
            or_dash(bridge.fail_mode.as_deref()),
            spanning_tree,
            &bridge.ports.to_string(),
        ]);
    }
    table
}

fn ports(ports: &[Port]) -> Table<8> {
    let head = ["PORT", "BRIDGE", "INTERFACES", "VLAN", "BOND", "LACP", "STP", "QOS"];
    let mut table = Table::new(head).expendable(&["BOND", "QOS", "LACP", "INTERFACES"]);
    for port in ports {
        let trunks: Vec<String> = port.trunks.iter().map(ToString::to_string).collect();
        let tag = port.tag.map(|tag| tag.to_string());
        let vlan = tag.unwrap_or_else(|| trunks.join(","));
        let state = port.rstp_state.as_deref().or(port.stp_state.as_deref());
        table.row([
            &port.name,
            &port.bridge,
            &port.interfaces.join(" "),
            or_dash(Some(&vlan)),
            or_dash(port.bond_mode.as_deref()),
            or_dash(port.lacp.as_deref()),
            or_dash(state),
            or_dash(port.qos.as_deref().map(short)),
        ]);
    }
    table
}

fn interfaces(interfaces: &[Interface]) -> Table<12> {
    let head = [
        "INTERFACE",
        "OFPORT",
        "TYPE",
        "LINK",
        "SPEED",
        "DUPLEX",
        "MTU",
        "RX",
        "TX",
        "ERRORS",
        "DROPPED",
        "LACP",
    ];
    let mut table =
        Table::new(head).expendable(&["DUPLEX", "MTU", "LACP", "TYPE", "DROPPED", "SPEED"]);
    for interface in interfaces {
        let of = |key: &str| interface.statistics.get(key).copied();
        let sum = |a, b| of(a).zip(of(b)).map(|(a, b)| a.saturating_add(b));
        let lacp = interface.lacp_current.map(|it| if it { "current" } else { "not current" });
        let state =
            interface.error.as_ref().map_or(interface.link_state.as_deref(), |_| Some("error"));
        table.row([
            &interface.name,
            &number(interface.ofport),
            or_dash(Some(&interface.kind)),
            or_dash(state),
            &number(interface.link_speed.map(|bits| bits / 1_000_000)),
            or_dash(interface.duplex.as_deref()),
            &number(interface.mtu),
            &number(of("rx_packets")),
            &number(of("tx_packets")),
            &number(sum("rx_errors", "tx_errors")),
            &number(sum("rx_dropped", "tx_dropped")),
            or_dash(lacp),
        ]);
    }
    table
}

fn qos(database: &Database) -> Table<5> {
    let mut table = Table::new(["QOS", "TYPE", "PORTS", "OWNER", "SETTINGS"]).prose("SETTINGS");
    for qos in &database.qos {
        let (ports, settings) = (qos.ports.join(" "), settings(&qos.config));
        let owner = or_dash(qos.owner.as_deref());
        let (kind, ports) = (or_dash(Some(&qos.kind)), or_dash(Some(&ports)));
        table.row([short(&qos.id), kind, ports, owner, &settings]);
    }
    table
}

fn queues(database: &Database) -> Table<6> {
    let head = ["QUEUE", "QOS", "NUMBER", "DSCP", "OWNER", "SETTINGS"];
    let mut table = Table::new(head).prose("SETTINGS");
    for queue in &database.queues {
        let qos = or_dash(queue.qos.as_deref().map(short));
        let (number, dscp) = (number(queue.number), number(queue.dscp));
        let owner = or_dash(queue.owner.as_deref());
        table.row([short(&queue.id), qos, &number, &dscp, owner, &settings(&queue.config)]);
    }
    table
}

fn mirrors(mirrors: &[Mirror]) -> Table<6> {
    let head = ["MIRROR", "BRIDGE", "SELECTS", "OUTPUT", "PACKETS", "OWNER"];
    let mut table = Table::new(head).prose("SELECTS");
    for mirror in mirrors {
        let mut selects = Vec::new();
        if mirror.select_all {
            selects.push("all".to_owned());
        }
        selects.extend(mirror.select_src_ports.iter().map(|port| format!("from {port}")));
        selects.extend(mirror.select_dst_ports.iter().map(|port| format!("to {port}")));
        selects.extend(mirror.select_vlans.iter().map(|vlan| format!("VLAN {vlan}")));
        let vlan = mirror.output_vlan.map(|vlan| format!("VLAN {vlan}"));
        let output = mirror.output_port.clone().or(vlan);
        table.row([
            &mirror.name,
            &mirror.bridge,
            or_dash(Some(&selects.join(", "))),
            or_dash(output.as_deref()),
            &number(mirror.tx_packets),
            or_dash(mirror.owner.as_deref()),
        ]);
    }
    table
}

fn exports(database: &Database) -> Table<5> {
    let head = ["EXPORT", "BRIDGE", "TARGETS", "OWNER", "SETTINGS"];
    let mut table = Table::new(head).prose("SETTINGS");
    for it in &database.netflow {
        let settings = format!("active-timeout={}", number(it.active_timeout));
        let owner = or_dash(it.owner.as_deref());
        table.row(["netflow", &it.bridge, &it.targets.join(" "), owner, &settings]);
    }
    for it in &database.sflow {
        let (sampling, polling) = (number(it.sampling), number(it.polling));
        let agent = or_dash(it.agent.as_deref());
        let settings = format!("sampling={sampling} polling={polling} agent={agent}");
        let owner = or_dash(it.owner.as_deref());
        table.row(["sflow", &it.bridge, &it.targets.join(" "), owner, &settings]);
    }
    table
}

fn settings(config: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = config.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "-".to_owned() } else { pairs.join(" ") }
}

/// The beginning of an identifier, which tells rows apart in a table.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("-")
}

fn number(number: Option<i64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}
