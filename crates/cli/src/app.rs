//! `rosemary app`: apps from the first line to the last version.

use clap::Subcommand;

use crate::logs::{self, AppLogsArgs};
use crate::packages::build::{self, BuildArgs};
use crate::packages::install::{self, ListArgs, PackageArgs, RemoveArgs};
use crate::packages::sign::{self, SignArgs};
use crate::scaffold::{self, NewArgs};

/// What `rosemary app` does.
#[derive(Debug, Clone, Subcommand)]
pub enum AppCommand {
    /// Make a new app that builds and runs as it is
    New(NewArgs),
    /// Compile an app and make a package of it
    Build(BuildArgs),
    /// Sign a package with your key
    Sign(SignArgs),
    /// Say who signed a package and what it asks for, or why it would be refused
    Verify(PackageArgs),
    /// Install a package, so that the configuration can name its app
    Install(PackageArgs),
    /// Remove an installed package
    Remove(RemoveArgs),
    /// Show the installed packages
    List(ListArgs),
    /// Show what an app has logged
    Logs(AppLogsArgs),
}

/// Does it.
///
/// # Errors
/// What kept it from being done.
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
    }
}
