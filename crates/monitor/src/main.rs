//! `rosemary-monitor`: what `rosemary up` becomes. See the library.

#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rosemary_monitor::options::Options;
use tracing::warn;

/// How long who reads the log may take for the end of it.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What the exit code of a start is that a mistake in the configuration keeps from succeeding: `EX_CONFIG` of
/// sysexits(3). `etc/rosemary.service` knows it.
const MISCONFIGURED: u8 = 78;

/// Starts, watches, restarts and stops Rosemary; `rosemary up` becomes this program.
#[derive(Debug, Parser)]
#[command(name = "rosemary-monitor", version)]
struct Command {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let confined =
        if command.options.unconfined { Ok(()) } else { sys::sandbox::confine_monitor() };
    sys::log::in_background(rosemary_monitor::log_own);
    if let Err(error) = confined {
        warn!(%error, "the monitor keeps privileges that it does not need");
    }
    let code = run(&command.options);
    sys::log::flush(LAST_WORDS);
    code
}

fn run(options: &Options) -> ExitCode {
    match rosemary_monitor::run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            sys::log::pass_on(format!("rosemary: {error}\n").as_bytes());
            let mut cause = error.source();
            while let Some(error) = cause {
                sys::log::pass_on(format!("  because: {error}\n").as_bytes());
                cause = error.source();
            }
            if error.is_of_configuration() {
                ExitCode::from(MISCONFIGURED)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
