//! Safe mode: starts the apps one at a time as user apps, and holds those with which a fault comes back.
//!
//! [`crate::safe_mode`] decides; this file collects its inputs and performs its steps. A guard that does not run yet stays in the kernel's
//! plan, so packets that need its verdict are treated as its `fail` says.

use std::time::{Duration, Instant};

use control::incident::{Cause, Evidence, IncidentId, Program as Subject};
use control::operator::{ProgramState, SafeModeStatus, Suspect};
use tracing::{error, info, warn};

use super::Programs;
use crate::app::{App, Role};
use crate::safe_mode::{Rule, Seen, Sequence, Step};

/// The rule of safe mode, and safe mode while it lasts.
#[derive(Debug)]
pub(super) struct SafeMode {
    /// The apps that run in safe mode, in their order; `None` for all.
    apps: Option<Vec<String>>,
    health: Duration,
    rule: Rule,
    /// How often the kernel has ended without a request and without a signal from outside.
    kernel_ends: u64,
    /// How it ended last, as a phrase.
    kernel_exit: String,
    /// Why safe mode must begin, if it must.
    due: Option<String>,
    running: Option<Running>,
}

/// Safe mode while it lasts.
#[derive(Debug)]
struct Running {
    sequence: Sequence,
    incident: IncidentId,
    /// How often the app on trial had been started before its trial.
    starts: u64,
}

impl SafeMode {
    pub(super) fn new(settings: &config::SafeMode) -> Self {
        Self {
            apps: settings.apps.clone(),
            health: settings.health,
            rule: Rule::new(settings),
            kernel_ends: 0,
            kernel_exit: String::new(),
            due: None,
            running: None,
        }
    }

    /// How long programs must run without a fault.
    pub(super) fn health(&self) -> Duration {
        self.health
    }

    /// When the sequence is due to go on.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.running.as_ref().and_then(|running| running.sequence.next_due())
    }
}

/// The names of apps in the order of their start.
#[derive(Debug, Default)]
struct Order(Vec<String>);

impl Order {
    /// Adds an app after those of `apps` whose services it uses. Without them its trial would show nothing.
    fn add(&mut self, app: &App, apps: &[&App]) {
        self.add_behind(app, apps, &mut Vec::new());
    }

    /// `clients` are the apps for which this one is added: apps may use each other's services.
    fn add_behind<'a>(&mut self, app: &'a App, apps: &[&'a App], clients: &mut Vec<&'a str>) {
        if self.0.contains(&app.name) || clients.contains(&&*app.name) {
            return;
        }
        clients.push(&app.name);
        let serves = |other: &&&App| other.provides().is_some_and(|service| app.uses(service));
        for provider in apps.iter().filter(serves) {
            self.add_behind(provider, apps, clients);
        }
        clients.pop();
        self.0.push(app.name.clone());
    }
}

impl Programs {
    /// Whether safe mode lasts.
    pub fn is_in_safe_mode(&self) -> bool {
        self.safe_mode.running.is_some()
    }

    /// Returns once why safe mode must begin, as a phrase, if it must.
    pub fn take_safe_mode_due(&mut self) -> Option<String> {
        self.safe_mode.due.take()
    }

    /// Whether safe mode must begin.
    pub fn is_safe_mode_due(&self) -> bool {
        self.safe_mode.due.is_some()
    }

    /// Safe mode for operators, while it lasts.
    pub fn safe_mode_status(&self) -> Option<SafeModeStatus> {
        self.safe_mode.running.as_ref().map(|running| running.sequence.status())
    }

    /// Counts an end of the kernel that nobody requested. `from_outside` says whether the kernel recorded that another process
    /// sent the signal: then the app on trial did not cause it. The rule counts such an end, too, because a kernel app that
    /// ends the kernel could forge that record. In safe mode no app is in the kernel.
    pub(super) fn note_end_of_kernel(&mut self, how: &str, from_outside: bool, now: Instant) {
        if self.is_stopping() || self.kernel.must_restart() {
            return;
        }
        let safe_mode = &mut self.safe_mode;
        if !from_outside {
            safe_mode.kernel_ends += 1;
        }
        how.clone_into(&mut safe_mode.kernel_exit);
        let why = safe_mode.rule.kernel_ended(now);
        // A sequence that is under way names the app of each end by itself.
        if safe_mode.running.as_ref().is_none_or(|it| it.sequence.is_complete()) {
            safe_mode.due = why;
        }
    }

    /// Ends all apps, and then starts them one at a time.
    pub fn begin_safe_mode(&mut self, why: &str, now: Instant) {
        error!(why, "safe mode began: apps are started one at a time, all as user apps");
        self.kernel_apps.leave_to_safe_mode();
        let order = self.order_in_safe_mode();
        let hosts_apps = self.apps.iter().any(App::is_in_kernel);
        let current = self.apps.iter_mut().filter(|app| app.role() == Role::Current);
        current.for_each(|app| app.hold_back(now));
        if hosts_apps && self.kernel.program.has_process() {
            self.kernel.restart(now);
        }
        let health = self.safe_mode.health;
        let (sequence, incident) = if let Some(running) = self.safe_mode.running.take() {
            let Running { sequence, incident, .. } = running;
            self.incidents.reaction(incident, format!("began again, as {why}"));
            (sequence.again(order, why.to_owned(), now), incident)
        } else {
            let evidence = Evidence::fact(why);
            let incident = self.incidents.open(Subject::monitor(), Cause::SafeMode, evidence);
            self.incidents
                .reaction(incident, format!("apps start in this order: {}", order.join(", ")));
            (Sequence::new(order, why.to_owned(), health, now), incident)
        };
        self.safe_mode.running = Some(Running { sequence, incident, starts: 0 });
    }

    /// The apps to start in safe mode, in their order: the operator's list, or all with guards first; each after the apps
    /// whose services it uses.
    fn order_in_safe_mode(&self) -> Vec<String> {
        let is_to_run = |app: &&App| app.role() == Role::Current && !app.is_stopped_by_operator();
        let mut apps: Vec<&App> = self.apps.iter().filter(is_to_run).collect();
        apps.sort_by_key(|app| (!app.is_guard(), app.order()));
        let mut order = Order::default();
        match &self.safe_mode.apps {
            None => apps.iter().for_each(|app| order.add(app, &apps)),
            Some(list) => {
                for name in list {
                    let Some(app) = apps.iter().find(|app| app.name == *name) else {
                        let why = "it does not run here";
                        warn!(app = name, why, "left an app of [safe-mode] apps out");
                        continue;
                    };
                    order.add(app, &apps);
                }
            }
        }
        order.0
    }

    /// Performs the steps of the sequence that are due.
    pub(super) fn advance_safe_mode(&mut self, now: Instant) {
        while let Some(step) = self.next_step(now) {
            match step {
                Step::Start(app) => self.begin_trial(&app),
                Step::Passed(app) => {
                    info!(app, "app ran without a fault in safe mode");
                    self.note_in_safe_mode(format!("app {app} started without a fault"));
                }
                Step::Suspected(suspect) => self.hold_suspect(&suspect, now),
                Step::Complete => {
                    let hint = "`rosemary safe-mode exit` ends safe mode";
                    info!(hint, "safe mode has started its apps");
                    self.note_in_safe_mode("all its apps had their start".into());
                }
            }
        }
    }

    fn next_step(&mut self, now: Instant) -> Option<Step> {
        let running = self.safe_mode.running.as_ref().filter(|_| !self.is_stopping())?;
        let on_trial = running.sequence.on_trial();
        let app = on_trial.and_then(|name| self.app_named(name).ok());
        let starting = [ProgramState::Starting, ProgramState::Waiting, ProgramState::Stopping];
        let services_run =
            !self.services.status().iter().any(|service| starting.contains(&service.state));
        let seen = Seen {
            basics_run: self.kernel.program.is_running() && services_run,
            kernel_ends: self.safe_mode.kernel_ends,
            kernel_exit: self.safe_mode.kernel_exit.clone(),
            app_runs: app.is_some_and(|app| app.is_loaded() && app.is_connected()),
            app_failure: app.and_then(|app| app.failure_after(running.starts)),
        };
        self.safe_mode.running.as_mut()?.sequence.advance(&seen, now)
    }

    fn begin_trial(&mut self, name: &str) {
        info!(app = name, "safe mode starts an app");
        let starts = self.app_starts(name);
        if let Some(running) = &mut self.safe_mode.running {
            running.starts = starts;
        }
        if let Some(app) = self.app_named_mut(name) {
            app.release();
        }
    }

    /// Holds the app with which a fault came back, for later starts of Rosemary out of the kernel.
    fn hold_suspect(&mut self, suspect: &Suspect, now: Instant) {
        let Suspect { app: name, why } = suspect;
        error!(
            app = name,
            why, "safe mode named the app with which the fault came back; it was held"
        );
        let why = format!("safe mode named it: {why}");
        if let Some(app) = self.app_named_mut(name) {
            app.hold_back(now);
            if app.suspect(&why) {
                self.demotions.record(name, &why);
            }
        }
        let Some(Running { incident, .. }) = self.safe_mode.running else { return };
        self.incidents.amend(incident, |evidence| {
            evidence.blamed.get_or_insert_with(|| name.clone());
            evidence.facts.push(format!("app {name} was started, then: {}", suspect.why));
        });
        self.note_in_safe_mode(format!("app {name} was held"));
    }

    fn note_in_safe_mode(&self, what: String) {
        if let Some(running) = &self.safe_mode.running {
            self.incidents.reaction(running.incident, what);
        }
    }

    /// Whether the kernel restarts at the end of safe mode, because apps return to it.
    pub fn leaving_restarts_kernel(&self) -> bool {
        self.apps.iter().any(App::is_out_for_safe_mode)
    }

    /// Ends safe mode: all apps run as configured, except suspects, which stay stopped. Returns the apps that start, and
    /// the suspects.
    pub fn leave_safe_mode(&mut self, now: Instant) -> (Vec<String>, Vec<Suspect>) {
        let Some(Running { sequence, incident, .. }) = self.safe_mode.running.take() else {
            return (Vec::new(), Vec::new());
        };
        info!("an operator ended safe mode");
        let suspects = sequence.suspects().to_vec();
        let mut started = Vec::new();
        for app in &mut self.apps {
            if suspects.iter().any(|suspect| suspect.app == app.name) {
                app.stop_by_operator(now);
            } else if app.is_out_for_safe_mode() {
                // It returns to the kernel once its zone has ended.
                app.hold_back(now);
                started.extend(app.is_held_back().then(|| app.name.clone()));
            } else if app.is_held_back() {
                app.release();
                started.push(app.name.clone());
            }
        }
        if self.leaving_restarts_kernel() {
            self.kernel.restart(now);
        }
        self.incidents.reaction(incident, "an operator ended safe mode");
        self.incidents.close(incident, Some(now.saturating_duration_since(sequence.since())));
        (started, suspects)
    }

    /// Lets apps return to the kernel after safe mode. Returns whether the kernel may start: all their zones have ended.
    pub(super) fn return_apps_to_kernel(&mut self) -> bool {
        if self.is_in_safe_mode() {
            return true;
        }
        let returning = || self.apps.iter().filter(|app| app.is_out_for_safe_mode());
        if !returning().all(App::is_stopped) {
            return false;
        }
        self.apps.iter_mut().for_each(App::return_to_kernel);
        true
    }
}
