//! Makes the changes that operators request while Rosemary runs, one at a time.
//!
//! A change is checked, begun, and then watched until the programs that it concerns have the state that it is to bring
//! about. Nothing here waits: the operator's command asks for reports. Each change is logged with the operator's user.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use control::change::{
    Action, AppVerb, Change, ChangeReport, ChangeRequest, ChangeState, ChangeStep,
};
use control::operator::ProgramState;
use tracing::{info, warn};

use crate::process_table::ProcessTable;

/// How long programs may take to reach the state that a change is to bring about.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The number of finished changes whose reports are kept.
const KEPT: usize = 16;

/// The change that is being made, and the reports of former ones.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    made: u64,
    running: Option<Running>,
    finished: VecDeque<ChangeReport>,
}

/// A change that is being made.
#[derive(Debug)]
struct Running {
    report: ChangeReport,
    what: String,
    goal: Goal,
    until: Instant,
}

/// The state that a change is to bring about.
#[derive(Debug)]
enum Goal {
    /// The app is stopped.
    Stopped(String),
    /// The app runs, in a process that was started after the first `starts`.
    Runs { app: String, starts: u64 },
}

impl Goal {
    fn is_met(&self, processes: &ProcessTable) -> bool {
        let kernel_runs = processes.kernel_state() == ProgramState::Running;
        match self {
            Self::Stopped(app) => {
                kernel_runs && processes.app_state(app) == Some(ProgramState::Stopped)
            }
            Self::Runs { app, starts } => {
                kernel_runs
                    && processes.app_state(app) == Some(ProgramState::Running)
                    && processes.app_starts(app) > *starts
            }
        }
    }

    /// What is missing, as a phrase.
    fn missing(&self, processes: &ProcessTable) -> String {
        let (Self::Stopped(app) | Self::Runs { app, .. }) = self;
        let state = processes.app_state(app).map_or("gone".into(), |state| state.to_string());
        format!("{app} is {state}, and the kernel is {}", processes.kernel_state())
    }
}

impl Changes {
    /// Begins the change that the user `uid` requests. Returns its first report.
    ///
    /// # Errors
    /// Why no change can be made now, as a phrase.
    pub(crate) fn begin(
        &mut self,
        request: ChangeRequest,
        uid: u32,
        processes: &mut ProcessTable,
        now: Instant,
    ) -> Result<ChangeReport, String> {
        if let Some(running) = &self.running {
            return Err(format!("another change is being made ({})", running.what));
        }
        let ChangeRequest { change, confirmed } = request;
        self.made += 1;
        let what = change.to_string();
        info!(uid, change = what, confirmed, "operator requested a change");
        let report = ChangeReport {
            id: self.made,
            steps: Vec::new(),
            notices: Vec::new(),
            state: ChangeState::Running,
        };
        let mut running =
            Running { report, what, goal: Goal::Stopped(String::new()), until: now + TIMEOUT };
        let state = match change {
            Change::App { app, verb } => running.begin_verb(app, verb, confirmed, processes, now),
            Change::Reload { .. } => {
                ChangeState::Refused { why: "this version cannot reload".into() }
            }
        };
        running.report.state = state;
        let report = running.report.clone();
        self.running = Some(running);
        self.advance(processes, now);
        Ok(report)
    }

    /// The report of change number `id`.
    pub(crate) fn report(&self, id: u64) -> Option<&ChangeReport> {
        let running = self.running.as_ref().map(|running| &running.report);
        running.into_iter().chain(&self.finished).find(|report| report.id == id)
    }

    /// When [`advance`](Self::advance) is due, if no program changes before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.until)
    }

    /// Notes whether the programs have reached the state that the change is to bring about.
    pub(crate) fn advance(&mut self, processes: &ProcessTable, now: Instant) {
        let Some(running) = &mut self.running else { return };
        if running.report.state == ChangeState::Running {
            if running.goal.is_met(processes) {
                running.report.state = ChangeState::Done;
            } else if running.until <= now {
                let why = running.goal.missing(processes);
                running.report.state = ChangeState::Incomplete { why };
            } else {
                return;
            }
        }
        let Some(Running { report, what, .. }) = self.running.take() else { return };
        match &report.state {
            ChangeState::Refused { why }
            | ChangeState::Undone { why }
            | ChangeState::Incomplete { why } => {
                warn!(change = what, why, "an operator's change was not made");
            }
            ChangeState::Unconfirmed => info!(change = what, "an operator's change needs --yes"),
            state => info!(change = what, ?state, "an operator's change is over"),
        }
        self.finished.push_back(report);
        if self.finished.len() > KEPT {
            self.finished.pop_front();
        }
    }
}

impl Running {
    /// Begins what an operator requests for one app. Returns the change's state.
    fn begin_verb(
        &mut self,
        app: String,
        verb: AppVerb,
        confirmed: bool,
        processes: &mut ProcessTable,
        now: Instant,
    ) -> ChangeState {
        let known = match processes.app_named(&app) {
            Ok(known) => known,
            Err(why) => return ChangeState::Refused { why },
        };
        let is_stopped = known.is_stopped_by_operator();
        let in_kernel = known.is_in_kernel();
        let starts = processes.app_starts(&app);
        let action = match (verb, is_stopped) {
            (AppVerb::Stop, true) => {
                return ChangeState::Refused { why: format!("{app} is stopped already") };
            }
            (AppVerb::Start, false) => {
                let state = processes.app_state(&app).unwrap_or(ProgramState::Stopped);
                let hint = "correct its files if it is held, or use `rosemary app restart`";
                let why = format!("{app} was not stopped: it is {state}; {hint}");
                return ChangeState::Refused { why };
            }
            (AppVerb::Stop, false) => Action::Stop,
            (AppVerb::Start | AppVerb::Restart, true) => Action::Start,
            (AppVerb::Restart, false) => Action::Restart,
            (verb, _) => {
                let why = format!("this version cannot {} an app", verb.name());
                return ChangeState::Refused { why };
            }
        };
        let why = "the operator requested it".to_owned();
        self.report.steps.push(ChangeStep { action, program: format!("app {app}"), why });
        if in_kernel {
            let why = format!("it hosts {app}; switches reconnect, and their flows stay");
            let (action, program) = (Action::Restart, "kernel".to_owned());
            self.report.steps.push(ChangeStep { action, program, why });
            if !confirmed {
                return ChangeState::Unconfirmed;
            }
        }
        if action == Action::Stop {
            self.report.notices.extend(processes.notice_of_stopped_guard(&app));
        }
        match action {
            Action::Stop => processes.stop_app(&app, now),
            Action::Start => processes.start_app(&app, now),
            _ => processes.restart_app(&app, now),
        }
        self.goal = match action {
            Action::Stop => Goal::Stopped(app),
            _ => Goal::Runs { app, starts },
        };
        ChangeState::Running
    }
}
