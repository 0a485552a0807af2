//! `rosemary apps`: the apps, what they may and how they fare.

use anyhow::Context as _;
use clap::Args;
use monitor::admin::AppStatus;
use monitor::options::Place;

use crate::ask::Monitor;
use crate::say;
use crate::table::Table;

/// Digits of a digest that are shown to people; `--json` has all.
const DIGITS: usize = 12;

/// The options of `rosemary apps`.
#[derive(Debug, Clone, Args)]
pub struct AppsArgs {
    /// Print JSON, for programs: a list, an object per app
    #[arg(long)]
    pub json: bool,
    /// Where it runs.
    #[command(flatten)]
    pub place: Place,
}

/// Asks and prints.
///
/// # Errors
/// Nothing runs, or it does not answer; what it said cannot be written.
pub fn run(args: &AppsArgs) -> anyhow::Result<()> {
    let apps = Monitor::connect(&args.place)?.status()?.apps;
    if args.json {
        let json = serde_json::to_string(&apps).context("cannot write JSON")?;
        say::data(format_args!("{json}\n"))
    } else if apps.is_empty() {
        say::note("no app is to run; name one in rosemary.toml, or with `rosemary up --app NAME`");
        Ok(())
    } else {
        say::data(table(&apps))
    }
}

fn table(apps: &[AppStatus]) -> String {
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
        "VERSION",
        "SHA-256",
        "LAST EXIT",
    ]);
    for app in apps {
        let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let band = app.band.map(|[lowest, highest]| format!("{lowest}-{highest}"));
        table.row([
            &app.name,
            &app.number.to_string(),
            &app.stage,
            &or_none(band.as_deref()),
            &host(app),
            &app.state.to_string(),
            &or_none(app.pid.map(|pid| pid.to_string()).as_deref()),
            &app.uid.to_string(),
            &app.restarts.to_string(),
            &or_none(app.version.as_deref()),
            &or_none(app.sha256.as_deref().map(|it| it.get(..DIGITS).unwrap_or(it))),
            &or_none(app.last_exit.as_deref()),
        ]);
    }
    table.text()
}

/// What hosts it, and why no longer the kernel, if it was to.
pub(crate) fn host(app: &AppStatus) -> String {
    match &app.demoted {
        Some(why) => format!("{} (was kernel: {why})", app.host),
        None => app.host.clone(),
    }
}

#[cfg(test)]
mod tests {
    use monitor::supervise::State;

    use super::*;

    #[test]
    fn apps_are_a_line_each_and_what_is_not_known_a_dash() {
        let firewall = AppStatus {
            name: "firewall".into(),
            number: 7,
            stage: "guard".into(),
            band: Some([63_488, 65_535]),
            host: "kernel".into(),
            demoted: None,
            version: Some("0.1.0".into()),
            sha256: Some("0123456789abcdef".repeat(4)),
            pid: Some(42),
            uid: 1_879_048_199,
            state: State::Running,
            restarts: 0,
            last_exit: None,
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
            pid: None,
            state: State::Waiting,
            restarts: 3,
            last_exit: Some("killed by SIGSEGV".into()),
            ..firewall.clone()
        };
        assert_eq!(
            table(&[firewall, observer]),
            "\
APP       NUMBER  STAGE    PRIORITIES   HOST                            STATE    PID  USER        RESTARTS  VERSION  SHA-256       LAST EXIT
firewall  7       guard    63488-65535  kernel                          running  42   1879048199  0         0.1.0    0123456789ab  -
observer  1       observe  -            user (was kernel: it panicked)  waiting  -    1879048199  3         -        -             killed by SIGSEGV
"
        );
    }
}
