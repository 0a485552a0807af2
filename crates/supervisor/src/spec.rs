//! The specification of an app: the result of the configuration, of packages and of operators' decisions.

use std::path::PathBuf;
use std::time::Duration;

use config::{AppConfig, RestartPolicy};
use control::hosting::Hosting;
use control::policy::{Policy, Stage};
use control::service::ClientRights;
use package::PublicKey;

use crate::program::Executable;

/// The key that can change while the kernel hosts the app; any other change restarts the kernel.
pub const LOG_LEVEL: &str = "log-level";

/// The specification of an app. Two apps with equal specifications and equal files behave alike.
#[derive(Debug, Clone, PartialEq)]
pub struct AppSpec {
    /// The settings of its operator and its developer.
    pub keys: AppConfig,
    /// Its rights, stage and priorities among the other apps.
    pub policy: Policy,
    /// Who vouches for it.
    pub origin: Origin,
    /// Where its object comes from.
    pub object: PathBuf,
    /// Its rights in services.
    pub rights: ClientRights,
    /// How long one of its calls may take.
    pub hang: Duration,
    /// When it is restarted and held.
    pub restart: RestartPolicy,
    /// What runs its zone.
    pub runtime: Runtime,
}

/// The program that runs an app in a zone on this machine, as the app's hosting finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// The hosting of the zone. An app that the kernel no longer hosts has another one than its specification.
    pub host: Hosting,
    /// The program of the zone.
    pub program: Executable,
    /// Files and directories of the program that the app may read.
    pub read: Vec<PathBuf>,
    /// Directories with modules of the program, those of the system aside.
    pub modules: Vec<PathBuf>,
    /// The program of a kernel that hosts the app, if the usual one cannot. It hosts all other apps, too.
    pub kernel: Option<Executable>,
}

impl Runtime {
    /// The runtime of an app with this hosting whose zone is a program without arguments and without files of its own.
    pub fn of_program(host: Hosting, program: PathBuf) -> Self {
        let (read, modules) = (Vec::new(), Vec::new());
        Self { host: host.outside(), program: program.into(), read, modules, kernel: None }
    }
}

impl AppSpec {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.keys.name
    }

    /// The key of its developer. Name and key together identify an app.
    pub fn key(&self) -> Option<&PublicKey> {
        match &self.origin {
            Origin::Package { key, .. } => Some(key),
            Origin::Unknown { key } => key.as_ref(),
            Origin::Shipped | Origin::Unsigned => None,
        }
    }

    /// Whether the app runs from a package.
    pub fn is_packaged(&self) -> bool {
        matches!(self.origin, Origin::Package { .. })
    }

    /// Whether the app is a guard.
    pub fn is_guard(&self) -> bool {
        matches!(self.policy.stage, Stage::Guard(_))
    }

    /// The files and directories of the machine that its zone may read, with those of its runtime and its modules.
    pub fn readable(&self) -> Vec<PathBuf> {
        let own = self.keys.read.iter().chain(&self.runtime.read);
        own.chain(&self.keys.host_keys.path).cloned().collect()
    }

    /// The keys whose values differ and that only another process of the app can have.
    pub fn differ_for_process(&self, new: &Self) -> Vec<&'static str> {
        let stage = |spec: &Self| std::mem::discriminant(&spec.policy.stage);
        // An app gets a band with the first capability that writes flows.
        let gains_band = self.policy.capabilities != new.policy.capabilities;
        let band = self.policy.band != new.policy.band;
        let (old, keys) = (&self.keys, &new.keys);
        let moves = old.host.process != keys.host.process;
        let is_of_other_host = !moves && old.host != keys.host;
        let differ = [
            ("host", moves),
            ("signature", self.origin != new.origin),
            ("object", self.object != new.object),
            ("config", old.config != keys.config),
            ("stage", stage(self) != stage(new)),
            ("capabilities", band && gains_band),
            ("band", band),
            ("services", old.services != keys.services || self.rights != new.rights),
            ("limits", old.limits != keys.limits),
            ("fs.read", old.read != keys.read),
            ("env", old.env != keys.env),
            ("hang-seconds", self.hang != new.hang),
            ("restart", self.restart != new.restart),
            (
                "host, python-path, options or listen",
                is_of_other_host || old.host_keys != keys.host_keys || self.runtime != new.runtime,
            ),
        ];
        differ.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    /// The keys whose values differ and that can change while the app runs.
    pub fn differ_while_running(&self, new: &Self) -> Vec<&'static str> {
        let on_stop = self.keys.on_stop != new.keys.on_stop;
        let log_level = self.keys.log_level != new.keys.log_level;
        let (old, new) = (&self.policy, &new.policy);
        let differ = [
            ("fail", old.stage != new.stage),
            ("position", old.order != new.order),
            ("filter", old.filter != new.filter),
            ("capabilities", old.capabilities != new.capabilities),
            ("quota", old.quota != new.quota),
            ("flows", old.flows != new.flows),
            ("pace", old.pace != new.pace),
            ("session", old.session != new.session),
            ("on-stop", on_stop),
            (LOG_LEVEL, log_level),
        ];
        differ.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }
}

/// Who vouches for an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
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
    pub fn name(&self) -> &'static str {
        match self {
            Self::Package { .. } => "package",
            Self::Shipped => "shipped",
            Self::Unsigned => "unsigned",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// The developer who signed it.
    pub fn developer(&self) -> Option<&str> {
        match self {
            Self::Package { developer, .. } => Some(developer),
            Self::Shipped | Self::Unsigned | Self::Unknown { .. } => None,
        }
    }
}
