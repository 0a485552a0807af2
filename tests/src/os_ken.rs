//! Runs os-ken, the successor of the Ryu framework, as a controller without zones for comparison.
//! It is installed from `PyPI` into a separate environment below `target/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, LabError, Running};

use crate::experiment::note;

/// The measured version.
pub const VERSION: &str = "2.3.1";

/// Returns the program that runs os-ken's apps; installs it if it is missing, which requires a
/// network.
///
/// Must be called outside of a lab, whose root directory is read-only.
///
/// # Errors
/// The installation failed.
pub fn install() -> anyhow::Result<PathBuf> {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers/venv");
    let program = venv.join("bin/osken-manager");
    if program.is_file() {
        return Ok(program);
    }
    note(format_args!("installing os-ken {VERSION} into {}", venv.display()));
    let run = |program: &Path, args: &[&str]| {
        let status = Command::new(program).args(args).stdin(Stdio::null()).status();
        let status = status.with_context(|| format!("{} could not be run", program.display()))?;
        ensure!(status.success(), "{} {} failed", program.display(), args.join(" "));
        Ok(())
    };
    run("python3".as_ref(), &["-m", "venv", &venv.display().to_string()])?;
    let package = format!("os-ken=={VERSION}");
    run(&venv.join("bin/pip"), &["install", "--quiet", &package])?;
    Ok(program)
}

/// Starts os-ken on `port` with these apps.
///
/// # Errors
/// It cannot be started.
pub fn start(lab: &Lab, program: &Path, port: u16, apps: &[PathBuf]) -> Result<Running, LabError> {
    start_with(lab, program, port, &[], apps)
}

/// Like [`start`], with further options.
///
/// # Errors
/// Like [`start`].
pub fn start_with(
    lab: &Lab,
    program: &Path,
    port: u16,
    options: &[&str],
    apps: &[PathBuf],
) -> Result<Running, LabError> {
    let mut command = lab.command(program);
    command.args(options);
    command.args(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", &port.to_string()]);
    command.args(apps);
    lab.start("os-ken", command)
}
