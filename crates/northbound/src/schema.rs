//! The JSON schemas of answers and bodies: those of `docs/schemas`, which describe what the commands print, and those of this crate's types.

use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::api;

/// Which part of a file describes the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The whole.
    All,
    /// The elements of the list that the file describes.
    Items,
    /// The elements of the list in this member.
    ItemsOf(&'static str),
}

/// Names, and the files that describe the types.
macro_rules! files {
    ($(($name:literal, $file:literal, $part:expr)),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../docs/schemas/", $file, ".schema.json")), $part)),*]
    };
}

const FILES: [(&str, &str, Part); 27] = files![
    ("Status", "status", Part::All),
    ("Usage", "top", Part::Items),
    ("SafeMode", "safe-mode", Part::All),
    ("Switch", "switches", Part::Items),
    ("FullSwitch", "switch", Part::All),
    ("Table", "switch", Part::ItemsOf("tables")),
    ("Port", "ports", Part::Items),
    ("Flow", "flows", Part::Items),
    ("Topology", "topology", Part::All),
    ("Link", "links", Part::Items),
    ("LinkDown", "links-down", Part::Items),
    ("Path", "path", Part::Items),
    ("Host", "hosts", Part::Items),
    ("Stats", "stats", Part::All),
    ("Sample", "stats-history", Part::Items),
    ("History", "history", Part::Items),
    ("HistorySeries", "history-series", Part::Items),
    ("Trace", "trace", Part::All),
    ("Session", "sessions", Part::Items),
    ("Accounts", "accounts", Part::All),
    ("App", "apps", Part::Items),
    ("FullApp", "app", Part::All),
    ("Incident", "incidents", Part::Items),
    ("FullIncident", "incident", Part::All),
    ("LogLine", "logs", Part::All),
    ("Change", "change", Part::All),
    ("ConfigChange", "config-changes", Part::Items),
];

/// Returns all schemas by their names.
pub(crate) fn all() -> Map<String, Value> {
    let mut all = Map::new();
    for (name, text, part) in FILES {
        if let Some(schema) = of_file(text, part) {
            all.insert(name.to_owned(), schema);
        }
    }
    let mut add = |name: &str, schema: RefOr<Schema>| {
        // A schema is data, so it can be written.
        if let Ok(value) = serde_json::to_value(schema) {
            all.insert(name.to_owned(), value);
        }
    };
    add("Checked", schema::<api::Checked>());
    add("Mistake", schema::<api::Mistake>());
    add("Token", schema::<api::Token>());
    add("Live", schema::<api::Live>());
    add("Ready", schema::<api::Ready>());
    add("Who", schema::<api::Who>());
    add("Login", schema::<api::Login>());
    add("NewSession", schema::<api::NewSession>());
    add("Drained", schema::<api::Drained>());
    add("Confirmation", schema::<api::Confirmation>());
    add("Level", schema::<api::Level>());
    add("Reserve", schema::<api::Reserve>());
    all.insert("Logs".into(), logs());
    all.insert("Config".into(), config());
    all.insert("Problem".into(), problem());
    all.insert("Written".into(), written());
    all.insert("Group".into(), owned("group_id", "type", "buckets"));
    all.insert("Meter".into(), owned("meter_id", "flags", "bands"));
    all.insert(
        "FlowEntry".into(),
        entry("A flow, with the names of Ryu's ofctl_rest for OpenFlow 1.3", &["match"]),
    );
    all.insert("GroupEntry".into(), entry("A group: group_id, type, buckets", &[]));
    all.insert("MeterEntry".into(), entry("A meter: meter_id, flags, bands", &[]));
    all
}

fn schema<T: ToSchema + PartialSchema>() -> RefOr<Schema> {
    T::schema()
}

/// Takes a schema out of a file.
fn of_file(text: &str, part: Part) -> Option<Value> {
    let mut whole: Value = serde_json::from_str(text).ok()?;
    let mut schema = match part {
        Part::All => whole,
        Part::Items => whole.get_mut("items")?.take(),
        Part::ItemsOf(member) => {
            let list = whole.get_mut("properties")?.get_mut(member)?;
            let list = match list.get_mut("anyOf") {
                Some(one_of) => {
                    one_of.as_array_mut()?.iter_mut().find(|it| it.get("items").is_some())?
                }
                None => list,
            };
            list.get_mut("items")?.take()
        }
    };
    let members = schema.as_object_mut()?;
    members.remove("$schema");
    members.remove("$id");
    Some(schema)
}

/// What became of a change of flows, groups or meters.
fn written() -> Value {
    json!({
        "type": "object",
        "properties": {
            "state": { "type": "string", "enum": ["applied", "pending"] },
            "priority": { "type": ["integer", "null"], "description": "The priority of an added flow on the switch." },
            "why": { "type": "string", "description": "Why the switch gets the change later." },
        },
        "required": ["state"],
    })
}

/// A group or a meter as a switch has it.
fn owned(id: &str, kind: &str, parts: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            id: { "type": "integer", "minimum": 0, "description": "Its number on the switch." },
            "owner": { "type": "string", "description": "The app that owns it; `other` if someone else made it." },
            "own_id": { "type": "integer", "minimum": 0, "description": "The number by which its owner knows it." },
            kind: { "type": "string", "description": "Its kind, as text." },
            parts: { "type": "array", "items": { "type": "string" }, "description": "Its parts, as text." },
        },
        "required": [id, "owner", "own_id", kind, parts],
    })
}

/// An entry whose members `ofctl` reads; these are objects.
fn entry(about: &str, objects: &[&str]) -> Value {
    let properties: Map<String, Value> =
        objects.iter().map(|name| ((*name).to_owned(), json!({ "type": "object" }))).collect();
    json!({ "type": "object", "description": about, "properties": properties })
}

fn logs() -> Value {
    json!({
        "type": "object",
        "properties": {
            "items": { "type": "array", "items": { "$ref": "#/components/schemas/LogLine" } },
            "next": { "type": "integer", "minimum": 0, "description": "The number at which the next page starts." },
            "end": { "type": "boolean", "description": "Whether no further lines exist now." },
        },
        "required": ["items", "next", "end"],
    })
}

fn config() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file": { "type": ["string", "null"], "description": "The file; null if there is none." },
            "sha256": { "type": "string", "description": "The SHA-256 of the file, for `If-Match`." },
            "toml": { "type": "string", "description": "The text, without its secrets." },
            "redacted": { "type": "array", "items": { "type": "string" }, "description": "The keys whose values are hidden." },
        },
        "required": ["file", "sha256", "toml", "redacted"],
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "Problem details (RFC 9457).",
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "What is wrong." },
            "hint": { "type": "string", "description": "What to do." },
            "change": { "$ref": "#/components/schemas/Change" },
        },
        "required": ["type", "title", "status", "detail", "hint"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_read() {
        let all = all();
        for (name, ..) in FILES {
            assert!(all.contains_key(name), "{name}");
        }
        assert_eq!(all["Switch"]["type"], "object");
        assert_eq!(all["Table"]["type"], "object");
        assert!(all["Who"]["properties"]["role"].is_object(), "{}", all["Who"]);
    }
}
