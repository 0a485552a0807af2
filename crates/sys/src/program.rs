//! Runs the common parts of all programs that the monitor starts.
//!
//! The monitor passes such a program a control socket as standard input and no arguments.

use std::fmt::Display;
use std::io::{Write as _, stderr};
use std::process::ExitCode;

use tracing::error;

use crate::channel::Channel;

/// Runs the program `name`: splits off its init, starts the log with `log`, and calls `serve` with the control socket.
///
/// If a person starts the program with arguments, it prints `what_it_is` and exits with 2. If `serve` fails, it logs the
/// error and exits with 1.
pub fn run<E: Display>(
    name: &str,
    what_it_is: &str,
    log: impl FnOnce(),
    serve: impl FnOnce(Channel) -> Result<(), E>,
) -> ExitCode {
    if std::env::args_os().len() > 1 {
        // The monitor passes no arguments, so a person has started the program.
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
