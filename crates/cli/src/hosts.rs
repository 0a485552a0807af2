//! `rosemary hosts`: shows the hosts of the network, where they are, and their addresses.

use std::collections::HashMap;
use std::net::IpAddr;

use anyhow::Context as _;
use clap::Args;
use monitor::options::InstancePaths;
use openflow::MacAddr;
use sdk::services::Service;
use sdk::services::hosts::{Host, Record, UNTAGGED, records};
use serde::Serialize;

use crate::client::{Monitor, Provided};
use crate::say;
use crate::table::{Table, output_width};

const AFTER_HELP: &str = "\
SWITCH and PORT are where a host is attached. VLAN is a dash for packets without a tag. SEEN is the time since a packet of \
the host reached the controller; packets that switches forward by a flow do not. STATE is `contested` while packets with \
the host's address come in at another port, too.

HOST is an Ethernet or IP address; without it, all hosts are shown. The hosts come from the service `hosts`, which runs \
when an app names it. Attacks and moves that look like one are incidents: `rosemary incidents`.

In JSON the columns have the names mac, vlan, dpid, port, addresses, seen_seconds, known_seconds and contested.

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

/// The address by which an operator names a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostName {
    /// Its Ethernet address.
    Mac(MacAddr),
    /// One of its IP addresses.
    Ip(IpAddr),
}

impl HostName {
    /// Reads an operator's word.
    ///
    /// # Errors
    /// It is neither kind of address.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(ip));
        }
        text.parse().map(Self::Mac).map_err(|_| {
            "not a host; write an Ethernet address such as 02:00:00:00:00:01, or an IP address"
                .to_owned()
        })
    }
}

/// A host; its JSON is a stable interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Line {
    /// Its Ethernet address.
    mac: String,
    /// Its VLAN; null for packets without a tag.
    vlan: Option<u16>,
    /// The datapath id of its switch.
    dpid: String,
    /// The port of the switch; `LOCAL` for the switch itself.
    port: String,
    /// Its IP addresses.
    addresses: Vec<String>,
    /// Seconds since a packet of it reached the controller.
    seen_seconds: u64,
    /// Seconds since the first one.
    known_seconds: u64,
    /// Whether packets with its address come in at another port, too.
    contested: bool,
}

/// Queries and prints.
///
/// # Errors
/// Rosemary or the service does not run, there is no such host, or the output cannot be written.
pub fn run(args: &HostsArgs) -> anyhow::Result<()> {
    let service = Monitor::connect(&args.instance)?.service(Service::Hosts)?;
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

/// Reads all hosts with their addresses, in the order of switches and ports.
fn lines(service: &Provided, now_s: u64) -> Vec<Line> {
    let all: Vec<Record> = records(service).collect();
    lines_of(&all, now_s)
}

fn lines_of(records: &[Record], now_s: u64) -> Vec<Line> {
    let mut addresses: HashMap<(MacAddr, u16), Vec<IpAddr>> = HashMap::new();
    let mut hosts: Vec<Host> = Vec::new();
    for record in records {
        match record {
            Record::Host(host) => hosts.push(*host),
            Record::Address(it) => {
                addresses.entry((it.mac, it.vlan)).or_default().push(it.ip);
            }
        }
    }
    hosts.sort_by_key(|it| (it.dpid, it.port, it.mac, it.vlan));
    let line = |host: &Host| {
        let mut addresses = addresses.remove(&(host.mac, host.vlan)).unwrap_or_default();
        addresses.sort_unstable();
        Line {
            mac: host.mac.to_string(),
            vlan: (host.vlan != UNTAGGED).then_some(host.vlan),
            dpid: host.dpid.to_string(),
            port: host.port.to_string(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            seen_seconds: now_s.saturating_sub(host.last_seen_s),
            known_seconds: now_s.saturating_sub(host.first_seen_s),
            contested: host.is_contested,
        }
    };
    hosts.iter().map(line).collect()
}

impl Line {
    fn is(&self, host: HostName) -> bool {
        match host {
            HostName::Mac(mac) => self.mac == mac.to_string(),
            HostName::Ip(ip) => self.addresses.contains(&ip.to_string()),
        }
    }
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
            if line.contested { "contested" } else { "known" },
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use openflow::{Dpid, PortNo};
    use sdk::services::hosts::Address;

    use super::*;

    fn records() -> Vec<Record> {
        let host = |number: u8, port, vlan| {
            Record::Host(Host {
                mac: MacAddr([2, 0, 0, 0, 0, number]),
                vlan,
                dpid: Dpid(1),
                port: PortNo(port),
                is_contested: number == 2,
                first_seen_s: 100,
                last_seen_s: 150,
            })
        };
        let address = |number: u8, ip: &str| {
            let mac = MacAddr([2, 0, 0, 0, 0, number]);
            let ip = ip.parse().expect("an address");
            Record::Address(Address { ip, vlan: UNTAGGED, mac, last_seen_s: 150 })
        };
        vec![address(1, "fe80::1"), host(2, 3, 7), host(1, 2, UNTAGGED), address(1, "10.0.0.1")]
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
"
        );
        let is = |text: &str| lines[0].is(HostName::parse(text).expect("a host"));
        assert!(is("02:00:00:00:00:01") && is("10.0.0.1") && is("fe80:0::1"));
        assert!(!is("02:00:00:00:00:02") && !is("10.0.0.2"));
        assert!(HostName::parse("bob").is_err());
    }
}
