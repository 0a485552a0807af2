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
//! only when that time has passed since its start; any other at once. One that cannot run as things are
//! is [held](Supervision::hold). There is no back-off and no holding after too many restarts yet; both
//! belong into [`Supervision::ended`].

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The times of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Least time between two starts.
    pub min_run: Duration,
    /// Time from its start until it must have said that it is ready.
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
    Starting { since: Instant },
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
}

impl Supervision {
    /// A program that nobody has wanted yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, phase: Phase::Stopped, wanted: false, starts: 0, last_exit: None }
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
            Phase::Starting { since } | Phase::Running { since } => {
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

    /// It was killed, and its end is on the way.
    pub fn killed(&mut self) {
        if let Phase::Starting { since } | Phase::Running { since } | Phase::Ending { since, .. } =
            self.phase
        {
            self.phase = Phase::Killed { since };
        }
    }

    /// Its process exists since `now`.
    pub fn started(&mut self, now: Instant) {
        self.starts += 1;
        self.phase = Phase::Starting { since: now };
    }

    /// It says that it is ready. Says whether that was still to be said.
    pub fn ready(&mut self) -> bool {
        let Phase::Starting { since } = self.phase else { return false };
        self.phase = Phase::Running { since };
        true
    }

    /// It has ended, or could not be started, for the reason `exit`.
    pub fn ended(&mut self, now: Instant, exit: String) -> Ended {
        let since = match self.phase {
            Phase::Starting { since }
            | Phase::Running { since }
            | Phase::Ending { since, .. }
            | Phase::Killed { since } => since,
            // It could not be started.
            Phase::Stopped | Phase::Waiting { .. } | Phase::Held { .. } => now,
        };
        self.last_exit = Some(exit);
        let next = if self.wanted {
            let until = (since + self.limits.min_run).max(now);
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

    /// What has to be done `now`, if anything. What it says is taken as done.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        if self.next_due().is_none_or(|at| now < at) {
            return None;
        }
        let due = match self.phase {
            Phase::Waiting { .. } | Phase::Held { .. } => return Some(Due::Start),
            Phase::Starting { .. } => Due::KillUnready,
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
            Phase::Starting { since } => Some(since + self.limits.start),
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
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    struct Story {
        supervision: Supervision,
        begin: Instant,
    }

    impl Story {
        fn started() -> Self {
            let begin = Instant::now();
            let mut supervision = Supervision::new(Limits::default());
            supervision.start(begin);
            assert_eq!(supervision.due(begin), Some(Due::Start));
            supervision.started(begin);
            Self { supervision, begin }
        }

        fn running() -> Self {
            let mut story = Self::started();
            assert!(story.supervision.ready());
            story
        }

        fn at(&self, ms: u32) -> Instant {
            self.begin + ms * MS
        }

        fn due(&mut self, ms: u32) -> Option<Due> {
            self.supervision.due(self.at(ms))
        }

        fn ended(&mut self, ms: u32) -> Ended {
            self.supervision.ended(self.at(ms), "exited with code 1".into())
        }

        fn state(&self) -> State {
            self.supervision.state()
        }
    }

    #[test]
    fn program_nobody_wants_is_never_due() {
        let mut supervision = Supervision::new(Limits::default());
        assert_eq!(supervision.state(), State::Stopped);
        assert_eq!(supervision.due(Instant::now()), None);
        assert_eq!(supervision.next_due(), None);
    }

    #[test]
    fn program_that_ran_long_is_started_again_at_once() {
        let mut story = Story::running();
        let ended = story.ended(1_000);
        assert_eq!(ended, Ended { ran: 1_000 * MS, next: Next::StartAtOnce });
        assert_eq!(story.due(1_000), Some(Due::Start));
        story.supervision.started(story.at(1_000));
        assert_eq!(story.supervision.restarts(), 1);
        assert_eq!(story.supervision.last_exit(), Some("exited with code 1"));
    }

    #[test]
    fn program_that_ran_shorter_than_its_minimum_waits_for_the_rest_of_it() {
        let mut story = Story::running();
        let ended = story.ended(300);
        assert_eq!(ended, Ended { ran: 300 * MS, next: Next::StartAfter(700 * MS) });
        assert_eq!(story.state(), State::Waiting);
        assert_eq!(story.due(999), None);
        assert_eq!(story.supervision.next_due(), Some(story.at(1_000)));
        assert_eq!(story.due(1_000), Some(Due::Start));
    }

    #[test]
    fn program_that_ends_at_once_again_and_again_is_started_once_a_second() {
        let mut story = Story::started();
        let mut starts = 1;
        for ms in 1..=10_000 {
            if story.due(ms) == Some(Due::Start) {
                story.supervision.started(story.at(ms));
                story.ended(ms);
                starts += 1;
            } else if ms == 1 {
                story.ended(ms);
            }
        }
        assert_eq!(starts, 11);
    }

    #[test]
    fn program_that_cannot_be_started_is_tried_again_after_its_minimum_run_time() {
        let begin = Instant::now();
        let mut supervision = Supervision::new(Limits::default());
        supervision.start(begin);
        assert_eq!(supervision.due(begin), Some(Due::Start));
        let ended = supervision.ended(begin, "no such file".into());
        assert_eq!(ended.next, Next::StartAfter(1_000 * MS));
        assert_eq!(supervision.restarts(), 0);
    }

    #[test]
    fn program_that_is_not_ready_in_time_is_killed_once_and_started_again() {
        let mut story = Story::started();
        assert_eq!(story.due(9_999), None);
        assert_eq!(story.due(10_000), Some(Due::KillUnready));
        assert_eq!(story.due(10_001), None);
        assert_eq!(story.state(), State::Stopping);
        assert_eq!(story.ended(10_002).next, Next::StartAtOnce);
    }

    #[test]
    fn readiness_counts_once_and_not_after_a_kill() {
        let mut story = Story::running();
        assert!(!story.supervision.ready());
        story.supervision.killed();
        assert!(!story.supervision.ready());
        assert_eq!(story.state(), State::Stopping);
    }

    #[test]
    fn stopped_program_that_ends_in_time_is_not_killed_and_stays_stopped() {
        let mut story = Story::running();
        assert!(story.supervision.stop(story.at(5_000)));
        assert_eq!(story.due(5_999), None);
        assert_eq!(story.ended(5_999).next, Next::Stay);
        assert_eq!(story.state(), State::Stopped);
        assert_eq!(story.due(60_000), None);
    }

    #[test]
    fn stopped_program_that_does_not_end_is_killed_once() {
        let mut story = Story::running();
        story.supervision.stop(story.at(0));
        assert!(story.supervision.stop(story.at(900)), "a second request moves nothing");
        assert_eq!(story.due(1_000), Some(Due::KillUnended));
        assert_eq!(story.due(1_001), None);
        assert_eq!(story.ended(1_002).next, Next::Stay);
    }

    #[test]
    fn program_that_crashes_while_stopping_is_not_started_again() {
        let mut story = Story::running();
        story.supervision.stop(story.at(5_000));
        assert_eq!(story.ended(5_001).next, Next::Stay);
        assert_eq!(story.due(9_000), None);
    }

    #[test]
    fn held_program_is_looked_at_again_and_again_until_it_is_started_or_stopped() {
        let mut story = Story::started();
        story.ended(10);
        for ms in [10, 1_010, 2_010] {
            story.supervision.hold(story.at(ms), "line 1".into());
            assert_eq!((story.state(), story.due(ms + 999)), (State::Held, None));
            assert_eq!(story.due(ms + 1_000), Some(Due::Start));
        }
        assert_eq!(
            (story.supervision.restarts(), story.supervision.last_exit()),
            (0, Some("line 1"))
        );
        story.supervision.started(story.at(3_010));
        assert_eq!(story.state(), State::Starting);
        story.ended(3_020);
        story.supervision.hold(story.at(3_020), "line 2".into());
        assert!(!story.supervision.stop(story.at(3_030)));
        story.supervision.hold(story.at(3_040), "late".into());
        assert_eq!(story.state(), State::Stopped);
    }

    #[test]
    fn waiting_program_that_is_stopped_is_not_started() {
        let mut story = Story::running();
        story.ended(1);
        assert!(!story.supervision.stop(story.at(2)));
        assert_eq!(story.state(), State::Stopped);
        assert_eq!(story.due(2_000), None);
    }

    #[test]
    fn program_that_says_it_will_end_and_does_not_is_killed_and_started_again() {
        let mut story = Story::running();
        assert!(story.supervision.ending(story.at(5_000)));
        assert_eq!(story.due(6_000), Some(Due::KillUnended));
        assert_eq!(story.ended(6_001).next, Next::StartAtOnce);
    }
}
