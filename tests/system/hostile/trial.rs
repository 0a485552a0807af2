//! One hostile app, or several, beside the firewall and the learning switch on Open vSwitch: what became of
//! it and of the others.
//!
//! ```text
//! h1 <== pings on flows that are there ==> h2
//! h3 <-- pings that need new flows --> h1
//! h4 --- what the firewall denies --X
//! h5 --- the word to begin
//! ```

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::{Host, Lab, Of, Rosemary, Switch, Watch};
use cli::status::Report;
use rosemary_tests::net::{APP, INTERVAL, SOON};
use rosemary_tests::rosemary_binary;

use super::list::{Attacker, Free};

const FIREWALL: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nfail = \"closed\"\n\
                        config = \"firewall.toml\"\ncapabilities = [\"flow.write\", \"stats.read\"]\n";

/// What the operator is told of an app that goes on, besides what it says itself.
const RECORDS: [&str; 4] = [
    "refused a system call",
    "refused a message of an app",
    "app is at a hard limit",
    "app is above a hard limit",
];

/// What kernel and monitor may grow by, each.
const GROWTH: u64 = 32 << 20;

/// How many descriptors more each of them may hold.
const DESCRIPTORS: usize = 16;

/// New flows whose first packet is timed.
const FIRST_PACKETS: u32 = 15;

/// The network, for all trials.
pub(super) struct Stage<'lab> {
    lab: &'lab Lab,
    s1: Switch<'lab>,
    hosts: [Host<'lab>; 5],
    watch: Watch<'lab>,
}

/// What became of an app.
pub(super) struct Verdict {
    pub(super) name: String,
    /// What it got, or did to others.
    pub(super) escapes: Vec<String>,
    /// What the operator is told of it.
    pub(super) record: Option<String>,
    /// How often it said that it was refused.
    pub(super) refused: usize,
    /// The median time of first packets of new flows beside it.
    pub(super) first_packet: Option<Duration>,
    /// How long `rosemary status` took beside it, at most.
    pub(super) status: Option<Duration>,
}

/// A process's memory and descriptors.
#[derive(Debug, Clone, Copy)]
struct Holding {
    memory: u64,
    descriptors: usize,
}

impl<'lab> Stage<'lab> {
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
        let deny = format!("[[deny]]\nfrom = \"{}\"\n", hosts[3].address());
        fs::write("/etc/rosemary/firewall.toml", deny)?;
        Ok(Self { lab, s1, hosts, watch })
    }

    /// Starts Rosemary with these beside firewall and learning switch.
    fn start(&self, attackers: &[Attacker], let_loose: bool) -> anyhow::Result<Rosemary<'lab>> {
        let mut config = FIREWALL.to_owned() + "[[app]]\nname = \"learning-switch\"\n";
        config.extend(attackers.iter().map(|it| it.config(let_loose)));
        fs::write("/etc/rosemary/rosemary.toml", config)?;
        self.s1.ofctl(&["del-flows"])?;
        let no_wall = let_loose && attackers.iter().any(|it| it.free == Free::NoWall);
        let args: &[&str] = if no_wall { &["--unconfined"] } else { &[] };
        let mut rosemary = Rosemary::start(self.lab, &rosemary_binary(), args)?;
        rosemary.wait_for_switch(&self.s1)?;
        Ok(rosemary)
    }

    /// The median time of the first packets of new flows with nobody hostile there.
    pub(super) fn quiet(&self) -> anyhow::Result<Duration> {
        let _rosemary = self.start(&[], false)?;
        self.hosts[0].ping(&self.hosts[1], 3, INTERVAL)?;
        self.first_packets()
    }

    /// Runs these at the same time. What is done to others is on the account of all of them.
    pub(super) fn run(
        &self,
        attackers: &[Attacker],
        let_loose: bool,
    ) -> anyhow::Result<Vec<Verdict>> {
        let [h1, h2, h3, h4, h5] = &self.hosts;
        let forged = self.watch.seen(&["LLDP"]).len();
        let mut rosemary = self.start(attackers, let_loose)?;
        h1.ping(h2, 3, INTERVAL)?;
        let before = rosemary.status()?.context("it answers")?;
        let held = holdings(&before)?;
        let pings = if attackers.iter().any(Attacker::is_a_bomb) { 400 } else { 100 };
        let mut established = h1.ping_in_background(h2, pings, INTERVAL)?;
        established.wait_for(3, SOON)?;

        let begun = Instant::now();
        h5.ping(h1, 1, INTERVAL)?;
        let bombs = attackers.len() == 1 && attackers.iter().any(Attacker::is_a_bomb);
        let (mut first_packet, mut status) = (None, None);
        if bombs {
            for _ in 0..10 {
                let asked = Instant::now();
                rosemary.status()?.context("it answers")?;
                status = status.max(Some(asked.elapsed()));
            }
            first_packet = Some(self.first_packets()?);
        }
        self.wait_until_over(&rosemary, &before, attackers, let_loose)?;

        let mut harm = Vec::new();
        if h4.ping(h2, 2, INTERVAL)?.received > 0 {
            harm.push("what the firewall denies came through".to_owned());
        }
        // The first may be flooded while its flow is made.
        if h3.ping(h1, 3, INTERVAL)?.lost() > 1 {
            harm.push("pings on new flows were lost".to_owned());
        }
        let lost = established.finish()?.lost();
        if lost > 0 {
            harm.push(format!("{lost} pings on flows that were there were lost"));
        }
        // What the timed first packets deleted is not theirs.
        if first_packet.is_none() && !self.has_flow_since(begun)? {
            harm.push("a flow of another app was deleted".to_owned());
        }
        if self.watch.seen(&["LLDP"]).len() > forged {
            harm.push("a forged LLDP arrived".to_owned());
        }
        harm.extend(harm_to_programs(&mut rosemary, &before, held)?);

        let log = rosemary.log();
        let verdict = |attacker: &Attacker| {
            let mut escapes = said(&log, attacker, "GOT ");
            escapes.extend(harm.iter().cloned());
            Verdict {
                name: attacker.name.clone(),
                escapes,
                record: record(&log, attacker),
                refused: said(&log, attacker, "REFUSED ").len(),
                first_packet,
                status,
            }
        };
        Ok(attackers.iter().map(verdict).collect())
    }

    /// Waits until each has said that it is done, or has come to its end.
    fn wait_until_over(
        &self,
        rosemary: &Rosemary<'_>,
        before: &Report,
        attackers: &[Attacker],
        let_loose: bool,
    ) -> anyhow::Result<()> {
        let patience = SOON * 3;
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
                !said(&log, it, "DONE").is_empty() && !it.ends()
                    || ended && (restarted || kernel_died)
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

    /// The median time of a ping for which two flows have to be made.
    fn first_packets(&self) -> anyhow::Result<Duration> {
        let [h1, _, h3, ..] = &self.hosts;
        let mut times = Vec::new();
        for _ in 0..FIRST_PACKETS {
            for host in [h1, h3] {
                self.s1.ofctl(&["del-flows", &format!("dl_dst={}", host.mac())])?;
            }
            times.extend(h3.ping(h1, 1, INTERVAL)?.rtts());
        }
        times.sort_unstable();
        times.get(times.len() / 2).copied().context("no first packet came through")
    }

    /// Whether the flow to h2 that was there at `begun` is still that one.
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

/// What became of kernel, monitor, firewall and learning switch.
fn harm_to_programs(
    rosemary: &mut Rosemary<'_>,
    before: &Report,
    held: [Holding; 2],
) -> anyhow::Result<Vec<String>> {
    let mut harm = Vec::new();
    let after = rosemary.wait_for("Rosemary answers", SOON, |status| {
        status.programs.kernel.pid.is_some().then(|| status.clone())
    })?;
    if after.programs.monitor.pid != before.programs.monitor.pid {
        harm.push("the monitor is another one".to_owned());
    }
    if after.programs.kernel.pid != before.programs.kernel.pid {
        harm.push("the kernel ended".to_owned());
        return Ok(harm);
    }
    for app in ["firewall", APP] {
        let restarts = |report: &Report| report.app(app).map(|app| app.restarts);
        if restarts(&after) != restarts(before) {
            harm.push(format!("{app} ended"));
        }
    }
    for ((who, now), then) in ["monitor", "kernel"].into_iter().zip(holdings(&after)?).zip(held) {
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

/// Of the monitor and the kernel.
fn holdings(report: &Report) -> anyhow::Result<[Holding; 2]> {
    let kernel = report.programs.kernel.pid.context("the kernel runs")?;
    Ok([holding(report.programs.monitor.pid)?, holding(kernel)?])
}

fn holding(pid: u32) -> anyhow::Result<Holding> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let memory = kib.context("it has memory")? * 1024;
    Ok(Holding { memory, descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count() })
}

/// What an app said that begins with `word`.
fn said(log: &str, attacker: &Attacker, word: &str) -> Vec<String> {
    let whose = format!("app=\"{}\"", attacker.name);
    let lines = log.lines().filter(|line| line.contains(&whose) && line.contains(": "));
    let words = lines.filter_map(|line| {
        let (_, rest) = line.split_once(&format!(" {word}"))?;
        Some(format!("{word}{}", rest.split(" app=").next().unwrap_or(rest)))
    });
    words.collect()
}

/// The record that names an app and what it did: with the time, as every line of the log.
fn record(log: &str, attacker: &Attacker) -> Option<String> {
    let name = &attacker.name;
    let told = |line: &&str| {
        is_end(line, name)
            || (line.contains(&format!("app=\"{name}\""))
                && RECORDS.iter().any(|it| line.contains(it)))
    };
    log.lines().find(told).map(ToOwned::to_owned)
}

/// Whether a line tells of the end of the app of that name, wherever it ran.
fn is_end(line: &str, name: &str) -> bool {
    let of_zone = line.contains(&format!("program=\"zone {name}\""));
    let taken_out = line.contains("app was taken out") && line.contains(&format!("app=\"{name}\""));
    of_zone && (line.contains("died") || line.contains("killed it")) || taken_out
}
