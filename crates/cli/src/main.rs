//! The `rosemary` command; see the library.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use config::instance::InstancePaths;
use rosemary_cli::accounts::{self, AccountsArgs};
use rosemary_cli::app::{self, AppCommand};
use rosemary_cli::apps::{self, AppsArgs};
use rosemary_cli::backup::{self, BackupArgs, RestoreArgs};
use rosemary_cli::change::{self, ReloadArgs};
use rosemary_cli::complete::{self, Names};
use rosemary_cli::config_changes::{self, ChangesArgs, ConfirmArgs, UndoArgs};
use rosemary_cli::demo::{self, DemoArgs};
use rosemary_cli::doctor::{self, DoctorArgs};
use rosemary_cli::events::{self, EventsArgs};
use rosemary_cli::faucet::{self, FaucetArgs};
use rosemary_cli::flows::{self, FlowsArgs};
use rosemary_cli::hosts::{self, HostsArgs};
use rosemary_cli::incidents::{self, IncidentsArgs};
use rosemary_cli::logs::{self, LogsArgs};
use rosemary_cli::ofp::{self, OfpArgs};
use rosemary_cli::packages::key::{self, KeyCommand};
use rosemary_cli::packages::release::{self, ReleaseCommand};
use rosemary_cli::pki::{self, PkiArgs};
use rosemary_cli::ports::{self, PortsArgs};
use rosemary_cli::ryu::{self, RyuArgs};
use rosemary_cli::safe_mode::{self, SafeModeArgs};
use rosemary_cli::sessions::{self, SessionCommand};
use rosemary_cli::stats::{self, StatsArgs};
use rosemary_cli::status::{self, StatusArgs};
use rosemary_cli::switch::{self, SwitchCommand};
use rosemary_cli::switches::{self, SwitchesArgs};
use rosemary_cli::token::{self, TokenCommand, UiArgs};
use rosemary_cli::top::{self, TopArgs};
use rosemary_cli::topology::links::{self, LinksArgs};
use rosemary_cli::topology::path::{self, PathArgs};
use rosemary_cli::topology::{self, TopologyArgs};
use rosemary_cli::trace::{self, TraceArgs};
use rosemary_cli::up::{self, UpArgs};
use rosemary_cli::{exit, manual, say};

/// Rosemary: an SDN controller that stays up when its applications do not.
///
/// Switches connect with OpenFlow; applications, each confined to its own zone, control the
/// forwarding.
#[derive(Debug, Parser)]
#[command(name = "rosemary", version, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
First steps:
  rosemary demo          demonstrate it, with switches and hosts on this machine
  rosemary up            run it; then connect a switch:
                           ovs-vsctl set-controller BRIDGE tcp:127.0.0.1:6653
  rosemary pki           create keys for remote switches, which connect over TLS
  rosemary status        show the running programs and the connected switches
  rosemary app new NAME  create an app

Exit codes: 0 success, 1 rejected or failed, 2 wrong usage, 3 `status`: degraded, 78 a mistake in the configuration.";

const ABOUT_UP: &str = "\
Run Rosemary in the foreground, until Ctrl-C or SIGTERM.

Starts the kernel, to which switches connect, and each app in a zone: the apps of the configuration or \
of --app, by default `forwarding` and `stats`. If root runs it, the kernel and each app run as separate users. \
Switches on this machine may use plain TCP. Once `rosemary pki init` has created keys, all switches may \
use TLS on the same port. The environment variable ROSEMARY_LOG sets the log level on standard error: \
error, warn, info (the default) or debug.";

const AFTER_HELP_COMPLETIONS: &str = "\
For you alone, in a new shell:
  bash  rosemary completions bash > ~/.local/share/bash-completion/completions/rosemary
  zsh   rosemary completions zsh > DIR/_rosemary, with DIR in $fpath
  fish  rosemary completions fish > ~/.config/fish/completions/rosemary.fish
`make install` installs them for all users. They complete the names of switches and apps, too.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run Rosemary in the foreground, until Ctrl-C or SIGTERM
    #[command(long_about = ABOUT_UP)]
    Up(UpArgs),
    /// Apply the configuration as it is now, with the least disturbance
    Reload(ReloadArgs),
    /// Keep the configuration that waits for a confirmation
    Confirm(ConfirmArgs),
    /// Show the last changes of the configuration, or the difference that one has made
    Changes(ChangesArgs),
    /// Apply the configuration before a change again
    Undo(UndoArgs),
    /// Show the running programs and the connected switches
    Status(StatusArgs),
    /// Create keys and certificates for switches that connect over TLS
    Pki(PkiArgs),
    /// Show the connected switches and their counters, or one switch in full
    Switches(SwitchesArgs),
    /// Show the ports of the switches and their counters
    Ports(PortsArgs),
    /// Adopt a switch by its database, show the database, or keep traffic away from a switch
    #[command(subcommand)]
    Switch(SwitchCommand),
    /// Show the switches and how they are linked, also as a drawing
    Topology(TopologyArgs),
    /// Show the links between switches
    Links(LinksArgs),
    /// Show the best paths between two places of the network
    Path(PathArgs),
    /// Show the flows of a switch and their owners
    Flows(FlowsArgs),
    /// Show the hosts of the network, where they are, and their addresses
    Hosts(HostsArgs),
    /// Show counters and rates of the ports of all switches, or of one switch in full
    Stats(StatsArgs),
    /// Show the entries that a packet takes across the network, and their owners
    Trace(TraceArgs),
    /// Show the apps and their counters, or one app in full
    Apps(AppsArgs),
    /// Show the resource use of each program, live
    Top(TopArgs),
    /// Print the address of the web page, and open it
    Ui(UiArgs),
    /// Show the resources that apps and Rosemary's programs have used
    Accounts(AccountsArgs),
    /// Show sessions and their reservations, and change them
    #[command(subcommand)]
    Session(SessionCommand),
    /// Make, show and revoke tokens of the HTTP interface
    #[command(subcommand)]
    Token(TokenCommand),
    /// Show the log of all programs
    Logs(LogsArgs),
    /// Show what went wrong: programs that ended, why, and how Rosemary reacted
    Incidents(IncidentsArgs),
    /// Show what happens, as it happens: switches, ports, links, programs, incidents, changes
    Events(EventsArgs),
    /// Show and end safe mode, which starts the apps one at a time
    SafeMode(SafeModeArgs),
    /// Start, stop, upgrade, create, package and install apps, and show their logs
    #[command(subcommand)]
    App(AppCommand),
    /// Run apps of Ryu or os-ken, unmodified, each in a zone of its own
    Ryu(RyuArgs),
    /// Run Faucet, unmodified, in a zone of its own
    Faucet(FaucetArgs),
    /// Create the keys that sign your apps
    #[command(subcommand)]
    Key(KeyCommand),
    /// Make and sign the manifest of an installation, for a verified start
    #[command(subcommand)]
    Release(ReleaseCommand),
    /// Save the configuration, keys, packages and storage in one encrypted file
    Backup(BackupArgs),
    /// Put the contents of a backup in their places; Rosemary must not run
    Restore(RestoreArgs),
    /// Check which sandbox mechanisms this machine supports; exit code 1 if some are missing
    Doctor(DoctorArgs),
    /// Demonstrate Rosemary on this machine, with its own switches and hosts
    Demo(DemoArgs),
    /// Show and check OpenFlow messages: captures, streams, hexadecimal lines
    Ofp(OfpArgs),
    /// Print a completion script for a shell
    #[command(after_help = AFTER_HELP_COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the names of switches or apps, for completion scripts
    #[command(hide = true)]
    Complete {
        /// What to print
        kind: Names,
        /// The instance to query
        #[command(flatten)]
        instance: InstancePaths,
    },
    /// Write the manual pages, one per command and one for the configuration, to a directory
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
            // Help and version arrive here as well; clap selects the stream.
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
        Command::Up(args) => up::run(args),
        Command::Reload(args) => change::reload(args).map(|()| ExitCode::SUCCESS),
        Command::Confirm(args) => config_changes::confirm(args).map(|()| ExitCode::SUCCESS),
        Command::Changes(args) => config_changes::run(args).map(|()| ExitCode::SUCCESS),
        Command::Undo(args) => config_changes::undo(args).map(|()| ExitCode::SUCCESS),
        Command::Status(args) => status::run(args),
        Command::Pki(args) => pki::run(args).map(|()| ExitCode::SUCCESS),
        Command::Switches(args) => switches::run(args).map(|()| ExitCode::SUCCESS),
        Command::Ports(args) => ports::run(args).map(|()| ExitCode::SUCCESS),
        Command::Switch(command) => switch::run(command).map(|()| ExitCode::SUCCESS),
        Command::Topology(args) => topology::run(args).map(|()| ExitCode::SUCCESS),
        Command::Links(args) => links::run(args).map(|()| ExitCode::SUCCESS),
        Command::Path(args) => path::run(args).map(|()| ExitCode::SUCCESS),
        Command::Flows(args) => flows::run(args).map(|()| ExitCode::SUCCESS),
        Command::Hosts(args) => hosts::run(args).map(|()| ExitCode::SUCCESS),
        Command::Stats(args) => stats::run(args).map(|()| ExitCode::SUCCESS),
        Command::Trace(args) => trace::run(args).map(|()| ExitCode::SUCCESS),
        Command::Apps(args) => apps::run(args).map(|()| ExitCode::SUCCESS),
        Command::Top(args) => top::run(args).map(|()| ExitCode::SUCCESS),
        Command::Ui(args) => token::open(args).map(|()| ExitCode::SUCCESS),
        Command::Accounts(args) => accounts::run(args).map(|()| ExitCode::SUCCESS),
        Command::Session(command) => sessions::run(command).map(|()| ExitCode::SUCCESS),
        Command::Token(command) => token::run(command).map(|()| ExitCode::SUCCESS),
        Command::Logs(args) => logs::run(args).map(|()| ExitCode::SUCCESS),
        Command::Incidents(args) => incidents::run(args).map(|()| ExitCode::SUCCESS),
        Command::Events(args) => events::run(args).map(|()| ExitCode::SUCCESS),
        Command::SafeMode(command) => safe_mode::run(command).map(|()| ExitCode::SUCCESS),
        Command::App(command) => app::run(command).map(|()| ExitCode::SUCCESS),
        Command::Ryu(args) => ryu::run(args),
        Command::Faucet(args) => faucet::run(args),
        Command::Key(command) => key::run(command).map(|()| ExitCode::SUCCESS),
        Command::Release(command) => release::run(command).map(|()| ExitCode::SUCCESS),
        Command::Backup(args) => backup::backup(args).map(|()| ExitCode::SUCCESS),
        Command::Restore(args) => backup::restore(args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Completions { shell } => {
            complete::script(*shell, &Arguments::command()).map(|()| ExitCode::SUCCESS)
        }
        Command::Complete { kind, instance } => {
            complete::names(*kind, instance).map(|()| ExitCode::SUCCESS)
        }
        Command::Man { dir } => {
            manual::write(Arguments::command(), dir).map(|()| ExitCode::SUCCESS)
        }
        Command::Ofp(args) => ofp::run(args),
    };
    done.unwrap_or_else(|error| {
        say::error(&error);
        exit::code(&error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds `command` and its subcommands that have `--json`, as they are typed.
    fn with_json(command: &clap::Command, typed: &str, found: &mut Vec<String>) {
        if command.get_arguments().any(|it| it.get_long() == Some("json")) {
            found.push(typed.to_owned());
        }
        for inner in command.get_subcommands() {
            with_json(inner, &format!("{typed} {}", inner.get_name()), found);
        }
    }

    #[test]
    fn every_command_with_json_has_a_schema() {
        let mut commands = Vec::new();
        with_json(&Arguments::command(), "rosemary", &mut commands);
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");
        let files = std::fs::read_dir(dir).unwrap();
        let schemas: String =
            files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        // `change.schema.json` describes the commands that change a running Rosemary.
        let is_described = |command: &String| {
            let change =
                command.starts_with("rosemary app ") || command == "rosemary safe-mode exit";
            change || schemas.contains(&format!("{command} "))
        };
        commands.retain(|command| !is_described(command));
        assert_eq!(commands, [""; 0], "without a schema");
    }

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
