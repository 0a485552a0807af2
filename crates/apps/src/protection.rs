//! Protects the traffic of switches from apps that change their flows too often.
//!
//! Many flow-mods slow a switch down, also for the packets of flows that do not change. The app reads from the monitor who
//! sends how many flow-mods to which switch, finds a suspect, and watches the throughput and the answers of the switch
//! (`protection/protector.rs`). If the switch suffers, it *drains* the switch: traffic that passes it takes other paths, make
//! before break. Or, by its configuration (`protection/config.rs`), it throttles or suspends the suspect. It undoes this when
//! the suspect is quiet. An incident names suspect, evidence and action.
//!
//! The app writes no flows. A drain moves the paths of `forwarding`, which keep their owner and cookies; flows of the suspect
//! stay where they are.
//!
//! The answer time of a switch is that of a request for its configuration. A switch handles the messages of a connection one
//! after the other, so the time shows how far it is behind. This needs no packet in the network, no flow, and no right to
//! change the switch.
//!
//! ```toml
//! [[app]]
//! name = "protection"
//! stage = "observe"
//! services = ["apps", "topology", "stats", "storage"]
//! capabilities = ["packet-in", "stats.read", "topology.read", "topology.drain", "apps.read"]   # and "apps.limit:NAME" to throttle
//! ```
//!
//! If its configuration limits apps, it finds out at its start which ones it may limit (`protection/grants.rs`).

#![forbid(unsafe_code)]

#[path = "protection/baseline.rs"]
mod baseline;
#[path = "protection/config.rs"]
mod config;
#[path = "protection/grants.rs"]
mod grants;
#[path = "protection/paths.rs"]
mod paths;
#[path = "protection/protector.rs"]
mod protector;

use std::collections::BTreeMap;
use std::time::Duration;

use rosemary_sdk::openflow::Kind;
use rosemary_sdk::services::apps::{Answer, AppCounters, Sender};
use rosemary_sdk::services::stats::find_port;
use rosemary_sdk::services::storage::{self, Expect};
use rosemary_sdk::services::{RequestId, Service, Unavailable};
use rosemary_sdk::topology::Topology;
use rosemary_sdk::{App, Dpid, Event, Network, PortNo, SendError, Switch, Xid, export_app};

use self::config::Config;
use self::grants::Grants;
use self::protector::{Act, LEASE_SECONDS, Protector};

/// The name of this app.
const NAME: &str = "protection";

/// Time from one reading of the counters to the next.
const READ: Duration = Duration::from_millis(500);

/// Time after which a request to the monitor is repeated.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time from one question to a switch to the next, in calm times and while there is a suspect.
const CALM: Duration = Duration::from_secs(2);
const CLOSE: Duration = Duration::from_millis(250);

/// Most questions of one turn: a network with very many switches is probed more rarely.
const MOST_QUESTIONS: usize = 200;

/// The keys of the storage under which the drains of this app are kept.
const DRAINS: &str = "drain/";

/// See the module's description.
#[derive(Debug)]
struct Protection {
    protector: Protector,
    topology: Topology,
    switches: BTreeMap<Dpid, Probed>,
    /// The request for counters that is not answered, since when, and what it has brought so far.
    reading: Option<(RequestId, Duration, Vec<AppCounters>, Vec<Sender>)>,
    read_at: Duration,
    /// The remedies whose answers are awaited.
    awaited: Vec<(RequestId, Act)>,
    /// The request for the drains from before a restart.
    drains: Option<RequestId>,
    /// Which apps this one may limit.
    grants: Grants,
    said_unanswered: bool,
}

/// A switch and the question that it has not answered.
#[derive(Debug)]
struct Probed {
    switch: Switch,
    /// The question that is not answered.
    question: Option<(Xid, Duration)>,
    next: Duration,
}

impl App for Protection {
    fn create() -> Self {
        Self {
            protector: Protector::new(Config::default()),
            topology: Topology::new(),
            switches: BTreeMap::new(),
            reading: None,
            read_at: Duration::ZERO,
            awaited: Vec::new(),
            drains: None,
            grants: Grants::default(),
            said_unanswered: false,
        }
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.protector = Protector::new(Config::read(text)?);
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        self.topology.on_event(&event, network);
        match event {
            Event::SnapshotBegin => self.switches.clear(),
            Event::SwitchUp(switch) => {
                let next = network.now();
                self.switches.insert(switch.dpid, Probed { switch, question: None, next });
            }
            Event::SwitchDown(switch) => drop(self.switches.remove(&switch.dpid)),
            Event::Reply(reply) if reply.kind == Kind::GetConfigReply => {
                self.on_answer_of(reply.switch, reply.xid, network.now());
            }
            Event::RequestLost { switch, xid, .. } => self.forget_question(switch, xid),
            Event::Error(error) => self.forget_question(error.switch, error.xid),
            Event::Refused { switch, message, .. } => {
                if let Some(xid) = Xid::of(message) {
                    self.forget_question(switch, xid);
                }
            }
            Event::ServiceUp(Service::Storage) => {
                self.drains = network.storage().list(DRAINS.as_bytes(), b"").ok();
            }
            Event::Storage { request, answer } if self.drains == Some(request) => {
                self.on_drains(answer, network);
            }
            Event::Served { service: Service::Apps, request, answer } => {
                self.on_apps(request, answer, network);
            }
            Event::Served { service: Service::Topology, request, answer } => {
                let refusal = match answer {
                    Err(Unavailable) => Some("the service topology has ended".to_owned()),
                    Ok(body) => match Topology::drain_answer(body) {
                        Some(Ok(())) => None,
                        Some(Err(why)) => Some(why.to_string()),
                        None => Some("the answer of the service topology is malformed".to_owned()),
                    },
                };
                self.on_answered(request, refusal, network);
            }
            _ => {}
        }
        self.go_on(network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.go_on(network);
    }
}

impl Protection {
    fn on_answer_of(&mut self, switch: Switch, xid: Xid, now: Duration) {
        let Some(probed) = self.switches.get_mut(&switch.dpid) else { return };
        if probed.switch != switch {
            return;
        }
        if let Some((_, sent)) = probed.question.take_if(|(of, _)| *of == xid) {
            self.protector.on_answer(switch.dpid, now.saturating_sub(sent));
        }
    }

    /// Takes over the drains from before a restart.
    fn on_drains(
        &mut self,
        answer: Result<storage::Answer<'_>, Unavailable>,
        network: &mut Network<'_>,
    ) {
        self.drains = None;
        let Ok(storage::Answer::Keys(keys)) = answer else {
            network
                .warn("could not read which switches this app has drained; a drain of it may last");
            return;
        };
        for (key, _) in keys.iter() {
            let dpid = key.strip_prefix(DRAINS.as_bytes());
            let dpid = dpid.and_then(|it| std::str::from_utf8(it).ok()?.parse::<Dpid>().ok());
            if let Some(dpid) = dpid {
                network.info(&format!("{dpid} was drained by this app before it restarted"));
                self.protector.on_known_drain(dpid, network.now());
            }
        }
    }

    /// Handles an answer of the monitor.
    fn on_apps(
        &mut self,
        request: RequestId,
        answer: Result<&[u8], Unavailable>,
        network: &mut Network<'_>,
    ) {
        let answer = answer.ok().and_then(Answer::decode);
        if self.grants.on_answer(request, answer.as_ref()) {
            if let Some(setting) = self.protector.limiting()
                && let Some(text) = self.grants.mistake(&setting)
            {
                network.error(&text);
            }
            return;
        }
        let reading = self.reading.as_mut().filter(|(id, ..)| *id == request);
        match (answer, reading) {
            (Some(Answer::Apps(apps)), Some((_, _, known, _))) => *known = apps,
            (Some(Answer::Senders { senders, more }), Some((_, _, _, known))) => {
                known.extend(senders);
                if !more && let Some((_, _, apps, senders)) = self.reading.take() {
                    self.said_unanswered = false;
                    self.ask_for_grants(&apps, network);
                    self.protector.on_counters(network.now(), apps, &senders);
                    self.read_bytes(network);
                    self.decide(network);
                }
            }
            (Some(Answer::Refused(why)), Some(_)) => {
                self.reading = None;
                self.warn_unanswered(&why, network);
            }
            (_, Some(_)) => self.reading = None,
            (Some(Answer::Refused(why)), None) => self.on_answered(request, Some(why), network),
            (Some(_), None) => self.on_answered(request, None, network),
            (None, None) => {
                self.on_answered(request, Some("the monitor does not answer".into()), network);
            }
        }
    }

    /// Finds out which apps this one may limit, if its configuration limits apps.
    fn ask_for_grants(&mut self, apps: &[AppCounters], network: &mut Network<'_>) {
        if self.protector.limiting().is_none() {
            return;
        }
        let suspects = apps.iter().filter(|app| app.name != NAME && app.limit.is_none());
        let suspects = suspects.map(|app| app.name.as_str());
        self.grants.ask(suspects.filter(|app| self.protector.may_suspect(app)), network);
    }

    /// A question gets no answer, which says nothing about the switch's delay.
    fn forget_question(&mut self, switch: Switch, xid: Xid) {
        if let Some(probed) = self.switches.get_mut(&switch.dpid) {
            probed.question.take_if(|(asked, _)| *asked == xid);
        }
    }

    fn warn_unanswered(&mut self, why: &str, network: &mut Network<'_>) {
        if !std::mem::replace(&mut self.said_unanswered, true) {
            network.warn(&format!("cannot read what apps send: {why}"));
        }
    }

    /// A remedy was carried out, or not.
    fn on_answered(
        &mut self,
        request: RequestId,
        refusal: Option<String>,
        network: &mut Network<'_>,
    ) {
        let Some(place) = self.awaited.iter().position(|(id, _)| *id == request) else { return };
        let (_, act) = self.awaited.swap_remove(place);
        match (refusal, &act) {
            (Some(why), _) => self.failed(&act, &why, network),
            // Only now: until then a crash must not make it forget the drain.
            (None, Act::Undrain(dpid)) => {
                let _ = network.storage().delete(&key(*dpid), Expect::Anything);
            }
            (None, Act::Limit { incident: Some((summary, evidence)), .. }) => {
                report(summary, evidence, network);
            }
            (None, _) => {}
        }
    }

    /// A remedy was refused, or could not be requested.
    fn failed(&mut self, act: &Act, why: &str, network: &mut Network<'_>) {
        if let Act::Drain(dpid) = act {
            let _ = network.storage().delete(&key(*dpid), Expect::Anything);
        }
        let acts = self.protector.on_refused(act, why, network.now());
        self.perform(acts, network);
    }

    /// Reads from the table of the service `stats` how many bytes the ports of each switch have sent.
    fn read_bytes(&mut self, network: &Network<'_>) {
        let Some(table) = network.table(Service::Stats) else { return };
        for dpid in self.switches.keys() {
            let ports = self.topology.graph().ports(*dpid).filter(|it| it.at.port.is_physical());
            let ports: Vec<PortNo> = ports.map(|port| port.at.port).collect();
            let counters = ports.iter().filter_map(|port| find_port(&table, *dpid, *port));
            let (mut sum, mut read_ms, mut count) = (0_u64, u64::MAX, 0);
            for port in counters.filter(|it| !it.quality.is_stale && !it.quality.is_implausible) {
                if let Some(bytes) = port.tx_bytes {
                    (sum, read_ms) = (sum.saturating_add(bytes), read_ms.min(port.read_ms));
                    count += 1;
                }
            }
            if count > 0 && count == ports.len() {
                self.protector.on_bytes(*dpid, read_ms, sum);
            }
        }
    }

    fn decide(&mut self, network: &mut Network<'_>) {
        self.protector.forget_absent(|dpid| self.switches.contains_key(&dpid));
        let graph = self.topology.graph();
        let acts = self.protector.go_on(network.now(), |dpid| paths::may_drain(graph, dpid));
        self.perform(acts, network);
    }

    fn perform(&mut self, acts: Vec<Act>, network: &mut Network<'_>) {
        for act in acts {
            let sent = match &act {
                Act::Drain(dpid) => {
                    // Stored first: after a crash, a drain that was not made is undone without harm.
                    if let Err(error) = network.storage().put(&key(*dpid), b"1", Expect::Anything) {
                        network
                            .warn(&format!("the drain of {dpid} would outlast a crash: {error}"));
                    }
                    self.topology.drain(network, *dpid, true)
                }
                Act::Undrain(dpid) => self.topology.drain(network, *dpid, false),
                Act::Limit { app, measure, why, .. } => {
                    network.limit_app(app, *measure, LEASE_SECONDS, why)
                }
                Act::Release(app) => network.release_app(app),
                Act::Incident { summary, evidence } => {
                    report(summary, evidence, network);
                    continue;
                }
                Act::Log(text) => {
                    network.info(text);
                    continue;
                }
            };
            match sent {
                Ok(request) => self.awaited.push((request, act)),
                Err(error) => self.failed(&act, &error.to_string(), network),
            }
        }
    }

    /// Sends the requests that are due, and sets the timer.
    fn go_on(&mut self, network: &mut Network<'_>) {
        let now = network.now();
        if self.reading.as_ref().is_some_and(|(_, since, ..)| now >= *since + PATIENCE) {
            self.reading = None;
            self.warn_unanswered("the monitor does not answer", network);
        }
        if self.read_at <= now && self.reading.is_none() {
            self.read_at = now + READ;
            match network.app_counters() {
                Ok(id) => self.reading = Some((id, now, Vec::new(), Vec::new())),
                Err(error) => self.warn_unanswered(&error.to_string(), network),
            }
        }
        let mut wake_at = self.read_at.max(now + Duration::from_millis(10));
        let mut sent = 0;
        for (dpid, probed) in &mut self.switches {
            if probed.next > now {
                wake_at = wake_at.min(probed.next);
                continue;
            }
            if let Some((_, since)) = probed.question {
                // A lower bound of the answer time.
                let waited = now.saturating_sub(since);
                self.protector.on_answer(*dpid, waited);
            } else if sent == MOST_QUESTIONS {
                continue;
            } else {
                sent += 1;
                match network.get_config(probed.switch) {
                    Ok(xid) => probed.question = Some((xid, now)),
                    Err(SendError::Full) => continue,
                    Err(_) => {}
                }
            }
            let pause = if self.protector.is_watched_closely(*dpid) { CLOSE } else { CALM };
            probed.next = now + pause;
            wake_at = wake_at.min(probed.next);
        }
        network.wake_at(wake_at);
    }
}

fn report(summary: &str, evidence: &str, network: &mut Network<'_>) {
    network.warn(&format!("{summary}: {evidence}"));
    network.report_incident(summary, evidence);
}

/// The key of the storage for a drain of this app.
fn key(dpid: Dpid) -> Vec<u8> {
    format!("{DRAINS}{dpid}").into_bytes()
}

export_app!(Protection, name = "protection");

#[cfg(test)]
#[path = "protection/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "protection/app_tests.rs"]
mod app_tests;
