//! Makes the changes that operators request while Rosemary runs, one at a time.
//!
//! ```text
//! start, stop, restart: ---------------------------------------------> Reaching ----------------> over
//! all others: Planning --> difference --> Preparing (candidates load) --> Settling --> Watching --> over
//!             (a thread)   (pure)         one fails: nothing changes                   upgrades only
//! dry runs:   Planning --> difference --> Trying (a thread) -----------------------------------------> over
//! ```
//!
//! A change of one app leaves all others as they are, except those whose settings depend on whether the app runs. Their other
//! changes wait for a reload, and the report says so.
//!
//! A change is checked first, begun, and then watched until the programs that it concerns have the state that it is to
//! bring about. Nothing here waits: the operator's command asks for reports. Each change is logged with the user, and leaves two audit
//! records: at its beginning, and with the differences that it has made.
//!
//! [`Deployment`] reads configurations and the apps' files in a thread of its own, and loads the apps of a dry run in another.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::Config;
use control::change::{AppVerb, Change, ChangeReport, ChangeRequest, ChangeState};
use control::operator::InactiveApp;
use tracing::{info, warn};

use super::applying::Phase;
use super::confirmation::{Unconfirmed, time_of};
use super::deployment::Deployment;
use super::facts::Facts;
use super::history::History;
use super::purpose::{NewText, Purpose, Reload};
use super::verbs::Goal;
use crate::audit;
use crate::effects::Effects;
use crate::programs::Programs;
use crate::text::harmless;

/// How long programs may take to reach the state that a change is to bring about.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// The number of finished changes whose reports are kept.
const KEPT: usize = 16;

/// The applied configuration, and the store of the next one.
#[derive(Debug)]
pub struct Basis {
    /// Reads and writes configurations and packages.
    pub deployment: Box<dyn Deployment>,
    /// The last configuration that was applied.
    pub config: Config,
    /// The apps that do not run.
    pub inactive: Vec<InactiveApp>,
    /// How the apps do not fit together, as phrases.
    pub warnings: Vec<String>,
    /// The configurations that were applied. The last one is `config`.
    pub history: History,
    /// The confirmation for which `config` waits, if it does.
    pub unconfirmed: Option<Unconfirmed>,
}

/// Who requests a change.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'a> {
    /// For logs and records: an operator's user, a token, or a signal.
    pub who: &'a str,
    /// Whether the request comes over the HTTP interface, over which nobody changes reserved keys.
    pub over_http: bool,
}

/// The change that is being made, and the reports of former ones.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(super) basis: Basis,
    effects: Effects,
    made: u64,
    running: Option<Running>,
    finished: VecDeque<ChangeReport>,
    /// Why the last reload was refused, if it was.
    rejected: Option<String>,
}

/// A change that is being made.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) report: ChangeReport,
    /// Who requested it, for records.
    pub(super) who: String,
    pub(super) what: String,
    pub(super) purpose: Purpose,
    /// The app that it names.
    named: Option<String>,
    /// The state before it, or before its last audit record.
    before: Before,
    /// The state in the last audit record.
    recorded: ChangeState,
    pub(super) confirmed: bool,
    pub(super) phase: Phase,
    pub(super) until: Instant,
}

/// The state before a change.
#[derive(Debug)]
struct Before {
    facts: Facts,
    /// The text of the configuration, if the change may replace it.
    config: Option<String>,
}

impl Changes {
    /// Makes changes from this basis.
    pub(crate) fn new(basis: Basis, effects: Effects) -> Self {
        Self { basis, effects, made: 0, running: None, finished: VecDeque::new(), rejected: None }
    }

    /// Begins the change that `who` requests: an operator's user, or a signal. Returns its first report.
    ///
    /// # Errors
    /// Why no change can be made now, as a phrase.
    pub(crate) fn begin(
        &mut self,
        (request, fds): (ChangeRequest, Vec<OwnedFd>),
        requester: Requester<'_>,
        programs: &mut Programs,
        now: Instant,
    ) -> Result<ChangeReport, String> {
        let ChangeRequest { change, confirmed } = request;
        self.end_watch(programs, now);
        if let Some(running) = &self.running {
            let what = &running.what;
            return Err(format!("another change is being made ({what}); try again in a moment"));
        }
        let fits_safe_mode = matches!(
            change,
            Change::LeaveSafeMode
                | Change::Reload { dry_run: true, .. }
                | Change::Configure { dry_run: true, .. }
                | Change::Undo { dry_run: true, .. }
                | Change::Confirm
                | Change::LogLevel { .. }
        );
        if programs.is_in_safe_mode() && !fits_safe_mode {
            return Err("Rosemary is in safe mode; end it with `rosemary safe-mode exit`".into());
        }
        // The apps that it adds, replaces or removes are not in the table yet as they will be.
        let compares = match &change {
            Change::App { verb, .. } => {
                !matches!(verb, AppVerb::Start | AppVerb::Stop | AppVerb::Restart)
            }
            Change::Reload { .. } | Change::Configure { .. } | Change::Undo { .. } => true,
            Change::Stage { .. }
            | Change::LogLevel { .. }
            | Change::Confirm
            | Change::LeaveSafeMode
            | Change::Session { .. } => false,
        };
        if compares && programs.is_changing() {
            let why = "an earlier change waits for the end of a program; try again in a moment";
            return Err(why.into());
        }
        self.fits_confirmation(&change, now)?;
        let what = audit::phrase(&change);
        let purpose = match &change {
            Change::App { app, verb } => match verb {
                AppVerb::Start | AppVerb::Stop | AppVerb::Restart => Purpose::Verb,
                AppVerb::Enable => Purpose::Enable { app: app.clone(), enabled: true },
                AppVerb::Disable => Purpose::Enable { app: app.clone(), enabled: false },
                AppVerb::Promote => Purpose::Promote { app: app.clone() },
                AppVerb::Upgrade => Purpose::Upgrade { app: app.clone() },
                AppVerb::Rollback => Purpose::Rollback { app: app.clone() },
            },
            Change::Reload { dry_run, confirm } => Purpose::Reload(Reload {
                dry_run: *dry_run,
                text: NewText::File,
                confirm: time_of(*confirm),
                takes_back: None,
                over_http: requester.over_http,
            }),
            Change::Configure { expected, dry_run, confirm } => {
                let new = self.basis.deployment.new_config(fds, expected)?;
                Purpose::Reload(Reload {
                    dry_run: *dry_run,
                    text: NewText::Sent(new),
                    confirm: time_of(*confirm),
                    takes_back: None,
                    over_http: requester.over_http,
                })
            }
            Change::Undo { id, dry_run, confirm, force } => {
                let earlier = self.earlier(*id, *force, requester.over_http)?;
                let waits = self.basis.unconfirmed.as_ref().is_some_and(|it| it.id == *id);
                Purpose::Reload(Reload {
                    dry_run: *dry_run,
                    text: NewText::Earlier(earlier),
                    confirm: time_of(*confirm),
                    takes_back: waits.then_some(*id),
                    over_http: requester.over_http,
                })
            }
            Change::Stage { app } => {
                let files = Arc::new(self.basis.deployment.new_package(fds)?);
                Purpose::Stage { app: app.clone(), files }
            }
            Change::LeaveSafeMode
            | Change::LogLevel { .. }
            | Change::Session { .. }
            | Change::Confirm => Purpose::Verb,
        };
        let named = audit::named(&change).map(str::to_owned);
        let mut running =
            self.new_running((requester.who, what), (purpose, named, confirmed), programs, now);
        running.report.state = match change {
            Change::App { app, verb } if matches!(running.purpose, Purpose::Verb) => {
                running.begin_verb(app, verb, programs, now)
            }
            Change::LogLevel { app, level } => running.set_log_level(&app, level, programs),
            Change::Session { session, values } => running.set_session(&session, &values, programs),
            Change::LeaveSafeMode => running.leave_safe_mode(programs, now),
            Change::Confirm => running.confirm(&mut self.basis),
            _ => running.begin_planning(&mut self.basis, programs),
        };
        Ok(self.run(running, programs, now))
    }

    /// Describes a change that is about to begin: who requests it, its phrase, its purpose, the app that it names, and whether the
    /// kernel may restart.
    pub(super) fn new_running(
        &mut self,
        (who, what): (&str, String),
        (purpose, named, confirmed): (Purpose, Option<String>, bool),
        programs: &Programs,
        now: Instant,
    ) -> Running {
        self.made += 1;
        info!(who, change = what, confirmed, "operator requested a change");
        let report = ChangeReport {
            id: self.made,
            steps: Vec::new(),
            notices: Vec::new(),
            misconfigured: false,
            state: ChangeState::Running,
        };
        self.effects.audit(audit::requested(who, &what, report.id));
        let config = matches!(purpose, Purpose::Reload(_));
        let before = Before {
            facts: Facts::now(&self.basis, programs, named.as_deref()),
            config: config.then(|| self.basis.config.text().to_owned()),
        };
        let (phase, until) = (Phase::Reaching(Goal::None), now + TIMEOUT);
        let (who, recorded) = (who.to_owned(), ChangeState::Running);
        Running { report, who, what, purpose, named, before, recorded, confirmed, phase, until }
    }

    /// Makes the first steps of a change. Returns its first report.
    pub(super) fn run(
        &mut self,
        running: Running,
        programs: &mut Programs,
        now: Instant,
    ) -> ChangeReport {
        let report = running.report.clone();
        self.running = Some(running);
        self.advance(programs, now);
        report
    }

    /// Waits no longer for a plan or a trial.
    pub(crate) fn abandon_plan(&mut self) {
        self.basis.deployment.end();
    }

    /// Whether a change is being made. An upgrade that is only watched does not count.
    pub(crate) fn is_busy(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.report.state == ChangeState::Running)
    }

    /// Whether a changed configuration is being applied.
    pub(crate) fn is_reloading(&self) -> bool {
        let reloads =
            |running: &Running| matches!(&running.purpose, Purpose::Reload(it) if !it.dry_run);
        self.is_busy() && self.running.as_ref().is_some_and(reloads)
    }

    /// The report of change number `id`.
    pub(crate) fn report(&self, id: u64) -> Option<&ChangeReport> {
        let running = self.running.as_ref().map(|running| &running.report);
        running.into_iter().chain(&self.finished).find(|report| report.id == id)
    }

    /// The apps that do not run.
    pub(crate) fn inactive(&self) -> &[InactiveApp] {
        &self.basis.inactive
    }

    /// How the apps do not fit together, as phrases.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.basis.warnings
    }

    /// The configurations that were applied.
    pub(crate) fn history(&self) -> &History {
        &self.basis.history
    }

    /// The configuration that was applied last.
    pub(crate) fn config(&self) -> &Config {
        &self.basis.config
    }

    /// Why the last reload was refused, if it was.
    pub(crate) fn rejected(&self) -> Option<&str> {
        self.rejected.as_deref()
    }

    /// When [`advance`](Self::advance) is due, or a configuration is to be taken back, if no program changes before.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let running = self.running.as_ref().map(|running| running.until);
        // While it waits for the end of another change or of safe mode, the end of these is an event.
        let unconfirmed = self.basis.unconfirmed.as_ref().map(|it| it.until).filter(|it| *it > now);
        running.into_iter().chain(unconfirmed).min()
    }

    /// Makes the next step of the change, if its time has come.
    pub(crate) fn advance(&mut self, programs: &mut Programs, now: Instant) {
        let Self { basis, effects, running: Some(running), .. } = self else { return };
        if matches!(running.report.state, ChangeState::Running | ChangeState::Watching) {
            running.advance(basis, programs, now);
        }
        if let Some(record) = running.record(basis, programs) {
            effects.audit(record);
        }
        if !matches!(running.report.state, ChangeState::Running | ChangeState::Watching) {
            self.finish(now);
        }
    }

    /// Ends the watch over an upgrade, because an operator requests another change or safe mode begins.
    pub(crate) fn end_watch(&mut self, programs: &mut Programs, now: Instant) {
        self.advance(programs, now);
        if let Some(running) = &mut self.running
            && running.report.state == ChangeState::Watching
        {
            running.report.state = ChangeState::Done;
            self.finish(now);
        }
    }

    fn finish(&mut self, now: Instant) {
        let Some(Running { report, what, purpose, .. }) = self.running.take() else { return };
        self.basis.deployment.end();
        let failure = match &report.state {
            ChangeState::Refused { why }
            | ChangeState::Undone { why }
            | ChangeState::Incomplete { why } => {
                warn!(change = what, why, "an operator's change was not made");
                Some(why.clone())
            }
            ChangeState::Unconfirmed => {
                info!(change = what, "an operator's change needs --yes");
                None
            }
            state => {
                info!(change = what, ?state, "an operator's change is over");
                None
            }
        };
        if let Purpose::Reload(Reload { dry_run: false, text, takes_back, .. }) = purpose {
            if let (Some(id), Some(why)) = (takes_back, &failure) {
                self.not_taken_back(id, why, now);
            }
            let is_made = failure.is_none() && report.state != ChangeState::Unconfirmed;
            if is_made || matches!(text, NewText::File) {
                self.rejected = failure;
            }
        }
        self.finished.push_back(report);
        if self.finished.len() > KEPT {
            self.finished.pop_front();
        }
    }
}

impl Running {
    /// The audit record if the change has come to an end, or to a point from which it may still be undone. A dry run changes
    /// nothing, and an upgrade that ran well while it was watched changes nothing more.
    fn record(&mut self, basis: &Basis, programs: &Programs) -> Option<String> {
        if self.report.state == self.recorded {
            return None;
        }
        let earlier = std::mem::replace(&mut self.recorded, self.report.state.clone());
        let outcome = match &self.report.state {
            ChangeState::Running | ChangeState::Planned => return None,
            ChangeState::Done if earlier == ChangeState::Watching => return None,
            ChangeState::Done => "is done".to_owned(),
            ChangeState::Watching => "is done, and watched".to_owned(),
            ChangeState::Unconfirmed => "was not made, as it needs a confirmation".to_owned(),
            ChangeState::Refused { why } => format!("was refused: {}", harmless(why, 400)),
            ChangeState::Undone { why } => format!("was undone: {}", harmless(why, 400)),
            ChangeState::Incomplete { why } => format!("is incomplete: {}", harmless(why, 400)),
        };
        let facts = Facts::now(basis, programs, self.named.as_deref());
        let named = self.named.iter().map(|app| format!("app {app}"));
        let steps = self.report.steps.iter().map(|step| step.program.clone());
        let concerned: BTreeSet<String> = named.chain(steps).collect();
        let concerns = |program: &str| concerned.contains(program);
        let mut differences = self.before.facts.differences(&facts, concerns);
        if let Some(before) = &self.before.config {
            let keys = config::changes(before, basis.config.text());
            differences.extend(keys.unwrap_or_else(|why| vec![format!("not TOML: {why}")]));
        }
        let id = self.report.id;
        self.before.facts = facts;
        Some(audit::over((&self.who, &self.what, id), &outcome, &differences))
    }
}
