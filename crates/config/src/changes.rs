//! Compares two texts of the configuration key by key, for audit records.
//!
//! A key is a path such as `app.firewall.limits.memory`; elements of an array of tables have their names. Secrets are compared and
//! never shown. Order, comments and the form of values do not matter.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::reserved::{REDACTED, shown};

/// Most characters of a key, and of a value.
const LONGEST: usize = 100;

/// The value of each key of a text, by the parts of its path.
type Values = BTreeMap<Vec<String>, String>;

/// Returns the keys whose values differ, each as `KEY OLD -> NEW`. A value is `none` where the key is missing.
///
/// # Errors
/// Why a text is not TOML.
pub fn changes(old: &str, new: &str) -> Result<Vec<String>, String> {
    let (old, new) = (values(old)?, values(new)?);
    let mut keys: Vec<&Vec<String>> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.retain(|key| old.get(*key) != new.get(*key));
    let change = |key: &Vec<String>| {
        let value = |of: &Values| match of.get(key) {
            None => "none".to_owned(),
            Some(_) if is_secret(key) => REDACTED.to_owned(),
            Some(value) => shortened(value),
        };
        let name: Vec<String> = key.iter().map(|part| word(part)).collect();
        format!("{} {} -> {}", shortened(&name.join(".")), value(&old), value(&new))
    };
    Ok(keys.into_iter().map(change).collect())
}

fn values(text: &str) -> Result<Values, String> {
    let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let mut found = Values::new();
    for (key, value) in table.get_ref() {
        collect(vec![key.get_ref().to_string()], value.get_ref(), &mut found);
    }
    Ok(found)
}

fn collect(path: Vec<String>, value: &DeValue<'_>, found: &mut Values) {
    let below = |part: &str| [path.as_slice(), &[part.to_owned()]].concat();
    match value {
        DeValue::Table(table) => {
            for (key, value) in table {
                collect(below(key.get_ref()), value.get_ref(), found);
            }
        }
        DeValue::Array(list) if list.iter().any(|it| it.get_ref().as_table().is_some()) => {
            for (place, element) in list.iter().enumerate() {
                let table = element.get_ref().as_table();
                let name = table.and_then(|it| it.get("name")?.get_ref().as_str());
                let name = name.map_or_else(|| format!("#{place}"), str::to_owned);
                collect(below(&name), element.get_ref(), found);
            }
        }
        value => drop(found.insert(path, shown(value))),
    }
}

/// Whether a key is that of an environment variable of an app.
fn is_secret(key: &[String]) -> bool {
    match key {
        [app, _, table, ..] if app == "app" && table == "env" => true,
        [app, _, table, option, ..] if app == "app" && table == "options" => {
            option.starts_with("env.")
        }
        _ => false,
    }
}

/// A part of a path, in quotes unless TOML needs none.
fn word(part: &str) -> String {
    let is_bare = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '#');
    if !part.is_empty() && part.chars().all(is_bare) {
        part.to_owned()
    } else {
        format!("{part:?}")
    }
}

fn shortened(text: &str) -> String {
    let mut start: String = text.chars().take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        start.push_str("...");
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"
[controller]
workers = 1
[[app]]
name = "a"
enabled = true
env = { PASSWORD = "secret", "odd name" = "hidden" }
[[app]]
name = "b"
host = "ryu"
options = { "env.KEY" = "hidden", verbose = "1" }
"#;

    #[test]
    fn changed_keys_have_both_values() {
        let new = OLD
            .replace("workers = 1", "workers = 2 # more\nplain = \"any\"")
            .replace("enabled = true", "enabled = false")
            .replace("verbose = \"1\"", "verbose = \"a\\u001b -> b\"");
        let expected = [
            "app.a.enabled true -> false",
            r#"app.b.options.verbose "1" -> "a\u{1b} -> b""#,
            r#"controller.plain none -> "any""#,
            "controller.workers 1 -> 2",
        ];
        assert_eq!(changes(OLD, &new).unwrap(), expected);
        assert!(changes("a = ", OLD).is_err());
    }

    #[test]
    fn order_and_form_of_a_text_do_not_matter() {
        let (controller, apps) = OLD.split_at(OLD.find("[[app]]").unwrap());
        let new = format!("{apps}\n# moved\n{controller}").replace("\"ryu\"", "'ryu'");
        assert_eq!(changes(OLD, &new).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn secrets_are_not_shown() {
        let new = OLD.replace("secret", "other").replace("hidden", "shown");
        let expected = [
            "app.a.env.PASSWORD (redacted) -> (redacted)",
            "app.a.env.\"odd name\" (redacted) -> (redacted)",
            "app.b.options.\"env.KEY\" (redacted) -> (redacted)",
        ];
        assert_eq!(changes(OLD, &new).unwrap(), expected);
        let without = changes(OLD, "").unwrap().join("; ");
        assert!(without.contains("app.a.env.PASSWORD (redacted) -> none"), "{without}");
        assert!(!without.contains("secret") && !without.contains("hidden"), "{without}");
    }

    #[test]
    fn long_keys_and_values_are_cut() {
        let new = format!("{} = \"{}\"", "k".repeat(500), "v".repeat(50_000));
        let changes = changes("", &new).unwrap();
        assert_eq!(changes.len(), 1);
        assert!(changes[0].len() < 3 * LONGEST && changes[0].ends_with("vv..."), "{changes:?}");
    }
}
