//! Databases of switches: the client against real and hostile servers, and the commands and the service that use it.

mod adopt;
mod client;
mod hostile;
mod service;

use std::process::{Command, Output, Stdio};

use cli::lab::{Lab, database};
use rosemary_tests::rosemary_binary;

/// Runs `ovs-vsctl` on the lab's database, without waiting for a switch.
pub(crate) fn vsctl(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    let database = format!("--db={}", database());
    Ok(lab.run("ovs-vsctl", &[&["--timeout=10", "--no-wait", &database], args].concat())?)
}

/// Runs `rosemary ARGS...`.
pub(crate) fn rosemary(lab: &Lab, args: &[&str]) -> anyhow::Result<Output> {
    let mut command: Command = lab.command(rosemary_binary());
    Ok(command.args(args).stdin(Stdio::null()).output()?)
}

/// Returns what a command wrote to standard error.
fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
