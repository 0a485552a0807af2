//! `rosemary hosts`: shows the hosts of the network, where they are, and their addresses.

use anyhow::Context as _;
use clap::Args;
use config::instance::InstancePaths;
use sdk::services::Service;
use view::hosts::{HostName, Line, lines};

use crate::client;
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
SWITCH and PORT are where a host is attached. VLAN is a dash for packets without a tag. SEEN is the time since a packet of \
the host reached the controller; packets that switches forward by a flow do not. STATE is `contested` while packets with \
the host's address come in at another port, too. It is `doubted` after a restart, until a packet of the host confirms the place \
where it was known before.

HOST is an Ethernet or IP address; without it, all hosts are shown. The hosts come from the service `hosts`, which runs \
when an app names it. Attacks and moves that look like one are incidents: `rosemary incidents`.

In JSON the columns have the names mac, vlan, dpid, port, addresses, seen_seconds, known_seconds, contested \
and doubted.

Exit codes: 0 success; 1 no such host, or the service or Rosemary does not run; 2 wrong usage.";

/// Options of `rosemary hosts`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct HostsArgs {
    /// Ethernet or IP address of a host [default: all hosts]
    #[arg(value_parser = HostName::parse)]
    pub host: Option<HostName>,
    /// Print JSON: a list with an object per host
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Queries and prints.
///
/// # Errors
/// Rosemary or the service does not run, there is no such host, or the output cannot be written.
pub fn run(args: &HostsArgs) -> anyhow::Result<()> {
    let service = client::connect(&args.instance)?.service(Service::Hosts)?;
    let mut lines = lines(&service, sys::clock::now_ns() / 1_000_000_000);
    if let Some(host) = args.host {
        lines.retain(|line| line.is(host));
    }
    if args.json {
        let json = serde_json::to_string(&lines).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    } else if !lines.is_empty() {
        say::table(&table(&lines).format(output_width(args.wide)))?;
    }
    match args.host {
        Some(_) if lines.is_empty() => {
            anyhow::bail!("no such host is known; `rosemary hosts` shows the known ones")
        }
        None if lines.is_empty() => say::note("no host is known"),
        _ => {}
    }
    Ok(())
}

/// Returns one line per host.
fn table(lines: &[Line]) -> Table<7> {
    let mut table = Table::new(["HOST", "VLAN", "SWITCH", "PORT", "ADDRESSES", "SEEN", "STATE"])
        .expendable(&["STATE", "VLAN", "SEEN"])
        .prose("ADDRESSES");
    for line in lines {
        let vlan = line.vlan.map_or("-".to_owned(), |vlan| vlan.to_string());
        table.row([
            &line.mac,
            &vlan,
            &line.dpid,
            &line.port,
            &line.addresses.join(", "),
            &format!("{} s ago", line.seen_seconds),
            match (line.contested, line.doubted) {
                (true, _) => "contested",
                (false, true) => "doubted",
                (false, false) => "known",
            },
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use openflow::MacAddr;
    use openflow::{Dpid, PortNo};
    use sdk::services::hosts::{Address, Host, Record, UNTAGGED};
    use view::hosts::lines_of;

    use super::*;

    fn records() -> Vec<Record> {
        let host = |number: u8, port, vlan| {
            Record::Host(Host {
                mac: MacAddr([2, 0, 0, 0, 0, number]),
                vlan,
                dpid: Dpid(1),
                port: PortNo(port),
                is_contested: number == 2,
                is_doubted: number == 3,
                first_seen_s: 100,
                last_seen_s: 150,
            })
        };
        let address = |number: u8, ip: &str| {
            let mac = MacAddr([2, 0, 0, 0, 0, number]);
            let ip = ip.parse().expect("an address");
            Record::Address(Address { ip, vlan: UNTAGGED, mac, last_seen_s: 150 })
        };
        vec![
            address(1, "fe80::1"),
            host(3, 4, UNTAGGED),
            host(2, 3, 7),
            host(1, 2, UNTAGGED),
            address(1, "10.0.0.1"),
        ]
    }

    #[test]
    fn each_host_is_one_line() {
        let lines = lines_of(&records(), 160);
        assert_eq!(
            table(&lines).text(),
            "\
HOST               VLAN  SWITCH                   PORT  ADDRESSES          SEEN      STATE
02:00:00:00:00:01  -     00:00:00:00:00:00:00:01  2     10.0.0.1, fe80::1  10 s ago  known
02:00:00:00:00:02  7     00:00:00:00:00:00:00:01  3                        10 s ago  contested
02:00:00:00:00:03  -     00:00:00:00:00:00:00:01  4                        10 s ago  doubted
"
        );
        let is = |text: &str| lines[0].is(HostName::parse(text).expect("a host"));
        assert!(is("02:00:00:00:00:01") && is("10.0.0.1") && is("fe80:0::1"));
        assert!(!is("02:00:00:00:00:02") && !is("10.0.0.2"));
        assert!(HostName::parse("bob").is_err());
    }
}
