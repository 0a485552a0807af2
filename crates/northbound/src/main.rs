//! `rosemary-northbound`; see the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let what_it_is =
        "is the HTTP interface of Rosemary; `rosemary up` starts it, do not start it yourself";
    sys::program::run("northbound", what_it_is, sys::log::to_stderr, |monitor| {
        rosemary_northbound::run(monitor)
    })
}
