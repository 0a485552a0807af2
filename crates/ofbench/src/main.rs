//! The `ofbench` command; see the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;
use ofbench::args::Arguments;
use ofbench::{command, terminal};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(text) => {
            // Help and version arrive here as well; clap selects the stream.
            let _ = text.print();
            return u8::try_from(text.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    match command::run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::note(format_args!("{error:#}"));
            if command::is_usage(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
