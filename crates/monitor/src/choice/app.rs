//! One app that is to run: its settings, its object, and who vouches for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{AppConfig, Config, Environment, Limits, OnStop, Python, RestartPolicy, ServiceRight};
use control::app::Hosting;
use control::log::LogLevel;
use control::policy::Policy;
use control::zone::Framework;
use package::PublicKey;
use sdk::services::Service;

use crate::error::StartError;
use crate::object::Object;
use crate::python::Interpreter;
use supervisor::hang::DEFAULT_LONGEST_CALL;

/// An app that is to run.
#[derive(Debug)]
pub(crate) struct App {
    /// Its name.
    pub(crate) name: String,
    /// Its object, which exists.
    pub(crate) object: Object,
    /// Who vouches for it.
    pub(crate) origin: Origin,
    /// The file with its own configuration, if it has one.
    pub(crate) config: Option<PathBuf>,
    /// Its rights, stage and priorities.
    pub(crate) policy: Policy,
    /// What hosts it.
    pub(crate) host: Hosting,
    /// Its resource limits.
    pub(crate) limits: Limits,
    /// Files and directories of the machine that it may read.
    pub(crate) read: Vec<PathBuf>,
    /// Rosemary's own directories, which no app may read; paths without symbolic links.
    pub(crate) never: Arc<[PathBuf]>,
    /// Environment variables of its process.
    pub(crate) env: Environment,
    /// How long one of its calls may take.
    pub(crate) hang: Duration,
    /// When it is restarted and held.
    pub(crate) restart: RestartPolicy,
    /// What becomes of its flows when it is stopped.
    pub(crate) on_stop: OnStop,
    /// The level of its log; `None` for that of Rosemary.
    pub(crate) log_level: Option<LogLevel>,
    /// The services that it may use.
    pub(crate) services: Vec<Service>,
    /// Its rights in these services beyond its own data.
    pub(crate) service_rights: Vec<ServiceRight>,
    /// Its settings and its interpreter, if it is written in Python.
    pub(crate) python: Option<(Python, Interpreter)>,
}

impl App {
    /// The app of `settings` with this policy and object.
    pub(crate) fn of(
        settings: AppConfig,
        policy: Policy,
        (object, origin): (Object, Origin),
        config: &Config,
    ) -> Result<Self, StartError> {
        let is_archive = object
            .is_archive()
            .map_err(|source| StartError::System { what: "read a package", source })?;
        let python = match settings.python {
            None if is_archive => Some(Python::new(Framework::Python)),
            other => other,
        };
        let python = python.map(|python| interpreter(&settings.name, python));
        let python = python
            .transpose()
            .map_err(|error| error.at(config.position_of_app(&settings.name, "host")))?;
        let hang = settings.hang.or(config.hang).unwrap_or(DEFAULT_LONGEST_CALL);
        let restart = settings.restart.over(config.supervision.apps);
        let AppConfig { name, config: file, host, read, limits, env, on_stop, log_level, .. } =
            settings;
        let (services, service_rights) = (settings.services, settings.service_rights);
        Ok(Self {
            never: Arc::default(), // set when Rosemary's directories exist
            name,
            object,
            origin,
            config: file,
            policy,
            host,
            read,
            limits: limits.with_rings(config.tuning.ring),
            env,
            log_level,
            hang,
            restart,
            on_stop,
            services,
            service_rights,
            python,
        })
    }

    /// The key of its developer. Name and key together identify an app.
    pub(crate) fn key(&self) -> Option<&PublicKey> {
        match &self.origin {
            Origin::Package { key, .. } => Some(key),
            Origin::Unknown { key } => key.as_ref(),
            Origin::Shipped | Origin::Unsigned => None,
        }
    }
}

/// Adds the interpreter to the settings of the app `app`.
fn interpreter(app: &str, python: Python) -> Result<(Python, Interpreter), StartError> {
    let interpreter = Interpreter::find()?;
    if python.framework == Framework::Ryu && !interpreter.has_ryu() {
        return Err(StartError::NoRyu { app: app.to_owned() });
    }
    Ok((python, interpreter))
}

/// Who vouches for an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A developer, who signed its package.
    Package {
        /// The developer's name in `[[trust]]`.
        developer: String,
        /// The developer's public key.
        key: PublicKey,
    },
    /// The installer of Rosemary: the app ships with it.
    Shipped,
    /// Nobody.
    Unsigned,
    /// Nobody knows, because its files cannot be used.
    Unknown {
        /// The key of the developer whose app last had this name.
        key: Option<PublicKey>,
    },
}

impl Origin {
    /// The origin in one word, for operators.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Package { .. } => "package",
            Self::Shipped => "shipped",
            Self::Unsigned => "unsigned",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// The developer who signed it.
    pub(crate) fn developer(&self) -> Option<&str> {
        match self {
            Self::Package { developer, .. } => Some(developer),
            Self::Shipped | Self::Unsigned | Self::Unknown { .. } => None,
        }
    }
}
