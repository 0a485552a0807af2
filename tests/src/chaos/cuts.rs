//! Deaths of programs, and then a link that is cut: established pings use another path.
//!
//! Each host of a network with several paths pings the next one. A step kills a program, or stops and starts Rosemary, cuts a
//! link a random moment later, and measures for how long replies are missing. A cut that happens while a switch is not
//! connected counts from the moment when all are: no flow can move before. Then the link comes back.

use std::fmt;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use cli::lab::{Host, Lab, Of, PingReport, Pinging, Rosemary, Switch};
use cli::status::Report;
use rustix::process::Signal;
use serde_json::Value;

use super::Summary;
use super::fault::Program;
use super::observation::programs;
use crate::apps::configure;
use crate::net::SOON;
use crate::random::Random;
use crate::{kill, rosemary_binary};

/// The time between two pings.
const INTERVAL: Duration = Duration::from_millis(10);

/// Pings of a step at most.
const MOST_PINGS: u32 = 6_000;

/// The latest moment of a cut after the death.
const LATEST: Duration = Duration::from_millis(1500);

/// The longest outage after a port went down, or after all switches are connected, that is promised on an idle machine.
const PROMISED: Duration = Duration::from_millis(300);
/// The same where switches have groups for fast failover.
const PROMISED_WITH_FAILOVER: Duration = Duration::from_millis(50);
/// Time in which replies must come again; otherwise they are lost for good.
const FOR_GOOD: Duration = Duration::from_secs(10);

/// The configuration. Programs may die often.
const CONFIG: &str = "[supervision]\nrestarts = 100000\nfailed-services = 3\nfailed-services-seconds = 1\n\
                      [safe-mode]\nkernel-restarts = 100000\n\
                      [[app]]\nname = \"forwarding\"\n[[app]]\nname = \"stats\"\n";

/// What dies before a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// A program is killed.
    Killed(Program),
    /// Each of [`SERVICES`] is killed, at the same time.
    Services,
    /// All of Rosemary is killed and started again; the link is cut later.
    Rosemary,
    /// All of Rosemary is killed and started again; the link is cut between.
    RosemaryWhileAway,
}

/// The programs that forwarding uses, and some that it does not use.
const SERVICES: [Program; 5] = [
    Program::App("hosts"),
    Program::App("topology"),
    Program::App("stats"),
    Program::Service("storage"),
    Program::Service("northbound"),
];

/// Each kind of death.
pub const DEATHS: [Death; 10] = [
    Death::Killed(Program::App("hosts")),
    Death::Killed(Program::App("topology")),
    Death::Killed(Program::App("stats")),
    Death::Killed(Program::App("forwarding")),
    Death::Killed(Program::Service("storage")),
    Death::Killed(Program::Service("northbound")),
    Death::Services,
    Death::Killed(Program::Kernel),
    Death::Rosemary,
    Death::RosemaryWhileAway,
];

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(program) => write!(f, "{program} is killed"),
            Self::Services => f.write_str("all services are killed"),
            Self::Rosemary => f.write_str("Rosemary is killed and started again"),
            Self::RosemaryWhileAway => f.write_str("the link is cut while Rosemary is away"),
        }
    }
}

/// A network with several paths: switches in a ring, each with a host, and links across.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The number of switches.
    pub switches: usize,
    /// Links between switches that are no neighbours in the ring.
    pub across: &'static [(usize, usize)],
}

/// Three switches: two paths between each two.
pub const RING: Shape = Shape { switches: 3, across: &[] };
/// Four switches with a link across: paths of equal cost, and several detours.
pub const SQUARE: Shape = Shape { switches: 4, across: &[(0, 2)] };

/// The network.
pub struct Cuts<'lab> {
    lab: &'lab Lab,
    rosemary: Option<Rosemary<'lab>>,
    switches: Vec<Switch<'lab>>,
    hosts: Vec<Host<'lab>>,
    links: usize,
    of: Of,
    /// By how much longer than promised an outage may be, on a busy machine.
    margin: u32,
}

impl<'lab> Cuts<'lab> {
    /// Builds the network and waits until all links are found and the hosts reach each other.
    ///
    /// # Errors
    /// A step failed.
    pub fn start(lab: &'lab Lab, of: Of, shape: Shape, margin: u32) -> anyhow::Result<Self> {
        configure(&[CONFIG])?;
        let (mut switches, mut hosts) = (Vec::new(), Vec::new());
        for number in 1..=shape.switches {
            let switch = lab.switch(&format!("s{number}"), of)?;
            hosts.push(lab.host(&format!("h{number}"), &switch)?);
            switches.push(switch);
        }
        let ring = (0..shape.switches).map(|at| (at, (at + 1) % shape.switches));
        let links: Vec<(usize, usize)> = ring.chain(shape.across.iter().copied()).collect();
        for &(one, other) in &links {
            join(lab, &switches[one], &switches[other])?;
        }
        let rosemary = Some(Rosemary::start(lab, &rosemary_binary(), &[])?);
        let mut cuts = Self { lab, rosemary, switches, hosts, links: links.len(), of, margin };
        cuts.settle()?;
        let hosts = &cuts.hosts;
        lab.wait_for("the hosts reach each other", SOON * 2, |_| {
            let reached =
                pairs(hosts).map(|(from, to)| Ok(from.ping(to, 2, INTERVAL)?.lost() == 0));
            Ok(reached
                .collect::<Result<Vec<_>, cli::lab::LabError>>()?
                .iter()
                .all(|it| *it)
                .then_some(()))
        })?;
        Ok(cuts)
    }

    /// Returns the switches.
    pub fn switches(&self) -> &[Switch<'lab>] {
        &self.switches
    }

    /// Returns the hosts.
    pub fn hosts(&self) -> &[Host<'lab>] {
        &self.hosts
    }

    /// Runs `rosemary` with these arguments; returns its output and its notes.
    ///
    /// # Errors
    /// It does not start.
    pub fn rosemary(&self, args: &[&str]) -> anyhow::Result<(bool, String, String)> {
        let output = self.lab.command(rosemary_binary()).args(args).output()?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((output.status.success(), text(output.stdout), text(output.stderr)))
    }

    /// Starts a ping from each host to the next.
    ///
    /// # Errors
    /// A ping does not start, or is not answered.
    pub fn pings(&self) -> anyhow::Result<Vec<Pinging<'lab>>> {
        let start = |(from, to): (&Host<'lab>, &Host<'lab>)| {
            from.ping_in_background(to, MOST_PINGS, INTERVAL)
        };
        let mut pings = pairs(&self.hosts).map(start).collect::<Result<Vec<_>, _>>()?;
        for ping in &mut pings {
            ping.wait_for(5, SOON)?;
        }
        Ok(pings)
    }

    /// Lets something die, cuts links of the ring one after the other, and returns the longest outage of each. The first cut follows
    /// after `delay`.
    ///
    /// # Errors
    /// Replies are missing for longer than promised, or for good.
    pub fn step(
        &mut self,
        death: Death,
        delay: Duration,
        links: &[usize],
    ) -> anyhow::Result<Vec<Duration>> {
        let mut outages = Vec::new();
        for (number, link) in links.iter().enumerate() {
            let death = (number == 0).then_some(death);
            let outage = self.cut(death, delay, *link);
            let name = self.name(*link);
            outages.push(outage.with_context(|| format!("cut {} of {name}", number + 1))?);
        }
        Ok(outages)
    }

    fn cut(
        &mut self,
        death: Option<Death>,
        delay: Duration,
        link: usize,
    ) -> anyhow::Result<Duration> {
        let pings = self.pings()?;
        if death == Some(Death::RosemaryWhileAway) {
            self.stop()?;
        } else if let Some(death) = death {
            self.die(death)?;
            self.lab.pause(delay)?;
        }
        let is_served = self.rosemary.is_some() && self.is_whole()?;
        let cut = SystemTime::now();
        self.set(link, "down")?;
        if self.rosemary.is_none() {
            self.lab.pause(delay)?;
            self.begin()?;
        }
        self.wait_until_whole()?;
        let served = if is_served { cut } else { SystemTime::now() };
        let gone = self.lab.wait_for("all replies come again", FOR_GOOD, |evidence| {
            let recent = SystemTime::now() - INTERVAL * 20;
            let missing = pings.iter().position(|ping| ping.first_reply_after(recent).is_none());
            evidence.0 = format!("no reply to h{}", missing.unwrap_or(0) + 1);
            Ok(missing.is_none().then_some(()))
        });
        gone.context("lost for good")?;
        self.lab.pause(INTERVAL * 30)?;
        let mut longest = Outage::default();
        for ping in pings {
            longest = longest.max(Outage::of(&ping.end()?, served));
        }
        self.set(link, "up")?;
        self.settle()?;
        let promised = match self.of {
            Of::V1_0 => PROMISED,
            _ => PROMISED_WITH_FAILOVER,
        };
        let log = || self.rosemary.as_ref().map(Rosemary::log).unwrap_or_default();
        let after_cut = |at: Option<SystemTime>| at.and_then(|at| at.duration_since(cut).ok());
        ensure!(
            longest.lasted <= promised * self.margin,
            "no reply for {:?}: the last one {:?} after the cut, the next one {:?} after it; all switches were connected {:?} after \
             it\n{}",
            longest.lasted,
            after_cut(longest.last_reply),
            after_cut(longest.next_reply),
            after_cut(Some(served)),
            log()
        );
        Ok(longest.lasted)
    }

    fn die(&mut self, death: Death) -> anyhow::Result<()> {
        let victims = match death {
            Death::Killed(program) => vec![program],
            Death::Services => SERVICES.to_vec(),
            Death::Rosemary | Death::RosemaryWhileAway => {
                self.stop()?;
                return self.begin();
            }
        };
        let programs = programs(&self.status()?);
        for name in victims.iter().map(ToString::to_string) {
            let pid = programs.get(&name).and_then(|it| it.pid);
            kill(pid.with_context(|| format!("{name} does not run"))?)?;
        }
        Ok(())
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        let rosemary = self.rosemary.take().context("Rosemary does not run")?;
        rosemary.stop(Signal::KILL)?;
        Ok(())
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.rosemary = Some(Rosemary::start(self.lab, &rosemary_binary(), &[])?);
        Ok(())
    }

    fn status(&mut self) -> anyhow::Result<Report> {
        let rosemary = self.rosemary.as_mut().context("Rosemary does not run")?;
        Ok(rosemary.wait_for("it answers", SOON, |status| Some(status.clone()))?)
    }

    fn is_whole(&mut self) -> anyhow::Result<bool> {
        let status = self.status()?;
        Ok(is_whole(&status, &self.switches))
    }

    fn wait_until_whole(&mut self) -> anyhow::Result<()> {
        let rosemary = self.rosemary.as_mut().context("Rosemary does not run")?;
        let switches = &self.switches;
        rosemary.wait_for(
            "all programs run and all switches are connected",
            SOON * 3,
            |status| is_whole(status, switches).then_some(()),
        )?;
        Ok(())
    }

    /// Waits until all links are found and all hosts are known.
    fn settle(&mut self) -> anyhow::Result<()> {
        self.wait_until_whole()?;
        let links = self.links * 2;
        self.lab.wait_for("all links are found", SOON * 3, |evidence| {
            let Ok((true, text, _)) = self.rosemary(&["topology", "--json"]) else {
                return Ok(None);
            };
            let topology: Value = serde_json::from_str(&text).unwrap_or_default();
            let found = topology["links"].as_array().map_or(0, Vec::len);
            evidence.0 = format!("{found} of {links}");
            Ok((found == links && topology["settled"] == true).then_some(()))
        })?;
        Ok(self.lab.pause(INTERVAL * 50)?)
    }

    fn name(&self, link: usize) -> String {
        let next = (link + 1) % self.switches.len();
        format!("{}-{}", self.switches[link].name(), self.switches[next].name())
    }

    fn set(&self, link: usize, state: &str) -> anyhow::Result<()> {
        self.lab.run("ip", &["link", "set", &self.name(link), state])?;
        Ok(())
    }
}

fn is_whole(status: &Report, switches: &[Switch<'_>]) -> bool {
    programs(status).values().all(|it| it.runs)
        && switches.iter().all(|switch| status.switch(&switch.dpid()).is_some())
}

/// Each host with the next one.
fn pairs<'a, 'lab>(
    hosts: &'a [Host<'lab>],
) -> impl Iterator<Item = (&'a Host<'lab>, &'a Host<'lab>)> {
    hosts.iter().zip(hosts.iter().cycle().skip(1))
}

/// Joins two switches with a cable whose carrier both see.
fn join(lab: &Lab, one: &Switch<'_>, other: &Switch<'_>) -> anyhow::Result<()> {
    let ends =
        [format!("{}-{}", one.name(), other.name()), format!("{}-{}", other.name(), one.name())];
    let [here, there] = &ends;
    lab.run("ip", &["link", "add", here, "type", "veth", "peer", "name", there])?;
    for (switch, end) in [one, other].into_iter().zip(&ends) {
        // Without a link-local address, IPv6 sends no unsolicited packets; where the kernel has no IPv6, this fails.
        let _ = lab.run("ip", &["link", "set", end, "addrgenmode", "none"]);
        lab.run("ip", &["link", "set", end, "up"])?;
        switch.plug(end)?;
    }
    Ok(())
}

/// A time without replies, ordered by its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Outage {
    /// The part after the moment from which it counts.
    lasted: Duration,
    last_reply: Option<SystemTime>,
    next_reply: Option<SystemTime>,
}

impl Outage {
    /// Returns the longest one after `since`.
    fn of(report: &PingReport, since: SystemTime) -> Self {
        let at: Vec<SystemTime> = report.replies.iter().map(|reply| reply.at).collect();
        let gap = |pair: &[SystemTime]| {
            let [from, to] = *pair else { return Self::default() };
            let lasted = to.duration_since(from.max(since)).unwrap_or_default();
            Self { lasted, last_reply: Some(from), next_reply: Some(to) }
        };
        at.windows(2).map(gap).max().unwrap_or_default()
    }
}

/// Runs `steps` random steps and prints a line for each.
///
/// # Errors
/// The network could not be built.
///
/// # Panics
/// Never: an index below the length of a short list is a `usize`.
#[expect(clippy::print_stdout, reason = "the run is read by a person")]
pub fn run(lab: &Lab, of: Of, shape: Shape, seed: u64, steps: u32) -> anyhow::Result<Summary> {
    let mut random = Random::from(seed);
    let mut network = Cuts::start(lab, of, shape, 1)?;
    let mut broken = Vec::new();
    for step in 1..=steps {
        let mut below = |most: usize| {
            usize::try_from(random.bits() % most as u64).expect("an index of a short list")
        };
        let (death, link) = (DEATHS[below(DEATHS.len())], below(shape.switches));
        let delay = random.up_to(LATEST);
        match network.step(death, delay, &[link]) {
            Ok(outages) => println!(
                "step {step}: {death}, {} is cut {} ms later: no reply for {} ms",
                network.name(link),
                delay.as_millis(),
                outages.iter().max().unwrap_or(&Duration::ZERO).as_millis()
            ),
            Err(error) => {
                let step = format!(
                    "step {step}: {death}, {} is cut {} ms later: BROKEN: {error:#}",
                    network.name(link),
                    delay.as_millis()
                );
                println!("{step}");
                broken.push(step);
                if network.set(link, "up").and_then(|()| network.settle()).is_err() {
                    bail!("the network does not come back");
                }
            }
        }
    }
    Ok(Summary { steps, broken })
}
