//! Decides when a program that ended is started again, and when it is held instead.
//!
//! Pure: the caller passes the time of each end. Three rules, with the figures of [`RestartPolicy`]:
//!
//! * A program that ran at least its minimum run time is started again at once.
//! * One that ran shorter is started when that time has passed since its start. From the third such run in a row on the
//!   time doubles with each, up to the longest pause.
//! * A program that has ended more often than allowed in the window is held.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use config::RestartPolicy;

/// The number of brief runs in a row that wait for the minimum run time only. One crash and one after the repetition of
/// its cause are usual, and an operator should hardly notice them.
const PATIENCE: u32 = 2;

/// What follows the end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Start it at this time.
    StartAt(Instant),
    /// Hold it.
    Hold(TooManyRestarts),
}

/// A program was restarted more often than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyRestarts {
    /// The number of its ends in the window.
    pub ends: usize,
    /// The window.
    pub window: Duration,
}

impl std::fmt::Display for TooManyRestarts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it ended {} times in {} s", self.ends, self.window.as_secs())
    }
}

/// The recent ends of one program.
#[derive(Debug)]
pub struct RestartHistory {
    policy: RestartPolicy,
    /// The number of brief runs in a row.
    brief_runs: u32,
    /// The ends within the window, at most one more than the policy allows.
    ends: VecDeque<Instant>,
}

impl RestartHistory {
    /// A program that has not run yet.
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, brief_runs: 0, ends: VecDeque::new() }
    }

    /// The policy.
    pub fn policy(&self) -> &RestartPolicy {
        &self.policy
    }

    /// The program, which was started at `started`, ended `now`.
    pub fn ended(&mut self, started: Instant, now: Instant) -> Decision {
        let RestartPolicy { min_run, longest_pause, restarts, window } = self.policy;
        let ran = now.saturating_duration_since(started);
        self.brief_runs = if ran < min_run { self.brief_runs.saturating_add(1) } else { 0 };
        if let Some(most) = restarts {
            self.ends.push_back(now);
            while self.ends.front().is_some_and(|end| now.saturating_duration_since(*end) >= window)
            {
                self.ends.pop_front();
            }
            if self.ends.len() > most as usize {
                return Decision::Hold(TooManyRestarts { ends: self.ends.len(), window });
            }
        }
        let doublings = self.brief_runs.saturating_sub(PATIENCE).min(31);
        let longest = longest_pause.max(min_run);
        let pause = min_run.saturating_mul(1 << doublings).min(longest);
        Decision::StartAt((started + pause).max(now))
    }

    /// Forgets the past: the program's files have changed, or the operator starts it.
    pub fn forget(&mut self) {
        *self = Self::new(self.policy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn history(restarts: Option<u32>) -> RestartHistory {
        RestartHistory::new(RestartPolicy { restarts, ..RestartPolicy::default() })
    }

    /// Ends a program `ran` after each start until `most` have passed. Returns the pauses between its starts, in seconds,
    /// and why it was held, if it was.
    fn play(
        history: &mut RestartHistory,
        ran: Duration,
        most: Duration,
    ) -> (Vec<u64>, Option<TooManyRestarts>) {
        let begin = Instant::now();
        let (mut started, mut pauses) = (begin, Vec::new());
        while started + ran < begin + most {
            match history.ended(started, started + ran) {
                Decision::StartAt(at) => {
                    pauses.push((at - started).as_secs());
                    started = at;
                }
                Decision::Hold(why) => return (pauses, Some(why)),
            }
        }
        (pauses, None)
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (pauses, held) = play(&mut history(None), Duration::ZERO, SECOND * 150);
        assert_eq!((pauses, held), (vec![1, 1, 2, 4, 8, 16, 30, 30, 30, 30], None));
    }

    #[test]
    fn long_run_resets_the_pause() {
        let mut history = history(None);
        play(&mut history, Duration::ZERO, SECOND * 60);
        let start = Instant::now();
        let end = start + SECOND;
        assert_eq!(history.ended(start, end), Decision::StartAt(end));
        assert_eq!(history.ended(end, end), Decision::StartAt(end + SECOND));
    }

    #[test]
    fn too_many_ends_in_window_hold() {
        let day = SECOND * 86_400;
        let (pauses, held) = play(&mut history(Some(50)), SECOND * 5, day);
        assert_eq!(pauses.len(), 50);
        assert_eq!(held.unwrap().to_string(), "it ended 51 times in 3600 s");
        let (pauses, held) = play(&mut history(Some(50)), SECOND * 80, day);
        assert_eq!((pauses.len(), held), (1079, None), "45 ends an hour are allowed");
    }

    #[test]
    fn forgotten_past_does_not_count() {
        let mut history = history(Some(3));
        assert!(play(&mut history, SECOND, SECOND * 100).1.is_some());
        history.forget();
        assert_eq!(play(&mut history, SECOND, SECOND * 100).0.len(), 3);
    }

    #[test]
    fn history_stays_bounded() {
        let mut history = history(Some(100_000));
        play(&mut history, SECOND, SECOND * 86_400);
        assert_eq!(history.ends.len(), 3600);
    }
}
