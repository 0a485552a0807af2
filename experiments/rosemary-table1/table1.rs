//! Injects each fault of *Rosemary* Table 1 into a loaded network, and reports Rosemary's reaction and its time.
//!
//! ```text
//!  h1 --- established flow ---> h3     50 pings a second: how many are lost?
//!  h2 --- to nobody ---> s1 ---> packet-ins, 500 a second, to the learning switch and to an app that misbehaves
//! ```
//!
//! Each row has a network and a Rosemary of its own. The time is that of the incident: from the end of the program
//! until it runs again. Beside it stands the time from the fault, which includes the detection.

#![forbid(unsafe_code)]

mod beside;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use cli::lab::{Host, Lab, Of, Rosemary, Running};
use cli::status::Report;
use control::incident::{Cause, Incident};
use ofbench::figure::{Figure, Line, Scale};
use rosemary_tests::apps::{configure, in_c, in_rust};
use rosemary_tests::experiment::{Experiment, Verdict, finished, note};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{kill, rosemary_binary};

/// Longest time until Rosemary has reacted.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time that every program has run before the fault, so that no minimum run time delays its restart.
const SETTLED: Duration = Duration::from_millis(1500);

/// An address behind which no host is, so that each packet to it reaches the apps.
const NOBODY: &str = "10.0.0.99";

/// The faults, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    AppCrash,
    AppHang,
    AppLimit,
    ServiceCrash,
    ServicesCrash,
    KernelAppCrash,
    KernelAppExit,
    KernelAppHang,
    KernelCrash,
    ServiceGrows,
    KernelLeak,
    KernelCrashes,
}

const FAULTS: [Fault; 12] = [
    Fault::AppCrash,
    Fault::AppHang,
    Fault::AppLimit,
    Fault::ServiceCrash,
    Fault::ServicesCrash,
    Fault::KernelAppCrash,
    Fault::KernelAppExit,
    Fault::KernelAppHang,
    Fault::KernelCrash,
    Fault::ServiceGrows,
    Fault::KernelLeak,
    Fault::KernelCrashes,
];

impl Fault {
    fn title(self) -> &'static str {
        match self {
            Self::AppCrash => "a user app crashes",
            Self::AppHang => "a user app hangs",
            Self::AppLimit => "a user app exceeds its memory limit",
            Self::ServiceCrash => "a service crashes",
            Self::ServicesCrash => "several services crash",
            Self::KernelAppCrash => "a kernel app crashes",
            Self::KernelAppExit => "a kernel app exits",
            Self::KernelAppHang => "a kernel app hangs",
            Self::KernelCrash => "the kernel crashes",
            Self::ServiceGrows => "a service grows to its memory limit",
            Self::KernelLeak => "the kernel leaks",
            Self::KernelCrashes => "the kernel crashes again and again",
        }
    }

    fn is_in_kernel(self) -> bool {
        matches!(
            self,
            Self::KernelAppCrash
                | Self::KernelAppExit
                | Self::KernelAppHang
                | Self::KernelLeak
                | Self::KernelCrashes
        )
    }

    /// The UDP port that makes the app of `tests/apps/moody.c` misbehave.
    fn trigger(self) -> Option<u16> {
        match self {
            Self::AppCrash | Self::KernelAppCrash => Some(7001),
            Self::KernelAppExit => Some(7003),
            Self::AppHang | Self::KernelAppHang => Some(7004),
            Self::AppLimit => Some(7005),
            Self::KernelLeak => Some(7006),
            Self::KernelCrashes => Some(7007),
            _ => None,
        }
    }

    /// The operator's rules.
    fn rules(self) -> &'static str {
        match self {
            Self::ServiceGrows => "[storage]\nbytes-per-app = \"4 GiB\"\n",
            Self::KernelLeak => "[supervision]\nleak-growth = \"8 MiB\"\nleak-window-seconds = 4\n",
            Self::KernelCrashes => "[safe-mode]\nkernel-restarts = 3\nhealth-seconds = 1\n",
            _ => "",
        }
    }

    /// Whether this incident reports the fault.
    fn is_reported_by(self, incident: &Incident) -> bool {
        let program = incident.program.to_string();
        match self {
            Self::AppCrash | Self::AppHang | Self::AppLimit => program == "app moody",
            Self::ServiceCrash | Self::ServiceGrows => program == "service storage",
            Self::KernelLeak => program == "kernel" && incident.cause == Cause::Leak,
            Self::ServicesCrash => incident.cause == Cause::Services,
            Self::KernelCrashes => incident.cause == Cause::SafeMode,
            _ => program == "kernel",
        }
    }
}

/// A row of the table.
struct Row {
    fault: Fault,
    incident: Incident,
    in_all: Duration,
    sent: u32,
    lost: u32,
    /// Arrivals of replies, in seconds since the pings began.
    replies: Vec<f64>,
    /// Packets that have reached h3, which the controller has forwarded; the seconds as above.
    forwarded: Vec<(f64, f64)>,
}

fn main() -> ExitCode {
    finished(run())
}

fn run() -> anyhow::Result<()> {
    let experiment = Experiment::new("rosemary-table1", &["cc", "bash", "python3"])?;
    let os_ken = experiment.os_ken()?;
    if os_ken.is_some() {
        cli::lab::require(&["ovs-testcontroller"])?;
    }
    let mut text = String::from(
        "| what happens | reaction | back after | from the fault | pings lost | evidence |\n\
         | --- | --- | ---: | ---: | ---: | --- |\n",
    );
    let (mut lines, mut throughput) = (Vec::new(), Vec::new());
    let mut verdict = Verdict::default();
    for (fault, number) in FAULTS.into_iter().zip(1..) {
        note(format_args!("{number} of {}: {}", FAULTS.len(), fault.title()));
        // A thread cannot leave its lab.
        let row = thread::spawn(move || row(fault)).join().map_err(|_| anyhow!("a row failed"))?;
        let row = row.with_context(|| fault.title())?;
        text += &line(&row);
        verdict.require(row.lost == 0, format_args!("{}: {} pings lost", fault.title(), row.lost));
        if matches!(fault, Fault::AppCrash | Fault::KernelAppCrash | Fault::ServicesCrash) {
            let points = per_interval(&row.replies);
            lines.push(Line { name: fault.title().into(), points });
            throughput.push(Line { name: fault.title().into(), points: rates(&row.forwarded) });
        }
    }
    let figure = Figure {
        title: "Faults at 2 s: established pings answered".into(),
        x_label: "seconds".into(),
        y_label: "pings answered, per 200 ms".into(),
        scale: Scale::Linear,
        lines,
        marks: vec![(2.0, "fault".into())],
    };
    experiment.draw("pings.svg", &figure)?;
    let figure = Figure {
        title: "Faults at 2 s: packets forwarded by the controller".into(),
        y_label: "packets a second".into(),
        lines: throughput,
        ..figure
    };
    experiment.draw("throughput.svg", &figure)?;
    text.push('\n');
    text += &beside::table(os_ken.as_deref())?;
    text.push('\n');
    text += &verdict.line();
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn line(row: &Row) -> String {
    let Row { fault, incident, in_all, sent, lost, .. } = row;
    let back = incident.duration_ms.map_or("-".into(), |time| format!("{time} ms"));
    let evidence = incident.evidence.blamed.as_ref().map(|app| format!("app {app} is to blame"));
    let mut facts: Vec<String> = [incident.cause.to_string()].into_iter().chain(evidence).collect();
    facts.extend(incident.evidence.facts.iter().take(2).cloned());
    let mut text = String::new();
    let _ = writeln!(
        text,
        "| {} | {} | {back} | {} | {lost} of {sent} | {} |",
        fault.title(),
        incident.reaction.join("; "),
        // The storage grows from its start on.
        if *fault == Fault::ServiceGrows {
            "-".into()
        } else {
            format!("{} ms", in_all.as_millis())
        },
        facts.join("; ").replace('|', "/")
    );
    text
}

/// Counts the replies in each fifth of a second.
fn per_interval(replies: &[f64]) -> Vec<(f64, f64)> {
    let end = replies.iter().copied().fold(0.0, f64::max);
    let mut points = Vec::new();
    let mut at = 0.0;
    while at < end {
        let count = replies.iter().filter(|reply| (at..at + 0.2).contains(*reply)).count();
        points.push((at, f64::from(u32::try_from(count).unwrap_or(u32::MAX))));
        at += 0.2;
    }
    points
}

/// The packets a second between two counts.
fn rates(counts: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let pairs = counts.iter().zip(counts.iter().skip(1));
    pairs.map(|((from, old), (to, new))| (*to, (new - old) / (to - from).max(0.001))).collect()
}

/// Starts a process that prints, five times a second, the time and the packets that have reached the host.
fn count_packets(lab: &Lab, host: &Host<'_>) -> anyhow::Result<Running> {
    let script = "while sleep 0.2; do echo $EPOCHREALTIME $(grep eth0: /proc/net/dev); done";
    let mut command = host.command("bash");
    command.args(["-c", script]).env("LC_ALL", "C");
    Ok(lab.start("counter", command)?)
}

/// The counts that such a process printed, since `began`.
fn counts(text: &str, began: SystemTime) -> Vec<(f64, f64)> {
    let began = began.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let count = |line: &str| {
        // The time, `eth0:`, the received bytes and the received packets.
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.first()?.parse::<f64>().ok()? - began, words.get(3)?.parse().ok()?))
    };
    text.lines().filter_map(count).filter(|(at, _)| *at >= 0.0).collect()
}

fn row(fault: Fault) -> anyhow::Result<Row> {
    let lab = Lab::enter()?;
    let mut net = start(&lab, fault)?;
    let load = net.h2.ping_in_background(&net.h3, 1, INTERVAL)?; // learns h2
    load.finish()?;
    let mut flood = net.h2.command("ping");
    flood.args(["-n", "-q", "-i", "0.002", NOBODY]);
    let flood = lab.start("flood", flood)?;
    lab.pause(SETTLED)?;
    let counter = count_packets(&lab, &net.h3)?;
    let began = SystemTime::now();
    let mut established = net.h1.ping_in_background(&net.h3, 300, INTERVAL)?;
    established.wait_for(3, SOON)?;
    lab.pause(Duration::from_secs(2).saturating_sub(began.elapsed().unwrap_or_default()))?;

    let start = Instant::now();
    inject(&mut net, fault)?;
    let incident = wait_for_incident(&mut net, fault, start)?;
    let in_all = start.elapsed();
    let established = established.finish()?;
    drop(flood);
    let forwarded = counts(&counter.stdout(), began);
    let replies = established.replies.iter();
    let replies = replies.filter_map(|reply| reply.at.duration_since(began).ok());
    Ok(Row {
        fault,
        incident,
        in_all,
        sent: established.sent,
        lost: established.lost(),
        replies: replies.map(|at| at.as_secs_f64()).collect(),
        forwarded,
    })
}

fn start(lab: &Lab, fault: Fault) -> anyhow::Result<Net<'_>> {
    let keys = if fault.is_in_kernel() {
        "stage = \"observe\"\nhost = \"kernel\"\nhang-seconds = 1\n"
    } else {
        "stage = \"observe\"\nhang-seconds = 1\nservices = [\"storage\", \"broker\"]\n\
         capabilities = [\"net.connect:127.0.0.1:9\"]\n\
         [app.limits]\nmemory = \"64 MiB\"\n"
    };
    let moody = in_c(lab, "moody", "apps/moody.c", keys)?;
    let filler = match fault {
        Fault::ServiceGrows => in_rust("filler", "stage = \"observe\"\nservices = [\"storage\"]"),
        _ => String::new(),
    };
    configure(&[fault.rules(), "[[app]]\nname = \"learning-switch\"\n", &moody, &filler])?;
    let net = Net::of(lab, Of::V1_3, Rosemary::start(lab, &rosemary_binary(), &[])?)?;
    for (one, other) in [(&net.h1, &net.h3), (&net.h3, &net.h1), (&net.h2, &net.h3)] {
        one.knows(other)?;
    }
    for host in [&net.h1, &net.h2] {
        let neighbour = ["neighbour", "replace", NOBODY, "lladdr", "02:00:00:00:00:99"];
        host.run("ip", &[&neighbour[..], &["dev", "eth0"]].concat())?;
    }
    let h1: &Host<'_> = &net.h1;
    lab.wait_for("the hosts reach each other", SOON, |_| {
        Ok(h1.ping(&net.h3, 3, INTERVAL).is_ok_and(|it| it.lost() == 0).then_some(()))
    })?;
    Ok(net)
}

fn inject(net: &mut Net<'_>, fault: Fault) -> anyhow::Result<()> {
    let status = net.status()?;
    let service = |name: &str| {
        let mut services = status.programs.services.iter();
        let pid = services.find(|service| service.name == name).and_then(|service| service.pid);
        pid.with_context(|| format!("the service {name} does not run"))
    };
    match fault {
        Fault::ServiceCrash => kill(service("storage")?),
        Fault::ServicesCrash => {
            kill(service("storage")?)?;
            kill(service("broker")?)
        }
        Fault::KernelCrash => kill(kernel(&status)?),
        Fault::ServiceGrows => Ok(()), // it grows since its start
        _ => trigger(net, fault.trigger().context("a fault of an app")?),
    }
}

fn kernel(status: &Report) -> anyhow::Result<u32> {
    status.programs.kernel.pid.context("the kernel does not run")
}

fn trigger(net: &Net<'_>, port: u16) -> anyhow::Result<()> {
    send(&net.h1, port)
}

/// Sends a UDP packet to this port of nobody.
fn send(from: &Host<'_>, port: u16) -> anyhow::Result<()> {
    from.run("bash", &["-c", &format!("echo x > /dev/udp/{NOBODY}/{port}")])?;
    Ok(())
}

/// Waits for the incident of the fault, and until the program runs again.
fn wait_for_incident(net: &mut Net<'_>, fault: Fault, start: Instant) -> anyhow::Result<Incident> {
    let rosemary = rosemary_binary().display().to_string();
    let mut again = Instant::now();
    while start.elapsed() < PATIENCE {
        // The monitor does not answer while it starts all programs again.
        if let Ok(json) = net.lab.run(&rosemary, &["incidents", "--json"]) {
            let mut incidents: Vec<Incident> = serde_json::from_str(&json)?;
            let is_over = |incident: &Incident| match fault {
                Fault::KernelCrashes => {
                    incident.reaction.iter().any(|it| it.contains("all its apps"))
                }
                _ => !incident.open,
            };
            incidents.retain(|incident| fault.is_reported_by(incident) && is_over(incident));
            if let Some(incident) = incidents.pop() {
                return Ok(incident);
            }
        }
        // A packet can be lost on its way to the app, and an app that ends the kernel must do so several times.
        let pause = if fault == Fault::KernelCrashes { 300 } else { 5_000 };
        if let Some(port) = fault.trigger()
            && again.elapsed() >= Duration::from_millis(pause)
        {
            trigger(net, port)?;
            again = Instant::now();
        }
        net.lab.pause(INTERVAL)?;
    }
    Err(anyhow!("no incident after {PATIENCE:?}; {:?}", net.rosemary.log()))
}
