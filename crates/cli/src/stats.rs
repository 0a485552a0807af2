//! `rosemary stats`: shows counters and rates of ports, and of the tables, groups and meters of a switch.

mod history;

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use config::instance::InstancePaths;
use openflow::{Dpid, PortNo};
use sdk::services::Service;
use sdk::services::layout::records;
use sdk::services::stats::{History, HistoryRequest, Record};
use view::stats::{PortLine, Report, SampleLine, TableLine, TrafficLine, report, sample};

use crate::client::{self, Provided};
use crate::say;
use crate::switch_name::SwitchName;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
The figures come from the service `stats`, which polls all switches and runs when an app names it. RX counts what the switch \
received at the port, TX what it sent. Rates are of the time between the last two polls, in thousands of bits and in packets \
per second. A dash means that there is no figure (null in JSON): the switch does not count it, or its answers give no rate. \
STATE is `stale` if the switch did not answer the last polls, and `implausible` if its last answers contradict each other. \
AGE is the time since the figures were read.

With SWITCH, the tables, groups and meters are shown, too. --history shows the rates of a port over the last minutes; `rosemary stats \
history` shows a day, a month or a year, if the configuration has [history].

Exit codes: 0 success; 1 no such switch or port, or the service or Rosemary does not run; 2 wrong usage.";

/// Options of `rosemary stats`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct StatsArgs {
    /// What to show instead.
    #[command(subcommand)]
    pub command: Option<StatsCommand>,
    /// A switch: its datapath id, such as 00:00:00:00:00:00:00:01, 0x1 or 1, or its name [default: all switches]
    pub switch: Option<SwitchName>,
    /// Show the rates of this port of SWITCH over the last minutes
    #[arg(long, value_name = "PORT", requires = "switch", value_parser = parse_port)]
    pub history: Option<PortNo>,
    /// Print JSON: an object with switches, ports, tables, groups and meters; with --history, a list of samples
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Subcommands of `rosemary stats`.
#[derive(Debug, Clone, Subcommand)]
pub enum StatsCommand {
    /// Show figures over time: of the network, a switch, port, link, app or program
    History(history::HistoryArgs),
}

fn parse_port(text: &str) -> Result<PortNo, String> {
    if text.eq_ignore_ascii_case("local") {
        return Ok(PortNo::LOCAL);
    }
    text.parse().map(PortNo).map_err(|_| "not a port; write its number, or LOCAL".to_owned())
}

/// The figures; their JSON is a stable interface.
/// Queries and prints.
///
/// # Errors
/// Rosemary or the service does not run, there is no such switch or port, or the output cannot be written.
pub fn run(args: &StatsArgs) -> anyhow::Result<()> {
    if let Some(StatsCommand::History(args)) = &args.command {
        return history::run(args);
    }
    let monitor = client::connect(&args.instance)?;
    let service = monitor.service(Service::Stats)?;
    let switch = args.switch.as_ref().map(|it| it.dpid(&monitor)).transpose()?;
    if let (Some(dpid), Some(port)) = (switch, args.history) {
        return show_history(&service, dpid, port, args);
    }
    let records = records(&service).filter_map(|slot| Record::of_slot(&slot));
    let report = report(records.collect(), switch, sys::clock::now_ns() / 1_000_000);
    if args.json {
        let json = serde_json::to_string(&report).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    } else {
        show(&report, args)?;
    }
    match switch {
        Some(dpid) if report.switches.is_empty() => {
            bail!(
                "there are no figures of {dpid}; `rosemary switches` shows the connected switches"
            )
        }
        _ => Ok(()),
    }
}

fn show(report: &Report, args: &StatsArgs) -> anyhow::Result<()> {
    let width = output_width(args.wide);
    if report.ports.is_empty() {
        say::note("there are no figures of ports yet");
    } else {
        say::table(&ports(&report.ports).format(width))?;
    }
    if args.switch.is_none() {
        return Ok(());
    }
    if !report.tables.is_empty() {
        say::data("\n")?;
        say::table(&tables(&report.tables).format(width))?;
    }
    for (heading, lines) in [("GROUP", &report.groups), ("METER", &report.meters)] {
        if !lines.is_empty() {
            say::data("\n")?;
            say::table(&traffic(heading, lines).format(width))?;
        }
    }
    Ok(())
}

fn show_history(
    service: &Provided,
    dpid: Dpid,
    port: PortNo,
    args: &StatsArgs,
) -> anyhow::Result<()> {
    let answer = service.request(&HistoryRequest { dpid, port }.encode())?;
    let samples = match History::decode(&answer) {
        Some(History::Samples(samples)) => samples,
        Some(History::Unknown) => {
            bail!("there are no figures of port {port} of {dpid}; `rosemary stats` shows all ports")
        }
        Some(History::Malformed) | None => {
            bail!(
                "the service stats did not understand; check that it has the same version as this command"
            )
        }
    };
    let now_s = sys::clock::now_ns() / 1_000_000_000;
    let lines: Vec<SampleLine> = samples.iter().map(|it| sample(it, now_s)).collect();
    if args.json {
        let json = serde_json::to_string(&lines).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    if lines.is_empty() {
        say::note("there is no rate yet");
        return Ok(());
    }
    let mut table = Table::new(["AGE", "RX-KBPS", "TX-KBPS", "RX-PPS", "TX-PPS"]);
    for it in &lines {
        let age = format!("{} s", it.age_seconds);
        let [rx_kbps, tx_kbps] = [it.rx_kbps, it.tx_kbps].map(|it| it.to_string());
        let [rx_pps, tx_pps] = [it.rx_pps, it.tx_pps].map(|it| it.to_string());
        table.row([&age, &rx_kbps, &tx_kbps, &rx_pps, &tx_pps]);
    }
    say::table(&table.format(output_width(args.wide)))
}

/// Returns a figure as text; a dash if there is none.
fn figure<T: ToString>(figure: Option<T>) -> String {
    figure.map_or("-".to_owned(), |figure| figure.to_string())
}

fn thousands(bits: Option<u64>) -> String {
    figure(bits.map(|bits| (bits + 500) / 1000))
}

fn seconds(age_ms: Option<u64>) -> String {
    let mut text = String::new();
    match age_ms {
        Some(age_ms) => {
            let _ = write!(text, "{}.{} s", age_ms / 1000, age_ms % 1000 / 100); // a String takes everything
        }
        None => text.push('-'),
    }
    text
}

fn ports(lines: &[PortLine]) -> Table<16> {
    let mut table = Table::new([
        "SWITCH",
        "PORT",
        "RX-KBPS",
        "TX-KBPS",
        "RX-PPS",
        "TX-PPS",
        "RX-PACKETS",
        "TX-PACKETS",
        "RX-BYTES",
        "TX-BYTES",
        "RX-DROPPED",
        "TX-DROPPED",
        "RX-ERRORS",
        "TX-ERRORS",
        "AGE",
        "STATE",
    ])
    .expendable(&[
        "RX-ERRORS",
        "TX-ERRORS",
        "RX-DROPPED",
        "TX-DROPPED",
        "RX-PACKETS",
        "TX-PACKETS",
        "RX-BYTES",
        "TX-BYTES",
        "AGE",
    ]);
    for it in lines {
        table.row([
            &it.dpid,
            &it.port,
            &thousands(it.rx_bps),
            &thousands(it.tx_bps),
            &figure(it.rx_pps),
            &figure(it.tx_pps),
            &figure(it.rx_packets),
            &figure(it.tx_packets),
            &figure(it.rx_bytes),
            &figure(it.tx_bytes),
            &figure(it.rx_dropped),
            &figure(it.tx_dropped),
            &figure(it.rx_errors),
            &figure(it.tx_errors),
            &seconds(it.age_ms),
            it.state,
        ]);
    }
    table
}

fn tables(lines: &[TableLine]) -> Table<7> {
    let head = ["TABLE", "FLOWS", "LOOKUPS", "MATCHED", "LOOKUPS/S", "AGE", "STATE"];
    let mut table = Table::new(head).expendable(&["AGE", "LOOKUPS/S"]);
    for it in lines {
        table.row([
            &it.table.to_string(),
            &figure(it.flows),
            &figure(it.lookups),
            &figure(it.matches),
            &figure(it.lookups_per_second),
            &seconds(it.age_ms),
            it.state,
        ]);
    }
    table
}

fn traffic(heading: &str, lines: &[TrafficLine]) -> Table<7> {
    let head = [heading, "PACKETS", "BYTES", "PPS", "KBPS", "AGE", "STATE"];
    let mut table = Table::new(head).expendable(&["AGE"]);
    for it in lines {
        table.row([
            &it.number.to_string(),
            &figure(it.packets),
            &figure(it.bytes),
            &figure(it.pps),
            &thousands(it.bps),
            &seconds(it.age_ms),
            it.state,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use sdk::services::stats::{PortCounters, PortRates, Quality, TableStats};

    use super::*;

    fn records() -> Vec<Record> {
        let (dpid, port, quality) = (Dpid(1), PortNo(2), Quality::default());
        let stale = Quality { is_stale: true, is_implausible: false };
        vec![
            Record::Rates(PortRates {
                dpid,
                port,
                quality,
                rx_bps: Some(1_499_600),
                tx_bps: None,
                rx_pps: Some(9),
                tx_pps: None,
                rx_dropped: Some(1),
                tx_dropped: None,
                rx_errors: Some(0),
                tx_errors: Some(0),
            }),
            Record::Port(PortCounters {
                dpid,
                port,
                quality,
                rx_packets: Some(30),
                tx_packets: Some(40),
                rx_bytes: Some(3000),
                tx_bytes: None,
                read_ms: 1000,
            }),
            Record::Table(TableStats {
                dpid: Dpid(2),
                table: 0,
                quality: stale,
                flows: Some(3),
                lookups: Some(4),
                matches: Some(2),
                lookups_per_s: None,
                read_ms: 2000,
            }),
        ]
    }

    #[test]
    fn port_is_one_line() {
        let report = report(records(), None, 2550);
        let formatted = ports(&report.ports).format(Some(100));
        assert_eq!(
            formatted.text,
            "\
SWITCH                   PORT  RX-KBPS  TX-KBPS  RX-PPS  TX-PPS  RX-BYTES  TX-BYTES  AGE    STATE
00:00:00:00:00:00:00:01  2     1500     -        9       -       3000      -         1.5 s  current
"
        );
        assert_eq!((report.tables[0].state, report.tables[0].age_ms), ("stale", Some(550)));
    }

    #[test]
    fn figures_of_one_switch_are_selected() {
        let report = report(records(), Some(Dpid(2)), 2550);
        assert_eq!((report.ports.len(), report.tables.len()), (0, 1));
        assert_eq!(parse_port("local"), Ok(PortNo::LOCAL));
        assert!(parse_port("eth0").is_err());
    }
}
