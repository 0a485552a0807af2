//! The level of an app's log, which changes while the app runs.
//!
//! The host of the app and the monitor both filter. The host saves the time for lines that nobody reads; the monitor also
//! filters what the app prints past its host, and trusts no host.

use control::kernel::KernelRequest;
use control::log::LogLevel;
use control::zone::ZoneRequest;

use crate::spec::AppSpec;

use super::App;

impl App {
    /// The level of its log: the operator's, or else the configured one, or else that of Rosemary.
    pub fn log_level(&self) -> LogLevel {
        self.log_level.or(self.spec.keys.log_level).unwrap_or(self.default_log_level)
    }

    /// Changes the level; `None` selects the configured one. Returns the request for a kernel that hosts the app.
    pub fn set_log_level(&mut self, level: Option<LogLevel>) -> Option<KernelRequest> {
        self.log_level = level;
        let level = self.log_level();
        if let Some(program) = self.program_mut() {
            program.set_log_level(level);
            if program.has_process() {
                program.send(ZoneRequest::LogLevel { level }, Vec::new());
            }
        }
        self.runs_in_kernel().then_some(KernelRequest::LogLevel { app: self.id, level })
    }

    /// Notes new settings, which the kernel and the monitor apply while the app runs. A new level in the configuration
    /// replaces the operator's. Returns the request for a kernel that hosts the app.
    pub fn set_spec(&mut self, spec: AppSpec) -> Option<KernelRequest> {
        let is_new_level = self.spec.keys.log_level != spec.keys.log_level;
        self.spec = spec;
        if is_new_level { self.set_log_level(None) } else { None }
    }

    /// Takes over the level that an operator has set for `former`, an app with the same name, unless the configuration has
    /// another one now.
    pub(super) fn take_log_level(&mut self, former: &Self) {
        if self.spec.keys.log_level == former.spec.keys.log_level
            && let Some(level) = former.log_level
        {
            self.set_log_level(Some(level));
        }
    }
}
