//! `rosemary-zone`: the monitor starts it with its control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use rosemary_zone::run::{self, ZoneError};

/// Printed after the program's name if a person starts it with arguments.
const WHAT_IT_IS: &str = "is the process of Rosemary that hosts one app; `rosemary up` starts it, \
                          do not start it yourself";

fn main() -> ExitCode {
    sys::program::run("zone", WHAT_IT_IS, sys::log::to_monitor, |monitor| {
        let prepared = sys::stdout::write_lines_at_once();
        prepared.and_then(|()| sys::stdout::wait_for_reader()).map_err(ZoneError::Stdout)?;
        run::run(&monitor)
    })
}
