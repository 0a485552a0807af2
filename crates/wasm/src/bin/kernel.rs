//! `rosemary-kernel-wasm`: the kernel that also hosts apps in WebAssembly. The monitor starts it instead of `rosemary-kernel` if the
//! configuration has such an app.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use kernel::server;
use rosemary_wasm::kernel::HOSTINGS;

const PURPOSE: &str = "is the process of Rosemary that serves the switches and hosts apps in WebAssembly; \
                       `rosemary up` starts it, do not start it yourself";

fn main() -> ExitCode {
    control::sabotage::select();
    sys::program::run("kernel", PURPOSE, sys::log::to_stderr, |monitor| {
        server::run(monitor, HOSTINGS)
    })
}
