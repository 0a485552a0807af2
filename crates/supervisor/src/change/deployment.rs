//! The files of changes: configurations, packages, and decisions of operators.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Config, Require};
use control::operator::InactiveApp;
use control::service::ServiceKind;

use super::difference::{Fixed, Scope, Wanted};
use super::history::Configuration;
use crate::app::App;
use crate::services::ServiceParts;

/// A new text of the configuration.
#[derive(Debug, Clone)]
pub struct NewConfig {
    /// The text.
    pub text: Arc<str>,
    /// The SHA-256 of the file that the user has seen.
    pub expected: Arc<str>,
}

/// An earlier text of the configuration, which is to return.
#[derive(Debug, Clone)]
pub struct EarlierConfig {
    /// The text.
    pub text: Arc<str>,
    /// The text that was loaded last. The file has this text unless somebody edited the file since.
    pub loaded: Arc<str>,
    /// Whether the file is replaced also if somebody edited it. The edited text is kept beside the file.
    pub force: bool,
    /// Whether reserved keys must stay as they are, as over the HTTP interface.
    pub keeps_reserved: bool,
}

/// A configuration that waits for its confirmation, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredConfirmation {
    /// The number of the configuration that returns without a confirmation.
    pub before: u64,
    /// The time from now on until it returns.
    pub time: Duration,
}

/// A package and its signature, in sealed memory.
#[derive(Debug)]
pub struct PackageFiles {
    /// The package.
    pub package: OwnedFd,
    /// The text of its signature.
    pub signature: OwnedFd,
}

/// The versions of an app's package that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The installed package.
    Installed,
    /// The package before it, for a rollback.
    Previous,
    /// The package before that, which becomes the previous one if the installed one is taken back.
    Older,
    /// A new package, whose upgrade has not succeeded yet.
    Staged,
}

/// The configuration that a plan follows.
#[derive(Debug)]
pub enum Source {
    /// The file as it is now.
    File,
    /// A configuration that was read before.
    Known(Box<Config>),
    /// A new text.
    New(NewConfig),
    /// An earlier text.
    Earlier(EarlierConfig),
    /// The file as it is now; and this package is put beside the installed one of the app.
    Staged(String, Arc<PackageFiles>),
}

/// The inputs of a plan.
#[derive(Debug)]
pub struct Order {
    /// The configuration.
    pub source: Source,
    /// An app that an operator enables or disables.
    pub enable: Option<(String, bool)>,
    /// The version of an app's package to run instead of the installed one.
    pub version: Option<(String, Version)>,
    /// Whether the numbers of new apps are stored.
    pub write: bool,
    /// The only app of the change; `None` for a change of several apps.
    pub only: Option<String>,
}

/// The apps of a configuration, ready to start.
#[derive(Debug)]
pub struct Plan {
    /// The configuration.
    pub config: Config,
    /// Its settings that only another start of Rosemary can change.
    pub fixed: Fixed,
    /// The apps that are to run, with their files. [`Deployment::launch`] makes them.
    pub wanted: Vec<Wanted>,
    /// The apps that do not run.
    pub inactive: Vec<InactiveApp>,
    /// How the apps do not fit together, as phrases.
    pub warnings: Vec<String>,
    /// For a change that is about one app: the apps that it concerns.
    pub scope: Option<Scope>,
}

/// Why there is no plan.
#[derive(Debug)]
pub struct Unplannable {
    /// The reasons, as phrases.
    pub why: String,
    /// Whether the configuration, or a file that it names, is one of them.
    pub misconfigured: bool,
}

/// Reads and writes what changes need. Nothing here waits for a plan or a trial: they are asked for.
pub trait Deployment: fmt::Debug {
    /// Begins to plan.
    ///
    /// # Errors
    /// Why it cannot, as a phrase.
    fn plan(&mut self, order: Order) -> Result<(), String>;

    /// The plan that was begun last, once it is made.
    fn planned(&mut self) -> Option<Result<Plan, Unplannable>>;

    /// Describes an app of the last plan, once; nothing is started. `demoted` says why it must not run in the kernel. `None` if the
    /// plan has no such app.
    fn launch(&mut self, app: &str, demoted: Option<&str>) -> Option<App>;

    /// Begins to try whether these apps of the last plan can be loaded, in their order.
    ///
    /// # Errors
    /// Why it cannot, as a phrase.
    fn try_apps(&mut self, apps: &[String], require: Require) -> Result<(), String>;

    /// The result of the last trial, when it is over. The error names the first app that cannot be loaded, as a phrase.
    fn tried(&mut self) -> Option<Result<(), String>>;

    /// The change is over: plan, trial and apps are discarded.
    fn end(&mut self);

    /// Takes a configuration that a user has sent, who has seen the file with the SHA-256 `expected`.
    ///
    /// # Errors
    /// Why there is none, as a phrase.
    fn new_config(&self, fds: Vec<OwnedFd>, expected: &str) -> Result<NewConfig, String>;

    /// Takes a package and its signature that a user has sent.
    ///
    /// # Errors
    /// Why there is none, as a phrase.
    fn new_package(&self, fds: Vec<OwnedFd>) -> Result<PackageFiles, String>;

    /// The settings of a configuration that only another start of Rosemary can change.
    fn fixed(&self, config: &Config) -> Fixed;

    /// Whether an app of this name is known although it neither runs nor is configured.
    fn knows(&self, app: &str) -> bool;

    /// An operator's decision on whether the app runs, if there is one.
    fn enabled(&self, app: &str) -> Option<bool>;

    /// Stores an operator's decision on whether the app runs.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    fn enable(&mut self, app: &str, enabled: bool) -> Result<(), String>;

    /// Makes this configuration the file's.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    fn store(&mut self, config: &Config) -> Result<(), String>;

    /// Makes this configuration the file's again. Returns the file with the edited text if somebody edited the configuration since it
    /// was loaded.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase: also that somebody edited the file and `earlier` does not force it.
    fn restore(
        &mut self,
        config: &Config,
        earlier: &EarlierConfig,
    ) -> Result<Option<PathBuf>, String>;

    /// Stores a configuration of the history, and removes the configurations with the numbers `dropped`.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    fn record(&mut self, kept: &Configuration, dropped: &[u64]) -> Result<(), String>;

    /// Stores that the configuration waits for a confirmation, or that it does not.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    fn await_confirmation(&mut self, waiting: Option<StoredConfirmation>) -> Result<(), String>;

    /// Whether there is this version of the app's package.
    fn has_version(&self, app: &str, version: Version) -> bool;

    /// Removes the staged package.
    fn drop_staged(&mut self, app: &str);

    /// Makes the staged package the installed one.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    fn use_staged(&mut self, app: &str) -> Result<(), String>;

    /// Makes the previous package the installed one.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    fn use_previous(&mut self, app: &str) -> Result<(), String>;

    /// Removes the installed package, which failed, and makes the previous package the installed one.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    fn take_back(&mut self, app: &str) -> Result<(), String>;

    /// The parts of these services.
    ///
    /// # Errors
    /// Why there are none, as a phrase.
    fn services(&self, kinds: &[ServiceKind]) -> Result<Vec<ServiceParts>, String>;
}

impl Plan {
    /// Whether the app runs from a package.
    pub fn is_packaged(&self, name: &str) -> bool {
        let app = self.wanted.iter().find(|wanted| wanted.spec.name() == name);
        app.is_some_and(|app| app.spec.is_packaged())
    }

    /// Whether an app of this name is to run.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted.spec.name() == name)
    }
}
