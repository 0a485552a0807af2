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
//! | files | contents |
//! | --- | --- |
//! | `new_config.rs` | a configuration or a package that arrives over the HTTP interface |
//! | `planner.rs` | reads a configuration and the apps' files, in a thread |
//! | `trial.rs` | loads the apps of a dry run, in a thread |
//! | `facts.rs` | the state of programs before and after a change |
//! | `applying.rs` | starts, replaces and stops these programs, and undoes that |
//! | `verbs.rs` | start, stop and restart of one app, and the level of its log |

mod applying;
#[cfg(test)]
mod every_key;
mod facts;
mod new_config;
pub(crate) mod planner;
mod trial;
mod verbs;

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::Config;
use control::change::{AppVerb, Change, ChangeReport, ChangeRequest, ChangeState};
use control::operator::{InactiveApp, OperatorReply};
use tracing::{info, warn};

use self::applying::{Phase, Purpose};
use self::facts::Facts;
use self::new_config::{NewConfig, staged_files};
use self::planner::Planner;
use self::verbs::Goal;
use crate::audit;
use crate::environment::Environment;
use crate::overrides::Overrides;
use supervisor::Supervisor;
use supervisor::text::harmless;

/// How long programs may take to reach the state that a change is to bring about.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The number of finished changes whose reports are kept.
const KEPT: usize = 16;

/// With what programs run, and by which configuration.
#[derive(Debug)]
pub(crate) struct Basis {
    pub(crate) planner: Planner,
    pub(crate) environment: Environment,
    /// The last configuration that was applied.
    pub(crate) config: Config,
    pub(crate) overrides: Overrides,
    /// The apps that do not run.
    pub(crate) inactive: Vec<InactiveApp>,
    /// How the apps do not fit together, as phrases.
    pub(crate) warnings: Vec<String>,
}

/// The change that is being made, and the reports of former ones.
#[derive(Debug)]
pub(crate) struct Changes {
    basis: Basis,
    made: u64,
    running: Option<Running>,
    finished: VecDeque<ChangeReport>,
    /// Why the last reload was refused, if it was.
    rejected: Option<String>,
}

/// A change that is being made.
#[derive(Debug)]
struct Running {
    report: ChangeReport,
    /// Who requested it, for audit records.
    who: String,
    what: String,
    purpose: Purpose,
    /// The app that it names.
    named: Option<String>,
    /// The state before it, or before its last audit record.
    before: Before,
    /// The state in the last audit record.
    recorded: ChangeState,
    confirmed: bool,
    phase: Phase,
    until: Instant,
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
    pub(crate) fn new(basis: Basis) -> Self {
        Self { basis, made: 0, running: None, finished: VecDeque::new(), rejected: None }
    }

    /// Whether a change of an app's file requests a reload.
    pub(crate) fn must_watch(&self) -> bool {
        self.basis.planner.options.watch
    }

    /// Begins the change that `who` requests: an operator's user, or a signal. Returns its first report.
    ///
    /// # Errors
    /// Why no change can be made now, as a phrase.
    pub(crate) fn begin(
        &mut self,
        (request, fds): (ChangeRequest, Vec<OwnedFd>),
        who: &str,
        programs: &mut Supervisor,
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
                | Change::Reload { dry_run: true }
                | Change::Configure { dry_run: true, .. }
                | Change::LogLevel { .. }
        );
        if programs.is_in_safe_mode() && !fits_safe_mode {
            return Err("Rosemary is in safe mode; end it with `rosemary safe-mode exit`".into());
        }
        self.made += 1;
        let what = audit::phrase(&change);
        info!(who, change = what, confirmed, "operator requested a change");
        let report = ChangeReport {
            id: self.made,
            steps: Vec::new(),
            notices: Vec::new(),
            misconfigured: false,
            state: ChangeState::Running,
        };
        let purpose = match &change {
            Change::App { app, verb } => match verb {
                AppVerb::Start | AppVerb::Stop | AppVerb::Restart => Purpose::Verb,
                AppVerb::Enable => Purpose::Enable { app: app.clone(), enabled: true },
                AppVerb::Disable => Purpose::Enable { app: app.clone(), enabled: false },
                AppVerb::Promote => Purpose::Promote { app: app.clone() },
                AppVerb::Upgrade => Purpose::Upgrade { app: app.clone() },
                AppVerb::Rollback => Purpose::Rollback { app: app.clone() },
            },
            Change::Reload { dry_run } => Purpose::Reload { dry_run: *dry_run, new: None },
            Change::Configure { expected, dry_run } => {
                let new = NewConfig::receive(fds, expected)?;
                Purpose::Reload { dry_run: *dry_run, new: Some(new) }
            }
            Change::Stage { app } => {
                Purpose::Stage { app: app.clone(), files: Arc::new(staged_files(fds)?) }
            }
            Change::LeaveSafeMode | Change::LogLevel { .. } => Purpose::Verb,
        };
        audit::requested(who, &what, report.id);
        let named = audit::named(&change).map(str::to_owned);
        let config = matches!(purpose, Purpose::Reload { .. });
        let before = Before {
            facts: Facts::now(&self.basis, programs, named.as_deref()),
            config: config.then(|| self.basis.config.text().to_owned()),
        };
        let (phase, until) = (Phase::Reaching(Goal::None), now + TIMEOUT);
        let (who, recorded) = (who.to_owned(), ChangeState::Running);
        let mut running = Running {
            report,
            who,
            what,
            purpose,
            named,
            before,
            recorded,
            confirmed,
            phase,
            until,
        };
        running.report.state = match change {
            Change::App { app, verb } if matches!(running.purpose, Purpose::Verb) => {
                running.begin_verb(app, verb, programs, now)
            }
            Change::LogLevel { app, level } => running.set_log_level(&app, level, programs),
            Change::LeaveSafeMode => running.leave_safe_mode(programs, now),
            _ => running.begin_planning(&self.basis, programs),
        };
        let report = running.report.clone();
        self.running = Some(running);
        self.advance(programs, now);
        Ok(report)
    }

    /// Whether a change is being made. An upgrade that is only watched does not count.
    pub(crate) fn is_busy(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.report.state == ChangeState::Running)
    }

    /// Whether a changed configuration is being applied.
    pub(crate) fn is_reloading(&self) -> bool {
        let reloads =
            |running: &Running| matches!(running.purpose, Purpose::Reload { dry_run: false, .. });
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

    /// The text of the configuration for operators, without its secrets, in sealed memory.
    ///
    /// # Errors
    /// Why it cannot be shown, as a phrase.
    pub(crate) fn shown_config(&self) -> Result<(OperatorReply, OwnedFd), String> {
        let file = self.basis.planner.config_file();
        let text = file.as_deref().map_or(Ok(String::new()), new_config::read)?;
        let (shown, redacted) = config::reserved::redact(&text)
            .map_err(|why| format!("the configuration is not TOML now: {why}"))?;
        let memory = sys::shm::sealed_copy("configuration", shown.as_bytes());
        let memory = memory.map_err(|error| error.to_string())?;
        let sha256 = new_config::digest(&text)?;
        Ok((OperatorReply::Config { file, sha256, redacted }, memory))
    }

    /// Why the last reload was refused, if it was.
    pub(crate) fn rejected(&self) -> Option<&str> {
        self.rejected.as_deref()
    }

    /// Readable when a plan is made, or its apps were tried.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.running.as_ref()?.phase {
            Phase::Planning(planning) => Some(planning.as_fd()),
            Phase::Trying(trial) => Some(trial.as_fd()),
            _ => None,
        }
    }

    /// When [`advance`](Self::advance) is due, if no program changes before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.until)
    }

    /// Makes the next step of the change, if its time has come.
    pub(crate) fn advance(&mut self, programs: &mut Supervisor, now: Instant) {
        let Self { basis, running: Some(running), .. } = self else { return };
        if matches!(running.report.state, ChangeState::Running | ChangeState::Watching) {
            running.advance(basis, programs, now);
        }
        running.record(basis, programs);
        if !matches!(running.report.state, ChangeState::Running | ChangeState::Watching) {
            self.finish();
        }
    }

    /// Ends the watch over an upgrade, because an operator requests another change or safe mode begins.
    pub(crate) fn end_watch(&mut self, programs: &mut Supervisor, now: Instant) {
        self.advance(programs, now);
        if let Some(running) = &mut self.running
            && running.report.state == ChangeState::Watching
        {
            running.report.state = ChangeState::Done;
            self.finish();
        }
    }

    fn finish(&mut self) {
        let Some(Running { report, what, purpose, .. }) = self.running.take() else { return };
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
        if let Purpose::Reload { dry_run: false, new: None } = purpose {
            self.rejected = failure;
        }
        self.finished.push_back(report);
        if self.finished.len() > KEPT {
            self.finished.pop_front();
        }
    }
}

impl Running {
    /// Writes an audit record if the change has come to an end, or to a point from which it may still be undone. A dry run changes
    /// nothing, and an upgrade that ran well while it was watched changes nothing more.
    fn record(&mut self, basis: &Basis, programs: &Supervisor) {
        if self.report.state == self.recorded {
            return;
        }
        let earlier = std::mem::replace(&mut self.recorded, self.report.state.clone());
        let outcome = match &self.report.state {
            ChangeState::Running | ChangeState::Planned => return,
            ChangeState::Done if earlier == ChangeState::Watching => return,
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
        audit::over((&self.who, &self.what, id), &outcome, &differences);
        self.before.facts = facts;
    }
}
