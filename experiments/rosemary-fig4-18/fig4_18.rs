//! Runs an app that deletes links while another watches them: in Rosemary, which refuses its messages, and in a
//! controller whose apps can write each other's data (*Rosemary* Figs. 4 and 18).
//!
//! ```text
//!  s1 ---- s2        an app that reports the links, and an app that deletes them
//! ```

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cli::lab::{Lab, Of, Rosemary, Switch};
use ofbench::figure::{Figure, Line, Scale};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::experiment::{Experiment, Verdict, finished, note};
use rosemary_tests::{os_ken, rosemary_binary};

/// Duration of each observation; time from the app's start to the attack, in seconds.
const TIME: Duration = Duration::from_secs(35);
const ATTACK: f64 = 15.0;
const EVERY: Duration = Duration::from_millis(250);

const OS_KENS_PORT: u16 = 6654;

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/rosemary-fig4-18")
}

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<()> {
    let experiment = Experiment::new("rosemary-fig4-18", &["cc", "python3"])?;
    let program = experiment.os_ken()?;
    let lab = Lab::enter()?;
    let switches = [lab.switch("s1", Of::V1_3)?, lab.switch("s2", Of::V1_3)?];
    switches[0].link_to(&switches[1])?;
    let (rosemary, refused) = with_rosemary(&lab, &switches)?;
    let os_ken = program.map(|program| with_os_ken(&lab, &program, &switches)).transpose()?;
    let least = |line: &Line| {
        let late = line.points.iter().filter(|(at, _)| *at > ATTACK + 3.0).map(|(_, links)| *links);
        late.fold(f64::INFINITY, f64::min)
    };
    let mut text = format!(
        "| | fewest links that the monitor sees during the attack | refused messages of the attacker |\n\
         | --- | ---: | ---: |\n| Rosemary | {:.0} | {refused} |\n",
        least(&rosemary)
    );
    let mut verdict = Verdict::default();
    verdict.require(least(&rosemary) >= 2.0, "an app deletes links of another in Rosemary");
    verdict.require(refused > 0, "Rosemary refuses no message of the attacker");
    if let Some(os_ken) = &os_ken {
        verdict.require(least(os_ken) < 2.0, "the attack has no effect in os-ken");
        writeln!(text, "| os-ken {} | {:.0} | none |", os_ken::VERSION, least(os_ken))?;
    }
    let figure = Figure {
        title: "An app deletes links while another watches them".into(),
        x_label: "seconds".into(),
        y_label: "links that the monitor sees (one each way)".into(),
        scale: Scale::Linear,
        lines: [rosemary].into_iter().chain(os_ken).collect(),
        marks: vec![(ATTACK, "attacks begin".into())],
    };
    experiment.draw("links.svg", &figure)?;
    text.push('\n');
    text += &verdict.line();
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn with_rosemary(lab: &Lab, switches: &[Switch<'_>]) -> anyhow::Result<(Line, u64)> {
    let monitor = "[[app]]\nname = \"link-monitor\"\n";
    configure(&[monitor, &in_c(lab, "access", "../experiments/rosemary-fig4-18/access.c", "")?])?;
    note(format_args!("watching Rosemary for {} s", TIME.as_secs()));
    let start = Instant::now();
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    for switch in switches {
        switch.connect_to("tcp:127.0.0.1:6653")?;
    }
    let mut points = Vec::new();
    while start.elapsed() < TIME {
        let log = rosemary.log();
        let of = |what: &str| {
            log.lines().filter(|line| line.contains("link from") && line.contains(what)).count()
        };
        let links = of("is there").saturating_sub(of("is gone"));
        points.push((start.elapsed().as_secs_f64(), f64::from(u32::try_from(links)?)));
        lab.pause(EVERY)?;
    }
    let refused = rosemary.wait_for("the switches are known", TIME, |status| {
        Some(status.switches.iter().flatten().map(|switch| switch.refused).sum())
    })?;
    let record = rosemary.wait_for_log(&["refused a message of an app", "access"], TIME)?;
    note(record);
    Ok((Line { name: "Rosemary".into(), points }, refused))
}

fn with_os_ken(lab: &Lab, program: &Path, switches: &[Switch<'_>]) -> anyhow::Result<Line> {
    let topology = "os_ken.topology.switches".into();
    let apps = [topology, here().join("monitor.py"), here().join("access.py")];
    note(format_args!("watching os-ken for {} s", TIME.as_secs()));
    let start = Instant::now();
    let os_ken = os_ken::start_with(lab, program, OS_KENS_PORT, &["--observe-links"], &apps)?;
    for switch in switches {
        switch.connect_to(&format!("tcp:127.0.0.1:{OS_KENS_PORT}"))?;
    }
    let mut points = Vec::new();
    while start.elapsed() < TIME {
        let said = os_ken.stderr();
        let links = said.lines().rev().find_map(|line| line.strip_prefix("LINKS "));
        let links: u32 = links.map_or(Ok(0), str::parse)?;
        points.push((start.elapsed().as_secs_f64(), f64::from(links)));
        lab.pause(EVERY)?;
    }
    Ok(Line { name: format!("os-ken {}", os_ken::VERSION), points })
}
