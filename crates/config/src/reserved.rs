//! What nobody can change over the HTTP interface, whatever the role: keys by which an attacker would leave the sandbox, run other code
//! or grant rights. And what the interface never shows.
//!
//! Two texts are compared by the values of the reserved keys, so their form and order do not matter. Apps are known by their names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use control::hosting::Hosting;
use toml::de::{DeTable, DeValue};

use super::{Config, ConfigError};

/// The tables that are reserved as a whole.
const TABLES: [&str; 3] = ["trust", "northbound", "ovsdb"];

/// The keys that are reserved in every table.
const KEYS: [&str; 11] = [
    "object",
    "config",
    "python-path",
    "listen",
    "tls-dir",
    "runtime-dir",
    "state-dir",
    "plain",
    "require",
    "env",
    "options",
];

/// The capabilities that are reserved.
const CAPABILITIES: [&str; 4] = ["experimenter", "fs.read", "net.connect", "ovsdb.write"];

/// The text that the interface shows instead of a secret.
pub const REDACTED: &str = "(redacted)";

/// Returns `text` without its secrets, and the names of their keys. Secrets are the values of environment variables of apps.
///
/// # Errors
/// Why the text is not TOML.
pub fn redact(text: &str) -> Result<(String, Vec<String>), String> {
    let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let mut secrets = secrets(table.get_ref());
    // From the end, so that earlier positions stay right.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.span.start));
    let mut shown = text.to_owned();
    let mut names = Vec::new();
    for secret in secrets {
        shown.replace_range(secret.span.clone(), &format!("{REDACTED:?}"));
        names.push(secret.name);
    }
    names.reverse();
    Ok((shown, names))
}

/// Returns `new` with the secrets of `old` where it has [`REDACTED`].
///
/// # Errors
/// Why a text is not TOML.
pub fn restore(new: &str, old: &str) -> Result<String, String> {
    let parse = |text| DeTable::parse(text).map_err(|error| error.message().to_owned());
    let (new_table, old_table) = (parse(new)?, parse(old)?);
    let known: BTreeMap<String, &str> = secrets(old_table.get_ref())
        .into_iter()
        .filter_map(|it| Some((it.name, old.get(it.span)?)))
        .collect();
    let mut hidden = secrets(new_table.get_ref());
    hidden.retain(|it| {
        new.get(it.span.clone()).is_some_and(|it| it.trim_matches(['"', '\'']) == REDACTED)
    });
    hidden.sort_by_key(|secret| std::cmp::Reverse(secret.span.start));
    let mut restored = new.to_owned();
    for secret in hidden {
        if let Some(value) = known.get(&secret.name) {
            restored.replace_range(secret.span, value);
        }
    }
    Ok(restored)
}

/// Returns the reserved keys whose values differ between two texts.
///
/// # Errors
/// Why a text is not TOML.
pub fn differing(old: &str, new: &str) -> Result<Vec<String>, String> {
    let parse = |text| DeTable::parse(text).map_err(|error| error.message().to_owned());
    let (old, new) = (parse(old)?, parse(new)?);
    let (old, new) = (reserved(old.get_ref()), reserved(new.get_ref()));
    let mut keys: Vec<String> = old.keys().chain(new.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    keys.retain(|key| old.get(key) != new.get(key));
    Ok(keys)
}

/// Reads `new`, which is to replace the file `path` with the content `old`.
///
/// # Errors
/// All its mistakes, or [`ConfigError::Reserved`]: it changes what is reserved.
pub fn successor(path: PathBuf, old: &str, new: &str) -> Result<Config, Vec<ConfigError>> {
    let refused = |what| vec![ConfigError::Reserved { path: path.clone(), what }];
    let not_toml = |why: String| refused(format!("it is not TOML: {why}"));
    // A text that is no configuration gets the usual messages, with their lines.
    Config::parse_all(path.clone(), new.to_owned())?;
    let new = restore(new, old).map_err(not_toml)?;
    let keys = differing(old, &new).map_err(not_toml)?;
    if !keys.is_empty() {
        return Err(refused(format!(
            "it changes {}, which only the file itself can change; edit {} on the machine, then reload",
            keys.join(", "),
            path.display()
        )));
    }
    Config::parse_all(path, new)
}

/// A secret in a text.
struct Secret {
    name: String,
    span: std::ops::Range<usize>,
}

fn secrets(top: &DeTable<'_>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for (name, app) in apps(top) {
        let table = |key| app.get(key).and_then(|it| it.get_ref().as_table());
        for (variable, value) in table("env").into_iter().flatten() {
            let variable = variable.get_ref();
            secrets.push(Secret { name: format!("app.{name}.env.{variable}"), span: value.span() });
        }
        let options = table("options").into_iter().flatten();
        for (option, value) in options.filter(|(it, _)| it.get_ref().starts_with("env.")) {
            let option = option.get_ref();
            secrets
                .push(Secret { name: format!("app.{name}.options.{option}"), span: value.span() });
        }
    }
    secrets
}

/// The tables of apps, by their names.
fn apps<'a>(top: &'a DeTable<'a>) -> impl Iterator<Item = (String, &'a DeTable<'a>)> {
    let apps = top.get("app").and_then(|it| it.get_ref().as_array());
    let tables = apps.into_iter().flatten().filter_map(|it| it.get_ref().as_table());
    tables.enumerate().map(|(place, app)| {
        let name = app.get("name").and_then(|it| it.get_ref().as_str());
        (name.map_or_else(|| format!("#{place}"), str::to_owned), app)
    })
}

/// The reserved keys with their values.
fn reserved(top: &DeTable<'_>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (key, value) in top {
        let key: &str = key.get_ref();
        if TABLES.contains(&key) {
            found.insert(key.to_owned(), shown(value.get_ref()));
        } else if key != "app" {
            collect(key, value.get_ref(), &mut found);
        }
    }
    for (name, app) in apps(top) {
        for (key, value) in app {
            let (key, value): (&str, _) = (key.get_ref(), value.get_ref());
            let path = format!("app.{name}.{key}");
            let host = value.as_str().filter(|_| key == "host").and_then(Hosting::named);
            if let Some(host) = host.filter(|it| it.is_in_kernel()) {
                found.insert(path, host.name.into());
            } else if key == "capabilities" {
                let reserved = value.as_array().into_iter().flatten().map(|it| shown(it.get_ref()));
                let mut reserved: Vec<String> = reserved.filter(|it| is_reserved(it)).collect();
                reserved.sort();
                if !reserved.is_empty() {
                    found.insert(path, reserved.join(" "));
                }
            } else if KEYS.contains(&key) {
                found.insert(path, shown(value));
            } else {
                collect(&path, value, &mut found);
            }
        }
    }
    found
}

fn is_reserved(capability: &str) -> bool {
    CAPABILITIES.iter().any(|reserved| capability.contains(reserved))
}

/// Adds the reserved keys below `value`.
fn collect(path: &str, value: &DeValue<'_>, found: &mut BTreeMap<String, String>) {
    let Some(table) = value.as_table() else { return };
    for (key, value) in table {
        let (key, value): (&str, _) = (key.get_ref(), value.get_ref());
        let path = format!("{path}.{key}");
        if KEYS.contains(&key) {
            found.insert(path, shown(value));
        } else {
            collect(&path, value, found);
        }
    }
}

/// Formats a value so that equal values have equal texts.
pub(super) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Array(list) => {
            let elements: Vec<String> = list.iter().map(|it| shown(it.get_ref())).collect();
            format!("[{}]", elements.join(","))
        }
        DeValue::Table(table) => {
            let mut entries: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{:?}={}", key.get_ref(), shown(value.get_ref())))
                .collect();
            entries.sort();
            format!("{{{}}}", entries.join(","))
        }
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(date) => date.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"
[controller]
workers = 1
state-dir = "/s"
[northbound]
api = "127.0.0.1:1"
[[trust]]
name = "acme"
[[app]]
name = "a"
object = "/lib/a.so"
env = { PASSWORD = "secret", MODE = "x" }
capabilities = ["packet-in", "net.connect:db:1"]
[[app]]
name = "b"
host = "kernel"
[[app]]
name = "f"
host = "ryu"
options = { "env.KEY" = "hidden", verbose = "1" }
"#;

    #[test]
    fn harmless_changes_differ_in_nothing_reserved() {
        for (from, to) in [
            ("workers = 1", "workers = 2"),
            ("\"packet-in\", ", ""),
            ("name = \"a\"\n", "name = \"a\"\nenabled = false\n"),
            ("[\"packet-in\", \"net.connect:db:1\"]", "[ \"net.connect:db:1\", 'packet-in' ]"),
        ] {
            let new = OLD.replace(from, to);
            assert_ne!(new, OLD);
            assert_eq!(differing(OLD, &new), Ok(Vec::new()), "{to}");
        }
    }

    #[test]
    fn each_reserved_key_is_found() {
        for (from, to, key) in [
            ("/s\"", "/t\"", "controller.state-dir"),
            ("workers = 1", "workers = 1\nplain = \"any\"", "controller.plain"),
            ("workers = 1", "workers = 1\ntls-dir = \"/k\"", "controller.tls-dir"),
            ("[controller]", "[zones]\nrequire = \"full\"\n[controller]", "zones.require"),
            ("127.0.0.1:1", "0.0.0.0:1", "northbound"),
            ("acme", "evil", "trust"),
            ("/lib/a.so", "/lib/b.so", "app.a.object"),
            ("object = \"/lib/a.so\"\n", "", "app.a.object"),
            ("name = \"a\"\n", "name = \"a\"\nconfig = \"/etc/shadow\"\n", "app.a.config"),
            ("name = \"a\"\n", "name = \"a\"\npython-path = [\"/root\"]\n", "app.a.python-path"),
            ("name = \"a\"\n", "name = \"a\"\nlisten = [\"0.0.0.0:80\"]\n", "app.a.listen"),
            ("workers = 1", "workers = 1\nlisten = [\"0.0.0.0:6653\"]", "controller.listen"),
            ("secret", "other", "app.a.env"),
            ("net.connect:db:1", "net.connect:db:2", "app.a.capabilities"),
            ("\"packet-in\"", "\"fs.read:/etc/shadow\"", "app.a.capabilities"),
            ("\"packet-in\"", "{ experimenter = { ids = [1] } }", "app.a.capabilities"),
            ("verbose = \"1\"", "ca-certs = \"/k\"", "app.f.options"),
            ("host = \"kernel\"", "host = \"user\"", "app.b.host"),
            ("name = \"a\"\n", "name = \"a\"\nhost = \"kernel\"\n", "app.a.host"),
            ("name = \"b\"", "name = \"c\"", "app.b.host"),
        ] {
            let keys = differing(OLD, &OLD.replace(from, to)).unwrap();
            assert!(keys.iter().any(|it| it == key), "{to}: {keys:?}");
        }
        let new_app = format!("{OLD}[[app]]\nname = \"x\"\nobject = \"/tmp/x.so\"\n");
        assert_eq!(differing(OLD, &new_app).unwrap(), ["app.x.object"]);
    }

    #[test]
    fn secrets_are_hidden_and_come_back() {
        let (shown, names) = redact(OLD).unwrap();
        assert!(
            !shown.contains("secret") && shown.contains("PASSWORD = \"(redacted)\""),
            "{shown}"
        );
        assert!(!shown.contains("hidden") && shown.contains("verbose = \"1\""), "{shown}");
        assert_eq!(names, ["app.a.env.PASSWORD", "app.a.env.MODE", "app.f.options.env.KEY"]);
        assert_eq!(restore(&shown, OLD).unwrap(), OLD);
        assert_eq!(differing(OLD, &shown).unwrap(), ["app.a.env", "app.f.options"]);
        assert!(redact("a = ").is_err());
    }
}
