//! Ports keep their numbers, since operators' flows name them.

use openflow::{Action, Kind, Match, PortNo};
use serde_json::{Value as Json, json};

use super::super::HardwareVtep;
use super::fake::{Bench, Seen, plain, reference, uuid};
use super::{add, tunnel_id, with_flows};

#[test]
fn port_changes_are_reported() {
    let (mut bench, _) = Bench::up(plain());
    let port = json!({"name": "eth4", "vlan_bindings": ["map", []], "other_config": ["map", []]});
    let switch = json!({"ports": ["set", [reference(2), reference(9)]], "name": "leaf1",
        "description": "a test", "tunnel_ips": "10.0.0.1"});
    let seen = bench.change(&json!({
        "Physical_Port": { uuid(9): {"new": port} },
        "Physical_Switch": { uuid(1): {"new": switch, "old": {"ports": reference(2)}} },
    }));
    let [Seen::Message(Kind::PortStatus, _, message)] = &seen[..] else { panic!("{seen:?}") };
    let status = openflow::PortStatus::decode(message).unwrap();
    assert_eq!((status.desc.port_no, status.reason), (PortNo(4), openflow::PortReason::Add));
}

/// A row of `Physical_Port`. A `number` that is not empty becomes the entry `rosemary-port`.
fn port(name: &str, number: &str) -> Json {
    let mut config = vec![json!(["rosemary-port", number])];
    config.retain(|_| !number.is_empty());
    json!({"name": name, "vlan_bindings": ["map", []], "other_config": ["map", config]})
}

/// Opens a session with a device that has these ports. Returns the numbers of its ports, too.
fn device_with(ports: &[Json]) -> (Bench, Vec<(u32, String)>) {
    let mut rows = plain();
    let ids: Vec<u32> = (50..).take(ports.len()).collect();
    for (id, port) in ids.iter().zip(ports) {
        rows["Physical_Port"][uuid(*id)] = port.clone();
    }
    let references: Vec<Json> = ids.iter().map(|id| reference(*id)).collect();
    rows["Physical_Switch"][uuid(1)]["ports"] = json!(["set", references]);
    let (bench, seen) = Bench::up(rows);
    let Some(Seen::Up(info)) = seen.first() else { panic!("{seen:?}") };
    let ports = info.ports.iter().filter(|it| it.port_no != PortNo::LOCAL);
    let numbers = ports.map(|it| (it.port_no.0, it.name.to_string())).collect();
    (bench, numbers)
}

fn bind(number: u32) -> Vec<u8> {
    let actions = [Action::set_field(tunnel_id()), Action::output(PortNo::FLOOD)];
    add(Match::new().in_port(PortNo(number * 4096)), &actions, 1)
}

#[test]
fn number_is_kept_when_a_flow_uses_it() {
    let (mut bench, numbers) = device_with(&[port("mgmt", "")]);
    assert_eq!(numbers, [(1, "mgmt".to_owned())]);
    bench.send(&bind(1));
    let keeps = |transaction: &Json| {
        let entry = json!(["other_config", "insert", ["map", [["rosemary-port", "1"]]]]);
        let operations = transaction.as_array().unwrap().iter();
        operations.filter(|it| it["mutations"][1] == entry).count()
    };
    assert_eq!(bench.transactions.iter().map(keeps).collect::<Vec<_>>(), [1]);
    // The next session finds the number, although another port would take it.
    let (mut bench, numbers) = device_with(&[port("eth1", ""), port("mgmt", "1")]);
    assert_eq!(numbers, [(1, "mgmt".to_owned()), (2, "eth1".to_owned())]);
    bench.send(&bind(1));
    assert_eq!(bench.transactions.iter().map(keeps).collect::<Vec<_>>(), [0]);
}

#[test]
fn new_port_takes_no_number_of_the_session() {
    let (mut bench, _) = device_with(&[port("mgmt", "")]);
    let switch = json!({"ports": ["set", [reference(50), reference(60)]], "name": "leaf1",
        "description": "a test", "tunnel_ips": "10.0.0.1"});
    let seen = bench.change(&json!({
        "Physical_Port": { uuid(60): {"new": port("eth1", "")} },
        "Physical_Switch": { uuid(1): {"new": switch, "old": {"ports": reference(50)}} },
    }));
    let [Seen::Message(Kind::PortStatus, _, message)] = &seen[..] else { panic!("{seen:?}") };
    let status = openflow::PortStatus::decode(message).unwrap();
    assert_eq!((status.desc.port_no, status.reason), (PortNo(2), openflow::PortReason::Add));
}

#[test]
fn number_of_a_flow_from_before_is_kept() {
    let mut rows = with_flows();
    rows["Physical_Port"][uuid(2)]["other_config"][1].as_array_mut().unwrap().pop();
    let (mut bench, _) = Bench::up(rows);
    bench.pass(30).unwrap();
    let mutations = json!([
        ["other_config", "delete", "rosemary-port"],
        ["other_config", "insert", ["map", [["rosemary-port", "3"]]]]
    ]);
    assert_eq!(bench.transactions[0][0]["mutations"], mutations);
}

#[test]
fn number_that_another_port_keeps_is_forgotten() {
    let (mut bench, numbers) = device_with(&[port("eth1", "7"), port("eth2", "7")]);
    assert_eq!(numbers, [(2, "eth2".to_owned()), (7, "eth1".to_owned())]);
    bench.pass(30).unwrap();
    let removal = json!([["other_config", "delete", "rosemary-port"]]);
    assert_eq!(bench.transactions[0][0]["where"], json!([["_uuid", "==", reference(51)]]));
    assert_eq!(bench.transactions[0][0]["mutations"], removal);
}

#[test]
fn device_without_entries_for_ports_is_refused() {
    let mut bench = Bench::open(&HardwareVtep::default(), plain());
    bench.lacks = &[("Physical_Port", "other_config")];
    let why = bench.pass(10).unwrap_err().to_string();
    assert!(why.contains("lacks the column Physical_Port.other_config"), "{why}");
}
