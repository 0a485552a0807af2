//! Runs an app that exits beside a firewall: in Rosemary, and in a controller whose apps share its process
//! (*Rosemary* Fig. 16).
//!
//! ```text
//!  h1 --- allowed ---> h3        firewall, crash, hub: three apps, twice
//!  h1 --- denied ----> h2        without a controller the switch forwards on its own
//! ```
//!
//! Every packet passes the controller. The switch has the default settings of Open vSwitch: some time after it loses
//! its controller it becomes an ordinary switch, which has no firewall.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cli::lab::{Host, Lab, Of, Rosemary, Switch};
use ofbench::figure::{Figure, Line, Scale};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::experiment::{Experiment, Verdict, finished, note};
use rosemary_tests::{os_ken, rosemary_binary};

/// Duration of each observation, and the time of the app's first exit.
const TIME: Duration = Duration::from_secs(45);
const CRASH: f64 = 10.0;

const OS_KENS_PORT: u16 = 6654;

/// Number of pings per measurement, and the interval between two of them.
const PINGS: u32 = 5;
const INTERVAL: Duration = Duration::from_millis(20);

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/rosemary-fig16")
}

/// Answered pings in percent, over time.
#[derive(Default)]
struct Watched {
    allowed: Vec<(f64, f64)>,
    denied: Vec<(f64, f64)>,
}

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<()> {
    let experiment = Experiment::new("rosemary-fig16", &["cc", "python3"])?;
    let program = experiment.os_ken()?;
    let lab = Lab::enter()?;
    let s1 = lab.switch("s1", Of::V1_3)?;
    let [h1, h2, h3] = ["h1", "h2", "h3"].map(|name| lab.host(name, &s1));
    let hosts = [h1?, h2?, h3?];
    for host in &hosts {
        hosts.iter().try_for_each(|other| host.knows(other))?;
    }
    let database = "--db=unix:/run/lab/db.sock";
    lab.run("ovs-vsctl", &[database, "set", "bridge", "s1", "fail_mode=standalone"])?;

    let (rosemary, died) = with_rosemary(&lab, &s1, &hosts)?;
    let os_ken = program.map(|program| with_os_ken(&lab, &program, &s1, &hosts)).transpose()?;
    let line =
        |name: &str, points: &[(f64, f64)]| Line { name: name.into(), points: points.into() };
    let of = |name: &str, watched: &Watched, file: &str| {
        let figure = Figure {
            title: format!("An app exits beside a firewall: {name}"),
            x_label: "seconds".into(),
            y_label: "pings answered, of 100".into(),
            scale: Scale::Linear,
            lines: vec![line("allowed", &watched.allowed), line("denied", &watched.denied)],
            marks: vec![(CRASH, "exit()".into())],
        };
        experiment.draw(file, &figure)
    };
    of("Rosemary", &rosemary, "rosemary.svg")?;
    if let Some(os_ken) = &os_ken {
        of(&format!("os-ken {}", os_ken::VERSION), os_ken, "os-ken.svg")?;
    }
    let there = if os_ken.is_some() { ", once in os-ken" } else { "" };
    let mut text = format!("The app exited {died} times in Rosemary{there}.\n\n");
    text += "| after the first exit | allowed pings answered | denied pings answered |\n| --- | ---: | ---: |\n";
    let mut verdict = Verdict::default();
    let of_os_ken = os_ken.as_ref().map(|it| ("os-ken", it));
    for (name, watched) in [("Rosemary", &rosemary)].into_iter().chain(of_os_ken) {
        let after = |points: &[(f64, f64)]| {
            let late: Vec<(f64, f64)> =
                points.iter().filter(|(at, _)| *at > CRASH).copied().collect();
            // A measurement with lost pings takes longer, so each counts for the time until the next one.
            let answered = late.windows(2).map(|two| (two[1].0 - two[0].0) * two[0].1).sum::<f64>();
            let (first, last) = (late.first().copied(), late.last().copied());
            answered / (last.unwrap_or_default().0 - first.unwrap_or_default().0).max(1.0)
        };
        let (allowed, denied) = (after(&watched.allowed), after(&watched.denied));
        writeln!(text, "| {name} | {allowed:.0} % | {denied:.0} % |")?;
        if name == "Rosemary" {
            verdict.require(allowed >= 90.0, "allowed pings are lost in Rosemary");
            verdict.require(denied < 0.5, "denied pings pass in Rosemary");
        } else {
            verdict.require(denied > 0.5, "os-ken's firewall outlives the exit of an app");
        }
    }
    text.push('\n');
    text += &verdict.line();
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn with_rosemary<'lab>(
    lab: &'lab Lab,
    s1: &Switch<'lab>,
    hosts: &[Host<'lab>; 3],
) -> anyhow::Result<(Watched, u64)> {
    let firewall = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                    capabilities = [\"flow.write\", \"stats.read\"]\n";
    let crash = in_c(lab, "crash", "../experiments/rosemary-fig16/crash.c", "")?;
    configure(&[firewall, &crash, &in_c(lab, "hub", "../crates/sdk/c/hub.c", "")?])?;
    let rules = format!("[[deny]]\nto = \"{}\"\nboth-ways = true\n", hosts[1].address());
    fs::write("/etc/rosemary/firewall.toml", rules)?;
    let start = Instant::now();
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    s1.connect_to("tcp:127.0.0.1:6653")?;
    rosemary.wait_for_switch(s1)?;
    let watched = watch("Rosemary", hosts, start)?;
    let restarts = rosemary
        .wait_for("Rosemary answers", TIME, |status| Some(status.app("crash")?.restarts))?;
    Ok((watched, restarts))
}

fn with_os_ken<'lab>(
    lab: &'lab Lab,
    program: &Path,
    s1: &Switch<'lab>,
    hosts: &[Host<'lab>; 3],
) -> anyhow::Result<Watched> {
    s1.connect_to("ptcp:6699:127.0.0.1")?; // no controller listens there
    s1.ofctl(&["del-flows"])?;
    let apps = ["firewall.py", "crash.py", "hub.py"].map(|app| here().join(app));
    let start = Instant::now();
    let _os_ken = os_ken::start(lab, program, OS_KENS_PORT, &apps)?;
    s1.connect_to(&format!("tcp:127.0.0.1:{OS_KENS_PORT}"))?;
    watch("os-ken", hosts, start)
}

/// Makes the first host ping the two others repeatedly.
fn watch(name: &str, hosts: &[Host<'_>; 3], start: Instant) -> anyhow::Result<Watched> {
    note(format_args!("watching {name} for {} s", TIME.as_secs()));
    let [h1, h2, h3] = hosts;
    let mut watched = Watched::default();
    while start.elapsed() < TIME {
        let at = start.elapsed().as_secs_f64();
        let denied = h1.ping_in_background(h2, PINGS, INTERVAL)?;
        let allowed = h1.ping_in_background(h3, PINGS, INTERVAL)?;
        for (pings, into) in [(denied, &mut watched.denied), (allowed, &mut watched.allowed)] {
            let report = pings.finish()?;
            let share = |it: usize| f64::from(u32::try_from(it).unwrap_or(u32::MAX));
            let (received, sent) = (report.received, report.sent);
            into.push((at, 100.0 * share(received as usize) / share(sent as usize)));
        }
    }
    Ok(watched)
}
