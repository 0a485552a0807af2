//! Replaces apps while they run: a successor starts beside an app, and takes over once it is loaded.
//!
//! ```text
//! add_candidate ---> Candidate ---- loaded, commit ----> Successor ---- the former app has ended ----> Current
//!                        |                                                                                |
//!                        +---- fails, or another one fails: ends, and nothing has changed       Attach, services
//! ```
//!
//! Entries leave the table only in [`advance_replacing`](Programs::advance_replacing), between two turns of the event
//! loop, as slots are positions in the table. A kernel receives its apps at its start, so apps in it change between two
//! kernels.

use std::time::Instant;

use config::{Config, Orphans};
use control::app::AbsentApp;
use control::kernel::KernelRequest;
use control::log::LogLevel;
use control::operator::ProgramState;
use tracing::info;

use super::{AppSlot, Programs};
use crate::app::{App, Role};
use crate::change::difference::Present;
use crate::services::ServiceParts;
use crate::system::System;
use crate::text::with_own_file;

/// A change of an app in the kernel, which waits for the kernel's end.
#[derive(Debug)]
pub(super) struct KernelSwap {
    /// The app that leaves the table, if any.
    name: String,
    /// The app that replaces it, if any.
    app: Option<Box<App>>,
    /// If no app replaces it: whether the switches lose its flows.
    remove_flows: bool,
}

impl Programs {
    /// The apps as the monitor has them.
    pub fn present(&self) -> Vec<Present> {
        let current = self.apps.iter().filter(|app| app.role() == Role::Current);
        current
            .map(|app| Present {
                spec: app.spec().clone(),
                files: app.fingerprint(),
                is_stopped: app.is_stopped_by_operator(),
            })
            .collect()
    }

    /// Why the app of this name must not run in the kernel, if so.
    pub fn why_demoted(&self, app: &str) -> Option<&str> {
        self.demotions.why(app)
    }

    /// Starts an app beside the one with its name, if there is one. It is not connected yet.
    pub fn add_candidate(&mut self, mut app: App, now: Instant) {
        let beside = self.apps.iter().any(|it| it.name == app.name && !it.is_beside());
        app.become_candidate(beside);
        app.request_start(now);
        self.apps.push(app);
    }

    /// Makes these services run.
    pub fn add_services(&mut self, services: Vec<ServiceParts>, now: Instant) {
        self.services.add(services, now);
    }

    /// Whether all candidates are loaded.
    ///
    /// # Errors
    /// The name of the first one that failed, and the reason.
    pub fn candidates_are_loaded(&self) -> Result<bool, (String, String)> {
        let candidates = || self.apps.iter().filter(|app| app.role() == Role::Candidate);
        for app in candidates() {
            if let Some(why) = app.failure_of_candidate() {
                return Err((app.name.clone(), with_own_file(why, app.own_file())));
            }
        }
        Ok(candidates().all(App::is_loaded))
    }

    /// The names of the candidates that are not loaded yet.
    pub fn candidates_that_load(&self) -> Vec<String> {
        let candidates = self.apps.iter().filter(|app| app.role() == Role::Candidate);
        candidates.filter(|app| !app.is_loaded()).map(|app| app.name.clone()).collect()
    }

    /// Ends all candidates.
    pub fn discard_candidates(&mut self, now: Instant) {
        for app in self.apps.iter_mut().filter(|app| app.role() == Role::Candidate) {
            app.leave(now);
        }
    }

    /// Lets all candidates take over. Guards are first.
    pub fn hand_over(&mut self, now: Instant) {
        let mut names: Vec<String> = Vec::new();
        for app in self.apps.iter_mut().filter(|app| app.role() == Role::Candidate) {
            app.become_successor();
            names.push(app.name.clone());
        }
        for app in self.apps.iter_mut().filter(|app| app.role() == Role::Current) {
            if names.contains(&app.name) {
                app.leave(now);
            }
        }
        // The kernel learns of guards first, so that it asks a new one before it asks a new app behind it.
        self.apps.sort_by_key(|app| !app.is_guard());
    }

    /// Ends an app and takes it out of the table. `remove_flows` says whether the switches then lose its flows, groups and
    /// meters.
    pub fn remove_app(&mut self, name: &str, remove_flows: bool, now: Instant) {
        if let Some(app) = self.app_named_mut(name) {
            app.leave(now);
            app.set_remove_flows(remove_flows);
        }
    }

    /// The apps that do not run, have kept what they own in switches, and are orphans by this configuration. `runs` says which
    /// apps are to run, also without an `[[app]]`.
    pub fn new_orphans(&self, config: &Config, runs: impl Fn(&str) -> bool) -> Vec<AbsentApp> {
        if config.orphans == Orphans::Keep {
            return Vec::new();
        }
        let is_here = |absent: &AbsentApp| self.apps.iter().any(|app| app.id == absent.app);
        let is_orphan =
            |it: &&AbsentApp| config.app(&it.name).is_none() && !runs(&it.name) && !is_here(it);
        self.kernel.absent_with_flows().filter(is_orphan).cloned().collect()
    }

    /// Removes from switches what these apps own.
    pub fn remove_orphans(&mut self, orphans: Vec<AbsentApp>) {
        for orphan in orphans {
            info!(app = orphan.name, "an app that does not run left the configuration");
            self.kernel.add_absent(AbsentApp { remove: true, ..orphan });
        }
    }

    /// Gives an app other rights or another position while it runs. `new` is the app with the new specification, for the case
    /// that there is no process.
    pub fn update_app(&mut self, mut new: App) {
        let Some(app) = self.apps.iter_mut().find(|app| app.name == new.name) else { return };
        if app.is_stopped_by_operator() && app.is_stopped() {
            new.take_intent(app);
            *app = new;
            return;
        }
        let request = app.set_spec(new.spec().clone());
        // An app in the kernel gets here for its log alone: another change restarts the kernel.
        let request = if app.is_in_kernel() { request } else { Some(app.know_request()) };
        if let Some(request) = request.filter(|_| !app.is_stopped_by_operator())
            && self.kernel.program.is_running()
        {
            self.kernel.program.send(request, Vec::new());
        }
    }

    /// Changes the level of an app's log while it runs; `None` selects the configured level. Returns the level.
    ///
    /// # Errors
    /// There is no such app.
    pub fn set_log_level(
        &mut self,
        name: &str,
        level: Option<LogLevel>,
    ) -> Result<LogLevel, String> {
        self.app_named(name)?;
        let mut log_level = LogLevel::default();
        for app in self.apps.iter_mut().filter(|app| app.name == name) {
            let request = app.set_log_level(level);
            log_level = app.log_level();
            if let Some(request) = request.filter(|_| self.kernel.program.is_running()) {
                self.kernel.program.send(request, Vec::new());
            }
        }
        Ok(log_level)
    }

    /// Replaces, adds or removes an app in the kernel when the kernel has ended. `None` removes it.
    pub fn swap_in_kernel(
        &mut self,
        name: &str,
        app: Option<App>,
        remove_flows: bool,
        now: Instant,
    ) {
        let app = app.map(Box::new);
        if let Some(old) = self.app_named_mut(name)
            && let Some(zone) = old.zone_mut()
        {
            zone.stop(now);
        }
        self.swaps.push(KernelSwap { name: name.to_owned(), app, remove_flows });
    }

    /// Restarts the kernel, and makes the swaps that wait for its end.
    pub fn restart_kernel(&mut self, now: Instant) {
        self.kernel.restart(now);
    }

    /// Whether apps wait for the end of the kernel, or of the apps that they replace.
    pub fn is_changing(&self) -> bool {
        !self.swaps.is_empty() || self.apps.iter().any(|app| app.role() == Role::Successor)
    }

    /// Whether no change of the table is under way.
    pub fn is_settled(&self) -> bool {
        self.swaps.is_empty()
            && self.kernel_state() == ProgramState::Running
            && self.apps.iter().all(|app| app.role() == Role::Current && app.is_connected())
    }

    /// Makes the swaps for whose end of the kernel and of zones they waited. Returns whether the kernel may start.
    pub(super) fn make_swaps(&mut self, now: Instant) -> bool {
        // A kernel that is asked to end may still have taken an app out, which then got a zone.
        for app in &mut self.apps {
            if app.role().serves() && self.swaps.iter().any(|swap| swap.name == app.name) {
                app.end_zone(now);
            }
        }
        let is_stopped =
            |swap: &KernelSwap| self.app_named(&swap.name).map_or(true, App::is_stopped);
        if !self.kernel.program.is_stopped() || !self.swaps.iter().all(is_stopped) {
            return false;
        }
        if !self.return_apps_to_kernel() {
            return false;
        }
        for KernelSwap { name, mut app, remove_flows } in std::mem::take(&mut self.swaps) {
            // The kernel may have ended in the earlier app since this one was made.
            if let (Some(new), Some(why)) = (&mut app, self.demotions.why(&name)) {
                new.demote(why, now);
            }
            let slot = self.apps.iter().position(|app| app.name == name);
            match (slot.and_then(|slot| self.apps.get_mut(slot)), app) {
                (Some(old), Some(mut new)) => {
                    new.take_intent(old);
                    *old = *new;
                }
                (None, Some(new)) => self.apps.push(*new),
                (Some(old), None) => {
                    let app = old.id;
                    self.apps.retain(|app| app.name != name);
                    self.kernel.add_absent(AbsentApp { app, name, remove: remove_flows });
                }
                (None, None) => {}
            }
        }
        true
    }

    /// Takes apps out of the table that have ended, and connects their successors.
    pub(super) fn advance_replacing(&mut self, system: &dyn System) {
        if self.apps.iter().all(|app| app.role() == Role::Current) {
            return;
        }
        let mut gone = Vec::new();
        self.apps.retain(|app| {
            let is_gone = app.has_left();
            if is_gone {
                gone.push(app.absence());
            }
            !is_gone
        });
        for absent in gone {
            // A successor has the number of its predecessor.
            if !self.apps.iter().any(|app| app.id == absent.app) {
                info!(app = absent.name, flows_removed = absent.remove, "app was removed");
                if self.kernel.program.is_running() {
                    self.kernel.program.send(KernelRequest::Forget { app: absent.app }, Vec::new());
                }
                self.kernel.add_absent(absent);
            }
        }
        for slot in self.app_slots() {
            let Some(app) = self.apps.get(slot.0) else { continue };
            let is_former = |other: &App| other.name == app.name && other.role() == Role::Leaving;
            if app.role() == Role::Successor && !self.apps.iter().any(is_former) {
                self.take_over(slot, system);
            }
        }
        if self.apps.iter().all(|app| app.role() == Role::Current) {
            self.apps.sort_by_key(App::order);
        }
    }

    fn take_over(&mut self, slot: AppSlot, system: &dyn System) {
        if let Some(app) = self.app_mut(slot) {
            app.become_current();
            info!(app = app.name, "the new process of an app took over");
        }
        self.attach(slot);
        if let Some(app) = self.apps.get_mut(slot.0)
            && app.is_loaded()
        {
            self.services.connect_app(app, &self.kernel.program, system);
            self.connect_provided(slot, system);
            self.connect_apps_service(slot, system);
            self.connect_routes(slot, system);
        }
    }
}
