//! `rosemary up`: executes the resource monitor, or checks the configuration.
//!
//! The monitor replaces this process with exec, so that signals from the terminal or systemd reach it directly and no process
//! must forward them.

use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use clap::Args;
use monitor::error::StartError;
use monitor::installation;
use monitor::options::Options;

use crate::{exit, say};

/// Options of `rosemary up`.
#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    /// Check the configuration and start nothing
    ///
    /// Prints all mistakes of the configuration file, each with line and column, and exits with 78 if there is one. In a
    /// file without mistakes it checks the apps' objects, packages and own files, and the keys for TLS, too.
    /// For a moment it loads each app in a sandbox, connected to nothing, as only the app can interpret its own file.
    #[arg(long)]
    pub check: bool,
    /// The options of the monitor.
    #[command(flatten)]
    pub options: Options,
}

/// Executes the monitor with these options, or checks them. Returns only after a check.
///
/// # Errors
/// The monitor's program is missing or cannot be executed, or the result cannot be written.
pub fn run(args: &UpArgs) -> anyhow::Result<ExitCode> {
    if args.check {
        return check(&args.options);
    }
    let program = installation::program("rosemary-monitor", &installation::own_dir()?)?;
    let checked = monitor::provenance::monitor(&args.options, &program)?;
    let mut command = match &checked {
        // The checked descriptor is executed, so the file cannot be exchanged in between.
        Some(file) => Command::new(format!("/proc/self/fd/{}", file.as_raw_fd())),
        None => Command::new(&program),
    };
    let error = command.arg0(&program).args(args.options.to_args()).exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}

fn check(options: &Options) -> anyhow::Result<ExitCode> {
    match monitor::check(options) {
        Ok(valid) => {
            valid.notices.iter().for_each(say::note);
            let file = match &valid.file {
                Some(file) => format!("{} is valid", file.display()),
                None => "there is no configuration file, and the defaults are valid".to_owned(),
            };
            let apps = match &valid.apps[..] {
                [] => "no app would run".to_owned(),
                apps => format!("apps: {}", apps.join(", ")),
            };
            say::data(format_args!("{file}; {apps}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(mistakes) => {
            let is_of_configuration = mistakes.iter().any(StartError::is_of_configuration);
            for mistake in mistakes {
                say::error(&mistake.into());
            }
            Ok(if is_of_configuration { exit::MISCONFIGURED.into() } else { ExitCode::FAILURE })
        }
    }
}
