//! Answers and logs the refused system calls of confined processes.
//!
//! A confined process waits in a refused call until the monitor answers. The monitor answers at once up to a rate; a
//! process that makes more such calls waits, and the monitor does not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use control::log::LogLevel;
use rustix::fs::OFlags;
use sys::sandbox::notifications::{Listener, Target, TargetReader, WatchedCall};
use sys::sandbox::{Mechanism, Report};
use tracing::{info, warn};

use crate::{log_forwarder, remedy};
use supervisor::program::ProgramKind;

/// Most calls of one process that are answered in a [`PERIOD`].
const MAX_ANSWERS: u32 = 1_000;

/// The C library reads this file when it frees memory, and works without it. So a kernel or a service that opens it
/// attacks nothing, and the log leaves it out.
const READ_BY_C: &str = "/proc/sys/vm/overcommit_memory";

/// Stands for a path that was not read, because the time for reads in this [`PERIOD`] was used up.
const NOT_READ: &str = "(not read: reading the paths of earlier calls took too long)";

/// Most log lines about the calls of one process in a [`PERIOD`].
const MAX_LINES: u32 = 10;

/// Most calls that are answered in one turn of the event loop.
const PER_TURN: u32 = 64;

const PERIOD: Duration = Duration::from_secs(1);

/// Time between two log lines about files with unreadable paths. Without root these are all files that an app opens
/// for writing in its `/tmp`.
const QUIET: Duration = Duration::from_secs(60);

/// Answers and logs the refused calls of one process.
#[derive(Debug)]
pub(crate) struct RefusedCalls {
    /// The app of a zone; `None` for the kernel and services.
    app: Option<String>,
    program: &'static str,
    /// Whether the process has reported that it is confined.
    is_confined: bool,
    listener: Option<Listener>,
    period_began: Instant,
    /// Calls answered in this period.
    answered: u32,
    /// Lines logged in this period.
    lines: u32,
    /// Calls of this period that were not logged.
    suppressed: u64,
    reader: TargetReader,
    unread: UnreadPaths,
}

/// Files that the process opened for writing by paths that could not be read.
#[derive(Debug, Default)]
struct UnreadPaths {
    /// How many have not been logged.
    count: u64,
    last_logged: Option<Instant>,
}

impl RefusedCalls {
    /// For a program of this kind, whose process is not confined yet.
    pub(crate) fn of(kind: &ProgramKind, now: Instant) -> Self {
        match kind {
            ProgramKind::Zone(app) => Self::new(Some(app.clone()), "zone", now),
            ProgramKind::Kernel => Self::new(None, "kernel", now),
            ProgramKind::Service(_) | ProgramKind::Northbound => {
                Self::new(None, kind.service(), now)
            }
        }
    }

    fn new(app: Option<String>, program: &'static str, now: Instant) -> Self {
        let (answered, lines, suppressed) = (0, 0, 0);
        Self {
            app,
            program,
            is_confined: false,
            listener: None,
            period_began: now,
            answered,
            lines,
            suppressed,
            reader: TargetReader::default(),
            unread: UnreadPaths::default(),
        }
    }

    /// Whether the process has reported that it is confined.
    pub(crate) fn is_confined(&self) -> bool {
        self.is_confined
    }

    /// Takes the process's report and its listener, if it has one.
    pub(crate) fn confined(&mut self, report: &Report, fds: Vec<OwnedFd>) {
        self.is_confined = true;
        let (app, program) = (self.app.as_deref(), self.program);
        if let Some(missing) = report.gaps_text() {
            warn!(
                app,
                program, missing, "confined as far as this system allows; see rosemary doctor"
            );
        } else {
            info!(app, program, "confined");
        }
        // Without a private root directory, /tmp is the machine's.
        let has_tmp = self.app.is_some() && report.is_on(Mechanism::Root);
        self.listener = fds.into_iter().next().and_then(|fd| {
            Listener::new(fd, has_tmp)
                .inspect_err(
                    |error| warn!(app, program, %error, "refused calls will not be logged"),
                )
                .ok()
        });
    }

    /// The descriptor that becomes readable when a call waits; `None` after too many calls in this period.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().filter(|_| self.answered < MAX_ANSWERS).map(AsFd::as_fd)
    }

    /// When [`catch_up`](Self::catch_up) must be called even if the descriptor is not readable.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let is_paused = self.listener.is_some() && self.answered >= MAX_ANSWERS;
        let period = (is_paused || self.suppressed > 0).then_some(self.period_began + PERIOD);
        period.into_iter().chain(self.unread.next_due()).min()
    }

    /// Begins a new period if the current one is over, and logs how many calls it left out.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        if self.unread.next_due().is_some_and(|at| at <= now) {
            let (app, program, files) = (self.app.as_deref(), self.program, self.unread.take(now));
            warn!(app, program, files, "opened more files for writing by unreadable paths");
        }
        if now.saturating_duration_since(self.period_began) < PERIOD {
            return;
        }
        (self.period_began, self.answered, self.lines) = (now, 0, 0);
        self.reader.refill();
        self.log_suppressed();
    }

    /// The process has ended: logs the counts of calls that have not been logged.
    pub(crate) fn finish(&mut self, now: Instant) {
        if self.unread.count > 0 {
            let (app, program, files) = (self.app.as_deref(), self.program, self.unread.take(now));
            warn!(app, program, files, "opened more files for writing by unreadable paths");
        }
        self.log_suppressed();
    }

    fn log_suppressed(&mut self) {
        let suppressed = std::mem::take(&mut self.suppressed);
        if suppressed > 0 {
            let (app, program) = (self.app.as_deref(), self.program);
            warn!(app, program, suppressed, "refused more system calls than were logged");
        }
    }

    /// Answers and logs waiting calls. `level` is that of the app's own log.
    pub(crate) fn answer_waiting(&mut self, level: LogLevel, now: Instant) {
        self.catch_up(now);
        for _ in 0..PER_TURN {
            let Some(listener) = self.listener.as_mut().filter(|_| self.answered < MAX_ANSWERS)
            else {
                return;
            };
            match listener.answer_next(&mut self.reader) {
                Ok(Some(call)) => self.log(call, level, now),
                Ok(None) => return,
                // The process has ended, or the listener failed. Without a listener its calls fail with ENOSYS.
                Err(_) => return self.listener = None,
            }
            self.answered += 1;
        }
    }

    /// Logs a call, unless it is harmless or the period has enough lines.
    fn log(&mut self, watched: WatchedCall, level: LogLevel, now: Instant) {
        let (app, program, call) = (self.app.as_deref(), self.program, watched.call);
        let (arguments, remedy) = (watched.arguments_in_hex(), remedy::of(&watched));
        let remedy = remedy.as_deref();
        match watched.target {
            Target::Text(_) if watched.continued => {} // in the app's own /tmp
            _ if watched.continued => {
                self.unread.count += 1;
                if self.unread.next_due().is_none_or(|at| at <= now) {
                    self.unread.take(now);
                    warn!(
                        app,
                        program,
                        call,
                        arguments,
                        "opened a file for writing by an unreadable path; outside of /tmp the file \
                         system refused it"
                    );
                }
            }
            Target::Text(path) if app.is_none() && is_read_by_c(call, &path, watched.arguments) => {
            }
            // Without memory to read the path from, the program has ended during the call, and no file can be opened.
            Target::Unreadable if app.is_none() && is_to_read(call, watched.arguments) => {}
            _ if self.lines >= MAX_LINES => self.suppressed += 1,
            target => {
                self.lines += 1;
                let about = match target {
                    Target::None => None,
                    Target::Unreadable => Some("(could not be read)".to_owned()),
                    Target::NotRead => Some(NOT_READ.to_owned()),
                    Target::Text(text) => Some(supervisor::text::shortened(&text, 200)),
                };
                let remedy = app.and(remedy);
                warn!(app, program, call, about, arguments, remedy, "refused a system call");
                if let Some(app) = app.filter(|_| level.admits(LogLevel::Warn)) {
                    note_in_own_log(app, (call, about.as_deref()), remedy);
                }
            }
        }
    }
}

/// Adds a line about a refused call to the app's own log, where its author looks.
fn note_in_own_log(app: &str, (call, about): (&str, Option<&str>), remedy: Option<&str>) {
    let about = about.map(|about| format!(" of {about:?}")).unwrap_or_default();
    let remedy = remedy.map(|remedy| format!(": {remedy}")).unwrap_or_default();
    let text = format!("Rosemary refused the system call {call}{about}{remedy}");
    log_forwarder::add(&ProgramKind::Zone(app.to_owned()).author(), LogLevel::Warn, &text);
}

/// Whether a call opens, for reading, the file that the C library reads.
fn is_read_by_c(call: &str, path: &str, arguments: [u64; 6]) -> bool {
    path == READ_BY_C && is_to_read(call, arguments)
}

/// Whether a call opens a file for reading.
fn is_to_read(call: &str, [_, _, flags, ..]: [u64; 6]) -> bool {
    call == "openat" && flags & u64::from(OFlags::RWMODE.bits()) == 0
}

impl UnreadPaths {
    /// When the files that have not been logged are due, if there are any.
    fn next_due(&self) -> Option<Instant> {
        self.last_logged.filter(|_| self.count > 0).map(|logged| logged + QUIET)
    }

    /// The number of files to log now.
    fn take(&mut self, now: Instant) -> u64 {
        self.last_logged = Some(now);
        std::mem::take(&mut self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(call: &'static str, path: &str, flags: u64) -> WatchedCall {
        let target = Target::Text(path.into());
        WatchedCall { call, arguments: [0, 0, flags, 0, 0, 0], target, continued: false }
    }

    #[test]
    fn only_reads_of_the_c_library_are_not_logged() {
        let now = Instant::now();
        let mut kernel = RefusedCalls::of(&ProgramKind::Kernel, now);
        kernel.log(refused("openat", READ_BY_C, 0o2_000_000), LogLevel::Debug, now);
        assert_eq!(kernel.lines, 0);
        let unread =
            |flags| WatchedCall { target: Target::Unreadable, ..refused("openat", "", flags) };
        kernel.log(unread(0), LogLevel::Debug, now);
        assert_eq!(kernel.lines, 0, "it has just ended");
        kernel.log(refused("execve", READ_BY_C, 0), LogLevel::Debug, now);
        kernel.log(refused("openat", READ_BY_C, 2), LogLevel::Debug, now);
        kernel.log(unread(1), LogLevel::Debug, now);
        assert_eq!(kernel.lines, 3);
        let mut zone = RefusedCalls::of(&ProgramKind::Zone("app".into()), now);
        zone.log(refused("openat", READ_BY_C, 0), LogLevel::Debug, now);
        assert_eq!(zone.lines, 1);
    }

    #[test]
    fn files_with_unread_paths_are_logged_once_and_counted() {
        let begin = Instant::now();
        let mut zone = RefusedCalls::of(&ProgramKind::Zone("app".into()), begin);
        let unread = || WatchedCall {
            target: Target::Unreadable,
            continued: true,
            ..refused("openat", "", 1)
        };
        zone.log(unread(), LogLevel::Debug, begin);
        assert_eq!((zone.unread.count, zone.next_due()), (0, None), "logged");
        (0..3).for_each(|_| zone.log(unread(), LogLevel::Debug, begin + PERIOD));
        assert_eq!((zone.unread.count, zone.next_due()), (3, Some(begin + QUIET)));
        zone.catch_up(begin + QUIET);
        assert_eq!(zone.next_due(), None);
        zone.log(
            WatchedCall { continued: true, ..refused("openat", "/tmp/x", 1) },
            LogLevel::Debug,
            begin + QUIET,
        );
        assert_eq!((zone.unread.count, zone.lines), (0, 0), "in its own /tmp");
        zone.log(
            WatchedCall { target: Target::Unreadable, ..refused("execve", "", 0) },
            LogLevel::Debug,
            begin + QUIET,
        );
        assert_eq!(zone.lines, 1);
    }
}
