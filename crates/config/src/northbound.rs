//! Reads the settings of the HTTP interface: the table `[northbound]`.

use std::net::SocketAddr;

use control::northbound::{Loopback, OfctlRest};

use super::value::{Table, Value, read_each};

/// The keys of `[northbound]`.
pub const NORTHBOUND_KEYS: [&str; 6] =
    ["enabled", "api", "loopback", "names", "ofctl-rest", "app-routes"];

/// The most addresses of the API.
const MOST_ADDRESSES: usize = 8;

/// The most names of this machine.
const MOST_NAMES: usize = 32;

/// The settings of the HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Northbound {
    /// Whether it runs.
    pub enabled: bool,
    /// Where it listens; empty for the default address.
    pub api: Vec<SocketAddr>,
    /// The role of clients on this machine without a token.
    pub loopback: Loopback,
    /// Names besides addresses and `localhost` by which clients may call this machine.
    pub names: Vec<String>,
    /// What clients of Ryu's REST interface may do.
    pub ofctl: OfctlRest,
    /// Where the routes of apps are served; `None` for the default address.
    pub app_routes: Option<SocketAddr>,
}

impl Default for Northbound {
    fn default() -> Self {
        Self {
            enabled: true,
            api: Vec::new(),
            loopback: Loopback::default(),
            names: Vec::new(),
            ofctl: OfctlRest::default(),
            app_routes: None,
        }
    }
}

impl Northbound {
    /// Reads `[northbound]` of the file `top`.
    pub(super) fn read(top: &Table<'_>) -> Self {
        let default = Self::default();
        let table = top.get("northbound").and_then(|it| it.table("[northbound]", &NORTHBOUND_KEYS));
        let Some(table) = table else { return default };
        let address = "an address and a port such as \"127.0.0.1:8181\" (plain HTTP for this machine) or \"0.0.0.0:8443\" (TLS), or a \
                       list of them";
        let routes = "an address of this machine alone and a port, such as \"127.0.0.1:8182\"";
        let loopback = "\"user\" (root and Rosemary's user are admins, others viewers), \"viewer\" or \"none\" (a token is \
                        needed)";
        let names = table.list("names", "a host name such as \"controller.example\"", |it| {
            it.text().filter(|it| is_host_name(it)).map(str::to_ascii_lowercase)
        });
        if names.as_ref().is_some_and(|names| names.len() > MOST_NAMES)
            && let Some(value) = table.get("names")
        {
            value.refuse(&format!("at most {MOST_NAMES} names"));
        }
        Self {
            enabled: table
                .read("enabled", "true or false", Value::boolean)
                .unwrap_or(default.enabled),
            api: addresses(&table, address),
            loopback: table
                .read("loopback", loopback, |it| it.text()?.parse().ok())
                .unwrap_or_default(),
            names: names.unwrap_or_default(),
            ofctl: table
                .read("ofctl-rest", "\"off\", \"read\" or \"write\"", |it| it.text()?.parse().ok())
                .unwrap_or_default(),
            // Nobody authenticates there.
            app_routes: table.read("app-routes", routes, |it| {
                it.text()?.parse().ok().filter(|it: &SocketAddr| it.ip().is_loopback())
            }),
        }
    }
}

/// Reads one address or a list of them.
fn addresses(table: &Table<'_>, expected: &str) -> Vec<SocketAddr> {
    let Some(value) = table.get("api") else { return Vec::new() };
    let address = |it: &Value<'_>| it.text()?.parse().ok();
    let Some(elements) = value.elements() else {
        return value.read(expected, address).into_iter().collect();
    };
    if elements.is_empty() || elements.len() > MOST_ADDRESSES {
        value.refuse(&format!("1 to {MOST_ADDRESSES} addresses"));
        return Vec::new();
    }
    read_each(&elements, expected, address).unwrap_or_default()
}

/// Returns whether this is a host name (RFC 1123), which no browser shows for anything else.
pub fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn read(text: &str) -> Result<Northbound, String> {
        let config = Config::parse("/rosemary.toml".into(), format!("[northbound]\n{text}"));
        config.map(|it| it.northbound).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_keys_have_the_defaults() {
        assert_eq!(read("").unwrap(), Northbound::default());
        assert!(Northbound::default().enabled);
        let all = read(
            "enabled = false\napi = \"[::1]:9\"\nloopback = \"none\"\nnames = [\"C.example\"]\nofctl-rest = \"read\"\n\
             app-routes = \"[::1]:10\"",
        );
        let api = vec!["[::1]:9".parse().unwrap()];
        let names = vec!["c.example".to_owned()];
        let expected = Northbound {
            enabled: false,
            api,
            loopback: Loopback::None,
            names,
            ofctl: OfctlRest::Read,
            app_routes: Some("[::1]:10".parse().unwrap()),
        };
        assert_eq!(all.unwrap(), expected);
    }

    #[test]
    fn addresses_are_one_or_a_list() {
        let list = read("api = [\"127.0.0.1:8181\", \"0.0.0.0:8443\"]").unwrap().api;
        assert_eq!(list, ["127.0.0.1:8181".parse().unwrap(), "0.0.0.0:8443".parse().unwrap()]);
    }

    #[test]
    fn mistakes_name_the_valid_values() {
        for (text, expected) in [
            ("api = \"localhost\"", "127.0.0.1:8181"),
            ("api = [\"127.0.0.1:1\", 2]", "127.0.0.1:8181"),
            ("api = []", "1 to 8 addresses"),
            ("loopback = \"admin\"", "\"viewer\" or \"none\""),
            ("ofctl-rest = true", "\"read\" or \"write\""),
            ("app-routes = \"0.0.0.0:8182\"", "127.0.0.1:8182"),
            ("names = [\"a_b\"]", "controller.example"),
            ("names = [\"*\"]", "controller.example"),
            ("enable = true", "did you mean `enabled`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with("/rosemary.toml:2:") && error.contains(expected), "{error}");
        }
    }
}
