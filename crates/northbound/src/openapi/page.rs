//! Writes `docs/rest.md`, all requests of the API, from its description.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::describe;

const HEAD: &str = "# All requests of the HTTP interface

Made from the OpenAPI description, which `GET /api/v1/openapi.json` serves with the whole schemas. [The HTTP interface](northbound.md)
explains tokens, roles, pages and events. A wrong request gets problem details (RFC 9457), whose `hint` says what to do.
";

/// The text of a value that is one.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The type of a parameter: its bounds, words or form.
fn form(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{}`", text(word))).collect();
        return words.join(", ");
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        return format!(
            "text such as `{}`",
            if pattern.contains("{7}") { "00:00:00:00:00:00:00:01" } else { pattern }
        );
    }
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Null, Value::Null) => text(&schema["type"]).replace("string", "text"),
        (least, Value::Null) => format!("number from {least}"),
        (least, most) => format!("number from {least} to {most}"),
    }
}

/// The name of a content's schema, or its media type.
fn content(content: &Value) -> String {
    let Some((media, content)) = content.as_object().and_then(|it| it.iter().next()) else {
        return "nothing".to_owned();
    };
    let schema = &content["schema"];
    let name = |it: &Value| text(&it["$ref"]).rsplit('/').next().unwrap_or_default().to_owned();
    let items = &schema["properties"]["items"]["items"];
    if items.is_object() {
        return format!("a page of `{}`", name(items));
    }
    let own = name(schema);
    if own.is_empty() { format!("`{media}`") } else { format!("`{own}`") }
}

fn operation(out: &mut String, method: &str, path: &str, operation: &Value) {
    let role =
        operation["x-role"].as_str().map_or("no token".to_owned(), |it| format!("role {it}"));
    let _ = writeln!(out, "\n### `{} {path}`\n", method.to_uppercase());
    let _ = writeln!(out, "{} ({role}).", text(&operation["summary"]).trim_end_matches('.'));
    let parameters = operation["parameters"].as_array().map_or(&[][..], |it| it);
    if !parameters.is_empty() {
        out.push_str("\n| parameter | in | form | meaning |\n| --- | --- | --- | --- |\n");
    }
    for it in parameters {
        let required = if it["required"] == true && it["in"] != "path" { ", required" } else { "" };
        let (name, place) = (text(&it["name"]), text(&it["in"]));
        let (form, about) = (form(&it["schema"]), text(&it["description"]).replace('|', "\\|"));
        let _ = writeln!(out, "| `{name}` | {place}{required} | {form} | {about} |");
    }
    let body = &operation["requestBody"];
    if body.is_object() {
        let _ = writeln!(out, "\nBody: {}.", content(&body["content"]));
    }
    let Some(responses) = operation["responses"].as_object() else { return };
    let is_problem = |it: &Value| it["content"]["application/problem+json"].is_object();
    out.push('\n');
    for (status, response) in responses.iter().filter(|(_, it)| !is_problem(it)) {
        let about = text(&response["description"]).trim_end_matches('.');
        let _ = writeln!(out, "* {status}: {}. {about}.", content(&response["content"]));
    }
    let problems: Vec<&str> =
        responses.iter().filter(|(_, it)| is_problem(it)).map(|(status, _)| &**status).collect();
    let _ = writeln!(out, "* Problems: {}.", problems.join(", "));
}

fn page() -> String {
    let document = describe(&crate::api::routes());
    let mut groups: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, it) in item.as_object().into_iter().flatten() {
            let group = groups.entry(text(&it["tags"][0]).to_owned()).or_default();
            operation(group, method, path, it);
        }
    }
    let mut out = HEAD.to_owned();
    for (name, group) in groups {
        let _ = write!(out, "\n## {name}\n{group}");
    }
    out
}

#[test]
fn page_has_every_request() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rest.md");
    let made = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &made).unwrap();
        return;
    }
    let present = std::fs::read_to_string(&file).unwrap();
    assert!(
        present == made,
        "docs/rest.md differs; type: UPDATE_DOCS=1 cargo test -p rosemary-northbound --lib page_has"
    );
}
