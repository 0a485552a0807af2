//! `rosemary switch`: changes a switch, or shows its configuration.
//!
//! | module | content |
//! | --- | --- |
//! | [`adopt`] | `switch adopt`: points a bridge of Open vSwitch to this Rosemary |
//! | [`ovsdb`] | `switch ovsdb`: shows the database of a switch |
//! | `database` | connects to the database, and the tables that both commands read |
//! | [`drain`](crate::topology::drain) | `switch drain`, `switch undrain` |

pub mod adopt;
mod database;
pub mod ovsdb;

use clap::Subcommand;

use self::adopt::AdoptArgs;
use self::ovsdb::OvsdbArgs;
use crate::topology::drain::{self, DrainArgs};

/// Changes a switch, or shows its configuration.
#[derive(Debug, Clone, Subcommand)]
pub enum SwitchCommand {
    /// Point a bridge of Open vSwitch to this Rosemary, by its database
    #[command(after_help = adopt::AFTER_HELP)]
    Adopt(AdoptArgs),
    /// Show bridges, ports, interfaces, queues, mirrors and exports of a switch, by its database
    #[command(after_help = ovsdb::AFTER_HELP)]
    Ovsdb(OvsdbArgs),
    /// Keep traffic away from a switch, except that of its own hosts
    #[command(after_help = drain::AFTER_HELP)]
    Drain(DrainArgs),
    /// End the drain of a switch
    #[command(after_help = drain::AFTER_HELP)]
    Undrain(DrainArgs),
}

/// Runs the command.
///
/// # Errors
/// The switch or Rosemary does not answer, or refuses.
pub fn run(command: &SwitchCommand) -> anyhow::Result<()> {
    match command {
        SwitchCommand::Adopt(args) => adopt::run(args),
        SwitchCommand::Ovsdb(args) => ovsdb::run(args),
        SwitchCommand::Drain(args) => drain::run(args, true),
        SwitchCommand::Undrain(args) => drain::run(args, false),
    }
}
