//! `rosemary up`: executes the resource monitor.
//!
//! It replaces this process with exec, so that signals from the terminal or systemd reach the
//! monitor directly and no process must forward them.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;
use monitor::options::Options;
use monitor::places;

/// Executes the monitor with these options. Returns only on failure.
///
/// # Errors
/// The monitor's program is missing or cannot be executed.
pub fn run(options: &Options) -> anyhow::Result<std::convert::Infallible> {
    let program = places::program("rosemary-monitor", &places::own_dir()?)?;
    let error = Command::new(&program).args(options.to_args()).exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}
