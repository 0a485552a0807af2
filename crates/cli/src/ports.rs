//! `rosemary ports`: shows the ports of switches and their counters.

use anyhow::Context as _;
use clap::Args;
use config::instance::InstancePaths;
use control::details::PortDetails;
use openflow::Dpid;
use serde::Serialize;

use crate::client::{self, Kernel};
use crate::say;
use crate::switch_name::{SwitchName, about_switch, not_connected};
use crate::table::{Table, output_width};

const AFTER_HELP: &str = concat!(
    about_switch!(),
    " \
STATE is `down` if the port was switched off or has no link. SPEED is that of the link in Mbit/s. RX counts what \
the switch received at the port, TX what it sent. A dash means that the switch does not count it (null in JSON).

Rosemary requests the counters from the switches now. A switch that does not answer in time is reported, and the others \
are shown.

Exit codes: 0 all switches answered; 1 one did not answer or is not connected, or Rosemary does not run; 2 wrong usage."
);

/// Options of `rosemary ports`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct PortsArgs {
    /// A switch: its datapath id, such as 00:00:00:00:00:00:00:01, 0x1 or 1, or its name [default: all switches]
    pub switch: Option<SwitchName>,
    /// Print JSON: a list with an object per port
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// A port of a switch; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
struct Line {
    /// The switch's datapath id.
    dpid: String,
    #[serde(flatten)]
    port: PortDetails,
}

/// Queries and prints.
///
/// # Errors
/// Rosemary is not running, a switch is not connected or does not answer, or the output cannot be written.
pub fn run(args: &PortsArgs) -> anyhow::Result<()> {
    let kernel = client::connect(&args.instance)?.kernel()?;
    let (mut lines, mut failed) = (Vec::new(), None);
    let switches: Vec<String> = match &args.switch {
        Some(switch) => vec![switch.dpid_of(&kernel)?.to_string()],
        None => kernel.switches()?.into_iter().map(|switch| switch.dpid).collect(),
    };
    if switches.is_empty() {
        say::note("no switch is connected");
    }
    for dpid in switches {
        match ports(&kernel, &dpid) {
            Ok(ports) => {
                lines.extend(ports.into_iter().map(|port| Line { dpid: dpid.clone(), port }));
            }
            Err(error) if args.switch.is_some() => return Err(error),
            Err(error) => {
                say::error(&error);
                failed = Some(dpid);
            }
        }
    }
    if args.json {
        let json = serde_json::to_string(&lines).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    } else if !lines.is_empty() {
        let width = output_width(args.wide);
        say::table(&table(lines.iter().map(|it| (it.dpid.as_str(), &it.port))).format(width))?;
    }
    match failed {
        Some(_) => anyhow::bail!("not all switches are shown"),
        None => Ok(()),
    }
}

/// Requests the ports of one switch.
fn ports(kernel: &Kernel, dpid: &str) -> anyhow::Result<Vec<PortDetails>> {
    let number: Dpid = dpid.parse()?;
    let ports = kernel.ports(number.0);
    let ports = ports.with_context(|| format!("cannot query the ports of {dpid}"))?;
    match ports {
        Some(ports) => Ok(ports),
        None => Err(not_connected(kernel, number)),
    }
}

/// Returns one line per port.
pub(crate) fn table<'a>(ports: impl Iterator<Item = (&'a str, &'a PortDetails)>) -> Table<14> {
    let mut table = Table::new([
        "SWITCH",
        "PORT",
        "NAME",
        "STATE",
        "SPEED",
        "ADDRESS",
        "RX-PACKETS",
        "TX-PACKETS",
        "RX-BYTES",
        "TX-BYTES",
        "RX-DROPPED",
        "TX-DROPPED",
        "RX-ERRORS",
        "TX-ERRORS",
    ])
    .expendable(&[
        "ADDRESS",
        "RX-ERRORS|TX-ERRORS",
        "RX-DROPPED|TX-DROPPED",
        "SPEED",
        "RX-BYTES|TX-BYTES",
    ]);
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    for (dpid, port) in ports {
        let speed = port.speed_kbps.map(|speed| u64::from(speed) / 1000);
        table.row([
            dpid,
            &port.port,
            &port.name,
            if port.up { "up" } else { "down" },
            &count(speed),
            &port.hw_addr,
            &count(port.rx_packets),
            &count(port.tx_packets),
            &count(port.rx_bytes),
            &count(port.tx_bytes),
            &count(port.rx_dropped),
            &count(port.tx_dropped),
            &count(port.rx_errors),
            &count(port.tx_errors),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_one_line() {
        let port = PortDetails {
            port: "1".into(),
            name: "eth1".into(),
            hw_addr: "02:00:00:00:00:01".into(),
            up: true,
            speed_kbps: Some(10_000_000),
            rx_packets: Some(3),
            tx_packets: None,
            rx_bytes: Some(180),
            tx_bytes: None,
            rx_dropped: Some(0),
            tx_dropped: Some(0),
            rx_errors: Some(0),
            tx_errors: Some(0),
        };
        let local =
            PortDetails { port: "LOCAL".into(), up: false, speed_kbps: None, ..port.clone() };
        let dpid = "00:00:00:00:00:00:00:01";
        let formatted = table([(dpid, &port), (dpid, &local)].into_iter()).format(Some(80));
        assert_eq!(
            formatted.text,
            "\
SWITCH                   PORT   NAME  STATE  RX-PACKETS  TX-PACKETS
00:00:00:00:00:00:00:01  1      eth1  up     3           -
00:00:00:00:00:00:00:01  LOCAL  eth1  down   3           -
"
        );
        assert!(formatted.left_out.contains(&"SPEED".to_owned()));
    }
}
