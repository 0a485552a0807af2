//! Passes what a program writes to its standard output and error into the log.
//!
//! Each program has a pipe of its own and holds only its writing end. So it can neither read the operator's input nor
//! stop the terminal, and it loses what the pipe does not take. Lines of the kernel and of services are passed on as they
//! are. A zone's lines may come from the app and contain anything, so they are cut, their control characters are escaped,
//! and they stand under the app's name. A token bucket limits the bytes per second: for an app by its limits, for other
//! programs far above what they need. Dropped lines are counted, and the count is logged. Each line also goes to the
//! [`log_forwarder`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use control::log::LogLevel;
use sys::log::APP;
use tracing::{debug, error, info, warn};

use crate::log_forwarder;
use crate::program::ProgramKind;

/// The most bytes of one read.
const CHUNK: usize = 16 * 1024;

/// The most chunks that are read after the program has ended: more than a pipe holds.
const CHUNKS_AT_END: usize = 8;

/// The most bytes of one program that are read in a [`PERIOD`], which bounds the monitor's own time for it. Further bytes
/// stay in the pipe until it is full.
const MOST_PER_PERIOD: usize = 4 << 20;

/// The bytes that each read counts in addition to its own, for the time of the turn.
const COST_OF_READ: usize = 4 << 10;

const PERIOD: Duration = Duration::from_secs(1);

/// The seconds whose bytes an app may write at once.
const BURST_SECONDS: u64 = 10;

/// The bytes that each line counts in addition to its own, for the time and name that the log adds.
const LINE_HEAD: u64 = 100;

/// The bytes per second of a program other than a zone.
const TRUSTED_RATE: u64 = 1024 * 1024;

/// Reads one program's pipe.
#[derive(Debug)]
pub(crate) struct Output {
    /// `None` after the program has closed its end.
    pipe: Option<OwnedFd>,
    kind: ProgramKind,
    /// The name of the lines' author in the log.
    name: String,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// Whether the line is too long, so that its rest is skipped.
    is_cut: bool,
    bucket: TokenBucket,
    bytes_written: u64,
    lines_dropped: u64,
    /// The beginning of the current [`PERIOD`], and the bytes that were read in it.
    read: (Instant, usize),
}

impl Output {
    /// Reads a non-blocking pipe. An app may write `per_second` bytes per second; other programs have a fixed rate.
    pub(crate) fn new(pipe: OwnedFd, kind: ProgramKind, per_second: u64, now: Instant) -> Self {
        let per_second = if let ProgramKind::Zone(_) = &kind { per_second } else { TRUSTED_RATE };
        let bucket = TokenBucket::new(per_second, now);
        Self {
            pipe: Some(pipe),
            name: kind.author(),
            kind,
            line: Vec::new(),
            is_cut: false,
            bucket,
            bytes_written: 0,
            lines_dropped: 0,
            read: (now, 0),
        }
    }

    /// The bytes that the program has written.
    pub(crate) fn written(&self) -> u64 {
        self.bytes_written
    }

    /// The lines that were dropped because there were too many.
    pub(crate) fn lines_dropped(&self) -> u64 {
        self.lines_dropped
    }

    /// Readable when the program has written something; `None` while it has written too much.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| self.read.1 < MOST_PER_PERIOD).map(AsFd::as_fd)
    }

    /// Reads one chunk.
    pub(crate) fn read_some(&mut self, now: Instant) {
        self.begin_period(now);
        let before = self.bytes_written;
        self.read(now);
        self.read.1 += COST_OF_READ + usize::try_from(self.bytes_written - before).unwrap_or(CHUNK);
    }

    fn begin_period(&mut self, now: Instant) {
        if now >= self.read.0 + PERIOD {
            self.read = (now, 0);
        }
    }

    /// Reads the rest after the program has ended.
    pub(crate) fn read_rest(&mut self, now: Instant) {
        // No more than the pipe can hold of the program itself: a process that it forked may go on writing.
        for _ in 0..CHUNKS_AT_END {
            if !self.read(now) {
                break;
            }
        }
        if !self.line.is_empty() {
            self.end_line(now);
        }
        self.log_dropped();
    }

    /// When [`catch_up`](Self::catch_up) is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let waits = self.pipe.is_some() && self.read.1 >= MOST_PER_PERIOD;
        let period = waits.then(|| self.read.0 + PERIOD);
        self.bucket.next_due().into_iter().chain(period).min()
    }

    /// Begins a new period and logs the count of dropped lines, if that is due.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        self.begin_period(now);
        if self.bucket.next_due().is_some_and(|at| at <= now) {
            self.log_dropped();
        }
    }

    /// Reads one chunk. Returns whether there may be more.
    fn read(&mut self, now: Instant) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(pipe, &mut chunk) {
            Ok(size @ 1..) => {
                chunk.truncate(size);
                self.bytes_written += size as u64;
                self.append(&chunk, now);
                true
            }
            Err(rustix::io::Errno::INTR) => true,
            Err(rustix::io::Errno::AGAIN) => false,
            Ok(0) | Err(_) => {
                // A closed pipe stays readable: polled further, it would keep the loop awake.
                self.pipe = None;
                false
            }
        }
    }

    fn append(&mut self, chunk: &[u8], now: Instant) {
        for part in chunk.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = longest_line(&self.kind) - self.line.len();
            self.line.extend(text.iter().take(room));
            self.is_cut |= text.len() > room;
            if ends {
                self.end_line(now);
            }
        }
    }

    fn end_line(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_cut) {
            self.line.extend(b"...");
        }
        let line = std::mem::take(&mut self.line);
        match self.bucket.admit(line.len() as u64, now) {
            Some(dropped) => {
                self.log_count(dropped);
                self.log_line(line);
            }
            None => self.lines_dropped += 1,
        }
    }

    fn log_line(&self, mut line: Vec<u8>) {
        let text = String::from_utf8_lossy(&line);
        match &self.kind {
            ProgramKind::Kernel | ProgramKind::Service(_) => {
                let (level, text) = log_forwarder::parse(log_forwarder::without_time(&text));
                log_forwarder::add_trusted(&self.name, level, text);
                line = sys::text::shown(&String::from_utf8_lossy(&line)).into_owned().into_bytes();
                line.push(b'\n');
                sys::log::pass_on(&line);
            }
            ProgramKind::Zone(app) => {
                let (level, text) = log_forwarder::parse(&text);
                log_forwarder::add(&self.name, level, text);
                let text = shown(text);
                match level {
                    LogLevel::Error => error!(target: APP, "{app}: {text}"),
                    LogLevel::Warn => warn!(target: APP, "{app}: {text}"),
                    LogLevel::Info => info!(target: APP, "{app}: {text}"),
                    LogLevel::Debug => debug!(target: APP, "{app}: {text}"),
                }
            }
        }
    }

    fn log_dropped(&mut self) {
        let dropped = self.bucket.take_dropped();
        self.log_count(dropped);
    }

    /// Logs that `lines` lines were dropped, in their place.
    fn log_count(&self, lines: u64) {
        if lines > 0 {
            let text = format!("dropped {lines} lines that exceeded its log limit");
            log_forwarder::add(&self.name, LogLevel::Warn, &text);
            let name = if let ProgramKind::Zone(app) = &self.kind { app } else { &self.name };
            warn!(target: APP, "{name}: {text}");
        }
    }
}

/// Returns `text` with control characters and invisible characters escaped, so that a terminal only shows them.
pub fn shown(text: &str) -> String {
    sys::text::shown(text).into_owned()
}

/// The most bytes of a line.
fn longest_line(kind: &ProgramKind) -> usize {
    match kind {
        ProgramKind::Kernel | ProgramKind::Service(_) => 64 * 1024,
        ProgramKind::Zone(_) => 2 * 1024,
    }
}

/// Limits the bytes of lines per second.
#[derive(Debug)]
struct TokenBucket {
    per_second: u64,
    /// The bytes that may still be written.
    bytes: u64,
    refilled_at: Instant,
    /// The lines dropped since the last one that was admitted.
    dropped: u64,
    dropped_at: Instant,
}

impl TokenBucket {
    fn new(per_second: u64, now: Instant) -> Self {
        let bytes = per_second.saturating_mul(BURST_SECONDS);
        Self { per_second, bytes, refilled_at: now, dropped: 0, dropped_at: now }
    }

    /// Admits a line of `size` bytes. Returns the number of lines that were dropped before it, or `None` if it is dropped.
    ///
    /// The line that reports the number costs tokens, too.
    fn admit(&mut self, size: u64, now: Instant) -> Option<u64> {
        let ms = now.saturating_duration_since(self.refilled_at).as_millis();
        let grown = u128::from(self.per_second) * ms / 1_000;
        if grown > 0 {
            let most = self.per_second.saturating_mul(BURST_SECONDS);
            let grown = u64::try_from(grown).unwrap_or(u64::MAX);
            (self.bytes, self.refilled_at) = (self.bytes.saturating_add(grown).min(most), now);
        }
        let lines = 1 + u64::from(self.dropped > 0);
        let Some(left) = self.bytes.checked_sub(size + lines * LINE_HEAD) else {
            self.dropped += 1;
            self.dropped_at = now;
            return None;
        };
        self.bytes = left;
        Some(self.take_dropped())
    }

    /// When to log the number of dropped lines, if no line is admitted before.
    fn next_due(&self) -> Option<Instant> {
        (self.dropped > 0).then(|| self.dropped_at + Duration::from_secs(1))
    }

    fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_limited_and_dropped_lines_are_counted() {
        let begin = Instant::now();
        let mut bucket = TokenBucket::new(1_000, begin);
        let (mut said, mut counted) = (0, 0);
        for ms in 0..10_000 {
            let now = begin + Duration::from_millis(ms);
            for _ in 0..10 {
                if let Some(dropped) = bucket.admit(100, now) {
                    said += 200 + u64::from(dropped > 0) * LINE_HEAD;
                    counted += dropped + 1;
                }
            }
        }
        assert!(
            (19_000..=20_000).contains(&said),
            "ten seconds' worth at once, and ten seconds': {said}"
        );
        assert_eq!(counted + bucket.dropped, 100_000);
        let last = begin + Duration::from_millis(9_999);
        assert_eq!(bucket.next_due(), Some(last + Duration::from_secs(1)));
        let later = last + Duration::from_secs(60);
        assert!(bucket.admit(100, later).is_some_and(|dropped| dropped > 0));
        assert_eq!(bucket.bytes, 10_000 - 100 - 2 * LINE_HEAD);
        assert_eq!(bucket.next_due(), None);
    }

    #[test]
    fn limits_of_zero_and_none_hold() {
        let now = Instant::now();
        assert_eq!(TokenBucket::new(0, now).admit(0, now + Duration::from_secs(99)), None);
        let mut bucket = TokenBucket::new(u64::MAX, now);
        assert!((0..1_000).all(|_| bucket.admit(1 << 20, now).is_some()));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown("\x1b[31mred\r \u{202e}x\0"), "\\u{1b}[31mred\\r \\u{202e}x\\0");
        let text = "a \"quoted\" \\ back\tslash, Zürich, 東京";
        assert_eq!(shown(text), text);
    }

    #[test]
    fn endless_output_is_polled_for_part_of_a_second() {
        let begin = Instant::now();
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let mut output = Output::new(reader, ProgramKind::Zone("test".into()), 1_000, begin);
        let flood = |output: &mut Output, size: usize, now| {
            for turns in 0..10_000 {
                if output.pipe().is_none() {
                    return turns;
                }
                while size > 1 && rustix::io::write(&writer, &vec![b'x'; size]).is_ok() {}
                if size == 1 {
                    rustix::io::write(&writer, b"x").unwrap();
                }
                output.read_some(now);
            }
            10_000
        };
        assert_eq!(
            flood(&mut output, CHUNK, begin),
            MOST_PER_PERIOD.div_ceil(CHUNK + COST_OF_READ)
        );
        let second = begin + PERIOD;
        assert_eq!(output.next_due(), Some(second));
        output.catch_up(begin + PERIOD * 999 / 1_000);
        assert!(output.pipe().is_none());
        output.catch_up(second);
        while output.read(second) {} // empties the pipe
        assert_eq!(
            flood(&mut output, 1, second),
            MOST_PER_PERIOD.div_ceil(1 + COST_OF_READ),
            "each read costs, too"
        );
    }

    #[test]
    fn endless_line_is_cut_once() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let now = Instant::now();
        let mut output = Output::new(reader, ProgramKind::Zone("test".into()), 1 << 20, now);
        for _ in 0..1_000 {
            output.append(&[b'x'; 1_000], now);
        }
        assert_eq!(output.line.len(), longest_line(&output.kind));
        output.append(b"tail\nnext", now);
        assert_eq!(output.line, b"next");
        let longest = longest_line(&output.kind) as u64;
        assert_eq!(output.bucket.bytes, (10 << 20) - longest - "...".len() as u64 - LINE_HEAD);
    }
}
