//! `rosemary-kernel`: started by the monitor, with its control socket as standard input.

#![forbid(unsafe_code)]

use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;

use rosemary_kernel::server;
use sys::channel::Channel;
use tracing::error;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("ROSEMARY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .init();
    let control = match Channel::from_stdin() {
        Ok(control) => control,
        Err(error) => {
            error!(%error, "standard input is not open");
            return ExitCode::FAILURE;
        }
    };
    match server::run(control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "kernel ended");
            ExitCode::FAILURE
        }
    }
}
