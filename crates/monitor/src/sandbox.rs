//! The wall around each app, as the monitor has to do with it: how high the operator wants it, and what
//! is heard of those who run against it.
//!
//! A confined process whose call was refused stands still until we have answered. We answer at once,
//! up to a rate: who tries more often waits, and we do not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

pub use config::Require;
use rustix::fs::OFlags;
use sys::sandbox::notifications::{Listener, Target, TargetReader, WatchedCall};
use sys::sandbox::{Mechanism, Report};
use tracing::{info, warn};

/// Calls of one app that are answered in a [`PERIOD`].
const ANSWERS: u32 = 1_000;

/// The C library asks for it when it gives memory back, and does without: no attack. An app may look.
const ASKED_BY_C: &str = "/proc/sys/vm/overcommit_memory";

/// Stands for a path that is not read any more in this [`PERIOD`].
const NOT_LOOKED_AT: &str = "(not read: its calls before took too long to read)";

/// Lines of the log about them in a [`PERIOD`].
const LINES: u32 = 10;

/// Calls that are answered in one turn of the loop.
const PER_TURN: u32 = 64;

const PERIOD: Duration = Duration::from_secs(1);

/// Between two lines about files whose paths cannot be read. Without root that is each which an app opens in
/// its `/tmp`.
const QUIET: Duration = Duration::from_secs(60);

/// Hears of what one process was refused.
#[derive(Debug)]
pub(crate) struct RefusedCalls {
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
    /// Reads the paths of its calls.
    reader: TargetReader,
    unread: Unread,
}

/// Files that were opened to write, by paths that could not be read.
#[derive(Debug, Default)]
struct Unread {
    /// How many of them are still to be told.
    count: u64,
    told: Option<Instant>,
}

impl RefusedCalls {
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
        Self {
            app,
            program,
            is_confined: false,
            listener: None,
            began: now,
            answered,
            lines,
            suppressed,
            reader: TargetReader::default(),
            unread: Unread::default(),
        }
    }

    /// Whether it has said what wall is around it.
    pub(crate) fn is_confined(&self) -> bool {
        self.is_confined
    }

    /// The process says what wall is around it, and gives its listener if there is one.
    pub(crate) fn confined(&mut self, report: &Report, fds: Vec<OwnedFd>) {
        self.is_confined = true;
        let (app, program) = (self.app.as_deref(), self.program);
        if let Some(missing) = report.gaps_text() {
            warn!(
                app,
                program, missing, "confined as far as this system lets us; see rosemary doctor"
            );
        } else {
            info!(app, program, "confined");
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
        let period = (waits || self.suppressed > 0).then_some(self.began + PERIOD);
        period.into_iter().chain(self.unread.next_due()).min()
    }

    /// Begins a new period, if it is time.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        if self.unread.next_due().is_some_and(|at| at <= now) {
            let (app, program, files) = (self.app.as_deref(), self.program, self.unread.take(now));
            warn!(app, program, files, "opened more files to write whose paths could not be read");
        }
        if now.saturating_duration_since(self.began) < PERIOD {
            return;
        }
        (self.began, self.answered, self.lines) = (now, 0, 0);
        self.reader.rest();
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
            match listener.answer_next(&mut self.reader) {
                Ok(Some(told)) => self.record(told, now),
                Ok(None) => return,
                // The process has ended, or the system has a fault: then its callers get ENOSYS.
                Err(_) => return self.listener = None,
            }
            self.answered += 1;
        }
    }

    /// Records a call, if it is one to be recorded and not one too many.
    fn record(&mut self, told: WatchedCall, now: Instant) {
        let (app, program, call) = (self.app.as_deref(), self.program, told.call);
        let arguments = told.arguments_in_hex();
        match told.about {
            Target::Path(_) if told.goes_on => {} // in its own /tmp
            _ if told.goes_on => {
                self.unread.count += 1;
                if self.unread.next_due().is_none_or(|at| at <= now) {
                    self.unread.take(now);
                    warn!(
                        app,
                        program,
                        call,
                        arguments,
                        "opened a file to write whose path could not be read: its own /tmp, or refused \
                         by the file system"
                    );
                }
            }
            Target::Path(path) if app.is_none() && is_asked_by_c(call, &path, told.arguments) => {}
            _ if self.lines >= LINES => self.suppressed += 1,
            about => {
                self.lines += 1;
                let about = match about {
                    Target::None => None,
                    Target::Unreadable => Some("(could not be read)".to_owned()),
                    Target::NotRead => Some(NOT_LOOKED_AT.to_owned()),
                    Target::Path(text) => Some(crate::program::shortened(&text, 200)),
                };
                warn!(app, program, call, about, arguments, "refused a system call");
            }
        }
    }
}

/// Whether it is what the C library asks for, to read it.
fn is_asked_by_c(call: &str, path: &str, [_, _, flags, ..]: [u64; 6]) -> bool {
    let is_to_read = flags & u64::from(OFlags::RWMODE.bits()) == 0;
    call == "openat" && path == ASKED_BY_C && is_to_read
}

impl Unread {
    /// When those that are still to be told are to be, if there are some.
    fn next_due(&self) -> Option<Instant> {
        self.told.filter(|_| self.count > 0).map(|told| told + QUIET)
    }

    /// How many are to be told, which is done now.
    fn take(&mut self, now: Instant) -> u64 {
        self.told = Some(now);
        std::mem::take(&mut self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(call: &'static str, path: &str, flags: u64) -> WatchedCall {
        let about = Target::Path(path.into());
        WatchedCall { call, arguments: [0, 0, flags, 0, 0, 0], about, goes_on: false }
    }

    #[test]
    fn what_the_c_library_asks_for_hides_no_other_call_and_no_app() {
        let now = Instant::now();
        let mut kernel = RefusedCalls::of_kernel(now);
        kernel.record(told("openat", ASKED_BY_C, 0o2_000_000), now);
        assert_eq!(kernel.lines, 0);
        kernel.record(told("execve", ASKED_BY_C, 0), now);
        kernel.record(told("openat", ASKED_BY_C, 2), now);
        assert_eq!(kernel.lines, 2);
        let mut zone = RefusedCalls::of_zone("app".into(), now);
        zone.record(told("openat", ASKED_BY_C, 0), now);
        assert_eq!(zone.lines, 1);
    }

    #[test]
    fn file_that_is_opened_to_write_by_an_unread_path_is_told_and_those_that_follow_are_counted() {
        let begin = Instant::now();
        let mut zone = RefusedCalls::of_zone("app".into(), begin);
        let unread =
            || WatchedCall { about: Target::Unreadable, goes_on: true, ..told("openat", "", 1) };
        zone.record(unread(), begin);
        assert_eq!((zone.unread.count, zone.next_due()), (0, None), "told");
        (0..3).for_each(|_| zone.record(unread(), begin + PERIOD));
        assert_eq!((zone.unread.count, zone.next_due()), (3, Some(begin + QUIET)));
        zone.catch_up(begin + QUIET);
        assert_eq!(zone.next_due(), None);
        zone.record(WatchedCall { goes_on: true, ..told("openat", "/tmp/x", 1) }, begin + QUIET);
        assert_eq!((zone.unread.count, zone.lines), (0, 0), "its own matter");
        zone.record(
            WatchedCall { about: Target::Unreadable, ..told("execve", "", 0) },
            begin + QUIET,
        );
        assert_eq!(zone.lines, 1);
    }
}
