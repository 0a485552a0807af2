//! The apps as operators see them. The JSON of these types is a stable interface.

use std::path::PathBuf;

use control::app::AppId;
use control::app_report::{AppReport, RestartRule};
use control::incident::{self, Incident, IncidentId};
use control::log::LogLevel;
use control::operator::{Amount, AppStatus, InactiveApp};
use control::policy::{Fail, Grant, Stage};
use control::query::AppCounters;
use openflow::Dpid;
use serde::Serialize;

use crate::client::{ClientError, Monitor};

/// An element of the list in JSON.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum ListedApp<'a> {
    /// An app that is to run.
    Active(&'a Line),
    /// Another app: its name and its state.
    Inactive(&'a InactiveApp),
}

/// An app with the state from the monitor and the counters from the kernel; its JSON is a stable
/// interface.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Its status.
    #[serde(flatten)]
    pub app: AppStatus,
    /// Packet-ins that it received; this and the next are `None` while the kernel does not answer.
    pub delivered: Option<u64>,
    /// Packet-ins that were dropped for it.
    pub dropped: Option<u64>,
    /// Its messages that the kernel refused.
    pub refused: Option<u64>,
    /// Replies that did not reach it.
    pub lost: Option<u64>,
    /// Whether no packet waits for it, as it answers too late.
    pub skipped: Option<bool>,
    /// Packet-ins that did not wait for it.
    pub passed_over: Option<u64>,
    /// Bytes of its messages that wait.
    pub unsent: Option<u64>,
    /// Seconds in which the kernel throttled it.
    pub slowed: Option<u64>,
    /// Its flow-mods that waited because of its pace.
    pub delayed: Option<u64>,
    /// Bytes of its messages that wait now because of its pace.
    pub paced: Option<u64>,
}

impl Line {
    /// Joins a status with the counters of the app of that name.
    pub fn of(app: AppStatus, counters: &[AppCounters]) -> Self {
        let counters = counters.iter().find(|it| it.name == app.name);
        Self {
            delivered: counters.map(|it| it.delivered),
            dropped: counters.map(|it| it.dropped),
            refused: counters.map(|it| it.refused),
            lost: counters.map(|it| it.lost),
            skipped: counters.map(|it| it.skipped),
            passed_over: counters.map(|it| it.passed_over),
            unsent: counters.map(|it| it.unsent),
            slowed: counters.map(|it| it.slowed),
            delayed: counters.map(|it| it.delayed),
            paced: counters.map(|it| it.paced),
            app,
        }
    }

    /// Returns its state as text, with what else holds for it now.
    pub fn state(&self) -> String {
        let mut state = self.app.state.to_string();
        if self.skipped == Some(true) {
            state.push_str(", skipped");
        }
        if self.paced.is_some_and(|bytes| bytes > 0) {
            state.push_str(", paced");
        }
        if let Some(limit) = &self.app.limited {
            state.push_str(", ");
            state.push_str(limit);
        }
        state
    }
}

/// The most incidents that are shown.
const INCIDENTS: usize = 10;

/// An app in full; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub struct FullApp {
    /// Its state and its counters.
    #[serde(flatten)]
    pub line: Line,
    /// The fate of a packet while the app does not answer, `open` or `closed`; `None` if it is no guard.
    pub fail: Option<&'static str>,
    /// Its position in its stage, from 0 on.
    pub position: u16,
    /// The packet-ins that it receives.
    pub receives: Receives,
    /// Its rights.
    pub capabilities: Vec<Scoped>,
    /// The services that it may use.
    pub services: Vec<String>,
    /// Rights in services beyond its own data, as in the configuration.
    pub service_rights: Vec<String>,
    /// Files and directories that it may read.
    pub read: Vec<PathBuf>,
    /// The file of its object.
    pub object: PathBuf,
    /// The file of its configuration, if it has one.
    pub config: Option<PathBuf>,
    /// The most flows in each switch; `None` for no limit.
    pub flows: Option<u32>,
    /// The most flow-mods per second that each switch receives; `None` for no pace.
    pub pace: Option<u32>,
    /// The lowest and the highest number of its groups.
    pub groups: [u32; 2],
    /// The lowest and the highest number of its meters.
    pub meters: [u32; 2],
    /// The address of its HTTP routes, if they are served.
    pub routes: Option<String>,
    /// `keep` or `remove`: the fate of its flows when it is stopped.
    pub on_stop: &'static str,
    /// The level of its log.
    pub log_level: LogLevel,
    /// Processor time that one of its calls may use.
    pub hang_seconds: u64,
    /// When it is restarted and held.
    pub restart: RestartRule,
    /// Its use of each limited resource.
    pub limits: Vec<Amount>,
    /// The limits whose soft value it exceeds now.
    pub above: Vec<String>,
    /// The numbers of its newest incidents, in ascending order.
    pub incidents: Vec<IncidentId>,
}

/// The packet-ins that an app receives; an empty list matches all.
#[derive(Debug, Clone, Serialize)]
pub struct Receives {
    /// Ethertypes.
    pub ethertypes: Vec<u16>,
    /// Switches.
    pub dpids: Vec<String>,
}

/// A capability with its scope; an empty list matches all.
#[derive(Debug, Clone, Serialize)]
pub struct Scoped {
    /// Its name.
    pub capability: String,
    /// Switches.
    pub dpids: Vec<String>,
    /// Flow tables.
    pub tables: Vec<u8>,
    /// The grant as in the configuration.
    #[serde(skip)]
    pub text: String,
}

impl FullApp {
    /// Requests the report about the app `name`, and its incidents.
    ///
    /// # Errors
    /// Rosemary does not answer.
    pub fn query(
        monitor: &Monitor,
        name: &str,
        counters: &[AppCounters],
    ) -> Result<Self, ClientError> {
        let report = monitor.app(name)?;
        let incidents = monitor.incidents(IncidentId(0))?;
        let of_app = incidents.iter().filter(|it| is_about(it, name)).map(|it| it.id);
        let of_app: Vec<IncidentId> = of_app.collect();
        let newest = of_app[of_app.len().saturating_sub(INCIDENTS)..].to_vec();
        Ok(Self::of(report, counters, newest))
    }

    /// Joins a report with the counters and the numbers of the newest incidents.
    pub fn of(report: AppReport, counters: &[AppCounters], incidents: Vec<IncidentId>) -> Self {
        let AppReport { status, policy, .. } = report;
        let id = AppId(status.number);
        let ends = |range: std::ops::RangeInclusive<u32>| [*range.start(), *range.end()];
        let dpids = |ids: &[u64]| ids.iter().map(|it| Dpid(*it).to_string()).collect();
        let scoped = |grant: &Grant| Scoped {
            capability: grant.capability.to_string(),
            dpids: dpids(&grant.dpids),
            tables: grant.tables.clone(),
            text: grant.to_string(),
        };
        let mut service_rights: Vec<String> = Vec::new();
        for it in &report.rights.namespaces {
            service_rights.extend(it.read.then(|| format!("storage.read:{}", it.name)));
            service_rights.extend(it.write.then(|| format!("storage.write:{}", it.name)));
        }
        // stats.read is among the capabilities, too.
        let names = report.rights.names.iter().filter(|name| *name != "stats.read");
        service_rights.extend(names.cloned());
        let hosts = report.rights.hosts.iter();
        service_rights.extend(hosts.map(|it| format!("net.connect:{}:{}", it.name, it.port)));
        Self {
            line: Line::of(status, counters),
            fail: match policy.stage {
                Stage::Guard(Fail::Open) => Some("open"),
                Stage::Guard(Fail::Closed) => Some("closed"),
                Stage::Control | Stage::Observe => None,
            },
            position: policy.order,
            receives: Receives {
                dpids: dpids(&policy.filter.dpids),
                ethertypes: policy.filter.ethertypes,
            },
            capabilities: policy.capabilities.iter().map(scoped).collect(),
            services: report.services,
            service_rights,
            read: report.read,
            object: report.object,
            config: report.config,
            flows: (policy.flows != u32::MAX).then_some(policy.flows),
            pace: policy.pace,
            groups: ends(id.groups()),
            meters: ends(id.meters()),
            routes: report.routes,
            on_stop: if report.removes_flows { "remove" } else { "keep" },
            log_level: report.log_level,
            hang_seconds: report.hang_seconds,
            restart: report.restart,
            limits: report.usage.uses,
            above: report.usage.above,
            incidents,
        }
    }
}

/// Returns whether an incident is about this app: the app's own, or one for which it is to blame.
pub fn is_about(incident: &Incident, app: &str) -> bool {
    let is_its_own = incident.program.kind == incident::Kind::App && incident.program.name == app;
    is_its_own || incident.evidence.blamed.as_deref() == Some(app)
}
