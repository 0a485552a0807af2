//! The settings of an app by its operator and its developer, in a form that can be compared.

use std::path::PathBuf;
use std::time::Duration;

use config::{Environment, Limits, OnStop, Python, RestartPolicy};
use control::app::Hosting;
use control::log::LogLevel;
use control::policy::{Policy, Stage};
use control::service::ClientRights;
use sdk::services::Service;

use crate::choice::{self, Origin};
use crate::python::Interpreter;

/// The key that can change while the kernel hosts the app; any other change restarts the kernel.
pub(crate) const LOG_LEVEL: &str = "log-level";

/// All settings of an app. Two apps with equal settings and equal files behave alike.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AppSettings {
    pub(crate) policy: Policy,
    pub(crate) host: Hosting,
    pub(crate) origin: Origin,
    pub(crate) object: PathBuf,
    pub(crate) config: Option<PathBuf>,
    pub(crate) services: Vec<Service>,
    pub(crate) rights: ClientRights,
    pub(crate) limits: Limits,
    pub(crate) read: Vec<PathBuf>,
    pub(crate) env: Environment,
    pub(crate) hang: Duration,
    pub(crate) restart: RestartPolicy,
    pub(crate) on_stop: OnStop,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) python: Option<(Python, Interpreter)>,
}

impl AppSettings {
    /// The settings of a chosen app, with its rights in services.
    pub(crate) fn of(app: &choice::App, rights: &ClientRights) -> Self {
        Self {
            policy: app.policy.clone(),
            host: app.host,
            origin: app.origin.clone(),
            object: app.object.path().to_owned(),
            config: app.config.clone(),
            services: app.services.clone(),
            rights: rights.clone(),
            limits: app.limits,
            read: app.read.clone(),
            env: app.env.clone(),
            hang: app.hang,
            restart: app.restart,
            on_stop: app.on_stop,
            log_level: app.log_level,
            python: app.python.clone(),
        }
    }

    /// The keys whose values differ and that only another process of the app can have.
    pub(crate) fn differ_for_process(&self, new: &Self) -> Vec<&'static str> {
        let stage = |policy: &Policy| std::mem::discriminant(&policy.stage);
        // An app gets a band with the first capability that writes flows.
        let gains_band = self.policy.capabilities != new.policy.capabilities;
        let band = self.policy.band != new.policy.band;
        let differ = [
            ("host", self.host != new.host),
            ("signature", self.origin != new.origin),
            ("object", self.object != new.object),
            ("config", self.config != new.config),
            ("stage", stage(&self.policy) != stage(&new.policy)),
            ("capabilities", band && gains_band),
            ("band", band),
            ("services", self.services != new.services || self.rights != new.rights),
            ("limits", self.limits != new.limits),
            ("fs.read", self.read != new.read),
            ("env", self.env != new.env),
            ("hang-seconds", self.hang != new.hang),
            ("restart", self.restart != new.restart),
            ("host, python-path, options or listen", self.python != new.python),
        ];
        differ.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    /// The keys whose values differ and that can change while the app runs.
    pub(crate) fn differ_while_running(&self, new: &Self) -> Vec<&'static str> {
        let on_stop = self.on_stop != new.on_stop;
        let log_level = self.log_level != new.log_level;
        let (old, new) = (&self.policy, &new.policy);
        let differ = [
            ("fail", old.stage != new.stage),
            ("position", old.order != new.order),
            ("filter", old.filter != new.filter),
            ("capabilities", old.capabilities != new.capabilities),
            ("quota", old.quota != new.quota),
            ("flows", old.flows != new.flows),
            ("pace", old.pace != new.pace),
            ("on-stop", on_stop),
            (LOG_LEVEL, log_level),
        ];
        differ.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    /// Whether the app is a guard.
    pub(crate) fn is_guard(&self) -> bool {
        matches!(self.policy.stage, Stage::Guard(_))
    }
}
