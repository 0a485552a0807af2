//! `rosemary`, the operator's command. See the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use monitor::options::Options;
use rosemary_cli::demo::{self, DemoArgs};
use rosemary_cli::ofp::{self, OfpArgs};
use rosemary_cli::pki::{self, PkiArgs};
use rosemary_cli::status::{self, StatusArgs};
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
  rosemary demo      see it working on this machine, with switches and hosts of its own
  rosemary up        run it; then let a switch connect:
                       ovs-vsctl set-controller BRIDGE tcp:127.0.0.1:6653
  rosemary pki       make keys, for switches that connect from elsewhere, over TLS
  rosemary status    see what runs and which switches are connected

Exit codes: 0 done, 1 refused or failed, 2 wrong usage.";

const ABOUT_UP: &str = "\
Run Rosemary in the foreground, until Ctrl-C or SIGTERM.

Starts the kernel, to which switches connect, and the learning switch in a zone. When root runs it, \
the kernel and the app get users of their own. \
Switches of this machine may speak plain TCP; others, and these too, TLS, at the same port, once \
`rosemary pki init` has made keys. The environment variable ROSEMARY_LOG sets what is \
logged to standard error: error, warn, info (the default) or debug.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run Rosemary in the foreground, until Ctrl-C or SIGTERM
    #[command(long_about = ABOUT_UP)]
    Up(Options),
    /// Show what runs and which switches are connected
    Status(StatusArgs),
    /// Make keys and certificates, for switches that connect over TLS
    Pki(PkiArgs),
    /// Show Rosemary working on this machine, with switches and hosts of its own
    Demo(DemoArgs),
    /// Show and check OpenFlow messages: captures, streams, hexadecimal lines
    Ofp(OfpArgs),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(text) => {
            // Help and version too; clap knows which of them goes where.
            let _ = text.print();
            return u8::try_from(text.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let done = match &arguments.command {
        Command::Up(options) => up::run(options).map(|never| match never {}),
        Command::Status(args) => status::run(args).map(|()| ExitCode::SUCCESS),
        Command::Pki(args) => pki::run(args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(args),
        Command::Ofp(args) => ofp::run(args),
    };
    done.unwrap_or_else(|error| {
        say::error(&error);
        ExitCode::FAILURE
    })
}
