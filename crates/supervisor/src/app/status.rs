//! Reports an app's status and resource use to operators.

use std::path::Path;
use std::time::Duration;

use config::{OnStop, stage_name};
use control::app_report::{AppReport, RestartRule};
use control::operator::{AppStatus, KernelStatus, ProgramState, ProgramUsage};
use control::policy::Band;

use super::App;
use super::host_state::HostState;
use crate::spec::AppSpec;
use crate::usage::report;

impl App {
    /// The user that the app runs as.
    pub(super) fn uid(&self) -> u32 {
        if self.is_in_kernel() { self.kernel_uid } else { self.zone_settings.uid() }
    }

    /// The app's process, state and number of restarts. `kernel` is the kernel's process and state.
    fn process(&self, kernel: (Option<u32>, ProgramState)) -> (Option<u32>, ProgramState, u64) {
        let kernel_starts = self.host.kernel_starts();
        match &self.host {
            HostState::Kernel(in_kernel) => {
                let (pid, state) = kernel;
                let is_stopped = self.intent.is_stopped();
                let state = if is_stopped { ProgramState::Stopped } else { in_kernel.state(state) };
                let restarts = kernel_starts.saturating_sub(1) + in_kernel.ends().0;
                (pid.filter(|_| state != ProgramState::Stopped), state, restarts)
            }
            HostState::Zone { zone, .. } => {
                let lifecycle = zone.program.lifecycle();
                let restarts = (kernel_starts + lifecycle.starts()).saturating_sub(1);
                (zone.program.pid(), lifecycle.state(), restarts)
            }
        }
    }

    /// The app's status for operators, with the kernel's status.
    pub fn status(&self, kernel: &KernelStatus) -> AppStatus {
        let (pid, state, restarts) = self.process((kernel.pid, kernel.state));
        let demoted = self.host.demoted();
        let last_exit = match self.program() {
            Some(program) => program.lifecycle().last_exit().or(demoted),
            // The kernel's own line shows how the kernel ended. An app that ended it is in a zone now.
            None => self.host.last_end_in_kernel(),
        };
        let Band { lowest, highest } = self.spec.policy.band;
        AppStatus {
            name: self.name.clone(),
            number: self.id.0,
            stage: stage_name(self.spec.policy.stage).into(),
            band: (self.spec.policy.band != Band::NONE).then_some([lowest, highest]),
            host: self.host.process().name().into(),
            demoted: demoted.map(Into::into),
            version: self.files.version.clone(),
            sha256: self.files.sha256.clone(),
            origin: self.spec.origin.name().into(),
            signed_by: self.spec.origin.developer().map(Into::into),
            pid,
            uid: self.uid(),
            state,
            restarts,
            last_exit: last_exit.map(Into::into),
            kept: self.kept.clone(),
            problem: self.reports.problem().map(Into::into),
            limited: None, // `Programs` knows
        }
    }

    /// The path of the app's own configuration file.
    pub fn own_file(&self) -> Option<&Path> {
        self.files.config_path()
    }

    /// The report about the app for operators, with the kernel's status.
    pub fn report(&self, kernel: &KernelStatus) -> AppReport {
        let AppSpec { restart, hang, keys, .. } = &self.spec;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        AppReport {
            status: self.status(kernel),
            policy: self.spec.policy.clone(),
            services: self.spec.keys.services.iter().map(|it| it.name().to_owned()).collect(),
            rights: self.spec.rights.clone(),
            read: self.spec.keys.read.clone(),
            object: self.files.object_path().to_owned(),
            config: self.files.config_path().map(ToOwned::to_owned),
            log_level: self.log_level(),
            hang_seconds: hang.as_secs(),
            restart: RestartRule {
                min_run_ms: ms(restart.min_run),
                longest_pause_ms: ms(restart.longest_pause),
                restarts: restart.restarts,
                window_seconds: restart.window.as_secs(),
            },
            removes_flows: keys.on_stop == OnStop::Remove,
            routes: None, // `Programs` knows
            usage: self.usage((kernel.pid, kernel.state)),
        }
    }

    /// The app's usage for operators. `kernel` is the kernel's process and state.
    pub fn usage(&self, kernel: (Option<u32>, ProgramState)) -> ProgramUsage {
        let kind = if self.is_in_kernel() { "kernel app" } else { "app" };
        let (pid, state, restarts) = self.process(kernel);
        let usage = report::program_usage(&self.name, kind, state, &self.meter);
        ProgramUsage { pid, restarts, ..usage }
    }

    /// Whether it serves, has failed, or is not to run. `kernel` is the kernel's state.
    pub fn has_started(&self, kernel: ProgramState) -> bool {
        match self.state(kernel) {
            ProgramState::Running => self.is_connected(),
            ProgramState::Held | ProgramState::Stopped => true,
            ProgramState::Waiting | ProgramState::Starting | ProgramState::Stopping => {
                self.program().is_some_and(|program| program.lifecycle().last_exit().is_some())
            }
        }
    }
}
