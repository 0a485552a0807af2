//! `rosemary-security`: started by the monitor and by `rosemary app`, with its control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use rosemary_security::run;

const WHAT_IT_IS: &str =
    "looks into packages of apps; `rosemary up` and `rosemary app` start it, not you";

fn main() -> ExitCode {
    sys::program::run("security", WHAT_IT_IS, sys::log::to_monitor, |asker| run::run(&asker))
}
