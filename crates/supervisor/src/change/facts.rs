//! Compares the state of programs before and after a change, for its audit record.

use std::collections::{BTreeMap, BTreeSet};

use control::operator::{Amount, KernelStatus};

use super::changes::Basis;
use super::deployment::Version;
use crate::programs::Programs;
use crate::text::harmless;

/// Most characters of a value.
const LONGEST: usize = 100;

/// The facts that the record of a program has if it appears or disappears.
const OF_NEW_PROGRAM: [&str; 2] = ["state", "version"];

/// Facts about programs, by the name of the program and of the fact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts(BTreeMap<String, BTreeMap<String, String>>);

impl Facts {
    /// Reads the facts about the kernel and the apps; about packages only those of the app `named`.
    pub(super) fn now(basis: &Basis, programs: &Programs, named: Option<&str>) -> Self {
        let mut facts = Self::default();
        facts.add_kernel(&programs.kernel().status());
        let apps = programs.status().2.into_iter().map(|app| app.name);
        let named = named.filter(|app| config::is_name(app));
        let apps: BTreeSet<String> = apps.chain(named.map(str::to_owned)).collect();
        for app in &apps {
            facts.add_app(app, programs);
            let decision = match basis.deployment.enabled(app) {
                None => "as configured",
                Some(true) => "by an operator",
                Some(false) => "no, by an operator",
            };
            facts.add(app, "enabled", decision);
        }
        if let Some(app) = named {
            let staged = basis.deployment.has_version(app, Version::Staged);
            facts.add(app, "staged package", if staged { "yes" } else { "no" });
        }
        facts
    }

    fn add_kernel(&mut self, kernel: &KernelStatus) {
        let facts = self.0.entry("kernel".into()).or_default();
        facts.insert("state".into(), kernel.state.to_string());
        facts.insert("restarts".into(), kernel.restarts.to_string());
    }

    fn add_app(&mut self, app: &str, programs: &Programs) {
        let Ok(report) = programs.app_report(app) else {
            return self.add(app, "state", "does not run");
        };
        let status = report.status;
        self.add(app, "state", &status.state.to_string());
        self.add(app, "restarts", &status.restarts.to_string());
        self.add(app, "host", &status.host);
        self.add(app, "stage", &status.stage);
        self.add(app, "log level", report.log_level.name());
        if let Some(version) = &status.version {
            self.add(app, "version", version);
        }
        if let Some(sha256) = &status.sha256 {
            self.add(app, "sha256", sha256.get(..16).unwrap_or(sha256));
        }
        if let Some([lowest, highest]) = status.band {
            self.add(app, "priorities", &format!("{lowest} to {highest}"));
        }
        for Amount { limit, soft, hard, .. } in &report.usage.uses {
            let shown = |bound: &Option<u64>| bound.map_or("none".to_owned(), |it| it.to_string());
            self.add(app, &format!("limit {limit}"), &format!("{}/{}", shown(soft), shown(hard)));
        }
    }

    fn add(&mut self, app: &str, name: &str, value: &str) {
        let facts = self.0.entry(format!("app {app}")).or_default();
        facts.insert(name.to_owned(), harmless(value, LONGEST));
    }

    /// The differences from these facts to `later`, as far as they are about programs that the change `concerns`: for each program
    /// `PROGRAM: FACT BEFORE -> AFTER, ...`.
    pub(super) fn differences(&self, later: &Self, concerns: impl Fn(&str) -> bool) -> Vec<String> {
        let programs: BTreeSet<&String> = self.0.keys().chain(later.0.keys()).collect();
        let programs = programs.into_iter().filter(|program| concerns(program));
        programs.filter_map(|program| difference(program, self, later)).collect()
    }
}

fn difference(program: &str, before: &Facts, after: &Facts) -> Option<String> {
    let (before, after) = (before.0.get(program), after.0.get(program));
    let keys = |of: Option<&BTreeMap<String, String>>| -> BTreeSet<String> {
        of.into_iter().flat_map(BTreeMap::keys).cloned().collect()
    };
    let is_whole =
        |of: Option<&BTreeMap<String, String>>| of.is_some_and(|it| it.contains_key("host"));
    let names: Vec<String> = keys(before).union(&keys(after)).cloned().collect();
    let differs = names.into_iter().filter_map(|name| {
        let value =
            |of: Option<&BTreeMap<String, String>>| of.and_then(|it| it.get(&name)).cloned();
        let (one, other) = (value(before), value(after));
        // An app that comes or goes has all its facts on one side alone.
        let is_shown = is_whole(before) == is_whole(after)
            || OF_NEW_PROGRAM.contains(&name.as_str())
            || one.is_some() && other.is_some();
        let shown = |value: Option<String>| value.unwrap_or_else(|| "none".into());
        (one != other && is_shown).then(|| format!("{name} {} -> {}", shown(one), shown(other)))
    });
    let differs: Vec<String> = differs.collect();
    (!differs.is_empty()).then(|| format!("{program}: {}", differs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(of: &[(&str, &str, &str)]) -> Facts {
        let mut facts = Facts::default();
        for (app, name, value) in of {
            facts.add(app, name, value);
        }
        facts
    }

    #[test]
    fn only_differences_of_concerned_programs_are_listed() {
        let before = facts(&[
            ("a", "host", "user"),
            ("a", "state", "running"),
            ("a", "version", "1"),
            ("b", "state", "running"),
        ]);
        let after = facts(&[
            ("a", "host", "user"),
            ("a", "state", "stopped"),
            ("a", "version", "1"),
            ("b", "state", "waiting"),
        ]);
        let differences = before.differences(&after, |program| program == "app a");
        assert_eq!(differences, ["app a: state running -> stopped"]);
        assert!(before.differences(&before.clone(), |_| true).is_empty());
    }

    #[test]
    fn new_and_gone_apps_have_their_state_and_version_alone() {
        let running = facts(&[
            ("a", "host", "user"),
            ("a", "state", "running"),
            ("a", "version", "1\n2"),
            ("a", "limit memory", "1/2"),
        ]);
        let gone = facts(&[("a", "state", "does not run")]);
        let expected = [r"app a: state running -> does not run, version 1\n2 -> none"];
        assert_eq!(running.differences(&gone, |_| true), expected);
        let expected = [r"app a: state none -> running, version none -> 1\n2"];
        assert_eq!(Facts::default().differences(&running, |_| true), expected);
    }
}
