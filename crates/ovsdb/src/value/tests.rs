use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::BaseType;

const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

fn kind(key: AtomKind, value: Option<AtomKind>, min: usize, max: Option<usize>) -> ColumnType {
    ColumnType { key: BaseType::plain(key), value: value.map(BaseType::plain), min, max }
}

#[test]
fn values_of_each_kind_are_read_and_written() {
    let set = |key| kind(key, None, 0, None);
    let map = kind(AtomKind::String, Some(AtomKind::Integer), 0, None);
    for (json, column) in [
        (json!(5), set(AtomKind::Integer)),
        (json!(i64::MIN), set(AtomKind::Integer)),
        (json!(1.5), set(AtomKind::Real)),
        (json!(true), set(AtomKind::Boolean)),
        (json!("set"), set(AtomKind::String)),
        (json!(["uuid", UUID]), set(AtomKind::Uuid)),
        (json!(["set", []]), set(AtomKind::Integer)),
        (json!(["set", [1, 2]]), set(AtomKind::Integer)),
        (json!(["map", [["a", 1], ["b", 2]]]), map),
    ] {
        let value = Value::read(&json, &column).unwrap();
        assert_eq!(value.to_json(), json);
        value.check(&column).unwrap();
    }
    let one = Value::read(&json!(["set", [5]]), &set(AtomKind::Integer));
    assert_eq!(one, Ok(Value::one(5)), "a set with one atom may have either form");
    let real = Value::read(&json!(-0.0), &set(AtomKind::Real));
    assert_eq!(real, Ok(Value::one(0.0)));
}

#[test]
fn other_kinds_are_errors() {
    let optional = kind(AtomKind::Integer, None, 0, Some(1));
    let map = kind(AtomKind::String, Some(AtomKind::Integer), 0, None);
    for (json, column) in [
        (json!("5"), &optional),
        (json!(1.0), &optional),
        (json!(1u64 << 63), &optional),
        (json!(null), &optional),
        (json!([5]), &optional),
        (json!(["set", 5]), &optional),
        (json!(["set", [["set", []]]]), &optional),
        (json!(["set", [1, 2]]), &optional),
        (json!(["set", [1, 1]]), &optional),
        (json!(["map", []]), &optional),
        (json!(["named-uuid", "x"]), &kind(AtomKind::Uuid, None, 1, Some(1))),
        (json!(["uuid", "550E8400"]), &kind(AtomKind::Uuid, None, 1, Some(1))),
        (json!(["set", []]), &map),
        (json!(["map", [["a"]]]), &map),
        (json!(["map", [["a", "b"]]]), &map),
        (json!(["map", [["a", 1], ["a", 2]]]), &map),
        (json!(["map", {"a": 1}]), &map),
    ] {
        Value::read(&json, column).expect_err(&json.to_string());
    }
}

#[test]
fn difference_is_applied_by_kind() {
    let numbers = kind(AtomKind::Integer, None, 0, None);
    let set = Value::set([1, 2, 3]).apply(Value::set([2, 4]), &numbers);
    assert_eq!(set, Ok(Value::set([1, 3, 4])));
    let optional = kind(AtomKind::Integer, None, 0, Some(1));
    assert_eq!(Value::one(1).apply(Value::one(2), &optional), Ok(Value::one(2)));
    assert_eq!(Value::one(1).apply(Value::none(), &optional), Ok(Value::none()));
    let texts = kind(AtomKind::String, Some(AtomKind::String), 0, None);
    let map = Value::map([("a", "1"), ("b", "2")]);
    let map = map.apply(Value::map([("a", "1"), ("b", "3"), ("c", "4")]), &texts);
    assert_eq!(map, Ok(Value::map([("b", "3"), ("c", "4")])));
    let bounded = kind(AtomKind::Integer, None, 1, Some(2));
    Value::set([1, 2]).apply(Value::one(3), &bounded).expect_err("three elements");
    Value::one(1).apply(Value::one(1), &bounded).expect_err("no element");
}

#[test]
fn uuid_has_one_form() {
    let uuid: Uuid = UUID.parse().unwrap();
    assert_eq!(uuid.to_string(), UUID);
    for wrong in [
        "",
        "550e8400e29b41d4a716446655440000",
        "550e8400-e29b-41d4-a716-44665544000",
        "550e8400-e29b-41d4-a716-44665544000g",
        "550E8400-e29b-41d4-a716-446655440000",
        "550e84000e29b-41d4-a716-446655440000",
        "550e8400-e29b-41d4-a716-4466554400-0",
        "550e8400-e29b-41d4-a716-44665544000\u{e9}",
    ] {
        wrong.parse::<Uuid>().expect_err(wrong);
    }
}

fn json_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|it| json!(it)),
        any::<f64>().prop_map(|it| json!(it)),
        any::<bool>().prop_map(|it| json!(it)),
        Just(json!(null)),
        Just(json!(UUID)),
        prop_oneof!["set", "map", "uuid", "named-uuid", "[a-z]{0,3}"].prop_map(|it| json!(it)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Json::Array))
}

proptest! {
    #[test]
    fn value_that_is_read_is_written_and_read_the_same(
        json in json_value(),
        key in 0..5_usize,
        value in prop::option::of(0..5_usize),
        max in prop::option::of(1..3_usize),
    ) {
        let kinds = [AtomKind::Integer, AtomKind::Real, AtomKind::Boolean, AtomKind::String, AtomKind::Uuid];
        let column = kind(kinds[key], value.map(|it| kinds[it]), 0, max);
        if let Ok(value) = Value::read(&json, &column) {
            prop_assert_eq!(Value::read(&value.to_json(), &column), Ok(value.clone()));
            prop_assert_eq!(value.check(&column), Ok(()));
        }
    }

    #[test]
    fn difference_of_two_sets_leads_from_one_to_the_other(
        a in prop::collection::btree_set(0..20_i64, 0..10),
        b in prop::collection::btree_set(0..20_i64, 0..10),
    ) {
        let numbers = kind(AtomKind::Integer, None, 0, None);
        let difference: Vec<i64> = a.symmetric_difference(&b).copied().collect();
        prop_assert_eq!(Value::set(a).apply(Value::set(difference), &numbers), Ok(Value::set(b)));
    }
}
