//! Runs the common parts of all programs that the monitor starts.
//!
//! The monitor passes such a program a control socket as standard input and no arguments.

use std::ffi::CString;
use std::fmt::Display;
use std::io::{self, Write as _, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tracing::error;

use crate::channel::Channel;

/// Runs the program `name`: splits off its init, starts the log with `log`, and calls `serve` with the control socket.
///
/// If a person starts the program with arguments, it prints `what_it_is` and exits with 2. If `serve` fails, it logs the
/// error and exits with 1.
pub fn run<E: Display>(
    name: &str,
    what_it_is: &str,
    log: impl FnOnce(),
    serve: impl FnOnce(Channel) -> Result<(), E>,
) -> ExitCode {
    if std::env::args_os().len() > 1 {
        // The monitor passes no arguments, so a person has started the program.
        let _ = writeln!(stderr(), "rosemary-{name} {what_it_is}");
        return ExitCode::from(2);
    }
    let control = match begin_as_child(log) {
        Ok(control) => control,
        Err(error) => {
            error!(%error, "could not begin");
            return ExitCode::FAILURE;
        }
    };
    match serve(control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "{name} ended");
            ExitCode::FAILURE
        }
    }
}

/// Names this process by its program, as `ps` and `top` show it. One that was executed by a descriptor would be named by the
/// descriptor's number.
pub fn name_process() {
    let program = std::env::args_os().next().map(PathBuf::from);
    let name = program.as_deref().and_then(Path::file_name).and_then(|name| {
        CString::new(name.as_encoded_bytes()).ok() // without a zero byte, as an argument has none
    });
    if let Some(name) = name {
        let _ = rustix::thread::set_name(&name); // cut after 15 bytes; a name is no reason to fail
    }
}

/// Begins a process that the monitor started: splits off its init, starts the log with `log`, and returns the control
/// socket. Programs that are no program of ours, such as an interpreter, call this themselves, while there is one thread.
///
/// # Errors
/// The system is out of processes, or standard input is not open.
pub fn begin_as_child(log: impl FnOnce()) -> io::Result<Channel> {
    name_process();
    let split_off = crate::process::split_off_init();
    log();
    let context = |what: &'static str| {
        move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
    };
    split_off.map_err(context("could not start behind an init"))?;
    Channel::from_stdin().map_err(context("standard input is not open"))
}
