//! Stops, starts and restarts one app, sets the level of its log, and adjusts a session, without a look at the configuration.

use std::time::Instant;

use control::change::{Action, AppVerb, ChangeState, ChangeStep};
use control::log::LogLevel;
use control::operator::ProgramState;

use super::applying::Phase;
use super::changes::Running;
use crate::programs::Programs;

/// The state that a change is to bring about.
#[derive(Debug)]
pub(super) enum Goal {
    /// No particular one.
    None,
    /// The app is stopped.
    Stopped(String),
    /// The app runs, in a process that was started after the first `starts`.
    Runs { app: String, starts: u64 },
}

impl Goal {
    pub(super) fn is_met(&self, programs: &Programs) -> bool {
        let kernel_runs = programs.kernel_state() == ProgramState::Running;
        match self {
            Self::None => true,
            Self::Stopped(app) => {
                kernel_runs && programs.app_state(app) == Some(ProgramState::Stopped)
            }
            Self::Runs { app, starts } => {
                kernel_runs
                    && programs.app_state(app) == Some(ProgramState::Running)
                    && programs.app_starts(app) > *starts
            }
        }
    }

    /// Why the goal cannot be reached: the app cannot run with its files, and never ran with others.
    pub(super) fn failure(&self, programs: &Programs) -> Option<String> {
        let Self::Runs { app, starts } = self else { return None };
        let is_held = programs.app_state(app) == Some(ProgramState::Held)
            && programs.app_starts(app) > *starts;
        let why = programs.app_named(app).ok()?.unfit().filter(|_| is_held)?;
        Some(format!("{app} cannot run with its files: {why}; correct them"))
    }

    /// The difference between the current state and the goal, as a phrase.
    pub(super) fn missing(&self, programs: &Programs) -> String {
        let kernel = programs.kernel_state();
        match self {
            Self::None => format!("the kernel is {kernel}"),
            Self::Stopped(app) | Self::Runs { app, .. } => {
                let state = programs.app_state(app).map_or("gone".into(), |it| it.to_string());
                format!("{app} is {state}, and the kernel is {kernel}")
            }
        }
    }
}

impl Running {
    /// Ends safe mode. Returns the change's state.
    pub(super) fn leave_safe_mode(&mut self, programs: &mut Programs, now: Instant) -> ChangeState {
        if !programs.is_in_safe_mode() {
            return ChangeState::Refused { why: "Rosemary is not in safe mode".into() };
        }
        if programs.leaving_restarts_kernel() {
            let why = "apps return to it; switches reconnect, and their flows stay".to_owned();
            let (action, program) = (Action::Restart, "kernel".to_owned());
            self.report.steps.push(ChangeStep { action, program, why });
            if !self.confirmed {
                return ChangeState::Unconfirmed;
            }
        }
        let (started, suspects) = programs.leave_safe_mode(now);
        for app in started {
            let why = "safe mode ends".to_owned();
            let (action, program) = (Action::Start, format!("app {app}"));
            self.report.steps.push(ChangeStep { action, program, why });
        }
        for suspect in suspects {
            let app = suspect.app;
            self.report.notices.push(format!(
                "{app} stays stopped, as safe mode named it; `rosemary app start {app}` starts it."
            ));
            self.report.notices.extend(programs.notice_of_stopped_guard(&app));
        }
        ChangeState::Running
    }

    /// Changes the level of an app's log. Returns the change's state.
    pub(super) fn set_log_level(
        &mut self,
        app: &str,
        level: Option<LogLevel>,
        programs: &mut Programs,
    ) -> ChangeState {
        match programs.set_log_level(app, level) {
            Ok(level) => {
                let why = format!("its log has the level {}", level.name());
                let (action, program) = (Action::Update, format!("app {app}"));
                self.report.steps.push(ChangeStep { action, program, why });
                ChangeState::Done
            }
            Err(why) => ChangeState::Refused { why },
        }
    }

    /// Changes what is reserved for a session. Returns the change's state.
    pub(super) fn set_session(
        &mut self,
        session: &str,
        values: &[(String, u64)],
        programs: &mut Programs,
    ) -> ChangeState {
        if let Err(why) = programs.sessions_mut().adjust(session, values) {
            return ChangeState::Refused { why };
        }
        let values: Vec<String> =
            values.iter().map(|(key, value)| format!("{key} is {value}")).collect();
        let (action, program) = (Action::Update, format!("session {session}"));
        self.report.steps.push(ChangeStep { action, program, why: values.join(", ") });
        ChangeState::Done
    }

    /// Begins what an operator requests for one app. Returns the change's state.
    pub(super) fn begin_verb(
        &mut self,
        app: String,
        verb: AppVerb,
        programs: &mut Programs,
        now: Instant,
    ) -> ChangeState {
        let known = match programs.app_named(&app) {
            Ok(known) => known,
            Err(why) => return ChangeState::Refused { why },
        };
        if let Some(why) = known.refusal().filter(|_| verb != AppVerb::Stop) {
            let why = format!("{why}; correct that, and type: rosemary reload");
            return ChangeState::Refused { why };
        }
        let is_stopped = known.is_stopped_by_operator();
        let in_kernel = known.is_in_kernel();
        let starts = programs.app_starts(&app);
        let is_held = programs.is_held_for_restarts(&app);
        let action = match (verb, is_stopped) {
            (AppVerb::Stop, true) => {
                return ChangeState::Refused { why: format!("{app} is stopped already") };
            }
            (AppVerb::Start, false) if is_held => Action::Start,
            (AppVerb::Start, false) => {
                let state = programs.app_state(&app).unwrap_or(ProgramState::Stopped);
                let hint = "correct its files if it is held, or use `rosemary app restart`";
                let why = format!("{app} was not stopped: it is {state}; {hint}");
                return ChangeState::Refused { why };
            }
            (AppVerb::Stop, false) => Action::Stop,
            (_, true) => Action::Start,
            (_, false) => Action::Restart,
        };
        let why = "the operator requested it".to_owned();
        self.report.steps.push(ChangeStep { action, program: format!("app {app}"), why });
        if in_kernel {
            let why = format!("it hosts {app}; switches reconnect, and their flows stay");
            let (action, program) = (Action::Restart, "kernel".to_owned());
            self.report.steps.push(ChangeStep { action, program, why });
            if !self.confirmed {
                return ChangeState::Unconfirmed;
            }
        }
        if action == Action::Stop {
            self.report.notices.extend(programs.notice_of_stopped_guard(&app));
        }
        match action {
            Action::Stop => programs.stop_app(&app, now),
            Action::Start if is_stopped => programs.start_app(&app, now),
            _ => programs.restart_app(&app, now),
        }
        self.phase = Phase::Reaching(match action {
            Action::Stop => Goal::Stopped(app),
            _ => Goal::Runs { app, starts },
        });
        ChangeState::Running
    }
}
