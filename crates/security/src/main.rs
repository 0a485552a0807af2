//! `rosemary-security`: started by the monitor and by `rosemary app`, with its control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use rosemary_security::run;

const PURPOSE: &str =
    "checks packages of apps and keys for TLS; `rosemary up` and `rosemary app` start it, not you";

fn main() -> ExitCode {
    sys::program::run("security", PURPOSE, sys::log::to_monitor, |client| run::run(&client))
}
