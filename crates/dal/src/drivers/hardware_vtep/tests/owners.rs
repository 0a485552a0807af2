//! Rows that other managers wrote over or beside the rows of this controller are theirs.

use openflow::{Action, Field, FlowMod, FlowModFlags, Kind, Match, PortNo};
use ovsdb::{Image, Row, Uuid, Value};
use serde_json::{Value as Json, json};

use super::super::device::Device;
use super::super::numbering::{Binding, Numbers};
use super::super::rule::Key;
use super::super::transaction::{Builder, Edit};
use super::fake::{Bench, Seen, plain, reference, uuid};
use super::{TUNNEL, VLAN, add, encoded, flows, tunnel_id, unicast, with_flows};

/// The rows of [`with_flows`] and the logical switch 6000 of another manager.
fn with_other_network() -> Json {
    let mut rows = with_flows();
    rows["Logical_Switch"][uuid(30)] = json!({
        "name": "theirs", "description": "", "tunnel_key": 6000, "other_config": ["map", []] });
    rows
}

/// A row of remote addresses to 10.0.0.3, whose locator [`with_second_end`] adds.
fn elsewhere() -> Json {
    json!({ "MAC": "02:00:00:00:00:0b", "logical_switch": reference(3), "locator": reference(40),
        "ipaddr": "" })
}

fn with_second_end(mut rows: Json) -> Json {
    rows["Physical_Locator"][uuid(40)] = json!({
        "encapsulation_type": "vxlan_over_ipv4", "dst_ip": "10.0.0.3", "tunnel_key": ["set", []] });
    rows
}

/// Whether a transaction has this operation on this row.
fn has(operations: &Json, op: &str, table: &str, row: u32) -> bool {
    let is_it = |it: &Json| {
        it["op"] == op
            && it["table"] == table
            && it["where"] == json!([["_uuid", "==", reference(row)]])
    };
    operations.as_array().unwrap().iter().any(is_it)
}

#[test]
fn rebound_vlan_belongs_to_the_other_manager() {
    let (mut bench, _) = Bench::up(with_other_network());
    let config = json!(["map", [["rosemary-100", "0000000000000011 5 0x1 5000 rosemary-5000"]]]);
    let port = |network: u32| {
        json!({ "name": "eth3", "vlan_bindings": ["map", [[100, reference(network)]]],
            "other_config": config })
    };
    bench.change(&json!({"Physical_Port": { uuid(2): {"new": port(3), "old": {}} }}));
    let seen = bench.change(&json!({"Physical_Port": { uuid(2): {"new": port(30),
        "old": {"vlan_bindings": ["map", [[100, reference(3)]]]}} }}));
    assert!(matches!(seen[..], [Seen::Message(Kind::FlowRemoved, ..)]), "{seen:?}");
    assert_eq!(flows(&mut bench)[0], (0, 32_768, Match::new().in_port(VLAN), 2));
    bench.send(&encoded(&FlowMod::delete(Match::new().in_port(VLAN)), 1));
    assert_eq!(bench.transactions, [] as [Json; 0]);
    let bind = [Action::set_field(tunnel_id()), Action::output(PortNo::FLOOD)];
    let seen = bench.send(&add(Match::new().in_port(VLAN), &bind, 2));
    assert!(matches!(&seen[..], [Seen::Refused(2, why)] if why.contains("another manager")));
    bench.pass(50).unwrap();
    let cleaned = json!([["other_config", "delete", "rosemary-100"]]);
    assert_eq!(bench.transactions[0][0]["mutations"], cleaned);
}

#[test]
fn other_managers_row_of_an_address_is_not_taken_for_ours() {
    let mut rows = with_second_end(with_flows());
    rows["Ucast_Macs_Remote"][uuid(1)] = elsewhere();
    let mut twin = rows["Ucast_Macs_Remote"][uuid(6)].clone();
    for row in [elsewhere(), twin.take()] {
        rows["Ucast_Macs_Remote"][uuid(1)] = row;
        let (mut bench, _) = Bench::up(rows.clone());
        assert!(flows(&mut bench).iter().any(|flow| (flow.0, &flow.2) == (0x22, &unicast())));
        bench.send(&encoded(&FlowMod::delete(unicast()), 1));
        let [operations] = &bench.transactions[..] else { panic!("{:?}", bench.transactions) };
        assert!(has(operations, "delete", "Ucast_Macs_Remote", 6), "{operations}");
        assert!(!has(operations, "delete", "Ucast_Macs_Remote", 1), "{operations}");
    }
}

#[test]
fn replaced_row_of_an_address_belongs_to_the_other_manager() {
    let mut rows = with_second_end(with_flows());
    rows["Ucast_Macs_Remote"] = json!({ uuid(50): elsewhere() });
    for subject in [format!("10.0.0.2 {}", uuid(6)), "10.0.0.2".to_owned()] {
        let entry = format!("0000000000000022 6 0x1 {subject}");
        rows["Logical_Switch"][uuid(3)]["other_config"][1][1][1] = json!(entry);
        let (mut bench, _) = Bench::up(rows.clone());
        assert!(flows(&mut bench).iter().any(|flow| (flow.0, &flow.2) == (0, &unicast())));
        let seen = bench.send(&add(unicast(), &[Action::output(TUNNEL)], 1));
        assert!(matches!(&seen[..], [Seen::Refused(1, why)] if why.contains("another manager")));
        bench.send(&encoded(&FlowMod::delete(unicast()), 2));
        bench.pass(50).unwrap();
        let cleaned = json!([["other_config", "delete", "rosemary-02:00:00:00:00:0b"]]);
        assert_eq!(bench.transactions[0][0]["mutations"], cleaned);
        let is_kept = |it: &Json| !has(it, "delete", "Ucast_Macs_Remote", 50);
        assert!(bench.transactions.iter().all(is_kept));
    }
}

#[test]
fn changed_row_of_an_address_belongs_to_the_other_manager() {
    let (mut bench, _) = Bench::up(with_second_end(with_flows()));
    let seen = bench.change(&json!({"Ucast_Macs_Remote": { uuid(6): {
        "new": elsewhere(), "old": {"locator": reference(4)}} }}));
    assert!(matches!(seen[..], [Seen::Message(Kind::FlowRemoved, ..)]), "{seen:?}");
    bench.send(&encoded(&FlowMod::delete(unicast()), 1));
    assert_eq!(bench.transactions, [] as [Json; 0]);
}

#[test]
fn identifier_of_a_new_row_is_recorded() {
    let mut rows = with_flows();
    let entry = |subject: &str| format!("0000000000000022 6 0x1 {subject}");
    rows["Logical_Switch"][uuid(3)]["other_config"][1][1][1] = json!(entry("10.0.0.2"));
    let (mut bench, _) = Bench::up(rows);
    assert!(flows(&mut bench).iter().any(|flow| (flow.0, &flow.2) == (0x22, &unicast())));
    bench.pass(20).unwrap();
    let key = "rosemary-02:00:00:00:00:0b";
    let identified = format!("10.0.0.2 {}", uuid(6));
    assert_eq!(
        bench.transactions[0],
        json!([{"op": "mutate", "table": "Logical_Switch",
        "where": [["_uuid", "==", reference(3)]], "mutations": [
            ["other_config", "delete", key],
            ["other_config", "insert", ["map", [[key, entry(&identified)]]]],
        ]}])
    );
}

#[test]
fn changed_row_keeps_its_identifier() {
    let (mut bench, _) = Bench::up(with_flows());
    let flow = FlowMod::add(unicast()).priority(6).cookie(0x44).flags(FlowModFlags::SEND_FLOW_REM);
    let to = [Action::output(PortNo(0x0a00_0003))];
    bench.send(&encoded(&flow.apply(&to), 1));
    let written = bench.transactions[0].as_array().unwrap().last().unwrap().clone();
    let text = &written["mutations"][1][2][1][0][1];
    assert_eq!(*text, format!("0000000000000044 6 0x1 10.0.0.3 {}", uuid(6)));
}

#[test]
fn bindings_are_guarded_once_for_each_port() {
    let (mut bench, _) = Bench::up(with_flows());
    let bind = [Action::set_field(tunnel_id()), Action::output(PortNo::FLOOD)];
    let messages = [1, 2].map(|vlan| add(Match::new().in_port(PortNo(VLAN.0 + vlan)), &bind, vlan));
    bench.send(&messages.concat());
    bench.send(&encoded(&FlowMod::delete(Match::new().in_port(VLAN)), 3));
    let guard = json!({"op": "wait", "table": "Physical_Port", "timeout": 0,
        "where": [["_uuid", "==", reference(2)]], "columns": ["vlan_bindings"], "until": "==",
        "rows": [{"vlan_bindings": ["map", [[100, reference(3)]]]}]});
    assert_eq!(bench.transactions.len(), 2);
    for operations in &bench.transactions {
        let waits = operations.as_array().unwrap().iter().filter(|it| it["op"] == "wait");
        assert_eq!((&operations[0], waits.count()), (&guard, 1));
    }
}

#[test]
fn free_vlan_is_guarded_too() {
    let (mut bench, _) = Bench::up(plain());
    let field = Field::TunnelId(5000.into());
    let bind = [Action::set_field(field), Action::output(PortNo::FLOOD)];
    bench.send(&add(Match::new().in_port(VLAN), &bind, 1));
    assert_eq!(bench.transactions[0][0]["rows"], json!([{"vlan_bindings": ["map", []]}]));
}

#[test]
fn deletion_of_a_row_that_was_taken_is_no_operation() {
    let id = |number: u32| uuid(number).parse::<Uuid>().unwrap();
    let text = |text: &str| Value::one(text.to_owned());
    let switch = Row::new().with("name", text("leaf1")).with("ports", Value::one(id(2)));
    let network = Row::new().with("name", text("theirs")).with("tunnel_key", Value::one(6000_i64));
    let device = |owner: &str| {
        let port = Row::new()
            .with("name", text("eth3"))
            .with("vlan_bindings", Value::map([(100_i64, id(3))]))
            .with("other_config", Value::map([("rosemary-100".to_owned(), owner.to_owned())]));
        let rows = [
            ("Physical_Switch", id(1), switch.clone()),
            ("Physical_Port", id(2), port),
            ("Logical_Switch", id(3), network.clone()),
        ];
        Device::read(&Image::of_rows(rows), &mut Numbers::default()).unwrap()
    };
    for (subject, is_empty) in [("6000 theirs", false), ("5000 rosemary-5000", true)] {
        let device = device(&format!("0000000000000011 5 0x0 {subject}"));
        let mut builder = Builder::new(&device);
        builder.add(&Edit::Remove(Key::Binding(Binding { port: 3, vlan: 100 })));
        assert_eq!(builder.finish().is_empty(), is_empty, "{subject}");
    }
}
