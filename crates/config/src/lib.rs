//! Reads the operator's configuration, `rosemary.toml`.
//!
//! The file is optional: without it `forwarding` runs. `docs/configuration.md` describes every
//! key, and `etc/rosemary.toml` has it with its default. The command line overrides the file.
//!
//! An error names file, line and column, the value found and the value expected. An unknown key is an error.
//! Paths are relative to the file's directory.

mod app;
mod band;
mod environment;
pub mod fs_read;
mod grants;
mod limits;
mod manifest;
mod northbound;
mod orphans;
mod position;
mod python;
mod quotas;
pub mod reserved;
mod rights;
mod shipped;
mod suggestion;
mod supervision;
mod trust;
mod tuning;
mod value;

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::kernel::{MAX_WORKERS, PlainTcp, Tuning};
use control::policy::{Band, Policy};
use control::service::ServiceQuotas;
use thiserror::Error;
use toml::de::DeTable;

pub use app::{APP_KEYS, AppConfig, NAME_FORM, OnStop, host_name, host_named, is_name, stage_name};
pub use band::NONE as NO_BAND;
pub use environment::{ENV_IN_KERNEL, Environment};
pub use limits::{Bound, LIMITS_KEYS, Limits, NONE as NO_LIMIT};
pub use manifest::{MANIFEST_KEYS, Manifest, ManifestMistake, Manifests};
pub use northbound::{NORTHBOUND_KEYS, Northbound, is_host_name};
pub use orphans::Orphans;
pub use position::Position;
pub use python::{Python, framework_name, framework_named, is_source, module_name};
pub use quotas::{LOG_KEYS, STORAGE_KEYS};
pub use rights::{Granted, SERVE_HTTP, ServiceRight};
/// A resource with a limit.
pub use sdk::Limit;
pub use suggestion::nearest;
pub use supervision::{
    RESTART_KEYS, RestartKeys, RestartPolicy, SAFE_MODE_KEYS, SUPERVISION_KEYS, SafeMode,
    Supervision,
};
pub use trust::{ExcessiveRequest, SHIPPED, TRUST_KEYS, Trust};
pub use tuning::{InvalidVariable, with_environment};

use value::{Mistake, Table, Value};

/// Maximum number of apps.
pub const MOST_APPS: usize = 64;

/// Maximum number of elements in all apps' lists together. The kernel receives all apps in one message of at
/// most [`MAX_MESSAGE`](sys::channel::MAX_MESSAGE) bytes.
pub const MOST_ELEMENTS: usize = 3072;

/// The app that runs if the operator names none.
pub const DEFAULT_APP: &str = "forwarding";

/// The configuration of an instance that root started.
pub const SYSTEM_CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// The keys at the top.
pub const TOP_KEYS: [&str; 9] = [
    "controller",
    "zones",
    "supervision",
    "safe-mode",
    "storage",
    "log",
    "northbound",
    "trust",
    "app",
];

/// The keys of `[controller]`.
pub const CONTROLLER_KEYS: [&str; 12] = [
    "listen",
    "plain",
    "tls-dir",
    "workers",
    "pin",
    "read-bytes",
    "ring-bytes",
    "batch",
    "switch-ports",
    "orphans",
    "runtime-dir",
    "state-dir",
];

/// The keys of `[zones]`.
pub const ZONES_KEYS: [&str; 2] = ["require", "hang-seconds"];

/// Maximum size of a configuration, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// The configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}; correct it, or name another one with --config")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The text changes what only the file itself can change.
    #[error("{what}")]
    Reserved {
        /// The file.
        path: PathBuf,
        /// The keys, and a remedy.
        what: String,
    },
    /// The file contains a mistake.
    #[error("{place}: {what}")]
    Mistake {
        /// Where it is.
        place: Position,
        /// The value found and the values allowed.
        what: String,
    },
}

/// How complete the sandbox of each app must be: `zones.require`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Require {
    /// As complete as the system allows; gaps are reported.
    #[default]
    Best,
    /// Complete, or nothing starts.
    Full,
}

impl Require {
    /// The requirement with this name in the configuration.
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "best" => Some(Self::Best),
            "full" => Some(Self::Full),
            _ => None,
        }
    }
}

/// The operator's settings; those that the file does not contain are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// The addresses at which switches connect.
    pub listen: Vec<SocketAddr>,
    /// The switches that may use plain TCP.
    pub plain: Option<PlainTcp>,
    /// The directory of the keys for TLS.
    pub tls_dir: Option<PathBuf>,
    /// Number of threads that serve switches.
    pub workers: Option<u16>,
    /// Tuning of these threads.
    pub tuning: Tuning,
    /// What becomes of flows of apps that are gone.
    pub orphans: Orphans,
    /// Keys and values that a later version will not accept or will understand differently: the file and line of each,
    /// and what replaces it.
    pub notices: Vec<String>,
    /// The directory of the sockets.
    pub runtime_dir: Option<PathBuf>,
    /// The directory of the state that outlives a run.
    pub state_dir: Option<PathBuf>,
    /// How complete the sandbox of each app must be.
    pub require: Require,
    /// When programs are restarted and held.
    pub supervision: Supervision,
    /// When safe mode begins, and what runs in it.
    pub safe_mode: SafeMode,
    /// Quotas of the services.
    pub quotas: ServiceQuotas,
    /// The HTTP interface.
    pub northbound: Northbound,
    /// The developers whose packages may be installed and run.
    pub trust: Vec<Trust>,
    /// Processor time that a call of an app may use.
    pub hang: Option<Duration>,
    /// The apps, in the operator's order; `None` if there is no `[[app]]` at all.
    pub apps: Option<Vec<AppConfig>>,
    /// The manifests of packages, for keys that the file does not set.
    manifests: Manifests,
    /// The file's text, to compute line numbers.
    text: String,
}

impl Config {
    /// Reads the configuration: `file`, which must exist, or else the default file, which need not.
    ///
    /// # Errors
    /// [`ConfigError`]: the first mistake.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load_all(file).map_err(first)
    }

    /// Like [`load`](Self::load).
    ///
    /// # Errors
    /// The first mistake of each section, in the order of the file. There is at least one.
    pub fn load_all(file: Option<&Path>) -> Result<Self, Vec<ConfigError>> {
        let Some(path) = file.map(Path::to_owned).or_else(default_file) else {
            return Ok(Self::default());
        };
        let text = match read(&path) {
            Err(error) if file.is_none() && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => return Err(vec![ConfigError::Unreadable { path, source }]),
            Ok(text) => text,
        };
        let path = std::path::absolute(&path).unwrap_or(path);
        Self::parse_all(path, text)
    }

    /// Parses `text`, the content of `file`.
    ///
    /// # Errors
    /// [`ConfigError::Mistake`] for the first mistake.
    pub fn parse(file: PathBuf, text: String) -> Result<Self, ConfigError> {
        Self::parse_all(file, text).map_err(first)
    }

    /// Returns the `runtime-dir` of a file that may contain mistakes, for a command that only has to find the instance. A key
    /// with a similar name counts if there is no such key: it is the mistake.
    #[must_use]
    pub fn runtime_dir_of(file: &Path) -> Option<PathBuf> {
        let text = read(file).ok()?;
        let entry = |line: &str| {
            let table = DeTable::parse(line).ok()?;
            let (key, value) = table.get_ref().iter().next()?;
            Some((key.get_ref().to_string(), value.get_ref().as_str()?.to_owned()))
        };
        let entries: Vec<(String, String)> = text.lines().filter_map(entry).collect();
        let exact = entries.iter().find(|(key, _)| key == "runtime-dir");
        let similar = || entries.iter().find(|(key, _)| nearest(key, ["runtime-dir"]).is_some());
        let (_, dir) = exact.or_else(similar)?;
        let file = std::path::absolute(file).ok()?;
        Some(file.parent()?.join(dir))
    }

    fn parse_all(file: PathBuf, text: String) -> Result<Self, Vec<ConfigError>> {
        match Self::understand(&file, &text, None) {
            Ok(config) => Ok(Self { file: Some(file), text, ..config }),
            Err(mistakes) => Err(mistakes.into_iter().map(|it| tell(&file, &text, it)).collect()),
        }
    }

    /// Returns this configuration with the manifests' values for keys of apps that the file does not set.
    ///
    /// # Errors
    /// [`ConfigError::Mistake`]: the two are not compatible, for example because bands overlap.
    pub fn over(&self, manifests: &Manifests) -> Result<Self, ConfigError> {
        let (file, text) = (self.file.clone().unwrap_or_default(), self.text.clone());
        match Self::understand(&file, &text, Some(manifests)) {
            Ok(config) => {
                Ok(Self { file: self.file.clone(), text, manifests: manifests.clone(), ..config })
            }
            Err(mistakes) => {
                Err(first(mistakes.into_iter().map(|it| tell(&file, &text, it)).collect()))
            }
        }
    }

    /// Returns the place of `key` in the `[[app]]` named `app`, or of its name if it does not have the key; `None` if the
    /// file has no such app.
    pub fn position_of_app(&self, app: &str, key: &str) -> Option<Position> {
        let at = position::of_app(&self.text, app, key)?;
        Some(Position::of(self.file.as_deref()?, &self.text, at))
    }

    /// Returns the place of `key` in the table `section`, if the file has it.
    pub fn position_of(&self, section: &str, key: &str) -> Option<Position> {
        let at = position::of_key(&self.text, section, key)?;
        Some(Position::of(self.file.as_deref()?, &self.text, at))
    }

    /// Returns the settings of an app that the file does not contain: those of its manifest, if it has one.
    pub fn named(&self, name: &str) -> AppConfig {
        self.manifests.get(name).cloned().unwrap_or_else(|| AppConfig::named(name))
    }

    /// Reads all sections. Errors: the first mistake of each section.
    fn understand(
        file: &Path,
        text: &str,
        manifests: Option<&Manifests>,
    ) -> Result<Self, Vec<Mistake>> {
        let parsed = DeTable::parse(text).map_err(|error| vec![Mistake::syntax(&error)])?;
        let (top, unknown) = Table::lenient("this file", &TOP_KEYS, 0, parsed.get_ref());
        let mut mistakes: Vec<Mistake> = unknown.into_iter().collect();
        let base = file.parent().unwrap_or(Path::new("/"));
        let mut config = Self::default();
        mistakes.extend(config.read_controller(&top, file, text).err());
        mistakes.extend(config.read_zones(&top).err());
        config.quotas = quotas::read(&top, &mut mistakes);
        match Supervision::read(&top) {
            Ok(supervision) => config.supervision = supervision,
            Err(mistake) => mistakes.push(mistake),
        }
        match SafeMode::read(&top) {
            Ok(safe_mode) => config.safe_mode = safe_mode,
            Err(mistake) => mistakes.push(mistake),
        }
        match Northbound::read(&top) {
            Ok(northbound) => config.northbound = northbound,
            Err(mistake) => mistakes.push(mistake),
        }
        match top.get("trust").map(|value| trust::read(value, text)).transpose() {
            Ok(trust) => config.trust = trust.unwrap_or_default(),
            Err(mistake) => mistakes.push(mistake),
        }
        if let Some(value) = top.get("app") {
            config.apps = Some(read_apps(&value, base, text, manifests, &mut mistakes));
        }
        for (key, keys) in [("trust", &TRUST_KEYS[..]), ("app", &APP_KEYS[..])] {
            let notices = top.get(key).into_iter().flat_map(|it| rights::notices(it, keys));
            config.notices.extend(notices.map(|it| tell(file, text, it).to_string()));
        }
        // A file is valid or not whichever apps are enabled. With packages, their manifests are needed first.
        if mistakes.is_empty()
            && (manifests.is_some() || config.trust.is_empty())
            && let Some(apps) = &config.apps
        {
            mistakes.extend(bands(apps, text).err());
        }
        mistakes.sort_by_key(|mistake| mistake.at);
        if mistakes.is_empty() { Ok(config) } else { Err(mistakes) }
    }

    fn read_controller(&mut self, top: &Table<'_>, file: &Path, text: &str) -> Result<(), Mistake> {
        let Some(controller) = top.get("controller") else { return Ok(()) };
        let base = file.parent().unwrap_or(Path::new("/"));
        let below = |path: PathBuf| base.join(path);
        let controller = controller.table("[controller]", &CONTROLLER_KEYS)?;
        let address = "an address and a port such as \"127.0.0.1:6653\", \"0.0.0.0:6653\" (all addresses \
                       of this machine) or \"[::1]:6653\"";
        let listen = controller.list("listen", address, |it| it.text()?.parse().ok())?;
        self.listen = listen.unwrap_or_default();
        let dir = |key| controller.read(key, "the path of a directory", app::path);
        let plain = r#""loopback" (switches on this machine), "any" (all switches) or "never""#;
        self.plain = controller.read("plain", plain, |it| it.text()?.parse().ok())?;
        self.tls_dir = dir("tls-dir")?.map(below);
        let count = format!("a number from 1 to {MAX_WORKERS}");
        self.workers = controller.read("workers", &count, |it| {
            let workers = u16::try_from(it.number()?).ok()?;
            (1..=MAX_WORKERS).contains(&workers).then_some(workers)
        })?;
        self.tuning = tuning::read(&controller)?;
        self.orphans = Orphans::read(&controller)?;
        let deprecated = tuning::deprecated(&controller).into_iter();
        self.notices = deprecated.map(|it| tell(file, text, it).to_string()).collect();
        self.runtime_dir = dir("runtime-dir")?.map(below);
        self.state_dir = dir("state-dir")?.map(below);
        Ok(())
    }

    fn read_zones(&mut self, top: &Table<'_>) -> Result<(), Mistake> {
        let Some(zones) = top.get("zones") else { return Ok(()) };
        let zones = zones.table("[zones]", &ZONES_KEYS)?;
        let expected = "\"best\" or \"full\"";
        let require = zones.read("require", expected, |it| Require::named(it.text()?))?;
        self.require = require.unwrap_or_default();
        self.hang = app::hang(zones)?;
        Ok(())
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the app of this name, if the file has one.
    pub fn app(&self, name: &str) -> Option<&AppConfig> {
        self.apps.iter().flatten().find(|app| app.name == name)
    }

    /// Returns the policies of `apps`, in the same order. Only enabled apps run.
    ///
    /// # Errors
    /// [`ConfigError::Mistake`]: two bands overlap.
    pub fn policies(&self, apps: &[AppConfig]) -> Result<Vec<Policy>, ConfigError> {
        let file = || self.file.clone().unwrap_or_default();
        let mut bands =
            bands(apps, &self.text).map_err(|mistake| tell(&file(), &self.text, mistake))?;
        let runs = |app: &AppConfig| app.enabled && app.writes_flows();
        let mut writers = apps.iter().zip(&mut bands).filter(|(app, _)| runs(app));
        if let (Some((app, band)), None) = (writers.next(), writers.next())
            && app.band.is_none()
        {
            *band = band::ALL;
        }
        let policy = |(order, (app, band)): (usize, (&AppConfig, Band))| Policy {
            stage: app.stage,
            order: u16::try_from(order).unwrap_or(u16::MAX), // there are 64 at most
            filter: app.filter.clone(),
            band,
            capabilities: app.capabilities.clone(),
            has_other_rights: !app.read.is_empty() || !app.service_rights.is_empty(),
            quota: app.quota(),
            flows: app.flows,
            pace: app.pace,
        };
        Ok(apps.iter().zip(bands).enumerate().map(policy).collect())
    }
}

/// Reads the `[[app]]` tables. Adds the first mistake of each to `mistakes`, and leaves such an app out.
fn read_apps(
    value: &Value<'_>,
    base: &Path,
    text: &str,
    manifests: Option<&Manifests>,
    mistakes: &mut Vec<Mistake>,
) -> Vec<AppConfig> {
    let mut apps: Vec<AppConfig> = Vec::new();
    let Some(tables) = value.elements() else {
        mistakes.push(value.mistake("tables that begin with [[app]], in two brackets"));
        return apps;
    };
    if let Some(first) = tables.get(MOST_APPS) {
        let what = format!("this is app number {}; expected at most {MOST_APPS}", 1 + MOST_APPS);
        mistakes.push(Mistake::new(first.at, what));
        return apps;
    }
    let none = Manifests::new();
    let read = |table: &Value<'_>, apps: &[AppConfig]| -> Result<AppConfig, Mistake> {
        let table = table.table("[[app]]", &APP_KEYS)?;
        let mut app = AppConfig::read(table, manifests.unwrap_or(&none))?;
        let below = |path: PathBuf| base.join(path);
        (app.object, app.config) = (app.object.map(below), app.config.map(below));
        if let Some(python) = &mut app.python {
            python.path = std::mem::take(&mut python.path).into_iter().map(below).collect();
        }
        if let Some(first) = apps.iter().find(|other| other.name == app.name) {
            let line = line_of(text, first.at);
            let what = format!(
                "another app has the name {:?}, in line {line}; expected a different name",
                app.name
            );
            return Err(Mistake::new(table.at, what));
        }
        let elements = app.elements() + apps.iter().map(AppConfig::elements).sum::<usize>();
        if elements > MOST_ELEMENTS {
            let what = format!(
                "the lists ethertypes, dpids and capabilities up to this app have {elements} elements in all; \
                 expected at most {MOST_ELEMENTS}"
            );
            return Err(Mistake::new(table.at, what));
        }
        Ok(app)
    };
    for table in tables {
        match read(&table, &apps) {
            Ok(app) => apps.push(app),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    apps
}

/// Returns the band of each of `apps`: the configured one, or that of its position.
fn bands(apps: &[AppConfig], text: &str) -> Result<Vec<Band>, Mistake> {
    let stage = |app: &AppConfig| std::mem::discriminant(&app.stage);
    let mut bands: Vec<Band> = Vec::new();
    for (i, app) in apps.iter().enumerate() {
        let place = apps.iter().take(i).filter(|other| stage(other) == stage(app)).count();
        let given = if app.writes_flows() { app.band } else { Some(band::NONE) };
        bands.push(given.unwrap_or_else(|| band::slot(app.stage, place)));
    }
    for (i, (app, band)) in apps.iter().zip(&bands).enumerate() {
        let overlaps = |(other, its): &(&AppConfig, &Band)| {
            (app.band.is_some() || other.band.is_some())
                && **its != band::NONE
                && *band != band::NONE
                && band::overlap(*band, **its)
        };
        let Some((other, its)) = apps.iter().zip(&bands).take(i).find(overlaps) else { continue };
        let (given, band, other, its) =
            if app.band.is_some() { (app, band, other, its) } else { (other, its, app, band) };
        let whose = if other.band.is_some() {
            format!("given in line {}", line_of(text, other.at))
        } else {
            "assigned by its position among the apps".to_owned()
        };
        let what = format!(
            "band is [{}, {}], which overlaps [{}, {}] of the app {:?}, {whose}; expected \
             priorities of its own",
            band.lowest, band.highest, its.lowest, its.highest, other.name
        );
        return Err(Mistake::new(given.at, what));
    }
    Ok(bands)
}

/// Returns the path of the default configuration.
pub fn default_file() -> Option<PathBuf> {
    if sys::process::is_root() {
        return Some(SYSTEM_CONFIG.into());
    }
    user_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("rosemary.toml"))
}

/// Returns Rosemary's directory below the directory in the variable `xdg` (XDG Base Directory
/// Specification), or else below `home_dir` in the home directory; `None` without a home directory.
pub fn user_dir(xdg: &str, home_dir: &str) -> Option<PathBuf> {
    // The specification says that a relative path counts as unset.
    let absolute = |variable: &str| {
        std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let dir = absolute(xdg).or_else(|| Some(absolute("HOME")?.join(home_dir)))?;
    Some(dir.join("rosemary"))
}

/// Reads the text of the file at `path`.
fn read(path: &Path) -> io::Result<String> {
    // A pipe in its place must not block the monitor.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    // An empty pipe must not count as an empty configuration.
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe, which may block; name a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

fn tell(file: &Path, text: &str, mistake: Mistake) -> ConfigError {
    ConfigError::Mistake { place: Position::of(file, text, mistake.at), what: mistake.what }
}

/// Returns the first error of a list that is not empty.
fn first(errors: Vec<ConfigError>) -> ConfigError {
    errors.into_iter().next().expect("a list of mistakes is not empty")
}

fn line_of(text: &str, at: usize) -> usize {
    position::line_and_column(text, at).0
}

#[cfg(test)]
mod tests;
