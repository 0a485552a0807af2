//! Defines the report about one app: its state, its rights, its limits and its settings.
//!
//! The monitor sends it to an operator's command, which prints it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::log::LogLevel;
use crate::operator::{AppStatus, ProgramUsage};
use crate::policy::Policy;
use crate::service::ClientRights;

/// One app, as the monitor describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppReport {
    /// Its state.
    pub status: AppStatus,
    /// Its rights, which the kernel enforces, and its position among the other apps.
    pub policy: Policy,
    /// The names of the services that it may use.
    pub services: Vec<String>,
    /// Its rights in these services beyond its own data.
    pub rights: ClientRights,
    /// The files and directories of the machine that it may read.
    pub read: Vec<PathBuf>,
    /// The file of its object.
    pub object: PathBuf,
    /// The file of its configuration, if it has one.
    pub config: Option<PathBuf>,
    /// The level of its log.
    pub log_level: LogLevel,
    /// Processor time that one of its calls may use, in seconds.
    pub hang_seconds: u64,
    /// When it is restarted and held.
    pub restart: RestartRule,
    /// Whether its flows, groups and meters are removed from the switches when an operator stops it.
    pub removes_flows: bool,
    /// The address of its HTTP routes, if it may publish some and the HTTP interface serves them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<String>,
    /// Its use of each limited resource, and the limits.
    pub usage: ProgramUsage,
}

/// When an app that ended is started again, and when it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartRule {
    /// An app that ran shorter waits until this time after its start, in milliseconds.
    pub min_run_ms: u64,
    /// The longest time from one start to the next, in milliseconds.
    pub longest_pause_ms: u64,
    /// The most restarts in the window, after which the app is held; `None` for an app that is never held.
    pub restarts: Option<u32>,
    /// The time in which restarts are counted, in seconds.
    pub window_seconds: u64,
}
