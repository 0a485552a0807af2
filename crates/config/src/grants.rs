//! Reads capabilities: by their names, or with a scope.
//!
//! ```toml
//! capabilities = [
//!     "packet-in",
//!     { flow.write = { dpids = ["00:00:00:00:00:00:00:01"], tables = [0, 1] } },
//!     { experimenter = ["nicira"] },
//!     { experimenter = { ids = [0x2320], dpids = ["00:00:00:00:00:00:00:01"] } },
//! ]
//! ```
//!
//! TOML reads `flow.write` as a table in a table, and `"flow.write"` as one name; both are accepted.

use control::policy::{Capability, Grant, TableSet};

use super::value::{Value, read_each};
use super::words::{DPIDS, dpid};

/// The capability whose scope has ids.
const EXPERIMENTER: &str = "experimenter";

/// Describes a capability with a scope, for error messages.
const SCOPED: &str = "a capability with its scope, such as { flow.write = { dpids = [\"00:00:00:00:00:00:00:01\"], \
                      tables = [0] } }";

/// Returns the capability with this name.
pub(super) fn capability(text: &str) -> Option<Capability> {
    if let Some(name) = text.strip_prefix("experimenter:") {
        let id = match name.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => experimenter(name),
        };
        return id.map(Capability::Experimenter);
    }
    Capability::NAMED.iter().find(|(name, _)| *name == text).map(|(_, capability)| *capability)
}

/// Experimenters with a name, and their ids.
const EXPERIMENTERS: [(&str, u32); 2] =
    [("nicira", openflow::nicira::NICIRA), ("onf", openflow::ONF)];

/// Returns the id of the experimenter with this name.
fn experimenter(name: &str) -> Option<u32> {
    EXPERIMENTERS.iter().find(|(known, _)| *known == name).map(|(_, id)| *id)
}

/// Lists all capabilities, for error messages.
pub(super) fn known() -> String {
    let names: Vec<String> =
        Capability::NAMED.iter().map(|(name, _)| format!("{name:?}")).collect();
    format!("{}, \"experimenter:0x00002320\" (with its id), {SCOPED}", names.join(", "))
}

/// Reads a capability with a scope: one grant, or one for each experimenter. Returns `None` if it is refused.
pub(super) fn scoped(value: &Value<'_>) -> Option<Vec<Grant>> {
    let (name, scope) = named(value)?;
    let mut keys = vec!["dpids"];
    if name == EXPERIMENTER {
        keys.push("ids");
    }
    let known = capability(&name);
    if known.is_some_and(Capability::has_tables) {
        keys.push("tables");
    }
    let what = format!("a scope in braces with the keys {}", keys.join(", "));
    if let (EXPERIMENTER, Some(ids)) = (&name[..], scope.elements()) {
        return granted_everywhere(&scope, &ids);
    }
    if !scope.is_table() {
        scope.refuse_as(format!("the scope of {name} is no table; expected {what}"));
        return None;
    }
    let before = value.findings.count();
    let table = scope.table(&format!("the scope of {name}"), &keys)?;
    let dpids = table.list("dpids", DPIDS, dpid);
    let number = |it: &Value<'_>| it.number().filter(|it| *it < TableSet::ALL.into());
    let tables = table.list("tables", "numbers of flow tables, 0 to 254", |it| {
        number(it).and_then(|it| u8::try_from(it).ok())
    });
    let ids = table.list("ids", IDS, id);
    for (key, len) in [
        ("dpids", dpids.as_ref().map(Vec::len)),
        ("tables", tables.as_ref().map(Vec::len)),
        ("ids", ids.as_ref().map(Vec::len)),
    ] {
        if let (Some(0), Some(list)) = (len, table.get(key)) {
            list.refuse_as(format!(
                "{key} of {name} is an empty list, which grants nothing; remove the capability, or name some"
            ));
        }
    }
    if value.findings.count() > before {
        return None;
    }
    let capabilities: Vec<Capability> = match (known, ids) {
        (Some(known), _) => vec![known],
        (None, Some(ids)) => ids.into_iter().map(Capability::Experimenter).collect(),
        (None, None) => {
            scope.refuse_as("experimenter without ids; expected ids = [0x2320] in its braces");
            return None;
        }
    };
    if known.is_some() && dpids.is_none() && tables.is_none() {
        scope.refuse_as(format!(
            "the scope of {name} is empty; write \"{name}\" for all switches, or expected {what}"
        ));
        return None;
    }
    let (mut dpids, mut tables) = (dpids.unwrap_or_default(), tables.unwrap_or_default());
    dpids.sort_unstable();
    dpids.dedup();
    tables.sort_unstable();
    tables.dedup();
    let grant = |capability| Grant { capability, dpids: dpids.clone(), tables: tables.clone() };
    Some(capabilities.into_iter().map(grant).collect())
}

/// Describes the id of an experimenter, for error messages.
const IDS: &str = "numbers of experimenters such as 0x2320, or nicira, or onf";

/// Reads the id of an experimenter: a number or a name.
fn id(value: &Value<'_>) -> Option<u32> {
    match value.text() {
        Some(name) => experimenter(name),
        None => u32::try_from(value.number()?).ok(),
    }
}

/// Reads `experimenter = ["nicira"]`: grants for all switches.
fn granted_everywhere(list: &Value<'_>, ids: &[Value<'_>]) -> Option<Vec<Grant>> {
    if ids.is_empty() {
        list.refuse_as(
            "experimenter is an empty list, which grants nothing; remove it, or name some",
        );
        return None;
    }
    let ids = read_each(ids, IDS, id)?;
    Some(ids.into_iter().map(|id| Capability::Experimenter(id).into()).collect())
}

/// Returns name and scope of a capability in braces, or refuses it.
fn named<'a>(value: &Value<'a>) -> Option<(String, Value<'a>)> {
    let names = || Capability::NAMED.iter().map(|(name, _)| *name).chain([EXPERIMENTER]);
    let mut name = String::new();
    let mut scope = *value;
    loop {
        let Some((key, inner)) = scope.only_entry() else {
            value.refuse(SCOPED);
            return None;
        };
        name = if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        scope = inner;
        // `packet-out` is a capability, and `packet-out.reserved` too.
        let goes_on = |scope: &Value<'_>| {
            let (key, _) = scope.only_entry()?;
            let longer = format!("{name}.{key}");
            let is_prefix = |known: &str| {
                known.strip_prefix(&longer).is_some_and(|it| it.is_empty() || it.starts_with('.'))
            };
            Some(names().any(is_prefix))
        };
        if goes_on(&scope) == Some(true) {
            continue;
        }
        if names().any(|known| known == name) {
            return Some((name, scope));
        }
        value.refuse_as(format!(
            "{name:?} is no capability with a scope; expected one of: {}",
            names().collect::<Vec<_>>().join(", ")
        ));
        return None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn parse(element: &str) -> Result<Vec<String>, String> {
        let text = format!("[[app]]\nname = \"a\"\ncapabilities = [\n\"packet-in\",\n{element}]");
        let config = Config::parse("/rosemary.toml".into(), text).map_err(|it| it.to_string())?;
        let app = config.app("a").unwrap();
        assert_eq!(config.notices, [""; 0]);
        Ok(app.capabilities.iter().skip(1).map(Grant::toml).collect())
    }

    #[test]
    fn scopes_parse_and_print_alike() {
        let one = "dpids = [\"00:00:00:00:00:00:00:01\"]";
        for element in [
            format!("{{ packet-out = {{ {one} }} }}"),
            format!("{{ packet-out.reserved = {{ {one} }} }}"),
            format!("{{ flow.write = {{ {one}, tables = [0, 1] }} }}"),
            "{ flow.write.any = { tables = [254] } }".into(),
            "{ flow.read = { tables = [3] } }".into(),
            format!("{{ experimenter = {{ ids = [0x00002320], {one} }} }}"),
            "\"flow.write\"".into(),
        ] {
            assert_eq!(parse(&element).unwrap(), [element]);
        }
        let quoted = "{ \"flow.write\" = { tables = [2, 1, 2], dpids = [\"0000000000000001\"] } }";
        assert_eq!(
            parse(quoted).unwrap(),
            [format!("{{ flow.write = {{ {one}, tables = [1, 2] }} }}")]
        );
        for named in [
            "{ experimenter = [\"nicira\", 0x4f4e4600] }",
            "{ experimenter = { ids = [\"nicira\", \"onf\"] } }",
            "\"experimenter:nicira\", \"experimenter:onf\"",
        ] {
            let both = ["\"experimenter:0x00002320\"", "\"experimenter:0x4f4e4600\""];
            assert_eq!(parse(named).unwrap(), both, "{named}");
        }
        let two = "{ experimenter = { ids = [1, 2] } }";
        assert_eq!(
            parse(two).unwrap(),
            ["\"experimenter:0x00000001\"", "\"experimenter:0x00000002\""]
        );
    }

    #[test]
    fn mistake_in_a_scope_names_it() {
        for (element, part) in [
            ("{}", "such as { flow.write"),
            ("{ flow.write = 7 }", "the scope of flow.write is no table"),
            ("{ flow.write = {} }", "write \"flow.write\" for all switches"),
            ("{ flow = { tables = [1] } }", "\"flow\" is no capability"),
            ("{ flow.erase = { tables = [1] } }", "\"flow\" is no capability"),
            ("{ flow.write = { table = [1] } }", "did you mean `tables`"),
            ("{ flow.write = { tables = [255] } }", "0 to 254"),
            ("{ flow.write = { tables = [] } }", "an empty list"),
            ("{ flow.write = { dpids = [\"x\"] } }", "datapath ids such as"),
            ("{ flow.write = { tables = [1], any = {} } }", "unknown key \"any\""),
            ("{ packet-out = { tables = [1] } }", "the valid keys are: dpids"),
            ("{ experimenter = { dpids = [\"0000000000000001\"] } }", "experimenter without ids"),
            ("{ experimenter = { ids = [0x100000000] } }", "numbers of experimenters"),
            ("{ experimenter = [] }", "an empty list"),
            ("{ experimenter = [\"cisco\"] }", "numbers of experimenters"),
            ("{ storage.read = { ids = [1] } }", "\"storage\" is no capability"),
        ] {
            let error = parse(element).unwrap_err();
            assert!(
                error.starts_with("/rosemary.toml:5:") && error.contains(part),
                "{element}: {error}"
            );
        }
    }

    #[test]
    fn list_without_packet_in_works_with_a_notice() {
        let text = "[[app]]\nname = \"a\"\nservices = [\"storage\"]\n\
                    capabilities = [\"flow.write\", \"storage.read:b\"]\n[[app]]\nname = \"b\"\n";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let names = |name| config.app(name).unwrap().granted().names();
        assert_eq!(names("a"), ["packet-in", "flow.write", "storage.read:b"]);
        assert_eq!(names("b"), ["packet-in", "packet-out", "flow.write"]);
        let [notice] = &config.notices[..] else { panic!("{:?}", config.notices) };
        let line = "capabilities = [\"packet-in\", \"flow.write\", \"storage.read:b\"]";
        assert!(notice.starts_with("/rosemary.toml:4:") && notice.ends_with(line), "{notice}");
    }
}
