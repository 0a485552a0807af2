use serde_json::json;

use super::*;

fn read(column: &Json) -> Result<ColumnSchema, String> {
    let json = json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {"c": column}, "isRoot": true}}});
    let schema = Schema::read(&json).map_err(|error| error.to_string())?;
    Ok(schema.column("T", "c").unwrap().clone())
}

#[test]
fn types_and_constraints_are_read() {
    let mode = read(&json!({"type": {"key": {"type": "string", "enum": ["set", ["secure", "standalone"]]}, "min": 0}})).unwrap();
    assert_eq!(mode.kind.default_value(), Value::none());
    Value::one("secure").check(&mode.kind).unwrap();
    let error = Value::one("open").check(&mode.kind).unwrap_err().to_string();
    assert_eq!(error, "the schema allows only secure, standalone");

    let tag = read(&json!({"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 4095}}, "mutable": false})).unwrap();
    assert!(!tag.mutable);
    assert_eq!(tag.kind.default_value(), Value::one(0));
    let error = Value::one(4096).check(&tag.kind).unwrap_err().to_string();
    assert_eq!(error, "the schema allows 0 to 4095");
    let error = Value::set([1, 2]).check(&tag.kind).unwrap_err().to_string();
    assert_eq!(error, "it has 2 elements, and the schema allows 1 to 1");

    let name = read(&json!({"type": {"key": {"type": "string", "minLength": 1, "maxLength": 2}}}))
        .unwrap();
    Value::one("\u{e9}\u{e9}").check(&name.kind).expect("characters count, not bytes");
    Value::one("").check(&name.kind).unwrap_err();
    let real = read(&json!({"type": {"key": {"type": "real", "minReal": 0.5}}})).unwrap();
    Value::one(0.25).check(&real.kind).unwrap_err();
    Value::one(f64::INFINITY).check(&real.kind).unwrap_err();
    let map = read(&json!({"type": {"key": "string", "value": "integer"}})).unwrap();
    assert_eq!(map.kind.default_value(), Value::map([("", 0)]));
}

#[test]
fn mistake_is_named_with_its_table_and_column() {
    for (column, expected) in [
        (json!({"type": "text"}), "T.c: its type is unknown"),
        (json!({"type": {"key": "string", "min": 2}}), "T.c: `min` and `max` allow no value"),
        (json!({"type": {"key": "string", "max": 0}}), "T.c: `min` and `max` allow no value"),
        (json!({"type": {"key": "string", "max": "many"}}), "T.c: `max` is a string"),
        (
            json!({"type": {"key": {"type": "string", "enum": 5}}}),
            "T.c: expected string, found an integer",
        ),
        (json!({"type": "string", "mutable": 1}), "T.c: `mutable` is an integer"),
        (json!([]), "T.c: expected an object, found an array"),
        (json!({}), "T.c: expected an object, found null"),
    ] {
        let error = read(&column).unwrap_err();
        let expected = format!("the server's schema is not one: {expected}; update the server");
        assert_eq!(error, expected, "{column}");
    }
}

#[test]
fn names_are_bounded() {
    let long = "x".repeat(10_000);
    let json = json!({"name": "D", "tables": {long: {"columns": {}}}});
    assert!(Schema::read(&json).unwrap_err().to_string().len() < 200);
    Schema::read(&json!({"name": "D", "tables": {"a-b": {"columns": {}}}})).unwrap_err();
    Schema::read(&json!({"name": "", "tables": {}})).unwrap_err();
}
