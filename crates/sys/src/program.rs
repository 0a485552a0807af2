//! What is the same in all programs that the monitor starts: they are given a control socket as standard
//! input, and no arguments.

use std::fmt::Display;
use std::io::{Write as _, stderr};
use std::process::ExitCode;

use tracing::error;

use crate::channel::Channel;

/// The whole of the program `name`: behind an init of its own, logs by `log`, and serves.
///
/// `what_it_is` is for people who start it themselves, and then the exit code is 2. If `serve` fails,
/// that is logged, and the exit code is 1.
pub fn run<E: Display>(
    name: &str,
    what_it_is: &str,
    log: impl FnOnce(),
    serve: impl FnOnce(Channel) -> Result<(), E>,
) -> ExitCode {
    if std::env::args_os().len() > 1 {
        // The monitor gives no arguments: somebody wants to know what this is.
        let _ = writeln!(stderr(), "rosemary-{name} {what_it_is}");
        return ExitCode::from(2);
    }
    let split_off = crate::process::split_off_init();
    log();
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
    match serve(control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "{name} ended");
            ExitCode::FAILURE
        }
    }
}
