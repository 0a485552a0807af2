//! The `rosemary-kernel` program. The monitor starts it with a control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use rosemary_kernel::server;

const WHAT_IT_IS: &str =
    "is the process of Rosemary that serves the switches; `rosemary up` starts it, not you";

fn main() -> ExitCode {
    sys::program::run("kernel", WHAT_IT_IS, sys::log::to_stderr, server::run)
}
