//! `rosemary apps`: shows the apps and their counters, or one app in full.

mod full;

use anyhow::{Context as _, bail};
use clap::Args;
use config::instance::InstancePaths;
use control::operator::{AppStatus, InactiveApp, InactiveState, Status};
use view::apps::{FullApp, Line, ListedApp};

use self::full::AppText;
use crate::client;
use crate::say;
use crate::table::{Table, output_width};

/// Number of digest digits shown to people; `--json` prints all.
const DIGITS: usize = 12;

/// Index of the column STATE.
const STATE: usize = 5;

const AFTER_HELP: &str = "\
NUMBER is the app's number, which never changes. PRIORITIES are those that its flows may have. HOST is `user` for a \
process of its own and `kernel` for the kernel. FROM is the developer who signed the app's package, `shipped` for an app \
that comes with Rosemary, or `unsigned`. DELIVERED and DROPPED count packet-ins, REFUSED counts rejected messages of the app, and LOST counts replies and \
errors of switches that the app did not receive, all since the kernel started. STATE is `skipped` for an app that \
answers too late, so that no packet waits for it, and `paced` for one whose flow-mods wait because of its pace; it also \
names the limit that another app has set. STATE is `disabled` for one that the configuration or an operator disables, and \
`installed` for one whose package is installed and that the configuration does not contain; JSON has only the name and \
the state of the last two. While the kernel restarts, the counters are unknown: they are a dash, in JSON null, and the \
exit code is still 0.

With NAME, Rosemary shows the app in full: its files, its capabilities with their scopes, its services, the packet-ins \
that it receives, the numbers of its flows, groups and meters, its restarts, its newest incidents, and for each limit \
the amount in use with the soft and the hard limit. CPU is in thousandths of a processor.";

/// Options of `rosemary apps`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AppsArgs {
    /// Name of an app, to show its rights, limits and settings
    pub name: Option<String>,
    /// Print JSON: a list with an object per app, or the object of NAME
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
    let monitor = client::connect(&args.instance)?;
    let Status { apps: status, inactive, .. } = monitor.status()?;
    if let Some(name) = &args.name {
        must_run(name, &status, &inactive)?;
    }
    let counters = monitor.kernel().and_then(|kernel| kernel.apps()).unwrap_or_else(|error| {
        say::error(&anyhow::Error::from(error).context("cannot query the packet-in counters"));
        Vec::new()
    });
    if let Some(name) = &args.name {
        return AppText(FullApp::query(&monitor, name, &counters)?).print(args);
    }
    let apps: Vec<Line> = status.into_iter().map(|app| Line::of(app, &counters)).collect();
    if args.json {
        let apps =
            apps.iter().map(ListedApp::Active).chain(inactive.iter().map(ListedApp::Inactive));
        let apps: Vec<ListedApp<'_>> = apps.collect();
        let json = serde_json::to_string(&apps).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if apps.is_empty() && inactive.is_empty() {
        say::note(
            "no app is configured; name one in rosemary.toml, or with `rosemary up --app NAME`",
        );
        Ok(())
    } else {
        say::table(&table(&apps, &inactive).format(output_width(args.wide)))
    }
}

/// Checks that Rosemary is to run the app `name`.
///
/// # Errors
/// It is not. The error says why, or which apps there are.
fn must_run(name: &str, apps: &[AppStatus], inactive: &[InactiveApp]) -> anyhow::Result<()> {
    if apps.iter().any(|app| app.name == name) {
        return Ok(());
    }
    match inactive.iter().find(|app| app.name == name).map(|app| app.state) {
        Some(InactiveState::Disabled) => {
            bail!("{name} is disabled; `rosemary app enable {name}` runs it")
        }
        Some(InactiveState::Installed) => bail!(
            "{name} is installed and the configuration does not contain it; `rosemary app enable {name}` runs it"
        ),
        None => {
            let names =
                apps.iter().map(|app| &app.name).chain(inactive.iter().map(|app| &app.name));
            let names: Vec<&str> = names.map(String::as_str).collect();
            bail!("there is no app {name:?}; the apps are: {}", names.join(", "))
        }
    }
}

fn table(apps: &[Line], inactive: &[InactiveApp]) -> Table<17> {
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
        "DELIVERED",
        "REFUSED",
        "DROPPED",
        "LAST EXIT",
        "HOST",
    ]);
    for line in apps {
        let Line { app, delivered, dropped, refused, lost, .. } = line;
        let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let number = |number: &Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        let band = app.band.map(|[lowest, highest]| format!("{lowest}-{highest}"));
        table.row([
            &app.name,
            &app.number.to_string(),
            &app.stage,
            &or_none(band.as_deref()),
            &host(app),
            &line.state(),
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
    for InactiveApp { name, state } in inactive {
        let mut cells = ["-"; 17];
        let state = state.to_string();
        (cells[0], cells[STATE]) = (name, &state);
        table.row(cells);
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

    use control::query::AppCounters;

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
            problem: None,
            limited: None,
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
            paced: 4096,
            ..<_>::default()
        };
        let disabled = InactiveApp { name: "meter".into(), state: InactiveState::Disabled };
        let lines = [firewall, observer].map(|app| Line::of(app, std::slice::from_ref(&counters)));
        assert_eq!(
            table(&lines, std::slice::from_ref(&disabled)).format(None).text,
            "\
APP       NUMBER  STAGE    PRIORITIES   HOST                            STATE                    PID  USER        RESTARTS  DELIVERED  DROPPED  REFUSED  LOST  VERSION  FROM      SHA-256       LAST EXIT
firewall  7       guard    63488-65535  kernel                          running, skipped, paced  42   1879048199  0         1234       5        0        0     0.1.0    acme      0123456789ab  -
observer  1       observe  -            user (was kernel: it panicked)  waiting                  -    1879048199  3         -          -        -        -     -        unsigned  -             killed by SIGSEGV
meter     -       -        -            -                               disabled                 -    -           -         -          -        -        -     -        -         -             -
"
        );
        let entry = serde_json::to_string(&ListedApp::Inactive(&disabled)).unwrap();
        assert_eq!(entry, r#"{"name":"meter","state":"disabled"}"#);
        let [known, unknown] = lines.map(|line| serde_json::to_string(&line).unwrap());
        assert!(
            known.ends_with(r#","delivered":1234,"dropped":5,"refused":0,"lost":0,"skipped":true,"passed_over":6,"unsent":0,"slowed":0,"delayed":0,"paced":4096}"#),
            "{known}"
        );
        assert!(
            unknown.ends_with(r#","delivered":null,"dropped":null,"refused":null,"lost":null,"skipped":null,"passed_over":null,"unsent":null,"slowed":null,"delayed":null,"paced":null}"#),
            "{unknown}"
        );
    }
}
