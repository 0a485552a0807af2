//! Detects a program that does not answer the monitor: a service, the HTTP interface, or the kernel.
//!
//! The monitor sends each program a numbered question and the next one only after the answer. Time without an answer counts
//! by the activity of the program's main thread, which answers:
//!
//! | the main thread | the program has hung |
//! | --- | --- |
//! | is stopped, or has ended | after the time limit |
//! | receives processor time | when that reaches the time limit |
//! | sleeps, as while it waits for a disk | after [`IDLE_FACTOR`] times the time limit |
//! | waits for a processor | never |
//!
//! Time is counted in checks, which are [`PERIOD`] apart, so none passes while the monitor itself stands still.

use std::time::Duration;

use sys::process::Thread;

use super::PERIOD;

/// How much longer a program may sleep. A slow disk takes seconds.
const IDLE_FACTOR: u32 = 6;

/// A program that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// The time without an answer.
    lasted: Duration,
    /// Processor time of its main thread in that time.
    used: Duration,
    /// Whether its main thread is stopped.
    stopped: bool,
    /// The time limit.
    limit: Duration,
}

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (lasted, used) = (self.lasted.as_secs_f64(), self.used.as_secs_f64());
        write!(f, "it hung: it did not answer the monitor in {lasted:.1} s, ")?;
        if self.stopped {
            f.write_str("with its main thread stopped")?;
        } else {
            write!(f, "with {used:.1} s of processor time")?;
        }
        write!(f, "; hang-seconds of [supervision] allows {}", self.limit.as_secs_f64())
    }
}

/// The caller's next action after a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Send the program the question of this number.
    Ask(u64),
    /// Nothing: it has not answered yet.
    Wait,
    /// Kill the program.
    Hung(Silent),
}

/// Watches whether one program answers.
#[derive(Debug)]
pub struct AnswerProgress {
    limit: Duration,
    /// The number of the last question.
    number: u64,
    /// The time since that question; `None` after the answer.
    wait: Option<Wait>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    lasted: Duration,
    idle: Duration,
    stopped: Duration,
    /// The main thread's processor time at the first and the last check that could read it.
    used: Option<(Duration, Duration)>,
}

impl AnswerProgress {
    /// Watches a program that may be silent for `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { limit, number: 0, wait: None }
    }

    /// A new process runs, or none.
    pub fn restart(&mut self) {
        self.wait = None;
    }

    /// Returns whether an answer is outstanding.
    pub fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// The program answered question `number`. Returns whether it was asked.
    pub fn answered(&mut self, number: u64) -> bool {
        self.number == number && self.wait.take().is_some()
    }

    /// It answered the last question. Returns whether it owed an answer.
    pub fn answered_last(&mut self) -> bool {
        self.wait.take().is_some()
    }

    /// How long it has owed an answer.
    pub fn silent_for(&self) -> Duration {
        self.wait.map_or(Duration::ZERO, |wait| wait.lasted)
    }

    /// Checks the program; the caller does so each [`PERIOD`] while it is ready. `thread` reads its main thread, if the
    /// system reports it.
    pub fn check(&mut self, thread: impl FnOnce() -> Option<Thread>) -> Check {
        let Some(wait) = &mut self.wait else {
            self.number += 1;
            self.wait = Some(Wait::default());
            return Check::Ask(self.number);
        };
        wait.lasted += PERIOD;
        let thread = thread();
        let is_stopped = thread.is_some_and(|thread| thread.stopped);
        wait.stopped = if is_stopped { wait.stopped + PERIOD } else { Duration::ZERO };
        let before = wait.used.map(|(_, last)| last);
        if let Some(Thread { used, .. }) = thread {
            let first = wait.used.map_or(used, |(first, _)| first);
            wait.used = Some((first, used));
        }
        let received_none =
            before.is_none_or(|before| wait.used.is_some_and(|(_, now)| now == before));
        if received_none && !is_stopped && thread.is_none_or(|thread| !thread.runs) {
            wait.idle += PERIOD;
        }
        let used = wait.used.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first));
        let limit = self.limit;
        if wait.stopped >= limit || used >= limit || wait.idle >= limit * IDLE_FACTOR {
            return Check::Hung(Silent { lasted: wait.lasted, used, stopped: is_stopped, limit });
        }
        Check::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);
    const RUNS: Thread = Thread { used: Duration::ZERO, runs: true, stopped: false };
    const SLEEPS: Thread = Thread { runs: false, ..RUNS };

    /// Asks once and checks until the service has hung; `None` if it has not after `most`.
    fn silence(most: Duration, mut at: impl FnMut(Duration) -> Option<Thread>) -> Option<Silent> {
        let mut progress = AnswerProgress::new(LIMIT);
        assert_eq!(progress.check(|| None), Check::Ask(1));
        let mut passed = Duration::ZERO;
        while passed < most {
            passed += PERIOD;
            match progress.check(|| at(passed)) {
                Check::Wait => {}
                Check::Hung(silent) => return Some(silent),
                Check::Ask(number) => panic!("asked {number} without an answer"),
            }
        }
        None
    }

    #[test]
    fn service_that_answers_is_asked_again() {
        let mut progress = AnswerProgress::new(LIMIT);
        for number in 1..100 {
            assert_eq!(progress.check(|| Some(SLEEPS)), Check::Ask(number));
            assert_eq!(progress.check(|| Some(SLEEPS)), Check::Wait);
            assert!(!progress.answered(number + 1) && progress.answered(number));
            assert!(!progress.answered(number), "it answers once");
        }
    }

    #[test]
    fn stopped_service_hangs_after_the_limit() {
        let stopped = Thread { stopped: true, ..SLEEPS };
        let silent = silence(LIMIT * 100, |_| Some(stopped)).unwrap();
        assert_eq!(silent.lasted, LIMIT);
        let text = "it hung: it did not answer the monitor in 2.0 s, with its main thread stopped; \
                    hang-seconds of [supervision] allows 2";
        assert_eq!(silent.to_string(), text);
    }

    #[test]
    fn busy_service_hangs_by_processor_time() {
        let at =
            |share: u32| silence(LIMIT * 100, |used| Some(Thread { used: used / share, ..RUNS }));
        assert_eq!(at(1).unwrap().used, LIMIT);
        let throttled = at(10).unwrap();
        assert_eq!(throttled.used, LIMIT);
        assert!(throttled.lasted >= LIMIT * 10, "{throttled:?}");
    }

    #[test]
    fn starved_service_never_hangs() {
        assert_eq!(silence(LIMIT * 10_000, |_| Some(RUNS)), None);
    }

    #[test]
    fn sleeping_or_unreadable_service_hangs_much_later() {
        for thread in [Some(SLEEPS), None] {
            let silent = silence(LIMIT * 100, |_| thread).unwrap();
            assert_eq!(silent.lasted, LIMIT * IDLE_FACTOR);
        }
    }

    #[test]
    fn new_process_owes_no_answer() {
        let mut progress = AnswerProgress::new(LIMIT);
        assert_eq!(progress.check(|| None), Check::Ask(1));
        progress.restart();
        assert!(!progress.answered(1));
        assert_eq!(progress.check(|| None), Check::Ask(2));
    }
}
