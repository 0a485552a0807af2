//! Replays sessions with an invented database.

mod cleaning;
mod fake;
mod hostile;
mod hosts;
mod owners;
mod ports;

use std::time::Duration;

use openflow::{
    Action, Field, FlowMod, FlowModFlags, FlowStatsRequest, Kind, MacAddr, Match, MultipartReply,
    MultipartRequest, PacketOut, PortNo, ReplyBody,
};
use serde_json::{Value as Json, json};

use self::fake::{Bench, Seen, plain, reference, uuid};
use super::{OF, dpid_of};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const VNI: u64 = 5000;
/// The tunnel to 10.0.0.2.
const TUNNEL: PortNo = PortNo(0x0a00_0002);
/// VLAN 100 of port 3.
const VLAN: PortNo = PortNo(12_388);

fn encoded(flow_mod: &FlowMod<'_>, xid: u32) -> Vec<u8> {
    let mut message = Vec::new();
    openflow::append(&mut message, |out| flow_mod.encode(OF, xid, out)).unwrap();
    message
}

fn barrier(xid: u32) -> Vec<u8> {
    let mut message = Vec::new();
    openflow::append(&mut message, |out| Kind::BarrierRequest.encode_empty(OF, xid, out)).unwrap();
    message
}

fn tunnel_id() -> Field {
    Field::TunnelId(VNI.into())
}

fn unicast() -> Match {
    Match::new().with(&Field::EthDst(MAC.into())).with(&tunnel_id())
}

fn add(match_: Match, actions: &[Action], xid: u32) -> Vec<u8> {
    let flow_mod = FlowMod::add(match_).priority(9).cookie(0x77);
    encoded(&flow_mod.flags(FlowModFlags::SEND_FLOW_REM).apply(actions), xid)
}

/// The flows of a device, as OpenFlow lists them: cookie, priority, match and number of actions.
fn flows(bench: &mut Bench) -> Vec<(u64, u16, Match, usize)> {
    let mut message = Vec::new();
    let request = MultipartRequest::Flow(FlowStatsRequest::new(Match::new()));
    openflow::append(&mut message, |out| request.encode(OF, 99, out)).unwrap();
    let seen = bench.send(&message);
    let [Seen::Message(Kind::MultipartReply, 99, reply)] = &seen[..] else { panic!("{seen:?}") };
    let ReplyBody::Flow(flows) = MultipartReply::decode(reply).unwrap().body else { panic!() };
    let listed = flows.iter().map(|flow| {
        (flow.cookie, flow.priority, flow.match_.clone(), flow.instructions.apply.iter().count())
    });
    listed.collect()
}

/// The rows of [`plain`], a logical switch that this controller made, and a flow of each form.
fn with_flows() -> Json {
    let mut rows = plain();
    rows["Physical_Port"][uuid(2)] = json!({
        "name": "eth3", "vlan_bindings": ["map", [[100, reference(3)]]],
        "other_config": ["map", [
            ["rosemary-100", "0000000000000011 5 0x0 5000 rosemary-5000"],
            ["rosemary-port", "3"],
        ]],
    });
    rows["Logical_Switch"] = json!({ uuid(3): {
        "name": "rosemary-5000", "description": "", "tunnel_key": 5000, "other_config": ["map", [
            ["rosemary", "made"],
            ["rosemary-02:00:00:00:00:0b", format!("0000000000000022 6 0x1 10.0.0.2 {}", uuid(6))],
            ["rosemary-unknown-dst", format!("0000000000000033 7 0x0 10.0.0.2 {}", uuid(7))],
        ]],
    }});
    rows["Physical_Locator"] = json!({ uuid(4): {
        "encapsulation_type": "vxlan_over_ipv4", "dst_ip": "10.0.0.2", "tunnel_key": ["set", []],
    }});
    rows["Physical_Locator_Set"] = json!({ uuid(5): { "locators": reference(4) }});
    rows["Ucast_Macs_Remote"] = json!({ uuid(6): {
        "MAC": "02:00:00:00:00:0b", "logical_switch": reference(3), "locator": reference(4),
        "ipaddr": "",
    }});
    rows["Mcast_Macs_Remote"] = json!({ uuid(7): {
        "MAC": "unknown-dst", "logical_switch": reference(3), "locator_set": reference(5),
        "ipaddr": "",
    }});
    rows
}

#[test]
fn device_becomes_a_switch_without_packets() {
    let (_, seen) = Bench::up(plain());
    let [Seen::Up(info)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((info.dpid, info.n_tables), (dpid_of("leaf1"), 1));
    assert!(info.no_packets.unwrap().contains("sends no packets"));
    let ports: Vec<(u32, String)> =
        info.ports.iter().map(|port| (port.port_no.0, port.name.to_string())).collect();
    assert_eq!(ports, [(3, "eth3".into()), (PortNo::LOCAL.0, "leaf1".into())]);
}

#[test]
fn address_becomes_one_transaction_with_its_owner() {
    let (mut bench, _) = Bench::up(plain());
    let message = [add(unicast(), &[Action::output(TUNNEL)], 1), barrier(2)].concat();
    let seen = bench.send(&message);
    assert!(matches!(seen[..], [Seen::Message(Kind::BarrierReply, 2, _)]), "{seen:?}");
    let own = "0000000000000077 9 0x1 10.0.0.2";
    let expected = json!([
        {"op": "insert", "table": "Logical_Switch", "uuid-name": "network5000", "row": {
            "name": "rosemary-5000", "description": "made by Rosemary", "tunnel_key": 5000,
            "other_config": ["map", [["rosemary", "made"], ["rosemary-02:00:00:00:00:0b", own]]]}},
        {"op": "insert", "table": "Physical_Locator", "uuid-name": "locator167772162", "row": {
            "dst_ip": "10.0.0.2", "encapsulation_type": "vxlan_over_ipv4"}},
        {"op": "insert", "table": "Ucast_Macs_Remote", "row": {
            "MAC": "02:00:00:00:00:0b", "locator": ["named-uuid", "locator167772162"],
            "logical_switch": ["named-uuid", "network5000"]}},
    ]);
    assert_eq!(bench.transactions, [expected]);
}

#[test]
fn binding_and_unknown_addresses_share_a_transaction() {
    let (mut bench, _) = Bench::up(plain());
    let bind = [Action::set_field(tunnel_id()), Action::output(PortNo::FLOOD)];
    let unknown = [Action::output(TUNNEL), Action::output(PortNo(0x0a00_0003))];
    let message = [
        add(Match::new().in_port(VLAN), &bind, 1),
        add(Match::new().with(&tunnel_id()), &unknown, 2),
    ];
    assert_eq!(bench.send(&message.concat()), []);
    let [operations] = &bench.transactions[..] else { panic!("{:?}", bench.transactions) };
    let tables: Vec<&str> =
        operations.as_array().unwrap().iter().map(|it| it["table"].as_str().unwrap()).collect();
    let expected = [
        "Physical_Port",
        "Logical_Switch",
        "Physical_Locator",
        "Physical_Locator",
        "Physical_Port",
        "Physical_Port",
        "Physical_Port",
        "Physical_Locator_Set",
        "Mcast_Macs_Remote",
    ];
    assert_eq!(tables, expected);
    assert_eq!(
        operations[5]["mutations"],
        json!([
            ["vlan_bindings", "delete", 100],
            ["vlan_bindings", "insert", ["map", [[100, ["named-uuid", "network5000"]]]]],
        ])
    );
}

#[test]
fn flows_are_listed_as_they_were_written() {
    let (mut bench, _) = Bench::up(with_flows());
    let expected = [
        (0x11, 5, Match::new().in_port(VLAN), 2),
        (0x22, 6, unicast(), 1),
        (0x33, 7, Match::new().with(&tunnel_id()), 1),
    ];
    assert_eq!(flows(&mut bench), expected);
}

#[test]
fn what_a_device_cannot_do_is_refused_before_it_is_sent() {
    let (mut bench, _) = Bench::up(plain());
    let to = [Action::output(TUNNEL)];
    let packet_out = PacketOut::new(PortNo::CONTROLLER, &to, &[0; 60]);
    let mut packet = Vec::new();
    openflow::append(&mut packet, |out| packet_out.encode(OF, 7, out)).unwrap();
    let flow = |flow_mod: FlowMod<'_>| encoded(&flow_mod, 7);
    let group = Match::new().with(&Field::EthDst(MacAddr::BROADCAST.into())).with(&tunnel_id());
    let no_key = Match::new().with(&Field::TunnelId((1 << 24).into()));
    let foreign_port = Match::new().in_port(PortNo(5 * 4096));
    let bind = [Action::set_field(tunnel_id()), Action::output(PortNo::FLOOD)];
    let backwards = [Action::output(TUNNEL), Action::output(PortNo(0x0a00_0001))];
    let to_us = [Action::output(PortNo::CONTROLLER)];
    let own = [Action::output(PortNo(0x0a00_0001))];
    for (message, words) in [
        (packet, "sends no packets to a controller and takes none"),
        (flow(FlowMod::add(Match::new()).priority(0).apply(&to_us)), "this one matches everything"),
        (flow(FlowMod::add(Match::new().eth_type(0x800)).apply(&to)), "matches eth_type"),
        (flow(FlowMod::add(unicast()).apply(&to_us)), "port CONTROLLER is no tunnel"),
        (flow(FlowMod::add(unicast()).apply(&bind)), "takes the actions `output:TUNNEL`"),
        (flow(FlowMod::add(unicast()).apply(&own)), "an address of the device itself"),
        (flow(FlowMod::add(unicast()).table(1).apply(&to)), "table 0 only, not table 1"),
        (flow(FlowMod::add(unicast()).idle_timeout(5).apply(&to)), "leave out the timeouts"),
        (flow(FlowMod::add(unicast()).buffer_id(Some(1)).apply(&to)), "leave out the buffer"),
        (
            flow(FlowMod::add(unicast()).flags(FlowModFlags::CHECK_OVERLAP).apply(&to)),
            "overlapping",
        ),
        (flow(FlowMod::add(group).apply(&to)), "needs a unicast address, not ff:ff:ff:ff:ff:ff"),
        (flow(FlowMod::add(no_key).apply(&to)), "16777216 is no tunnel key"),
        (flow(FlowMod::add(foreign_port).apply(&bind)), "has no physical port 5"),
        (flow(FlowMod::add(Match::new().with(&tunnel_id())).apply(&backwards)), "in another order"),
    ] {
        let seen = bench.send(&message);
        let [Seen::Refused(7, why)] = &seen[..] else { panic!("{words}: {seen:?}") };
        assert!(why.contains(words), "{why}");
    }
    assert_eq!(bench.transactions, [] as [Json; 0]);
}

#[test]
fn rows_of_other_managers_are_never_changed() {
    let mut rows = with_flows();
    rows["Logical_Switch"][uuid(3)]["other_config"] = json!(["map", []]);
    rows["Physical_Port"][uuid(2)]["other_config"] = json!(["map", []]);
    let (mut bench, _) = Bench::up(rows);
    assert!(flows(&mut bench).iter().all(|(cookie, ..)| *cookie == 0));
    let seen = bench.send(&add(unicast(), &[Action::output(TUNNEL)], 1));
    assert!(matches!(&seen[..], [Seen::Refused(1, why)] if why.contains("another manager")));
    assert_eq!(bench.send(&encoded(&FlowMod::delete(Match::new()), 2)), []);
    bench.pass(50).unwrap();
    assert_eq!(bench.transactions, [] as [Json; 0]);
}

#[test]
fn delete_covers_flows_by_cookie_and_match() {
    let (mut bench, _) = Bench::up(with_flows());
    let by_cookie =
        FlowMod::delete(Match::new()).table(FlowMod::ALL_TABLES).only_cookie(0x30, 0xf0);
    bench.send(&encoded(&by_cookie, 1));
    let [operations] = &bench.transactions[..] else { panic!("{:?}", bench.transactions) };
    let (first, second) = (&operations[0], &operations[1]);
    assert_eq!((&first["op"], &first["table"]), (&json!("delete"), &json!("Mcast_Macs_Remote")));
    assert_eq!(second["mutations"], json!([["other_config", "delete", "rosemary-unknown-dst"]]));
    bench.send(&encoded(&FlowMod::delete(unicast()), 2));
    assert_eq!(bench.transactions[1][0]["where"], json!([["_uuid", "==", reference(6)]]));
}

#[test]
fn refused_batch_is_sent_flow_by_flow() {
    let (mut bench, _) = Bench::up(with_flows());
    let other =
        Match::new().with(&Field::EthDst(MacAddr([2, 0, 0, 0, 0, 0xc]).into())).with(&tunnel_id());
    let third =
        Match::new().with(&Field::EthDst(MacAddr([2, 0, 0, 0, 0, 0xd]).into())).with(&tunnel_id());
    let error = Some("constraint violation");
    bench.failures = [error, None, error, error].into();
    let to = [Action::output(TUNNEL)];
    let messages = [add(other, &to, 1), add(third, &to, 2), barrier(3)];
    let mut seen = bench.send(&messages.concat());
    seen.extend(bench.pass(5).unwrap());
    let [Seen::Refused(2, why), Seen::Message(Kind::BarrierReply, 3, _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert!(why.contains("constraint violation: by the test"), "{why}");
    assert_eq!(bench.transactions.len(), 4);
}

#[test]
fn flow_that_another_manager_removes_is_reported() {
    let (mut bench, _) = Bench::up(with_flows());
    let row = json!({"old": {"MAC": "02:00:00:00:00:0b", "logical_switch": reference(3),
        "locator": reference(4), "ipaddr": ""}});
    let seen = bench.change(&json!({"Ucast_Macs_Remote": { uuid(6): row }}));
    let [Seen::Message(Kind::FlowRemoved, 0, message)] = &seen[..] else { panic!("{seen:?}") };
    let removed = openflow::FlowRemoved::decode(message).unwrap();
    assert_eq!((removed.cookie, removed.priority, removed.match_), (0x22, 6, unicast()));
    bench.pass(50).unwrap();
    let cleaned = json!([["other_config", "delete", "rosemary-02:00:00:00:00:0b"]]);
    assert_eq!(bench.transactions[0][0]["mutations"], cleaned);
}

#[test]
fn probe_is_answered_by_a_living_device() {
    let (mut bench, _) = Bench::up(plain());
    let mut out = Vec::new();
    bench.session.probe(&mut out);
    assert!(!bench.session.has_answered());
    bench.send(&out);
    assert!(bench.session.has_answered());
}

#[test]
fn silent_device_does_not_complete_the_handshake() {
    let mut bench = Bench::open(&super::HardwareVtep::default(), plain());
    bench.now += Duration::from_secs(10);
    let error = bench.session.tick(bench.now, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, crate::Closed::Handshake(_)), "{error}");
}
