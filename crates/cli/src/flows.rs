//! `rosemary flows`: what is in a switch's tables, asked of the switch, and whose it is.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use control::query::FlowStatus;
use monitor::options::Place;
use openflow::Dpid;

use crate::ask::Monitor;
use crate::say;
use crate::table::Table;

const AFTER_HELP: &str = "\
SWITCH is a datapath identifier as `rosemary switches` shows it, as Open vSwitch does (16 digits), in \
hexadecimal behind 0x, or a decimal number. OWNER is the app that wrote the flow, kernel for \
Rosemary's own, or other.

Exit codes: 0 the switch answered, 1 it did not, is not connected, or nothing runs, 2 wrong usage.";

/// The options of `rosemary flows`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct FlowsArgs {
    /// Which switch, as 00:00:00:00:00:00:00:01, 0x1 or 1
    #[arg(value_parser = dpid)]
    pub switch: Dpid,
    /// Print JSON, for programs: a list, an object per flow
    #[arg(long)]
    pub json: bool,
    /// Where it runs.
    #[command(flatten)]
    pub place: Place,
}

/// Asks and prints.
///
/// # Errors
/// Nothing runs, there is no such switch, or it does not answer; what it said cannot be written.
pub fn run(args: &FlowsArgs) -> anyhow::Result<()> {
    let kernel = Monitor::connect(&args.place)?.kernel()?;
    let flows = kernel
        .flows(args.switch.0)
        .with_context(|| format!("the flows of {} are not known", args.switch))?;
    let Some(flows) = flows else {
        let switches: Vec<String> =
            kernel.switches()?.into_iter().map(|switch| switch.dpid).collect();
        bail!("{}", not_connected(args.switch, &switches));
    };
    if args.json {
        let json = serde_json::to_string(&flows).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if flows.is_empty() {
        say::note("it has no flows");
        Ok(())
    } else {
        say::data(table(&flows))
    }
}

/// Formats the error about a switch that is not connected, with the connected ones.
fn not_connected(dpid: Dpid, switches: &[String]) -> String {
    const MOST: usize = 16;
    let others = match switches {
        [] => "no switch is".to_owned(),
        all if all.len() > MOST => {
            format!("connected are {}, and {} more", all[..MOST].join(", "), all.len() - MOST)
        }
        all => format!("connected: {}", all.join(", ")),
    };
    format!("{dpid} is not connected; {others}")
}

/// A DPID in any usual spelling.
fn dpid(text: &str) -> Result<Dpid, &'static str> {
    const FORM: &str = "expected a datapath identifier, as 00:00:00:00:00:00:00:01, 0x1 or 1";
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

/// A line per flow.
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
    fn switch_is_named_in_any_usual_spelling() {
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
    fn switch_that_is_not_there_is_told_with_those_that_are() {
        let one = "00:00:00:00:00:00:00:01".to_owned();
        assert_eq!(
            not_connected(Dpid(2), std::slice::from_ref(&one)),
            "00:00:00:00:00:00:00:02 is not connected; connected: 00:00:00:00:00:00:00:01"
        );
        assert!(not_connected(Dpid(2), &[]).ends_with("is not connected; no switch is"));
        assert!(not_connected(Dpid(2), &vec![one; 20]).ends_with(", and 4 more"));
    }

    #[test]
    fn flows_are_a_line_each_and_what_there_is_not_a_dash() {
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
