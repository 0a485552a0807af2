//! `rosemary switches`: shows the connected switches and their counters, or one switch in full.

use std::fmt::Write as _;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use config::instance::InstancePaths;
use control::details::{PortDetails, SwitchDescription, TableStatus};
use control::query::{FlowMonitorState, NoPackets, SwitchStatus};
use openflow::Dpid;
use serde::Serialize;
use view::status::{failing, fullest};

use crate::client::{self, ClientError, Kernel};
use crate::ports;
use crate::say;
use crate::switch_name::{SwitchName, about_switch, not_connected};
use crate::table::{Table, output_width};

const AFTER_HELP: &str = concat!(
    "\
NAME is that of the switch's local port, which Open vSwitch calls like the bridge. CONNECTION is the number of the present connection, which no other connection gets. The counters start with it. \
DROPPED counts packet-ins that were dropped because apps did not keep up, UNGUARDED those that were dropped because a \
guard was silent or down. FLOW-MODS and PACKET-OUTS count messages of apps to the switch, REFUSED those that the kernel \
refused, with the reasons in `rosemary logs kernel`, ERRORS error messages of the switch. FLOWS is the present number if the switch \
reports each change of its flows (`rosemary switches SWITCH` says so). Otherwise it is the number that the switch reported last: every \
10 s while apps add flows, and every 30 s later.

With SWITCH, Rosemary also prints how it knows the flows of the switch, and how often it has requested flows and tables, by the reason: \
`heal` to notice lost flows, `orphans` to find flows without an app, `count` for numbers of flows, `apps` to tell apps their flows, `bands` \
after a priority band has moved, `check` to check the reports of the switch once an hour, `monitor` to begin these reports, `operator` for \
commands and the HTTP interface, `description` after it has connected. It requests the description, tables and ports from the switch now; what it does not report in time is \
left out (null in JSON) with the reason. ",
    about_switch!(),
    " A dash stands for a number that the switch does not report. LOOKUPS counts packets that were looked up in the table, MATCHED those \
that matched one of its flows. `rosemary ports --help` explains the columns of ports.

In JSON the columns have the names dpid (SWITCH), name, version (OPENFLOW), address, transport, epoch (CONNECTION), ports, flows, \
flow_monitor, requests, role, packet_ins, dropped, guarded (UNGUARDED), flow_mods, packet_outs, refused and errors.

Exit codes: 0 Rosemary and the switch answered; 1 one of them did not; 2 wrong usage."
);

/// Options of `rosemary switches`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SwitchesArgs {
    /// A switch, by its datapath id or its name, to show its description, tables and ports
    pub switch: Option<SwitchName>,
    /// Print JSON: a list with an object per switch, or the object of SWITCH
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
/// Rosemary is not running or does not answer, or the output cannot be written.
pub fn run(args: &SwitchesArgs) -> anyhow::Result<()> {
    let kernel = client::connect(&args.instance)?.kernel()?;
    if let Some(switch) = &args.switch {
        return show_one(&kernel, switch.dpid_of(&kernel)?, args);
    }
    let switches = kernel.switches()?;
    if args.json {
        let json = serde_json::to_string(&switches).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if switches.is_empty() {
        say::note("no switch is connected");
        Ok(())
    } else {
        say::table(&table(&switches).format(output_width(args.wide)))?;
        about_refused(&switches).iter().for_each(say::note);
        switches.iter().filter_map(about_packets).for_each(say::note);
        say::data(faults(&switches))
    }
}

/// A switch in full; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
struct FullSwitch {
    #[serde(flatten)]
    status: SwitchStatus,
    /// `None` if the switch did not report it in time.
    description: Option<SwitchDescription>,
    tables: Option<Vec<TableStatus>>,
    port_list: Option<Vec<PortDetails>>,
}

fn show_one(kernel: &Kernel, dpid: Dpid, args: &SwitchesArgs) -> anyhow::Result<()> {
    let text = dpid.to_string();
    let Some(status) = kernel.switches()?.into_iter().find(|switch| switch.dpid == text) else {
        return Err(not_connected(kernel, dpid));
    };
    let mut missing = 0;
    let full = FullSwitch {
        status,
        description: part("description", kernel.description(dpid.0), &mut missing),
        tables: part("tables", kernel.tables(dpid.0), &mut missing),
        port_list: part("ports", kernel.ports(dpid.0), &mut missing),
    };
    if args.json {
        let json = serde_json::to_string(&full).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    } else {
        let (text, notes) = full.text(output_width(args.wide));
        say::data(text)?;
        notes.iter().for_each(say::note);
    }
    ensure!(missing == 0, "the switch did not report everything");
    Ok(())
}

/// Returns a part of the details, or reports why it is missing.
fn part<T>(what: &str, result: Result<Option<T>, ClientError>, missing: &mut usize) -> Option<T> {
    let error = match result {
        Ok(Some(part)) => return Some(part),
        Ok(None) => anyhow!("the switch was disconnected"),
        Err(error) => error.into(),
    };
    *missing += 1;
    say::error(&error.context(format!("cannot query its {what}")));
    None
}

impl FullSwitch {
    /// Returns the text, and notes about columns that were left out.
    fn text(&self, width: Option<usize>) -> (String, Vec<String>) {
        let Self { status, description, tables, port_list } = self;
        let name = status.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
        let mut text = format!(
            "Switch {}{name}, OpenFlow {}\nConnection {} over {} from {}\n",
            status.dpid, status.version, status.epoch, status.transport, status.address
        );
        if let Some(SwitchDescription { manufacturer, hardware, software, serial, datapath }) =
            description
        {
            let _ = writeln!(text, "{manufacturer}, {hardware}, {software}"); // cannot fail
            let _ = writeln!(text, "Serial number {serial}, datapath {datapath}");
        }
        let _ = writeln!(
            text,
            "{} packet-ins, {} dropped, {} unguarded\n{} flow-mods, {} packet-outs, {} refused, {} errors",
            status.packet_ins,
            status.dropped,
            status.guarded,
            status.flow_mods,
            status.packet_outs,
            status.refused,
            status.errors
        );
        let _ = writeln!(text, "{}", about_flows(status));
        if let Some(role) = &status.role {
            let _ = writeln!(text, "Rosemary has the role {role} there");
        }
        let mut notes: Vec<String> = about_packets(status).into_iter().collect();
        if let Some(tables) = tables {
            let is_used = |it: &&TableStatus| it.flows > Some(0) || it.lookups > Some(0);
            let used = tables.iter().filter(|it| it.table == 0 || is_used(it));
            let mut table = Table::new(["TABLE", "NAME", "FLOWS", "SIZE", "LOOKUPS", "MATCHED"]);
            let mut rows = 0;
            for it in used {
                let shown = |number: Option<u64>| {
                    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
                };
                let [size, flows] = [it.size, it.flows].map(|it| shown(it.map(u64::from)));
                let [lookups, matched] = [it.lookups, it.matched].map(shown);
                let name = it.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("-");
                table.row([&it.table.to_string(), name, &flows, &size, &lookups, &matched]);
                rows += 1;
            }
            text.push('\n');
            text.push_str(&table.text());
            if rows < tables.len() {
                let _ =
                    writeln!(text, "{} other tables are empty and unused.", tables.len() - rows);
            }
        }
        if let Some(ports) = port_list {
            let ports = ports::table(ports.iter().map(|port| (status.dpid.as_str(), port)));
            let ports = ports.without("SWITCH").format(width);
            text.push('\n');
            text.push_str(&ports.text);
            notes.extend(ports.note());
        }
        (text, notes)
    }
}

/// Says how the kernel knows the flows of a switch, and how often it has requested them.
fn about_flows(status: &SwitchStatus) -> String {
    let means = match status.flow_monitor {
        FlowMonitorState::On => "It reports each change of its flows".to_owned(),
        FlowMonitorState::Others => "It reports the changes of its flows by others".to_owned(),
        FlowMonitorState::Waiting => "It was asked to report changes of its flows".to_owned(),
        FlowMonitorState::Paused => "It has paused the reports about its flows".to_owned(),
        FlowMonitorState::Off => {
            let why = status.flow_monitor_off.as_ref();
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            format!("It does not report changes of its flows{why}")
        }
    };
    let requests = status.requests.iter().filter(|(_, count)| **count > 0);
    let requests: Vec<String> =
        requests.map(|(reason, count)| format!("{count} {reason}")).collect();
    if requests.is_empty() {
        return means;
    }
    // A line of its own for every three reasons, so that each fits a narrow terminal.
    let lines: Vec<String> = requests.chunks(3).map(|few| few.join(", ")).collect();
    format!("{means}\nRequests for flows and tables: {}", lines.join(",\n  "))
}

/// Returns a note about messages of apps that the kernel refused, if there are any.
pub(crate) fn about_refused(switches: &[SwitchStatus]) -> Option<String> {
    let refused: u64 = switches.iter().map(|switch| switch.refused).sum();
    (refused > 0).then(|| {
        format!("{refused} messages of apps were refused: see `rosemary logs kernel` for why")
    })
}

/// Returns a note about a switch that exchanges no packets with a controller.
pub(crate) fn about_packets(switch: &SwitchStatus) -> Option<String> {
    let NoPackets { why, apps } = switch.no_packets.as_ref()?;
    let switch = switch.name.as_deref().unwrap_or(&switch.dpid);
    let apps = match &apps[..] {
        [] => String::new(),
        apps => format!("; these apps need packet-ins and do not get it: {}", apps.join(", ")),
    };
    Some(format!("{switch}: {why}{apps}"))
}

/// Returns one line per switch.
pub(crate) fn table(switches: &[SwitchStatus]) -> Table<15> {
    let mut table = Table::new([
        "SWITCH",
        "NAME",
        "OPENFLOW",
        "ADDRESS",
        "TRANSPORT",
        "CONNECTION",
        "PORTS",
        "FLOWS",
        "PACKET-INS",
        "DROPPED",
        "UNGUARDED",
        "FLOW-MODS",
        "PACKET-OUTS",
        "REFUSED",
        "ERRORS",
    ])
    .expendable(&[
        "CONNECTION",
        "UNGUARDED",
        "TRANSPORT",
        "PACKET-OUTS",
        "FLOW-MODS",
        "REFUSED",
        "ERRORS",
        "OPENFLOW",
        "DROPPED",
        "PACKET-INS",
        "NAME",
    ]);
    for switch in switches {
        table.row([
            &switch.dpid,
            switch.name.as_deref().unwrap_or("-"),
            &switch.version,
            &switch.address,
            &switch.transport,
            &switch.epoch.to_string(),
            &switch.ports.to_string(),
            &switch.flows.map_or("-".to_owned(), |flows| flows.to_string()),
            &switch.packet_ins.to_string(),
            &switch.dropped.to_string(),
            &switch.guarded.to_string(),
            &switch.flow_mods.to_string(),
            &switch.packet_outs.to_string(),
            &switch.refused.to_string(),
            &switch.errors.to_string(),
        ]);
    }
    table
}

/// Returns a line for each table that is nearly full, and for each message that a switch does not carry out.
pub(crate) fn faults(switches: &[SwitchStatus]) -> String {
    let faults = |switch: &SwitchStatus| {
        let failing = switch.failing.iter().map(failing);
        let faults = fullest(switch).into_iter().chain(failing);
        faults.map(|fault| [switch.dpid.as_str(), ": ", &fault, "\n"].concat()).collect::<String>()
    };
    switches.iter().map(faults).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_in_full_has_description_tables_and_ports() {
        let status = r#"{"dpid":"00:00:00:00:00:00:00:01","name":"s1","version":"1.3","address":"127.0.0.1:1","transport":"tcp",
            "epoch":3,"ports":1,"packet_ins":5,"dropped":0,"flow_mods":2,"packet_outs":4,"refused":0,"errors":1}"#;
        let table = |table, flows| TableStatus {
            table,
            name: None,
            flows,
            size: Some(1000),
            lookups: Some(0),
            matched: None,
        };
        let full = FullSwitch {
            status: serde_json::from_str(status).unwrap(),
            description: Some(SwitchDescription {
                manufacturer: "Nicira, Inc.".into(),
                hardware: "Open vSwitch".into(),
                software: "3.1.0".into(),
                serial: "None".into(),
                datapath: "s1".into(),
            }),
            tables: Some(vec![table(0, None), table(1, Some(0)), table(2, Some(7))]),
            port_list: None,
        };
        assert_eq!(
            full.text(Some(80)).0,
            "\
Switch 00:00:00:00:00:00:00:01 (s1), OpenFlow 1.3
Connection 3 over tcp from 127.0.0.1:1
Nicira, Inc., Open vSwitch, 3.1.0
Serial number None, datapath s1
5 packet-ins, 0 dropped, 0 unguarded
2 flow-mods, 4 packet-outs, 0 refused, 1 errors
It does not report changes of its flows

TABLE  NAME  FLOWS  SIZE  LOOKUPS  MATCHED
0      -     -      1000  0        -
2      -     7      1000  0        -
1 other tables are empty and unused.
"
        );
    }
}
