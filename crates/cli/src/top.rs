//! `rosemary top`: how much each program uses, live.
//!
//! The monitor looks twice a second and says what it saw; here it is only drawn. On a terminal the picture
//! is drawn again each second until Ctrl-C or `q`; elsewhere, and with `--json`, it is printed once.

use std::io::{IsTerminal as _, Write as _, stdin, stdout};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use control::operator::ProgramUsage;
use monitor::options::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sys::text::shown_lines;

use crate::ask::Monitor;
use crate::say;
use crate::table::Table;

/// Between two pictures.
const PERIOD: Duration = Duration::from_secs(1);

/// Of the terminal: the other screen and no cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Of the terminal: to the top left; what is left of the line, and of the screen, is empty.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

const AFTER_HELP: &str = "\
CPU% is of one processor. EVENTS are packet-ins that the app got in the last second; MODS (changes of \
switches), OUTS (packet-outs) and ASKS (requests) what it sent in it. DROPPED and REFUSED count since the \
kernel started, QUEUE is what waits for the app now. A value above the app's soft limit is marked with !. \
What is not known is a dash, in JSON null: the memory of an app in the kernel is the kernel's. Where no cgroup counts \
memory, names of files that are not there and buffers of connections are not part of it.

JSON: a list, an object per program with \"name\", \"kind\", \"state\", \"pid\", \"restarts\", \
\"events_per_second\", \"dropped\", \"refused\", \"above\" (names of limits), and \"uses\": for each limit by \
its name \"value\", \"soft\" and \"hard\", in bytes, descriptors, threads, thousandths of a processor, and \
bytes or messages in a second; null for no limit.";

/// The options of `rosemary top`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TopArgs {
    /// Print JSON once, for programs
    #[arg(long)]
    pub json: bool,
    /// Print once
    #[arg(long)]
    pub once: bool,
    /// Where it runs.
    #[command(flatten)]
    pub place: Place,
}

/// Asks and draws.
///
/// # Errors
/// Nothing runs, or it does not answer; what it said cannot be written.
pub fn run(args: &TopArgs) -> anyhow::Result<()> {
    let usage = Monitor::connect(&args.place)?.usage()?;
    if args.json {
        let json = serde_json::to_string(&usage).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if args.once || !stdin().is_terminal() || !stdout().is_terminal() {
        return say::data(text(&usage));
    }
    live(&args.place, usage)
}

fn live(place: &Place, mut usage: Vec<ProgramUsage>) -> anyhow::Result<()> {
    let _screen = Screen::enter().context("cannot use this terminal; try `rosemary top --once`")?;
    loop {
        Screen::draw(&text(&usage)).context("cannot write to the terminal")?;
        if Screen::is_over(PERIOD)? {
            return Ok(());
        }
        // A new connection each time, because Rosemary may have been restarted.
        usage = Monitor::connect(place)?.usage()?;
    }
}

/// The terminal, while we draw on it. Dropping it gives it back as it was.
#[derive(Debug)]
struct Screen {
    /// How it treated keys.
    before: Termios,
}

impl Screen {
    fn enter() -> std::io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut keys = before.clone();
        // Each key at once and unseen. Ctrl-C is a key too, so that we leave in order.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(stdin(), OptionalActions::Now, &keys)?;
        let screen = Self { before };
        write!(stdout(), "{ENTER}")?;
        Ok(screen)
    }

    fn draw(text: &str) -> std::io::Result<()> {
        // A terminal that does not know its size says 0.
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
        let mut picture = String::from(HOME);
        for (row, line) in text.lines().take(rows.into()).enumerate() {
            if row > 0 {
                picture.push_str("\r\n");
            }
            picture.extend(shown_lines(line).chars().take(columns.into()));
            picture.push_str(CLEAR_LINE);
        }
        picture.push_str(CLEAR_REST);
        let mut out = stdout().lock();
        out.write_all(picture.as_bytes())?;
        out.flush()
    }

    /// Waits so long, or until the user wants to leave; says whether they do.
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
        let _ = write!(stdout(), "{LEAVE}"); // the terminal is gone: so is its screen
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

/// Bytes, in few letters: `12K`, `3.4M`.
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
    fn programs_are_a_line_each_what_is_not_known_a_dash_and_what_is_too_much_marked() {
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
    fn sizes_are_few_letters() {
        assert_eq!(
            [0, 1023, 1024, 10_240, 5_767_168, 1 << 34].map(size),
            ["0", "1023", "1.0K", "10K", "5.5M", "16G"]
        );
    }
}
