//! The arguments of `rosemary ryu`, and the configuration that they stand for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use config::{NAME_FORM, check_variable_of_python, is_name, module_name, nearest};
use control::hosting::Hosting;
use control::policy::Capability;

use crate::readable::ensure_grantable;

/// Options of `ryu-manager` that take no value. `--noNAME` negates each.
const FLAGS: [&str; 7] = [
    "observe-links",
    "verbose",
    "use-stderr",
    "use-syslog",
    "enable-debugger",
    "install-lldp-flow",
    "explicit-drop",
];

/// Options of `ryu-manager` that name a file or a directory, which the apps may read.
const FILES: [&str; 2] = ["config-file", "config-dir"];

/// Further options of `ryu-manager` that take a value; `rosemary_ryu` knows them, too. The last one is Rosemary's own.
const VALUES: [&str; 14] = [
    "pid-file",
    "default-log-level",
    "log-dir",
    "log-file",
    "log-file-mode",
    "log-config-file",
    "ofp-ssl-listen-port",
    "ctl-privkey",
    "ctl-cert",
    "ca-certs",
    "ciphers",
    "ofp-switch-address-list",
    "ofp-switch-connect-interval",
    "renew-flows",
];

/// Options that the command uses by itself, with a value each.
const OWN: [&str; 7] = [
    "env",
    "wsapi-host",
    "wsapi-port",
    "ofp-listen-host",
    "ofp-tcp-listen-port",
    "python-path",
    "app-lists",
];

/// The limit of the log of each app: those of Ryu print a line for each packet-in.
pub(crate) const LIMITS: &str = "limits = { log-bytes-per-second = \"64 KiB\" }\n";

/// Options of `rosemary up` that the command passes on, with a value each.
const UP: [&str; 5] = ["runtime-dir", "state-dir", "tls-dir", "plain", "openflow"];

/// Options of `rosemary up` that the command passes on, without a value.
const UP_FLAGS: [&str; 1] = ["watch"];

/// The meaning of the arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    apps: Vec<String>,
    /// Those of `--app-lists`.
    listed: Vec<String>,
    options: BTreeMap<String, String>,
    /// Files and directories that the apps may read.
    pub(super) read: Vec<PathBuf>,
    pub(super) python_path: Vec<PathBuf>,
    /// Environment variables of the apps.
    env: BTreeMap<String, String>,
    wsapi: (Option<String>, Option<u16>),
    /// The apps with a web interface, if their source shows it. They have the first ports.
    pub(super) web: Option<Vec<String>>,
    ofp: (Option<String>, Option<u16>),
    /// The versions of OpenFlow for switches, if the apps' source excludes the preferred one and `--openflow` names none.
    pub(super) openflow: Vec<String>,
    /// Arguments for `rosemary up`.
    pub(super) up: Vec<OsString>,
    observes_links: bool,
    is_verbose: bool,
    /// Whether the configuration is printed and not used.
    pub(super) prints: bool,
}

impl Request {
    /// Reads the arguments.
    ///
    /// # Errors
    /// An option is unknown or has a wrong value, or no app is named.
    pub(super) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut request = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let Some(option) = argument.strip_prefix("--") else {
                ensure!(
                    !argument.starts_with('-'),
                    "{argument} is unknown; write options in full, such as --verbose"
                );
                request.apps.push(argument.clone());
                continue;
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            if name == "print-config" {
                request.prints = true;
                continue;
            }
            if UP_FLAGS.contains(&name) {
                request.up.push(argument.into());
                continue;
            }
            if let Some((flag, is_on)) = flag(name) {
                match flag {
                    "observe-links" => request.observes_links = is_on,
                    "verbose" => request.is_verbose = is_on,
                    _ => {}
                }
                request.options.insert(flag.to_owned(), is_on.to_string());
                continue;
            }
            ensure_known(name)?;
            let value = value.or_else(|| arguments.next().cloned());
            let value = value.with_context(|| format!("--{name} needs a value"))?;
            request.take(name, value)?;
        }
        // The order of `ryu-manager`.
        request.apps = [std::mem::take(&mut request.listed), request.apps].concat();
        ensure!(!request.apps.is_empty(), "name an app: rosemary ryu app.py, or ryu.app.NAME");
        Ok(request)
    }

    fn take(&mut self, name: &str, value: String) -> anyhow::Result<()> {
        let port = |value: &str| {
            value.parse::<u16>().with_context(|| format!("--{name} is {value}; expected a port"))
        };
        match name {
            "env" => {
                let (name, value) = variable(&value)?;
                let before = self.env.insert(name.clone(), value);
                ensure!(before.is_none(), "--env {name} is given twice; give it once");
            }
            "wsapi-host" => self.wsapi.0 = Some(value),
            "wsapi-port" => self.wsapi.1 = Some(port(&value)?),
            "ofp-listen-host" => self.ofp.0 = Some(value),
            "ofp-tcp-listen-port" => self.ofp.1 = Some(port(&value)?),
            "python-path" => {
                let dir = existing(&value)?;
                ensure!(dir.is_dir(), "{} is no directory", dir.display());
                ensure_grantable(&dir, &dir)?;
                self.python_path.push(dir);
            }
            "app-lists" => {
                let names = value.split(',').map(str::trim).filter(|it| !it.is_empty());
                self.listed.extend(names.map(ToOwned::to_owned));
            }
            _ if FILES.contains(&name) => {
                let path = existing(&value)?;
                ensure_grantable(&path, &path)?;
                let text = path.to_string_lossy().into_owned();
                let before = self.options.insert(name.to_owned(), text);
                ensure!(before.is_none(), "--{name} is given twice; name one");
                self.read.push(path);
            }
            _ if UP.contains(&name) => self.up.extend([format!("--{name}").into(), value.into()]),
            _ => drop(self.options.insert(name.to_owned(), value)),
        }
        Ok(())
    }

    /// The apps, as files or as names of modules.
    pub(super) fn apps(&self) -> &[String] {
        &self.apps
    }

    /// Whether `--openflow` names the versions for switches.
    pub(super) fn names_versions(&self) -> bool {
        self.up.iter().any(|it| it == "--openflow")
    }

    /// Whether the apps receive this environment variable.
    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.env.contains_key(name)
    }

    /// A line that names the address of each app, if there are several; `ryu-manager` serves all at one port.
    ///
    /// # Errors
    /// An app has no name.
    pub(super) fn about_ports(&self) -> anyhow::Result<Option<String>> {
        if self.apps.len() < 2 || self.wsapi.1.is_none() {
            return Ok(None);
        }
        let mut named = Vec::new();
        for (place, number) in (0_u16..).zip(self.by_port()) {
            let app = &self.apps[number];
            let address = self.wsapi_address(place)?.unwrap_or_default();
            named.push(match self.is_web(app) {
                Some(true) => format!("{} at http://{address}", name_of(app)?),
                Some(false) => {
                    format!("{} has {address} and does not import ryu.app.wsgi", name_of(app)?)
                }
                None => format!("{} at {address}", name_of(app)?),
            });
        }
        Ok(Some(format!(
            "each app has a process, contexts and a port of its own, so that it can fail alone: {}; for one port, start one file that requires \
             the apps with app_manager.require_app (docs/ryu.md)",
            named.join(", ")
        )))
    }

    /// A line that names the versions for switches, if the apps do not support the preferred one.
    pub(super) fn about_versions(&self) -> Option<String> {
        let versions = self.openflow.join(",");
        (!versions.is_empty()).then(|| {
            format!(
                "the apps do not support OpenFlow 1.3, so Rosemary offers switches what they support (--openflow {versions}); switches must \
                 speak it, with Open vSwitch: ovs-vsctl set bridge BRIDGE protocols=OpenFlow{}",
                self.openflow.iter().map(|it| it.replace('.', "")).collect::<Vec<_>>().join(",OpenFlow")
            )
        })
    }

    /// Whether an app has a web interface, if that is known.
    fn is_web(&self, app: &String) -> Option<bool> {
        self.web.as_ref().map(|web| web.contains(app))
    }

    /// The indices of the apps in the order of their ports: first those with a web interface, so that the port of `--wsapi-port` is
    /// that of the first of them, as with `ryu-manager`.
    fn by_port(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..self.apps.len()).collect();
        numbers.sort_by_key(|number| self.is_web(&self.apps[*number]) == Some(false));
        numbers
    }

    /// The address of the web server of the app at a place in the order of ports, if the apps have one.
    fn wsapi_address(&self, place: u16) -> anyhow::Result<Option<String>> {
        let Some(first) = self.wsapi.1 else { return Ok(None) };
        let port = first.checked_add(place).context("no port is left for the last app")?;
        Ok(Some(address(self.wsapi.0.as_deref().unwrap_or("127.0.0.1"), port)))
    }

    /// The configuration of Rosemary for these apps.
    ///
    /// # Errors
    /// An app is missing, or two have one name.
    pub(super) fn config(&self) -> anyhow::Result<String> {
        let mut text = String::from("# Made by `rosemary ryu`.\n");
        if self.ofp != (None, None) || !self.openflow.is_empty() {
            text.push_str("[controller]\n");
        }
        if self.ofp != (None, None) {
            let host = self.ofp.0.as_deref().unwrap_or("127.0.0.1");
            let port = self.ofp.1.unwrap_or(6653);
            writeln!(text, "listen = [{}]", quoted(&address(host, port)))?;
        }
        if !self.openflow.is_empty() {
            let versions = self.openflow.iter().map(|it| quoted(it)).collect::<Vec<_>>();
            writeln!(text, "openflow = [{}]", versions.join(", "))?;
        }
        let count = u16::try_from(self.apps.len()).ok().filter(|count| *count <= 64);
        let count = count.context("at most 64 apps")?;
        let mut names: Vec<String> = Vec::new();
        let by_port = self.by_port();
        for (number, app) in (0_u16..).zip(&self.apps) {
            let place = (0_u16..).zip(&by_port).find(|(_, it)| **it == usize::from(number));
            let place = place.context("an app has no place")?.0;
            let (object, name) = (object(app)?, name_of(app)?);
            ensure!(!names.contains(&name), "two apps have the name {name}; rename a file");
            let band = band(number, count);
            writeln!(text, "\n[[app]]\nname = {}\nhost = \"ryu\"", quoted(&name))?;
            writeln!(text, "object = {}", quoted(&object))?;
            let probe = self.observes_links.then_some(Capability::TopologyProbe);
            let capabilities = Hosting::RYU.capabilities.iter().copied().chain(probe);
            let read = self.read.iter().map(|path| format!("fs.read:{}", path.display()));
            let capabilities = capabilities.map(|it| it.to_string()).chain(read);
            let capabilities: Vec<String> = capabilities.map(|it| quoted(&it)).collect();
            writeln!(text, "capabilities = [{}]", capabilities.join(", "))?;
            writeln!(text, "band = [{}, {}]", band.0, band.1)?;
            if self.is_verbose {
                // Rosemary drops the lines of lower levels before the log.
                text.push_str("log-level = \"debug\"\n");
            }
            text.push_str(LIMITS);
            if !self.python_path.is_empty() {
                let path = self.python_path.iter().map(|it| quoted(&it.to_string_lossy()));
                writeln!(text, "python-path = [{}]", path.collect::<Vec<_>>().join(", "))?;
            }
            if let Some(address) = self.wsapi_address(place)? {
                writeln!(text, "listen = [{}]", quoted(&format!("wsapi={address}")))?;
            }
            for (key, values) in [("options", &self.options), ("env", &self.env)] {
                if !values.is_empty() {
                    writeln!(text, "{key} = {}", table(values))?;
                }
            }
            names.push(name);
        }
        Ok(text)
    }
}

/// Returns the real path of a file or directory, which has no `..`.
fn existing(path: &str) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    path.canonicalize().with_context(|| format!("{} is missing", path.display()))
}

/// A table in TOML, in one line.
fn table(values: &BTreeMap<String, String>) -> String {
    let entry = |(key, value): (&String, &String)| format!("{} = {}", quoted(key), quoted(value));
    format!("{{ {} }}", values.iter().map(entry).collect::<Vec<_>>().join(", "))
}

/// Reads `NAME=VALUE`, or `NAME` for a variable of this command.
fn variable(given: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = if let Some((name, value)) = given.split_once('=') {
        (name, value.to_owned())
    } else {
        let value = std::env::var(given).ok();
        let value = value.with_context(|| {
            format!(
                "--env {given}: no such variable is set here; set it, or write --env {given}=VALUE"
            )
        })?;
        (given, value)
    };
    check_variable_of_python(name, &value).map_err(|what| anyhow!("--env {name}: {what}"))?;
    Ok((name.to_owned(), value))
}

/// Checks that `ryu-manager` or this command has the option of this name, with a value.
fn ensure_known(name: &str) -> anyhow::Result<()> {
    let known = [&VALUES[..], &FILES, &OWN, &UP].concat();
    if known.contains(&name) {
        return Ok(());
    }
    ensure!(
        name != "user-flags",
        "--user-flags is not supported; register the options in the app, with CONF.register_opts, and set them in a file that --config-file \
         names"
    );
    let all = known.into_iter().chain(FLAGS).chain(UP_FLAGS);
    let similar = nearest(name, all).map(|it| format!("; did you mean --{it}?"));
    bail!("--{name} is no option of ryu-manager or of this command{}", similar.unwrap_or_default())
}

/// Returns the flag of this name, and whether it is switched on.
fn flag(name: &str) -> Option<(&'static str, bool)> {
    let known = |name: &str| FLAGS.into_iter().find(|flag| *flag == name);
    match known(name) {
        Some(flag) => Some((flag, true)),
        None => known(name.strip_prefix("no")?).map(|flag| (flag, false)),
    }
}

/// The priorities of app `number` of `count`: equal bands, the first app highest, as the configuration orders apps.
fn band(number: u16, count: u16) -> (u16, u16) {
    let size = u16::MAX / count;
    let highest = u16::MAX - number * size;
    let lowest = if number + 1 == count { 1 } else { highest - size + 1 };
    (lowest, highest)
}

fn address(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The name of an app: that of its file, or the last part of its module's name.
fn name_of(app: &str) -> anyhow::Result<String> {
    let last = if Hosting::RYU.has_file(Path::new(app)) {
        Path::new(app).file_stem().and_then(|it| it.to_str()).unwrap_or_default()
    } else {
        app.rsplit('.').next().unwrap_or_default()
    };
    let name = last.to_ascii_lowercase().replace('_', "-");
    ensure!(is_name(&name), "the name of {app:?} must make {NAME_FORM}; rename it");
    Ok(name)
}

fn object(app: &str) -> anyhow::Result<String> {
    if Hosting::RYU.has_file(Path::new(app)) {
        let path = std::path::absolute(app)?;
        ensure!(path.is_file(), "{} is missing, or no file", path.display());
        return Ok(path.to_string_lossy().into_owned());
    }
    match module_name(Path::new(app)) {
        Some(module) => Ok(module),
        None => bail!("{app} is neither a file of Python (*.py) nor the name of a module"),
    }
}

/// A text in TOML.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            it if it.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(it));
            }
            it => quoted.push(it),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
