//! Computes which programs a changed configuration concerns, without changing anything.

use std::collections::BTreeSet;
use std::path::PathBuf;

use control::change::{Action, ChangeStep};

use crate::files::Fingerprint;
use crate::spec::{AppSpec, LOG_LEVEL};

/// An app that the monitor has.
#[derive(Debug)]
pub struct Present {
    /// Its specification.
    pub spec: AppSpec,
    /// The files with which it runs or was to run.
    pub files: Fingerprint,
    /// Whether the operator has stopped it.
    pub is_stopped: bool,
}

/// An app that is to run.
#[derive(Debug)]
pub struct Wanted {
    /// Its specification.
    pub spec: AppSpec,
    /// The files as they are now, or why they cannot be read.
    pub files: Result<Fingerprint, String>,
}

/// The apps that a change of one app concerns.
#[derive(Debug)]
pub struct Scope {
    /// The app itself, apps that run for it alone, and apps whose settings depend on whether it runs.
    pub apps: BTreeSet<String>,
    /// The file of the configuration, if it is not the one any more by which the programs run.
    pub changed_file: Option<PathBuf>,
    /// The apps that cannot run as the configuration says, and that the change does not concern, with the reasons.
    pub mistakes: Vec<(String, String)>,
}

/// What happens to one app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppStep {
    /// Its name.
    pub app: String,
    /// What happens to it.
    pub action: Action,
    /// Why, as a phrase.
    pub why: String,
    /// Whether the kernel hosts the app before or after the step, so that the kernel has to restart for it.
    pub in_kernel: bool,
    /// Whether files of the app have changed, besides the configuration.
    pub changes_files: bool,
    is_guard: bool,
}

/// The difference between what runs and what is to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// In the order in which they are made.
    pub steps: Vec<AppStep>,
    /// Why the change cannot be made, as phrases.
    pub obstacles: Vec<String>,
    /// Facts that the operator should know, as sentences.
    pub notices: Vec<String>,
    /// Apps that go on with their last files, because the new ones cannot be read, with the reasons.
    pub kept: Vec<(String, String)>,
}

impl Difference {
    /// Whether the kernel has to restart.
    pub fn restarts_kernel(&self) -> bool {
        self.steps.iter().any(|step| step.in_kernel)
    }

    /// Makes the kernel host an app that it no longer hosts.
    pub fn replace_in_kernel(&mut self, app: &str) {
        self.steps.retain(|step| step.app != app);
        self.steps.push(AppStep {
            app: app.to_owned(),
            action: Action::Replace,
            why: "the operator promotes it".into(),
            in_kernel: true,
            changes_files: false,
            is_guard: false,
        });
    }

    /// The steps for the operator.
    pub fn shown(&self) -> Vec<ChangeStep> {
        let app = |step: &AppStep| ChangeStep {
            action: step.action,
            program: format!("app {}", step.app),
            why: step.why.clone(),
        };
        let kernel = self.restarts_kernel().then(|| ChangeStep {
            action: Action::Restart,
            program: "kernel".into(),
            why: "it hosts an app that changes; switches reconnect, and their flows stay".into(),
        });
        self.steps.iter().map(app).chain(kernel).collect()
    }
}

/// Settings that only another start of Rosemary can change: the name of each key, or of each `[table]`, and its value.
pub type Fixed = Vec<(&'static str, String)>;

/// Returns the obstacles to a reload: settings that have changed and that only another start can change. Each names its keys:
/// `changes` are the changed keys of the configuration as [`config::changes`] returns them.
pub fn fixed_obstacles(old: &Fixed, new: &Fixed, changes: &[String]) -> Vec<String> {
    let differ = old.iter().zip(new).filter(|((_, before), (_, after))| before != after);
    let obstacle = |((name, _), _): (&(&str, String), _)| {
        // The keys of a table that is given as a whole.
        let table = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let is_in_it = |change: &&String| {
            table.is_some_and(|table| {
                change.strip_prefix(table).is_some_and(|it| it.starts_with('.'))
            })
        };
        let keys: Vec<&str> = changes.iter().filter(is_in_it).map(String::as_str).collect();
        let keys = if keys.is_empty() { String::new() } else { format!(" ({})", keys.join(", ")) };
        format!("{name} has changed{keys}, which needs a restart of Rosemary")
    };
    differ.map(obstacle).collect()
}

/// Compares what runs with what is to run.
pub fn difference(present: &[Present], wanted: &[Wanted]) -> Difference {
    let mut result = Difference::default();
    for new in wanted {
        match present.iter().find(|old| old.spec.name() == new.spec.name()) {
            None => result.start(new),
            Some(old) => result.compare(old, new),
        }
    }
    for old in
        present.iter().filter(|old| !wanted.iter().any(|new| new.spec.name() == old.spec.name()))
    {
        let why = "it is not to run any more".to_owned();
        result.step(old.spec.name(), Action::Stop, why, [&old.spec, &old.spec]);
    }
    // Guards come first and leave last, so that no packet is decided without a guard that is configured before and after.
    result.steps.sort_by_key(|step| match (step.action, step.is_guard) {
        (Action::Start | Action::Replace | Action::Restart, true) => 0,
        (Action::Start | Action::Replace | Action::Restart, false) => 1,
        (Action::Update, _) => 2,
        (Action::Stop, false) => 3,
        (Action::Stop, true) => 4,
    });
    result
}

/// Changes that wait for a reload while only one app is changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Rest {
    /// The changes that wait, as sentences.
    pub notices: Vec<String>,
    /// Why the change of the app cannot come first, as phrases.
    pub obstacles: Vec<String>,
}

/// Removes the apps that are not in `scope`.
pub fn narrow(scope: &Scope, present: &mut Vec<Present>, wanted: &mut Vec<Wanted>) -> Rest {
    let present: Vec<Present> =
        present.extract_if(.., |it| !scope.apps.contains(it.spec.name())).collect();
    let obstacles =
        overlaps(wanted.iter().filter(|it| scope.apps.contains(it.spec.name())), &present);
    let wanted: Vec<Wanted> =
        wanted.extract_if(.., |it| !scope.apps.contains(it.spec.name())).collect();
    let Difference { steps, obstacles: others, notices, .. } = difference(&present, &wanted);
    let is_possible = |step: &AppStep| !scope.mistakes.iter().any(|(app, _)| *app == step.app);
    let steps = steps
        .into_iter()
        .filter(is_possible)
        .map(|step| format!("{}: a change waits for `rosemary reload` ({}).", step.app, step.why));
    let file = scope.changed_file.iter().map(|file| {
        format!("{} has changed; the change waits for `rosemary reload`.", file.display())
    });
    let mistakes = scope.mistakes.iter().map(|(app, why)| {
        format!("{app}: a change waits for `rosemary reload`, and has a mistake: {why}.")
    });
    let others = others.into_iter().map(|why| format!("A change waits: {why}."));
    let notices = file.chain(steps).chain(mistakes).chain(others).chain(notices).collect();
    Rest { notices, obstacles }
}

/// Returns phrases about apps of `changed` whose bands overlap the present ones of apps that stay as they are.
fn overlaps<'a>(changed: impl Iterator<Item = &'a Wanted>, stay: &[Present]) -> Vec<String> {
    let overlap = |new: &Wanted| {
        let band = new.spec.policy.band;
        let other = stay.iter().find(|it| it.spec.policy.band.overlaps(band))?;
        Some(format!(
            "{} is to have priorities that {} has until a change of it is applied; type `rosemary reload` first",
            new.spec.name(),
            other.spec.name()
        ))
    };
    changed.filter_map(overlap).collect()
}

impl Difference {
    fn start(&mut self, new: &Wanted) {
        match &new.files {
            Ok(_) => {
                let why = "it is new".to_owned();
                self.step(new.spec.name(), Action::Start, why, [&new.spec, &new.spec]);
            }
            Err(why) => {
                self.obstacles.push(format!("the app {} cannot start: {why}", new.spec.name()));
            }
        }
    }

    fn compare(&mut self, old: &Present, new: &Wanted) {
        let specs = [&old.spec, &new.spec];
        let mut changed: Vec<&str> = old.spec.differ_for_process(&new.spec);
        let of_spec = changed.len();
        match &new.files {
            Ok(files) => changed.extend(old.files.differ(files)),
            Err(why) if !changed.is_empty() => {
                return self
                    .obstacles
                    .push(format!("the app {} cannot start: {why}", old.spec.name()));
            }
            Err(why) => {
                self.notices
                    .push(format!("{} goes on with its last files: {why}.", old.spec.name()));
                self.kept.push((old.spec.name().to_owned(), why.clone()));
            }
        }
        if !changed.is_empty() && !old.is_stopped {
            let why = format!("changed: {}", changed.join(", "));
            let changes_files = changed.len() > of_spec;
            self.step(old.spec.name(), Action::Replace, why, specs);
            if let Some(step) = self.steps.last_mut() {
                step.changes_files = changes_files;
            }
            return;
        }
        changed.extend(old.spec.differ_while_running(&new.spec));
        if !changed.is_empty() && old.spec != new.spec {
            let why = format!("changed: {}", changed.join(", "));
            self.step(old.spec.name(), Action::Update, why, specs);
            if changed == [LOG_LEVEL]
                && let Some(step) = self.steps.last_mut()
            {
                step.in_kernel = false;
            }
        }
    }

    fn step(&mut self, app: &str, action: Action, why: String, specs: [&AppSpec; 2]) {
        self.steps.push(AppStep {
            app: app.to_owned(),
            action,
            why,
            in_kernel: specs.iter().any(|it| it.keys.host.is_in_kernel()),
            changes_files: false,
            is_guard: specs.iter().any(|it| it.is_guard()),
        });
    }
}

#[cfg(test)]
mod tests;
