//! Moves all kernel apps to zones after unexplained ends of the kernel, and returns them one by one.
//!
//! [`crate::comeback`] decides; this file collects its inputs and performs its steps.

use std::time::{Duration, Instant};

use control::incident::IncidentId;
use tracing::{error, info, warn};

use super::Programs;
use crate::app::App;
use crate::comeback::{Comeback, Rule, Seen, Step};
use crate::kernel::EndOfKernel;

/// The rule, and the apps that left the kernel while they have not all returned.
#[derive(Debug, Default)]
pub(super) struct KernelApps {
    rule: Rule,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    comeback: Comeback,
    /// The incident of the kernel's second end.
    incident: Option<IncidentId>,
}

impl KernelApps {
    /// When the next step is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.running.as_ref().and_then(|running| running.comeback.next_due())
    }

    /// Safe mode begins: it starts the apps one by one.
    pub(super) fn leave_to_safe_mode(&mut self) {
        self.running = None;
    }
}

impl Programs {
    /// Whether apps of the kernel are out of it for a trial.
    pub fn is_in_comeback(&self) -> bool {
        self.kernel_apps.running.is_some()
    }

    /// The kernel, which had run for `ran`, has ended as `how` says. Its apps leave it if that happened before and the cause is
    /// unknown. `incident` is the kernel's.
    pub(super) fn note_unexplained_end(
        &mut self,
        end: EndOfKernel,
        (how, ran): (&str, Duration),
        incident: Option<IncidentId>,
        now: Instant,
    ) {
        if !end.is_unexplained || self.is_stopping() || self.kernel.must_restart() {
            return;
        }
        if let Some(running) = &mut self.kernel_apps.running {
            let step = running.comeback.kernel_ended(how);
            return self.perform(step, now);
        }
        let hosts_apps = self.apps.iter().any(App::runs_in_kernel);
        let health = self.safe_mode.health();
        let trial = self.kernel_apps.rule.kernel_ended(ran, health, now);
        let Some(trial) = trial.filter(|_| hosts_apps && !self.is_in_safe_mode()) else { return };
        let mut names = Vec::new();
        for app in self.apps.iter_mut().filter(|app| app.runs_in_kernel()) {
            app.demote_for_trial(now);
            names.push(app.name.clone());
        }
        let trial_s = trial.as_secs_f64();
        let apps = names.join(", ");
        error!(
            apps,
            trial_s, "the kernel ended twice without a known cause; its apps moved to zones"
        );
        let comeback = Comeback::new(names, trial, self.kernel.leak_rule());
        self.kernel_apps.running = Some(Running { comeback, incident });
        self.note_comeback(format!(
            "the kernel ended twice without a known cause: its apps {apps} moved to zones and return one by one, after \
             {trial_s:.0} s each"
        ));
    }

    /// Performs the steps that are due.
    pub(super) fn advance_comeback(&mut self, now: Instant) {
        while let Some(step) = self.next_comeback_step(now) {
            self.perform(step, now);
        }
    }

    fn next_comeback_step(&mut self, now: Instant) -> Option<Step> {
        let is_stopping = self.is_stopping();
        let running = self.kernel_apps.running.as_mut().filter(|_| !is_stopping)?;
        let comeback = &mut running.comeback;
        // A zone that was started for the trial has no earlier starts.
        let failed = self.apps.iter().filter(|app| app.is_out_for_trial());
        let failed: Vec<_> =
            failed.filter_map(|app| Some((app.name.clone(), app.failure_after(0)?))).collect();
        if let Some(step) = failed.iter().find_map(|(app, why)| comeback.failed(app, why)) {
            return Some(step);
        }
        let on_trial = comeback.on_trial();
        let app = on_trial.and_then(|name| self.apps.iter().find(|app| app.name == name));
        let seen = Seen {
            kernel_runs: self.kernel.program.is_running() && !self.kernel.must_restart(),
            is_loaded: app.is_some_and(App::is_loaded_in_kernel),
            has_left: on_trial.is_some()
                && app.is_none_or(|app| !app.runs_in_kernel() && !app.is_out_for_safe_mode()),
        };
        comeback.advance(seen, now)
    }

    /// Watches the memory of apps that wait in zones.
    pub(super) fn measure_comeback(&mut self, now: Instant) {
        let Some(running) = &mut self.kernel_apps.running else { return };
        let leaks = self
            .apps
            .iter()
            .filter(|app| app.is_out_for_trial())
            .find_map(|app| running.comeback.measured(&app.name, app.zone_memory()?, now));
        if let Some(step) = leaks {
            self.perform(step, now);
        }
    }

    fn perform(&mut self, step: Step, now: Instant) {
        match step {
            Step::Keep(name, why) => self.keep_out(&name, &why, now),
            Step::Return(name) => {
                info!(app = name, "app returns to the kernel for a trial");
                self.return_from_trial(&[name], now);
            }
            Step::Passed(app) => {
                info!(app, "the kernel ran without a fault after an app had returned");
                self.note_comeback(format!("app {app} returned to the kernel"));
            }
            Step::ReturnAll(names) => {
                warn!("the kernel ended without its apps as well; they return");
                self.note_comeback("the kernel ended without its apps as well; they return".into());
                self.return_from_trial(&names, now);
            }
            Step::Complete => self.kernel_apps.running = None,
        }
    }

    /// Keeps an app out of the kernel until the operator promotes it.
    fn keep_out(&mut self, name: &str, why: &str, now: Instant) {
        error!(app = name, why, "the app with which the kernel's fault came back was named");
        if let Some(app) = self.apps.iter_mut().find(|app| app.name == name) {
            app.keep_out(why, now);
            self.demotions.record(name, why);
        }
        if let Some(id) = self.kernel_apps.running.as_ref().and_then(|running| running.incident) {
            self.incidents.amend(id, |evidence| {
                evidence.blamed.get_or_insert_with(|| name.to_owned());
                evidence.facts.push(format!("app {name}: {why}"));
            });
        }
        self.note_comeback(format!("app {name} stays out of the kernel"));
    }

    /// Restarts the kernel with those of these apps that still wait.
    fn return_from_trial(&mut self, names: &[String], now: Instant) {
        let mut restarts = false;
        for app in self.apps.iter_mut().filter(|app| names.contains(&app.name)) {
            if app.is_out_for_trial() {
                app.hold_back(now);
                restarts = true;
            }
        }
        if restarts {
            self.kernel.restart(now);
        }
    }

    fn note_comeback(&self, what: String) {
        if let Some(id) = self.kernel_apps.running.as_ref().and_then(|running| running.incident) {
            self.incidents.reaction(id, what);
        }
    }
}
