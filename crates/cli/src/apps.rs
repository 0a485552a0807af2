//! `rosemary apps`: shows the apps, their rights and their counters.

use anyhow::Context as _;
use clap::Args;
use control::operator::AppStatus;
use control::query::AppCounters;
use monitor::options::InstancePaths;
use serde::Serialize;

use crate::client::Monitor;
use crate::say;
use crate::table::{Table, output_width};

/// Number of digest digits shown to people; `--json` prints all.
const DIGITS: usize = 12;

const AFTER_HELP: &str = "\
NUMBER is the app's number, which never changes. PRIORITIES are those that its flows may have. HOST is `user` for a \
process of its own and `kernel` for the kernel. FROM is the developer who signed the app's package, `shipped` for an app \
that comes with Rosemary, or `unsigned`. DELIVERED and DROPPED count packet-ins, REFUSED counts rejected messages of the app, and LOST counts replies and \
errors of switches that the app did not receive, all since the kernel started. STATE is `skipped` for an app that \
answers too late, so that no packet waits for it. While the kernel restarts, the counters are unknown: they are a \
dash, in JSON null, and the exit code is still 0.";

/// Options of `rosemary apps`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AppsArgs {
    /// Print JSON: a list with an object per app
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
pub fn run(args: &AppsArgs) -> anyhow::Result<()> {
    let monitor = Monitor::connect(&args.instance)?;
    let status = monitor.status()?.apps;
    let counters = monitor.kernel().and_then(|kernel| kernel.apps()).unwrap_or_else(|error| {
        say::error(&anyhow::Error::from(error).context("cannot query the packet-in counters"));
        Vec::new()
    });
    let apps: Vec<Line> = status.into_iter().map(|app| Line::of(app, &counters)).collect();
    if args.json {
        let json = serde_json::to_string(&apps).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if apps.is_empty() {
        say::note(
            "no app is configured; name one in rosemary.toml, or with `rosemary up --app NAME`",
        );
        Ok(())
    } else {
        say::table(&table(&apps).format(output_width(args.wide)))
    }
}

/// An app with the state from the monitor and the counters from the kernel; its JSON is a stable
/// interface.
#[derive(Debug, Clone, Serialize)]
struct Line {
    #[serde(flatten)]
    app: AppStatus,
    delivered: Option<u64>,
    dropped: Option<u64>,
    refused: Option<u64>,
    lost: Option<u64>,
    skipped: Option<bool>,
    passed_over: Option<u64>,
    unsent: Option<u64>,
    slowed: Option<u64>,
}

impl Line {
    fn of(app: AppStatus, counters: &[AppCounters]) -> Self {
        let counters = counters.iter().find(|it| it.name == app.name);
        Self {
            delivered: counters.map(|it| it.delivered),
            dropped: counters.map(|it| it.dropped),
            refused: counters.map(|it| it.refused),
            lost: counters.map(|it| it.lost),
            skipped: counters.map(|it| it.skipped),
            passed_over: counters.map(|it| it.passed_over),
            unsent: counters.map(|it| it.unsent),
            slowed: counters.map(|it| it.slowed),
            app,
        }
    }
}

fn table(apps: &[Line]) -> Table<17> {
    let mut table = Table::new([
        "APP",
        "NUMBER",
        "STAGE",
        "PRIORITIES",
        "HOST",
        "STATE",
        "PID",
        "USER",
        "RESTARTS",
        "DELIVERED",
        "DROPPED",
        "REFUSED",
        "LOST",
        "VERSION",
        "FROM",
        "SHA-256",
        "LAST EXIT",
    ])
    .expendable(&[
        "SHA-256",
        "USER",
        "NUMBER",
        "PRIORITIES",
        "FROM",
        "LOST",
        "VERSION",
        "PID",
        "REFUSED",
        "DELIVERED",
        "DROPPED",
        "LAST EXIT",
        "HOST",
    ]);
    for Line { app, delivered, dropped, refused, lost, skipped, .. } in apps {
        let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let number = |number: &Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        let skipped = if *skipped == Some(true) { ", skipped" } else { "" };
        let band = app.band.map(|[lowest, highest]| format!("{lowest}-{highest}"));
        table.row([
            &app.name,
            &app.number.to_string(),
            &app.stage,
            &or_none(band.as_deref()),
            &host(app),
            &format!("{}{skipped}", app.state),
            &or_none(app.pid.map(|pid| pid.to_string()).as_deref()),
            &app.uid.to_string(),
            &app.restarts.to_string(),
            &number(delivered),
            &number(dropped),
            &number(refused),
            &number(lost),
            &or_none(app.version.as_deref()),
            app.signed_by.as_deref().unwrap_or(&app.origin),
            &or_none(app.sha256.as_deref().map(|it| it.get(..DIGITS).unwrap_or(it))),
            &or_none(app.last_exit.as_deref()),
        ]);
    }
    table
}

/// Returns the hosting of an app, with the reason if it was moved out of the kernel.
pub(crate) fn host(app: &AppStatus) -> String {
    match &app.demoted {
        Some(why) => format!("{} (was kernel: {why})", app.host),
        None => app.host.clone(),
    }
}

#[cfg(test)]
mod tests {
    use control::operator::ProgramState;

    use super::*;

    #[test]
    fn unknown_counters_print_as_dash() {
        let firewall = AppStatus {
            name: "firewall".into(),
            number: 7,
            stage: "guard".into(),
            band: Some([63_488, 65_535]),
            host: "kernel".into(),
            demoted: None,
            version: Some("0.1.0".into()),
            sha256: Some("0123456789abcdef".repeat(4)),
            origin: "package".into(),
            signed_by: Some("acme".into()),
            pid: Some(42),
            uid: 1_879_048_199,
            state: ProgramState::Running,
            restarts: 0,
            last_exit: None,
            kept: None,
        };
        let observer = AppStatus {
            name: "observer".into(),
            number: 1,
            stage: "observe".into(),
            band: None,
            host: "user".into(),
            demoted: Some("it panicked".into()),
            version: None,
            sha256: None,
            origin: "unsigned".into(),
            signed_by: None,
            pid: None,
            state: ProgramState::Waiting,
            restarts: 3,
            last_exit: Some("killed by SIGSEGV".into()),
            ..firewall.clone()
        };
        let counters = AppCounters {
            name: "firewall".into(),
            delivered: 1234,
            dropped: 5,
            skipped: true,
            passed_over: 6,
            ..<_>::default()
        };
        let lines = [firewall, observer].map(|app| Line::of(app, std::slice::from_ref(&counters)));
        assert_eq!(
            table(&lines).format(None).text,
            "\
APP       NUMBER  STAGE    PRIORITIES   HOST                            STATE             PID  USER        RESTARTS  DELIVERED  DROPPED  REFUSED  LOST  VERSION  FROM      SHA-256       LAST EXIT
firewall  7       guard    63488-65535  kernel                          running, skipped  42   1879048199  0         1234       5        0        0     0.1.0    acme      0123456789ab  -
observer  1       observe  -            user (was kernel: it panicked)  waiting           -    1879048199  3         -          -        -        -     -        unsigned  -             killed by SIGSEGV
"
        );
        let [known, unknown] = lines.map(|line| serde_json::to_string(&line).unwrap());
        assert!(
            known.ends_with(r#","delivered":1234,"dropped":5,"refused":0,"lost":0,"skipped":true,"passed_over":6,"unsent":0,"slowed":0}"#),
            "{known}"
        );
        assert!(
            unknown.ends_with(r#","delivered":null,"dropped":null,"refused":null,"lost":null,"skipped":null,"passed_over":null,"unsent":null,"slowed":null}"#),
            "{unknown}"
        );
    }
}
