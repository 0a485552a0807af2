//! The files of changes: reads configurations and the apps' files, and stores packages and decisions.
//!
//! | files | contents |
//! | --- | --- |
//! | `planner.rs` | reads a configuration and the apps' files, in a thread |
//! | `trial.rs` | loads the apps of a dry run, in a thread |
//! | `new_config.rs` | a configuration or a package that arrives over the HTTP interface |
//!
//! The decisions are in [`supervisor::change`].

#[cfg(test)]
mod every_key;
pub(crate) mod new_config;
pub(crate) mod planner;
mod trial;

use std::cell::RefCell;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use config::{Config, Require};
use control::operator::OperatorReply;
use control::service::ServiceKind;
use supervisor::app::App;
use supervisor::change::deployment::{
    Deployment, EarlierConfig, NewConfig, Order, PackageFiles, Plan, StoredConfirmation,
    Unplannable, Version,
};
use supervisor::change::difference::Fixed;
use supervisor::change::history::Configuration;
use supervisor::services::ServiceParts;

use self::planner::{PlanWithApps, PlannedApp, Planner, Planning};
use self::trial::Trial;
use crate::config_store::{self, Clocks, Confirmation};
use crate::environment::Environment;
use crate::launch;
use crate::overrides::Overrides;

/// The disk, as changes see it, shared with the event loop, which waits for plans and trials.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Rc<RefCell<Content>>);

#[derive(Debug)]
struct Content {
    planner: Planner,
    environment: Rc<Environment>,
    overrides: Overrides,
    planning: Option<Planning>,
    /// The apps of the last plan that were not launched yet.
    apps: Vec<PlannedApp>,
    trial: Option<Trial>,
}

impl Content {
    /// Takes an app out of the last plan.
    fn take(&mut self, name: &str) -> Option<PlannedApp> {
        let at = self.apps.iter().position(|app| app.chosen.name() == name)?;
        Some(self.apps.swap_remove(at))
    }
}

impl Disk {
    /// Uses these settings and the decisions that operators have made.
    pub(crate) fn new(
        planner: Planner,
        environment: Rc<Environment>,
        overrides: Overrides,
    ) -> Self {
        let content = Content {
            planner,
            environment,
            overrides,
            planning: None,
            apps: Vec::new(),
            trial: None,
        };
        Self(Rc::new(RefCell::new(content)))
    }

    /// Whether a change of an app's file requests a reload.
    pub(crate) fn must_watch(&self) -> bool {
        self.0.borrow().planner.options.watch
    }

    /// Readable when a plan is made, or its apps were tried.
    pub(crate) fn fds(&self) -> Vec<OwnedFd> {
        let content = self.0.borrow();
        let planning = content.planning.iter().map(Planning::as_fd);
        let fds = planning.chain(content.trial.iter().map(Trial::as_fd));
        fds.filter_map(|fd: BorrowedFd<'_>| fd.try_clone_to_owned().ok()).collect()
    }

    /// The text of the configuration for operators, without its secrets, in sealed memory.
    ///
    /// # Errors
    /// Why it cannot be shown, as a phrase.
    pub(crate) fn shown_config(&self) -> Result<(OperatorReply, OwnedFd), String> {
        let file = self.0.borrow().planner.config_file();
        let text = file.as_deref().map_or(Ok(String::new()), new_config::read)?;
        let (shown, redacted) = config::reserved::redact(&text)
            .map_err(|why| format!("the configuration is not TOML now: {why}"))?;
        let memory = sys::shm::sealed_copy("configuration", shown.as_bytes());
        let memory = memory.map_err(|error| error.to_string())?;
        let sha256 = new_config::digest(&text)?;
        Ok((OperatorReply::Config { file, sha256, redacted }, memory))
    }
}

impl Deployment for Disk {
    fn plan(&mut self, order: Order) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        let planning = content.planner.begin(order, content.overrides.clone());
        content.planning = Some(planning.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn planned(&mut self) -> Option<Result<Plan, Unplannable>> {
        let mut content = self.0.borrow_mut();
        let made = content.planning.as_ref()?.take()?;
        content.planning = None;
        Some(made.map(|PlanWithApps { plan, apps }| {
            content.apps = apps;
            plan
        }))
    }

    fn launch(&mut self, app: &str, demoted: Option<&str>) -> Option<App> {
        let mut content = self.0.borrow_mut();
        let PlannedApp { id, chosen } = content.take(app)?;
        Some(launch::app(id, chosen, &content.environment, demoted))
    }

    fn try_apps(&mut self, apps: &[String], require: Require) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        let apps = apps.iter().filter_map(|app| content.take(app)).collect();
        let trial = Trial::begin(&content.planner, apps, require);
        content.trial = Some(trial.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn tried(&mut self) -> Option<Result<(), String>> {
        let mut content = self.0.borrow_mut();
        let result = content.trial.as_ref()?.take()?;
        content.trial = None;
        Some(result)
    }

    fn end(&mut self) {
        let mut content = self.0.borrow_mut();
        (content.planning, content.trial) = (None, None);
        content.apps.clear();
    }

    fn new_config(&self, fds: Vec<OwnedFd>, expected: &str) -> Result<NewConfig, String> {
        new_config::receive(fds, expected)
    }

    fn new_package(&self, fds: Vec<OwnedFd>) -> Result<PackageFiles, String> {
        new_config::staged_files(fds)
    }

    fn fixed(&self, config: &Config) -> Fixed {
        self.0.borrow().planner.fixed(config)
    }

    fn knows(&self, app: &str) -> bool {
        let content = self.0.borrow();
        content.overrides.get(app).is_some()
            || content.planner.options.apps.iter().any(|choice| choice.name == app)
    }

    fn enabled(&self, app: &str) -> Option<bool> {
        self.0.borrow().overrides.get(app)
    }

    fn enable(&mut self, app: &str, enabled: bool) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        let overrides = content.overrides.with(app, enabled);
        let stored = overrides.store(&content.planner.state_dir);
        stored.map_err(|error| format!("the decision could not be stored: {error}"))?;
        content.overrides = overrides;
        Ok(())
    }

    fn store(&mut self, config: &Config) -> Result<(), String> {
        new_config::store(config)
    }

    fn restore(
        &mut self,
        config: &Config,
        earlier: &EarlierConfig,
    ) -> Result<Option<PathBuf>, String> {
        new_config::restore(config, &earlier.loaded, earlier.force)
    }

    fn record(&mut self, kept: &Configuration, dropped: &[u64]) -> Result<(), String> {
        let dir = self.0.borrow().planner.state_dir.clone();
        let stored = config_store::write(&dir, kept);
        stored.map_err(|error| format!("{}: {error}", config_store::dir(&dir).display()))?;
        config_store::remove(&dir, dropped);
        Ok(())
    }

    fn await_confirmation(&mut self, waiting: Option<StoredConfirmation>) -> Result<(), String> {
        let dir = self.0.borrow().planner.state_dir.clone();
        let stored = match waiting {
            Some(StoredConfirmation { before, time }) => {
                Confirmation::new(before, time, &Clocks::now()).store(&dir)
            }
            None => Confirmation::remove(&dir),
        };
        stored.map_err(|error| format!("{}: {error}", dir.display()))
    }

    fn has_version(&self, app: &str, version: Version) -> bool {
        self.0.borrow().planner.has_version(app, version)
    }

    fn drop_staged(&mut self, app: &str) {
        self.0.borrow().planner.drop_staged(app);
    }

    fn use_staged(&mut self, app: &str) -> Result<(), String> {
        self.0.borrow().planner.use_staged(app)
    }

    fn use_previous(&mut self, app: &str) -> Result<(), String> {
        self.0.borrow().planner.use_previous(app)
    }

    fn take_back(&mut self, app: &str) -> Result<(), String> {
        self.0.borrow().planner.take_back(app)
    }

    fn services(&self, kinds: &[ServiceKind]) -> Result<Vec<ServiceParts>, String> {
        self.0.borrow().environment.services(kinds).map_err(|error| error.to_string())
    }
}
