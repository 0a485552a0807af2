//! Reads `host` of an `[[app]]`, and the keys that only some hostings have.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use control::hosting::Hosting;

use super::environment::OPTION_PREFIX;
use super::fs_read::is_hidden;
use super::value::{Table, Value};
use super::words::{alternatives, path};

/// The keys that only some hostings have.
const KEYS: [&str; 3] = ["python-path", "options", "listen"];

/// The elements of `python-path`, for error messages.
const DIRECTORY: &str = "the path of a directory, not in /proc, /sys, /dev or /app, which no app may read, and not /tmp itself";

/// The most listening sockets of an app.
const MOST_LISTENERS: usize = 8;

/// The most options of an app.
const MOST_OPTIONS: usize = 64;

/// The longest option and its longest value, in bytes.
const LONGEST_OPTION: usize = 4096;

/// The settings of an app that only some hostings have. Those that its hosting lacks are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostKeys {
    /// The name of its module, if its object is no file.
    pub module: Option<String>,
    /// Directories that join its import path.
    pub path: Vec<PathBuf>,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// Addresses at which it accepts TCP connections, with a name each.
    pub listen: Vec<(String, SocketAddr)>,
}

/// Reads `host` and the keys that this hosting has. `object` is taken if it names a module.
pub(super) fn read(table: &Table<'_>, object: &mut Option<PathBuf>) -> (Hosting, HostKeys) {
    let host = hosting(table, object.as_deref());
    let has = |key: &&str| host.keys.contains(key);
    for key in KEYS.into_iter().filter(|key| !has(key)) {
        if let Some(value) = table.get(key) {
            value.refuse_as(refusal(key));
        }
    }
    let module = object.as_deref().filter(|_| host.has_modules).and_then(module_name);
    if module.is_some() {
        *object = None;
    }
    let keys = HostKeys {
        module,
        path: if has(&"python-path") { import_path(table) } else { Vec::new() },
        options: if has(&"options") { options(table) } else { BTreeMap::new() },
        listen: if has(&"listen") { listen(table) } else { Vec::new() },
    };
    (host, keys)
}

/// Reads `host`. Without it, or if it is the default, the object's extension decides.
fn hosting(table: &Table<'_>, object: Option<&Path>) -> Hosting {
    let names: Vec<String> = Hosting::configurable().map(|it| format!("{:?}", it.name)).collect();
    let host = table.read("host", &alternatives(&names), |it| {
        Hosting::named(it.text()?).filter(|it| !it.is_implied)
    });
    match host {
        // The refused host may have been one with keys of its own, whose values are then judged as well.
        None if table.get("host").is_some() => {
            Hosting::ALL.into_iter().max_by_key(|it| it.keys.len()).unwrap_or_default()
        }
        Some(host) if host != Hosting::default() => {
            object.map_or(host, |object| host.for_file(object))
        }
        default => object.and_then(Hosting::of_file).or(default).unwrap_or_default(),
    }
}

/// Why an app cannot have `key`, as its hosting does not have it.
fn refusal(key: &str) -> String {
    let hosts: Vec<Hosting> = Hosting::configurable().filter(|it| it.keys.contains(&key)).collect();
    let names: Vec<String> = hosts.iter().map(|it| format!("{:?}", it.name)).collect();
    let language = hosts.first().map_or("no language", |it| it.language);
    format!("{key} is for apps in {language}; add host = {}", alternatives(&names))
}

/// Returns the name of a module, such as `ryu.app.simple_switch_13`; `None` if this is the path of a file.
pub fn module_name(object: &Path) -> Option<String> {
    let text = object.to_str()?;
    let is_part = |part: &str| {
        let fits = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
        !part.is_empty() && !part.as_bytes()[0].is_ascii_digit() && part.bytes().all(fits)
    };
    (Hosting::of_file(object).is_none() && text.split('.').all(is_part)).then(|| text.to_owned())
}

/// Reads `python-path`.
fn import_path(table: &Table<'_>) -> Vec<PathBuf> {
    let directories = table.list("python-path", DIRECTORY, |it| {
        path(it).filter(|path| path.is_relative() || !is_hidden(path))
    });
    directories.unwrap_or_default()
}

/// Reads the options, without those that set environment variables.
fn options(table: &Table<'_>) -> BTreeMap<String, String> {
    let Some(value) = table.get("options") else { return BTreeMap::new() };
    let Some(entries) = value.entries() else {
        value.refuse("a table of the app's options, such as { observe-links = \"true\" }");
        return BTreeMap::new();
    };
    if entries.len() > MOST_OPTIONS {
        value.refuse_as(format!("options has {}; expected at most {MOST_OPTIONS}", entries.len()));
        return BTreeMap::new();
    }
    let option = |(at, name, value): &(usize, &str, Value<'_>)| {
        if name.starts_with(OPTION_PREFIX) {
            return None; // an environment variable
        }
        if name.len() > LONGEST_OPTION {
            table.findings.refuse(*at, "the name of an option is too long");
            return None;
        }
        let expected = format!("text of at most {LONGEST_OPTION} bytes");
        let text =
            value.read(&expected, |it| it.text().filter(|text| text.len() <= LONGEST_OPTION))?;
        Some(((*name).to_owned(), text.to_owned()))
    };
    entries.iter().filter_map(option).collect()
}

fn listen(table: &Table<'_>) -> Vec<(String, SocketAddr)> {
    let expected = "a name and an address such as \"wsapi=127.0.0.1:8080\"";
    let listen = table.list("listen", expected, |it| {
        let (name, address) = it.text()?.split_once('=')?;
        let is_name = !name.is_empty() && name.len() <= 40 && name.is_ascii();
        Some((name.to_owned(), address.parse().ok()?)).filter(|_| is_name)
    });
    let listen = listen.unwrap_or_default();
    if let Some(value) = table.get("listen").filter(|_| listen.len() > MOST_LISTENERS) {
        value.refuse_as(format!("listen has {}; expected at most {MOST_LISTENERS}", listen.len()));
    }
    listen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppConfig, Config};

    fn app(keys: &str) -> Result<AppConfig, String> {
        let text = format!("[[app]]\nname = \"a\"\n{keys}");
        let config = Config::parse("/etc/rosemary.toml".into(), text);
        config.map(|it| it.apps.unwrap().remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn form_of_the_object_selects_the_hosting() {
        assert_eq!(app("object = \"a.so\"").unwrap().host, Hosting::USER);
        for host in ["", "host = \"user\"\n"] {
            let file = app(&format!("{host}object = \"a.py\"")).unwrap();
            assert_eq!((file.host, file.host_keys), (Hosting::PYTHON, HostKeys::default()));
            assert_eq!(file.object.as_deref(), Some(Path::new("/etc/a.py")));
        }
        let module = app("object = \"ryu.app.simple_switch\"\nhost = \"ryu\"").unwrap();
        assert_eq!((module.host, module.object), (Hosting::RYU, None));
        assert_eq!(module.host_keys.module.as_deref(), Some("ryu.app.simple_switch"));
        assert_eq!(app("object = \"a.py\"\nhost = \"kernel\"").unwrap().host, Hosting::KERNEL);
        let limits = "object = \"a.wasm\"\nhost = \"kernel\"\noptions = { call-ms = \"5\" }";
        let module = app(limits).unwrap();
        assert_eq!((module.host, module.host_keys.options.len()), (Hosting::WASM_IN_KERNEL, 1));
        assert!(app("object = \"a.wasm\"\nhost = \"kernel-wasm\"").is_err());
    }

    #[test]
    fn apps_have_the_capabilities_of_their_hosting() {
        let names = |app: AppConfig| -> Vec<String> {
            app.capabilities.iter().map(ToString::to_string).collect()
        };
        let ryu = names(app("object = \"a.py\"\nhost = \"ryu\"").unwrap());
        let expected: Vec<String> =
            Hosting::RYU.capabilities.iter().map(ToString::to_string).collect();
        assert_eq!(ryu, expected);
        assert!(ryu.contains(&"stats.read".to_owned()), "{ryu:?}");
        assert_eq!(names(AppConfig::hosted_by("a", Hosting::RYU)), ryu);
        let python = names(app("object = \"a.py\"").unwrap());
        assert_eq!(python, ["packet-in", "packet-out", "flow.write"]);
        assert_eq!(names(AppConfig::hosted_by("a", Hosting::PYTHON)), python);
        assert_eq!(names(AppConfig::defaults("a")), python);
        let observer = app("object = \"a.py\"\nhost = \"ryu\"\nstage = \"observe\"").unwrap();
        assert_eq!(names(observer), ["packet-in", "stats.read"]);
        let own = app("object = \"a.py\"\nhost = \"ryu\"\ncapabilities = [\"packet-in\"]").unwrap();
        assert_eq!(names(own), ["packet-in"]);
    }

    #[test]
    fn keys_of_the_hosting_are_read() {
        let keys = "object = \"a.py\"\nhost = \"ryu\"\npython-path = [\"lib\"]\n\
                    listen = [\"wsapi=127.0.0.1:8080\"]\noptions = { observe-links = \"true\" }";
        let keys = app(keys).unwrap().host_keys;
        assert_eq!(keys.path, [Path::new("/etc/lib")]);
        assert_eq!(keys.listen, [("wsapi".to_owned(), "127.0.0.1:8080".parse().unwrap())]);
        assert_eq!(keys.options["observe-links"], "true");
    }

    #[test]
    fn each_key_belongs_to_a_hosting() {
        let of_hosts = Hosting::ALL.into_iter().flat_map(|it| it.keys);
        for key in of_hosts {
            assert!(KEYS.contains(key), "no code reads {key}; add it to `read`");
        }
        for key in KEYS {
            assert!(Hosting::ALL.iter().any(|it| it.keys.contains(&key)), "{key}");
        }
    }

    #[test]
    fn mistakes_name_the_remedy() {
        let error = app("object = \"a.so\"\npython-path = [\"lib\"]").unwrap_err();
        let expected = "python-path is for apps in Python; add host = \"python\" or \"ryu\"";
        assert!(error.contains(expected), "{error}");
        let error = app("object = \"a.py\"\npython-path = [\"/tmp\"]").unwrap_err();
        app("object = \"a.py\"\npython-path = [\"/tmp/lib\"]").unwrap();
        assert!(
            error.contains(
                "not in /proc, /sys, /dev or /app, which no app may read, and not /tmp itself"
            ),
            "{error}"
        );
        assert!(app("object = \"a.py\"\nlisten = [\"8080\"]").unwrap_err().contains("wsapi="));
        assert!(app("host = \"pyhton\"").unwrap_err().contains("did you mean \"python\""));
    }
}
