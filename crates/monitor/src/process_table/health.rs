//! How the programs are, in the few words that systemd is interested in.

use std::time::Instant;

use control::operator::ProgramState;

use super::ProcessTable;
use crate::app::App;

impl ProcessTable {
    /// Whether the start is over: each program that is to run is ready or has failed. In safe mode only the kernel and the
    /// services count.
    pub(crate) fn has_started(&self) -> bool {
        let service = |state, last_exit: &Option<String>| match state {
            ProgramState::Running | ProgramState::Held => true,
            _ => last_exit.is_some(),
        };
        let kernel = self.kernel_state();
        kernel == ProgramState::Running
            && self.services.status().iter().all(|it| service(it.state, &it.last_exit))
            && (self.is_in_safe_mode() || self.serving().all(|app| app.has_started(kernel)))
    }

    /// Whether the kernel serves switches or the monitor is about to start it.
    pub(crate) fn is_alive(&self, now: Instant) -> bool {
        self.kernel.is_alive(now)
    }

    /// Data that the disk does not take, with the reasons and remedies, as phrases.
    pub(crate) fn not_stored(&self) -> Vec<String> {
        self.services.not_stored().chain(self.incidents.not_stored()).collect()
    }

    /// The programs in one line.
    pub(crate) fn summary(&self) -> String {
        let kernel = self.kernel_state();
        let (mut all, mut running) = (0, 0);
        for app in self.serving().filter(|app| !app.is_stopped_by_operator()) {
            all += 1;
            running += usize::from(app.state(kernel) == ProgramState::Running);
        }
        let safe_mode = if self.is_in_safe_mode() { "safe mode; " } else { "" };
        format!("{safe_mode}kernel {kernel}; {running} of {all} apps running")
    }

    fn serving(&self) -> impl Iterator<Item = &App> {
        self.apps.iter().filter(|app| app.role().serves())
    }
}

impl App {
    /// Whether it serves, has failed, or is not to run. `kernel` is the kernel's state.
    fn has_started(&self, kernel: ProgramState) -> bool {
        match self.state(kernel) {
            ProgramState::Running => self.is_connected(),
            ProgramState::Held | ProgramState::Stopped => true,
            ProgramState::Waiting | ProgramState::Starting | ProgramState::Stopping => {
                self.program().is_some_and(|program| program.lifecycle().last_exit().is_some())
            }
        }
    }
}
