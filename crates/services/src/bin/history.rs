//! The `rosemary-history` program. The monitor starts it with a control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    rosemary_services::run::main::<rosemary_services::history::History>()
}
