//! Reads the operator's configuration, `rosemary.toml`.
//!
//! The file is optional: without it `forwarding` and `stats` run. `docs/configuration.md` describes every
//! key, and `etc/rosemary.toml` has it with its default. The command line overrides the file.
//!
//! An error names file, line and column, the value found and the value expected. An unknown key is an error. All mistakes are
//! found at once ([`Config::load_all`]). Paths are relative to the file's directory.
//!
//! [`Config`] is made section by section, each in a module of its name: `controller`, `zones`, `supervision`, `quotas` (`[storage]`
//! and `[log]`), `northbound`, `trust`, and `apps` for all `[[app]]`. An [`AppConfig`] (`app`) has modules for its larger keys.

#![forbid(unsafe_code)]

mod app;
mod apps;
mod band;
mod changes;
mod config;
mod controller;
mod environment;
mod error;
mod file;
mod findings;
pub mod fs_read;
mod grants;
mod hosting;
#[cfg(feature = "arguments")]
pub mod instance;
mod limits;
mod manifest;
mod northbound;
mod orphans;
mod ovsdb;
mod policies;
mod position;
mod quotas;
pub mod reserved;
mod rights;
mod role;
mod sessions;
mod set;
mod shipped;
mod start;
mod suggestion;
mod supervision;
mod trust;
mod tuning;
mod value;
mod words;
mod zones;

pub use app::{APP_KEYS, AppConfig, Manifests, OnStop};
pub use apps::{MOST_APPS, MOST_ELEMENTS};
pub use changes::changes;
pub use config::{Config, DEFAULT_APPS, TOP_KEYS};
pub use controller::CONTROLLER_KEYS;
pub use environment::{ENV_IN_KERNEL, Environment, check_variable_of_python};
pub use error::ConfigError;
pub use file::{SYSTEM_CONFIG, default_file, runtime_dir_of, user_dir};
pub use hosting::{HostKeys, module_name};
pub use limits::{Bound, LIMITS_KEYS, Limits, NONE as NO_LIMIT, bytes};
pub use manifest::{MANIFEST_KEYS, Manifest, ManifestMistake};
/// A resource with a limit.
pub use names::Limit;
pub use northbound::{NORTHBOUND_KEYS, Northbound, is_host_name};
pub use orphans::Orphans;
pub use ovsdb::{MOST_DATABASES, OVSDB_KEYS};
pub use position::Position;
pub use quotas::{HISTORY_KEYS, LOG_KEYS, STORAGE_KEYS};
pub use rights::{Granted, SERVE_HTTP, ServiceRight};
pub use role::{Need, Role};
pub use sessions::{SESSIONS_KEYS, SessionConfig, Sessions};
pub use set::{Fault, SetFault};
pub use start::{START_KEYS, Verify};
pub use suggestion::nearest;
pub use supervision::{
    RESTART_KEYS, RestartKeys, RestartPolicy, SAFE_MODE_KEYS, SUPERVISION_KEYS, SafeMode,
    Supervision,
};
pub use trust::{ExcessiveRequest, SHIPPED, TRUST_KEYS, Trust};
pub use tuning::{InvalidVariable, with_environment};
pub use words::{NAME_FORM, alternatives, is_name, stage_name};
pub use zones::{Require, ZONES_KEYS};

#[cfg(test)]
mod tests;
