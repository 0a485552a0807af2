//! `rosemary up`: executes the resource monitor.
//!
//! It replaces this process with exec, so that signals from the terminal or systemd reach the
//! monitor directly and no process must forward them.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;
use monitor::installation;
use monitor::options::Options;

/// Executes the monitor with these options. Returns only on failure.
///
/// # Errors
/// The monitor's program is missing or cannot be executed.
pub fn run(options: &Options) -> anyhow::Result<std::convert::Infallible> {
    let program = installation::program("rosemary-monitor", &installation::own_dir()?)?;
    let error = Command::new(&program).args(options.to_args()).exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}
