//! Shows one app in full: its rights, its limits, its settings, its counters and its incidents.

use std::fmt::Write as _;

use anyhow::Context as _;
use control::app_report::RestartRule;
use control::hosting::HostProcess;
use control::operator::Amount;
use view::apps::{FullApp, Line, Receives};

use super::{AppsArgs, host};
use crate::say;
use crate::table::Table;
use crate::top::size;

/// An app in full, to be printed.
pub(super) struct AppText(pub(super) FullApp);

impl std::ops::Deref for AppText {
    type Target = FullApp;

    fn deref(&self) -> &FullApp {
        &self.0
    }
}

impl AppText {
    /// Prints the app.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn print(&self, args: &AppsArgs) -> anyhow::Result<()> {
        if args.json {
            let json = serde_json::to_string(&self.0).context("cannot write JSON")?;
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
        let program = if app.host == HostProcess::Kernel.name() { "the kernel" } else { "a zone" };
        let process = app.pid.map_or_else(
            || "none".to_owned(),
            |pid| format!("{pid}, {program} of user {}", app.uid),
        );
        let mut lines = vec![
            ("app", format!("{}, number {}", app.name, app.number)),
            ("state", self.line.state()),
            ("host", host(app)),
            ("process", process),
            ("version", or_unknown(&app.version)),
            ("from", app.signed_by.as_ref().unwrap_or(&app.origin).clone()),
            ("object", self.object.display().to_string()),
            ("sha-256", or_unknown(&app.sha256)),
        ];
        lines.extend(self.config.iter().map(|path| ("config", path.display().to_string())));
        lines.extend(app.kept.iter().map(|why| ("kept", why.clone())));
        lines.extend(app.problem.iter().map(|why| ("problem", why.clone())));
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
        let paced = self.pace.map(|pace| format!(", {pace} flow-mods/s per switch"));
        let paced = paced.unwrap_or_default();
        let [first_group, last_group] = self.groups;
        let [first_meter, last_meter] = self.meters;
        let mut lines = vec![
            ("stage", format!("{stage}, position {}", self.position)),
            ("packet-ins", receives),
            ("flows", format!("{band}{most}{paced}")),
            ("groups", format!("{first_group:#x} to {last_group:#x}")),
            ("meters", format!("{first_meter:#x} to {last_meter:#x}")),
            ("on-stop", format!("{} its flows, groups and meters", self.on_stop)),
        ];
        lines.extend(self.routes.iter().map(|address| ("routes", address.clone())));
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
        let Line { app, delivered, dropped, refused, lost, delayed, .. } = &self.line;
        let RestartRule { min_run_ms, longest_pause_ms, restarts, window_seconds } = self.restart;
        let held = restarts.map_or_else(
            || "never".to_owned(),
            |most| format!("after {most} restarts in {window_seconds} s"),
        );
        let number = |count: &Option<u64>| count.map_or("-".to_owned(), |it| it.to_string());
        let counters =
            [("delivered", delivered), ("dropped", dropped), ("refused", refused), ("lost", lost)];
        let delayed = [("flow-mods delayed", delayed)];
        let delayed = delayed.into_iter().filter(|(_, count)| count.is_some_and(|it| it > 0));
        let counters = counters.into_iter().chain(delayed);
        let counters: Vec<String> =
            counters.map(|(name, count)| format!("{} {name}", number(count))).collect();
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
