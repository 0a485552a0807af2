//! Reads the keys of an `[[app]]` that is written in Python.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use control::app::Hosting;
use control::zone::Framework;

use super::environment::OPTION_PREFIX;
use super::fs_read::is_hidden;
use super::value::{Table, Value};
use super::words::{host_named, path};

/// Values of `host`, for error messages.
pub(super) const HOSTS: &str = r#""user", "kernel", "python" or "ryu""#;

/// The elements of `python-path`, for error messages.
const DIRECTORY: &str = "the path of a directory, not in /proc, /sys, /dev or /app, which no app may read, and not /tmp itself";

/// The most listening sockets of an app.
const MOST_LISTENERS: usize = 8;

/// The most options of an app.
const MOST_OPTIONS: usize = 64;

/// The longest option and its longest value, in bytes.
const LONGEST_OPTION: usize = 4096;

/// The settings of an app in Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The framework that it is written for.
    pub framework: Framework,
    /// The name of its module, if its object is no file.
    pub module: Option<String>,
    /// Directories that join its import path.
    pub path: Vec<PathBuf>,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// Addresses at which it accepts TCP connections, with a name each.
    pub listen: Vec<(String, SocketAddr)>,
}

impl Python {
    /// The settings of an app without keys of its own.
    pub fn new(framework: Framework) -> Self {
        Self {
            framework,
            module: None,
            path: Vec::new(),
            options: BTreeMap::new(),
            listen: Vec::new(),
        }
    }

    /// Reads `host` and the keys for Python. `object` is taken if it names a module.
    pub(super) fn read(
        table: &Table<'_>,
        object: &mut Option<PathBuf>,
    ) -> (Option<Hosting>, Option<Self>) {
        let host = table.read("host", HOSTS, |it| {
            let text = it.text()?;
            let framework = framework_named(text);
            host_named(text).or(framework.map(|_| Hosting::User)).map(|host| (host, framework))
        });
        let framework = match host {
            Some((_, Some(framework))) => Some(framework),
            // The refused host may have been one for Python.
            None if table.get("host").is_some() => Some(Framework::Ryu),
            Some((Hosting::User, None)) | None => {
                let is_python = object.as_deref().is_some_and(is_source);
                is_python.then_some(Framework::Python)
            }
            Some((Hosting::Kernel, None)) => None,
        };
        let host = host.map(|(host, _)| host);
        let Some(framework) = framework else {
            for key in ["python-path", "options", "listen"] {
                if let Some(value) = table.get(key) {
                    value.refuse_as(format!(
                        "{key} is for apps in Python; add host = \"python\" or \"ryu\""
                    ));
                }
            }
            return (host, None);
        };
        let module = object.as_deref().and_then(module_name);
        if module.is_some() {
            *object = None;
        }
        let directories = table.list("python-path", DIRECTORY, |it| {
            path(it).filter(|path| path.is_relative() || !is_hidden(path))
        });
        let read = Self {
            framework,
            module,
            path: directories.unwrap_or_default(),
            options: options(table),
            listen: listen(table),
        };
        (host, Some(read))
    }
}

/// Returns the framework with this name in the configuration.
pub fn framework_named(name: &str) -> Option<Framework> {
    match name {
        "python" => Some(Framework::Python),
        "ryu" => Some(Framework::Ryu),
        _ => None,
    }
}

/// Returns the name of a framework in the configuration.
pub fn framework_name(framework: Framework) -> &'static str {
    match framework {
        Framework::Python => "python",
        Framework::Ryu => "ryu",
    }
}

/// Returns whether a file contains Python's source, by its name.
pub fn is_source(object: &Path) -> bool {
    object.extension().is_some_and(|it| it == "py")
}

/// Returns the name of a module, such as `ryu.app.simple_switch_13`; `None` if this is the path of a file.
pub fn module_name(object: &Path) -> Option<String> {
    let text = object.to_str()?;
    let is_part = |part: &str| {
        let fits = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
        !part.is_empty() && !part.as_bytes()[0].is_ascii_digit() && part.bytes().all(fits)
    };
    (!is_source(object) && text.split('.').all(is_part)).then(|| text.to_owned())
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
    use crate::{AppConfig, Config, RYU_CAPABILITIES};

    fn app(keys: &str) -> Result<AppConfig, String> {
        let text = format!("[[app]]\nname = \"a\"\n{keys}");
        let config = Config::parse("/etc/rosemary.toml".into(), text);
        config.map(|it| it.apps.unwrap().remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn form_of_the_object_selects_the_framework() {
        assert_eq!(app("object = \"a.so\"").unwrap().python, None);
        let file = app("object = \"a.py\"").unwrap();
        assert_eq!(file.python, Some(Python::new(Framework::Python)));
        assert_eq!(file.object.as_deref(), Some(Path::new("/etc/a.py")));
        let module = app("object = \"ryu.app.simple_switch\"\nhost = \"ryu\"").unwrap();
        let python = module.python.unwrap();
        assert_eq!((python.framework, module.object), (Framework::Ryu, None));
        assert_eq!(python.module.as_deref(), Some("ryu.app.simple_switch"));
        assert_eq!(app("object = \"a.py\"\nhost = \"kernel\"").unwrap().python, None);
    }

    #[test]
    fn apps_of_ryu_have_what_the_command_grants() {
        let names = |app: AppConfig| -> Vec<String> {
            app.capabilities.iter().map(ToString::to_string).collect()
        };
        let ryu = names(app("object = \"a.py\"\nhost = \"ryu\"").unwrap());
        assert_eq!(ryu, RYU_CAPABILITIES.map(|it| it.to_string()));
        assert!(ryu.contains(&"stats.read".to_owned()), "{ryu:?}");
        assert_eq!(names(AppConfig::in_python("a", Framework::Ryu)), ryu);
        let python = names(app("object = \"a.py\"").unwrap());
        assert_eq!(python, ["packet-in", "packet-out", "flow.write"]);
        assert_eq!(names(AppConfig::in_python("a", Framework::Python)), python);
        let observer = app("object = \"a.py\"\nhost = \"ryu\"\nstage = \"observe\"").unwrap();
        assert_eq!(names(observer), ["packet-in", "stats.read"]);
        let own = app("object = \"a.py\"\nhost = \"ryu\"\ncapabilities = [\"packet-in\"]").unwrap();
        assert_eq!(names(own), ["packet-in"]);
    }

    #[test]
    fn keys_of_python_are_read() {
        let keys = "object = \"a.py\"\nhost = \"ryu\"\npython-path = [\"lib\"]\n\
                    listen = [\"wsapi=127.0.0.1:8080\"]\noptions = { observe-links = \"true\" }";
        let python = app(keys).unwrap().python.unwrap();
        assert_eq!(python.path, [Path::new("/etc/lib")]);
        assert_eq!(python.listen, [("wsapi".to_owned(), "127.0.0.1:8080".parse().unwrap())]);
        assert_eq!(python.options["observe-links"], "true");
    }

    #[test]
    fn mistakes_name_the_remedy() {
        let error = app("object = \"a.so\"\npython-path = [\"lib\"]").unwrap_err();
        assert!(error.contains("add host = \"python\""), "{error}");
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
