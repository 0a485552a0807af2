//! Shows one app in full: its rights, its limits, its settings, its counters and its incidents.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use control::app::AppId;
use control::app_report::{AppReport, RestartRule};
use control::incident::IncidentId;
use control::log::LogLevel;
use control::operator::Amount;
use control::policy::{Fail, Grant, Stage};
use control::query::AppCounters;
use openflow::Dpid;
use serde::Serialize;

use super::{AppsArgs, Line, host};
use crate::client::Monitor;
use crate::incidents::is_about;
use crate::say;
use crate::table::Table;
use crate::top::size;

/// The most incidents that are shown.
const INCIDENTS: usize = 10;

/// An app in full; its JSON is a stable interface.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FullApp {
    #[serde(flatten)]
    line: Line,
    /// The fate of a packet while the app does not answer, `open` or `closed`; `None` if it is no guard.
    fail: Option<&'static str>,
    /// Its position in its stage, from 0 on.
    position: u16,
    /// The packet-ins that it receives.
    receives: Receives,
    capabilities: Vec<Scoped>,
    services: Vec<String>,
    /// Rights in services beyond its own data, as in the configuration.
    service_rights: Vec<String>,
    /// Files and directories that it may read.
    read: Vec<PathBuf>,
    object: PathBuf,
    config: Option<PathBuf>,
    /// The most flows in each switch; `None` for no limit.
    flows: Option<u32>,
    /// The lowest and the highest number of its groups.
    groups: [u32; 2],
    /// The lowest and the highest number of its meters.
    meters: [u32; 2],
    on_stop: &'static str,
    log_level: LogLevel,
    hang_seconds: u64,
    restart: RestartRule,
    limits: Vec<Amount>,
    /// The limits whose soft value it exceeds now.
    above: Vec<String>,
    /// The numbers of its newest incidents, in ascending order.
    incidents: Vec<IncidentId>,
}

/// The packet-ins that an app receives; an empty list matches all.
#[derive(Debug, Clone, Serialize)]
struct Receives {
    ethertypes: Vec<u16>,
    dpids: Vec<String>,
}

/// A capability with its scope; an empty list matches all.
#[derive(Debug, Clone, Serialize)]
struct Scoped {
    capability: String,
    dpids: Vec<String>,
    tables: Vec<u8>,
    /// The grant as in the configuration.
    #[serde(skip)]
    text: String,
}

impl FullApp {
    /// Requests the report about the app `name`, and its incidents.
    ///
    /// # Errors
    /// Rosemary does not answer.
    pub(super) fn query(
        monitor: &Monitor,
        name: &str,
        counters: &[AppCounters],
    ) -> anyhow::Result<Self> {
        let report = monitor.app(name)?;
        let incidents = monitor.incidents(IncidentId(0))?;
        let of_app = incidents.iter().filter(|it| is_about(it, name)).map(|it| it.id);
        let of_app: Vec<IncidentId> = of_app.collect();
        let newest = of_app[of_app.len().saturating_sub(INCIDENTS)..].to_vec();
        Ok(Self::of(report, counters, newest))
    }

    fn of(report: AppReport, counters: &[AppCounters], incidents: Vec<IncidentId>) -> Self {
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
            groups: ends(id.groups()),
            meters: ends(id.meters()),
            on_stop: if report.removes_flows { "remove" } else { "keep" },
            log_level: report.log_level,
            hang_seconds: report.hang_seconds,
            restart: report.restart,
            limits: report.usage.uses,
            above: report.usage.above,
            incidents,
        }
    }

    /// Prints the app.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn print(&self, args: &AppsArgs) -> anyhow::Result<()> {
        if args.json {
            let json = serde_json::to_string(self).context("cannot write JSON")?;
            return say::data(format_args!("{json}\n"));
        }
        say::data(self.text())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (head, value) in self.program().into_iter().chain(self.rights()).chain(self.history()) {
            let _ = writeln!(text, "{head:<12} {value}"); // a String takes everything
        }
        text.push('\n');
        text.push_str(&self.limit_table());
        text
    }

    /// Returns the lines about its files and its process.
    fn program(&self) -> Vec<(&'static str, String)> {
        let app = &self.line.app;
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
        let program = if app.host == "kernel" { "the kernel" } else { "a zone" };
        let process = app.pid.map_or_else(
            || "none".to_owned(),
            |pid| format!("{pid}, {program} of user {}", app.uid),
        );
        let mut lines = vec![
            ("app", format!("{}, number {}", app.name, app.number)),
            ("state", app.state.to_string()),
            ("host", host(app)),
            ("process", process),
            ("version", or_unknown(&app.version)),
            ("from", app.signed_by.as_ref().unwrap_or(&app.origin).clone()),
            ("object", self.object.display().to_string()),
            ("sha-256", or_unknown(&app.sha256)),
        ];
        lines.extend(self.config.iter().map(|path| ("config", path.display().to_string())));
        lines.extend(app.kept.iter().map(|why| ("kept", why.clone())));
        lines
    }

    /// Returns the lines about its rights.
    fn rights(&self) -> Vec<(&'static str, String)> {
        let app = &self.line.app;
        let stage = match self.fail {
            Some(fail) => format!("{}, fails {fail}", app.stage),
            None => app.stage.clone(),
        };
        let Receives { ethertypes, dpids } = &self.receives;
        let ethertypes: Vec<String> = ethertypes.iter().map(|it| format!("{it:#06x}")).collect();
        let receives = match (ethertypes.is_empty(), dpids.is_empty()) {
            (true, true) => "all".to_owned(),
            (false, true) => ethertypes.join(", "),
            (true, false) => format!("of {}", dpids.join(", ")),
            (false, false) => format!("{} of {}", ethertypes.join(", "), dpids.join(", ")),
        };
        let band = match app.band {
            Some([lowest, highest]) => format!("priorities {lowest} to {highest}"),
            None => "none".to_owned(),
        };
        let most = self.flows.map_or(String::new(), |most| format!(", at most {most} per switch"));
        let [first_group, last_group] = self.groups;
        let [first_meter, last_meter] = self.meters;
        let mut lines = vec![
            ("stage", format!("{stage}, position {}", self.position)),
            ("packet-ins", receives),
            ("flows", format!("{band}{most}")),
            ("groups", format!("{first_group:#x} to {last_group:#x}")),
            ("meters", format!("{first_meter:#x} to {last_meter:#x}")),
            ("on-stop", format!("{} its flows, groups and meters", self.on_stop)),
        ];
        let capabilities = self.capabilities.iter().map(|it| it.text.clone());
        lines.extend(list("capabilities", capabilities));
        lines.extend(list("services", self.services.iter().cloned()));
        let read = self.read.iter().map(|path| format!("fs.read:{}", path.display()));
        let others: Vec<String> = self.service_rights.iter().cloned().chain(read).collect();
        if !others.is_empty() {
            lines.extend(list("also", others.into_iter()));
        }
        lines
    }

    /// Returns the lines about its restarts, its counters and its incidents.
    fn history(&self) -> Vec<(&'static str, String)> {
        let Line { app, delivered, dropped, refused, lost, .. } = &self.line;
        let RestartRule { min_run_ms, longest_pause_ms, restarts, window_seconds } = self.restart;
        let held = restarts.map_or_else(
            || "never".to_owned(),
            |most| format!("after {most} restarts in {window_seconds} s"),
        );
        let number = |count: &Option<u64>| count.map_or("-".to_owned(), |it| it.to_string());
        let counters =
            [("delivered", delivered), ("dropped", dropped), ("refused", refused), ("lost", lost)];
        let counters = counters.map(|(name, count)| format!("{} {name}", number(count)));
        let incidents: Vec<String> = self.incidents.iter().map(ToString::to_string).collect();
        let incidents = match &incidents[..] {
            [] => "none".to_owned(),
            newest => format!("{} (`rosemary incidents show ID`)", newest.join(", ")),
        };
        vec![
            ("counters", counters.join(", ")),
            ("restarts", app.restarts.to_string()),
            (
                "restart",
                format!("at once after {min_run_ms} ms, else within {longest_pause_ms} ms"),
            ),
            ("held", held),
            ("hangs", format!("after {} s of processor time in a call", self.hang_seconds)),
            ("log level", self.log_level.name().to_owned()),
            ("last exit", app.last_exit.clone().unwrap_or_else(|| "-".into())),
            ("incidents", incidents),
        ]
    }

    fn limit_table(&self) -> String {
        let mut table = Table::new(["LIMIT", "USED", "SOFT", "HARD"]);
        for Amount { limit, value, soft, hard } in &self.limits {
            let is_size = limit == "memory" || limit.contains("bytes");
            let shown = |amount: &Option<u64>| match amount {
                Some(bytes) if is_size => size(*bytes),
                Some(number) => number.to_string(),
                None => "-".to_owned(),
            };
            let mark = if self.above.contains(limit) { "!" } else { "" };
            let used = format!("{}{mark}", shown(value));
            table.row([limit, &used, &shown(soft), &shown(hard)]);
        }
        table.text()
    }
}

/// Returns a line for each value; only the first has the head. Without a value there is one line.
fn list(head: &'static str, values: impl Iterator<Item = String>) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> = values.map(|value| ("", value)).collect();
    match lines.first_mut() {
        Some(first) => first.0 = head,
        None => lines.push((head, "none".into())),
    }
    lines
}

#[cfg(test)]
mod tests;
