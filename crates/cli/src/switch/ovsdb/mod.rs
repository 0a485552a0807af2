//! `rosemary switch ovsdb`: shows the database of a switch.

mod records;
mod shown;

use anyhow::Context as _;
use clap::Args;
use config::Config;

use self::records::Database;
use super::database::DatabaseArgs;
use crate::say;
use crate::table::output_width;

pub(super) const AFTER_HELP: &str = "\
The command reads the tables at once, and changes nothing. Rosemary need not run.

The server must listen: on the switch `ovs-vsctl set-manager pssl:6640`, with the files of `rosemary pki switch` in `ovs-vsctl \
set-ssl`. On this machine unix:/run/openvswitch/db.sock reaches it. tcp: is neither encrypted nor authenticated.

SPEED is that of the link in Mbit/s, ERRORS counts received and sent packets with errors, LACP is `current` if the peer of the \
interface speaks LACP, STP the state of the port. OWNER is the value of rosemary-owner in external_ids. A dash means that the switch does not state it (null in JSON).

Exit codes: 0 shown; 1 the database does not answer or lacks a column; 2 wrong usage.";

/// Options of `rosemary switch ovsdb`.
#[derive(Debug, Clone, Args)]
pub struct OvsdbArgs {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print JSON: an object with a list per table
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
}

/// Reads the database and shows it.
///
/// # Errors
/// The database does not answer or lacks a column, or the output cannot be written.
pub fn run(args: &OvsdbArgs) -> anyhow::Result<()> {
    let config = Config::load(args.database.instance.config.as_deref())?;
    let connection = args.database.connect(&config)?;
    let schema = connection.schema().map(|it| it.version.clone()).unwrap_or_default();
    let database = Database::of(connection.image(), args.database.address.to_string(), schema);
    if args.json {
        let json = serde_json::to_string(&database).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if database.bridges.is_empty() {
        say::note("the switch has no bridge");
        return Ok(());
    }
    let (text, notes) = shown::tables(&database, output_width(args.wide));
    say::data(text)?;
    notes.iter().for_each(say::note);
    Ok(())
}
