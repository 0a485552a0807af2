//! `rosemary status`: shows the running programs and the connected switches.
//!
//! The monitor reports the programs, and the kernel, over a connection of its own, the switches. If only
//! the kernel does not reply, the command shows the programs.

mod provenance;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Args;
use config::instance::InstancePaths;
use control::change::UnconfirmedConfig;
use control::operator::{InactiveApp, RefusedConnection, Status};
use control::query::SwitchStatus;
pub use view::status::Report;
use view::status::Verdict;

use crate::apps;
use crate::client;
use crate::say;
use crate::switches;
use crate::table::{Table, output_width};

/// The kernel's log has all connections that it refused, those that claimed no datapath id among them.
const NO_SWITCH: &str =
    "No switch is connected. `rosemary logs kernel` shows connections that were refused.\n";

const AFTER_HELP: &str = "\
Rosemary is degraded if a program does not run that no operator stopped (a held app is started when its files have \
changed), if Rosemary is in safe mode, if an app is \
skipped or was moved out of the kernel, if an app reports a problem, such as a rule that a switch refuses, if the disk takes no \
incidents, lines of the log or data of apps, if another controller commands a switch, if a program is above a soft limit, if a table of a switch is nearly full, or if \
the switches are unknown, as while the kernel restarts. Each reason is printed; in JSON, \"health\" has \"verdict\" and \
\"reasons\". If the switches are unknown, \"switches\" is null there and \"switches_error\" contains the reason.

`WARNING` names apps that do not fit together, such as a guard without an app that forwards; `allow` in the configuration \
silences it. `WARNING` also names reservations of sessions that are not held as promised; `rosemary session list` shows all.

`Refused` shows each connection that, within the last five minutes, claimed the datapath id of a connected switch, or one that \
its certificate does not name, and each from the address of a switch that was connected before. The reason follows. `rosemary \
incidents` keeps them. Rosemary is degraded until the switch is connected again, or has not tried for five minutes.

Beyond 50 switches, a summary replaces their table: `rosemary switches` shows all of them.

HOST is `user` for an app in a process of its own and `kernel` for an app in the kernel. `rosemary switches --help` \
explains the columns about switches.

Exit codes: 0 healthy; 1 it does not run, it did not answer, or the output could not be written; 2 wrong usage; 3 \
degraded; 78 a mistake in the configuration.";

/// Most switches that have a line each.
const MOST_SWITCHES: usize = 50;

/// The exit code for a degraded Rosemary.
pub const DEGRADED: u8 = 3;

/// Options of `rosemary status`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show all columns, however wide
    #[arg(long)]
    pub wide: bool,
    /// Show which files were checked before they ran, instead; exit code 3 if one is not the released one
    #[arg(long)]
    pub provenance: bool,
    /// The instance to query.
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Queries and prints. Returns [`DEGRADED`] as exit code if Rosemary is not healthy.
///
/// # Errors
/// Rosemary is not running or does not answer, or the output cannot be written.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let monitor = client::connect(&args.instance)?;
    if args.provenance {
        return provenance::show(&monitor.provenance()?, args.json, args.wide);
    }
    let report = Report::query(&monitor)?;
    if let Some(why) = &report.switches_error {
        say::error(&anyhow!("{why}").context("cannot query the switches"));
    }
    let verdict = report.health.verdict;
    if args.json {
        let json = serde_json::to_string(&report).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))?;
    } else {
        let (text, notes) = text(&report, output_width(args.wide));
        say::data(text)?;
        notes.iter().for_each(say::note);
    }
    Ok(match verdict {
        Verdict::Healthy => ExitCode::SUCCESS,
        Verdict::Degraded => DEGRADED.into(),
    })
}

/// Returns the text, and notes about columns that were left out.
fn text(report: &Report, width: Option<usize>) -> (String, Vec<String>) {
    let Report { programs: status, switches, health, .. } = report;
    let kernel = &status.kernel;
    let mut text = format!(
        "Rosemary {}, up for {}, listens on {}\n{}\n",
        status.version,
        duration(status.monitor.uptime_seconds),
        kernel.listen.join(" and "),
        health.text()
    );
    let programs = programs(status).format(width);
    text.push_str(&programs.text);
    text.push('\n');
    text.push_str(&warnings(status));
    text.push_str(&inactive(status));
    text.push_str(&refused(status));
    let mut notes: Vec<String> =
        programs.note().map(|note| format!("programs: {note}")).into_iter().collect();
    match switches.as_deref() {
        None => text.push_str("The switches are unknown.\n"),
        Some([]) => text.push_str(NO_SWITCH),
        Some(connected) if connected.len() > MOST_SWITCHES => {
            text.push_str(&summary(connected));
        }
        Some(connected) => {
            let switches = switches::table(connected).format(width);
            text.push_str(&switches.text);
            notes.extend(switches.note().map(|note| format!("switches: {note}")));
        }
    }
    notes.extend(switches.as_deref().and_then(switches::about_refused));
    notes.extend(switches.iter().flatten().filter_map(switches::about_packets));
    (text, notes)
}

/// Returns lines about many switches: how many there are, and the sums of their counters.
fn summary(switches: &[SwitchStatus]) -> String {
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for switch in switches {
        *kinds.entry((&switch.version, &switch.transport)).or_default() += 1;
    }
    let kind = |((version, transport), count): (&(&str, &str), &usize)| {
        format!("{count} with OpenFlow {version} over {transport}")
    };
    let kinds: Vec<String> = kinds.iter().map(kind).collect();
    let sum = |of: fn(&SwitchStatus) -> u64| switches.iter().map(of).sum::<u64>();
    format!(
        "{} switches are connected: {}. `rosemary switches` lists them.\n{} packet-ins, {} dropped, {} unguarded; {} \
         flow-mods, {} packet-outs, {} refused, {} errors\n",
        switches.len(),
        kinds.join(", "),
        sum(|it| it.packet_ins),
        sum(|it| it.dropped),
        sum(|it| it.guarded),
        sum(|it| it.flow_mods),
        sum(|it| it.packet_outs),
        sum(|it| it.refused),
        sum(|it| it.errors),
    )
}

/// Returns one line per program.
fn programs(status: &Status) -> Table<7> {
    let kernel = &status.kernel;
    let mut programs =
        Table::new(["PROGRAM", "HOST", "STATE", "PID", "USER", "RESTARTS", "LAST EXIT"])
            .expendable(&["USER", "HOST", "PID"]);
    programs.row(["monitor", "", "running", &status.monitor.pid.to_string(), "", "", ""]);
    programs.row([
        "kernel",
        "",
        &kernel.state.to_string(),
        &pid(kernel.pid),
        &kernel.uid.to_string(),
        &kernel.restarts.to_string(),
        kernel.last_exit.as_deref().unwrap_or("-"),
    ]);
    for service in &status.services {
        programs.row([
            &format!("service {}", service.name),
            "",
            &service.state.to_string(),
            &pid(service.pid),
            &service.uid.to_string(),
            &service.restarts.to_string(),
            service.last_exit.as_deref().unwrap_or("-"),
        ]);
    }
    for app in &status.apps {
        programs.row([
            &format!("app {}", app.name),
            &apps::host(app),
            &app.state.to_string(),
            &pid(app.pid),
            &app.uid.to_string(),
            &app.restarts.to_string(),
            app.last_exit.as_deref().unwrap_or("-"),
        ]);
    }
    programs
}

/// Returns a line for each way in which the apps do not fit together, for each reservation that is not held, and for a configuration that
/// waits for a confirmation.
fn warnings(status: &Status) -> String {
    let mut lines = String::new();
    for warning in &status.warnings {
        let _ = writeln!(lines, "WARNING: {warning}"); // writing to a String cannot fail
    }
    for unheld in &status.unheld {
        let _ = writeln!(lines, "WARNING: {unheld}");
    }
    if let Some(UnconfirmedConfig { id, seconds_left, overdue: None }) = &status.unconfirmed {
        let _ = writeln!(
            lines,
            "WAITING: change {id} of the configuration is taken back in {seconds_left} s, unless you type: rosemary confirm"
        );
    }
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines
}

/// Returns a line with the apps that do not run, if there are any.
fn inactive(status: &Status) -> String {
    let app = |app: &InactiveApp| format!("{} ({})", app.name, app.state);
    let apps: Vec<String> = status.inactive.iter().map(app).collect();
    if apps.is_empty() { String::new() } else { format!("Not running: {}\n\n", apps.join(", ")) }
}

/// Returns a line for each connection that was refused lately, if there are any.
fn refused(status: &Status) -> String {
    let line = |RefusedConnection { dpid, address, why, seconds_ago }: &RefusedConnection| {
        format!("Refused switch {dpid} from {address} {seconds_ago} s ago: {why}\n")
    };
    let mut lines: String = status.refused.iter().map(line).collect();
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines
}

fn pid(pid: Option<u32>) -> String {
    pid.map_or_else(|| "-".into(), |pid| pid.to_string())
}

/// Formats a duration with at most two units: `3.2 s`, `5 min`, `7 h 4 min`, `12 d 3 h`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    let (minutes, hours, days) = (whole / 60, whole / 3_600, whole / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds:.1} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use control::operator::ProgramState;
    use control::operator::{KernelStatus, MonitorStatus, ServiceStatus};
    use control::query::Fullest;

    use control::operator::AppStatus;
    use control::query::SwitchStatus;
    use view::status::Health;

    use super::*;

    fn report() -> Report {
        Report {
            programs: Status {
                version: "0.1.0".into(),
                monitor: MonitorStatus { pid: 1, uptime_seconds: 3.2 },
                kernel: KernelStatus {
                    pid: Some(2),
                    uid: 1_879_048_192,
                    state: ProgramState::Running,
                    restarts: 0,
                    last_exit: None,
                    listen: vec!["127.0.0.1:6653".into()],
                },
                services: vec![ServiceStatus {
                    name: "storage".into(),
                    pid: Some(3),
                    uid: 1_879_113_729,
                    state: ProgramState::Running,
                    restarts: 0,
                    last_exit: None,
                }],
                apps: vec![AppStatus {
                    name: "learning-switch".into(),
                    number: 1,
                    stage: "control".into(),
                    band: Some([1, 65_535]),
                    host: "user".into(),
                    demoted: None,
                    version: None,
                    sha256: None,
                    origin: "shipped".into(),
                    signed_by: None,
                    pid: None,
                    uid: 1_879_048_193,
                    state: ProgramState::Waiting,
                    restarts: 1,
                    last_exit: Some("killed by SIGKILL".into()),
                    kept: None,
                    problem: None,
                    limited: None,
                }],
                inactive: Vec::new(),
                warnings: Vec::new(),
                unheld: Vec::new(),
                unserved: Vec::new(),
                refused: Vec::new(),
                not_stored: Vec::new(),
                rejected: None,
                unconfirmed: None,
                unconfirmed: None,
                other_controller: None,
                safe_mode: None,
            },
            switches: Some(vec![SwitchStatus {
                dpid: "00:00:00:00:00:00:00:01".into(),
                name: Some("br0".into()),
                version: "1.3".into(),
                address: "127.0.0.1:43210".into(),
                transport: "tls 1.3".into(),
                epoch: 1,
                ports: 2,
                n_tables: 254,
                table_size: Some(1_000_000),
                flows: Some(95),
                foreign_flows: 0,
                fullest: Some(Fullest {
                    table: 0,
                    flows: 95,
                    size: 100,
                    nearly_full: true,
                    app: Some("learning-switch".into()),
                }),
                failing: Vec::new(),
                no_packets: None,
                flow_monitor: control::query::FlowMonitorState::Off,
                flow_monitor_off: Some("it refused it".into()),
                requests: [("heal".to_owned(), 3)].into(),
                role: None,
                packet_ins: 5,
                dropped: 0,
                pauses: 0,
                guarded: 0,
                flow_mods: 2,
                packet_outs: 4,
                refused: 0,
                unsent: 0,
                errors: 0,
            }]),
            switches_error: None,
            health: Health {
                verdict: Verdict::Degraded,
                reasons: vec!["the app learning-switch is waiting: killed by SIGKILL".into()],
            },
        }
    }

    #[test]
    fn json_form_is_stable() {
        let expected = concat!(
            r#"{"version":"0.1.0","monitor":{"pid":1,"uptime_seconds":3.2},"#,
            r#""kernel":{"pid":2,"uid":1879048192,"state":"running","restarts":0,"last_exit":null,"#,
            r#""listen":["127.0.0.1:6653"]},"#,
            r#""services":[{"name":"storage","pid":3,"uid":1879113729,"state":"running","#,
            r#""restarts":0,"last_exit":null}],"#,
            r#""apps":[{"name":"learning-switch","number":1,"stage":"control","band":[1,65535],"#,
            r#""host":"user","demoted":null,"version":null,"sha256":null,"origin":"shipped","signed_by":null,"pid":null,"uid":1879048193,"#,
            r#""state":"waiting","restarts":1,"last_exit":"killed by SIGKILL"}],"#,
            r#""switches":[{"dpid":"00:00:00:00:00:00:00:01","name":"br0","version":"1.3","#,
            r#""address":"127.0.0.1:43210","transport":"tls 1.3","epoch":1,"ports":2,"#,
            r#""n_tables":254,"table_size":1000000,"flows":95,"foreign_flows":0,"fullest":{"table":0,"flows":95,"#,
            r#""size":100,"nearly_full":true,"app":"learning-switch"},"failing":[],"#,
            r#""flow_monitor":"off","flow_monitor_off":"it refused it","requests":{"heal":3},"role":null,"#,
            r#""packet_ins":5,"dropped":0,"pauses":0,"guarded":0,"flow_mods":2,"packet_outs":4,"#,
            r#""refused":0,"unsent":0,"errors":0}],"switches_error":null,"#,
            r#""health":{"verdict":"degraded","reasons":["the app learning-switch is waiting: killed by SIGKILL"]}}"#
        );
        assert_eq!(serde_json::to_string(&report()).unwrap(), expected);
    }

    #[test]
    fn json_without_switches_has_the_reason() {
        let why = "not available now: the kernel is starting; try again in a moment";
        let report = Report { switches: None, switches_error: Some(why.into()), ..report() };
        let json = serde_json::to_string(&report).unwrap();
        let part = format!(r#""switches":null,"switches_error":"{why}","health":"#);
        assert!(json.contains(&part), "{json}");
    }

    #[test]
    fn table_shows_programs_and_switches_in_columns() {
        assert_eq!(
            text(&report(), None).0,
            "\
Rosemary 0.1.0, up for 3.2 s, listens on 127.0.0.1:6653
DEGRADED: the app learning-switch is waiting: killed by SIGKILL

PROGRAM              HOST  STATE    PID  USER        RESTARTS  LAST EXIT
monitor                    running  1
kernel                     running  2    1879048192  0         -
service storage            running  3    1879113729  0         -
app learning-switch  user  waiting  -    1879048193  1         killed by SIGKILL

SWITCH                   NAME  OPENFLOW  ADDRESS          TRANSPORT  CONNECTION  PORTS  FLOWS  PACKET-INS  DROPPED  UNGUARDED  FLOW-MODS  PACKET-OUTS  REFUSED  ERRORS
00:00:00:00:00:00:00:01  br0   1.3       127.0.0.1:43210  tls 1.3    1           2      95     5           0        0          2          4            0        0
"
        );
    }

    #[test]
    fn narrow_table_fits_and_notes_what_is_missing() {
        let (text, notes) = text(&report(), Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("app learning-switch"), "{text}");
        assert!(text.contains("\n00:00:00:00:00:00:00:01  "), "{text}");
        assert!(notes.iter().any(|note| note.starts_with("switches: left out: ")), "{notes:?}");
        assert!(notes.iter().all(|note| note.ends_with("--wide shows all columns")), "{notes:?}");
        let fits = |note: &String| format!("rosemary: {note}").chars().count() <= 80;
        assert!(notes.iter().all(fits), "{notes:?}");
    }

    #[test]
    fn apps_that_do_not_run_are_shown() {
        let mut report = report();
        let (name, state) = ("hub".to_owned(), control::operator::InactiveState::Installed);
        report.programs.inactive = vec![InactiveApp { name, state }];
        let (text, _) = text(&report, None);
        assert!(text.contains("\nNot running: hub (installed)\n\nSWITCH"), "{text}");
    }

    #[test]
    fn misfits_are_shown_and_do_not_degrade() {
        let mut report = report();
        report.programs.warnings = vec!["no app forwards".into()];
        let (first, _) = text(&report, None);
        assert!(first.contains("\nWARNING: no app forwards\n\nSWITCH"), "{first}");
        report.programs.unconfirmed =
            Some(UnconfirmedConfig { id: 7, seconds_left: 9, overdue: None });
        let (second, _) = text(&report, None);
        let line = "\nWAITING: change 7 of the configuration is taken back in 9 s, unless you type: rosemary confirm\n";
        assert!(second.contains(line), "{second}");
    }

    #[test]
    fn refused_connections_are_shown_beside_switches() {
        let mut report = report();
        report.programs.refused = vec![RefusedConnection {
            dpid: "00:00:00:00:00:00:00:01".into(),
            address: [10, 0, 0, 9].into(),
            why: "00:00:00:00:00:00:00:01 is connected already".into(),
            seconds_ago: 3,
        }];
        let line = "\nRefused switch 00:00:00:00:00:00:00:01 from 10.0.0.9 3 s ago: 00:00:00:00:00:00:00:01 is connected already\n\nSWITCH";
        let (text, _) = text(&report, None);
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn many_switches_are_summed_up() {
        let mut report = report();
        let one = report.switches.as_ref().and_then(|all| all.first()).cloned().unwrap();
        let many = |count: u64| {
            let switch = |number: u64| SwitchStatus {
                dpid: format!("{number:016x}"),
                refused: number,
                ..one.clone()
            };
            Some((0..count).map(switch).collect::<Vec<_>>())
        };
        report.switches = many(50);
        let (shown, _) = text(&report, None);
        assert!(shown.lines().filter(|line| line.contains("  tls 1.3  ")).count() == 50, "{shown}");
        report.switches = many(51);
        let (shown, notes) = text(&report, Some(80));
        assert!(!shown.contains("SWITCH "), "{shown}");
        assert!(
            shown.contains("51 switches are connected: 51 with OpenFlow 1.3 over tls 1.3. `rosemary switches` lists them."),
            "{shown}"
        );
        assert!(shown.contains("1275 refused"), "{shown}");
        assert!(notes.iter().any(|note| note.starts_with("1275 messages of apps were refused")));
    }

    #[test]
    fn no_switches_and_unknown_switches_differ() {
        let mut report = report();
        report.switches = Some(Vec::new());
        assert!(text(&report, None).0.ends_with(NO_SWITCH));
        report.switches = None;
        assert!(text(&report, None).0.ends_with("The switches are unknown.\n"));
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let said = [3.21, 60.0, 3_600.0 * 7.0 + 240.0, 86_400.0 * 12.5].map(duration);
        assert_eq!(said, ["3.2 s", "1 min", "7 h 4 min", "12 d 12 h"]);
    }
}
