//! The wall around each app, as the monitor has to do with it: how high the operator wants it, and what
//! is heard of those who run against it.
//!
//! A confined process whose call was refused stands still until we have answered. We answer at once,
//! up to a rate: who tries more often waits, and we do not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::jail::records::{Listener, Told};
use sys::jail::{Mechanism, Report};
use tracing::{info, warn};

/// How much of a wall an operator wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Require {
    /// What the system lets us build, with what is missing said.
    #[default]
    Best,
    /// All of it, or nothing starts.
    Full,
}

impl Require {
    /// As in the configuration.
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "best" => Some(Self::Best),
            "full" => Some(Self::Full),
            _ => None,
        }
    }
}

/// Calls of one app that are answered in a [`PERIOD`].
const ANSWERS: u32 = 1_000;

/// The C library of the kernel asks for it when it gives memory back, and does without: no attack.
const ASKED_BY_C: &str = "/proc/sys/vm/overcommit_memory";

/// Lines of the log about them in a [`PERIOD`].
const LINES: u32 = 10;

/// Calls that are answered in one turn of the loop.
const PER_TURN: u32 = 64;

const PERIOD: Duration = Duration::from_secs(1);

/// Hears of what one process was refused.
#[derive(Debug)]
pub(crate) struct Refusals {
    /// The app whose zone it is; `None` for the kernel.
    app: Option<String>,
    program: &'static str,
    /// Whether it has said what wall is around it.
    is_confined: bool,
    listener: Option<Listener>,
    began: Instant,
    answered: u32,
    lines: u32,
    suppressed: u64,
}

impl Refusals {
    /// For the zone of the app of that name, of which nothing is heard yet.
    pub(crate) fn of_zone(app: String, now: Instant) -> Self {
        Self::new(Some(app), "zone", now)
    }

    /// For the kernel.
    pub(crate) fn of_kernel(now: Instant) -> Self {
        Self::new(None, "kernel", now)
    }

    /// For the service of that name.
    pub(crate) fn of_service(name: &'static str, now: Instant) -> Self {
        Self::new(None, name, now)
    }

    fn new(app: Option<String>, program: &'static str, now: Instant) -> Self {
        let (answered, lines, suppressed) = (0, 0, 0);
        let (is_confined, listener) = (false, None);
        Self { app, program, is_confined, listener, began: now, answered, lines, suppressed }
    }

    /// Whether it has said what wall is around it.
    pub(crate) fn is_confined(&self) -> bool {
        self.is_confined
    }

    /// The process says what wall is around it, and gives its listener if there is one.
    pub(crate) fn confined(&mut self, report: &Report, fds: Vec<OwnedFd>) {
        self.is_confined = true;
        let (app, program) = (self.app.as_deref(), self.program);
        let gaps = report.gaps();
        if gaps.is_empty() {
            info!(app, program, "confined");
        } else {
            let missing: Vec<String> =
                gaps.iter().map(|(gap, why)| format!("{gap} ({why})")).collect();
            let missing = missing.join("; ");
            warn!(
                app,
                program, missing, "confined as far as this system lets us; see rosemary doctor"
            );
        }
        // Without a root directory of its own its /tmp would be everybody's.
        let has_tmp = self.app.is_some() && report.is_on(Mechanism::Root);
        self.listener = fds.into_iter().next().and_then(|fd| {
            Listener::new(fd, has_tmp)
                .inspect_err(|error| warn!(app, program, %error, "refused calls are not told"))
                .ok()
        });
    }

    /// Its process is gone.
    pub(crate) fn over(&mut self) {
        (self.is_confined, self.listener) = (false, None);
    }

    /// What becomes readable when a call waits; none while there were too many.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().filter(|_| self.answered < ANSWERS).map(AsFd::as_fd)
    }

    /// When it has to be looked at again though nothing is readable.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let waits = self.listener.is_some() && self.answered >= ANSWERS;
        (waits || self.suppressed > 0).then_some(self.began + PERIOD)
    }

    /// Begins a new period, if it is time.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        if now.saturating_duration_since(self.began) < PERIOD {
            return;
        }
        (self.began, self.answered, self.lines) = (now, 0, 0);
        self.listener.iter_mut().for_each(Listener::rest);
        let suppressed = std::mem::take(&mut self.suppressed);
        if suppressed > 0 {
            let (app, program) = (self.app.as_deref(), self.program);
            warn!(app, program, suppressed, "refused more system calls than are listed");
        }
    }

    /// Answers calls that wait, and records them.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.catch_up(now);
        for _ in 0..PER_TURN {
            let Some(listener) = self.listener.as_mut().filter(|_| self.answered < ANSWERS) else {
                return;
            };
            match listener.answer_next() {
                Ok(Some(Told::Refused(refused)))
                    if refused.about.as_deref() == Some(ASKED_BY_C) => {}
                Ok(Some(Told::Refused(refused))) if self.lines < LINES => {
                    self.lines += 1;
                    let arguments = refused.arguments_in_hex();
                    let about = refused.about.map(|about| crate::program::shortened(&about, 200));
                    let (app, program) = (self.app.as_deref(), self.program);
                    warn!(
                        app,
                        program,
                        call = refused.call,
                        about,
                        arguments,
                        "refused a system call"
                    );
                }
                Ok(Some(Told::Refused(_))) => self.suppressed += 1,
                Ok(Some(Told::WentOn)) => {}
                Ok(None) => return,
                // The process has ended, or the system has a fault: then its callers get ENOSYS.
                Err(_) => return self.listener = None,
            }
            self.answered += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_configuration_are_the_two() {
        assert_eq!(Require::named("full"), Some(Require::Full));
        assert_eq!(Require::named("best"), Some(Require::Best));
        assert_eq!(Require::named("Full"), None);
    }
}
