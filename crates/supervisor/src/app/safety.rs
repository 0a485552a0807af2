//! How an app takes part in safe mode: it is held back, released, and returns to the kernel afterwards.

use std::time::Instant;

use control::operator::ProgramState;

use super::App;

impl App {
    /// Ends the zone, and starts none until [`release`](Self::release). An app in the kernel gets a zone for safe mode.
    pub fn hold_back(&mut self, now: Instant) {
        let is_guard = self.is_guard();
        self.intent.hold_back(is_guard);
        if let Some(zone) = self.zone_mut() {
            zone.stop(now);
        }
        self.host.demote_for_safe_mode(|| self.zone_settings.make());
    }

    /// Lets the zone run.
    pub fn release(&mut self) {
        self.forgive();
        self.intent.release();
    }

    /// Whether safe mode holds it back.
    pub fn is_held_back(&self) -> bool {
        self.intent.is_held_back()
    }

    /// Keeps it stopped after safe mode, until the operator starts it, as a user app. Returns whether it was to run in the
    /// kernel.
    pub fn suspect(&mut self, why: &str) -> bool {
        self.host.keep_demotion(why)
    }

    /// Whether it is out of the kernel only for the time of safe mode.
    pub fn is_out_for_safe_mode(&self) -> bool {
        self.host.is_out_for_safe_mode()
    }

    /// Lets the next kernel host it again, if it was out of the kernel for safe mode. Its zone has ended.
    pub fn return_to_kernel(&mut self) {
        if self.is_out_for_safe_mode() {
            self.host.return_to_kernel();
            self.files.forget_loaded();
            self.intent.end_hold();
        }
    }

    /// Why the zone has failed since it was started for the first time after `starts` starts, if it has.
    pub fn failure_after(&self, starts: u64) -> Option<String> {
        let lifecycle = self.program()?.lifecycle();
        let has_ended = match lifecycle.state() {
            ProgramState::Waiting => lifecycle.starts() > starts,
            ProgramState::Held => true,
            ProgramState::Starting | ProgramState::Running => lifecycle.starts() > starts + 1,
            // How it ended is not known yet, or nobody wants it to run.
            ProgramState::Stopping | ProgramState::Stopped => false,
        };
        let exit = lifecycle.last_exit().unwrap_or("it ended");
        has_ended.then(|| self.failure.clone().unwrap_or_else(|| exit.to_owned()))
    }
}
