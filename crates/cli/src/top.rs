//! `rosemary top`: shows the resource use of each program, live.
//!
//! The monitor measures twice a second; this command displays its latest measurements. On a terminal it
//! refreshes the display each second until Ctrl-C or `q`. Otherwise, and with `--json`, it prints once.

use std::io::{IsTerminal as _, Write as _, stdin, stdout};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use control::operator::ProgramUsage;
use monitor::options::InstancePaths;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sys::text::shown_lines;

use crate::client::Monitor;
use crate::say;
use crate::table::Table;

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
CPU% is relative to one processor. EVENTS/S counts the packet-ins that the app received in the last second. \
MODS/S (changes of switches), OUTS/S (packet-outs) and ASKS/S (requests) count the messages that it sent. QUEUE \
is the number of bytes that wait for the app now. DROPPED and REFUSED count since the kernel started. The mark ! \
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
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Queries and displays.
///
/// # Errors
/// Rosemary is not running or does not answer, or the output cannot be written.
pub fn run(args: &TopArgs) -> anyhow::Result<()> {
    let usage = Monitor::connect(&args.instance)?.usage()?;
    if args.json {
        let json = serde_json::to_string(&usage).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if args.once || !stdin().is_terminal() || !stdout().is_terminal() {
        return say::data(text(&usage));
    }
    live(&args.instance, usage)
}

fn live(paths: &InstancePaths, mut usage: Vec<ProgramUsage>) -> anyhow::Result<()> {
    let _screen = Screen::enter().context("cannot use this terminal; try `rosemary top --once`")?;
    loop {
        Screen::draw(&text(&usage)).context("cannot write to the terminal")?;
        if Screen::is_over(PERIOD)? {
            return Ok(());
        }
        // A new connection each time, because Rosemary may have been restarted.
        usage = Monitor::connect(paths)?.usage()?;
    }
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

    fn draw(text: &str) -> std::io::Result<()> {
        // A terminal of unknown size reports 0.
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
        let mut frame = String::from(HOME);
        for (row, line) in text.lines().take(rows.into()).enumerate() {
            if row > 0 {
                frame.push_str("\r\n");
            }
            frame.extend(shown_lines(line).chars().take(columns.into()));
            frame.push_str(CLEAR_LINE);
        }
        frame.push_str(CLEAR_REST);
        let mut out = stdout().lock();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Waits for `wait` or for a key. Returns whether the user ends the command.
    fn is_over(wait: Duration) -> anyhow::Result<bool> {
        let timeout: Timespec = wait.try_into().context("a second")?;
        match poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut keys = [0; 16];
        let size = rustix::io::read(stdin(), &mut keys)?;
        let leaves = |key: &u8| matches!(key, b'q' | 3 | 4);
        Ok(size == 0 || keys[..size].iter().any(leaves))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write!(stdout(), "{LEAVE}"); // fails only if the terminal is gone
        let _ = stdout().flush();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

fn text(programs: &[ProgramUsage]) -> String {
    let mut table = Table::new([
        "PROGRAM", "KIND", "STATE", "PID", "CPU%", "MEMORY", "FDS", "THREADS", "EVENTS/S",
        "MODS/S", "OUTS/S", "ASKS/S", "LOG/S", "QUEUE", "DROPPED", "REFUSED", "RESTARTS",
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
            &program.restarts.to_string(),
        ]);
    }
    table.text()
}

/// Formats a number of bytes in at most four digits: `12K`, `3.4M`.
fn size(bytes: u64) -> String {
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
        }
    }

    #[test]
    fn each_program_is_one_line() {
        let uses = [("cpu", 1_234), ("memory", 50 << 20), ("threads", 3), ("queue-bytes", 1_500)];
        let text =
            text(&[program("learning-switch", "app", &uses), program("b", "kernel app", &[])]);
        assert_eq!(
            text,
            "\
PROGRAM          KIND        STATE    PID  CPU%   MEMORY  FDS  THREADS  EVENTS/S  MODS/S  OUTS/S  ASKS/S  LOG/S  QUEUE  DROPPED  REFUSED  RESTARTS
learning-switch  app         running  42   123.4  50M!    -    3        -         -       -       -       -      1.4K   3        -        1
b                kernel app  running  42   -      -       -    -        -         -       -       -       -      -      3        -        1
"
        );
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [0, 1023, 1024, 10_240, 5_767_168, 1 << 34].map(size),
            ["0", "1023", "1.0K", "10K", "5.5M", "16G"]
        );
    }
}
