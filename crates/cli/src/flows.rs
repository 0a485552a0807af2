//! `rosemary flows`: shows the flows of a switch and their owners.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use control::query::FlowStatus;
use monitor::options::InstancePaths;
use openflow::Dpid;

use crate::client::Monitor;
use crate::say;
use crate::table::Table;

const AFTER_HELP: &str = "\
SWITCH is a datapath id: as `rosemary switches` shows it, as Open vSwitch shows it (16 digits), in \
hexadecimal with the prefix 0x, or a decimal number. OWNER is the app that wrote the flow, \"kernel\" for \
a flow of Rosemary itself, or \"other\".

Exit codes: 0 the switch answered; 1 it did not answer or is not connected, or Rosemary does not run; 2 wrong \
usage.";

/// Options of `rosemary flows`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct FlowsArgs {
    /// Datapath id of the switch, such as 00:00:00:00:00:00:00:01, 0x1 or 1
    #[arg(value_parser = dpid)]
    pub switch: Dpid,
    /// Print JSON: a list with an object per flow
    #[arg(long)]
    pub json: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Queries and prints.
///
/// # Errors
/// Rosemary is not running, the switch is not connected or does not answer, or the output cannot be written.
pub fn run(args: &FlowsArgs) -> anyhow::Result<()> {
    let kernel = Monitor::connect(&args.instance)?.kernel()?;
    let flows = kernel
        .flows(args.switch.0)
        .with_context(|| format!("cannot query the flows of {}", args.switch))?;
    let Some(flows) = flows else {
        let switches: Vec<String> =
            kernel.switches()?.into_iter().map(|switch| switch.dpid).collect();
        bail!("{}", not_connected(args.switch, &switches));
    };
    if args.json {
        let json = serde_json::to_string(&flows).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if flows.is_empty() {
        say::note("the switch has no flows");
        Ok(())
    } else {
        say::data(table(&flows))
    }
}

/// Formats the error about a switch that is not connected, with the connected ones.
fn not_connected(dpid: Dpid, switches: &[String]) -> String {
    const MOST: usize = 16;
    let others = match switches {
        [] => "no switch is connected".to_owned(),
        all if all.len() > MOST => {
            format!("connected: {}, and {} more", all[..MOST].join(", "), all.len() - MOST)
        }
        all => format!("connected: {}", all.join(", ")),
    };
    format!("{dpid} is not connected; {others}")
}

/// Parses a datapath id in any usual notation.
fn dpid(text: &str) -> Result<Dpid, &'static str> {
    const FORM: &str = "expected a datapath id such as 00:00:00:00:00:00:00:01, 0x1 or 1";
    let hex = |digits: &str| {
        let are_digits = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_hexdigit());
        are_digits.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let bytes = || -> Option<u64> {
        let pairs: Vec<&str> = text.split(':').collect();
        let whole = pairs.len() == 8 && pairs.iter().all(|pair| pair.len() == 2);
        whole.then(|| hex(&pairs.concat())).flatten()
    };
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => hex(digits),
        None if text.contains(':') => bytes(),
        None if text.len() == 16 => hex(text),
        None if text.bytes().all(|it| it.is_ascii_digit()) => text.parse().ok(),
        None => None,
    };
    number.map(Dpid).ok_or(FORM)
}

/// Formats one line per flow.
fn table(flows: &[FlowStatus]) -> String {
    let mut table = Table::new([
        "TABLE", "PRIORITY", "OWNER", "COOKIE", "PACKETS", "BYTES", "AGE", "IDLE", "HARD", "MATCH",
        "ACTIONS",
    ]);
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let timeout = |seconds: u16| match seconds {
        0 => "-".to_owned(),
        seconds => format!("{seconds}s"),
    };
    for flow in flows {
        let age = Duration::from_millis(flow.duration_ms).as_secs();
        table.row([
            &flow.table.to_string(),
            &flow.priority.to_string(),
            &flow.owner,
            &flow.cookie,
            &count(flow.packets),
            &count(flow.bytes),
            &format!("{age}s"),
            &timeout(flow.idle_timeout),
            &timeout(flow.hard_timeout),
            if flow.match_.is_empty() { "any" } else { &flow.match_ },
            &flow.actions,
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_of_a_datapath_id_parses() {
        for text in
            ["00:00:00:00:00:00:01:0a", "000000000000010a", "0x10a", "0X10A", "266", "00266"]
        {
            assert_eq!(dpid(text), Ok(Dpid(0x10a)), "{text}");
        }
        assert_eq!(dpid("ffffffffffffffff"), Ok(Dpid(u64::MAX)));
        for text in [
            "",
            "s1",
            "0x",
            "0x+1",
            "+1",
            "-1",
            "10a",
            "00:00:00:00:00:00:01",
            "1:0a",
            "00:00:00:00:00:00:01:0g",
            "0x10000000000000000",
            "18446744073709551616",
        ] {
            assert!(dpid(text).is_err(), "{text}");
        }
    }

    #[test]
    fn not_connected_error_names_connected_switches() {
        let one = "00:00:00:00:00:00:00:01".to_owned();
        assert_eq!(
            not_connected(Dpid(2), std::slice::from_ref(&one)),
            "00:00:00:00:00:00:00:02 is not connected; connected: 00:00:00:00:00:00:00:01"
        );
        assert!(not_connected(Dpid(2), &[]).ends_with("is not connected; no switch is connected"));
        assert!(not_connected(Dpid(2), &vec![one; 20]).ends_with(", and 4 more"));
    }

    #[test]
    fn each_flow_is_one_line() {
        let flow = FlowStatus {
            table: 0,
            priority: 2,
            owner: "learning-switch".into(),
            cookie: "0x0".into(),
            match_: "in_port=1,eth_dst=02:00:00:00:00:02".into(),
            actions: "output:2".into(),
            packets: Some(3),
            bytes: Some(294),
            duration_ms: 12_900,
            idle_timeout: 60,
            hard_timeout: 0,
        };
        let miss = FlowStatus {
            priority: 0,
            owner: "kernel".into(),
            match_: String::new(),
            actions: "CONTROLLER".into(),
            bytes: None,
            idle_timeout: 0,
            ..flow.clone()
        };
        assert_eq!(
            table(&[flow, miss]),
            "\
TABLE  PRIORITY  OWNER            COOKIE  PACKETS  BYTES  AGE  IDLE  HARD  MATCH                                ACTIONS
0      2         learning-switch  0x0     3        294    12s  60s   -     in_port=1,eth_dst=02:00:00:00:00:02  output:2
0      0         kernel           0x0     3        -      12s  -     -     any                                  CONTROLLER
"
        );
    }
}
