//! `rosemary demo`: demonstrates fault isolation on this machine without preparation.
//!
//! A ring of three switches with a host each and Rosemary run in a [`Lab`]. Rosemary discovers the ring; pings pass flows
//! that the app installed; a link is cut while they continue, and then the app is killed. Each line that starts with `ok` states a measurement
//! of this run; a line with `FAILED` makes the exit code 1.
//!
//! With `--keep` the demo then keeps running for inspection (`keep_running.rs`). Without root,
//! everything runs in a user namespace.
//!
//! The lab belongs to its own thread. When that thread has ended, the starting thread, which stays
//! outside, checks that nothing is left.

mod keep_running;
mod ring;
mod transcript;

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use control::operator::AppStatus;
use control::operator::ProgramState;
use openflow::OfferedVersions;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};

use crate::lab::processes::{self, Process};
use crate::lab::{self, Host, Interrupt, Lab, Of, PingReport, Rosemary, Switch};
use crate::status::Report;
use transcript::Transcript;

/// The app that the demo runs and kills.
const APP: &str = "forwarding";

/// Ping interval of a host.
const INTERVAL: Duration = Duration::from_millis(20);

/// Options of `rosemary demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// OpenFlow version of the switch
    #[arg(long, value_name = "VERSION", value_parser = versions(), default_value_t = Of::PREFERRED)]
    pub of: Of,
    /// Keep running after the demonstration, for inspection, until Enter or Ctrl-C
    #[arg(long)]
    pub keep: bool,
}

/// Parses the name of an OpenFlow version.
fn versions() -> impl TypedValueParser<Value = Of> {
    let values = OfferedVersions::default().versions().map(|of| {
        PossibleValue::new(of.name()).help(format!("OpenFlow {of}, wire version {}", of.wire()))
    });
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Of>())
}

/// Runs the demo step by step; the exit code is 0 only if every outcome was as expected.
///
/// # Errors
/// The reason why the demo cannot continue: namespaces are not permitted, a program is missing, ...
pub fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    lab::become_root()?; // requires a single-threaded process
    let interrupt = Interrupt::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A second signal has no further effect: the first may arrive twice (for the process group
        // and for this process), and all waits are short from then on.
        signal_hook::flag::register(signal, interrupt.clone())?;
    }

    let before = interfaces();
    let args = args.clone();
    let in_the_lab = interrupt.clone();
    let lab = thread::spawn(move || {
        let mut transcript = Transcript::new();
        let mut started = Vec::new();
        let outcome = run_in_lab(&args, in_the_lab, &mut transcript, &mut started);
        (outcome, transcript, started)
    });
    let (outcome, mut transcript, started) =
        lab.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));

    if !started.is_empty() {
        transcript.step("Is anything left of the demo on this machine?");
        let left = processes::wait_until_gone(&started, Duration::from_secs(2));
        let says = |left: &str| format!("{left} of the {} processes that ran", started.len());
        if left.is_empty() {
            transcript.check(true, says("none"));
        } else {
            transcript.check(false, says(&format!("{left:?}")));
        }
        let after = interfaces();
        transcript.check(
            before == after,
            format!("its network interfaces are unchanged: {}", after.join(", ")),
        );
    }
    match outcome {
        Ok(()) if transcript.failed.is_empty() => {
            transcript.end("The demo passed.");
            transcript.written()?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(()) => {
            let failed = transcript.failed.join("\n  ");
            anyhow::bail!("the demo failed:\n  {failed}")
        }
        Err(_) if interrupt.load(Ordering::Relaxed) => {
            anyhow::bail!("the demo was interrupted")
        }
        Err(error) => Err(error),
    }
}

/// Runs the demo in the lab; collects its processes in `started`.
fn run_in_lab(
    args: &DemoArgs,
    interrupt: Interrupt,
    transcript: &mut Transcript,
    started: &mut Vec<Process>,
) -> anyhow::Result<()> {
    let binary = env::current_exe().context("cannot find the path of this program")?;
    let lab = Lab::enter_until(interrupt)?;
    if let Some(covered) = lab::covering(&binary) {
        anyhow::bail!(
            "{} is below {}, which the demo replaces by an empty directory; install Rosemary \
             elsewhere and start it there",
            binary.display(),
            covered.display()
        );
    }
    transcript.print(
        "Rosemary's demo: three switches, three hosts and Rosemary, in a separate network on this\n\
         machine, whose interfaces, ports and files are not changed.",
    );
    if sys::namespace::is_of_one_user() {
        transcript.print(
            "As you are not root, you are root (user 0) inside the demo only, and so are kernel and\n\
             app; if root starts Rosemary, each has its own user.",
        );
    }
    let outcome = run_scenes(&lab, &binary, args, transcript, started);
    if outcome.is_err() {
        remember(started);
    }
    outcome
}

fn run_scenes(
    lab: &Lab,
    binary: &Path,
    &DemoArgs { of, keep }: &DemoArgs,
    transcript: &mut Transcript,
    started: &mut Vec<Process>,
) -> anyhow::Result<()> {
    transcript.step("Rosemary starts (rosemary up --app forwarding).");
    transcript.written()?;
    let start = Instant::now();
    let mut rosemary = Rosemary::start_with(lab, binary, &["--app", APP])?;
    remember(started);
    let status = rosemary.wait_for("the app runs", Duration::from_secs(5), |status| {
        status.app(APP).and(Some(status.clone()))
    })?;
    transcript.check(true, format!("after {}: {}", ms(start.elapsed()), programs(&status)));

    transcript.step(&format!(
        "A ring of three switches, with a host each, starts; they speak OpenFlow {of}."
    ));
    let [s1, s2, s3] = ["s1", "s2", "s3"].map(|name| lab.switch(name, of));
    let (s1, s2, s3) = (s1?, s2?, s3?);
    let switches = [&s1, &s2, &s3];
    let (h1, h2, h3) = (lab.host("h1", &s1)?, lab.host("h2", &s2)?, lab.host("h3", &s3)?);
    for (host, switch) in [&h1, &h2, &h3].into_iter().zip(switches) {
        let (name, address) = (host.name(), host.address());
        transcript.note(format!(
            "{name} is {address} on port {} of {}",
            host.port(),
            switch.name()
        ));
    }
    for (one, other) in [(&s1, &s2), (&s2, &s3), (&s3, &s1)] {
        one.link_to(other)?;
    }
    ring_is_found(lab, transcript, &mut rosemary, switches)?;
    remember(started);

    first_pings(transcript, &mut rosemary, switches, [&h1, &h2, &h3])?;
    ring::link_is_cut(lab, transcript, switches, [&h1, &h2])?;
    app_is_killed(lab, transcript, &mut rosemary, switches, [&h1, &h2, &h3])?;

    if keep {
        keep_running::wait_for_operator(lab, binary, transcript, &mut rosemary, &s1, [&h1, &h2])?;
    }
    transcript.step("Everything is stopped.");
    remember(started);
    let stopped = rosemary.stop(Signal::TERM)?;
    let text = format!("Rosemary ended {} after SIGTERM: {}", ms(stopped.took), stopped.status);
    transcript.check(stopped.status.success(), text);
    Ok(())
}

/// Shows the switches as Rosemary has discovered them.
fn ring_is_found(
    lab: &Lab,
    transcript: &mut Transcript,
    rosemary: &mut Rosemary<'_>,
    switches: [&Switch<'_>; 3],
) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut versions = Vec::new();
    for switch in switches {
        versions.push(rosemary.wait_for_switch(switch)?.version);
    }
    let drawing = ring::discovered(lab, switches, 3)?;
    let [s1, ..] = switches;
    transcript.check(
        versions.iter().all(|version| *version == s1.of().to_string()),
        format!(
            "after {}: Rosemary has three switches (Open vSwitch {}), OpenFlow {}, and found three links:",
            ms(start.elapsed()),
            lab.open_vswitch_version(),
            versions.join(", "),
        ),
    );
    for line in drawing {
        transcript.note(line);
    }
    transcript.written()
}

/// Shows that the first packet goes to the app, and later ones pass the installed flows.
fn first_pings(
    transcript: &mut Transcript,
    rosemary: &mut Rosemary<'_>,
    [s1, s2, _]: [&Switch<'_>; 3],
    [h1, h2, h3]: [&Host<'_>; 3],
) -> anyhow::Result<()> {
    transcript.step("h1 pings h2, whose location is not known yet.");
    let watch = h3.watch()?;
    let first = h1.ping(h2, 1, INTERVAL)?;
    let asked = packet_ins(rosemary, s1)?;
    let text = match first.replies.first() {
        Some(reply) => {
            format!("answered after {}; s1 asked Rosemary {asked} times", ms(reply.rtt))
        }
        None => format!("not answered; s1 asked Rosemary {asked} times"),
    };
    transcript.check(first.received == 1 && asked > 0, text);
    let question = ["ARP", "who-has 10.0.0.2"];
    let seen = watch.wait_for(&question, Duration::from_secs(2));
    let text = match &seen {
        Ok(packet) => format!("the app flooded the request; h3 received it too: {packet}"),
        Err(_) => "h3 did not receive the flooded request".to_owned(),
    };
    transcript.check(seen.is_ok(), text);

    let more = h1.ping(h2, 25, INTERVAL)?;
    let (median, asked) = (ms(more.median_rtt()), packet_ins(rosemary, s1)? - asked);
    let text = format!("then {}, median {median}; it asked {asked} times more", pings(&more));
    transcript.check(more.lost() == 0, text);
    transcript.note("ovs-ofctl dump-flows s1:");
    let flows = s1.dump_flows()?;
    for flow in &flows {
        transcript.note(format!("  {flow}"));
    }
    transcript.check(
        leads_to(&flows, h1) && leads_to(&s2.dump_flows()?, h2),
        "the app's flows lead to h1 at s1 and to h2 at s2",
    );
    transcript.written()
}

/// Kills the app while pings continue, and shows that nothing else is affected.
fn app_is_killed(
    lab: &Lab,
    transcript: &mut Transcript,
    rosemary: &mut Rosemary<'_>,
    [s1, _, s3]: [&Switch<'_>; 3],
    [h1, h2, h3]: [&Host<'_>; 3],
) -> anyhow::Result<()> {
    transcript.step("kill -9 of the app, while h1 pings h2 and, for the first time, h3.");
    // A static ARP entry for h3 avoids ARP requests, which are repeated only once a second.
    h1.knows(h3)?;
    h3.knows(h1)?;
    let before = rosemary.status()?.context("Rosemary does not answer")?;
    let pid = before.app(APP).and_then(|app| app.pid).context("the app does not run")?;
    let mut established = h1.ping_in_background(h2, 150, INTERVAL)?;
    established.wait_for(10, Duration::from_secs(5))?;

    let pid_to_kill = Pid::from_raw(pid.try_into()?).context("a process has a number")?;
    let (killed, killed_at) = (Instant::now(), SystemTime::now());
    kill_process(pid_to_kill, Signal::KILL).context("cannot kill the app's process")?;
    let new = h1.ping_in_background(h3, 100, INTERVAL)?;
    let after = rosemary.wait_for("the app is back", Duration::from_secs(10), |status| {
        let back = |app: &&AppStatus| {
            app.state == ProgramState::Running && app.pid.is_some_and(|now| now != pid)
        };
        status.app(APP).filter(back).and(Some(status.clone()))
    })?;
    let back = killed.elapsed();
    let (new, established) = (new.finish()?, established.finish()?);

    let app = after.app(APP).context("the app disappeared")?;
    let ended = app.last_exit.as_deref().unwrap_or("unknown reason");
    let now = app.pid.unwrap_or_default();
    transcript
        .check(true, format!("{APP}, pid {pid}: {ended}; back after {} as pid {now}", ms(back)));
    transcript.check(established.lost() == 0, format!("h1 to h2: {}", pings(&established)));
    match new.first_reply_after(killed_at) {
        Some(after) => {
            let text =
                format!("h1 to h3: first answer {} after the kill, {}", ms(after), pings(&new));
            transcript.check(true, text);
        }
        None => transcript.check(false, format!("h1 to h3: {}", pings(&new))),
    }
    let flows = s3.dump_flows()?;
    transcript.check(leads_to(&flows, h3), "the restarted app has installed a flow to h3");
    let epoch = |status: &Report| status.switch(&s1.dpid()).map(|switch| switch.epoch);
    transcript.check(
        after.programs.kernel.pid == before.programs.kernel.pid && epoch(&after) == epoch(&before),
        format!(
            "the kernel was not affected: pid {} before, {} after, same connection to s1",
            pid_text(before.programs.kernel.pid),
            pid_text(after.programs.kernel.pid)
        ),
    );
    transcript.written()?;
    Ok(lab.check_interrupt()?)
}

/// Returns the number of packet-ins that `s1` has sent.
fn packet_ins(rosemary: &Rosemary<'_>, s1: &Switch<'_>) -> anyhow::Result<u64> {
    let status = rosemary.status()?.context("Rosemary does not answer")?;
    Ok(status.switch(&s1.dpid()).context("the switch disappeared")?.packet_ins)
}

/// Whether a flow outputs packets for `host` to the host's port.
fn leads_to(flows: &[String], host: &Host<'_>) -> bool {
    let (dst, output) =
        (format!("dl_dst={}", host.mac()), format!("actions=output:{}", host.port()));
    flows.iter().any(|flow| flow.contains(&dst) && flow.ends_with(&output))
}

/// Adds the descendants of this process to `started`, each once.
fn remember(started: &mut Vec<Process>) {
    let me = std::process::id();
    for process in processes::tree(me) {
        if process.pid != me && !started.contains(&process) {
            started.push(process);
        }
    }
}

/// Returns the names of the network interfaces visible to this thread.
fn interfaces() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

fn programs(status: &Report) -> String {
    let apps = status.programs.apps.iter().map(|app| {
        let (name, pid, uid) = (&app.name, pid_text(app.pid), app.uid);
        format!("the app {name} (pid {pid}, user {uid})")
    });
    let kernel = format!("kernel (pid {})", pid_text(status.programs.kernel.pid));
    let monitor = format!("resource monitor (pid {})", status.programs.monitor.pid);
    [monitor, kernel].into_iter().chain(apps).collect::<Vec<_>>().join(", ")
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(|| "none".to_owned(), |pid| pid.to_string())
}

fn pings(report: &PingReport) -> String {
    format!("{} of {} pings answered", report.received, report.sent)
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}
