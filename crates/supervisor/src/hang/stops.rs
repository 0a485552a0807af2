//! Detects a process that was stopped, with `SIGSTOP` for example, and is not continued.

use std::time::Duration;

use sys::process::Thread;

use super::PERIOD;

/// A process that was stopped for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedTooLong {
    lasted: Duration,
    longest: Duration,
}

impl std::fmt::Display for StoppedTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (lasted, longest) = (self.lasted.as_secs_f64(), self.longest.as_secs_f64());
        write!(
            f,
            "it hung: it was stopped for {lasted:.1} s; hang-seconds of [supervision] allows {longest}"
        )
    }
}

/// Watches whether one process is stopped. Time is counted in checks, so none passes while the monitor itself is stopped. A
/// process that a debugger holds does not count as stopped.
#[derive(Debug)]
pub struct StopWatch {
    longest: Duration,
    lasted: Duration,
}

impl StopWatch {
    /// Watches a process that may be stopped for `longest`.
    pub fn new(longest: Duration) -> Self {
        Self { longest, lasted: Duration::ZERO }
    }

    /// A new process runs.
    pub fn restart(&mut self) {
        self.lasted = Duration::ZERO;
    }

    /// Checks the process; the caller does so each [`PERIOD`]. `main` is its main thread, if the system reports it.
    pub fn check(&mut self, main: Option<Thread>) -> Option<StoppedTooLong> {
        let is_stopped = main.is_some_and(|main| main.stopped);
        self.lasted = if is_stopped { self.lasted + PERIOD } else { Duration::ZERO };
        let Self { longest, lasted } = *self;
        (lasted >= longest).then_some(StoppedTooLong { lasted, longest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    fn thread(stopped: bool) -> Thread {
        Thread { used: Duration::ZERO, runs: false, stopped }
    }

    #[test]
    fn stopped_process_is_found_after_the_longest_stop() {
        let mut watch = StopWatch::new(LONGEST);
        assert!((0..19).all(|_| watch.check(Some(thread(true))).is_none()));
        assert_eq!(watch.check(Some(thread(false))), None, "it was continued");
        assert!((0..19).all(|_| watch.check(Some(thread(true))).is_none()));
        let text = "it hung: it was stopped for 10.0 s; hang-seconds of [supervision] allows 10";
        assert_eq!(watch.check(Some(thread(true))).unwrap().to_string(), text);
        watch.restart();
        assert_eq!(watch.check(Some(thread(true))), None, "another process");
    }

    #[test]
    fn process_that_runs_or_cannot_be_read_is_not_stopped() {
        let mut watch = StopWatch::new(LONGEST);
        for main in [Some(thread(false)), None] {
            assert!((0..1_000).all(|_| watch.check(main).is_none()));
        }
    }
}
