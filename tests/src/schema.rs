//! Checks JSON against the schemas of `docs/schemas/`.
//!
//! It knows the few keywords of JSON Schema (draft 2020-12) that these files use, and fails for any other, so that no rule is
//! passed over.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Keywords that are only for readers.
const NOTES: [&str; 4] = ["$schema", "$id", "title", "description"];

/// Checks that `json` is valid by the schema `name`.
///
/// # Errors
/// The schema is missing or uses an unknown keyword, or the JSON is not valid; the error names the place.
pub fn check(name: &str, json: &str) -> anyhow::Result<()> {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/schemas/{name}.schema.json"));
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let schema: Value = serde_json::from_str(&text)?;
    let version = schema["$id"].as_str().and_then(|id| id.strip_prefix("urn:rosemary:"));
    ensure!(version == Some(format!("{name}:1").as_str()), "$id is {version:?}");
    let value: Value = serde_json::from_str(json)?;
    valid(&schema, &value, name).with_context(|| format!("{name}: {json}"))
}

fn valid(schema: &Value, value: &Value, place: &str) -> anyhow::Result<()> {
    let rules = schema.as_object().context("a schema is an object")?;
    for (keyword, rule) in rules {
        match keyword.as_str() {
            "type" => {
                let types = rule.as_array().map_or_else(|| vec![rule], |all| all.iter().collect());
                let fits = types.iter().any(|it| it.as_str().is_some_and(|it| has_type(value, it)));
                ensure!(fits, "{place} is {value}; expected {rule}");
            }
            "enum" => {
                let all = rule.as_array().context("a list")?;
                ensure!(all.contains(value), "{place} is {value}; expected one of {rule}");
            }
            "minimum" => {
                let (least, number) = (rule.as_f64().context("a number")?, value.as_f64());
                ensure!(number.is_none_or(|number| number >= least), "{place} is {value}");
            }
            "minItems" | "maxItems" => {
                let limit = usize::try_from(rule.as_u64().context("a number")?)?;
                let len = value.as_array().map_or(limit, Vec::len);
                let fits = if keyword == "minItems" { len >= limit } else { len <= limit };
                ensure!(fits, "{place} has {len} elements");
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    valid(rule, item, &format!("{place}[{i}]"))?;
                }
            }
            "properties" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    let Some(schema) = rule.get(key) else { continue };
                    valid(schema, value, &format!("{place}.{key}"))?;
                }
            }
            "required" => {
                for key in rule.as_array().context("a list")? {
                    let key = key.as_str().context("a name")?;
                    let object = value.as_object();
                    ensure!(object.is_none_or(|it| it.contains_key(key)), "{place} lacks {key}");
                }
            }
            "additionalProperties" => {
                let known = rules.get("properties");
                let fields = value.as_object().into_iter().flatten();
                for (key, field) in
                    fields.filter(|(key, _)| known.is_none_or(|it| it.get(key).is_none()))
                {
                    let place = format!("{place}.{key}");
                    ensure!(
                        rule.is_object(),
                        "{place} is not in the schema; add it to docs/schemas"
                    );
                    valid(rule, field, &place)?;
                }
            }
            keyword => {
                ensure!(
                    NOTES.contains(&keyword),
                    "{place}: the keyword {keyword} is not supported"
                );
            }
        }
    }
    Ok(())
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_mistake_is_found() {
        let schema: Value = serde_json::from_str(
            r#"{"type":"object","properties":{"a":{"type":["integer","null"],"minimum":0},
            "b":{"type":"array","items":{"enum":["x"]},"maxItems":1}},"required":["a"],
            "additionalProperties":false}"#,
        )
        .unwrap();
        let check = |json: &str| {
            let value = serde_json::from_str(json).unwrap();
            valid(&schema, &value, "top").map_err(|error| error.to_string())
        };
        assert_eq!(check(r#"{"a":1,"b":["x"]}"#), Ok(()));
        assert_eq!(check(r#"{"a":null}"#), Ok(()));
        for (json, part) in [
            ("[]", "top is []"),
            ("{}", "top lacks a"),
            (r#"{"a":"1"}"#, "top.a is"),
            (r#"{"a":-1}"#, "top.a is -1"),
            (r#"{"a":1,"b":["y"]}"#, "top.b[0]"),
            (r#"{"a":1,"b":["x","x"]}"#, "top.b has 2"),
            (r#"{"a":1,"c":1}"#, "top.c is not in the schema"),
        ] {
            assert!(check(json).unwrap_err().contains(part), "{json}");
        }
        let of_numbers = serde_json::json!({ "additionalProperties": { "type": "integer" } });
        let check = |json| valid(&of_numbers, &json, "top");
        assert!(check(serde_json::json!({ "any": 1 })).is_ok());
        assert!(check(serde_json::json!({ "any": "1" })).is_err());
        let unknown = serde_json::json!({ "pattern": "a" });
        assert!(valid(&unknown, &Value::Null, "top").is_err());
    }
}
