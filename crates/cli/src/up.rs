//! `rosemary up`: becomes the resource monitor.
//!
//! By exec, so that the terminal's signals, or systemd's, reach the monitor itself and no process
//! stands between that would have to pass them on.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;
use monitor::options::Options;
use monitor::places;

/// Becomes the monitor with these options. Returns only if that fails.
///
/// # Errors
/// The monitor's program is missing or cannot be executed.
pub fn run(options: &Options) -> anyhow::Result<std::convert::Infallible> {
    let program = places::program("rosemary-monitor", &places::own_dir()?)?;
    let error = Command::new(&program).args(options.to_args()).exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}
