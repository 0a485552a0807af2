use super::*;
use crate::schema::Schema;
use crate::value::Atom;

fn schema() -> Schema {
    let uuids = json!({"key": {"type": "uuid", "refTable": "P"}, "min": 0, "max": "unlimited"});
    let texts = json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"});
    Schema::read(&json!({"name": "D", "tables": {"T": {"columns": {
        "name": {"type": "string", "mutable": false},
        "count": {"type": {"key": {"type": "integer", "maxInteger": 9}}},
        "rows": {"type": uuids},
        "ids": {"type": texts},
    }}}}))
    .unwrap()
}

fn fault(operation: Operation) -> String {
    check(&[operation], &schema()).unwrap_err().to_string()
}

fn insert(row: Row, name: &str) -> Operation {
    Operation::Insert { table: "T".into(), row, name: Some(name.into()) }
}

#[test]
fn operations_have_the_form_of_the_specification() {
    let uuid: Uuid = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
    let rows = Value::Set([Atom::NamedUuid("new".into())].into());
    let operations = [
        insert(Row::new().with("name", Value::one("a")), "new"),
        Operation::mutate("T", uuid, Mutation::new("rows", Mutator::Insert, rows)),
        Operation::unless_changed("T", uuid, &Row::new().with("count", Value::one(5))),
        Operation::Select { table: "T".into(), conditions: vec![], columns: vec!["name".into()] },
        Operation::Comment("why".into()),
        Operation::Abort,
    ];
    check(&operations, &schema()).unwrap();
    let id = json!([["_uuid", "==", ["uuid", uuid.to_string()]]]);
    let expected = json!(["D",
        {"op": "insert", "table": "T", "row": {"name": "a"}, "uuid-name": "new"},
        {"op": "mutate", "table": "T", "where": id, "mutations": [["rows", "insert", ["named-uuid", "new"]]]},
        {"op": "wait", "table": "T", "where": id, "columns": ["count"], "until": "==", "rows": [{"count": 5}], "timeout": 0},
        {"op": "select", "table": "T", "where": [], "columns": ["name"]},
        {"op": "comment", "comment": "why"},
        {"op": "abort"},
    ]);
    assert_eq!(parameters("D", &operations), expected);
}

#[test]
fn mistakes_are_found_before_anything_is_sent() {
    let row = Row::new;
    let update = |row| Operation::update("T", Uuid::default(), row);
    let mutate = |column: &str, mutator, value| {
        Operation::mutate("T", Uuid::default(), Mutation::new(column, mutator, value))
    };
    let unknown = Operation::Delete { table: "U".into(), conditions: vec![] };
    assert_eq!(fault(unknown), "operation 0: the server has no table U; correct the name");
    assert!(fault(update(row().with("x", Value::none()))).contains("no column T.x"));
    assert!(fault(update(row().with("name", Value::one("b")))).contains("T.name is set only"));
    assert!(fault(update(row().with("count", Value::one("5")))).contains("expected integer"));
    assert!(fault(update(row().with("count", Value::one(10)))).contains("allows"));
    assert!(fault(mutate("name", Mutator::Insert, Value::one("a"))).contains("T.name is set only"));
    assert!(fault(mutate("ids", Mutator::Add, Value::one(1))).contains("T.ids"));
    assert!(fault(mutate("count", Mutator::Add, Value::one("a"))).contains("T.count"));
    assert!(fault(insert(row(), "a-b")).contains("a-b has other characters"));
    let named = Value::Set([Atom::NamedUuid("x".into())].into());
    assert!(fault(insert(row().with("rows", named), "a")).contains("x is of no row"));
    let twice = [insert(row(), "a"), insert(row(), "a")];
    assert!(check(&twice, &schema()).unwrap_err().to_string().contains("occurs twice"));
    let many = vec![Operation::Abort; MAX_OPERATIONS + 1];
    assert_eq!(check(&many, &schema()), Err(TransactionError::TooMany(MAX_OPERATIONS + 1)));
}

#[test]
fn map_loses_pairs_or_keys() {
    let delete = |value| {
        let mutation = Mutation::new("ids", Mutator::Delete, value);
        check(&[Operation::mutate("T", Uuid::default(), mutation)], &schema())
    };
    delete(Value::set(["key"])).unwrap();
    delete(Value::map([("key", "value")])).unwrap();
    delete(Value::set([5])).unwrap_err();
}
