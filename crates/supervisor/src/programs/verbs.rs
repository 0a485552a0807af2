//! What operators do with single apps: stop, start and restart.

use std::time::Instant;

use config::OnStop;
use control::operator::ProgramState;
use control::policy::{Fail, Stage};

use super::Programs;
use crate::app::App;
use crate::system::System;

impl Programs {
    /// Does what operators' changes left for the time when a process has ended.
    pub(super) fn advance_changes(&mut self, system: &dyn System, now: Instant) {
        if self.is_stopping() {
            return;
        }
        self.advance_replacing(system);
        if self.kernel.must_restart() && self.make_swaps(now) && self.kernel.take_restart() {
            self.kernel.program.request_start(now);
        }
        for app in &mut self.apps {
            app.advance_intent(now);
            // A kernel that becomes ready later receives the request then.
            if let Some(request) = app.take_forget()
                && self.kernel.program.is_running()
            {
                self.kernel.program.send(request, Vec::new());
            }
            if let Some(absent) = app.take_flow_removal() {
                self.kernel.add_absent(absent);
            }
        }
    }

    /// Makes a new kernel leave out the apps that operators have stopped.
    pub(super) fn forget_stopped_apps(&mut self) {
        for request in self.apps.iter().filter_map(App::forget_request) {
            self.kernel.program.send(request, Vec::new());
        }
    }

    /// The app with this name.
    ///
    /// # Errors
    /// There is none; the phrase lists the apps.
    pub fn app_named(&self, name: &str) -> Result<&App, String> {
        self.apps.iter().find(|app| app.name == name && app.role().serves()).ok_or_else(|| {
            let serving = self.apps.iter().filter(|app| app.role().serves());
            let names: Vec<&str> = serving.map(|app| app.name.as_str()).collect();
            format!("no app {name:?} runs here; the apps are: {}", names.join(", "))
        })
    }

    pub(super) fn app_named_mut(&mut self, name: &str) -> Option<&mut App> {
        self.apps.iter_mut().find(|app| app.name == name && app.role().serves())
    }

    /// The state of the app with this name.
    pub fn app_state(&self, name: &str) -> Option<ProgramState> {
        Some(self.app_named(name).ok()?.state(self.kernel_state()))
    }

    /// Whether the app is not started again because it ended too often.
    pub fn is_held_for_restarts(&self, name: &str) -> bool {
        let program = self.app_named(name).ok().and_then(App::program);
        program.is_some_and(|program| program.lifecycle().too_many_restarts().is_some())
    }

    /// The state of the kernel.
    pub fn kernel_state(&self) -> ProgramState {
        self.kernel.program.lifecycle().state()
    }

    /// How often the process of this app was started, the kernel's for an app that it hosts.
    pub fn app_starts(&self, name: &str) -> u64 {
        let program = self.app_named(name).ok().and_then(App::program);
        program.unwrap_or(&self.kernel.program).lifecycle().starts()
    }

    /// Stops an app until [`start_app`](Self::start_app). An app in the kernel makes the kernel restart.
    pub fn stop_app(&mut self, name: &str, now: Instant) {
        let Some(app) = self.app_named_mut(name) else { return };
        app.stop_by_operator(now);
        if app.is_in_kernel() {
            self.kernel.restart(now);
        }
    }

    /// Starts an app that was stopped. An app in the kernel makes the kernel restart.
    pub fn start_app(&mut self, name: &str, now: Instant) {
        let Some(app) = self.app_named_mut(name) else { return };
        app.start_by_operator();
        if app.is_in_kernel() {
            self.kernel.restart(now);
        }
    }

    /// Ends an app and starts it again. An app in the kernel makes the kernel restart.
    pub fn restart_app(&mut self, name: &str, now: Instant) {
        let Some(app) = self.app_named_mut(name) else { return };
        app.restart_by_operator(now);
        if app.is_in_kernel() {
            self.kernel.restart(now);
        }
    }

    /// Why an app does not use its newer files, if it does not.
    pub fn kept(&self, name: &str) -> Option<&str> {
        self.app_named(name).ok()?.kept()
    }

    /// Notes why an app does not use its newer files; `None` if there are none.
    pub fn set_kept(&mut self, name: &str, why: Option<String>) {
        if let Some(app) = self.app_named_mut(name) {
            app.set_kept(why);
        }
    }

    /// What becomes of an app's flows when it is stopped.
    pub fn on_stop(&self, name: &str) -> OnStop {
        self.app_named(name).map_or(OnStop::default(), |app| app.spec().keys.on_stop)
    }

    /// Whether the kernel hosts the app.
    pub fn is_in_kernel(&self, name: &str) -> bool {
        self.app_named(name).is_ok_and(App::is_in_kernel)
    }

    /// Why an app has failed since its process was started for the `starts`-th time, if it has. `in_kernel` says whether
    /// the kernel hosted it then.
    pub fn failure_since(&self, name: &str, starts: u64, in_kernel: bool) -> Option<String> {
        let Ok(app) = self.app_named(name) else { return Some("it is gone".into()) };
        if in_kernel {
            return app.demoted().map(ToOwned::to_owned);
        }
        let lifecycle = app.program()?.lifecycle();
        let is_down = matches!(lifecycle.state(), ProgramState::Waiting | ProgramState::Held);
        let why = || app.failure().or(lifecycle.last_exit()).unwrap_or("it ended").to_owned();
        (is_down || lifecycle.starts() > starts).then(why)
    }

    /// Checks that an app was taken out of the kernel.
    ///
    /// # Errors
    /// It was not, as a phrase.
    pub fn must_be_demoted(&self, name: &str) -> Result<(), String> {
        if self.app_named(name)?.demoted().is_some() {
            return Ok(());
        }
        Err(format!("{name} was not taken out of the kernel; host = \"kernel\" puts an app there"))
    }

    /// What happens to packets while this app is stopped, if it is a guard.
    pub fn notice_of_stopped_guard(&self, name: &str) -> Option<String> {
        let fail = match self.app_named(name).ok()?.stage() {
            Stage::Guard(fail) => fail,
            Stage::Control | Stage::Observe => return None,
        };
        let packets = match fail {
            Fail::Closed => "are dropped until it runs again, as it fails closed",
            Fail::Open => "pass without its verdict until it runs again, as it fails open",
        };
        Some(format!("{name} is a guard: packets without a flow {packets}."))
    }
}
