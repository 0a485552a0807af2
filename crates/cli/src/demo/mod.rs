//! `rosemary demo`: the promise shown on this machine, with no preparation.
//!
//! A switch, three hosts and Rosemary run in a [`Lab`]: pings go through a flow that the app
//! installed, then the app is killed under them. Every line that says `ok` states something that
//! was measured in this run; a line that says `FAILED` makes the exit code 1.
//!
//! With `--keep` it then goes on, for the operator to look around in (`keep.rs`). Without root all of it
//! is in a user namespace.
//!
//! The lab belongs to a thread of its own. The thread that started it stays outside and looks,
//! when it has ended, whether anything is left.

mod keep;
mod story;

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use monitor::admin::AppStatus;
use monitor::supervise::State;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};

use crate::lab::processes::{self, Process};
use crate::lab::{self, Host, Interrupt, Lab, Of, PingReport, Rosemary, Switch};
use crate::status::Report;
use story::Story;

/// The app that the demo shows and kills.
const APP: &str = "learning-switch";

/// How often a host asks for another while something happens.
const INTERVAL: Duration = Duration::from_millis(20);

/// The options of `rosemary demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// The OpenFlow version that the switch speaks
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = Of::V1_3)]
    pub of: Of,
    /// Let it run on when all is shown, to look around in, until Enter or Ctrl-C
    #[arg(long)]
    pub keep: bool,
}

/// Shows it, step by step; 0 only if every outcome was the expected one.
///
/// # Errors
/// What kept the demo from going on: no right to make namespaces, a program that is missing, ...
pub fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    lab::become_root()?; // as long as there is one thread
    let interrupt = Interrupt::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A second signal does no more: the first may well come twice (to a process group and to
        // this process), and every wait from then on is short.
        signal_hook::flag::register(signal, interrupt.clone())?;
    }

    let before = interfaces();
    let args = args.clone();
    let in_the_lab = interrupt.clone();
    let lab = thread::spawn(move || {
        let mut story = Story::new();
        let mut started = Vec::new();
        let outcome = walk(&args, in_the_lab, &mut story, &mut started);
        (outcome, story, started)
    });
    let (outcome, mut story, started) =
        lab.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));

    if !started.is_empty() {
        story.step("What is left of it on this machine?");
        let left = processes::wait_until_gone(&started, Duration::from_secs(2));
        let says = |left: &str| format!("{left} of the {} processes that ran", started.len());
        if left.is_empty() {
            story.check(true, says("none"));
        } else {
            story.check(false, says(&format!("{left:?}")));
        }
        let after = interfaces();
        story.check(
            before == after,
            format!("its network interfaces are those it had: {}", after.join(", ")),
        );
    }
    match outcome {
        Ok(()) if story.failed.is_empty() => {
            story.end("The demo showed all it should.");
            story.written()?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(()) => {
            let failed = story.failed.join("\n  ");
            anyhow::bail!("the demo did not show what it should:\n  {failed}")
        }
        Err(_) if interrupt.load(Ordering::Relaxed) => {
            anyhow::bail!("the demo was interrupted before its end")
        }
        Err(error) => Err(error),
    }
}

/// All that happens in the lab; `started` gets the processes that ran in it.
fn walk(
    args: &DemoArgs,
    interrupt: Interrupt,
    story: &mut Story,
    started: &mut Vec<Process>,
) -> anyhow::Result<()> {
    let binary = env::current_exe().context("the path of this program is not known")?;
    let lab = Lab::enter_until(interrupt)?;
    if let Some(covered) = lab::covering(&binary) {
        anyhow::bail!(
            "{} is below {}, in whose place the demo has an empty directory of its own; put Rosemary \
             somewhere else and start it there",
            binary.display(),
            covered.display()
        );
    }
    story.tell(
        "Rosemary's demo: a switch, three hosts and Rosemary, in a network of their own inside\n\
         this machine, whose interfaces, ports and files stay as they are.",
    );
    if sys::namespace::is_of_one_user() {
        story.tell(
            "As you are not root, you are it in there only (user 0), and so are kernel and app; where\n\
             root starts Rosemary, each has a user of its own.",
        );
    }
    let outcome = scenes(&lab, &binary, args, story, started);
    if outcome.is_err() {
        remember(started);
    }
    outcome
}

fn scenes(
    lab: &Lab,
    binary: &Path,
    &DemoArgs { of, keep }: &DemoArgs,
    story: &mut Story,
    started: &mut Vec<Process>,
) -> anyhow::Result<()> {
    story.step("Rosemary starts (rosemary up).");
    story.written()?;
    let start = Instant::now();
    let mut rosemary = Rosemary::start_with(lab, binary, &[])?;
    remember(started);
    let status = rosemary.wait_for("the app runs", Duration::from_secs(5), |status| {
        status.app(APP).and(Some(status.clone()))
    })?;
    story.check(true, format!("after {}: {}", ms(start.elapsed()), programs(&status)));

    story.step(&format!("A switch with three hosts, speaking OpenFlow {of}, is switched on."));
    let start = Instant::now();
    let s1 = lab.switch("s1", of)?;
    let [h1, h2, h3] = ["h1", "h2", "h3"].map(|name| lab.host(name, &s1));
    let (h1, h2, h3) = (h1?, h2?, h3?);
    for host in [&h1, &h2, &h3] {
        story.note(format!("{} is {} on port {}", host.name(), host.address(), host.port()));
    }
    rosemary.wait_for_switch(&s1)?;
    let connected =
        rosemary.wait_for("the three ports are known", Duration::from_secs(5), |status| {
            status.switch(&s1.dpid()).filter(|switch| switch.ports == 3).cloned()
        })?;
    remember(started);
    story.check(
        connected.version == of.to_string(),
        format!(
            "after {}: Rosemary has {} (Open vSwitch {}), OpenFlow {}, dpid {}, {} ports",
            ms(start.elapsed()),
            s1.name(),
            lab.open_vswitch_version(),
            connected.version,
            connected.dpid,
            connected.ports,
        ),
    );

    first_pings(story, &mut rosemary, &s1, [&h1, &h2, &h3])?;
    app_is_killed(lab, story, &mut rosemary, &s1, [&h1, &h2, &h3])?;

    if keep {
        keep::until_enough(lab, binary, story, &mut rosemary, &s1, [&h1, &h2])?;
    }
    story.step("Everything is stopped.");
    remember(started);
    let stopped = rosemary.stop(Signal::TERM)?;
    let text = format!("Rosemary ended {} after SIGTERM: {}", ms(stopped.took), stopped.status);
    story.check(stopped.status.success(), text);
    Ok(())
}

/// The first packet goes to the app, the others go through the flow it installed.
fn first_pings(
    story: &mut Story,
    rosemary: &mut Rosemary<'_>,
    s1: &Switch<'_>,
    [h1, h2, h3]: [&Host<'_>; 3],
) -> anyhow::Result<()> {
    story.step("h1 pings h2. Nobody knows yet where h2 is.");
    let watch = h3.watch()?;
    let first = h1.ping(h2, 1, INTERVAL)?;
    let asked = packet_ins(rosemary, s1)?;
    let text = match first.replies.first() {
        Some(reply) => {
            format!("answered after {}; the switch asked Rosemary {asked} times", ms(reply.rtt))
        }
        None => format!("not answered; the switch asked Rosemary {asked} times"),
    };
    story.check(first.received == 1 && asked > 0, text);
    let question = ["ARP", "who-has 10.0.0.2"];
    let seen = watch.wait_for(&question, Duration::from_secs(2));
    let text = match &seen {
        Ok(packet) => format!("the app flooded the question; h3 saw it too: {packet}"),
        Err(_) => "h3 did not see the question flooded".to_owned(),
    };
    story.check(seen.is_ok(), text);

    let more = h1.ping(h2, 25, INTERVAL)?;
    let (median, asked) = (ms(more.median_rtt()), packet_ins(rosemary, s1)? - asked);
    let text = format!("then {}, median {median}; it asked {asked} times more", pings(&more));
    story.check(more.lost() == 0, text);
    story.note("ovs-ofctl dump-flows s1:");
    let flows = s1.dump_flows()?;
    for flow in &flows {
        story.note(format!("  {flow}"));
    }
    let leads_to = |host: &Host<'_>| leads_to(&flows, host);
    story.check(
        leads_to(h1) && leads_to(h2),
        "the app's flows lead to h1 on port 1 and to h2 on port 2",
    );
    story.written()
}

/// The app dies under the pings, and only the app.
fn app_is_killed(
    lab: &Lab,
    story: &mut Story,
    rosemary: &mut Rosemary<'_>,
    s1: &Switch<'_>,
    [h1, h2, h3]: [&Host<'_>; 3],
) -> anyhow::Result<()> {
    story.step("kill -9 of the app, while h1 pings h2 and, for the first time, h3.");
    // So that the packets to h3 need no ARP, which would be repeated once a second only.
    h1.knows(h3)?;
    h3.knows(h1)?;
    let before = rosemary.status()?.context("Rosemary does not answer")?;
    let pid = before.app(APP).and_then(|app| app.pid).context("the app does not run")?;
    let mut established = h1.ping_in_background(h2, 150, INTERVAL)?;
    established.wait_for(10, Duration::from_secs(5))?;

    let pid_to_kill = Pid::from_raw(pid.try_into()?).context("a process has a number")?;
    let (killed, killed_at) = (Instant::now(), SystemTime::now());
    kill_process(pid_to_kill, Signal::KILL).context("the app's process could not be killed")?;
    let new = h1.ping_in_background(h3, 100, INTERVAL)?;
    let after = rosemary.wait_for("the app is back", Duration::from_secs(10), |status| {
        let back =
            |app: &&AppStatus| app.state == State::Running && app.pid.is_some_and(|now| now != pid);
        status.app(APP).filter(back).and(Some(status.clone()))
    })?;
    let back = killed.elapsed();
    let (new, established) = (new.finish()?, established.finish()?);

    let app = after.app(APP).context("the app has gone")?;
    let ended = app.last_exit.as_deref().unwrap_or("no reason known");
    let now = app.pid.unwrap_or_default();
    story.check(true, format!("{APP}, pid {pid}: {ended}; back after {} as pid {now}", ms(back)));
    story.check(established.lost() == 0, format!("h1 to h2: {}", pings(&established)));
    match new.first_reply_after(killed_at) {
        Some(after) => {
            let text =
                format!("h1 to h3: first answer {} after the kill, {}", ms(after), pings(&new));
            story.check(true, text);
        }
        None => story.check(false, format!("h1 to h3: {}", pings(&new))),
    }
    let flows = s1.dump_flows()?;
    story.check(leads_to(&flows, h3), "the app that came back has installed a flow to h3");
    let epoch = |status: &Report| status.switch(&s1.dpid()).map(|switch| switch.epoch);
    story.check(
        after.programs.kernel.pid == before.programs.kernel.pid && epoch(&after) == epoch(&before),
        format!(
            "the kernel noticed nothing: pid {} before, {} after, same connection to s1",
            pid_text(before.programs.kernel.pid),
            pid_text(after.programs.kernel.pid)
        ),
    );
    story.written()?;
    Ok(lab.check_interrupt()?)
}

/// How many packets `s1` has sent to Rosemary.
fn packet_ins(rosemary: &Rosemary<'_>, s1: &Switch<'_>) -> anyhow::Result<u64> {
    let status = rosemary.status()?.context("Rosemary does not answer")?;
    Ok(status.switch(&s1.dpid()).context("the switch has gone")?.packet_ins)
}

/// Whether one of `flows` sends what is for `host` out of the port it is behind.
fn leads_to(flows: &[String], host: &Host<'_>) -> bool {
    let (dst, output) =
        (format!("dl_dst={}", host.mac()), format!("actions=output:{}", host.port()));
    flows.iter().any(|flow| flow.contains(&dst) && flow.ends_with(&output))
}

/// Adds the processes below this one that are not yet in `started`.
fn remember(started: &mut Vec<Process>) {
    let me = std::process::id();
    for process in processes::tree(me) {
        if process.pid != me && !started.contains(&process) {
            started.push(process);
        }
    }
}

/// The names of the network interfaces that this thread sees.
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
