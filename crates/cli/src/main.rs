//! `rosemary`, the operator's command. See the library.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use monitor::options::Options;
use rosemary_cli::app::{self, AppCommand};
use rosemary_cli::apps::{self, AppsArgs};
use rosemary_cli::demo::{self, DemoArgs};
use rosemary_cli::doctor::{self, DoctorArgs};
use rosemary_cli::flows::{self, FlowsArgs};
use rosemary_cli::logs::{self, LogsArgs};
use rosemary_cli::ofp::{self, OfpArgs};
use rosemary_cli::packages::key::{self, KeyCommand};
use rosemary_cli::pki::{self, PkiArgs};
use rosemary_cli::status::{self, StatusArgs};
use rosemary_cli::switches::{self, SwitchesArgs};
use rosemary_cli::top::{self, TopArgs};
use rosemary_cli::{say, up};

/// Rosemary: an SDN controller that stays up when its applications do not.
///
/// Switches speak OpenFlow to it; applications, each confined to a zone of its own, decide where
/// packets go.
#[derive(Debug, Parser)]
#[command(name = "rosemary", version, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
First steps:
  rosemary demo          see it working on this machine, with switches and hosts of its own
  rosemary up            run it; then let a switch connect:
                           ovs-vsctl set-controller BRIDGE tcp:127.0.0.1:6653
  rosemary pki           make keys, for switches that connect from elsewhere, over TLS
  rosemary status        see what runs and which switches are connected
  rosemary app new NAME  begin an app of your own

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 78 a mistake in the configuration
keeps `up` from starting.";

const ABOUT_UP: &str = "\
Run Rosemary in the foreground, until Ctrl-C or SIGTERM.

Starts the kernel, to which switches connect, and each app in a zone: those of the configuration or \
of --app, or else the learning switch. When root runs it, the kernel and the apps get users of \
their own. Switches of this machine may speak plain TCP; others, and these too, TLS, at the same port, \
once `rosemary pki init` has made keys. The environment variable ROSEMARY_LOG sets what is logged to \
standard error: error, warn, info (the default) or debug.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run Rosemary in the foreground, until Ctrl-C or SIGTERM
    #[command(long_about = ABOUT_UP)]
    Up(Options),
    /// Show what runs and which switches are connected
    Status(StatusArgs),
    /// Make keys and certificates, for switches that connect over TLS
    Pki(PkiArgs),
    /// Show the connected switches and what was counted for each
    Switches(SwitchesArgs),
    /// Show the flows of a switch, and whose they are
    Flows(FlowsArgs),
    /// Show the apps, their rights and how they fare
    Apps(AppsArgs),
    /// Show how much each program uses, live
    Top(TopArgs),
    /// Show what programs have logged
    Logs(LogsArgs),
    /// Make apps and packages of them, install those of others
    #[command(subcommand)]
    App(AppCommand),
    /// Make the keys that you sign your apps with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Try what this machine lets Rosemary put around an app; exit code 1 if there are gaps
    Doctor(DoctorArgs),
    /// Show Rosemary working on this machine, with switches and hosts of its own
    Demo(DemoArgs),
    /// Show and check OpenFlow messages: captures, streams, hexadecimal lines
    Ofp(OfpArgs),
    /// Print what makes a shell complete this command's words
    #[command(after_help = "For bash: rosemary completions bash > /etc/bash_completion.d/rosemary")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual's pages, one per command, into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(text) => {
            // Help and version too; clap knows which of them goes where.
            let printed = text.print();
            if !text.use_stderr()
                && let Err(error) = say::written(printed)
            {
                say::error(&error);
                return ExitCode::FAILURE;
            }
            return u8::try_from(text.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let done = match &arguments.command {
        Command::Up(options) => up::run(options).map(|never| match never {}),
        Command::Status(args) => status::run(args).map(|()| ExitCode::SUCCESS),
        Command::Pki(args) => pki::run(args).map(|()| ExitCode::SUCCESS),
        Command::Switches(args) => switches::run(args).map(|()| ExitCode::SUCCESS),
        Command::Flows(args) => flows::run(args).map(|()| ExitCode::SUCCESS),
        Command::Apps(args) => apps::run(args).map(|()| ExitCode::SUCCESS),
        Command::Top(args) => top::run(args).map(|()| ExitCode::SUCCESS),
        Command::Logs(args) => logs::run(args).map(|()| ExitCode::SUCCESS),
        Command::App(command) => app::run(command).map(|()| ExitCode::SUCCESS),
        Command::Key(command) => key::run(command).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "rosemary", &mut script);
            say::data(String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)
        }
        Command::Man { dir } => write_manual(dir).map(|()| ExitCode::SUCCESS),
        Command::Ofp(args) => ofp::run(args),
    };
    done.unwrap_or_else(|error| {
        say::error(&error);
        ExitCode::FAILURE
    })
}

fn write_manual(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), dir))
        .with_context(|| format!("cannot write the manual into {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
