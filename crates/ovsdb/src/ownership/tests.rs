use serde_json::json;

use super::*;
use crate::transaction::check;
use crate::value::Atom;

fn schema() -> Schema {
    let ids = json!({"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}});
    let queues = json!({"type": {"key": "integer", "value": {"type": "uuid", "refTable": "Queue"}, "min": 0, "max": "unlimited"}});
    let qos = json!({"type": {"key": {"type": "uuid", "refTable": "QoS"}, "min": 0, "max": 1}});
    let mirrors = json!({"type": {"key": {"type": "uuid", "refTable": "Mirror"}, "min": 0, "max": "unlimited"}});
    let text = json!({"type": "string"});
    Schema::read(&json!({"name": "D", "tables": {
        "Port": {"columns": {"name": text, "qos": qos, "mirrors": mirrors, "external_ids": ids}},
        "QoS": {"columns": {"type": text, "queues": queues, "external_ids": ids}, "isRoot": true},
        "Queue": {"columns": {"name": text, "external_ids": ids}, "isRoot": true},
        "Mirror": {"columns": {"name": text, "external_ids": ids}},
        "Plain": {"columns": {"name": text}},
    }}))
    .unwrap()
}

fn uuid(number: u8) -> Uuid {
    Uuid([number; 16])
}

fn image(rows: &[(&str, u8, Row)]) -> Image {
    Image::of_rows(rows.iter().map(|(table, number, row)| (*table, uuid(*number), row.clone())))
}

fn port(qos: Value) -> Row {
    let row = Row::new().with("name", Value::one("p")).with("qos", qos);
    row.with("mirrors", Value::none()).with(IDS, Value::map::<&str, &str>([]))
}

fn owned_by(owner: &str, key: &str, row: Row) -> Row {
    row.with(IDS, Value::map([(OWNER, owner), (KEY, key)]))
}

fn wanted(table: &str, key: &str, row: Row) -> WantedRow {
    WantedRow { table: table.into(), key: key.into(), row, parent: None }
}

fn parent(table: &str, number: u8, column: &str) -> Parent {
    Parent { table: table.into(), uuid: uuid(number), column: column.into() }
}

/// A row of `QoS` with one queue at port 1.
fn quality() -> Vec<WantedRow> {
    let queues = [(0, Atom::NamedUuid("slow".into()))];
    let row = Row::new().with("type", Value::one("linux-htb")).with("queues", Value::map(queues));
    let slow = wanted("Queue", "slow", Row::new().with("name", Value::one("s")));
    vec![WantedRow { parent: Some(parent("Port", 1, "qos")), ..wanted("QoS", "q", row) }, slow]
}

#[test]
fn absent_rows_are_inserted_and_referred_to() {
    let image = image(&[("Port", 1, port(Value::none()))]);
    let operations = reconcile(&image, &schema(), "app", &quality()).unwrap();
    check(&operations, &schema()).unwrap();
    let inserts = operations.iter().filter(|it| matches!(it, Operation::Insert { .. })).count();
    assert_eq!(inserts, 2);
    let named = Value::Set([Atom::NamedUuid("q".into())].into());
    let update = Operation::update("Port", uuid(1), Row::new().with("qos", named));
    assert_eq!(operations.last(), Some(&update));
    let Some(Operation::Insert { row, .. }) = operations.first() else { panic!("{operations:?}") };
    assert_eq!((row.entry(IDS, OWNER), row.entry(IDS, KEY)), (Some("app"), Some("q")));
}

fn existing() -> Vec<(&'static str, u8, Row)> {
    let queues = Value::map([(0, uuid(3))]);
    let row = Row::new().with("type", Value::one("linux-htb")).with("queues", queues);
    vec![
        ("Port", 1, port(Value::one(uuid(2)))),
        ("QoS", 2, owned_by("app", "q", row)),
        ("Queue", 3, owned_by("app", "slow", Row::new().with("name", Value::one("s")))),
        ("Queue", 4, owned_by("other", "slow", Row::new().with("name", Value::one("s")))),
        (
            "Queue",
            5,
            Row::new().with("name", Value::one("s")).with(IDS, Value::map::<&str, &str>([])),
        ),
    ]
}

#[test]
fn nothing_is_done_if_all_is_there() {
    let operations = reconcile(&image(&existing()), &schema(), "app", &quality());
    assert_eq!(operations, Ok(Vec::new()));
}

#[test]
fn changed_columns_are_updated_behind_a_guard() {
    let mut rows = quality();
    rows[0].row.set("type", Value::one("linux-hfsc"));
    let operations = reconcile(&image(&existing()), &schema(), "app", &rows).unwrap();
    let before = Row::new().with("type", Value::one("linux-htb"));
    let before = before.with(UUID_COLUMN, Value::one(uuid(2)));
    let after = Row::new().with("type", Value::one("linux-hfsc"));
    let expected = [
        Operation::unless_changed("QoS", uuid(2), &before),
        Operation::update("QoS", uuid(2), after),
    ];
    assert_eq!(operations, expected);
}

#[test]
fn rows_of_the_owner_alone_are_removed() {
    let operations = reconcile(&image(&existing()), &schema(), "app", &[]).unwrap();
    check(&operations, &schema()).unwrap();
    let deleted = operations.iter().filter_map(|it| match it {
        Operation::Delete { table, conditions } => Some((table.as_str(), conditions[0].clone())),
        _ => None,
    });
    let deleted: Vec<_> = deleted.collect();
    assert_eq!(deleted, [("QoS", Condition::is(uuid(2))), ("Queue", Condition::is(uuid(3)))]);
    let mutation = Mutation::new("qos", Mutator::Delete, Value::one(uuid(2)));
    assert_eq!(operations.first(), Some(&Operation::mutate("Port", uuid(1), mutation)));
    assert_eq!(reconcile(&image(&existing()), &schema(), "absent", &[]), Ok(Vec::new()));
}

#[test]
fn place_of_another_owner_is_not_taken() {
    let row = owned_by(
        "other",
        "q",
        Row::new().with("type", Value::one("x")).with("queues", Value::map::<i64, Uuid>([])),
    );
    let image = image(&[("Port", 1, port(Value::one(uuid(2)))), ("QoS", 2, row)]);
    let error = reconcile(&image, &schema(), "app", &quality()).unwrap_err().to_string();
    assert!(error.starts_with("Port.qos of row 01010101-"), "{error}");
    assert!(error.contains("another row; remove"), "{error}");
}

#[test]
fn key_that_moves_to_another_table_names_the_new_row() {
    let mut rows = quality();
    // The image has a queue of this key, and now a row of QoS is to have it.
    rows[1] = wanted("QoS", "slow", Row::new().with("type", Value::one("t")));
    let operations = reconcile(&image(&existing()), &schema(), "app", &rows).unwrap();
    let queues = Value::map([(0, Atom::NamedUuid("slow".into()))]);
    let update = Operation::update("QoS", uuid(2), Row::new().with("queues", queues));
    assert!(operations.contains(&update), "{operations:?}");
}

#[test]
fn mirror_is_added_beside_others() {
    let image = image(&[("Port", 1, port(Value::none()))]);
    let mirror = Row::new().with("name", Value::one("m"));
    let row =
        WantedRow { parent: Some(parent("Port", 1, "mirrors")), ..wanted("Mirror", "m", mirror) };
    let operations = reconcile(&image, &schema(), "app", std::slice::from_ref(&row)).unwrap();
    let named = Value::Set([Atom::NamedUuid("m".into())].into());
    let mutation = Mutation::new("mirrors", Mutator::Insert, named);
    assert_eq!(operations.last(), Some(&Operation::mutate("Port", uuid(1), mutation)));
    let gone = WantedRow { parent: Some(parent("Port", 9, "mirrors")), ..row };
    let error = reconcile(&image, &schema(), "app", &[gone]).unwrap_err();
    assert!(matches!(error, OwnershipError::NoParent { .. }));
}

#[test]
fn mistakes_of_the_owner_are_errors() {
    let image = image(&[]);
    let plain = wanted("Plain", "p", Row::new());
    let error = reconcile(&image, &schema(), "app", &[plain]).unwrap_err();
    assert_eq!(error, OwnershipError::NoIds("Plain".into()));
    let rows = [wanted("Queue", "q", Row::new()), wanted("QoS", "q", Row::new())];
    let error = reconcile(&image, &schema(), "app", &rows).unwrap_err();
    assert_eq!(error, OwnershipError::Key("q".into()));
}
