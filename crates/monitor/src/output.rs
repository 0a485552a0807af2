//! What a program writes to its standard output and error, on its way into our log.
//!
//! Each program has a pipe of its own for it, of which it has nothing but the writing end: it can
//! neither read what the operator types nor stop the terminal, and what the pipe does not take it
//! loses. Of the kernel and of services the lines are passed on as they are. A zone's may be an app's, and so
//! anything: they are cut, their control characters are shown, they stand under the app's name. Lines have so many
//! bytes in a second as the app's limits say (ours a number far above what they need), and ten times as many at
//! once; the others are counted, and the number is said. Each line also goes to the [`journal`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use services::log::messages::Level;
use sys::log::APP;
use tracing::{debug, error, info, warn};

use crate::journal;

/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

/// Chunks that are read when the program has ended: more than a pipe holds.
const CHUNKS_AT_END: usize = 8;

/// Bytes of one program that are read in a [`PERIOD`]. What it writes beyond that stays in the pipe, and
/// what the pipe does not take it loses: reading is the monitor's time.
const MOST: usize = 4 << 20;

/// Bytes that each turn counts more than it reads.
const TURN: usize = 4 << 10;

const PERIOD: Duration = Duration::from_secs(1);

/// Seconds whose bytes an app may write at once.
const BURST: u64 = 10;

/// Bytes that each line counts more than it has: the log puts time and name before it.
const HEAD: u64 = 100;

/// Bytes in a second of a program that is ours.
const OURS: u64 = 1024 * 1024;

/// Whose words they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Voice {
    /// The kernel's.
    Kernel,
    /// The service's of this name.
    Service(&'static str),
    /// A zone's, where the app of this name runs.
    Zone(String),
}

impl Voice {
    /// The program's name in the log.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Kernel => "kernel".into(),
            Self::Service(name) => format!("service {name}"),
            Self::Zone(app) => format!("app {app}"),
        }
    }

    /// Bytes of a line.
    fn longest(&self) -> usize {
        match self {
            Self::Kernel | Self::Service(_) => 64 * 1024,
            Self::Zone(_) => 2 * 1024,
        }
    }
}

/// The reading end of a program's pipe.
#[derive(Debug)]
pub(crate) struct Output {
    /// `None` when the program has closed its end.
    pipe: Option<OwnedFd>,
    voice: Voice,
    /// In the log.
    name: String,
    line: Vec<u8>,
    /// Whether the line was longer than may be, and its rest is skipped.
    cut: bool,
    allowance: Allowance,
    written: u64,
    left_out: u64,
    /// Since when it is counted how much was read, and how much that is.
    read: (Instant, usize),
}

impl Output {
    /// Of a pipe that does not block; an app's has so many bytes in a second.
    pub(crate) fn new(pipe: OwnedFd, voice: Voice, per_second: u64, now: Instant) -> Self {
        let per_second = if let Voice::Zone(_) = &voice { per_second } else { OURS };
        let allowance = Allowance::new(per_second, now);
        let (name, pipe) = (voice.name(), Some(pipe));
        let (line, cut) = (Vec::new(), false);
        Self { pipe, voice, name, line, cut, allowance, written: 0, left_out: 0, read: (now, 0) }
    }

    /// Bytes that it wrote.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Lines that were left out.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Readable when it has written something; none while it has written too much.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| self.read.1 < MOST).map(AsFd::as_fd)
    }

    /// Takes some of what it has written.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.begin_period(now);
        let before = self.written;
        self.read(now);
        self.read.1 += TURN + usize::try_from(self.written - before).unwrap_or(CHUNK);
    }

    fn begin_period(&mut self, now: Instant) {
        if now >= self.read.0 + PERIOD {
            self.read = (now, 0);
        }
    }

    /// Takes all that it has written, for it has ended.
    pub(crate) fn hear_last(&mut self, now: Instant) {
        // Not more than there can be of its own: what it forked may go on writing.
        for _ in 0..CHUNKS_AT_END {
            if !self.read(now) {
                break;
            }
        }
        if !self.line.is_empty() {
            self.end_line(now);
        }
        self.say_left_out();
    }

    /// When [`catch_up`](Self::catch_up) has something to do.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let waits = self.pipe.is_some() && self.read.1 >= MOST;
        let period = waits.then(|| self.read.0 + PERIOD);
        self.allowance.next_due().into_iter().chain(period).min()
    }

    /// Says how many lines were left out, if they are over, and reads on if it is time.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        self.begin_period(now);
        if self.allowance.next_due().is_some_and(|at| at <= now) {
            self.say_left_out();
        }
    }

    /// Takes a chunk. Says whether there may be more.
    fn read(&mut self, now: Instant) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(pipe, &mut chunk) {
            Ok(size @ 1..) => {
                chunk.truncate(size);
                self.written += size as u64;
                self.take(&chunk, now);
                true
            }
            Err(rustix::io::Errno::INTR) => true,
            Err(rustix::io::Errno::AGAIN) => false,
            Ok(0) | Err(_) => {
                self.pipe = None; // it would stay readable
                false
            }
        }
    }

    fn take(&mut self, chunk: &[u8], now: Instant) {
        for part in chunk.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = self.voice.longest() - self.line.len();
            self.line.extend(text.iter().take(room));
            self.cut |= text.len() > room;
            if ends {
                self.end_line(now);
            }
        }
    }

    fn end_line(&mut self, now: Instant) {
        if std::mem::take(&mut self.cut) {
            self.line.extend(b"...");
        }
        let line = std::mem::take(&mut self.line);
        match self.allowance.admit(line.len() as u64, now) {
            Some(left_out) => {
                self.tell_left_out(left_out);
                self.say(line);
            }
            None => self.left_out += 1,
        }
    }

    fn say(&self, mut line: Vec<u8>) {
        let text = String::from_utf8_lossy(&line);
        match &self.voice {
            Voice::Kernel | Voice::Service(_) => {
                let (level, text) = journal::parse(journal::without_time(&text));
                journal::add_ours(&self.name, level, text);
                line = sys::text::shown(&String::from_utf8_lossy(&line)).into_owned().into_bytes();
                line.push(b'\n');
                sys::log::pass_on(&line);
            }
            Voice::Zone(app) => {
                let (level, text) = journal::parse(&text);
                journal::add(&self.name, level, text);
                let text = shown(text);
                match level {
                    Level::Error => error!(target: APP, "{app}: {text}"),
                    Level::Warn => warn!(target: APP, "{app}: {text}"),
                    Level::Info => info!(target: APP, "{app}: {text}"),
                    Level::Debug => debug!(target: APP, "{app}: {text}"),
                }
            }
        }
    }

    fn say_left_out(&mut self) {
        let left_out = self.allowance.take_left_out();
        self.tell_left_out(left_out);
    }

    fn tell_left_out(&self, lines: u64) {
        if lines > 0 {
            let text = format!("{lines} lines were left out, it wrote too many");
            journal::add(&self.name, Level::Warn, &text);
            let name = if let Voice::Zone(app) = &self.voice { app } else { &self.name };
            warn!(target: APP, "{name}: {text}");
        }
    }
}

/// `text` with what would act on a terminal, or what nobody would see, escaped.
pub fn shown(text: &str) -> String {
    sys::text::shown(text).into_owned()
}

/// How much may still be said.
#[derive(Debug)]
struct Allowance {
    per_second: u64,
    bytes: u64,
    grown_at: Instant,
    left_out: u64,
    left_out_at: Instant,
}

impl Allowance {
    fn new(per_second: u64, now: Instant) -> Self {
        let bytes = per_second.saturating_mul(BURST);
        Self { per_second, bytes, grown_at: now, left_out: 0, left_out_at: now }
    }

    /// Whether a line of so many bytes may be said: how many were left out before it, which is a line
    /// too, or `None`, and then it is counted.
    fn admit(&mut self, size: u64, now: Instant) -> Option<u64> {
        let ms = now.saturating_duration_since(self.grown_at).as_millis();
        let grown = u128::from(self.per_second) * ms / 1_000;
        if grown > 0 {
            let most = self.per_second.saturating_mul(BURST);
            let grown = u64::try_from(grown).unwrap_or(u64::MAX);
            (self.bytes, self.grown_at) = (self.bytes.saturating_add(grown).min(most), now);
        }
        let lines = 1 + u64::from(self.left_out > 0);
        let Some(left) = self.bytes.checked_sub(size + lines * HEAD) else {
            self.left_out += 1;
            self.left_out_at = now;
            return None;
        };
        self.bytes = left;
        Some(self.take_left_out())
    }

    /// When to say how many were left out, if no line comes before.
    fn next_due(&self) -> Option<Instant> {
        (self.left_out > 0).then(|| self.left_out_at + Duration::from_secs(1))
    }

    fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_cut_to_a_burst_and_a_trickle_and_what_was_left_out_is_counted() {
        let begin = Instant::now();
        let mut allowance = Allowance::new(1_000, begin);
        let (mut said, mut counted) = (0, 0);
        for ms in 0..10_000 {
            let now = begin + Duration::from_millis(ms);
            for _ in 0..10 {
                if let Some(left_out) = allowance.admit(100, now) {
                    said += 200 + u64::from(left_out > 0) * HEAD;
                    counted += left_out + 1;
                }
            }
        }
        assert!(
            (19_000..=20_000).contains(&said),
            "ten seconds' at once, and ten seconds': {said}"
        );
        assert_eq!(counted + allowance.left_out, 100_000);
        let last = begin + Duration::from_millis(9_999);
        assert_eq!(allowance.next_due(), Some(last + Duration::from_secs(1)));
        let later = last + Duration::from_secs(60);
        assert!(allowance.admit(100, later).is_some_and(|left_out| left_out > 0));
        assert_eq!(allowance.bytes, 10_000 - 100 - 2 * HEAD);
        assert_eq!(allowance.next_due(), None);
    }

    #[test]
    fn app_that_may_write_nothing_is_cut_off_and_one_without_limit_is_not() {
        let now = Instant::now();
        assert_eq!(Allowance::new(0, now).admit(0, now + Duration::from_secs(99)), None);
        let mut allowance = Allowance::new(u64::MAX, now);
        assert!((0..1_000).all(|_| allowance.admit(1 << 20, now).is_some()));
    }

    #[test]
    fn control_characters_and_turns_of_direction_are_shown_and_other_text_is_left_alone() {
        assert_eq!(shown("\x1b[31mred\r \u{202e}x\0"), "\\u{1b}[31mred\\r \\u{202e}x\\0");
        let text = "a \"quoted\" \\ back\tslash, Zürich, 東京";
        assert_eq!(shown(text), text);
    }

    #[test]
    fn endless_output_is_read_for_a_part_of_each_second_and_then_not_polled() {
        let begin = Instant::now();
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let mut output = Output::new(reader, Voice::Zone("test".into()), 1_000, begin);
        let flood = |output: &mut Output, size: usize, now| {
            for turns in 0..10_000 {
                if output.pipe().is_none() {
                    return turns;
                }
                while size > 1 && rustix::io::write(&writer, &vec![b'x'; size]).is_ok() {}
                if size == 1 {
                    rustix::io::write(&writer, b"x").unwrap();
                }
                output.hear(now);
            }
            10_000
        };
        assert_eq!(flood(&mut output, CHUNK, begin), MOST.div_ceil(CHUNK + TURN));
        let second = begin + PERIOD;
        assert_eq!(output.next_due(), Some(second));
        output.catch_up(begin + PERIOD * 999 / 1_000);
        assert!(output.pipe().is_none());
        output.catch_up(second);
        while output.read(second) {} // what is left in the pipe
        assert_eq!(flood(&mut output, 1, second), MOST.div_ceil(1 + TURN), "turns cost, too");
    }

    #[test]
    fn line_without_an_end_is_cut_and_its_end_is_not_another_line() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let now = Instant::now();
        let mut output = Output::new(reader, Voice::Zone("test".into()), 1 << 20, now);
        for _ in 0..1_000 {
            output.take(&[b'x'; 1_000], now);
        }
        assert_eq!(output.line.len(), output.voice.longest());
        output.take(b"tail\nnext", now);
        assert_eq!(output.line, b"next");
        let longest = output.voice.longest() as u64;
        assert_eq!(output.allowance.bytes, (10 << 20) - longest - "...".len() as u64 - HEAD);
    }
}
