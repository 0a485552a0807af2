//! Kills a program, and records how it ended.

use std::time::{Duration, Instant};

use control::incident::Cause;
use names::Limit;
use tracing::{error, info, warn};

use super::Program;
use crate::effects::Effect;

use super::reaction::{end_of_hold, next, reaction};
use crate::lifecycle::{Ended, Next};

/// Why the monitor killed a process. A process is killed and logged as killed only once.
#[derive(Debug)]
pub(super) struct Killed {
    why: String,
    /// Whether the program broke a time or resource limit; otherwise it broke the protocol or had to stop.
    is_own_failure: bool,
    /// The cause, for the incident.
    cause: Cause,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramExit {
    /// The exit status, or why the monitor killed it, as a phrase.
    pub how: String,
    /// Whether the program's own code is to blame: it ended without being asked to, or it exceeded a time or resource
    /// limit. False if it was asked to stop or was killed for a message that breaks the protocol.
    pub by_itself: bool,
    /// The cause that the exit status shows.
    pub cause: Cause,
    /// How long it ran.
    pub ran: Duration,
}

impl Program {
    /// Kills it for breaking the protocol, or because it has to stop. Its pidfd reports the end.
    pub fn kill(&mut self, why: &str) {
        self.kill_process(why, false, Cause::Protocol);
    }

    /// Kills it because it makes no progress. Its pidfd reports the end.
    pub fn kill_for_own_failure(&mut self, why: &str) {
        self.kill_process(why, true, Cause::Hang);
    }

    /// Kills it because it leaks memory. Its pidfd reports the end.
    pub fn kill_for_leak(&mut self, why: &str) {
        self.kill_process(why, true, Cause::Leak);
    }

    /// Kills it for exceeding `limit`, and does not start it again before `until`.
    pub fn kill_for_limit(&mut self, limit: Limit, why: &str, until: Instant) {
        self.lifecycle.pause(until);
        self.kill_process(why, true, Cause::Limit { limit: limit.name().into() });
    }

    /// Kills it for `cause`. Its own code is to blame if `is_own_failure`.
    fn kill_process(&mut self, why: &str, is_own_failure: bool, cause: Cause) {
        if let Some(process) = self.process.as_mut().filter(|process| process.killed.is_none()) {
            process.killed = Some(Killed { why: why.to_owned(), is_own_failure, cause });
            warn!(program = self.name, pid = process.pid, why, "killed the program");
            self.effects.add(self.id, Effect::Kill);
            self.lifecycle.killed();
        }
    }

    /// Its process has ended, with this exit status and its cause.
    pub(super) fn ended(&mut self, exit: String, cause: Cause, now: Instant) -> ProgramExit {
        let process = self.process.take();
        let (pid, killed) = process.map_or((None, None), |it| (it.pid, it.killed));
        let exit = match &killed {
            Some(Killed { why, is_own_failure: true, .. }) => format!("{exit}: {why}"),
            _ => exit,
        };
        let is_excused = self.lifecycle.is_excused();
        let Ended { ran, next: then } = self.lifecycle.ended(now, exit.clone());
        let lasted = ran;
        let (program, ran, next) = (&self.name, format!("{:.3} s", ran.as_secs_f64()), next(then));
        if then == Next::Stay || is_excused {
            info!(program, pid, exit, ran, "stopped");
        } else if let Next::HeldForRestarts(why) = then {
            let hint = end_of_hold(&self.kind, why);
            error!(program, pid, exit, ran, %why, hint, "died too often and was held");
        } else {
            warn!(program, pid, exit, ran, next, "died");
        }
        if then != Next::Stay && !is_excused {
            let pid = pid.unwrap_or_default();
            let mut facts = vec![exit.clone(), format!("process {pid} ran {ran}")];
            let cause = match &killed {
                // The monitor's own reason counts: the exit status of a killed process is always SIGKILL.
                Some(Killed { why, cause, .. }) => {
                    facts.push(why.clone());
                    cause.clone()
                }
                None => cause.clone(),
            };
            self.incidents.ended(cause, facts, reaction(then), now);
            self.record_hold(then, now);
        }
        let own_failure = killed.as_ref().is_none_or(|killed| killed.is_own_failure);
        let by_itself = then != Next::Stay && own_failure && !is_excused;
        let how = killed.map_or(exit, |killed| killed.why);
        ProgramExit { how, by_itself, cause, ran: lasted }
    }

    /// Gives up a process that did not end even though it was killed.
    pub fn abandon(&mut self) {
        if self.process.take().is_some() {
            self.effects.add(self.id, Effect::Abandon);
        }
    }
}
