//! `rosemary top`: shows the resource use of each program, live.
//!
//! The monitor measures twice a second; this command displays its latest measurements. On a terminal it
//! refreshes the display each second until Ctrl-C or `q`, and scrolls with the arrow keys. Otherwise, and with `--json`, it prints once.

use std::io::{IsTerminal as _, Write as _, stdin, stdout};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use config::instance::InstancePaths;
use control::operator::ProgramUsage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sys::text::shown_lines;

use crate::client;
use crate::say;
use crate::table::{Formatted, Table, output_width};

/// Interval between two refreshes.
const PERIOD: Duration = Duration::from_secs(1);

/// Terminal sequences: switch to the alternate screen and hide the cursor; undo both.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Terminal sequences: move to the top left; clear the rest of the line; clear the rest of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

const AFTER_HELP: &str = "\
On a terminal: the arrow keys, Page Up, Page Down, Home and End scroll; q or Ctrl-C ends it.

CPU% is relative to one processor. FDS are open descriptors. EVENTS/S counts the packet-ins that the app received in the last second. \
MODS/S (changes of switches), OUTS/S (packet-outs) and ASKS/S (requests) count the messages that it sent. LOG/S \
is the number of bytes that it wrote to its log in the last second. QUEUE is the number of bytes that wait for the \
app now. DROPPED (packet-ins that it did not receive), REFUSED (messages of it) and DELAYED (flow-mods of it that \
waited because of its pace) count since the kernel started. The mark ! \
shows a value above the app's soft limit, a dash an unknown value (null in JSON): for example, the memory of an \
app in the kernel is part of the kernel's. Without a memory cgroup, MEMORY does not include names of missing \
files and buffers of connections.

JSON: a list with an object per program, with \"name\", \"kind\", \"state\", \"pid\", \"restarts\", \
\"events_per_second\", \"dropped\", \"refused\", \"above\" (names of limits), and \"uses\": a list with \"limit\", \
\"value\", \"soft\" and \"hard\" for each limit, in bytes, descriptors, threads, thousandths of a processor, and bytes \
or messages per second; null means no limit.";

/// Options of `rosemary top`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TopArgs {
    /// Print JSON once
    #[arg(long)]
    pub json: bool,
    /// Print once
    #[arg(long)]
    pub once: bool,
    /// Show all columns; on a terminal, as many as fit
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Queries and displays.
///
/// # Errors
/// Rosemary is not running or does not answer, or the output cannot be written.
pub fn run(args: &TopArgs) -> anyhow::Result<()> {
    let usage = client::connect(&args.instance)?.usage()?;
    if args.json {
        let json = serde_json::to_string(&usage).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if args.once || !stdin().is_terminal() || !stdout().is_terminal() {
        return say::table(&table(&usage).format(output_width(args.wide)));
    }
    live(args, usage)
}

fn live(args: &TopArgs, mut usage: Vec<ProgramUsage>) -> anyhow::Result<()> {
    let _screen = Screen::enter().context("cannot use this terminal; try `rosemary top --once`")?;
    let mut scroll = Scroll::default();
    let mut next = Instant::now() + PERIOD;
    loop {
        let (rows, columns) = Screen::size();
        let table = table(&usage).format((!args.wide).then_some(columns));
        let frame = frame(&table, (rows, columns), &mut scroll);
        Screen::draw(&frame, columns).context("cannot write to the terminal")?;
        match Screen::key(next.saturating_duration_since(Instant::now()))? {
            Some(Key::End) => return Ok(()),
            Some(Key::Scroll(step)) => scroll.step(step),
            None => {}
        }
        if Instant::now() >= next {
            // A new connection each time, because Rosemary may have been restarted.
            usage = client::connect(&args.instance)?.usage()?;
            next = Instant::now() + PERIOD;
        }
    }
}

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The command ends.
    End,
    /// Other rows are shown.
    Scroll(Step),
}

/// A distance to scroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Rows, downwards if positive.
    Rows(isize),
    /// Screens, downwards if positive.
    Screens(isize),
    First,
    Last,
}

impl Key {
    /// Returns the meaning of the bytes that a terminal sends for a key (ECMA-48 §5.4, xterm).
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b'q' | 3 | 4, ..] => Some(Self::End),
            b"\x1b[A" | b"\x1bOA" | b"k" => Some(Self::Scroll(Step::Rows(-1))),
            b"\x1b[B" | b"\x1bOB" | b"j" => Some(Self::Scroll(Step::Rows(1))),
            b"\x1b[5~" => Some(Self::Scroll(Step::Screens(-1))),
            b"\x1b[6~" | b" " => Some(Self::Scroll(Step::Screens(1))),
            b"\x1b[H" | b"\x1bOH" | b"\x1b[1~" | b"g" => Some(Self::Scroll(Step::First)),
            b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" | b"G" => Some(Self::Scroll(Step::Last)),
            _ => None,
        }
    }
}

/// The part of the programs that is shown.
#[derive(Debug, Clone, Copy, Default)]
struct Scroll {
    /// The first program.
    first: usize,
    /// The programs of a screen, as of the last [`frame`].
    screen: usize,
}

impl Scroll {
    /// Scrolls. [`frame`] keeps the result within the table.
    fn step(&mut self, step: Step) {
        let screen = isize::try_from(self.screen.max(1)).unwrap_or(isize::MAX);
        self.first = match step {
            Step::Rows(rows) => self.first.saturating_add_signed(rows),
            Step::Screens(screens) => {
                self.first.saturating_add_signed(screens.saturating_mul(screen))
            }
            Step::First => 0,
            Step::Last => usize::MAX,
        };
    }
}

/// Returns the lines for a terminal with these rows and columns: the headings, as many programs as fit, and, if rows or columns are
/// missing, lines that say so.
fn frame(table: &Formatted, (rows, columns): (usize, usize), scroll: &mut Scroll) -> Vec<String> {
    let mut lines = table.text.lines().map(ToOwned::to_owned);
    let head: Vec<String> = lines.next().into_iter().collect();
    let programs: Vec<String> = lines.collect();
    let all = programs.len();
    if all < rows && table.left_out.is_empty() {
        *scroll = Scroll { first: 0, screen: all };
        return [head, programs].concat();
    }
    let bottom = |first: usize, last: usize| {
        let place = format!("{first}-{last} of {all} (arrows scroll, q ends)");
        wrapped(&table.note().map_or(place.clone(), |note| format!("{place}; {note}")), columns)
    };
    // No other place has more digits.
    let below = bottom(all, all).len();
    let room = rows.saturating_sub(head.len() + below).max(1);
    let first = scroll.first.min(all.saturating_sub(room));
    *scroll = Scroll { first, screen: room };
    let shown: Vec<String> = programs.into_iter().skip(first).take(room).collect();
    let bottom = bottom(first + 1, first + shown.len());
    [head, shown, bottom].concat()
}

/// Breaks a text at spaces into lines of at most `width` characters; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The terminal in full-screen mode; dropping it restores the previous mode.
#[derive(Debug)]
struct Screen {
    /// The previous mode.
    before: Termios,
}

impl Screen {
    fn enter() -> std::io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut keys = before.clone();
        // Keys arrive at once and without echo. Ctrl-C arrives as a key, so that the mode is restored.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(stdin(), OptionalActions::Now, &keys)?;
        let screen = Self { before };
        write!(stdout(), "{ENTER}")?;
        Ok(screen)
    }

    /// Returns the rows and columns of the terminal.
    fn size() -> (usize, usize) {
        // A terminal of unknown size reports 0.
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()))
    }

    fn draw(lines: &[String], columns: usize) -> std::io::Result<()> {
        let mut frame = String::from(HOME);
        for (row, line) in lines.iter().enumerate() {
            if row > 0 {
                frame.push_str("\r\n");
            }
            frame.extend(shown_lines(line).chars().take(columns));
            frame.push_str(CLEAR_LINE);
        }
        frame.push_str(CLEAR_REST);
        let mut out = stdout().lock();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Waits for `wait` or for a key, and returns what the key means.
    fn key(wait: Duration) -> anyhow::Result<Option<Key>> {
        let timeout: Timespec = wait.try_into().context("a second")?;
        match poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut keys = [0; 16];
        let size = rustix::io::read(stdin(), &mut keys)?;
        Ok(if size == 0 { Some(Key::End) } else { Key::of(&keys[..size]) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write!(stdout(), "{LEAVE}"); // fails only if the terminal is gone
        let _ = stdout().flush();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

fn table(programs: &[ProgramUsage]) -> Table<18> {
    let mut table = Table::new([
        "PROGRAM", "KIND", "STATE", "PID", "CPU%", "MEMORY", "FDS", "THREADS", "EVENTS/S",
        "MODS/S", "OUTS/S", "ASKS/S", "LOG/S", "QUEUE", "DROPPED", "REFUSED", "DELAYED",
        "RESTARTS",
    ])
    .expendable(&[
        "LOG/S", "FDS", "DELAYED", "ASKS/S", "THREADS", "KIND", "RESTARTS", "QUEUE", "PID",
        "OUTS/S", "REFUSED", "MODS/S", "DROPPED", "EVENTS/S",
    ]);
    for program in programs {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        let of = |limit: &str, shown: fn(u64) -> String| {
            let value = program.amount(limit).and_then(|it| it.value).map(shown);
            let mark = if program.above.iter().any(|it| it == limit) { "!" } else { "" };
            value.map_or("-".to_owned(), |value| format!("{value}{mark}"))
        };
        let plain = |number: u64| number.to_string();
        table.row([
            &program.name,
            &program.kind,
            &program.state.to_string(),
            &program.pid.map_or("-".to_owned(), |pid| pid.to_string()),
            &of("cpu", |thousandths| format!("{}.{}", thousandths / 10, thousandths % 10)),
            &of("memory", size),
            &of("descriptors", plain),
            &of("threads", plain),
            &number(program.events_per_second),
            &of("flow-mods-per-second", plain),
            &of("packet-outs-per-second", plain),
            &of("requests-per-second", plain),
            &of("log-bytes-per-second", size),
            &of("queue-bytes", size),
            &number(program.dropped),
            &number(program.refused),
            &number(program.delayed),
            &program.restarts.to_string(),
        ]);
    }
    table
}

/// Formats a number of bytes in at most four digits: `12K`, `3.4M`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, char); 3] = [(1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return bytes.to_string();
    };
    let (whole, tenths) = (bytes / unit, bytes % unit * 10 / unit);
    if whole < 10 { format!("{whole}.{tenths}{name}") } else { format!("{whole}{name}") }
}

#[cfg(test)]
mod tests {
    use control::operator::Amount;
    use control::operator::ProgramState;

    use super::*;

    fn program(name: &str, kind: &str, uses: &[(&str, u64)]) -> ProgramUsage {
        let uses = uses.iter().map(|(limit, value)| Amount {
            limit: (*limit).into(),
            value: Some(*value),
            soft: None,
            hard: None,
        });
        ProgramUsage {
            name: name.into(),
            kind: kind.into(),
            state: ProgramState::Running,
            pid: Some(42),
            restarts: 1,
            uses: uses.collect(),
            above: vec!["memory".into()],
            events_per_second: None,
            dropped: Some(3),
            refused: None,
            delayed: None,
        }
    }

    #[test]
    fn each_program_is_one_line() {
        let uses = [("cpu", 1_234), ("memory", 50 << 20), ("threads", 3), ("queue-bytes", 1_500)];
        let text =
            table(&[program("learning-switch", "app", &uses), program("b", "kernel app", &[])])
                .format(None)
                .text;
        assert_eq!(
            text,
            "\
PROGRAM          KIND        STATE    PID  CPU%   MEMORY  FDS  THREADS  EVENTS/S  MODS/S  OUTS/S  ASKS/S  LOG/S  QUEUE  DROPPED  REFUSED  DELAYED  RESTARTS
learning-switch  app         running  42   123.4  50M!    -    3        -         -       -       -       -      1.4K   3        -        -        1
b                kernel app  running  42   -      -       -    -        -         -       -       -       -      -      3        -        -        1
"
        );
    }

    #[test]
    fn rows_beyond_the_screen_are_scrolled_to() {
        let programs: Vec<_> = (0..10).map(|i| program(&format!("a{i}"), "app", &[])).collect();
        let table = table(&programs).format(None);
        let mut scroll = Scroll::default();
        assert_eq!(frame(&table, (11, 80), &mut scroll).len(), 11, "all fit");
        let shown = |scroll: &mut Scroll| {
            let lines = frame(&table, (6, 80), scroll);
            let names = lines[1..5].iter().map(|it| it[..2].to_owned()).collect::<String>();
            (names, lines[5].split(" (").next().unwrap().to_owned())
        };
        assert_eq!(shown(&mut scroll), ("a0a1a2a3".into(), "1-4 of 10".into()));
        for (keys, names, place) in [
            (&b"\x1b[B"[..], "a1a2a3a4", "2-5 of 10"),
            (b"\x1b[6~", "a5a6a7a8", "6-9 of 10"),
            (b"G", "a6a7a8a9", "7-10 of 10"),
            (b"\x1b[A", "a5a6a7a8", "6-9 of 10"),
            (b"g", "a0a1a2a3", "1-4 of 10"),
            (b"\x1b[A", "a0a1a2a3", "1-4 of 10"),
        ] {
            let Some(Key::Scroll(step)) = Key::of(keys) else { panic!("{keys:?}") };
            scroll.step(step);
            assert_eq!(shown(&mut scroll), (names.into(), place.into()), "{keys:?}");
        }
        assert_eq!(Key::of(b"q"), Some(Key::End));
    }

    #[test]
    fn narrow_screen_says_what_is_missing() {
        let formatted = table(&[program("learning-switch", "app", &[])]).format(Some(80));
        let lines = frame(&formatted, (24, 80), &mut Scroll::default());
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        let bottom = lines[2..].join(" ");
        assert!(bottom.starts_with("1-1 of 1 (arrows scroll, q ends); left out: "), "{bottom}");
        assert!(bottom.ends_with("; --wide shows all columns"), "{bottom}");
        // Page Down skips no row, although the bottom has several lines.
        let programs: Vec<_> = (10..40).map(|i| program(&format!("a{i}"), "app", &[])).collect();
        let formatted = table(&programs).format(Some(60));
        let mut scroll = Scroll::default();
        let lines = frame(&formatted, (12, 60), &mut scroll);
        assert_eq!(lines.len(), 12);
        let last = lines.iter().rfind(|line| line.starts_with('a')).unwrap()[1..3].to_owned();
        scroll.step(Step::Screens(1));
        let next = frame(&formatted, (12, 60), &mut scroll)[1][1..3].to_owned();
        assert_eq!(next.parse::<u8>().unwrap(), 1 + last.parse::<u8>().unwrap());
    }

    #[test]
    fn help_explains_the_columns() {
        let table = table(&[]).text();
        let unexplained = ["PROGRAM", "KIND", "STATE", "PID", "MEMORY", "THREADS", "RESTARTS"];
        for heading in table.split_whitespace().filter(|it| !unexplained.contains(it)) {
            assert!(AFTER_HELP.contains(&format!("{heading} ")), "{heading}");
        }
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [0, 1023, 1024, 10_240, 5_767_168, 1 << 34].map(size),
            ["0", "1023", "1.0K", "10K", "5.5M", "16G"]
        );
    }
}
