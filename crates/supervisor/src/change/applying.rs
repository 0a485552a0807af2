//! Makes a change that follows a configuration: plans it, loads candidates, hands over to them, and watches upgrades.
//!
//! Until all candidates are loaded nothing changes, so a failure before needs no undoing. A failure of an upgraded app
//! later, within the time of the watch, makes the previous package run again.

use std::time::{Duration, Instant};

use config::{Config, OnStop, Orphans};
use control::change::{Action, ChangeState, ChangeStep};
use control::incident::{Cause, Evidence, Program};
use control::service::ServiceKind;
use tracing::warn;

use super::changes::{Basis, Running, TIMEOUT};
use super::deployment::{Plan, Unplannable};
use super::difference::{Difference, difference, fixed_obstacles, narrow};
use super::purpose::{NewText, Purpose, Reload};
use super::verbs::Goal;
use crate::programs::Programs;

/// How far a change has come.
#[derive(Debug)]
pub(super) enum Phase {
    /// Programs are on the way to a state.
    Reaching(Goal),
    /// The plan is being made.
    Planning,
    /// The apps of a dry run are tried.
    Trying,
    /// Candidates load.
    Preparing(Box<Prepared>),
    /// Candidates take over.
    Settling(Goal),
    /// An upgraded app runs, in a process that was started `starts` times.
    Watching { app: String, starts: u64, in_kernel: bool },
}

/// What follows once all candidates are loaded.
#[derive(Debug)]
pub(super) struct Prepared {
    plan: Plan,
    difference: Difference,
}

impl Running {
    /// Makes the next step.
    pub(super) fn advance(&mut self, basis: &mut Basis, programs: &mut Programs, now: Instant) {
        let is_late = self.until <= now;
        let next = match &self.phase {
            Phase::Reaching(goal) | Phase::Settling(goal) => {
                let is_settled = programs.is_settled() && goal.is_met(programs);
                match (is_settled, is_late) {
                    (true, _) => {
                        let watch = basis.config.supervision.upgrade_watch;
                        Some(self.settled(programs, watch, now))
                    }

                    (false, _) if let Some(why) = goal.failure(programs) => {
                        self.report.misconfigured = true;
                        Some(ChangeState::Incomplete { why })
                    }
                    (false, true) => Some(ChangeState::Incomplete { why: goal.missing(programs) }),
                    (false, false) => None,
                }
            }
            Phase::Planning => match basis.deployment.planned() {
                Some(Ok(plan)) => self.planned(plan, basis, programs, now),
                Some(Err(Unplannable { why, misconfigured })) => {
                    self.report.misconfigured = misconfigured;
                    Some(self.refused(basis, why))
                }
                None if is_late => {
                    let why = "the configuration and the apps' files could not be read in time";
                    Some(self.refused(basis, why.into()))
                }
                None => None,
            },
            Phase::Trying => match basis.deployment.tried() {
                Some(Ok(())) => Some(ChangeState::Planned),
                Some(Err(why)) => {
                    self.report.misconfigured = true;
                    Some(ChangeState::Refused { why })
                }
                None if is_late => {
                    let why = format!("the apps did not load in {} s", TIMEOUT.as_secs());
                    Some(ChangeState::Refused { why })
                }
                None => None,
            },
            Phase::Preparing(_) => self.prepare(is_late, basis, programs, now),
            Phase::Watching { app, starts, in_kernel } => {
                match programs.failure_since(app, *starts, *in_kernel) {
                    Some(why) => {
                        let app = app.clone();
                        Some(self.undo(app, why, basis, programs, now))
                    }
                    None if is_late => Some(ChangeState::Done),
                    None => None,
                }
            }
        };
        if let Some(state) = next {
            self.report.state = state;
        }
    }

    /// The new programs run. Returns the state that follows.
    fn settled(&mut self, programs: &Programs, watch: Duration, now: Instant) -> ChangeState {
        match &self.purpose {
            Purpose::Verb
                if let Phase::Reaching(Goal::Runs { app, .. }) = &self.phase
                    && let Some(why) = programs.kept(app) =>
            {
                let why = format!(
                    "{app} runs with the files with which it last ran, as it cannot run with the present ones: {why}; \
                     correct them, and repeat the command"
                );
                self.report.misconfigured = true;
                ChangeState::Incomplete { why }
            }
            Purpose::Upgrade { app } => {
                let (starts, in_kernel) = (programs.app_starts(app), programs.is_in_kernel(app));
                let app = app.clone();
                self.report.notices.push(format!(
                    "{app} is watched for {} s; if it fails, the previous version runs again.",
                    watch.as_secs_f64()
                ));
                self.phase = Phase::Watching { app, starts, in_kernel };
                self.until = now + watch;
                ChangeState::Watching
            }
            Purpose::Undo { why, app } => {
                let why = format!("{app} failed, and its previous version runs again: {why}");
                ChangeState::Undone { why }
            }
            _ => ChangeState::Done,
        }
    }

    /// The state of a change that was given up before anything changed.
    fn refused(&self, basis: &mut Basis, why: String) -> ChangeState {
        match &self.purpose {
            Purpose::Upgrade { app } => {
                basis.deployment.drop_staged(app);
                ChangeState::Refused { why }
            }
            Purpose::Undo { app, why: failure } => ChangeState::Incomplete {
                why: format!(
                    "{app} failed ({failure}), and its previous version cannot run: {why}"
                ),
            },
            _ => ChangeState::Refused { why },
        }
    }

    /// The plan is made: compares it with what runs.
    fn planned(
        &mut self,
        mut plan: Plan,
        basis: &mut Basis,
        programs: &mut Programs,
        now: Instant,
    ) -> Option<ChangeState> {
        if let (Some(file), None) = (&basis.config.file, &plan.config.file) {
            let file = file.display();
            let why =
                format!("{file} is gone; put it back, or restart Rosemary to run the default apps");
            return Some(self.refused(basis, why));
        }
        let fixed = basis.deployment.fixed(&basis.config);
        let mut present = programs.present();
        let rest = plan.scope.as_ref().map(|scope| narrow(scope, &mut present, &mut plan.wanted));
        let mut difference = difference(&present, &plan.wanted);
        let changes = config::changes(basis.config.text(), plan.config.text());
        let changes = changes.unwrap_or_default(); // both were parsed
        difference.obstacles.extend(fixed_obstacles(&fixed, &plan.fixed, &changes));
        let is_reload = matches!(self.purpose, Purpose::Reload(_));
        let sessions = is_reload.then(|| programs.sessions().changes(&plan.config.sessions));
        let sessions = match sessions.transpose() {
            Ok(sessions) => sessions.unwrap_or_default(),
            Err(refusal) => {
                difference.obstacles.push(refusal.to_string());
                Vec::new()
            }
        };
        if let Some(rest) = rest {
            self.report.notices.extend(rest.notices);
            difference.obstacles.extend(rest.obstacles);
        }
        match &self.purpose {
            Purpose::Stage { app, .. } => {
                self.report.notices.push(format!("a package of {app} is ready for an upgrade"));
                return Some(ChangeState::Done);
            }
            Purpose::Enable { app, enabled: true } | Purpose::Upgrade { app }
                if !plan.wants(app) =>
            {
                let why = format!(
                    "the app {app} is neither configured nor installed; `rosemary app list` shows \
                     the installed ones"
                );
                return Some(self.refused(basis, why));
            }
            Purpose::Enable { app, enabled: false } if !basis.knows(app) => {
                let why = if plan.wants(app) {
                    format!(
                        "{app} runs because apps name its service, and the configuration has no [[app]] of \
                         it; `rosemary app stop {app}` stops it until the next start, and an [[app]] with \
                         name = {app:?} and enabled = false disables it"
                    )
                } else {
                    format!("there is no app {app:?}; `rosemary apps` shows the apps")
                };
                return Some(self.refused(basis, why));
            }
            Purpose::Upgrade { app } if !plan.is_packaged(app) => {
                let why = format!("the [[app]] of {app} names an object, which precedes a package");
                return Some(self.refused(basis, why));
            }
            Purpose::Promote { app } => difference.replace_in_kernel(app),
            _ => {}
        }
        if !matches!(self.purpose, Purpose::Undo { .. }) {
            self.report.steps = difference.shown();
            self.report.steps.extend(sessions.into_iter().map(session_step));
        }
        self.report.notices.append(&mut difference.notices);
        let news = plan.warnings.iter().filter(|it| !basis.warnings.contains(it));
        self.report.notices.extend(news.map(|it| format!("Warning: {it}.")));
        if !difference.obstacles.is_empty() {
            return Some(self.refused(basis, difference.obstacles.join("; ")));
        }
        if let Purpose::Reload(Reload { dry_run, .. }) = self.purpose {
            let orphans = programs.new_orphans(&plan.config, |app| plan.wants(app));
            self.report.notices.extend(orphans.iter().map(|orphan| {
                format!("{} left the configuration; switches lose its flows.", orphan.name)
            }));
            if dry_run {
                return self.begin_trial(&plan, &difference, basis, now);
            }
        }
        if difference.restarts_kernel() && !self.confirmed {
            if let Purpose::Upgrade { app } = &self.purpose {
                basis.deployment.drop_staged(app);
            }
            return Some(ChangeState::Unconfirmed);
        }
        if let Err(why) = self.announce_confirmation(&plan, &difference, basis) {
            return Some(self.refused(basis, why));
        }
        let next = self.begin_preparing(plan, difference, basis, programs, now);
        if next.is_some() {
            self.drop_confirmation(basis);
        }
        next
    }

    /// Tries to load the apps that the steps of a dry run would start.
    fn begin_trial(
        &mut self,
        plan: &Plan,
        difference: &Difference,
        basis: &mut Basis,
        now: Instant,
    ) -> Option<ChangeState> {
        let steps = difference.steps.iter().filter(|step| {
            !step.in_kernel && matches!(step.action, Action::Start | Action::Replace)
        });
        let apps: Vec<String> = steps.map(|step| step.app.clone()).collect();
        if apps.is_empty() {
            return Some(ChangeState::Planned);
        }
        match basis.deployment.try_apps(&apps, plan.config.require) {
            Ok(()) => {
                (self.phase, self.until) = (Phase::Trying, now + TIMEOUT);
                None
            }
            Err(error) => {
                let why = format!("the apps cannot be tried: {error}");
                Some(ChangeState::Refused { why })
            }
        }
    }

    /// Starts candidates for the apps outside of the kernel.
    fn begin_preparing(
        &mut self,
        plan: Plan,
        difference: Difference,
        basis: &mut Basis,
        programs: &mut Programs,
        now: Instant,
    ) -> Option<ChangeState> {
        let named: Vec<_> =
            plan.wanted.iter().flat_map(|it| it.spec.keys.services.iter().copied()).collect();
        let is_new = |kind: &ServiceKind| {
            !programs.has_service(*kind) && kind.for_apps().is_some_and(|it| named.contains(&it))
        };
        let kinds: Vec<ServiceKind> = ServiceKind::ALL.into_iter().filter(is_new).collect();
        match basis.deployment.services(&kinds) {
            Ok(services) => programs.add_services(services, now),
            Err(why) => return Some(self.refused(basis, why)),
        }
        for step in difference.steps.iter().filter(|step| !step.in_kernel) {
            if let Action::Start | Action::Replace = step.action {
                let demoted = programs.why_demoted(&step.app);
                if let Some(app) = basis.deployment.launch(&step.app, demoted) {
                    programs.add_candidate(app, now);
                }
            }
        }
        self.until = now + TIMEOUT;
        self.phase = Phase::Preparing(Box::new(Prepared { plan, difference }));
        None
    }

    /// Waits until the candidates are loaded, and then lets them take over.
    fn prepare(
        &mut self,
        is_late: bool,
        basis: &mut Basis,
        programs: &mut Programs,
        now: Instant,
    ) -> Option<ChangeState> {
        let failure = match programs.candidates_are_loaded() {
            Ok(true) => None,
            Ok(false) if !is_late => return None,
            Ok(false) => {
                let names = programs.candidates_that_load().join(", ");
                Some(format!("{names} did not load in {} s", TIMEOUT.as_secs()))
            }
            Err((app, why)) => {
                programs.set_kept(&app, Some(why.clone()));
                // Its program ran before with other settings, or it is new in the configuration.
                self.report.misconfigured = matches!(self.purpose, Purpose::Reload(_));
                Some(cannot_run(&app, &why))
            }
        };
        let failure = failure.or_else(|| self.store(basis, programs).err());
        if let Some(why) = failure {
            programs.discard_candidates(now);
            self.drop_confirmation(basis);
            return Some(match self.refused(basis, why) {
                ChangeState::Refused { why } => ChangeState::Undone { why },
                state => state,
            });
        }
        let old = std::mem::replace(&mut self.phase, Phase::Settling(Goal::None));
        let Phase::Preparing(prepared) = old else { return None };
        self.commit(*prepared, basis, programs, now);
        self.until = now + TIMEOUT;
        None
    }

    /// Stores the decision, before anything changes.
    fn store(&mut self, basis: &mut Basis, programs: &mut Programs) -> Result<(), String> {
        self.begin_confirmation(basis)?;
        match &self.purpose {
            Purpose::Enable { app, enabled } => basis.deployment.enable(app, *enabled),
            Purpose::Upgrade { app } => basis.deployment.use_staged(app),
            Purpose::Rollback { app } => basis.deployment.use_previous(app),
            Purpose::Undo { app, .. } => basis.deployment.take_back(app),
            Purpose::Promote { app } => match programs.clear_demotion(app) {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("the promotion could not be stored: {error}")),
            },
            Purpose::Reload(Reload { text, .. }) => match (&self.phase, text) {
                (Phase::Preparing(prepared), NewText::Sent(_)) => {
                    basis.deployment.store(&prepared.plan.config)
                }
                (Phase::Preparing(prepared), NewText::Earlier(earlier)) => {
                    let edited = basis.deployment.restore(&prepared.plan.config, earlier)?;
                    self.report.notices.extend(edited.map(|edited| {
                        let edited = edited.display();
                        format!("Somebody had edited the configuration since it was loaded; {edited} has that text.")
                    }));
                    Ok(())
                }
                _ => Ok(()),
            },
            Purpose::Verb | Purpose::Stage { .. } => Ok(()),
        }
    }

    /// Makes the steps. Candidates take over first, guards before others; apps that are not to run leave last.
    fn commit(
        &mut self,
        prepared: Prepared,
        basis: &mut Basis,
        programs: &mut Programs,
        now: Instant,
    ) {
        let Prepared { plan, difference } = prepared;
        programs.hand_over(now);
        let restarts_kernel = difference.restarts_kernel();
        for step in &difference.steps {
            let launched = match (step.action, step.in_kernel) {
                (_, true) | (Action::Update, false) => {
                    let demoted = programs.why_demoted(&step.app);
                    basis.deployment.launch(&step.app, demoted)
                }
                _ => None,
            };
            match (step.action, step.in_kernel) {
                (_, true) => {
                    let remove = self.removes_flows(&step.app, &plan.config, programs);
                    programs.swap_in_kernel(&step.app, launched, remove, now);
                }
                (Action::Update, false) => {
                    if let Some(app) = launched {
                        programs.update_app(app);
                    }
                }
                (Action::Stop, false) => {
                    let remove = self.removes_flows(&step.app, &plan.config, programs);
                    programs.remove_app(&step.app, remove, now);
                }
                (Action::Start | Action::Replace | Action::Restart, false) => {}
            }
        }
        for wanted in &plan.wanted {
            let kept = difference.kept.iter().find(|(app, _)| app == wanted.spec.name());
            programs.set_kept(wanted.spec.name(), kept.map(|(_, why)| why.clone()));
        }
        if let Purpose::Reload(_) = self.purpose {
            let orphans = programs.new_orphans(&plan.config, |app| plan.wants(app));
            programs.remove_orphans(orphans);
            // They were admitted when the change was planned, and an operator makes one change at a time.
            if let Err(refusal) = programs.sessions_mut().replace(plan.config.sessions.clone()) {
                warn!(%refusal, "the sessions stay as they were");
            }
        }
        if restarts_kernel {
            programs.restart_kernel(now);
        }
        basis.deployment.end();
        (basis.config, basis.inactive) = (plan.config, plan.inactive);
        basis.warnings = plan.warnings;
        self.record_config(basis, programs.incidents().time(), now);
        if let Purpose::Upgrade { app } | Purpose::Rollback { app } = &self.purpose {
            self.phase = Phase::Settling(Goal::Runs { app: app.clone(), starts: 0 });
        }
    }

    /// Whether the switches lose the flows of an app that is not to run any more by `config`.
    fn removes_flows(&self, app: &str, config: &Config, programs: &Programs) -> bool {
        let is_orphan = matches!(self.purpose, Purpose::Reload(_)) && config.app(app).is_none();
        is_orphan && config.orphans == Orphans::Remove || programs.on_stop(app) == OnStop::Remove
    }

    /// Makes the previous package of an upgraded app run again.
    fn undo(
        &mut self,
        app: String,
        why: String,
        basis: &mut Basis,
        programs: &Programs,
        now: Instant,
    ) -> ChangeState {
        warn!(app, why, "an upgraded app failed; its previous version runs again");
        let incidents = programs.incidents();
        let evidence = Evidence::fact(why.as_str());
        let id = incidents.open(Program::app(&app), Cause::Rollback, evidence);
        incidents.reaction(id, "the package before the upgrade runs again");
        incidents.close(id, None);
        self.purpose = Purpose::Undo { app, why };
        (self.confirmed, self.until) = (true, now + TIMEOUT);
        self.begin_planning(basis, programs)
    }
}

impl Basis {
    /// Whether an app has this name, running or not.
    fn knows(&self, app: &str) -> bool {
        let configured = self.config.app(app).is_some() || config::DEFAULT_APPS.contains(&app);
        configured || self.deployment.knows(app) || self.inactive.iter().any(|it| it.name == app)
    }
}

/// The step that changes a session. The phrase has its name and what happens to it.
fn session_step((session, why): (String, &'static str)) -> ChangeStep {
    ChangeStep { action: Action::Update, program: format!("session {session}"), why: why.into() }
}

/// Why a change is not made whose app cannot be loaded.
pub fn cannot_run(app: &str, why: &str) -> String {
    format!("the app {app} cannot run like this: {why}")
}
