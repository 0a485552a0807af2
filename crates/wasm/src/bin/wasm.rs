//! `rosemary-wasm`: the zone of an app in WebAssembly. The monitor starts it with its control socket as standard input.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use rosemary_wasm::run;
use zone::run::ZoneError;

const PURPOSE: &str =
    "is the process of Rosemary that hosts apps in WebAssembly; `rosemary up` starts it, not you";

fn main() -> ExitCode {
    sys::program::run("wasm", PURPOSE, sys::log::to_monitor, |monitor| {
        sys::stdout::wait_for_reader().map_err(ZoneError::Stdout)?;
        run::run(&monitor)
    })
}
