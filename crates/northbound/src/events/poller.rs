//! Asks for the state, compares it with the one before, and publishes the differences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::incident::{Incident, IncidentId};
use control::operator::{ProgramState, Status};
use control::query::SwitchStatus;
use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::topology::Graph;
use serde_json::{Value, json};
use view::client::{ClientError, Kernel, Monitor};

use super::topology::TopologySeen;
use crate::state::{Api, lock};

/// The time between two questions.
const PERIOD: Duration = Duration::from_millis(500);

/// The last known state of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    state: ProgramState,
    restarts: u64,
    last_exit: Option<String>,
}

/// A connected switch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Switch {
    /// Differs after each connection.
    epoch: u32,
    name: Option<String>,
}

/// The state at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    apps: BTreeMap<String, Program>,
    programs: BTreeMap<String, Program>,
    /// The connected switches by their datapath ids; `None` while the kernel does not answer.
    switches: Option<BTreeMap<String, Switch>>,
    /// The versions of the tables of services that run.
    tables: BTreeMap<&'static str, u64>,
    /// The topology, as it was when its table last changed.
    topology: Option<Arc<TopologySeen>>,
    /// The number of the newest incident.
    incident: Option<u64>,
    /// The incidents that last.
    open: BTreeSet<u64>,
}

/// Publishes events for ever.
pub(crate) async fn poll(api: Arc<Api>) {
    loop {
        while !api.events.is_wanted(Instant::now()) {
            api.events.wake.notified().await;
        }
        api.events.begin_again();
        let mut seen: Option<Seen> = None;
        while api.events.is_wanted(Instant::now()) {
            let before = seen.take();
            let turn = api.wait(move |api| Ok::<_, ClientError>(turn(api, before.as_ref()))).await;
            // A monitor that does not answer ends this process.
            seen = turn.ok();
            tokio::time::sleep(PERIOD).await;
        }
    }
}

/// Asks, publishes what differs from `before`, and returns the new state.
fn turn(api: &Api, before: Option<&Seen>) -> Seen {
    let mut now = before.cloned().unwrap_or_default();
    if let Ok(status) = api.ask_monitor(Monitor::status) {
        read_programs(&status, &mut now);
    }
    now.switches = api.ask_kernel(Kernel::switches).ok().map(connected);
    let tables = [(Service::Topology, "topology"), (Service::Hosts, "hosts")];
    now.tables = tables
        .into_iter()
        .filter_map(|(service, name)| {
            Some((name, api.ask_service(service, |table| Ok(table.version())).ok()?))
        })
        .collect();
    if now.tables.contains_key("topology")
        && before.is_none_or(|before| before.tables.get("topology") != now.tables.get("topology"))
    {
        now.topology = read_topology(api).map(Arc::new).or(now.topology);
    }
    let from = before.map_or(0, Seen::first_wanted_incident);
    let incidents = api.ask_monitor(|monitor| monitor.incidents(IncidentId(from)));
    let incidents = incidents.unwrap_or_default();
    if let Some(before) = before {
        for (kind, data) in differences(before, &now) {
            api.events.publish(kind, data);
        }
        for incident in incidents.iter().filter(|it| before.is_news(it)) {
            api.events.publish("incident", json!(incident));
        }
    }
    for incident in &incidents {
        now.incident = now.incident.max(Some(incident.id.0));
        if incident.open {
            now.open.insert(incident.id.0);
        } else {
            now.open.remove(&incident.id.0);
        }
    }
    publish_changes(api);
    now
}

/// Publishes the reports of the changes that clients have requested.
fn publish_changes(api: &Api) {
    let changes: Vec<u64> = lock(&api.events.changes).iter().copied().collect();
    for id in changes {
        let report = api.ask_monitor(|monitor| monitor.change_so_far(id));
        let is_over = report.as_ref().map_or(true, |report| report.state.is_over());
        if is_over {
            lock(&api.events.changes).remove(&id);
            if let Ok(report) = report {
                api.events.publish("change", json!(report));
            }
        }
    }
}

fn read_programs(status: &Status, seen: &mut Seen) {
    let apps = status.apps.iter().map(|it| {
        let (state, restarts, last_exit) = (it.state, it.restarts, it.last_exit.clone());
        (it.name.clone(), Program { state, restarts, last_exit })
    });
    seen.apps = apps.collect();
    let services = status.services.iter().map(|it| {
        let (state, restarts, last_exit) = (it.state, it.restarts, it.last_exit.clone());
        (it.name.clone(), Program { state, restarts, last_exit })
    });
    let kernel = &status.kernel;
    let (state, restarts, last_exit) = (kernel.state, kernel.restarts, kernel.last_exit.clone());
    let kernel = ("kernel".to_owned(), Program { state, restarts, last_exit });
    seen.programs = services.chain([kernel]).collect();
}

/// Reads the topology. A read of the whole table is made only after a change.
fn read_topology(api: &Api) -> Option<TopologySeen> {
    api.ask_service(Service::Topology, |table| {
        let version = table.version();
        let graph = Graph::of(table.records().map(|(_, record)| record));
        Ok(TopologySeen::of(version, &graph, sys::clock::now_ns()))
    })
    .ok()
}

fn connected(switches: Vec<SwitchStatus>) -> BTreeMap<String, Switch> {
    let named = |it: SwitchStatus| (it.dpid, Switch { epoch: it.epoch, name: it.name });
    switches.into_iter().map(named).collect()
}

impl Seen {
    /// The lowest number of an incident that can be news.
    fn first_wanted_incident(&self) -> u64 {
        let next = self.incident.map_or(0, |it| it + 1);
        self.open.first().map_or(next, |open| (*open).min(next))
    }

    /// Whether an incident is new, or has ended.
    fn is_news(&self, incident: &Incident) -> bool {
        let is_new = self.incident.is_none_or(|newest| incident.id.0 > newest);
        is_new || self.open.contains(&incident.id.0) && !incident.open
    }
}

/// The events between two states.
fn differences(before: &Seen, now: &Seen) -> Vec<(&'static str, Value)> {
    let mut events = Vec::new();
    for (kind, before, now) in
        [("app", &before.apps, &now.apps), ("program", &before.programs, &now.programs)]
    {
        for (name, program) in now.iter().filter(|(name, it)| before.get(*name) != Some(it)) {
            let Program { state, restarts, last_exit } = program;
            let data = json!({
                "name": name, "state": state, "restarts": restarts, "last_exit": last_exit,
            });
            events.push((kind, data));
        }
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            events.push((
                kind,
                json!({ "name": name, "state": "stopped", "restarts": 0, "last_exit": null }),
            ));
        }
    }
    if let (Some(before), Some(now)) = (&before.switches, &now.switches) {
        let event = |(dpid, switch): (&String, &Switch), connected: bool| {
            ("switch", json!({ "dpid": dpid, "name": switch.name, "connected": connected }))
        };
        // A name may change while a switch is connected.
        let is_in = |other: &BTreeMap<String, Switch>, (dpid, switch): &(&String, &Switch)| {
            other.get(*dpid).is_some_and(|it| it.epoch == switch.epoch)
        };
        let gone = before.iter().filter(|it| !is_in(now, it));
        events.extend(gone.map(|it| event(it, false)));
        let new = now.iter().filter(|it| !is_in(before, it));
        events.extend(new.map(|it| event(it, true)));
    }
    for name in ["topology", "hosts"] {
        let (version_before, version) = (before.tables.get(name), now.tables.get(name));
        if version_before != version {
            let topology = before.topology.as_ref().zip(now.topology.as_ref());
            let data = match topology.filter(|_| name == "topology" && version.is_some()) {
                Some((before, now)) => now.changes_since(before),
                None => json!({ "version": version }),
            };
            events.push((name, data));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(state: ProgramState) -> Program {
        Program { state, restarts: 0, last_exit: None }
    }

    /// Connected switches with these datapath ids and epochs.
    fn switches<const COUNT: usize>(them: [(&str, u32); COUNT]) -> BTreeMap<String, Switch> {
        let named = |(dpid, epoch): (&str, u32)| {
            (dpid.to_owned(), Switch { epoch, name: Some(format!("s{dpid}")) })
        };
        them.map(named).into()
    }

    #[test]
    fn differences_are_events() {
        let mut before = Seen::default();
        before.apps.insert("hub".into(), program(ProgramState::Running));
        before.apps.insert("old".into(), program(ProgramState::Running));
        before.switches = Some(switches([("1", 1), ("2", 2)]));
        assert!(differences(&before, &before.clone()).is_empty());
        let mut now = before.clone();
        now.apps.insert("hub".into(), program(ProgramState::Stopped));
        now.apps.remove("old");
        now.switches = Some(switches([("1", 9), ("3", 3)]));
        now.tables.insert("topology", 4);
        let events = differences(&before, &now);
        let kinds: Vec<&str> = events.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, ["app", "app", "switch", "switch", "switch", "switch", "topology"]);
        assert_eq!(events[0].1["state"], "stopped");
        let gone = json!({ "dpid": "1", "name": "s1", "connected": false });
        assert_eq!(events[2].1, gone, "it connected again");
    }

    #[test]
    fn switches_of_a_silent_kernel_have_not_disconnected() {
        let with = |switches| Seen { switches, ..Seen::default() };
        let some = with(Some(switches([("1", 1)])));
        assert!(differences(&some, &with(None)).is_empty());
        assert!(differences(&with(None), &some).is_empty());
    }
}
