//! Reads the databases of switches: the tables `[[ovsdb]]`.

use control::service::OvsdbDatabase;

use super::position::line_of;
use super::value::{Table, Value};
use super::words::{NAME_FORM, is_name};

/// The keys of `[[ovsdb]]`.
pub const OVSDB_KEYS: [&str; 2] = ["name", "address"];

/// The most databases. Each takes a thread and the memory of an image.
pub const MOST_DATABASES: usize = 32;

/// The longest path of a socket, in bytes (unix(7)).
const LONGEST_PATH: usize = 107;

const ADDRESS_FORM: &str = "an address such as \"ssl:192.0.2.7:6640\", \"tcp:127.0.0.1:6640\" or \"unix:/run/openvswitch/db.sock\"";

/// Reads `[[ovsdb]]` of the file with this text.
pub(super) fn read(value: &Value<'_>, text: &str) -> Vec<OvsdbDatabase> {
    let Some(tables) = value.elements() else {
        value.refuse("tables that begin with [[ovsdb]], in two brackets");
        return Vec::new();
    };
    if let Some(first) = tables.get(MOST_DATABASES) {
        let number = MOST_DATABASES + 1;
        first.refuse_as(format!(
            "this is [[ovsdb]] number {number}; expected at most {MOST_DATABASES}"
        ));
        return Vec::new();
    }
    let mut all: Vec<(OvsdbDatabase, usize)> = Vec::new();
    for value in tables {
        let Some(table) = value.table("[[ovsdb]]", &OVSDB_KEYS) else { continue };
        let Some(one) = read_one(&table) else { continue };
        let same =
            |(it, _): &&(OvsdbDatabase, usize)| it.name == one.name || it.address == one.address;
        if let Some((_, at)) = all.iter().find(same) {
            value.refuse_as(format!(
                "the [[ovsdb]] in line {} has the same name or address; expected one of each",
                line_of(text, *at)
            ));
        }
        all.push((one, table.at));
    }
    all.into_iter().map(|(database, _)| database).collect()
}

/// Reads an `[[ovsdb]]`. Returns `None` if it has no valid name or address.
fn read_one(table: &Table<'_>) -> Option<OvsdbDatabase> {
    let text = |it: &Value<'_>, fits: fn(&str) -> bool| {
        it.text().filter(|text| fits(text)).map(ToOwned::to_owned)
    };
    let name = table.read("name", NAME_FORM, |it| text(it, is_name));
    let address = table.read("address", ADDRESS_FORM, |it| text(it, is_address));
    for (key, form) in [("name", NAME_FORM), ("address", ADDRESS_FORM)] {
        if table.get(key).is_none() {
            let what = format!("an [[ovsdb]] without {key}; expected {key} = {form}");
            table.findings.refuse(table.at, what);
        }
    }
    Some(OvsdbDatabase { name: name?, address: address? })
}

/// Whether the text is an address. The service reads it in full.
fn is_address(text: &str) -> bool {
    match text.split_once(':') {
        Some(("unix", path)) => {
            path.starts_with('/') && path.len() <= LONGEST_PATH && !path.contains('\0')
        }
        Some(("tcp" | "ssl", host)) => is_host(host),
        _ => false,
    }
}

/// Whether the text is a host with or without a port. An IPv6 address stands in brackets.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((name, port)) => {
            if name.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            (name, port)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b".-_:".contains(&it);
    let is_name = (1..=253).contains(&name.len()) && name.bytes().all(is_letter);
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    is_name && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn databases(text: &str) -> Result<Vec<OvsdbDatabase>, String> {
        let config = Config::parse("/rosemary.toml".into(), text.into());
        config.map(|it| it.ovsdb).map_err(|error| error.to_string())
    }

    #[test]
    fn databases_have_names_and_addresses() {
        assert_eq!(databases("").unwrap(), []);
        let text = "[[ovsdb]]\nname = \"a\"\naddress = \"ssl:192.0.2.7\"\n[[ovsdb]]\nname = \"b\"\naddress = \"tcp:[::1]:6641\"\n";
        let found = databases(text).unwrap();
        let found: Vec<_> = found.iter().map(|it| (&*it.name, &*it.address)).collect();
        assert_eq!(found, [("a", "ssl:192.0.2.7"), ("b", "tcp:[::1]:6641")]);
        let unix = "[[ovsdb]]\nname = \"a\"\naddress = \"unix:/run/openvswitch/db.sock\"\n";
        assert_eq!(databases(unix).unwrap().len(), 1);
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        for (text, words) in [
            ("[[ovsdb]]\nname = \"a\"\n", "without address"),
            ("[[ovsdb]]\naddress = \"tcp:a\"\n", "without name"),
            ("[[ovsdb]]\nname = \"a\"\naddress = \"a:6640\"\n", "toml:3"),
            ("[[ovsdb]]\nname = \"a\"\naddress = \"tcp:a:0\"\n", "ssl:192.0.2.7:6640"),
            ("[[ovsdb]]\nname = \"a\"\naddress = \"unix:db.sock\"\n", "toml:3"),
            ("[[ovsdb]]\nname = \"a\"\naddress = \"tcp:a\"\nport = 1\n", "port"),
            ("[ovsdb]\nname = \"a\"\n", "[[ovsdb]]"),
            (
                "[[ovsdb]]\nname = \"a\"\naddress = \"tcp:a\"\n[[ovsdb]]\nname = \"a\"\naddress = \"tcp:b\"\n",
                "in line 1 has the same",
            ),
        ] {
            let error = databases(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
