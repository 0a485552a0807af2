use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::image::Image;
use crate::schema::{Schema, UUID_COLUMN};
use crate::transaction::{Condition, Mutation, Mutator, check};
use crate::value::{Atom, Value};

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

fn plan(rows: &[(&str, u8, Row)], wanted: &[WantedRow]) -> Plan {
    super::reconcile(&image(rows), &schema(), "app", &[Scope::default()], wanted)
}

/// Returns the operations for rows that are all accepted.
fn reconcile(image: &Image, schema: &Schema, owner: &str, wanted: &[WantedRow]) -> Vec<Operation> {
    let plan = super::reconcile(image, schema, owner, &[Scope::default()], wanted);
    assert_eq!(plan.refused, []);
    plan.operations()
}

/// Returns why the only refused row is.
fn refusal(image: &Image, wanted: &[WantedRow]) -> OwnershipError {
    let plan = super::reconcile(image, &schema(), "app", &[Scope::default()], wanted);
    plan.refused.into_iter().next().unwrap().error
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
    let operations = reconcile(&image, &schema(), "app", &quality());
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
    assert_eq!(operations, []);
}

#[test]
fn changed_columns_are_updated_behind_a_guard() {
    let mut rows = quality();
    rows[0].row.set("type", Value::one("linux-hfsc"));
    let operations = reconcile(&image(&existing()), &schema(), "app", &rows);
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
    let operations = reconcile(&image(&existing()), &schema(), "app", &[]);
    check(&operations, &schema()).unwrap();
    let deleted = operations.iter().filter_map(|it| match it {
        Operation::Delete { table, conditions } => Some((table.as_str(), conditions[0].clone())),
        _ => None,
    });
    let deleted: Vec<_> = deleted.collect();
    assert_eq!(deleted, [("QoS", Condition::is(uuid(2))), ("Queue", Condition::is(uuid(3)))]);
    let mutation = Mutation::new("qos", Mutator::Delete, Value::one(uuid(2)));
    assert_eq!(operations.first(), Some(&Operation::mutate("Port", uuid(1), mutation)));
    assert_eq!(reconcile(&image(&existing()), &schema(), "absent", &[]), []);
}

#[test]
fn place_of_another_owner_is_not_taken() {
    let row = owned_by(
        "other",
        "q",
        Row::new().with("type", Value::one("x")).with("queues", Value::map::<i64, Uuid>([])),
    );
    let image = image(&[("Port", 1, port(Value::one(uuid(2)))), ("QoS", 2, row)]);
    let error = refusal(&image, &quality()).to_string();
    assert!(error.starts_with("Port.qos of row 01010101-"), "{error}");
    assert!(error.contains("another row; remove"), "{error}");
}

#[test]
fn key_that_moves_to_another_table_names_the_new_row() {
    let mut rows = quality();
    // The image has a queue of this key, and now a row of QoS is to have it.
    rows[1] = wanted("QoS", "slow", Row::new().with("type", Value::one("t")));
    let operations = reconcile(&image(&existing()), &schema(), "app", &rows);
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
    let operations = reconcile(&image, &schema(), "app", std::slice::from_ref(&row));
    let named = Value::Set([Atom::NamedUuid("m".into())].into());
    let mutation = Mutation::new("mirrors", Mutator::Insert, named);
    assert_eq!(operations.last(), Some(&Operation::mutate("Port", uuid(1), mutation)));
    let gone = WantedRow { parent: Some(parent("Port", 9, "mirrors")), ..row };
    let error = refusal(&image, &[gone]);
    assert!(matches!(error, OwnershipError::NoParent { .. }));
}

#[test]
fn mistakes_of_the_owner_are_errors() {
    let image = image(&[]);
    let plain = wanted("Plain", "p", Row::new());
    let error = refusal(&image, &[plain]);
    assert_eq!(error, OwnershipError::NoIds("Plain".into()));
    let rows = [wanted("Queue", "q", Row::new()), wanted("QoS", "q", Row::new())];
    let error = refusal(&image, &rows);
    assert_eq!(error, OwnershipError::Key("q".into()));
}

#[test]
fn bad_rows_stop_only_rows_that_refer_to_them() {
    let mut rows = quality();
    let wrong = Row::new().with("name", Value::one(7));
    rows[1] = wanted("Queue", "slow", wrong);
    rows.push(wanted("Queue", "good", Row::new().with("name", Value::one("g"))));
    rows.push(wanted("Nowhere", "lost", Row::new()));
    let plan = plan(&[("Port", 1, port(Value::none()))], &rows);
    let refused: BTreeMap<_, _> =
        plan.refused.iter().map(|it| (it.key.as_str(), it.error.to_string())).collect();
    assert_eq!(refused.keys().copied().collect::<Vec<_>>(), ["lost", "q", "slow"]);
    assert!(
        refused["slow"]
            .contains("slow does not fit the schema of the server: operation 0: Queue.name")
    );
    assert!(refused["q"].contains("q refers to slow"), "{refused:?}");
    let operations = plan.operations();
    assert_eq!(plan.groups.len(), 1);
    assert!(
        matches!(&operations[..], [Operation::Insert { name, .. }] if name.as_deref() == Some("good"))
    );
}

#[test]
fn refused_row_that_exists_stays() {
    let mut rows = quality();
    rows[1].row.set("name", Value::one(7));
    let plan = plan(&existing(), &rows);
    assert_eq!(plan.refused.len(), 2);
    assert!(plan.is_done(), "{plan:?}");
}

#[test]
fn parts_are_groups_that_refer_to_each_other() {
    let mut rows = quality();
    rows.push(wanted("Queue", "single", Row::new().with("name", Value::one("g"))));
    let mut there = existing();
    there.push(("Queue", 6, owned_by("app", "old", Row::new().with("name", Value::one("o")))));
    there[0].2.set("qos", Value::none());
    let plan = plan(&there, &rows);
    let keys: Vec<Vec<_>> = plan.groups.iter().map(|it| it.keys.iter().collect()).collect();
    assert_eq!(keys, [vec!["q", "slow"], vec!["single"]]);
    let parts: Vec<_> = plan.parts().collect();
    assert_eq!(parts.len(), 3);
    for part in parts {
        check(part, &schema()).unwrap();
    }
    check(&plan.operations(), &schema()).unwrap();
}

#[test]
fn second_row_for_a_single_place_is_refused() {
    let mut rows = quality();
    let second = Row::new().with("type", Value::one("t"));
    rows.push(WantedRow { parent: Some(parent("Port", 1, "qos")), ..wanted("QoS", "r", second) });
    let plan = plan(&[("Port", 1, port(Value::none()))], &rows);
    assert!(
        matches!(&plan.refused[..], [Refused { error: OwnershipError::Taken { .. }, key }] if key == "r")
    );
}

#[test]
fn entries_of_others_in_external_ids_stay() {
    let ids = |row: &mut Row, pairs: &[(&str, &str)]| row.set(IDS, Value::map(pairs.to_vec()));
    let mut rows = vec![wanted("Queue", "slow", Row::new().with("name", Value::one("s")))];
    ids(&mut rows[0].row, &[("mine", "2")]);
    let mut there = existing();
    there.retain(|(table, ..)| *table == "Queue");
    ids(
        &mut there[0].2,
        &[
            (OWNER, "app"),
            (KEY, "slow"),
            (IDS_OF_OWNER, "[\"mine\",\"old\"]"),
            ("mine", "1"),
            ("old", "1"),
            ("foreign", "1"),
        ],
    );
    let operations = plan(&there, &rows).operations();
    let Some(Operation::Update { row, .. }) = operations.last() else { panic!("{operations:?}") };
    let expected = Value::map([
        (OWNER, "app"),
        (KEY, "slow"),
        (IDS_OF_OWNER, "[\"mine\"]"),
        ("mine", "2"),
        ("foreign", "1"),
    ]);
    assert_eq!(row.get(IDS), Some(&expected));
    there[0].2.set(IDS, expected);
    assert!(plan(&there, &rows).is_done());
}

/// Two bridges, 10 and 20, with ports 1 and 2.
fn bridges() -> Vec<(&'static str, u8, Row)> {
    let bridge = |name, port| {
        Row::new().with("name", Value::one(name)).with("ports", Value::one(uuid(port)))
    };
    vec![
        ("Bridge", 10, bridge("left", 1)),
        ("Bridge", 20, bridge("right", 2)),
        ("Port", 1, port(Value::none())),
        ("Port", 2, port(Value::none())),
    ]
}

#[test]
fn rows_beyond_the_scope_are_refused() {
    let columns = |names: &[&str]| Columns::Only(names.iter().map(|it| (*it).to_owned()).collect());
    let tables = |port: &[&str]| {
        let all = ["QoS", "Queue"].map(|it| (it.to_owned(), Columns::All));
        all.into_iter().chain([("Port".to_owned(), columns(port))]).collect()
    };
    let scope = |bridge: &str, port: &[&str]| Scope {
        tables: Some(tables(port)),
        bridges: Some([bridge.to_owned()].into()),
    };
    let rows = bridges();
    let refused = |scope: &Scope, wanted: &[WantedRow]| {
        let plan =
            super::reconcile(&image(&rows), &schema(), "app", std::slice::from_ref(scope), wanted);
        plan.refused.iter().map(|it| it.error.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(refused(&scope("left", &["qos"]), &quality()), Vec::<String>::new());
    let beyond = refused(&scope("left", &["mirrors"]), &quality());
    assert!(
        beyond[0].starts_with("q writes the column Port.qos, which is not granted"),
        "{beyond:?}"
    );
    let beyond = refused(&scope("right", &["qos"]), &quality());
    assert!(beyond[0].contains("of Port, which other bridges use"), "{beyond:?}");
    let mirror = wanted("Mirror", "m", Row::new());
    assert!(refused(&scope("left", &["qos"]), &[mirror])[0].contains("the table Mirror"));
    let foreign = Row::new().with("queues", Value::map([(0, uuid(2))]));
    let beyond = refused(&scope("left", &["qos"]), &[wanted("QoS", "q", foreign)]);
    assert!(beyond[0].contains("a reference to row 02020202-"), "{beyond:?}");
    let bridge = wanted("Bridge", "b", Row::new().with("name", Value::one("right")));
    let scope = Scope { tables: None, ..scope("left", &[]) };
    assert!(refused(&scope, &[bridge])[0].contains("the bridge right"));
    // A bridge of one's own gives no access to a column of another one.
    let bridge = wanted("Bridge", "b", Row::new().with("name", Value::one("left")));
    let bridge = WantedRow { parent: Some(parent("Bridge", 20, "ports")), ..bridge };
    assert!(refused(&scope, &[bridge])[0].contains("of Bridge, which other bridges use"));
}

#[test]
fn row_that_is_no_longer_granted_is_removed() {
    let scope = Scope { bridges: Some(["right".to_owned()].into()), ..Scope::default() };
    let mut rows = existing();
    rows.push(("Bridge", 10, bridges().remove(0).2));
    let plan = super::reconcile(&image(&rows), &schema(), "app", &[scope], &quality());
    let deleted = plan.removal.iter().filter(|it| matches!(it, Operation::Delete { .. })).count();
    assert_eq!((plan.refused.len(), deleted), (1, 1), "{plan:?}");
}

#[test]
fn row_within_any_scope_is_granted() {
    let table = |name: &str, columns: &[&str]| {
        let columns = columns.iter().map(|it| (*it).to_owned()).collect();
        (name.to_owned(), Columns::Only(columns))
    };
    let scope = |tables: Vec<(String, Columns)>| Scope {
        tables: Some(tables.into_iter().collect()),
        bridges: None,
    };
    let queue = scope(vec![table("Queue", &["name"])]);
    let qos = scope(vec![table("QoS", &["type", "queues"]), table("Port", &["qos"])]);
    let rows = image(&[("Port", 1, port(Value::none()))]);
    let refused = |scopes: &[Scope]| {
        let plan = super::reconcile(&rows, &schema(), "app", scopes, &quality());
        plan.refused.into_iter().map(|it| it.error.to_string()).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(refused(&[queue.clone(), qos]), "");
    let narrow = scope(vec![table("QoS", &["type", "queues"])]);
    assert!(refused(&[narrow, queue]).contains("the column Port.qos"));
    assert!(refused(&[]).contains("the table QoS"));
}

/// Each row refers to the next, and the last one to nothing that is wanted.
#[test]
fn long_chain_is_refused_in_time() {
    let queues = |next: usize| Value::map([(0, Atom::NamedUuid(format!("q{next}")))]);
    let link =
        |it: usize| wanted("QoS", &format!("q{it}"), Row::new().with("queues", queues(it + 1)));
    let rows: Vec<WantedRow> = (0..20_000).map(link).collect();
    let start = std::time::Instant::now();
    let refused = plan(&[], &rows).refused;
    assert_eq!(refused.len(), rows.len());
    let took = start.elapsed();
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}

#[test]
fn many_rows_without_a_mistake_are_grouped_in_time() {
    let row =
        |it: usize| wanted("Queue", &format!("q{it}"), Row::new().with("name", Value::one("s")));
    let rows: Vec<WantedRow> = (0..20_000).map(row).collect();
    let start = std::time::Instant::now();
    let plan = plan(&[], &rows);
    assert_eq!((plan.groups.len(), plan.refused.len()), (rows.len(), 0));
    let took = start.elapsed();
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}
