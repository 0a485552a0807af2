//! `rosemary app`: creates, packages, installs, removes, starts and stops apps.

use clap::Subcommand;
use control::change::AppVerb;

use crate::change::{self, AppChangeArgs, LogLevelArgs};
use crate::logs::{self, AppLogsArgs};
use crate::packages::build::{self, BuildArgs};
use crate::packages::install::{self, InstallArgs, ListArgs, PackageArgs, RemoveArgs, UpgradeArgs};
use crate::packages::sign::{self, SignArgs};
use crate::scaffold::{self, NewArgs};

/// Subcommands of `rosemary app`.
#[derive(Debug, Clone, Subcommand)]
pub enum AppCommand {
    /// Create an app that builds and runs unchanged
    New(NewArgs),
    /// Compile an app and package it
    Build(BuildArgs),
    /// Sign a package with your key
    Sign(SignArgs),
    /// Show who signed a package and what it requests, or why it would be refused
    Verify(PackageArgs),
    /// Install a package so that the configuration can name its app
    Install(InstallArgs),
    /// Remove an installed package
    Remove(RemoveArgs),
    /// Show the installed packages
    List(ListArgs),
    /// Show the log of an app; `rosemary logs NAME` also shows what Rosemary reports about it
    Logs(AppLogsArgs),
    /// Change the level of an app's log while the app runs, until Rosemary or the configured level changes
    LogLevel(LogLevelArgs),
    /// Start an app that was stopped or is held for its restarts
    Start(AppChangeArgs),
    /// Stop an app until it is started again, or until Rosemary is; its flows stay
    Stop(AppChangeArgs),
    /// Stop an app and start it again with its files as they are now
    Restart(AppChangeArgs),
    /// Run an app from now on, whatever the configuration says
    Enable(AppChangeArgs),
    /// Do not run an app any more, whatever the configuration says; its flows stay, and other apps lack its service
    Disable(AppChangeArgs),
    /// Let the kernel host an app again that was taken out of it
    Promote(AppChangeArgs),
    /// Replace a running app by a package, and take that back if the new version fails
    ///
    /// --yes also installs an older version, or a different package of the same version, without asking.
    Upgrade(UpgradeArgs),
    /// Run the version of an app before its last upgrade
    Rollback(AppChangeArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// The reason why it failed.
pub fn run(command: &AppCommand) -> anyhow::Result<()> {
    match command {
        AppCommand::New(args) => scaffold::run(args),
        AppCommand::Build(args) => build::run(args),
        AppCommand::Sign(args) => sign::run(args),
        AppCommand::Verify(args) => install::verify(args),
        AppCommand::Install(args) => install::install(args),
        AppCommand::Remove(args) => install::remove(args),
        AppCommand::List(args) => install::list(args),
        AppCommand::Logs(args) => logs::run_app(args),
        AppCommand::LogLevel(args) => change::set_log_level(args),
        AppCommand::Start(args) => change::run_app(AppVerb::Start, args),
        AppCommand::Stop(args) => change::run_app(AppVerb::Stop, args),
        AppCommand::Restart(args) => change::run_app(AppVerb::Restart, args),
        AppCommand::Enable(args) => change::run_app(AppVerb::Enable, args),
        AppCommand::Disable(args) => change::run_app(AppVerb::Disable, args),
        AppCommand::Promote(args) => change::run_app(AppVerb::Promote, args),
        AppCommand::Upgrade(args) => install::upgrade(args),
        AppCommand::Rollback(args) => change::run_app(AppVerb::Rollback, args),
    }
}
