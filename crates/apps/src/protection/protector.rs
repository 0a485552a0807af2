//! Finds the app whose flow-mods harm a switch, and decides what to do, without I/O and clock.
//!
//! 1. **Suspect.** The kernel's counters say who sends how many flow-mods to which switch. An app is suspected at a switch if
//!    its rate exceeds `suspect-rate`, beyond the flow-mods that its packet-ins explain, in two readings in sequence.
//! 2. **Harm.** While there is a suspect, the switch's throughput and the time of its answers are compared with
//!    those of calm times.
//! 3. **Remedy.** If one has changed by more than the threshold, the remedy begins: drain, throttle, suspend, or a report.
//! 4. **End.** The remedy is undone once the suspect has sent little for some seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosemary_sdk::Dpid;
use rosemary_sdk::services::apps::{AppCounters, Measure, Sender};

use super::baseline::Baseline;
use super::config::{Config, Remedy};

/// Readings in sequence in which an app must be too fast.
const READINGS: u8 = 2;

/// Time without a suspect after which a suspicion ends.
const FORGIVE: Duration = Duration::from_secs(3);

/// Least rise of the answer time that counts, in microseconds: below, it is noise of the machine.
const LEAST_RISE_US: u64 = 1_000;

/// Least usual throughput whose fall counts, in bit/s.
const LEAST_THROUGHPUT: u64 = 100_000;

/// How long a limit lasts that is not renewed.
pub(crate) const LEASE_SECONDS: u16 = 30;

/// Time from one renewal to the next.
const RENEW: Duration = Duration::from_secs(5);

/// Something that the app does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Begins the drain of a switch.
    Drain(Dpid),
    /// Ends the drain of a switch.
    Undrain(Dpid),
    /// Limits an app, or renews its limit. Once this is done, the incident with summary and evidence is reported, if there is one.
    Limit { app: String, measure: Measure, why: String, incident: Option<(String, String)> },
    /// Ends the limit of an app.
    Release(String),
    /// Reports an incident.
    Incident { summary: String, evidence: String },
    /// Logs a line.
    Log(String),
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Protector {
    config: Config,
    apps: BTreeMap<u16, KnownApp>,
    switches: BTreeMap<Dpid, Watched>,
    /// When counters were read last.
    read: Option<Duration>,
}

/// An app, as of the last reading.
#[derive(Debug)]
struct KnownApp {
    counters: AppCounters,
    /// Packet-ins per second in the last interval.
    packets: u64,
    /// Flow-mods that were refused or delayed in the last interval.
    pressure: u64,
}

/// A switch.
#[derive(Debug, Default)]
struct Watched {
    senders: BTreeMap<u16, Pair>,
    answers: Baseline,
    throughput: Baseline,
    /// The last reading of the bytes that its ports have sent: when, in milliseconds, and the sum.
    bytes: Option<(u64, u64)>,
    phase: Phase,
}

/// An app at a switch.
#[derive(Debug)]
struct Pair {
    epoch: u32,
    flow_mods: u64,
    /// Flow-mods per second in the last interval.
    rate: u64,
    /// Those of them that packet-ins do not explain; 0 for a trusted app.
    excess: u64,
    /// Readings in sequence in which it was too fast.
    fast: u8,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Calm,
    /// An app is too fast. `seen` is when it was last.
    Suspected { app: u16, seen: Duration, gave_up: bool },
    /// A remedy is in force. `app` is `None` after a restart of this app.
    Remedied {
        app: Option<u16>,
        remedy: Remedy,
        since: Duration,
        seen: Duration,
        renewed: Duration,
    },
}

impl Protector {
    /// Knows nothing yet.
    pub(crate) fn new(config: Config) -> Self {
        let (apps, switches) = (BTreeMap::new(), BTreeMap::new());
        Self { config, apps, switches, read: None }
    }

    /// A drain of this app is in force from before its restart.
    pub(crate) fn on_known_drain(&mut self, dpid: Dpid, now: Duration) {
        let (remedy, app) = (Remedy::Drain, None);
        self.switches.entry(dpid).or_default().phase =
            Phase::Remedied { app, remedy, since: now, seen: now, renewed: now };
    }

    /// Whether an app could become a suspect.
    pub(crate) fn may_suspect(&self, app: &str) -> bool {
        !self.config.trusted.iter().any(|trusted| trusted == app)
    }

    /// The setting that limits apps, as the operator writes it; `None` if none does.
    pub(crate) fn limiting(&self) -> Option<String> {
        self.config.limiting()
    }

    /// Whether answers of a switch are wanted more often than in calm times.
    pub(crate) fn is_watched_closely(&self, dpid: Dpid) -> bool {
        self.switches.get(&dpid).is_some_and(|it| matches!(it.phase, Phase::Suspected { .. }))
    }

    /// The suspect at a switch.
    #[cfg(test)]
    pub(crate) fn suspect(&self, dpid: Dpid) -> Option<&str> {
        let app = match self.switches.get(&dpid)?.phase {
            Phase::Calm => return None,
            Phase::Suspected { app, .. } => app,
            Phase::Remedied { app, .. } => app?,
        };
        Some(&self.apps.get(&app)?.counters.name)
    }

    /// Takes the time from a question to its answer.
    pub(crate) fn on_answer(&mut self, dpid: Dpid, time: Duration) {
        let watched = self.switches.entry(dpid).or_default();
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        watched.answers.add(us, watched.phase == Phase::Calm);
    }

    /// Takes the sum of the bytes that the ports of a switch have sent, as of a time in milliseconds.
    pub(crate) fn on_bytes(&mut self, dpid: Dpid, read_ms: u64, bytes: u64) {
        let watched = self.switches.entry(dpid).or_default();
        let before = watched.bytes.replace((read_ms, bytes));
        if let Some((before_ms, before)) = before
            && let Some(ms) = read_ms.checked_sub(before_ms).filter(|ms| *ms > 0)
            && let Some(sent) = bytes.checked_sub(before)
        {
            watched.throughput.add(sent.saturating_mul(8_000) / ms, watched.phase == Phase::Calm);
        }
    }

    /// Takes a reading of the kernel's counters.
    pub(crate) fn on_counters(
        &mut self,
        now: Duration,
        apps: Vec<AppCounters>,
        senders: &[Sender],
    ) {
        let passed = self.read.map(|read| now.saturating_sub(read).as_millis());
        let passed = passed.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
        if passed.is_some_and(|ms| ms < 100) {
            return; // too short for a rate
        }
        // The next kernel counts from 0.
        let is_first = passed.is_none()
            || apps.iter().any(|app| {
                let known = self.apps.get(&app.number);
                known.is_some_and(|it| it.counters.flow_mods > app.flow_mods)
            });
        self.read = Some(now);
        let per_second = |count: u64| count.saturating_mul(1000) / passed.unwrap_or(1000).max(1);
        let mut known = BTreeMap::new();
        for counters in apps {
            let before = self.apps.get(&counters.number).filter(|_| !is_first);
            let since = |of: fn(&AppCounters) -> u64| {
                before.map_or(0, |it| of(&counters).saturating_sub(of(&it.counters)))
            };
            let (packets, pressure) = (
                per_second(since(|it| it.delivered)),
                since(|it| it.refused) + since(|it| it.delayed),
            );
            known.insert(counters.number, KnownApp { counters, packets, pressure });
        }
        self.apps = known;
        // A pair that is not in the reading is of a switch that has disconnected.
        let pairs: BTreeSet<(Dpid, u16)> = senders.iter().map(|it| (it.dpid, it.app)).collect();
        for (dpid, watched) in &mut self.switches {
            watched.senders.retain(|app, _| pairs.contains(&(*dpid, *app)));
        }
        for sender in senders {
            self.count(sender, is_first, per_second);
        }
    }

    fn count(&mut self, sender: &Sender, is_first: bool, per_second: impl Fn(u64) -> u64) {
        let Some(app) = self.apps.get(&sender.app) else { return };
        let explained = app.packets.saturating_mul(self.config.per_packet);
        let is_trusted = self.config.trusted.contains(&app.counters.name);
        let pairs = &mut self.switches.entry(sender.dpid).or_default().senders;
        let (epoch, flow_mods) = (sender.epoch, sender.flow_mods);
        let known = pairs.get(&sender.app).map(|it| (it.epoch, it.flow_mods, it.fast));
        let since = match known {
            _ if is_first => 0,
            Some((before, count, _)) if before == epoch => flow_mods.saturating_sub(count),
            _ => flow_mods, // since the connection, or since its first message
        };
        let rate = per_second(since);
        let excess = if is_trusted { 0 } else { rate.saturating_sub(explained) };
        let is_fast = excess > self.config.suspect_rate;
        let fast = if is_fast { known.map_or(0, |it| it.2).saturating_add(1) } else { 0 };
        pairs.insert(sender.app, Pair { epoch, flow_mods, rate, excess, fast });
    }

    /// Forgets switches that are not connected and where nothing is under way.
    pub(crate) fn forget_absent(&mut self, is_connected: impl Fn(Dpid) -> bool) {
        self.switches.retain(|dpid, watched| is_connected(*dpid) || watched.phase != Phase::Calm);
    }

    /// Decides what to do. `may_drain` says whether the network has other paths than those over a switch; if not, why.
    pub(crate) fn go_on(
        &mut self,
        now: Duration,
        may_drain: impl Fn(Dpid) -> Result<(), String>,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        let dpids: Vec<Dpid> = self.switches.keys().copied().collect();
        for dpid in dpids {
            let Some(watched) = self.switches.get(&dpid) else { continue };
            match watched.phase.clone() {
                Phase::Calm => self.look_for_suspect(dpid, now, &mut acts),
                Phase::Suspected { app, seen, gave_up } => {
                    self.examine(dpid, (app, seen, gave_up), &may_drain, now, &mut acts);
                }
                Phase::Remedied { .. } => self.look_for_end(dpid, now, &mut acts),
            }
        }
        acts
    }

    /// The fastest app that is too fast at a switch.
    fn fastest(&self, dpid: Dpid) -> Option<u16> {
        let senders = &self.switches.get(&dpid)?.senders;
        let fast = senders.iter().filter(|(_, pair)| pair.fast >= READINGS);
        fast.max_by_key(|(_, pair)| pair.rate).map(|(app, _)| *app)
    }

    fn look_for_suspect(&mut self, dpid: Dpid, now: Duration, acts: &mut Vec<Act>) {
        let Some(app) = self.fastest(dpid) else { return };
        let (name, rate) = self.name_and_rate(dpid, app);
        acts.push(Act::Log(format!("{name} is suspected: it sends {rate} flow-mods/s to {dpid}")));
        if let Some(watched) = self.switches.get_mut(&dpid) {
            watched.answers.begin();
            watched.throughput.begin();
            watched.phase = Phase::Suspected { app, seen: now, gave_up: false };
        }
    }

    fn name_and_rate(&self, dpid: Dpid, app: u16) -> (String, u64) {
        let name = self.apps.get(&app).map_or("an app", |it| &it.counters.name).to_owned();
        let pair = self.switches.get(&dpid).and_then(|it| it.senders.get(&app));
        (name, pair.map_or(0, |pair| pair.rate))
    }

    fn examine(
        &mut self,
        dpid: Dpid,
        (app, seen, gave_up): (u16, Duration, bool),
        may_drain: &impl Fn(Dpid) -> Result<(), String>,
        now: Duration,
        acts: &mut Vec<Act>,
    ) {
        let suspect = self.fastest(dpid);
        let seen = if suspect.is_some() { now } else { seen };
        let app = suspect.unwrap_or(app);
        if now.saturating_sub(seen) >= FORGIVE {
            let (name, _) = self.name_and_rate(dpid, app);
            acts.push(Act::Log(format!("{name} is suspected no longer at {dpid}")));
            self.set_phase(dpid, Phase::Calm);
            return;
        }
        self.set_phase(dpid, Phase::Suspected { app, seen, gave_up });
        let Some(harm) = self.harm(dpid).filter(|_| !gave_up && suspect.is_some()) else { return };
        let (name, rate) = self.name_and_rate(dpid, app);
        let packets = self.apps.get(&app).map_or(0, |it| it.packets);
        let mut evidence = format!(
            "{name} sends {rate} flow-mods/s to {dpid} and receives {packets} packet-ins/s; {harm}"
        );
        let mut remedy = self.config.action;
        if remedy == Remedy::Drain
            && let Err(why) = may_drain(dpid)
        {
            remedy = self.config.otherwise;
            evidence = format!("{evidence}; the switch is not drained: {why}");
        }
        let summary = |action| format!("{name} harms {dpid} with flow-mods: {action}");
        match remedy {
            Remedy::Drain => {
                acts.push(Act::Drain(dpid));
                let summary = summary(format!("{dpid} is drained"));
                acts.push(Act::Incident { summary, evidence });
            }
            Remedy::Limit(measure) => {
                let (app, why) = (name.clone(), evidence.clone());
                let incident = Some((summary(format!("it is {measure}")), evidence));
                acts.push(Act::Limit { app, measure, why, incident });
            }
            Remedy::Report => {
                let summary = summary("nothing is done".to_owned());
                acts.push(Act::Incident { summary, evidence });
            }
        }
        let app = Some(app);
        self.set_phase(dpid, Phase::Remedied { app, remedy, since: now, seen: now, renewed: now });
    }

    fn set_phase(&mut self, dpid: Dpid, phase: Phase) {
        if let Some(watched) = self.switches.get_mut(&dpid) {
            watched.phase = phase;
        }
    }

    /// How throughput or answer time have become worse than the threshold, as a phrase.
    fn harm(&self, dpid: Dpid) -> Option<String> {
        let watched = self.switches.get(&dpid)?;
        let threshold = self.config.threshold;
        if let Some((usual, recent)) = watched.throughput.compare(3, 1)
            && usual >= LEAST_THROUGHPUT
            && recent.saturating_mul(100) < usual.saturating_mul(100 - threshold)
        {
            let percent = (usual - recent) * 100 / usual;
            let (usual, recent) = (usual / 1000, recent / 1000);
            return Some(format!(
                "its throughput fell from {usual} to {recent} kbit/s, by {percent} %"
            ));
        }
        let (usual, recent) = watched.answers.compare(5, 3)?;
        let worse = recent.saturating_mul(100) > usual.saturating_mul(100 + threshold);
        let rise = recent.saturating_sub(usual);
        (worse && rise >= LEAST_RISE_US)
            .then(|| format!("its answers take {recent} us instead of {usual} us"))
    }

    fn look_for_end(&mut self, dpid: Dpid, now: Duration, acts: &mut Vec<Act>) {
        let Some(watched) = self.switches.get(&dpid) else { return };
        let Phase::Remedied { app, remedy, since, seen, renewed } = watched.phase else { return };
        let is_fast = |pair: &Pair| pair.excess > self.config.suspect_rate / 2;
        let mut goes_on = match app {
            Some(app) => watched.senders.get(&app).is_some_and(is_fast),
            None => watched.senders.values().any(is_fast),
        };
        if matches!(remedy, Remedy::Limit(_)) {
            // The limit keeps its rate low. Refused and delayed messages show that it still presses.
            goes_on |= app.and_then(|it| self.apps.get(&it)).is_some_and(|it| it.pressure > 0);
        }
        let seen = if goes_on { now } else { seen };
        let mut renewed = renewed;
        let name = app.and_then(|it| self.apps.get(&it)).map(|it| it.counters.name.clone());
        if let (Remedy::Limit(measure), Some(name)) = (remedy, &name)
            && now.saturating_sub(renewed) >= RENEW
        {
            renewed = now;
            let why = "the suspect still presses".to_owned();
            acts.push(Act::Limit { app: name.clone(), measure, why, incident: None });
        }
        self.set_phase(dpid, Phase::Remedied { app, remedy, since, seen, renewed });
        if now.saturating_sub(seen) < Duration::from_secs(self.config.quiet) {
            return;
        }
        let others = self.switches.iter().filter(|(other, _)| **other != dpid);
        let is_limited_elsewhere = others.into_iter().any(|(_, watched)| {
            matches!(watched.phase, Phase::Remedied { app: of, remedy: Remedy::Limit(_), .. } if of == app)
        });
        let action = match (remedy, &name) {
            (Remedy::Drain, _) => {
                acts.push(Act::Undrain(dpid));
                format!("{dpid} is not drained any more")
            }
            (Remedy::Limit(_), Some(name)) if !is_limited_elsewhere => {
                acts.push(Act::Release(name.clone()));
                "its limit ends".to_owned()
            }
            _ => "there is nothing to undo".to_owned(),
        };
        let name = name.unwrap_or_else(|| "an app".into());
        let lasted = now.saturating_sub(since).as_secs();
        acts.push(Act::Incident {
            summary: format!("{name} harms {dpid} no longer: {action}"),
            evidence: format!(
                "it sent few flow-mods for {} s; the remedy was in force for {lasted} s",
                self.config.quiet
            ),
        });
        self.set_phase(dpid, Phase::Calm);
    }

    /// A remedy could not be carried out, for this reason.
    pub(crate) fn on_refused(&mut self, refused: &Act, why: &str, now: Duration) -> Vec<Act> {
        let dpids: Vec<Dpid> = match refused {
            Act::Drain(dpid) => vec![*dpid],
            Act::Limit { app, .. } => {
                let is_of = |watched: &Watched| {
                    let Phase::Remedied { app: Some(of), remedy: Remedy::Limit(_), .. } =
                        watched.phase
                    else {
                        return false;
                    };
                    self.apps.get(&of).is_some_and(|it| it.counters.name == *app)
                };
                self.switches.iter().filter(|(_, it)| is_of(it)).map(|(dpid, _)| *dpid).collect()
            }
            _ => Vec::new(),
        };
        for dpid in dpids {
            if let Some(watched) = self.switches.get_mut(&dpid)
                && let Phase::Remedied { app: Some(app), .. } = watched.phase
            {
                watched.phase = Phase::Suspected { app, seen: now, gave_up: true };
            }
        }
        let mut evidence = why.to_owned();
        let what = match refused {
            Act::Limit { app, incident: Some((_, attack)), .. } => {
                evidence = format!("{why}; {attack}");
                format!("{app} harms a switch and could not be limited")
            }
            Act::Drain(dpid) => format!("{dpid} could not be drained"),
            Act::Undrain(dpid) => format!("the drain of {dpid} could not be ended"),
            Act::Limit { app, .. } => format!("{app} could not be limited"),
            Act::Release(app) => format!("the limit of {app} could not be ended"),
            Act::Incident { .. } | Act::Log(_) => return Vec::new(),
        };
        vec![Act::Incident { summary: what, evidence }]
    }
}
