//! Logical switches that are not needed are removed; the database may refuse it.

use serde_json::{Value as Json, json};

use super::fake::{Bench, plain, reference, uuid};
use super::with_flows;

/// A logical switch that this controller made.
fn made(name: &str, tunnel_key: u32) -> Json {
    json!({"name": name, "description": "", "tunnel_key": tunnel_key,
        "other_config": ["map", [["rosemary", "made"]]]})
}

fn removal(row: u32) -> Json {
    json!([{"op": "delete", "table": "Logical_Switch", "where": [["_uuid", "==", reference(row)]]}])
}

#[test]
fn unused_logical_switch_is_removed_if_this_controller_made_it() {
    let mut rows = plain();
    rows["Logical_Switch"] = json!({
        uuid(3): {"name": "a", "description": "", "tunnel_key": 5,
            "other_config": ["map", [["rosemary", "made"]]]},
        uuid(4): {"name": "b", "description": "", "tunnel_key": 6, "other_config": ["map", []]},
    });
    let (mut bench, _) = Bench::up(rows);
    bench.pass(10).unwrap();
    assert_eq!(
        bench.transactions[0],
        json!([{"op": "delete", "table": "Logical_Switch",
            "where": [["_uuid", "==", reference(3)]]}])
    );
}

#[test]
fn refused_removal_is_repeated_ever_more_rarely() {
    let mut rows = plain();
    rows["Logical_Switch"] = json!({ uuid(3): made("a", 5) });
    let (mut bench, _) = Bench::up(rows);
    bench.transactions.clear();
    bench.failures = vec![Some("referential integrity violation"); 100].into();
    bench.pass(600).unwrap(); // a minute
    let count = bench.transactions.len();
    assert!((3..=6).contains(&count), "{count}");
    bench.transactions.clear();
    bench.pass(12_000).unwrap(); // twenty minutes
    let count = bench.transactions.len();
    assert!((4..=8).contains(&count), "{count}");
}

#[test]
fn refused_removal_holds_up_nothing_else() {
    let mut rows = with_flows();
    rows["Logical_Switch"][uuid(20)] = made("a", 5);
    rows["Logical_Switch"][uuid(21)] = made("b", 6);
    rows["Logical_Switch"][uuid(21)]["other_config"][1]
        .as_array_mut()
        .unwrap()
        .push(json!(["rosemary-unknown-dst", "0000000000000033 7 0x0 10.0.0.2"]));
    let mut bench = Bench::open(&super::super::HardwareVtep::default(), rows);
    bench.failures = [None, Some("referential integrity violation")].into();
    bench.pass(60).unwrap();
    let cleaned = json!([["other_config", "delete", "rosemary-unknown-dst"]]);
    assert_eq!(bench.transactions[0][0]["mutations"], cleaned);
    assert!(bench.transactions.contains(&removal(20)), "{:?}", bench.transactions);
    assert!(bench.transactions.contains(&removal(21)), "{:?}", bench.transactions);
}

#[test]
fn used_logical_switch_stays() {
    let users = [
        ("Mcast_Macs_Local", json!({"logical_switch": reference(3)})),
        ("Logical_Router", json!({"switch_binding": ["map", [["10.0.0.1/24", reference(3)]]]})),
        (
            "Mcast_Macs_Remote",
            json!({"MAC": "01:00:5e:00:00:01", "logical_switch": reference(3),
                "locator_set": reference(99), "ipaddr": ""}),
        ),
        (
            "Ucast_Macs_Local",
            json!({"MAC": "none", "logical_switch": reference(3), "locator": reference(99),
                "ipaddr": ""}),
        ),
    ];
    for (table, row) in users {
        let mut rows = plain();
        rows["Logical_Switch"] = json!({ uuid(3): made("a", 5) });
        rows[table] = json!({ uuid(4): row });
        let (mut bench, _) = Bench::up(rows);
        bench.pass(50).unwrap();
        assert_eq!(bench.transactions, [] as [Json; 0], "{table}");
    }
}

#[test]
fn database_without_routers_is_served() {
    let mut bench = Bench::open(&super::super::HardwareVtep::default(), plain());
    bench.lacks = &[("Logical_Router", "switch_binding"), ("Mcast_Macs_Local", "logical_switch")];
    assert_eq!(bench.pass(10).unwrap().len(), 1);
}
