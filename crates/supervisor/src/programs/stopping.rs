//! Ends all programs: to stop Rosemary, or to start them again.

use std::time::Instant;

use control::incident::{self, Cause, Evidence};
use tracing::error;

use super::Programs;
use crate::app::App;
use crate::interface::Northbound;
use crate::program::Program;
use crate::system::System;

impl Programs {
    /// Restarts all programs. The monitor keeps the listening sockets, so switches can connect as soon as the next kernel
    /// is ready.
    pub(super) fn restart_all(&mut self, why: &str, now: Instant) {
        error!(why, "restarted Rosemary: all its programs end and start again");
        let evidence = Evidence::fact(why);
        let incident = self.incidents.open(incident::Program::monitor(), Cause::Services, evidence);
        self.incidents.reaction(incident, "all programs were ended and started again");
        self.incidents.close(incident, None);
        self.apps.iter_mut().filter_map(App::zone_mut).for_each(|zone| zone.restart(now));
        self.services.iter_mut().for_each(|service| service.restart(now));
        self.northbound.iter_mut().for_each(|it| it.restart(now));
        self.kernel.restart(now);
    }

    /// When all programs were last restarted.
    pub fn all_restarted(&self) -> Option<Instant> {
        self.services.all_restarted()
    }

    /// Asks all programs to end, except the log service, which stores their last lines.
    pub(crate) fn begin_stop(&mut self, deadline: Instant, now: Instant) {
        self.stop = Some(deadline);
        self.apps.iter_mut().for_each(App::cancel_restart);
        self.apps.iter_mut().filter_map(App::zone_mut).for_each(|zone| zone.stop(now));
        self.services.stop_all_but_log(now);
        self.northbound.iter_mut().for_each(|it| it.stop(now));
        self.kernel.stop(now);
    }

    /// Stops the log service when it has stored the last lines of the others, or shortly before the deadline.
    pub(super) fn advance_stop(&mut self, system: &dyn System, now: Instant) {
        let Some(deadline) = self.stop else { return };
        let others_stopped = self.kernel.program.is_stopped()
            && self.apps.iter().all(App::is_stopped)
            && self.northbound.iter().all(Northbound::is_stopped)
            && self.services.all_but_log_stopped();
        self.services.stop_log(others_stopped, deadline, system, now);
    }

    /// Kills all programs.
    pub(crate) fn kill(&mut self, why: &str) {
        self.programs_mut().for_each(|program| program.kill(why));
    }

    /// Gives up programs that did not end even though they were killed.
    pub(crate) fn abandon(&mut self) {
        self.programs_mut().for_each(Program::abandon);
    }

    /// Returns whether all programs have stopped.
    pub fn all_stopped(&self) -> bool {
        self.kernel.program.is_stopped()
            && self.apps.iter().all(App::is_stopped)
            && self.northbound.iter().all(Northbound::is_stopped)
            && self.services.all_stopped()
    }

    fn programs_mut(&mut self) -> impl Iterator<Item = &mut Program> {
        let zones = self.apps.iter_mut().filter_map(App::program_mut);
        let services = self.services.iter_mut().map(|service| &mut service.program);
        let northbound = self.northbound.iter_mut().map(Northbound::program_mut);
        zones.chain(services).chain(northbound).chain([&mut self.kernel.program])
    }
}
