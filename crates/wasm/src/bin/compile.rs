//! `rosemary-compile`: started by the monitor, with its control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use rosemary_wasm::compile;

const PURPOSE: &str = "compiles apps in WebAssembly; `rosemary up` starts it, not you";

fn main() -> ExitCode {
    sys::program::run("compile", PURPOSE, sys::log::to_monitor, |client| compile::run(&client))
}
