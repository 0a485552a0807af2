//! The whole configuration: reads all sections of the file, and answers questions about them.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::kernel::{PlainTcp, Tuning};
use control::policy::Policy;
use control::service::{OvsdbDatabase, ServiceQuotas};
use toml::de::DeTable;

use super::app::{AppConfig, Manifests};
use super::controller::Controller;
use super::error::ConfigError;
use super::file::{self, default_file};
use super::findings::{Finding, Findings};
use super::northbound::Northbound;
use super::orphans::Orphans;
use super::position::{self, Position};
use super::sessions::Sessions;
use super::set::{self, SetFault};
use super::start::{self, Verify};
use super::supervision::{SafeMode, Supervision};
use super::trust::{self, Trust};
use super::value::Table;
use super::zones::{self, Require};
use super::{apps, ovsdb, policies, quotas};

/// The apps that run if the operator names none, with the providers of the services that they name: the forwarder, and
/// counters for operators, the page and the metrics.
pub const DEFAULT_APPS: [&str; 2] = ["forwarding", "stats"];

/// The keys at the top.
pub const TOP_KEYS: [&str; 13] = [
    "controller",
    "zones",
    "start",
    "supervision",
    "safe-mode",
    "storage",
    "log",
    "history",
    "northbound",
    "sessions",
    "session",
    "trust",
    "ovsdb",
    "app",
];

/// The operator's settings; those that the file does not contain are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// The addresses at which switches connect.
    pub listen: Vec<SocketAddr>,
    /// The addresses at which devices with the OVSDB schema `hardware_vtep` connect.
    pub vtep_listen: Vec<SocketAddr>,
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
    /// The reaction to files that differ from the release; `None` for the default.
    pub verify: Option<Verify>,
    /// When programs are restarted and held.
    pub supervision: Supervision,
    /// When safe mode begins, and what runs in it.
    pub safe_mode: SafeMode,
    /// Quotas of the services.
    pub quotas: ServiceQuotas,
    /// Whether a history of figures is kept.
    pub keeps_history: bool,
    /// The HTTP interface.
    pub northbound: Northbound,
    /// The sessions and what is reserved for them.
    pub sessions: Sessions,
    /// The developers whose packages may be installed and run.
    pub trust: Vec<Trust>,
    /// The databases of switches.
    pub ovsdb: Vec<OvsdbDatabase>,
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
    /// All mistakes, in the order of the file. There is at least one. While the file is not TOML, only mistakes of its form are
    /// found.
    pub fn load_all(file: Option<&Path>) -> Result<Self, Vec<ConfigError>> {
        let Some(path) = file.map(Path::to_owned).or_else(default_file) else {
            return Ok(Self::default());
        };
        let text = match file::read(&path) {
            // A link that leads nowhere is a mistake.
            Err(error)
                if file.is_none()
                    && error.kind() == io::ErrorKind::NotFound
                    && !path.is_symlink() =>
            {
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

    /// Like [`parse`](Self::parse).
    ///
    /// # Errors
    /// [`ConfigError::Mistake`] for each mistake, as [`load_all`](Self::load_all) finds them.
    pub fn parse_all(file: PathBuf, text: String) -> Result<Self, Vec<ConfigError>> {
        match Self::understand(&file, &text, None) {
            Ok(config) => Ok(Self { file: Some(file), text, ..config }),
            Err(mistakes) => Err(errors(&file, &text, mistakes)),
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
            Err(mistakes) => Err(first(errors(&file, &text, mistakes))),
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

    /// Reads all sections. Errors: all mistakes, in the order of the text.
    fn understand(
        file: &Path,
        text: &str,
        manifests: Option<&Manifests>,
    ) -> Result<Self, Vec<Finding>> {
        let (parsed, not_toml) = DeTable::parse_recoverable(text);
        if !not_toml.is_empty() {
            return Err(Finding::all_syntax(text, &not_toml));
        }
        let findings = Findings::default();
        let top = Table::new("this file", &TOP_KEYS, 0, parsed.get_ref(), &findings);
        let base = file.parent().unwrap_or(Path::new("/"));
        let Controller {
            listen,
            vtep_listen,
            plain,
            tls_dir,
            workers,
            tuning,
            orphans,
            runtime_dir,
            state_dir,
        } = Controller::read(&top, base);
        let (require, hang) = zones::read(&top);
        let (quotas, keeps_history) = quotas::read(&top);
        let before = findings.count();
        let sessions = Sessions::read(&top);
        let are_sessions_valid = findings.count() == before;
        let mut config = Self {
            listen,
            vtep_listen,
            plain,
            tls_dir,
            workers,
            tuning,
            orphans,
            runtime_dir,
            state_dir,
            require,
            hang,
            verify: start::read(&top),
            supervision: Supervision::read(&top),
            safe_mode: SafeMode::read(&top),
            quotas,
            keeps_history,
            northbound: Northbound::read(&top),
            sessions,
            trust: top.get("trust").map(|it| trust::read(it, text)).unwrap_or_default(),
            ovsdb: top.get("ovsdb").map(|it| ovsdb::read(&it, text)).unwrap_or_default(),
            ..Self::default()
        };
        if let Some(value) = top.get("app") {
            let none = Manifests::new();
            let before = findings.count();
            let apps = apps::read(&value, base, text, manifests.unwrap_or(&none));
            if are_sessions_valid {
                for (at, what) in config.sessions.unknown(&apps) {
                    findings.refuse(at, what);
                }
            }
            // A file is valid or not whichever apps are enabled. With packages, their manifests are needed first.
            let are_complete = manifests.is_some() || top.get("trust").is_none();
            if are_complete && findings.count() == before {
                for overlap in policies::overlaps(&apps, text) {
                    findings.refuse(overlap.at, overlap.what);
                }
            }
            config.apps = Some(apps);
        }
        let notices = findings.into_notices()?.into_iter();
        config.notices =
            notices.map(|it| ConfigError::mistake(file, text, it).to_string()).collect();
        Ok(config)
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
        policies::policies(apps, &self.sessions, &self.text).map_err(|overlap| {
            ConfigError::mistake(self.file.as_deref().unwrap_or(Path::new("")), &self.text, overlap)
        })
    }

    /// Judges whether `apps` fit together. The enabled apps run with these policies. Returns each fault with its place
    /// in the file.
    pub fn judge(
        &self,
        apps: &[AppConfig],
        policies: &[Policy],
    ) -> Vec<(SetFault, Option<Position>)> {
        let place = |it: &SetFault| {
            self.position_of_app(it.apps.first().map_or("", String::as_str), it.fault.key())
        };
        let faults = set::judge(apps, policies).into_iter();
        faults.map(|fault| (fault.clone(), place(&fault))).collect()
    }
}

fn errors(file: &Path, text: &str, mistakes: Vec<Finding>) -> Vec<ConfigError> {
    mistakes.into_iter().map(|it| ConfigError::mistake(file, text, it)).collect()
}

/// Returns the first error of a list that is not empty.
fn first(errors: Vec<ConfigError>) -> ConfigError {
    errors.into_iter().next().expect("a list of mistakes is not empty")
}
