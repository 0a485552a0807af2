//! `rosemary-monitor`: what `rosemary up` becomes. See the library.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::process::ExitCode;

use clap::Parser;
use rosemary_monitor::options::Options;
use tracing_subscriber::EnvFilter;

/// Starts, watches, restarts and stops Rosemary; `rosemary up` becomes this program.
#[derive(Debug, Parser)]
#[command(name = "rosemary-monitor", version)]
struct Command {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let command = Command::parse();
    log();
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

/// Logs to standard error what `ROSEMARY_LOG`, or else `RUST_LOG`, asks for; otherwise `info`.
fn log() {
    let wanted = ["ROSEMARY_LOG", "RUST_LOG"].iter().find_map(|name| std::env::var(name).ok());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or("info"))
        .unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        // A reader of the log that went away must not end the monitor.
        .log_internal_errors(false)
        .init();
}
