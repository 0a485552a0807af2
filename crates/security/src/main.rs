//! `rosemary-security`: started by the monitor and by `rosemary app`, with its control socket as standard input.

#![forbid(unsafe_code)]

use std::io::{Write as _, stderr};
use std::process::ExitCode;

use rosemary_security::run;
use sys::channel::Channel;
use tracing::error;

const WHAT_IT_IS: &str = "rosemary-security looks into packages of apps; `rosemary up` and `rosemary app` start it, not you";

fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        // The monitor gives no arguments: somebody wants to know what this is.
        let _ = writeln!(stderr(), "{WHAT_IT_IS}");
        return ExitCode::from(2);
    }
    let split_off = sys::process::split_off_init();
    sys::log::to_monitor();
    if let Err(error) = split_off {
        error!(%error, "could not start behind an init");
        return ExitCode::FAILURE;
    }
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
            error!(%error, "security ended");
            ExitCode::FAILURE
        }
    }
}
