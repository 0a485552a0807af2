//! Bytes that no device sends: an error each, never a panic.

use proptest::prelude::*;
use serde_json::json;

use super::super::{HardwareVtep, MOST_SESSIONS};
use super::fake::{Bench, plain, reference, uuid};
use super::with_flows;

/// The reason for which a session ends after these bytes.
fn ends(bytes: &[u8]) -> String {
    let mut bench = Bench::open(&HardwareVtep::default(), plain());
    let result = bench.receive(bytes.to_vec(), &mut Vec::new());
    result.unwrap_err().to_string()
}

#[test]
fn other_bytes_than_json_objects_end_the_session() {
    assert!(ends(&[4, 0, 0, 8, 0, 0, 0, 1]).starts_with("hardware_vtep: byte 0x04"));
    assert!(ends(b"GET / HTTP/1.1").contains("begins no JSON object"));
    let deep = [vec![b'{'], br#""a":"#.to_vec(), vec![b'['; 100]].concat();
    assert!(ends(&deep).contains("more than 32 brackets"), "{}", ends(&deep));
    let huge = [br#"{"a":""#.to_vec(), vec![b'x'; 5 << 20]].concat();
    assert!(ends(&huge).contains("more than 4194304 bytes"));
    assert!(ends(br#"{"id":77,"result":[],"error":null}"#).contains("belongs to no request"));
}

#[test]
fn databases_that_describe_no_device_end_the_session() {
    let mut none = plain();
    none["Physical_Switch"] = json!({});
    let mut two = plain();
    two["Physical_Switch"][uuid(9)] = json!({"ports": [ "set", []], "name": "leaf2", "description": "", "tunnel_ips": ["set", []]});
    let mut nameless = plain();
    nameless["Physical_Switch"][uuid(1)]["name"] = json!("");
    let mut wrong = plain();
    wrong["Physical_Port"][uuid(2)]["vlan_bindings"] = json!(["map", [["100", reference(3)]]]);
    let mut many = plain();
    let bindings: Vec<_> = (0..4096).map(|vlan| json!([vlan, reference(3)])).collect();
    many["Logical_Switch"] = json!({ uuid(3): {
        "name": "a", "description": "", "tunnel_key": 5, "other_config": ["map", []] }});
    for port in [2, 3, 4] {
        many["Physical_Port"][uuid(port)] = json!({
            "name": format!("eth{port}"), "vlan_bindings": ["map", bindings],
            "other_config": ["map", []] });
    }
    many["Physical_Switch"][uuid(1)]["ports"] =
        json!(["set", [reference(2), reference(3), reference(4)]]);
    for (rows, words) in [
        (none, "has no Physical_Switch"),
        (two, "has 2 rows of Physical_Switch"),
        (nameless, "name of its Physical_Switch is empty"),
        (wrong, "expected integer"),
        (many, "more than 8192 ports"),
    ] {
        let mut bench = Bench::open(&HardwareVtep::default(), rows);
        let why = bench.pass(10).unwrap_err().to_string();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn rows_with_odd_contents_are_left_out() {
    let mut rows = with_flows();
    rows["Logical_Switch"][uuid(20)] = json!({
        "name": "no key", "description": "", "tunnel_key": ["set", []], "other_config": ["map", []] });
    rows["Physical_Locator"][uuid(21)] = json!({
        "encapsulation_type": "vxlan_over_ipv4", "dst_ip": "not an address",
        "tunnel_key": ["set", []] });
    for (number, mac, network, locator) in [
        (22, "no address", 3, 4),
        (23, "02:00:00:00:00:01", 20, 4),
        (24, "02:00:00:00:00:02", 3, 21),
        (25, "02:00:00:00:00:03", 99, 99),
    ] {
        rows["Ucast_Macs_Remote"][uuid(number)] = json!({
            "MAC": mac, "logical_switch": reference(network), "locator": reference(locator),
            "ipaddr": "x" });
    }
    let (mut bench, _) = Bench::up(rows);
    assert_eq!(super::flows(&mut bench).len(), 3);
}

#[test]
fn sessions_are_bounded() {
    let driver = HardwareVtep::default();
    let open = || Bench::open(&driver, plain());
    let silent: Vec<Bench> = (0..2 * MOST_SESSIONS).map(|_| open()).collect();
    let mut benches: Vec<Bench> = (0..MOST_SESSIONS).map(|_| open()).collect();
    for bench in &mut benches {
        bench.pass(1).unwrap();
    }
    drop(silent);
    let mut further = open();
    let why = further.pass(1).unwrap_err().to_string();
    assert!(why.contains("64 devices are connected"), "{why}");
    drop(further);
    benches.pop();
    assert!(Bench::open(&driver, plain()).pass(5).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_end_the_session(bytes: Vec<u8>, split in 0_usize..64) {
        let mut bench = Bench::open(&HardwareVtep::default(), plain());
        let framed = [b"{\"id\":", &bytes[..]].concat();
        let split = split.min(framed.len());
        for part in [&framed[..split], &framed[split..]] {
            if bench.receive(part.to_vec(), &mut Vec::new()).is_err() {
                break;
            }
        }
    }

    #[test]
    fn any_messages_of_the_controller_are_answered(bytes: Vec<u8>, kind in 0_u8..40) {
        let (mut bench, _) = Bench::up(with_flows());
        let size = u16::try_from(8 + bytes.len()).unwrap().to_be_bytes();
        let message = [&[4, kind, size[0], size[1], 0, 0, 0, 9], &bytes[..]].concat();
        bench.send(&message);
        bench.pass(3).unwrap();
    }
}
