//! `rosemary-zone`: started by the monitor, with its control socket as standard input.

#![forbid(unsafe_code)]

use std::io::{Write as _, stderr};
use std::process::ExitCode;

use rosemary_zone::run;
use sys::channel::Channel;
use tracing::error;

const WHAT_IT_IS: &str =
    "rosemary-zone is the process of Rosemary that hosts one app; `rosemary up` starts it, not you";

fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        // The monitor gives no arguments: somebody wants to know what this is.
        let _ = writeln!(stderr(), "{WHAT_IT_IS}");
        return ExitCode::from(2);
    }
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
