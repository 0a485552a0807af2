//! The program `rosemary-kernel`: accepts the connections of switches, serves them, and hosts or feeds the apps.
//!
//! The monitor starts it without arguments, with its control socket as standard input. Over that socket it receives the
//! listening sockets, the keys and the apps, and later a request for each zone ([`control::kernel`]).

#![forbid(unsafe_code)]

use std::process::ExitCode;

use rosemary_kernel::app_port::Hostings;
use rosemary_kernel::server;

/// Printed after the program's name if a person starts it with arguments.
const WHAT_IT_IS: &str = "is the process of Rosemary that serves the switches; `rosemary up` starts it, \
                          do not start it yourself";

fn main() -> ExitCode {
    control::sabotage::select();
    sys::program::run("kernel", WHAT_IT_IS, sys::log::to_stderr, |monitor| {
        server::run(monitor, Hostings { further: &[] })
    })
}
