//! When a program is started, given up on, ended and started again.
//!
//! A state machine per program, without processes and without a clock: the caller says what
//! happened and when, and asks what is [`due`](Supervision::due).
//!
//! ```text
//!            start                due: Start           ready
//! Stopped ----------> Waiting ----------------> Starting ----> Running
//!    ^                   ^                          |             |
//!    |                   |        ended             v             v
//!    +---- not wanted ---+<-----------------------[ Ending -> Killed ]
//! ```
//!
//! The rule (design §11): a program that ran shorter than its minimum run time is started again
//! only when that time has passed since its start; any other at once, but for one that was ended for what
//! it [took](Supervision::pause). One that cannot run as things are is [held](Supervision::hold). There is
//! no back-off and no holding after too many restarts yet; both belong into [`Supervision::ended`].
//!
//! What a start may last is counted in the processor time that the process receives, where it may be
//! throttled: an app that is slow to load and has a tenth of a processor would never get ready else. By the
//! clock it has [`STILL`] times as long.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How much longer by the clock than in processor time a start may last.
const STILL: u32 = 20;

/// From one look at the processor time of a start to the next, at least.
const LOOK: Duration = Duration::from_millis(100);

/// The times of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Least time between two starts.
    pub min_run: Duration,
    /// Processor time that it may receive until it has said that it is ready; where that is not
    /// looked at, time.
    pub start: Duration,
    /// Time from being asked to end, or saying that it will, until it is killed.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_run: Duration::from_secs(1),
            start: Duration::from_secs(10),
            stop: Duration::from_secs(1),
        }
    }
}

/// What a program does, in one word for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It runs, and has not yet said that it is ready.
    Starting,
    /// It is ready.
    Running,
    /// It has ended and will be started again.
    Waiting,
    /// It cannot run as things are; it is started when they have changed.
    Held,
    /// It was asked to end, said that it will, or was killed, and has not ended yet.
    Stopping,
    /// It does not run and nobody wants it to.
    Stopped,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        })
    }
}

/// What the time has come for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Start the program, then say [`started`](Supervision::started) or
    /// [`ended`](Supervision::ended).
    Start,
    /// Kill it: it did not get ready in time.
    KillUnready,
    /// Kill it: it did not end in time.
    KillUnended,
}

/// What happens after an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is due to start now.
    StartAtOnce,
    /// It will be due to start after this time.
    StartAfter(Duration),
    /// It is held until something changes.
    Held,
    /// Nothing: it is not wanted.
    Stay,
}

/// An end, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How long it ran.
    pub ran: Duration,
    /// What will be done.
    pub next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Stopped,
    Waiting { until: Instant },
    Held { until: Instant },
    Starting { since: Instant, look_at: Instant },
    Running { since: Instant },
    Ending { since: Instant, kill_at: Instant },
    Killed { since: Instant },
}

/// One program's life, see the module's figure.
#[derive(Debug)]
pub struct Supervision {
    limits: Limits,
    phase: Phase,
    wanted: bool,
    starts: u64,
    last_exit: Option<String>,
    /// Whether it said that it cannot run as things are.
    is_unfit: bool,
    /// Before when it is not to be started.
    pause_until: Option<Instant>,
}

impl Supervision {
    /// A program that nobody has wanted yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Stopped,
            wanted: false,
            starts: 0,
            last_exit: None,
            is_unfit: false,
            pause_until: None,
        }
    }

    /// Wants the program to run: it is due to start `now` if it does not run.
    pub fn start(&mut self, now: Instant) {
        self.wanted = true;
        if self.phase == Phase::Stopped {
            self.phase = Phase::Waiting { until: now };
        }
    }

    /// Wants it to run no more. Says whether it runs, and so has to be asked to end.
    pub fn stop(&mut self, now: Instant) -> bool {
        self.wanted = false;
        self.ending(now)
    }

    /// It is about to end by its own word or by ours: it is killed if it takes too long.
    ///
    /// Says whether it runs; a program that waits and is not wanted is stopped by this.
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

    /// It says that it cannot run as things are, and ends: then it is held.
    pub fn unfit(&mut self, now: Instant) {
        self.is_unfit = true;
        self.ending(now);
    }

    /// It is about to be ended for having taken too much: when it has ended it is not started before `until`.
    pub fn pause(&mut self, until: Instant) {
        self.pause_until = Some(until);
    }

    /// It was killed, and its end is on the way.
    pub fn killed(&mut self) {
        if let Phase::Starting { since, .. }
        | Phase::Running { since }
        | Phase::Ending { since, .. } = self.phase
        {
            self.phase = Phase::Killed { since };
        }
    }

    /// Its process exists since `now`.
    pub fn started(&mut self, now: Instant) {
        self.starts += 1;
        (self.is_unfit, self.pause_until) = (false, None);
        self.phase = Phase::Starting { since: now, look_at: now + self.limits.start };
    }

    /// It says that it is ready. Says whether that was still to be said.
    pub fn ready(&mut self) -> bool {
        let Phase::Starting { since, .. } = self.phase else { return false };
        self.phase = Phase::Running { since };
        true
    }

    /// It has ended, or could not be started, for the reason `exit`.
    pub fn ended(&mut self, now: Instant, exit: String) -> Ended {
        let since = match self.phase {
            Phase::Starting { since, .. }
            | Phase::Running { since }
            | Phase::Ending { since, .. }
            | Phase::Killed { since } => since,
            // It could not be started.
            Phase::Stopped | Phase::Waiting { .. } | Phase::Held { .. } => now,
        };
        self.last_exit = Some(exit);
        let next = if self.wanted {
            let until = (since + self.limits.min_run).max(now);
            let until = self.pause_until.take().map_or(until, |pause| pause.max(until));
            if std::mem::take(&mut self.is_unfit) {
                self.phase = Phase::Held { until };
                return Ended { ran: now.saturating_duration_since(since), next: Next::Held };
            }
            self.phase = Phase::Waiting { until };
            if until == now { Next::StartAtOnce } else { Next::StartAfter(until - now) }
        } else {
            self.phase = Phase::Stopped;
            Next::Stay
        };
        Ended { ran: now.saturating_duration_since(since), next }
    }

    /// It does not run and would end again if it were started as things are, for the reason `why`: it is
    /// due again, to see whether they have changed, when its minimum run time has passed.
    pub fn hold(&mut self, now: Instant, why: String) {
        self.last_exit = Some(why);
        if let Phase::Waiting { .. } | Phase::Held { .. } = self.phase {
            self.phase = Phase::Held { until: now + self.limits.min_run };
        }
    }

    /// What has to be done `now`, if anything. What it says is taken as done. `received` is the processor
    /// time that the process has received since its start, asked for while it starts; `None` where the
    /// clock counts.
    pub fn due(
        &mut self,
        now: Instant,
        received: impl FnOnce() -> Option<Duration>,
    ) -> Option<Due> {
        if self.next_due().is_none_or(|at| now < at) {
            return None;
        }
        let due = match self.phase {
            Phase::Waiting { .. } | Phase::Held { .. } => return Some(Due::Start),
            Phase::Starting { since, .. } => {
                if let Some(received) = received() {
                    let left = self.limits.start.saturating_sub(received);
                    let longest = since + self.limits.start * STILL;
                    if !left.is_zero() && now < longest {
                        let look_at = (now + left.max(LOOK)).min(longest);
                        self.phase = Phase::Starting { since, look_at };
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

    /// When [`due`](Self::due) will next have something to say, if nothing happens before.
    pub fn next_due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting { until } | Phase::Held { until } => Some(until),
            Phase::Starting { look_at, .. } => Some(look_at),
            Phase::Ending { kill_at, .. } => Some(kill_at),
            Phase::Stopped | Phase::Running { .. } | Phase::Killed { .. } => None,
        }
    }

    /// What it does.
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Stopped => State::Stopped,
            Phase::Waiting { .. } => State::Waiting,
            Phase::Held { .. } => State::Held,
            Phase::Starting { .. } => State::Starting,
            Phase::Running { .. } => State::Running,
            Phase::Ending { .. } | Phase::Killed { .. } => State::Stopping,
        }
    }

    /// How often it was started.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// How often it was started again.
    pub fn restarts(&self) -> u64 {
        self.starts.saturating_sub(1)
    }

    /// How it ended last, if it ever did.
    pub fn last_exit(&self) -> Option<&str> {
        self.last_exit.as_deref()
    }
}

#[cfg(test)]
mod tests;
