//! `rosemary ryu`: starts Rosemary with apps of Ryu or os-ken, each in a zone of its own, and takes the options of `ryu-manager`.
//!
//! The command writes a configuration for these apps and executes the monitor with it. `--print-config` prints it instead, as the
//! beginning of a permanent one.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use config::{NAME_FORM, is_name, is_source, module_name};
use monitor::installation;
use monitor::python::Interpreter;

use crate::say;

/// The capabilities of each app.
pub(crate) const CAPABILITIES: [&str; 8] = [
    "packet-in",
    "packet-out",
    "packet-out.reserved",
    "flow.write",
    "group.write",
    "meter.write",
    "stats.read",
    "switch.config",
];

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

/// The name of a temporary configuration, around the process id.
const PREFIX: &str = "rosemary-ryu-";
const SUFFIX: &str = ".toml";

/// Options of `rosemary up` that the command passes on, with a value each.
const UP: [&str; 4] = ["runtime-dir", "state-dir", "tls-dir", "plain"];

/// Options of `rosemary up` that the command passes on, without a value.
const UP_FLAGS: [&str; 1] = ["watch"];

/// The arguments of `rosemary ryu`.
#[derive(Debug, Clone, Args)]
pub struct RyuArgs {
    /// Apps, as files or as names of modules, and options of `ryu-manager`; or `check` and files
    ///
    /// --observe-links lets the apps send LLDP. --wsapi-host and --wsapi-port give the first app an address for its HTTP server, and each
    /// further one the next port. --ofp-listen-host and --ofp-tcp-listen-port name the address for switches. --python-path DIR joins
    /// the import path, and --print-config prints the configuration. --runtime-dir, --state-dir, --tls-dir, --plain and --watch are
    /// those of `rosemary up`. The apps receive all others.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub arguments: Vec<String>,
}

/// Executes the monitor, or the check. Returns only if it prints something.
///
/// # Errors
/// The arguments are wrong, `rosemary-ryu` is not installed, or a program cannot be executed.
pub fn run(args: &RyuArgs) -> anyhow::Result<ExitCode> {
    if let [command, files @ ..] = args.arguments.as_slice()
        && command == "check"
    {
        return check(files);
    }
    let request = Request::parse(&args.arguments)?;
    let config = request.config()?;
    if request.prints {
        say::data(format_args!("{config}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    execute(&config, &request.up)
}

/// Executes the monitor with this configuration and further arguments. Returns only if it fails.
///
/// # Errors
/// `rosemary-ryu` is not installed, or the monitor cannot be executed.
pub(crate) fn execute(config: &str, up: &[OsString]) -> anyhow::Result<ExitCode> {
    interpreter()?;
    let program = installation::program("rosemary-monitor", &installation::own_dir()?)?;
    let file = write(config)?;
    let mut command = Command::new(&program);
    command.args(["--allow-unsigned", "--remove-config", "--config"]).arg(&file).args(up);
    let error = command.exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}

fn check(files: &[String]) -> anyhow::Result<ExitCode> {
    ensure!(!files.is_empty(), "name the files to check: rosemary ryu check app.py");
    let interpreter = interpreter()?;
    let mut command = Command::new(interpreter.program());
    let error = command.args(["-I", "-m", "rosemary_ryu.check"]).args(files).exec();
    Err(error).with_context(|| format!("cannot execute {}", interpreter.program().display()))
}

fn interpreter() -> anyhow::Result<Interpreter> {
    let interpreter = Interpreter::find()?;
    ensure!(interpreter.has_ryu(), "rosemary-ryu is not installed; type: make python");
    Ok(interpreter)
}

/// Writes the configuration to a new file that only this user can read. The monitor, which has the same process id, reads it
/// again for a reload and removes it when it ends.
fn write(config: &str) -> anyhow::Result<PathBuf> {
    let dir = std::env::temp_dir();
    remove_left(&dir);
    let path = dir.join(format!("{PREFIX}{}{SUFFIX}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    // A file or a link of another user in its place is an error.
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(config.as_bytes()));
    written.with_context(|| format!("cannot write {}; remove it", path.display()))?;
    Ok(path)
}

/// Removes the files of monitors that were killed. Those of other users stay, as the directory belongs to root.
fn remove_left(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|it| it.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        let pid = pid.and_then(|it| it.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The meaning of the arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    apps: Vec<String>,
    options: Vec<(String, String)>,
    python_path: Vec<PathBuf>,
    wsapi: (Option<String>, Option<u16>),
    ofp: (Option<String>, Option<u16>),
    up: Vec<OsString>,
    observes_links: bool,
    prints: bool,
}

impl Request {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut request = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let Some(option) = argument.strip_prefix("--") else {
                ensure!(!argument.starts_with('-'), "{argument} is unknown; write options in full");
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
                request.observes_links |= flag == "observe-links" && is_on;
                request.options.push((flag.to_owned(), is_on.to_string()));
                continue;
            }
            let value = value.or_else(|| arguments.next().cloned());
            let value = value.with_context(|| format!("--{name} needs a value"))?;
            request.take(name, value)?;
        }
        ensure!(!request.apps.is_empty(), "name an app: rosemary ryu app.py, or ryu.app.NAME");
        Ok(request)
    }

    fn take(&mut self, name: &str, value: String) -> anyhow::Result<()> {
        let port = |value: &str| {
            value.parse::<u16>().with_context(|| format!("--{name} is {value}; expected a port"))
        };
        match name {
            "wsapi-host" => self.wsapi.0 = Some(value),
            "wsapi-port" => self.wsapi.1 = Some(port(&value)?),
            "ofp-listen-host" => self.ofp.0 = Some(value),
            "ofp-tcp-listen-port" => self.ofp.1 = Some(port(&value)?),
            "python-path" => self.python_path.push(std::path::absolute(value)?),
            _ if UP.contains(&name) => self.up.extend([format!("--{name}").into(), value.into()]),
            _ => self.options.push((name.to_owned(), value)),
        }
        Ok(())
    }

    /// The configuration of Rosemary for these apps.
    fn config(&self) -> anyhow::Result<String> {
        let mut text = String::from("# Made by `rosemary ryu`.\n");
        if self.ofp != (None, None) {
            let host = self.ofp.0.as_deref().unwrap_or("127.0.0.1");
            let port = self.ofp.1.unwrap_or(6653);
            writeln!(text, "[controller]\nlisten = [{}]", quoted(&address(host, port)))?;
        }
        let count = u16::try_from(self.apps.len()).ok().filter(|count| *count <= 64);
        let count = count.context("at most 64 apps")?;
        let mut names: Vec<String> = Vec::new();
        for (number, app) in (0_u16..).zip(&self.apps) {
            let (object, name) = (object(app)?, name_of(app)?);
            ensure!(!names.contains(&name), "two apps have the name {name}; rename a file");
            let band = band(number, count);
            writeln!(text, "\n[[app]]\nname = {}\nhost = \"ryu\"", quoted(&name))?;
            writeln!(text, "object = {}", quoted(&object))?;
            let capabilities = CAPABILITIES.iter().copied();
            let probe = self.observes_links.then_some("topology.probe");
            let capabilities: Vec<String> = capabilities.chain(probe).map(quoted).collect();
            writeln!(text, "capabilities = [{}]", capabilities.join(", "))?;
            writeln!(text, "band = [{}, {}]", band.0, band.1)?;
            if !self.python_path.is_empty() {
                let path = self.python_path.iter().map(|it| quoted(&it.to_string_lossy()));
                writeln!(text, "python-path = [{}]", path.collect::<Vec<_>>().join(", "))?;
            }
            if let Some(first) = self.wsapi.1 {
                let port = first.checked_add(number).context("no port is left for the last app")?;
                let host = self.wsapi.0.as_deref().unwrap_or("127.0.0.1");
                let listen = format!("wsapi={}", address(host, port));
                writeln!(text, "listen = [{}]", quoted(&listen))?;
            }
            let options = self
                .options
                .iter()
                .map(|(key, value)| format!("{} = {}", quoted(key), quoted(value)));
            let options: Vec<String> = options.collect();
            if !options.is_empty() {
                writeln!(text, "options = {{ {} }}", options.join(", "))?;
            }
            names.push(name);
        }
        Ok(text)
    }
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
    let last = if is_source(Path::new(app)) {
        Path::new(app).file_stem().and_then(|it| it.to_str()).unwrap_or_default()
    } else {
        app.rsplit('.').next().unwrap_or_default()
    };
    let name = last.to_ascii_lowercase().replace('_', "-");
    ensure!(is_name(&name), "the name of {app} must make {NAME_FORM}; rename it");
    Ok(name)
}

fn object(app: &str) -> anyhow::Result<String> {
    if is_source(Path::new(app)) {
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
mod tests {
    use config::Config;

    use super::*;

    fn config(line: &str) -> Config {
        let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let text = Request::parse(&arguments).unwrap().config().unwrap();
        Config::parse("/rosemary.toml".into(), text.clone())
            .unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn options_of_ryu_manager_become_a_configuration() {
        let line = "ryu.app.rest_topology ryu.app.simple_switch_13 --observe-links --verbose --wsapi-port 8080 \
                    --ofp-tcp-listen-port=6634 --ofp-listen-host ::1 --my-option value --python-path /lib";
        let config = config(line);
        assert_eq!(config.listen, ["[::1]:6634".parse().unwrap()]);
        let apps = config.apps.unwrap();
        let names: Vec<_> = apps.iter().map(|app| app.name.as_str()).collect();
        assert_eq!(names, ["rest-topology", "simple-switch-13"]);
        let python: Vec<_> = apps.iter().map(|app| app.python.as_ref().unwrap()).collect();
        let listen: Vec<_> = python.iter().map(|it| it.listen[0].1.port()).collect();
        assert_eq!(listen, [8080, 8081]);
        assert_eq!(python[0].module.as_deref(), Some("ryu.app.rest_topology"));
        assert_eq!(python[1].options["my-option"], "value");
        assert_eq!(python[1].options["observe-links"], "true");
        let bands: Vec<_> = apps.iter().map(|app| app.band.unwrap()).collect();
        assert_eq!((bands[0].highest, bands[1].lowest), (u16::MAX, 1));
        assert_eq!(bands[0].lowest, bands[1].highest + 1);
        assert!(apps[0].capabilities.iter().any(|it| it.to_string() == "topology.probe"));
    }

    #[test]
    fn app_alone_has_all_priorities_and_no_further_right() {
        let apps = config("ryu.app.simple_switch --noverbose").apps.unwrap();
        let band = apps[0].band.unwrap();
        assert_eq!((band.lowest, band.highest), (1, u16::MAX));
        assert_eq!(apps[0].capabilities.len(), CAPABILITIES.len());
        let python = apps[0].python.as_ref().unwrap();
        assert_eq!((python.listen.len(), &*python.options["verbose"]), (0, "false"));
    }

    #[test]
    fn watch_is_passed_on() {
        let arguments = ["--watch", "ryu.app.simple_switch"].map(ToOwned::to_owned);
        let request = Request::parse(&arguments).unwrap();
        assert_eq!((request.up, request.apps.len()), (vec!["--watch".into()], 1));
        assert!(request.options.is_empty());
    }

    #[test]
    fn configurations_of_ended_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        // No process has a number above the highest one of Linux.
        let own = format!("{PREFIX}{}{SUFFIX}", std::process::id());
        for name in [&*own, "rosemary-ryu-4294967294.toml", "rosemary-ryu-my.toml", "other.toml"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        remove_left(dir.path());
        let left = std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name());
        let mut left: Vec<_> = left.map(|it| it.into_string().unwrap()).collect();
        left.sort();
        let mut expected = vec!["other.toml".to_owned(), own, "rosemary-ryu-my.toml".to_owned()];
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let wrong = |line: &str| {
            let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
            Request::parse(&arguments).and_then(|it| it.config()).unwrap_err().to_string()
        };
        assert!(wrong("--verbose").contains("name an app"));
        assert!(wrong("a.py").contains("missing"));
        assert!(wrong("x/y").contains("neither"));
        assert!(wrong("ryu.app.x --wsapi-port http").contains("expected a port"));
        assert!(wrong("ryu.app.x --wsapi-port").contains("needs a value"));
        assert!(wrong("ryu.app.x os_ken.app.x").contains("two apps"));
    }
}
