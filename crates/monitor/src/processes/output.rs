//! Passes what a program writes to its standard output and error into the log.
//!
//! Each program has two pipes of its own and holds only their writing ends. So it can neither read the operator's input
//! nor stop the terminal.
//!
//! | program | standard error | standard output |
//! | --- | --- | --- |
//! | kernel, services | their log, passed on as it is | `info` lines of the program, such as those of apps in the kernel |
//! | zone | its log; any other line is a `warn` line of the app | `info` lines of the app |
//!
//! A zone's lines, and all printed lines, may come from an app and contain anything. So they are cut and their control
//! characters are escaped. A token bucket limits the bytes per second of both pipes together: for an app by its limits, for
//! other programs far above what they need. Dropped lines are counted, and the count is logged. Each line also goes to the
//! [`log_forwarder`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use control::log::LogLevel;
use sys::log::APP;
use sys::process::Outputs;
use tracing::{debug, error, info, warn};

use crate::log_forwarder;
use supervisor::program::ProgramKind;
use supervisor::text::shown;

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

/// The shortest time from one notice of dropped lines to the next.
const NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// The seconds whose bytes an app may write at once.
const BURST_SECONDS: u64 = 10;

/// The bytes that each line counts in addition to its own, for the time and name that the log adds.
const LINE_HEAD: u64 = 100;

/// The bytes per second of a program other than a zone.
const TRUSTED_RATE: u64 = 1024 * 1024;

/// One of the two pipes of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both, in the order in which they are read: a line about a failure follows what was printed before it.
    pub(crate) const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];
}

/// Reads one program's pipes.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: Pipe,
    stderr: Pipe,
    kind: ProgramKind,
    /// The name of the lines' author in the log.
    name: String,
    bucket: TokenBucket,
    /// The least severe level of a zone's lines that are logged.
    log_level: LogLevel,
    bytes_written: u64,
    lines_dropped: u64,
    /// The beginning of the current [`PERIOD`], and the bytes that were read in it.
    read: (Instant, usize),
}

/// A pipe, and the part of a line that has arrived.
#[derive(Debug)]
struct Pipe {
    /// `None` after the program has closed its end.
    fd: Option<OwnedFd>,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// Whether the line is too long, so that its rest is skipped.
    is_cut: bool,
}

impl Pipe {
    fn new(fd: OwnedFd) -> Self {
        Self { fd: Some(fd), line: Vec::new(), is_cut: false }
    }
}

impl Output {
    /// Reads non-blocking pipes. An app may write `per_second` bytes per second; other programs have a fixed rate.
    pub(crate) fn new(pipes: Outputs, kind: ProgramKind, per_second: u64, now: Instant) -> Self {
        let per_second = if let ProgramKind::Zone(_) = &kind { per_second } else { TRUSTED_RATE };
        let bucket = TokenBucket::new(per_second, now);
        Self {
            stdout: Pipe::new(pipes.stdout),
            stderr: Pipe::new(pipes.stderr),
            name: kind.author(),
            kind,
            bucket,
            log_level: LogLevel::Debug,
            bytes_written: 0,
            lines_dropped: 0,
            read: (now, 0),
        }
    }

    /// Changes the level of a zone's log: less severe lines are dropped, and not counted.
    pub(crate) fn set_log_level(&mut self, level: LogLevel) {
        self.log_level = level;
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
    pub(crate) fn pipe(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        let pipe = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        pipe.fd.as_ref().filter(|_| self.read.1 < MOST_PER_PERIOD).map(AsFd::as_fd)
    }

    fn pipe_mut(&mut self, stream: Stream) -> &mut Pipe {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Reads one chunk.
    pub(crate) fn read_some(&mut self, stream: Stream, now: Instant) {
        self.begin_period(now);
        let before = self.bytes_written;
        self.read(stream, now);
        self.read.1 += COST_OF_READ + usize::try_from(self.bytes_written - before).unwrap_or(CHUNK);
    }

    fn begin_period(&mut self, now: Instant) {
        if now >= self.read.0 + PERIOD {
            self.read = (now, 0);
        }
    }

    /// Reads the rest after the program has ended.
    pub(crate) fn read_rest(&mut self, now: Instant) {
        for stream in Stream::BOTH {
            // No more than the pipe can hold of the program itself: a process that it forked may go on writing.
            for _ in 0..CHUNKS_AT_END {
                if !self.read(stream, now) {
                    break;
                }
            }
            if !self.pipe_mut(stream).line.is_empty() {
                self.end_line(stream, now);
            }
        }
        self.log_dropped(now);
    }

    /// When [`catch_up`](Self::catch_up) is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let is_open = self.stdout.fd.is_some() || self.stderr.fd.is_some();
        let waits = is_open && self.read.1 >= MOST_PER_PERIOD;
        let period = waits.then(|| self.read.0 + PERIOD);
        self.bucket.next_due().into_iter().chain(period).min()
    }

    /// Begins a new period and logs the count of dropped lines, if that is due.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        self.begin_period(now);
        if self.bucket.next_due().is_some_and(|at| at <= now) {
            self.log_dropped(now);
        }
    }

    /// Reads one chunk. Returns whether there may be more.
    fn read(&mut self, stream: Stream, now: Instant) -> bool {
        let Some(fd) = &self.pipe_mut(stream).fd else { return false };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(fd, &mut chunk) {
            Ok(size @ 1..) => {
                chunk.truncate(size);
                self.bytes_written += size as u64;
                self.append(stream, &chunk, now);
                true
            }
            Err(rustix::io::Errno::INTR) => true,
            Err(rustix::io::Errno::AGAIN) => false,
            Ok(0) | Err(_) => {
                // A closed pipe stays readable: polled further, it would keep the loop awake.
                self.pipe_mut(stream).fd = None;
                false
            }
        }
    }

    fn append(&mut self, stream: Stream, chunk: &[u8], now: Instant) {
        let longest = longest_line(&self.kind, stream);
        for part in chunk.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let pipe = self.pipe_mut(stream);
            let room = longest - pipe.line.len();
            pipe.line.extend(text.iter().take(room));
            pipe.is_cut |= text.len() > room;
            if ends {
                self.end_line(stream, now);
            }
        }
    }

    fn end_line(&mut self, stream: Stream, now: Instant) {
        let pipe = self.pipe_mut(stream);
        let mut line = std::mem::take(&mut pipe.line);
        if std::mem::take(&mut pipe.is_cut) {
            line.extend(b"...");
        }
        if !self.is_wanted(stream, &line) {
            return;
        }
        match self.bucket.admit(line.len() as u64, now) {
            Some(dropped) => {
                self.log_count(dropped);
                match stream {
                    Stream::Stdout => self.log_printed(&line),
                    Stream::Stderr => self.log_line(line),
                }
            }
            None => self.lines_dropped += 1,
        }
    }

    /// Whether the level of the log admits a line.
    fn is_wanted(&self, stream: Stream, line: &[u8]) -> bool {
        if !matches!(self.kind, ProgramKind::Zone(_)) {
            return true;
        }
        self.log_level.admits(match stream {
            Stream::Stdout => LogLevel::Info,
            Stream::Stderr => log_forwarder::parse(&String::from_utf8_lossy(line)).0,
        })
    }

    /// Logs a line of standard output.
    fn log_printed(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        log_forwarder::add(&self.name, LogLevel::Info, &text);
        info!(target: APP, "{}: {}", self.shown_name(), shown(&text));
    }

    /// Logs a line of standard error.
    fn log_line(&self, mut line: Vec<u8>) {
        let text = String::from_utf8_lossy(&line);
        match &self.kind {
            ProgramKind::Kernel | ProgramKind::Service(_) | ProgramKind::Northbound => {
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

    fn log_dropped(&mut self, now: Instant) {
        let dropped = self.bucket.take_dropped(now);
        self.log_count(dropped);
    }

    /// Logs that `lines` lines were dropped since the last such notice.
    fn log_count(&self, lines: u64) {
        if lines > 0 {
            let text = dropped(&self.kind, lines);
            log_forwarder::add(&self.name, LogLevel::Warn, &text);
            warn!(target: APP, "{}: {text}", self.shown_name());
        }
    }

    /// The name before a line on standard error.
    fn shown_name(&self) -> &str {
        if let ProgramKind::Zone(app) = &self.kind { app } else { &self.name }
    }
}

/// The notice of dropped lines. Only apps have a key for their limit.
fn dropped(kind: &ProgramKind, lines: u64) -> String {
    let text = format!("dropped {lines} lines that exceeded its log limit");
    if let ProgramKind::Zone(_) = kind {
        format!("{text}; raise log-bytes-per-second in limits of its [[app]]")
    } else {
        text
    }
}

/// The most bytes of a line.
fn longest_line(kind: &ProgramKind, stream: Stream) -> usize {
    match (kind, stream) {
        (ProgramKind::Zone(_), _) | (_, Stream::Stdout) => 2 * 1024,
        (_, Stream::Stderr) => 64 * 1024,
    }
}

/// Limits the bytes of lines per second.
#[derive(Debug)]
struct TokenBucket {
    per_second: u64,
    /// The bytes that may still be written.
    bytes: u64,
    refilled_at: Instant,
    /// The lines dropped since the last notice.
    dropped: u64,
    dropped_at: Instant,
    noticed_at: Option<Instant>,
}

impl TokenBucket {
    fn new(per_second: u64, now: Instant) -> Self {
        let bytes = per_second.saturating_mul(BURST_SECONDS);
        Self { per_second, bytes, refilled_at: now, dropped: 0, dropped_at: now, noticed_at: None }
    }

    /// Admits a line of `size` bytes. Returns the number of dropped lines if a notice of them is due, otherwise 0, or `None` if the line
    /// is dropped.
    ///
    /// The notice costs tokens, too.
    fn admit(&mut self, size: u64, now: Instant) -> Option<u64> {
        let ms = now.saturating_duration_since(self.refilled_at).as_millis();
        let grown = u128::from(self.per_second) * ms / 1_000;
        if grown > 0 {
            let most = self.per_second.saturating_mul(BURST_SECONDS);
            let grown = u64::try_from(grown).unwrap_or(u64::MAX);
            (self.bytes, self.refilled_at) = (self.bytes.saturating_add(grown).min(most), now);
        }
        let is_noticed = self.dropped > 0
            && self
                .noticed_at
                .is_none_or(|at| now.saturating_duration_since(at) >= NOTICE_INTERVAL);
        let lines = 1 + u64::from(is_noticed);
        let Some(left) = self.bytes.checked_sub(size + lines * LINE_HEAD) else {
            self.dropped += 1;
            self.dropped_at = now;
            return None;
        };
        self.bytes = left;
        Some(if is_noticed { self.take_dropped(now) } else { 0 })
    }

    /// When to log the number of dropped lines, if no line is admitted before.
    fn next_due(&self) -> Option<Instant> {
        (self.dropped > 0).then(|| self.dropped_at + NOTICE_INTERVAL)
    }

    fn take_dropped(&mut self, now: Instant) -> u64 {
        if self.dropped > 0 {
            self.noticed_at = Some(now);
        }
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
        let (mut said, mut counted, mut notices) = (0, 0, 0);
        for ms in 0..10_000 {
            let now = begin + Duration::from_millis(ms);
            for _ in 0..10 {
                if let Some(dropped) = bucket.admit(100, now) {
                    said += 200 + u64::from(dropped > 0) * LINE_HEAD;
                    counted += dropped + 1;
                    notices += u32::from(dropped > 0);
                }
            }
        }
        assert!(
            (19_000..=20_000).contains(&said),
            "ten seconds' worth at once, and ten seconds': {said}"
        );
        assert_eq!(counted + bucket.dropped, 100_000);
        assert!((5..=10).contains(&notices), "at most one each second: {notices}");
        let last = begin + Duration::from_millis(9_999);
        assert_eq!(bucket.next_due(), Some(last + Duration::from_secs(1)));
        let later = last + Duration::from_secs(60);
        assert!(bucket.admit(100, later).is_some_and(|dropped| dropped > 0));
        assert_eq!(bucket.bytes, 10_000 - 100 - 2 * LINE_HEAD);
        assert_eq!(bucket.next_due(), None);
    }

    #[test]
    fn notice_of_dropped_lines_names_the_key() {
        let of_app = dropped(&ProgramKind::Zone("printer".into()), 6);
        assert!(of_app.starts_with("dropped 6 lines"), "{of_app}");
        assert!(of_app.contains("log-bytes-per-second"), "{of_app}");
        assert!(!dropped(&ProgramKind::Kernel, 6).contains("log-bytes-per-second"));
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

    /// The output of a zone, with the zone's ends of its standard output and error.
    fn zone(per_second: u64, now: Instant) -> (Output, OwnedFd, OwnedFd) {
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let ((stdout, to_stdout), (stderr, to_stderr)) = (pipe(), pipe());
        let kind = ProgramKind::Zone("printer".into());
        let output = Output::new(Outputs { stdout, stderr }, kind, per_second, now);
        (output, to_stdout, to_stderr)
    }

    #[test]
    fn lines_of_both_streams_share_one_budget_and_never_mix() {
        let now = Instant::now();
        let (mut output, stdout, stderr) = zone(1_000, now);
        for part in 0..2 {
            rustix::io::write(&stdout, b"printed ").unwrap();
            rustix::io::write(&stderr, b"panicked ").unwrap();
            for stream in Stream::BOTH {
                output.read_some(stream, now);
            }
            let lines = (&output.stdout.line, &output.stderr.line);
            let texts = (b"printed ".repeat(part + 1), b"panicked ".repeat(part + 1));
            assert_eq!(lines, (&texts.0, &texts.1));
        }
        rustix::io::write(&stdout, b"\n").unwrap();
        rustix::io::write(&stderr, b"\n").unwrap();
        for stream in Stream::BOTH {
            output.read_some(stream, now);
        }
        let used = b"printed printed panicked panicked ".len() as u64 + 2 * LINE_HEAD;
        assert_eq!(output.bucket.bytes, 10_000 - used);
        for _ in 0..100 {
            rustix::io::write(&stdout, &[b'\n'; 10]).unwrap();
        }
        output.read_rest(now);
        assert_eq!(output.lines_dropped(), 1_000 - (10_000 - used) / LINE_HEAD);
    }

    #[test]
    fn lines_below_the_level_cost_nothing() {
        let now = Instant::now();
        let (mut output, stdout, stderr) = zone(1_000, now);
        output.set_log_level(LogLevel::Warn);
        rustix::io::write(&stdout, b"printed\n").unwrap();
        rustix::io::write(&stderr, b" INFO news\nDEBUG detail\nERROR x\nprinted\n").unwrap();
        for stream in Stream::BOTH {
            output.read_some(stream, now);
        }
        let used = b"ERROR xprinted".len() as u64 + 2 * LINE_HEAD;
        assert_eq!((output.bucket.bytes, output.lines_dropped()), (10_000 - used, 0));
        output.set_log_level(LogLevel::Debug);
        rustix::io::write(&stderr, b"DEBUG detail\n").unwrap();
        output.read_some(Stream::Stderr, now);
        let more = b"DEBUG detail".len() as u64 + LINE_HEAD;
        assert_eq!(output.bucket.bytes, 10_000 - used - more);
    }

    #[test]
    fn endless_output_is_polled_for_part_of_a_second() {
        let begin = Instant::now();
        let (mut output, writer, _stderr) = zone(1_000, begin);
        let flood = |output: &mut Output, size: usize, now| {
            for turns in 0..10_000 {
                if output.pipe(Stream::Stdout).is_none() {
                    return turns;
                }
                while size > 1 && rustix::io::write(&writer, &vec![b'x'; size]).is_ok() {}
                if size == 1 {
                    rustix::io::write(&writer, b"x").unwrap();
                }
                output.read_some(Stream::Stdout, now);
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
        assert!(Stream::BOTH.iter().all(|stream| output.pipe(*stream).is_none()));
        output.catch_up(second);
        while output.read(Stream::Stdout, second) {} // empties the pipe
        assert_eq!(
            flood(&mut output, 1, second),
            MOST_PER_PERIOD.div_ceil(1 + COST_OF_READ),
            "each read costs, too"
        );
    }

    #[test]
    fn endless_line_is_cut_once() {
        let now = Instant::now();
        let (mut output, _stdout, _stderr) = zone(1 << 20, now);
        let longest = longest_line(&output.kind, Stream::Stderr);
        for _ in 0..1_000 {
            output.append(Stream::Stderr, &[b'x'; 1_000], now);
        }
        assert_eq!(output.stderr.line.len(), longest);
        output.append(Stream::Stderr, b"tail\nnext", now);
        assert_eq!(output.stderr.line, b"next");
        let longest = longest as u64;
        assert_eq!(output.bucket.bytes, (10 << 20) - longest - "...".len() as u64 - LINE_HEAD);
    }
}
