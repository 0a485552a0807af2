//! Runs one or more hostile apps beside the firewall and the learning switch on Open vSwitch, and
//! reports their effects.
//!
//! ```text
//! h1 <== pings on existing flows ==> h2
//! h3 <-- pings that need new flows --> h1
//! h4 --- packets that the firewall denies --X
//! h5 --- the packet that starts the attack
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::{Host, Lab, Of, Rosemary, Switch, Watch};
use cli::status::Report;
use rosemary_tests::apps::in_c;
use rosemary_tests::net::{APP, INTERVAL, SOON};
use rosemary_tests::rosemary_binary;

use super::list::{Attacker, Free, Placement};

/// Ports of this machine: the first is granted to apps of the broker, the second is not.
const GRANTED: &str = "127.0.0.1:7007";
const NOT_GRANTED: &str = "127.0.0.1:7008";

const FIREWALL: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nfail = \"closed\"\n\
                        config = \"firewall.toml\"\ncapabilities = [\"packet-in\", \"flow.write\", \"stats.read\"]\n";

/// Log records about an app that continues.
const RECORDS: [&str; 10] = [
    "app answers too late and is skipped",
    "denied an app what it was not granted",
    "disconnected an app",
    "refused a system call",
    "refused a message of an app",
    "app exceeded a soft limit",
    "app reached a hard limit",
    "app exceeded a hard limit",
    "slowed an app down",
    "closed the connection to an app with routes",
];

/// Growth limit of kernel and monitor, each.
const GROWTH: u64 = 32 << 20;

/// Limit of additional descriptors of each.
const DESCRIPTORS: usize = 16;

/// Number of pings that require new flows; enough that the lab waits for the reply to the last one.
const NEW_PINGS: u32 = 20;

/// First packets of new flows take a few milliseconds, and 200 ms if each waits for a late app.
const LATE: Duration = Duration::from_millis(80);

/// Number of new flows whose first packet is timed.
const FIRST_PACKETS: u32 = 15;

/// The network of all trials.
pub(super) struct Testbed<'lab> {
    lab: &'lab Lab,
    s1: Switch<'lab>,
    hosts: [Host<'lab>; 5],
    watch: Watch<'lab>,
    /// Configuration entry of the app whose data others try to read.
    vault: String,
    /// A listener that must receive no connection.
    not_granted: TcpListener,
}

/// The outcome of an app.
pub(super) struct Verdict {
    pub(super) name: String,
    /// Its successful attempts, or its effects on others.
    pub(super) escapes: Vec<String>,
    /// The log record about it.
    pub(super) record: Option<String>,
    /// Number of attempts that it reported as refused.
    pub(super) refused: usize,
    /// Its impact on others, if it ran alone to measure that.
    pub(super) impact: Option<Impact>,
}

/// Impact of an app that keeps the machine busy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Impact {
    /// Median time of first packets of new flows before it started.
    pub(super) quiet: Duration,
    /// The same while it runs.
    pub(super) beside: Duration,
    /// Maximum duration of `rosemary status` while it runs.
    pub(super) status: Duration,
}

/// A process with its memory and descriptors.
#[derive(Debug, Clone, Copy)]
struct Resources {
    pid: u32,
    memory: u64,
    descriptors: usize,
}

impl<'lab> Testbed<'lab> {
    pub(super) fn set(lab: &'lab Lab) -> anyhow::Result<Self> {
        let s1 = lab.switch("s1", Of::V1_3)?;
        let hosts = ["h1", "h2", "h3", "h4", "h5"].map(|name| lab.host(name, &s1));
        let [h1, h2, h3, h4, h5] = hosts;
        let hosts = [h1?, h2?, h3?, h4?, h5?];
        for one in &hosts {
            for other in hosts.iter().filter(|other| other.name() != one.name()) {
                one.knows(other)?;
            }
        }
        let watch = hosts[2].watch()?;
        let keys = "stage = \"observe\"\nservices = [\"storage\"]";
        let vault = in_c(lab, "vault", "apps/vault.c", keys)?;
        let granted = TcpListener::bind(GRANTED)?;
        thread::spawn(move || granted.incoming().for_each(drop)); // each connection is closed immediately
        let not_granted = TcpListener::bind(NOT_GRANTED)?;
        not_granted.set_nonblocking(true)?;
        let deny = format!("[[deny]]\nfrom = \"{}\"\n", hosts[3].address());
        fs::write("/etc/rosemary/firewall.toml", deny)?;
        Ok(Self { lab, s1, hosts, watch, vault, not_granted })
    }

    /// Starts Rosemary with these apps beside firewall and learning switch.
    fn start(&self, attackers: &[Attacker], let_loose: bool) -> anyhow::Result<Rosemary<'lab>> {
        let (first, others): (Vec<_>, Vec<_>) =
            attackers.iter().partition(|it| it.placement == Placement::First);
        let mut config = FIREWALL.to_owned();
        config.extend(first.iter().map(|it| it.config(let_loose)));
        config += "[[app]]\nname = \"learning-switch\"\n";
        config.extend(others.iter().map(|it| it.config(let_loose)));
        let services = attackers.iter().any(|it| it.folder == "services");
        if services {
            config += &self.vault;
        }
        fs::write("/etc/rosemary/rosemary.toml", config)?;
        self.s1.ofctl(&["del-flows"])?;
        let no_wall = let_loose && attackers.iter().any(|it| it.free == Free::NoWall);
        let args: &[&str] = if no_wall { &["--unconfined"] } else { &[] };
        let mut rosemary = Rosemary::start(self.lab, &rosemary_binary(), args)?;
        rosemary.wait_for_switch(&self.s1)?;
        if services {
            rosemary.wait_for_log(&["vault", "the secret is kept"], SOON)?;
        }
        Ok(rosemary)
    }

    /// Runs these apps at the same time. Effects on others are attributed to all of them.
    pub(super) fn run(
        &self,
        attackers: &[Attacker],
        let_loose: bool,
    ) -> anyhow::Result<Vec<Verdict>> {
        let [h1, h2, h3, h4, h5] = &self.hosts;
        let forged = self.watch.seen(&["LLDP"]).len();
        let mut rosemary = self.start(attackers, let_loose)?;
        h1.ping(h2, 3, INTERVAL)?;
        let is_bomb = attackers.len() == 1 && attackers.iter().any(Attacker::is_a_bomb);
        let quiet = if is_bomb { Some(self.first_packets(|| Ok(()))?) } else { None };
        let before = rosemary.status()?.context("it answers")?;
        let held = holdings(&before)?;
        let pings = if is_bomb { 400 } else { 100 };
        let mut established = h1.ping_in_background(h2, pings, INTERVAL)?;
        // The flow is then half a second older than any later one.
        established.wait_for(25, SOON)?;

        let begun = Instant::now();
        h5.ping(h1, 1, INTERVAL)?;
        if attackers.iter().any(Attacker::ends) {
            // An app that hangs between two calls blocks nothing until an event for it arrives.
            self.lab.pause(Duration::from_millis(400))?;
            self.forget(h5, h1)?;
            h5.ping(h1, 1, INTERVAL)?;
        }
        let impact = quiet.map(|quiet| self.measure_impact(&rosemary, quiet)).transpose()?;
        self.wait_until_over(&rosemary, &before, attackers, let_loose)?;

        let mut harm = Vec::new();
        if let Some(Impact { beside, .. }) = impact
            && beside > LATE
            && attackers.iter().any(Attacker::is_late)
        {
            harm.push(format!("first packets of new flows took {beside:?}"));
        }
        if h4.ping(h2, 2, INTERVAL)?.received > 0 {
            harm.push("a packet denied by the firewall passed".to_owned());
        }
        let before_it = dropped_for_silence(&mut rosemary)?;
        let lost = u64::from(h3.ping(h1, NEW_PINGS, INTERVAL)?.lost());
        let silence = dropped_for_silence(&mut rosemary)?.saturating_sub(before_it);
        if lost > 0 {
            println!(
                "{lost} pings on new flows were lost, {silence} for want of the firewall's word"
            );
        }
        // The firewall fails closed: on a busy machine, packets without its decision within 100 ms
        // are dropped.
        if lost > if is_bomb { 0 } else { silence } {
            harm.push(format!("{lost} pings on new flows were lost"));
        }
        let lost = established.finish()?.lost();
        if lost > 0 {
            harm.push(format!("{lost} pings on flows that were there were lost"));
        }
        if !self.has_flow_since(begun)? {
            harm.push("a flow of another app was deleted".to_owned());
        }
        if self.watch.seen(&["LLDP"]).len() > forged {
            harm.push("a forged LLDP arrived".to_owned());
        }
        if self.not_granted.incoming().map_while(Result::ok).count() > 0 {
            harm.push("a connection that was not granted was made".to_owned());
        }
        harm.extend(harm_to_programs(&mut rosemary, &before, &held)?);

        let log = rosemary.log();
        for what in ["the secret was touched", "the storage was gone"] {
            if log.contains(what) {
                harm.push(what.to_owned());
            }
        }
        let verdict = |attacker: &Attacker| {
            let mut escapes = said(&log, attacker, "GOT ");
            escapes.extend(harm.iter().cloned());
            Verdict {
                name: attacker.name.clone(),
                escapes,
                record: record(&log, attacker),
                refused: said(&log, attacker, "REFUSED ").len(),
                impact,
            }
        };
        Ok(attackers.iter().map(verdict).collect())
    }

    /// Waits until each app has reported its end, or has ended.
    fn wait_until_over(
        &self,
        rosemary: &Rosemary<'_>,
        before: &Report,
        attackers: &[Attacker],
        let_loose: bool,
    ) -> anyhow::Result<()> {
        let patience = SOON * 6; // apps at their CPU limit share it with all others
        self.lab.wait_for("every hostile app is done", patience, |evidence| {
            let log = rosemary.log();
            let status = rosemary.status()?;
            let kernel = status.as_ref().and_then(|it| it.programs.kernel.pid);
            let kernel_died = kernel != before.programs.kernel.pid;
            let is_over = |it: &&Attacker| {
                let in_kernel = let_loose && it.free == Free::InKernel;
                let ended = log.lines().any(|line| is_end(line, &it.name));
                let restarted = status.as_ref().and_then(|status| status.app(&it.name));
                let restarted = restarted.is_some_and(|app| app.restarts > 0);
                let may_end = it.ends() || it.folder == "greedy";
                !said(&log, it, "DONE").is_empty() && !it.ends()
                    || may_end && ended && (restarted || kernel_died)
                    || (in_kernel && kernel_died)
            };
            let waited: Vec<&str> =
                attackers.iter().filter(|it| !is_over(it)).map(|it| &*it.name).collect();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default();
            evidence.0 = format!("not done: {waited:?}\n{}", end.join("\n"));
            Ok(waited.is_empty().then_some(()))
        })?;
        Ok(())
    }

    /// Measures the impact of the app that was just started.
    fn measure_impact(&self, rosemary: &Rosemary<'_>, quiet: Duration) -> anyhow::Result<Impact> {
        let mut status = Duration::ZERO;
        for _ in 0..10 {
            let asked = Instant::now();
            rosemary.status()?.context("it answers")?;
            status = status.max(asked.elapsed());
        }
        let [h1, _, _, _, h5] = &self.hosts;
        // The start packet again, for an app that was ended and restarted.
        let beside = self.first_packets(|| {
            self.forget(h5, h1)?;
            h5.ping(h1, 1, INTERVAL)?;
            Ok(())
        })?;
        Ok(Impact { quiet, beside, status })
    }

    /// Returns the median time of a ping that requires two new flows; runs `before` before each.
    fn first_packets(&self, before: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
        let [h1, _, h3, ..] = &self.hosts;
        let mut times = Vec::new();
        for _ in 0..FIRST_PACKETS {
            before()?;
            self.forget(h3, h1)?;
            times.extend(h3.ping(h1, 1, INTERVAL)?.rtts());
        }
        times.sort_unstable();
        times.get(times.len() / 2).copied().context("no first packet passed")
    }

    /// Deletes the flows between two hosts.
    fn forget(&self, one: &Host<'_>, other: &Host<'_>) -> anyhow::Result<()> {
        for (from, to) in [(one, other), (other, one)] {
            let pair = format!("dl_src={},dl_dst={}", from.mac(), to.mac());
            self.s1.ofctl(&["del-flows", &pair])?;
        }
        Ok(())
    }

    /// Whether the flow to h2 is still the one that existed at `begun`.
    fn has_flow_since(&self, begun: Instant) -> anyhow::Result<bool> {
        let to_h2 = format!("dl_dst={}", self.hosts[1].mac());
        let age = |flow: &String| -> Option<f64> {
            flow.split_once("duration=")?.1.split_once('s')?.0.parse().ok()
        };
        let flows = self.s1.dump_flows()?;
        let since = begun.elapsed().as_secs_f64();
        Ok(flows
            .iter()
            .filter(|flow| flow.contains(&to_h2))
            .filter_map(age)
            .any(|age| age >= since))
    }
}

/// Returns the effects on kernel, monitor, services, firewall and learning switch.
fn harm_to_programs(
    rosemary: &mut Rosemary<'_>,
    before: &Report,
    held: &BTreeMap<String, Resources>,
) -> anyhow::Result<Vec<String>> {
    let mut harm = Vec::new();
    let after = rosemary.wait_for("Rosemary answers", SOON, |status| {
        status.programs.kernel.pid.is_some().then(|| status.clone())
    })?;
    if after.programs.kernel.pid != before.programs.kernel.pid {
        harm.push("the kernel ended".to_owned());
        return Ok(harm);
    }
    for app in ["firewall", APP, "vault"] {
        let restarts = |report: &Report| report.app(app).map(|app| app.restarts);
        if restarts(&after) != restarts(before) {
            harm.push(format!("{app} ended"));
        }
    }
    let now = holdings(&after)?;
    for (who, then) in held {
        let Some(now) = now.get(who).filter(|now| now.pid == then.pid) else {
            harm.push(format!("the {who} ended"));
            continue;
        };
        if now.memory > then.memory + GROWTH {
            harm.push(format!("the {who} grew from {} to {} bytes", then.memory, now.memory));
        }
        if now.descriptors > then.descriptors + DESCRIPTORS {
            let (from, to) = (then.descriptors, now.descriptors);
            harm.push(format!("the {who} holds {to} descriptors, {from} before"));
        }
    }
    Ok(harm)
}

/// Returns the number of packets dropped because a guard was silent; 0 for a new kernel.
fn dropped_for_silence(rosemary: &mut Rosemary<'_>) -> anyhow::Result<u64> {
    let guarded = rosemary.wait_for("the kernel answers", SOON, |status| {
        Some(status.switches.as_ref()?.iter().map(|switch| switch.guarded).sum())
    })?;
    Ok(guarded)
}

/// Returns the resources of the monitor, the kernel and each service.
fn holdings(report: &Report) -> anyhow::Result<BTreeMap<String, Resources>> {
    let programs = &report.programs;
    let mut pids = vec![
        ("monitor".to_owned(), Some(programs.monitor.pid)),
        ("kernel".to_owned(), programs.kernel.pid),
    ];
    pids.extend(programs.services.iter().map(|service| (service.name.clone(), service.pid)));
    let held = pids.into_iter().map(|(who, pid)| {
        let held = holding(pid.with_context(|| format!("the {who} runs"))?)?;
        Ok((who, held))
    });
    held.collect()
}

fn holding(pid: u32) -> anyhow::Result<Resources> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let memory = kib.context("it has memory")? * 1024;
    Ok(Resources { pid, memory, descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count() })
}

/// Returns the lines of an app's output that start with `word`.
fn said(log: &str, attacker: &Attacker, word: &str) -> Vec<String> {
    let whose = format!("app=\"{}\"", attacker.name);
    let lines = log.lines().filter(|line| line.contains(&whose) && line.contains(": "));
    let words = lines.filter_map(|line| {
        let (_, rest) = line.split_once(&format!(" {word}"))?;
        Some(format!("{word}{}", rest.split(" app=").next().unwrap_or(rest)))
    });
    words.collect()
}

/// Returns the log record that names an app and its action, with its time.
fn record(log: &str, attacker: &Attacker) -> Option<String> {
    let name = &attacker.name;
    let told = |line: &&str| {
        is_end(line, name)
            || (line.contains(&format!("app=\"{name}\""))
                && RECORDS.iter().any(|it| line.contains(it)))
    };
    log.lines().find(told).map(ToOwned::to_owned)
}

/// Whether a line reports the end of the app, in a zone or in the kernel.
fn is_end(line: &str, name: &str) -> bool {
    let of_zone = line.contains(&format!("program=\"zone {name}\""));
    let taken_out = line.contains("app was taken out") && line.contains(&format!("app=\"{name}\""));
    of_zone && (line.contains("died") || line.contains("killed the program")) || taken_out
}
