//! Buffers log lines until the log service has stored them.
//!
//! ```text
//! output.rs, the monitor's log --> pending lines, bounded per program --> one batch at a time --> log service
//! ```
//!
//! A line stays pending until the log service is ready and has taken it. The pending lines of each program are bounded;
//! further lines are counted, and the count stands where the lines would have stood. A trusted program's lines about an
//! app count separately ([`program_on`]), here and in the log service. So an app that causes such lines again and again
//! displaces only earlier lines about itself.
//!
//! A batch is sent again, also to a restarted log service, until the service confirms that it is on disk. The service
//! detects repeated lines by their numbers. So a pending line is lost only with the monitor itself. A log service that does
//! not reply within [`REPLY_TIMEOUT`] is killed.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use control::log::{
    LogLevel, LogLine, LogReply, LogRequest, MAX_BATCH_BYTES, MAX_TEXT, program_on,
};
use sdk::services::{ANSWER_HEAD, MAX_MESSAGE};
use sys::packets::{PacketError, Packets};
use tracing::warn;

use config::is_name;
use supervisor::text::shown;

/// The most bytes of pending lines of one program.
const MOST_PENDING: usize = 64 * 1024;

/// The time between two batches. One write to disk then covers all lines of that time.
const BATCH_PERIOD: Duration = Duration::from_millis(200);

/// The time from a failed batch to the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// The time within which the log service must reply. A slow disk takes seconds.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The time between two log lines about lost lines.
const QUIET: Duration = Duration::from_secs(60);

/// The highest valid number of a line, far above any real one.
const HIGHEST_NUMBER: u64 = u64::MAX / 2;

/// The pending lines. They are global, like the log: any thread may add one.
static PENDING: Mutex<PendingLines> = Mutex::new(PendingLines::new());

/// Lines that are in no batch yet.
#[derive(Debug)]
struct PendingLines {
    lines: VecDeque<LogLine>,
    programs: BTreeMap<String, ProgramShare>,
    /// The number of lost lines that the log on standard error does not report yet.
    unreported_on_stderr: u64,
}

/// The pending lines of one program.
#[derive(Debug, Default)]
struct ProgramShare {
    bytes: usize,
    /// The number of lines lost since the last one that found room.
    lost: u64,
}

impl PendingLines {
    const fn new() -> Self {
        Self { lines: VecDeque::new(), programs: BTreeMap::new(), unreported_on_stderr: 0 }
    }

    fn add(&mut self, line: LogLine) {
        let size = line.size();
        let share = self.programs.entry(line.program.clone()).or_default();
        if share.bytes + size > MOST_PENDING {
            share.lost += 1;
            self.unreported_on_stderr += 1;
            return;
        }
        let lost = std::mem::take(&mut share.lost);
        share.bytes += size;
        if lost > 0 {
            let missing = missing(&line.program, lost, line.time);
            share.bytes += missing.size();
            self.lines.push_back(missing);
        }
        self.lines.push_back(line);
    }

    /// Removes the oldest lines that fit into one message, and numbers them from `next` on.
    fn take(&mut self, next: u64, time: u64) -> Vec<LogLine> {
        if self.lines.is_empty() {
            self.add_counts(time);
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(mut line) = self.lines.pop_front() {
            let size = line.size();
            line.number = next + batch.len() as u64;
            bytes += line.size();
            if bytes > MAX_BATCH_BYTES {
                line.number = 0;
                self.lines.push_front(line);
                break;
            }
            if let Some(share) = self.programs.get_mut(&line.program) {
                share.bytes -= size;
            }
            batch.push(line);
        }
        self.programs.retain(|_, share| share.bytes > 0 || share.lost > 0);
        batch
    }

    /// Adds the counts of lost lines for programs that have written nothing since.
    fn add_counts(&mut self, time: u64) {
        for (program, share) in self.programs.iter_mut().filter(|(_, share)| share.lost > 0) {
            let line = missing(program, std::mem::take(&mut share.lost), time);
            share.bytes += line.size();
            self.lines.push_back(line);
        }
    }

    fn bytes(&self) -> usize {
        self.programs.values().map(|share| share.bytes).sum()
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.programs.values().all(|share| share.lost == 0)
    }
}

/// The line that stands in the place of `lost` lines.
fn missing(program: &str, lost: u64, time: u64) -> LogLine {
    let text =
        format!("({lost} lines are missing here: the log service did not take them in time)");
    LogLine { number: 0, time, level: LogLevel::Warn, program: program.to_owned(), text }
}

fn pending() -> MutexGuard<'static, PendingLines> {
    // A panic elsewhere leaves the lines usable.
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a line of the monitor's own log.
pub(crate) fn add_own(line: &[u8]) {
    let line = String::from_utf8_lossy(line);
    let (level, text) = parse(line.trim_end());
    add_trusted("monitor", level, text);
}

/// Adds a line of a trusted program: the monitor, the kernel or a service.
pub(crate) fn add_trusted(program: &str, level: LogLevel, text: &str) {
    match app_in(text) {
        Some(app) => add(&program_on(program, app), level, text),
        None => add(program, level, text),
    }
}

/// Adds an audit record: a user has changed something, or was refused.
pub(crate) fn audit(text: &str) {
    add("audit", LogLevel::Info, text);
}

/// Adds an audit record that `app` has written: it has changed something that a user requested. Such records count separately,
/// so that no app displaces those of the monitor.
pub(crate) fn audit_on(app: &str, text: &str) {
    add(&program_on("audit", app), LogLevel::Info, text);
}

/// The app that a trusted program's line is about, by its fields.
///
/// Text from an app stands in quotes, in which further quotes are escaped. So an app cannot write such a field.
fn app_in(text: &str) -> Option<&str> {
    const FIELDS: [&str; 2] = [" app=\"", " program=\"zone "];
    let begin = FIELDS.iter().filter_map(|field| Some(text.find(field)? + field.len())).min()?;
    let (app, _) = text.get(begin..)?.split_once('"')?;
    is_name(app).then_some(app)
}

/// Adds a line of any program, cut and with control characters escaped.
pub(crate) fn add(program: &str, level: LogLevel, text: &str) {
    let mut text = shown(text);
    if text.len() > MAX_TEXT {
        let most = MAX_TEXT - "...".len();
        let cut = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        text.push_str("...");
    }
    let program = program.to_owned();
    pending().add(LogLine { number: 0, time: nanoseconds(), level, program, text });
}

/// Splits a line of the form of `sys::log::to_monitor` into its level and the rest. Any other line bypassed the log, for
/// example a panic message, and counts as a warning.
pub(crate) fn parse(line: &str) -> (LogLevel, &str) {
    let (level, text) = line.trim_start().split_once(' ').unwrap_or((line, ""));
    match level {
        "ERROR" => (LogLevel::Error, text),
        "WARN" => (LogLevel::Warn, text),
        "INFO" => (LogLevel::Info, text),
        "DEBUG" | "TRACE" => (LogLevel::Debug, text),
        _ => (LogLevel::Warn, line),
    }
}

/// Removes the time at the beginning of a line of the form of `sys::log::to_stderr`.
pub(crate) fn without_time(line: &str) -> &str {
    match line.split_once(' ') {
        Some((time, rest)) if time.starts_with("20") && time.ends_with('Z') => rest,
        _ => line,
    }
}

/// Nanoseconds since 1970.
fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The connection to the log service, and the batch that it must store.
#[derive(Debug)]
pub(crate) struct LogForwarder {
    /// `None` while the log service is not connected.
    socket: Option<Packets>,
    /// The lines that the service has not confirmed.
    batch: Vec<LogLine>,
    /// The number of the next line; `None` until the service has reported it.
    next: Option<u64>,
    /// When the unanswered request was sent.
    sent_at: Option<Instant>,
    /// The id of the last request.
    request_id: u64,
    /// No request is sent before.
    send_at: Instant,
    /// Whether lines are sent at once, without waiting for a full batch.
    is_flushing: bool,
    /// When the log last reported lost lines.
    reported: Option<Instant>,
}

/// The log service sent a reply that breaks the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidReply;

impl LogForwarder {
    /// Starts without a connection.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            socket: None,
            batch: Vec::new(),
            next: None,
            sent_at: None,
            request_id: 0,
            send_at: now,
            is_flushing: false,
            reported: None,
        }
    }

    /// The log service is ready.
    pub(crate) fn connect(&mut self, socket: Packets, now: Instant) {
        (self.socket, self.next, self.sent_at, self.send_at) = (Some(socket), None, None, now);
    }

    /// The log service has ended.
    pub(crate) fn disconnect(&mut self) {
        self.socket = None;
    }

    /// Readable when the log service has replied.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Sends lines at once from now on, because no more follow.
    pub(crate) fn flush(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.is_flushing, true) {
            self.send_at = self.send_at.min(now);
        }
    }

    /// Returns whether all lines are stored, or cannot be.
    pub(crate) fn is_done(&self) -> bool {
        self.socket.is_none() || (self.batch.is_empty() && pending().is_empty())
    }

    /// When [`forward`](Self::forward) is due, or the log service becomes [overdue](Self::is_overdue).
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.socket.as_ref()?;
        if let Some(sent) = self.sent_at {
            return Some(sent + REPLY_TIMEOUT);
        }
        let has = self.next.is_none() || !self.batch.is_empty() || !pending().is_empty();
        has.then_some(self.send_at)
    }

    /// Gives the log service as much time again.
    pub(crate) fn extend_timeout(&mut self, now: Instant) {
        self.sent_at = self.sent_at.map(|_| now);
    }

    /// Returns whether the log service has not replied in time.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.socket.is_some() && self.sent_at.is_some_and(|sent| now >= sent + REPLY_TIMEOUT)
    }

    /// Logs on standard error that lines are lost: when that begins, and once a minute while it lasts.
    pub(crate) fn warn_of_lost_lines(&mut self, now: Instant) {
        if self.reported.is_some_and(|at| now < at + QUIET) {
            return;
        }
        // The lock is released before the warning, which adds a line itself.
        let lines = std::mem::take(&mut pending().unreported_on_stderr);
        if lines > 0 {
            self.reported = Some(now);
            let hint = "they stand only here; rosemary logs shows where lines are missing";
            warn!(lines, hint, "dropped lines that wait for the log service");
        }
    }

    /// Sends the next request, if that is due.
    pub(crate) fn forward(&mut self, now: Instant) {
        if self.sent_at.is_some() || self.next_due().is_none_or(|at| now < at) {
            return;
        }
        let request = match self.next {
            None => LogRequest::Next,
            Some(next) => {
                if self.batch.is_empty() {
                    self.batch = pending().take(next, nanoseconds());
                }
                LogRequest::Keep(self.batch.clone())
            }
        };
        let Some(socket) = &self.socket else { return };
        let body =
            serde_json::to_vec(&request).expect("our own requests are lists of text and numbers");
        self.request_id += 1;
        match socket.send(&[&self.request_id.to_le_bytes()[..], &body].concat()) {
            Ok(()) => self.sent_at = Some(now),
            Err(PacketError::WouldBlock) => self.send_at = now + RETRY,
            // The service ends; its pidfd reports that.
            Err(_) => self.socket = None,
        }
    }

    /// Receives the log service's reply.
    ///
    /// # Errors
    /// The reply breaks the protocol.
    pub(crate) fn receive(&mut self, now: Instant) -> Result<(), InvalidReply> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut buffer = vec![0; ANSWER_HEAD + MAX_MESSAGE];
        let reply = match socket.receive(&mut buffer) {
            Ok((size, _)) => buffer.get(..size).unwrap_or_default(),
            Err(PacketError::WouldBlock) => return Ok(()),
            Err(PacketError::TooLong) => return Err(InvalidReply),
            Err(_) => {
                self.socket = None;
                return Ok(());
            }
        };
        let (head, body) = reply.split_first_chunk::<ANSWER_HEAD>().ok_or(InvalidReply)?;
        let is_to_last = head.starts_with(&self.request_id.to_le_bytes());
        if !is_to_last || self.sent_at.take().is_none() {
            return Err(InvalidReply);
        }
        let has_time = !self.is_flushing && pending().bytes() < MAX_BATCH_BYTES;
        self.send_at = if has_time { now + BATCH_PERIOD } else { now };
        match serde_json::from_slice(body) {
            Ok(LogReply::Next(next)) if next <= HIGHEST_NUMBER => {
                // Lines with lower numbers are on disk, even if the service died before it could confirm them.
                self.batch.retain(|line| line.number >= next);
                for (line, number) in self.batch.iter_mut().zip(next..) {
                    line.number = number;
                }
                self.next = Some(next);
            }
            Ok(LogReply::NotKept) => self.send_at = now + RETRY,
            _ => return Err(InvalidReply),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
