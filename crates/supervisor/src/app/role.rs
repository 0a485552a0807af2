//! The part that an app of the table plays while another one replaces it.

use std::time::Instant;

use control::app::AbsentApp;
use control::operator::ProgramState;

use super::App;
use super::host_state::HostState;
use super::zone::Zone;
use crate::files::Fingerprint;
use crate::spec::AppSpec;

/// The part of an app. Of each name at most one is [`Current`](Self::Current) or [`Leaving`](Self::Leaving).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// It serves.
    #[default]
    Current,
    /// It loads beside the app that serves, and is not connected.
    Candidate,
    /// It is loaded, and serves as soon as its predecessor has ended.
    Successor,
    /// It serves until it has ended, and then leaves the table.
    Leaving,
    /// It never served, ends, and then leaves the table.
    Discarded,
}

impl Role {
    /// Whether the kernel and operators deal with this app under its name and number.
    pub fn serves(self) -> bool {
        matches!(self, Self::Current | Self::Leaving)
    }
}

impl App {
    /// The part that it plays.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Lets it load without being connected. `beside` says whether another process of the app uses the usual group.
    pub fn become_candidate(&mut self, beside: bool) {
        self.role = Role::Candidate;
        self.is_beside = beside;
        if let Some(program) = self.program_mut() {
            program.incidents_mut().set_candidate(true);
            if beside {
                program.use_second_group();
            }
        }
    }

    /// Whether its process is in the second group, as another process of the app was there when it started.
    pub fn is_beside(&self) -> bool {
        self.is_beside
    }

    /// Lets it take over from its predecessor.
    pub fn become_successor(&mut self) {
        self.role = Role::Successor;
        if let Some(program) = self.program_mut() {
            program.incidents_mut().set_candidate(false);
        }
    }

    /// Its predecessor has ended.
    pub fn become_current(&mut self) {
        self.role = Role::Current;
    }

    /// Ends it and takes it out of the table afterwards.
    pub fn leave(&mut self, now: Instant) {
        self.role = match self.role {
            Role::Current | Role::Leaving => Role::Leaving,
            Role::Candidate | Role::Successor | Role::Discarded => Role::Discarded,
        };
        self.cancel_restart();
        if let Some(zone) = self.zone_mut() {
            zone.stop(now);
        }
    }

    /// Ends its zone, unless the zone ends already.
    pub fn end_zone(&mut self, now: Instant) {
        let Some(zone) = self.zone_mut() else { return };
        let state = zone.program.lifecycle().state();
        if !matches!(state, ProgramState::Stopping | ProgramState::Stopped) {
            zone.stop(now);
        }
    }

    /// Decides whether the switches lose its flows, groups and meters when it leaves the table.
    pub fn set_remove_flows(&mut self, remove: bool) {
        self.removes_flows = remove;
    }

    /// The entry of the app in the list of apps without a process.
    pub fn absence(&self) -> AbsentApp {
        AbsentApp { app: self.id, name: self.name.clone(), remove: self.removes_flows }
    }

    /// Whether it has ended, so that it can leave the table: the kernel owes it no reply.
    pub fn has_left(&self) -> bool {
        let owes_nothing = self.host.zone().is_none_or(Zone::is_unattached);
        matches!(self.role, Role::Leaving | Role::Discarded) && self.is_stopped() && owes_nothing
    }

    /// Why a candidate cannot take over, once it has failed.
    pub fn failure_of_candidate(&self) -> Option<String> {
        let lifecycle = self.program()?.lifecycle();
        let has_failed = match lifecycle.state() {
            ProgramState::Held | ProgramState::Stopping | ProgramState::Stopped => true,
            ProgramState::Waiting => lifecycle.starts() > 0,
            ProgramState::Starting | ProgramState::Running => false,
        };
        let exit = || lifecycle.last_exit().unwrap_or("it ended").to_owned();
        has_failed.then(|| self.failure.clone().unwrap_or_else(exit))
    }

    /// Why its process failed last, in its own words.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Its specification.
    pub fn spec(&self) -> &AppSpec {
        &self.spec
    }

    /// Its position in the operator's order.
    pub fn order(&self) -> u16 {
        self.spec.policy.order
    }

    /// The files with which it runs or was to run.
    pub fn fingerprint(&self) -> Fingerprint {
        self.files.fingerprint()
    }

    /// Why newer files are not used, if there are some.
    pub fn kept(&self) -> Option<&str> {
        self.kept.as_deref()
    }

    /// Why it cannot run with its files, if a process of it said so, and it never ran with others.
    pub fn unfit(&self) -> Option<&str> {
        self.host.zone()?.hold.reason().filter(|_| !self.files.has_good())
    }

    /// Notes why newer files are not used; `None` if there are none.
    pub fn set_kept(&mut self, why: Option<String>) {
        self.kept = why;
    }

    /// Takes over the operator's last word on `former`, an app with the same name.
    pub fn take_intent(&mut self, former: &mut Self) {
        self.intent = std::mem::take(&mut former.intent);
        self.take_log_level(former);
        if let (HostState::Zone { zone, .. }, HostState::Zone { zone: former, .. }) =
            (&mut self.host, &mut former.host)
        {
            zone.take_attachment(former);
        }
    }
}
