//! Whether the operator wants an app to run, apart from whether it can.

use std::time::Instant;

use config::OnStop;
use control::app::AbsentApp;
use control::kernel::KernelRequest;
use control::operator::ProgramState;
use control::policy::Stage;

use super::host_state::HostState;
use super::{App, Role};

/// Whether an app is to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Wish {
    /// It is.
    #[default]
    Runs,
    /// The operator has stopped it.
    Stopped,
    /// Safe mode does not let it run.
    HeldBack,
}

/// The operator's last word on an app.
#[derive(Debug, Default)]
pub(super) struct Intent {
    wish: Wish,
    /// Whether it is to start again as soon as it has ended.
    restart: bool,
    /// Whether the kernel must still be told to leave it out.
    forget: bool,
    /// Whether the kernel must still be told to remove its flows.
    flows: OnStop,
}

impl Intent {
    /// Whether the app is not to run: the operator has stopped it, or safe mode holds it back.
    pub(super) fn is_stopped(&self) -> bool {
        self.wish != Wish::Runs
    }

    /// Whether safe mode holds the app back.
    pub(super) fn is_held_back(&self) -> bool {
        self.wish == Wish::HeldBack
    }

    /// Holds the app back, unless the operator has stopped it. The kernel goes on without it, except for a guard, whose `fail` decides about packets.
    pub(super) fn hold_back(&mut self, is_guard: bool) {
        if self.wish == Wish::Runs {
            *self = Self { wish: Wish::HeldBack, forget: !is_guard, ..Self::default() };
        }
    }

    /// Lets the app run as soon as its former process has ended, if it was held back.
    pub(super) fn release(&mut self) {
        if self.is_held_back() {
            *self = Self { restart: true, ..Self::default() };
        }
    }

    /// Ends the hold without a start of a process.
    pub(super) fn end_hold(&mut self) {
        if self.is_held_back() {
            *self = Self::default();
        }
    }
}

impl App {
    /// Whether the operator has stopped it.
    pub fn is_stopped_by_operator(&self) -> bool {
        self.intent.wish == Wish::Stopped
    }

    /// Whether a kernel that starts now hosts it.
    pub fn runs_in_kernel(&self) -> bool {
        self.is_in_kernel() && !self.intent.is_stopped()
    }

    /// The state of its process, or that of its instance in a kernel whose state is `kernel`.
    pub fn state(&self, kernel: ProgramState) -> ProgramState {
        match &self.host {
            HostState::Kernel(_) if self.intent.is_stopped() => ProgramState::Stopped,
            HostState::Kernel(in_kernel) => in_kernel.state(kernel),
            HostState::Zone { zone, .. } => zone.program.lifecycle().state(),
        }
    }

    /// Whether its zone has its rings from the kernel; true without a running zone.
    pub fn is_connected(&self) -> bool {
        let zone = self.host.zone().filter(|zone| zone.program.is_running());
        zone.is_none_or(super::zone::Zone::is_connected)
    }

    /// Its stage.
    pub fn stage(&self) -> Stage {
        self.spec.policy.stage
    }

    /// Whether it is a guard whose verdict packets need.
    pub fn is_guard(&self) -> bool {
        matches!(self.spec.policy.stage, Stage::Guard(_))
    }

    /// Stops it until [`start_by_operator`](Self::start_by_operator). An app in the kernel ends with the kernel.
    pub fn stop_by_operator(&mut self, now: Instant) {
        // The kernel goes on without a stopped app. A stopped guard stays, so that its `fail` decides about packets.
        self.intent = Intent {
            wish: Wish::Stopped,
            restart: false,
            forget: !self.is_guard(),
            flows: self.spec.keys.on_stop,
        };
        if let Some(zone) = self.zone_mut() {
            zone.stop(now);
        }
    }

    /// Starts it after a stop, or as soon as it has ended.
    pub fn start_by_operator(&mut self) {
        self.forgive();
        self.intent = Intent { restart: true, ..Intent::default() };
    }

    /// Ends its zone and starts it again with the files as they are then.
    pub fn restart_by_operator(&mut self, now: Instant) {
        if let Some(zone) = self.zone_mut() {
            zone.stop(now);
        }
        self.start_by_operator();
    }

    /// Does not start it after its end.
    pub fn cancel_restart(&mut self) {
        self.intent.restart = false;
    }

    /// Starts the zone if that is due after its end.
    pub fn advance_intent(&mut self, now: Instant) {
        if self.intent.restart && self.is_stopped() {
            self.intent.restart = false;
            self.request_start(now);
        }
    }

    /// Returns once, when a stopped app has ended, the request to leave it out of the kernel's plan.
    pub fn take_forget(&mut self) -> Option<KernelRequest> {
        let is_due = self.intent.forget && self.is_stopped();
        self.intent.forget &= !is_due;
        is_due.then_some(KernelRequest::Forget { app: self.id })
    }

    /// Returns once, when a stopped app has ended, that the switches must lose its flows, groups and meters.
    pub fn take_flow_removal(&mut self) -> Option<AbsentApp> {
        let is_due = self.intent.flows == OnStop::Remove && self.is_stopped();
        if is_due {
            self.intent.flows = OnStop::Keep;
        }
        is_due.then(|| AbsentApp { app: self.id, name: self.name.clone(), remove: true })
    }

    /// Whether its rows in databases stay: it is to run, or its stop leaves its flows too.
    pub(crate) fn keeps_rows(&self) -> bool {
        let is_removed = self.spec.keys.on_stop == OnStop::Remove && self.intent.is_stopped();
        matches!(self.role(), Role::Current | Role::Candidate | Role::Successor) && !is_removed
    }

    /// The request for a new kernel to leave the app out of its plan, if the operator has stopped it.
    pub fn forget_request(&self) -> Option<KernelRequest> {
        let is_due = self.intent.is_stopped() && !self.is_guard();
        is_due.then_some(KernelRequest::Forget { app: self.id })
    }
}
