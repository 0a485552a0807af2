//! `rosemary-monitor`: what `rosemary up` becomes. See the library.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{Write as _, stderr};
use std::process::ExitCode;

use clap::Parser;
use rosemary_monitor::options::Options;

/// Starts, watches, restarts and stops Rosemary; `rosemary up` becomes this program.
#[derive(Debug, Parser)]
#[command(name = "rosemary-monitor", version)]
struct Command {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let command = Command::parse();
    sys::log::to_stderr();
    match rosemary_monitor::run(&command.options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody is left to be told if this fails.
            let _ = writeln!(stderr(), "rosemary: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                let _ = writeln!(stderr(), "  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}
