//! Decides when a program is started, killed, restarted and held.
//!
//! This is a state machine for one program, without processes and without a clock. The caller reports what happened and
//! when, and asks what is [`due`](Lifecycle::due).
//!
//! ```text
//!            start                due: Start           ready
//! Stopped ----------> Waiting ----------------> Starting ----> Running
//!    ^                   ^                          |             |
//!    |                   |        ended             v             v
//!    +---- not wanted ---+<-----------------------[ Ending -> Killed ]
//! ```
//!
//! [`restart_policy`](crate::restart_policy) decides when a program that ended is started again, and whether it is held for
//! its many restarts. A program that was killed for exceeding a limit also [pauses](Lifecycle::pause). A program that cannot
//! run with its current files is [held](Lifecycle::hold). An end that the monitor wants is [excused](Lifecycle::restart).
//!
//! The time of a start is limited in the processor time that the process receives, because a throttled app that loads
//! slowly would otherwise never become ready. By the clock a start may take [`IDLE_FACTOR`] times as long.

use std::time::{Duration, Instant};

use config::RestartPolicy;
use control::operator::ProgramState;

use crate::restart_policy::{Decision, RestartHistory, TooManyRestarts};

/// How much longer a start may take by the clock than in processor time.
const IDLE_FACTOR: u32 = 20;

/// The least time between two checks of the processor time of a start.
const CHECK_PERIOD: Duration = Duration::from_millis(100);

/// The time limits of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// When the program is started again.
    pub restart: RestartPolicy,
    /// The processor time that it may receive until it is ready. Where processor time is not known, the clock counts.
    pub start: Duration,
    /// The time from a request to end, or its own report that it ends, until it is killed.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            restart: RestartPolicy::default(),
            start: Duration::from_secs(10),
            stop: Duration::from_secs(1),
        }
    }
}

/// An action that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Start the program, then report [`started`](Lifecycle::started) or [`ended`](Lifecycle::ended).
    Start,
    /// Kill it, because it was not ready in time.
    KillUnready,
    /// Kill it, because it did not end in time.
    KillUnended,
}

/// What follows after an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is due to start now.
    StartAtOnce,
    /// It will be due to start after this time.
    StartAfter(Duration),
    /// It is held until something changes.
    Held,
    /// It is held because of its many restarts.
    HeldForRestarts(TooManyRestarts),
    /// Nothing, because it is not to run.
    Stay,
}

/// The end of a process, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How long it ran.
    pub ran: Duration,
    /// What follows.
    pub next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Stopped,
    Waiting { until: Instant },
    Held { until: Instant },
    Starting { since: Instant, check_at: Instant },
    Running { since: Instant },
    Ending { since: Instant, kill_at: Instant },
    Killed { since: Instant },
}

/// The lifecycle of one program, as in the figure above.
#[derive(Debug)]
pub struct Lifecycle {
    limits: Limits,
    phase: Phase,
    wanted: bool,
    starts: u64,
    last_exit: Option<String>,
    /// Whether it reported that it cannot run with its current files.
    is_unfit: bool,
    /// It is not started before.
    pause_until: Option<Instant>,
    history: RestartHistory,
    /// Whether its next end is the monitor's wish, and no fault.
    is_excused: bool,
    /// Why it is held, if that is for its many restarts.
    too_many_restarts: Option<TooManyRestarts>,
}

impl Lifecycle {
    /// Describes a program that is not to run yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Stopped,
            wanted: false,
            starts: 0,
            last_exit: None,
            is_unfit: false,
            pause_until: None,
            history: RestartHistory::new(limits.restart),
            is_excused: false,
            too_many_restarts: None,
        }
    }

    /// The program is to run: if it does not, it is due to start `now`.
    pub fn start(&mut self, now: Instant) {
        self.wanted = true;
        if self.phase == Phase::Stopped {
            self.forgive();
            self.phase = Phase::Waiting { until: now };
        }
    }

    /// Forgets its restarts: its files have changed, or the operator starts it.
    pub fn forgive(&mut self) {
        self.history.forget();
        self.too_many_restarts = None;
    }

    /// The monitor ends the program for reasons that are not the program's. It starts again at once, and the restart does
    /// not count. Returns whether it runs, so that the caller must ask it to end.
    pub fn restart(&mut self, now: Instant) -> bool {
        self.is_excused = self.wanted && self.ending(now);
        self.is_excused
    }

    /// Returns whether the next end is the monitor's wish.
    pub fn is_excused(&self) -> bool {
        self.is_excused
    }

    /// Why it is held, if that is for its many restarts.
    pub fn too_many_restarts(&self) -> Option<TooManyRestarts> {
        self.too_many_restarts
    }

    /// The program is to end and stay ended. Returns whether it runs, so that the caller must ask it to end.
    pub fn stop(&mut self, now: Instant) -> bool {
        self.wanted = false;
        self.ending(now)
    }

    /// The program was asked to end or reported that it ends. It is killed if that takes too long.
    ///
    /// Returns whether it runs. A program that waits and is not to run becomes stopped.
    pub fn ending(&mut self, now: Instant) -> bool {
        match self.phase {
            Phase::Starting { since, .. } | Phase::Running { since } => {
                self.phase = Phase::Ending { since, kill_at: now + self.limits.stop };
                true
            }
            Phase::Ending { .. } | Phase::Killed { .. } => true,
            Phase::Waiting { .. } | Phase::Held { .. } if !self.wanted => {
                self.phase = Phase::Stopped;
                false
            }
            Phase::Waiting { .. } | Phase::Held { .. } | Phase::Stopped => false,
        }
    }

    /// The program reports that it cannot run with its current files and ends. It will be held.
    pub fn unfit(&mut self, now: Instant) {
        self.is_unfit = true;
        self.ending(now);
    }

    /// The program is about to be killed for exceeding a limit. It is not started before `until`.
    pub fn pause(&mut self, until: Instant) {
        self.pause_until = Some(until);
    }

    /// The program was killed, and its end will be reported.
    pub fn killed(&mut self) {
        if let Phase::Starting { since, .. }
        | Phase::Running { since }
        | Phase::Ending { since, .. } = self.phase
        {
            self.phase = Phase::Killed { since };
        }
    }

    /// The process was started `now`.
    pub fn started(&mut self, now: Instant) {
        self.starts += 1;
        (self.is_unfit, self.is_excused, self.pause_until) = (false, false, None);
        if self.too_many_restarts.is_some() {
            self.forgive();
        }
        self.phase = Phase::Starting { since: now, check_at: now + self.limits.start };
    }

    /// The process could not be started after all. [`ended`](Self::ended) follows.
    pub fn not_started(&mut self) {
        self.starts = self.starts.saturating_sub(1);
    }

    /// The program reports that it is ready. Returns whether it was still starting.
    pub fn ready(&mut self) -> bool {
        let Phase::Starting { since, .. } = self.phase else { return false };
        self.phase = Phase::Running { since };
        true
    }

    /// The process has ended, or could not be started, for the reason `exit`.
    pub fn ended(&mut self, now: Instant, exit: String) -> Ended {
        let since = match self.phase {
            Phase::Starting { since, .. }
            | Phase::Running { since }
            | Phase::Ending { since, .. }
            | Phase::Killed { since } => since,
            // The process could not be started.
            Phase::Stopped | Phase::Waiting { .. } | Phase::Held { .. } => now,
        };
        self.last_exit = Some(exit);
        let ran = now.saturating_duration_since(since);
        let is_excused = std::mem::take(&mut self.is_excused);
        if !self.wanted {
            self.phase = Phase::Stopped;
            return Ended { ran, next: Next::Stay };
        }
        if std::mem::take(&mut self.is_unfit) {
            self.phase = Phase::Held { until: (since + self.min_run()).max(now) };
            return Ended { ran, next: Next::Held };
        }
        let decision =
            if is_excused { Decision::StartAt(now) } else { self.history.ended(since, now) };
        let next = match decision {
            Decision::Hold(why) => {
                // By then the ends that led to this are too old to count.
                self.phase = Phase::Held { until: now + self.limits.restart.window };
                self.too_many_restarts = Some(why);
                self.last_exit = self.last_exit.take().map(|exit| format!("{exit}; {why}"));
                Next::HeldForRestarts(why)
            }
            Decision::StartAt(until) => {
                let until = self.pause_until.take().map_or(until, |pause| pause.max(until));
                self.phase = Phase::Waiting { until };
                if until == now { Next::StartAtOnce } else { Next::StartAfter(until - now) }
            }
        };
        Ended { ran, next }
    }

    /// Adds the program's own reason to the text of its last end.
    pub fn explain_end(&mut self, why: &str) {
        self.last_exit = self.last_exit.take().map(|exit| format!("{exit}: {why}"));
    }

    fn min_run(&self) -> Duration {
        self.limits.restart.min_run
    }

    /// The program would end again with its current files, for the reason `why`. Its start becomes due again after the
    /// minimum run time, so that the caller can check whether the files have changed.
    pub fn hold(&mut self, now: Instant, why: String) {
        self.last_exit = Some(why);
        if let Phase::Waiting { .. } | Phase::Held { .. } = self.phase {
            self.phase = Phase::Held { until: now + self.min_run() };
        }
    }

    /// Returns the action that is due `now`. The lifecycle assumes that the caller performs it.
    ///
    /// `received` reads the processor time that the process has received since its start, or returns `None` where the
    /// clock counts. It is called only while the program starts.
    pub fn due(
        &mut self,
        now: Instant,
        received: impl FnOnce() -> Option<Duration>,
    ) -> Option<Due> {
        if self.next_due().is_none_or(|at| now < at) {
            return None;
        }
        let due = match self.phase {
            // The phase changes when the caller reports `started` or `hold`.
            Phase::Waiting { .. } | Phase::Held { .. } => return Some(Due::Start),
            Phase::Starting { since, .. } => {
                if let Some(received) = received() {
                    let left = self.limits.start.saturating_sub(received);
                    let longest = since + self.limits.start * IDLE_FACTOR;
                    if !left.is_zero() && now < longest {
                        let check_at = (now + left.max(CHECK_PERIOD)).min(longest);
                        self.phase = Phase::Starting { since, check_at };
                        return None;
                    }
                }
                Due::KillUnready
            }
            Phase::Ending { .. } => Due::KillUnended,
            Phase::Stopped | Phase::Running { .. } | Phase::Killed { .. } => return None,
        };
        self.killed();
        Some(due)
    }

    /// When [`due`](Self::due) must be called, if nothing happens before.
    pub fn next_due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting { until } | Phase::Held { until } => Some(until),
            Phase::Starting { check_at, .. } => Some(check_at),
            Phase::Ending { kill_at, .. } => Some(kill_at),
            Phase::Stopped | Phase::Running { .. } | Phase::Killed { .. } => None,
        }
    }

    /// The program's state.
    pub fn state(&self) -> ProgramState {
        match self.phase {
            Phase::Stopped => ProgramState::Stopped,
            Phase::Waiting { .. } => ProgramState::Waiting,
            Phase::Held { .. } => ProgramState::Held,
            Phase::Starting { .. } => ProgramState::Starting,
            Phase::Running { .. } => ProgramState::Running,
            Phase::Ending { .. } | Phase::Killed { .. } => ProgramState::Stopping,
        }
    }

    /// How often the program was started.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// How often the program was restarted.
    pub fn restarts(&self) -> u64 {
        self.starts.saturating_sub(1)
    }

    /// How the program ended last, if it ever did.
    pub fn last_exit(&self) -> Option<&str> {
        self.last_exit.as_deref()
    }
}

#[cfg(test)]
mod tests;
