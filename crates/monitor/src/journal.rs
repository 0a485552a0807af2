//! All programs' lines on their way to the log, the service that keeps them.
//!
//! ```text
//! output.rs, our own log --> waiting, bounded for each program --> a batch, one at a time --> the log
//! ```
//!
//! A line waits until the log is there and has taken it. Of each program only so much can wait: of more the
//! number is kept, and stands where the lines would have stood. What one of our programs says of an app counts by
//! itself ([`program_on`]), here and in the log: an app that gives cause for a line again and again pushes out what
//! was said of it, and nothing else. A batch is handed in again until the log says
//! that it is on the disk, to a log that was started anew, too; as each line has a number, which it then knows
//! or not, none is kept twice. So no line that waits is lost with the log, and all of them with us. A log that does
//! not answer in [`PATIENCE`] is ended, as one that hangs.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sdk::services::{ANSWER_HEAD, MAX_MESSAGE};
use services::log::messages::{Answer, LONGEST_TEXT, Level, Line, MOST_LINES, Request, program_on};
use sys::packets::{PacketError, Packets};
use tracing::warn;

use crate::config::is_name;
use crate::output::shown;

/// Bytes of lines of one program that wait.
const MOST_WAITING: usize = 64 * 1024;

/// From a line to its batch: what comes meanwhile goes with it, and waits for the disk together.
const GATHER: Duration = Duration::from_millis(200);

/// From a batch that was not kept to the next try.
const RETRY: Duration = Duration::from_secs(1);

/// What the log has for an answer; a slow disk takes seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Between two words about lines that were lost.
const QUIET: Duration = Duration::from_secs(60);

/// The highest number that a line can have, far above what there will ever be.
const MOST: u64 = u64::MAX / 2;

/// What waits: of the whole process, as what is logged is.
static WAITING: Mutex<Waiting> = Mutex::new(Waiting::new());

/// Lines that no batch has taken yet.
#[derive(Debug)]
struct Waiting {
    lines: VecDeque<Line>,
    of: BTreeMap<String, Share>,
    /// Lines that were lost, and are not told of on standard error.
    untold: u64,
}

/// What waits of one program.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    /// Lines that found no room since the last one that did.
    lost: u64,
}

impl Waiting {
    const fn new() -> Self {
        Self { lines: VecDeque::new(), of: BTreeMap::new(), untold: 0 }
    }

    fn add(&mut self, line: Line) {
        let size = line.size();
        let share = self.of.entry(line.program.clone()).or_default();
        if share.bytes + size > MOST_WAITING {
            share.lost += 1;
            self.untold += 1;
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

    /// The oldest, as many as have room in a message, with numbers from `next` on.
    fn take(&mut self, next: u64, time: u64) -> Vec<Line> {
        if self.lines.is_empty() {
            self.say_lost(time);
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(mut line) = self.lines.pop_front() {
            let size = line.size();
            line.number = next + batch.len() as u64;
            bytes += line.size();
            if bytes > MOST_LINES {
                line.number = 0;
                self.lines.push_front(line);
                break;
            }
            if let Some(share) = self.of.get_mut(&line.program) {
                share.bytes -= size;
            }
            batch.push(line);
        }
        self.of.retain(|_, share| share.bytes > 0 || share.lost > 0);
        batch
    }

    /// Says how many were lost, of those who have said nothing since.
    fn say_lost(&mut self, time: u64) {
        for (program, share) in self.of.iter_mut().filter(|(_, share)| share.lost > 0) {
            let line = missing(program, std::mem::take(&mut share.lost), time);
            share.bytes += line.size();
            self.lines.push_back(line);
        }
    }

    fn bytes(&self) -> usize {
        self.of.values().map(|share| share.bytes).sum()
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.of.values().all(|share| share.lost == 0)
    }
}

/// What stands where lines are missing.
fn missing(program: &str, lost: u64, time: u64) -> Line {
    let text = format!("({lost} lines are missing here: the log did not take them in time)");
    Line { number: 0, time, level: Level::Warn, program: program.to_owned(), text }
}

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a line of ours.
pub(crate) fn add_own(line: &[u8]) {
    let line = String::from_utf8_lossy(line);
    let (level, text) = parse(line.trim_end());
    add_ours("monitor", level, text);
}

/// Adds a line of one of our programs.
pub(crate) fn add_ours(program: &str, level: Level, text: &str) {
    match app_in(text) {
        Some(app) => add(&program_on(program, app), level, text),
        None => add(program, level, text),
    }
}

/// The app that a line of ours is about, as its fields say. What others chose stands in quotes, where theirs are
/// escaped: they cannot write such a field.
fn app_in(text: &str) -> Option<&str> {
    const FIELDS: [&str; 2] = [" app=\"", " program=\"zone "];
    let begin = FIELDS.iter().filter_map(|field| Some(text.find(field)? + field.len())).min()?;
    let (app, _) = text.get(begin..)?.split_once('"')?;
    is_name(app).then_some(app)
}

/// Adds a line, whoever's it is.
pub(crate) fn add(program: &str, level: Level, text: &str) {
    let mut text = shown(text);
    if text.len() > LONGEST_TEXT {
        let most = LONGEST_TEXT - "...".len();
        let cut = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        text.push_str("...");
    }
    let program = program.to_owned();
    waiting().add(Line { number: 0, time: nanoseconds(), level, program, text });
}

/// The level of a line as `sys::log::to_monitor` begins it, and what follows. What begins otherwise was
/// written past the log.
pub(crate) fn parse(line: &str) -> (Level, &str) {
    let (level, text) = line.trim_start().split_once(' ').unwrap_or((line, ""));
    match level {
        "ERROR" => (Level::Error, text),
        "WARN" => (Level::Warn, text),
        "INFO" => (Level::Info, text),
        "DEBUG" | "TRACE" => (Level::Debug, text),
        _ => (Level::Warn, line),
    }
}

/// A line as `sys::log::to_stderr` writes it, without the time that it begins with.
pub(crate) fn without_time(line: &str) -> &str {
    match line.split_once(' ') {
        Some((time, rest)) if time.starts_with("20") && time.ends_with('Z') => rest,
        _ => line,
    }
}

/// Since 1970 began.
fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The way to the log.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` while it is not there.
    socket: Option<Packets>,
    /// What it is to keep now.
    batch: Vec<Line>,
    /// The number of the next line; `None` while the log has not said it.
    next: Option<u64>,
    /// Since when it has been asked and has not answered.
    asked: Option<Instant>,
    /// Of the last question.
    id: u64,
    /// Nothing is asked before.
    ask_at: Instant,
    /// Whether lines no longer wait for others.
    hurries: bool,
    /// When it was last said that lines were lost.
    told: Option<Instant>,
}

/// The log said what no log says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

impl Journal {
    /// To a log that is not there yet.
    pub(crate) fn new(now: Instant) -> Self {
        let (batch, hurries) = (Vec::new(), false);
        Self {
            socket: None,
            batch,
            next: None,
            asked: None,
            id: 0,
            ask_at: now,
            hurries,
            told: None,
        }
    }

    /// The log is there.
    pub(crate) fn connect(&mut self, socket: Packets, now: Instant) {
        (self.socket, self.next, self.asked, self.ask_at) = (Some(socket), None, None, now);
    }

    /// The log is gone.
    pub(crate) fn disconnect(&mut self) {
        self.socket = None;
    }

    /// What becomes readable when the log has answered.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// From now on lines do not wait for others: there will be no others.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.hurries, true) {
            self.ask_at = self.ask_at.min(now);
        }
    }

    /// Whether all lines are kept, or cannot be.
    pub(crate) fn is_done(&self) -> bool {
        self.socket.is_none() || (self.batch.is_empty() && waiting().is_empty())
    }

    /// When [`attend`](Self::attend) has something to do, or the log [is late](Self::is_late).
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.socket.as_ref()?;
        if let Some(asked) = self.asked {
            return Some(asked + PATIENCE);
        }
        let has = self.next.is_none() || !self.batch.is_empty() || !waiting().is_empty();
        has.then_some(self.ask_at)
    }

    /// Whether the log has not answered in time.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.socket.is_some() && self.asked.is_some_and(|asked| now >= asked + PATIENCE)
    }

    /// Says on standard error that lines are lost, when it begins, and once a minute while it lasts.
    pub(crate) fn tell_lost(&mut self, now: Instant) {
        if self.told.is_some_and(|told| now < told + QUIET) {
            return;
        }
        let lines = std::mem::take(&mut waiting().untold); // which is free again when it is said
        if lines > 0 {
            self.told = Some(now);
            let hint = "they are here alone; rosemary logs says where it misses some";
            warn!(lines, hint, "lines found no room on their way to the log");
        }
    }

    /// Hands in what waits, if the log is there and the time has come.
    pub(crate) fn attend(&mut self, now: Instant) {
        if self.asked.is_some() || self.next_due().is_none_or(|at| now < at) {
            return;
        }
        let request = match self.next {
            None => Request::Next,
            Some(next) => {
                if self.batch.is_empty() {
                    self.batch = waiting().take(next, nanoseconds());
                }
                Request::Keep(self.batch.clone())
            }
        };
        let Some(socket) = &self.socket else { return };
        let body =
            serde_json::to_vec(&request).expect("our own requests are lists of text and numbers");
        self.id += 1;
        match socket.send(&[&self.id.to_le_bytes()[..], &body].concat()) {
            Ok(()) => self.asked = Some(now),
            Err(PacketError::WouldBlock) => self.ask_at = now + RETRY,
            Err(_) => self.socket = None, // its end is on the way
        }
    }

    /// Takes what the log has answered.
    pub(crate) fn hear(&mut self, now: Instant) -> Result<(), Nonsense> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut room = vec![0; ANSWER_HEAD + MAX_MESSAGE];
        let answer = match socket.receive(&mut room) {
            Ok((size, _)) => room.get(..size).unwrap_or_default(),
            Err(PacketError::WouldBlock) => return Ok(()),
            Err(PacketError::TooLong) => return Err(Nonsense),
            Err(_) => {
                self.socket = None;
                return Ok(());
            }
        };
        let (head, body) = answer.split_first_chunk::<ANSWER_HEAD>().ok_or(Nonsense)?;
        let to_last = head.starts_with(&self.id.to_le_bytes());
        if !to_last || self.asked.take().is_none() {
            return Err(Nonsense);
        }
        let waits = !self.hurries && waiting().bytes() < MOST_LINES;
        self.ask_at = if waits { now + GATHER } else { now };
        match serde_json::from_slice(body) {
            Ok(Answer::Next(next)) if next <= MOST => {
                // Those below are on the disk, also if the log died before it could say so.
                self.batch.retain(|line| line.number >= next);
                for (line, number) in self.batch.iter_mut().zip(next..) {
                    line.number = number;
                }
                self.next = Some(next);
            }
            Ok(Answer::NotKept) => self.ask_at = now + RETRY,
            _ => return Err(Nonsense),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
