//! `rosemary-zone`: started by the monitor, with its control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use rosemary_zone::run;
use sys::channel::Channel;
use tracing::error;

fn main() -> ExitCode {
    sys::log::to_monitor();
    let control = match Channel::from_stdin() {
        Ok(control) => control,
        Err(error) => {
            error!(%error, "standard input is not open");
            return ExitCode::FAILURE;
        }
    };
    match run::run(&control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "zone ended");
            ExitCode::FAILURE
        }
    }
}
