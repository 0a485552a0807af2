//! `rosemary-log`: started by the monitor, with its control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    rosemary_services::run::main::<rosemary_services::log::Log>()
}
