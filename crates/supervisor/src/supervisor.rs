//! Decides what an event means for the programs and for the changes that operators request.
//!
//! ```text
//! event --> Supervisor --> effects, in their order --> the monitor carries them out --> events
//!              |   |
//!       Programs   Changes
//! ```

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use config::Config;
use control::change::{Change, ChangeReport, ChangeRequest, UnconfirmedConfig};
use control::operator::{MonitorStatus, ProgramState, Status};
use tracing::{info, warn};

use crate::audit;
use crate::change::changes::Changes;
use crate::change::history::History;
use crate::change::{Basis, Requester};
use crate::effects::{Effects, LimitRequest, ProcessEvent, ProgramId};
use crate::programs::{Parts, Programs};
use crate::system::System;

/// The longest time from the first stop request to the monitor's own end.
pub const STOP_TIME: Duration = Duration::from_millis(1_800);

/// Signals this soon after the first one belong to the same request to stop.
const SAME_REQUEST: Duration = Duration::from_millis(200);

/// An event for the supervisor.
#[derive(Debug)]
pub enum Event {
    /// The programs are to run.
    Start,
    /// Time has passed, so that something may be due.
    Time,
    /// A period of measurement is over.
    Measure,
    /// Something happened to the process of a program, which may be gone.
    Process(ProgramId, ProcessEvent),
    /// An app asks to limit another one.
    Limit(LimitRequest),
    /// The configuration is to be applied as it is now. The phrase says who requests it.
    Reload(&'static str),
    /// A signal asks to stop all programs. A second one kills them.
    Terminate,
}

/// How the monitor ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All programs have ended.
    AllEnded,
    /// Some programs did not end although they were killed, and were given up.
    LeftBehind,
}

/// The programs, and the changes that operators request.
#[derive(Debug)]
pub struct Supervisor {
    programs: Programs,
    changes: Changes,
    effects: Effects,
    /// Who has requested a reload that has not begun.
    must_reload: Option<&'static str>,
    /// Whether it ends when every app is held, because the apps were started for this run alone.
    ends_with_apps: bool,
    /// The apps that were held when it ended for that, and why.
    held: Option<String>,
    /// Whether the line that ends the start was logged.
    is_ready: bool,
}

impl Supervisor {
    /// Describes all programs; nothing is started. With `ends_with_apps` it ends when every app is held.
    pub fn new(parts: Parts, basis: Basis, ends_with_apps: bool) -> Self {
        let effects = parts.effects.clone();
        Self {
            programs: Programs::new(parts),
            changes: Changes::new(basis, effects.clone()),
            effects,
            must_reload: None,
            ends_with_apps,
            held: None,
            is_ready: false,
        }
    }

    /// Handles an event. The decisions are in the effects.
    pub fn handle(&mut self, event: Event, system: &dyn System, now: Instant) {
        match event {
            Event::Start => self.programs.request_start(now),
            Event::Time => self.advance(system, now),
            Event::Measure => self.programs.measure(system, now),
            Event::Process(program, event) => {
                self.programs.process_event(program, event, system, now);
            }
            Event::Limit(request) => self.programs.limit_requested(request, now),
            Event::Reload(who) => self.must_reload = Some(who),
            Event::Terminate => self.terminate(now),
        }
        self.programs.announce_apps();
    }

    /// When [`Event::Time`] is due.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let changes = self.changes.next_due(now).filter(|_| !self.programs.is_stopping());
        self.programs.next_due(now).into_iter().chain(changes).min()
    }

    /// The programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The programs, for requests that are no changes.
    pub fn programs_mut(&mut self) -> &mut Programs {
        &mut self.programs
    }

    /// Begins the change that somebody requests. Returns its first report.
    ///
    /// # Errors
    /// Why no change can be made now, as a phrase.
    pub fn begin_change(
        &mut self,
        request: ChangeRequest,
        fds: Vec<OwnedFd>,
        requester: Requester<'_>,
        now: Instant,
    ) -> Result<ChangeReport, String> {
        if self.programs.is_stopping() {
            return Err("Rosemary stops".into());
        }
        let what = audit::phrase(&request.change);
        let begun = self.changes.begin((request, fds), requester, &mut self.programs, now);
        if let Err(why) = &begun {
            // Other records are written while the change is made.
            self.effects.audit(audit::not_begun(requester.who, &what, why));
        }
        begun
    }

    /// The report of change number `id`.
    pub fn change_report(&self, id: u64) -> Option<&ChangeReport> {
        self.changes.report(id)
    }

    /// The configurations that were applied.
    pub fn history(&self) -> &History {
        self.changes.history()
    }

    /// The configuration that was applied last.
    pub fn config(&self) -> &Config {
        self.changes.config()
    }

    /// The configuration that waits for a confirmation, if one does.
    pub fn unconfirmed(&self, now: Instant) -> Option<UnconfirmedConfig> {
        self.changes.unconfirmed(&self.programs, now)
    }

    /// Begins safe mode for the reason `why`, which is a phrase.
    pub fn begin_safe_mode(&mut self, why: &str, now: Instant) {
        self.programs.begin_safe_mode(why, now);
    }

    /// How the monitor ends, once it does.
    pub fn end(&mut self, now: Instant) -> Option<End> {
        let deadline = self.programs.stop_deadline()?;
        if self.programs.all_stopped() {
            return Some(End::AllEnded);
        }
        (deadline <= now).then(|| {
            self.programs.abandon();
            End::LeftBehind
        })
    }

    /// The apps for which it has ended, and why they are held; `None` if a signal ended it.
    pub fn held(self) -> Option<String> {
        self.held
    }

    /// Whether a changed configuration is being applied, or is about to be.
    pub fn is_reloading(&self) -> bool {
        self.must_reload.is_some() || self.changes.is_reloading()
    }

    /// Whether no change is being made or about to be made.
    pub fn is_idle(&self) -> bool {
        self.must_reload.is_none() && !self.changes.is_busy()
    }

    /// The status for operators. `not_stored` names the monitor's own data that the disk does not take.
    pub fn status(
        &self,
        monitor: MonitorStatus,
        not_stored: impl Iterator<Item = String>,
        now: Instant,
    ) -> Status {
        let programs = &self.programs;
        let (kernel, services, apps) = programs.status();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            monitor,
            kernel,
            services,
            apps,
            inactive: self.changes.inactive().to_vec(),
            warnings: self.changes.warnings().to_vec(),
            unserved: programs.unserved(),
            refused: programs.refused_switches(now),
            other_controller: programs.other_controller(now),
            rejected: self.changes.rejected().map(Into::into),
            unconfirmed: self.changes.unconfirmed(programs, now),
            not_stored: programs
                .not_stored()
                .chain(self.changes.history().not_stored())
                .chain(not_stored)
                .collect(),
            unheld: programs.unheld_reservations(),
            safe_mode: programs.safe_mode_status().map(Box::new),
        }
    }

    /// Whether the programs have started, each that is to run being ready or failed; also after some time if the kernel runs:
    /// an app that never becomes ready must not keep systemd from regarding Rosemary as started. `is_late` says that the time is over.
    pub fn has_started(&self, is_late: bool) -> bool {
        let kernel_runs = || self.programs.kernel_state() == ProgramState::Running;
        self.programs.has_started() || is_late && kernel_runs()
    }

    /// Does what is due.
    fn advance(&mut self, system: &dyn System, now: Instant) {
        // Before programs start, so that no kernel starts with apps that leave it at once.
        if !self.programs.is_stopping() {
            self.begin_safe_mode_if_due(now);
        }
        self.programs.advance(system, now);
        if !self.programs.is_stopping() {
            self.changes.advance(&mut self.programs, now);
            self.changes.return_if_due(&mut self.programs, now);
            self.reload_if_due(now);
            self.end_if_all_held(now);
        }
        self.report_ready();
    }

    /// Logs the line that ends the start.
    fn report_ready(&mut self) {
        if !self.is_ready
            && !self.programs.is_stopping()
            && let Some(line) = self.programs.ready_line()
        {
            self.is_ready = true;
            info!("{line}");
        }
    }

    /// Begins the end if every app is held and the monitor was started for these apps alone.
    fn end_if_all_held(&mut self, now: Instant) {
        if !self.ends_with_apps {
            return;
        }
        if let Some(held) = self.programs.all_held() {
            self.held = Some(held);
            self.begin_stop(now);
        }
    }

    /// Asks all programs to end. Nobody waits for a plan any more.
    fn begin_stop(&mut self, now: Instant) {
        self.changes.abandon_plan();
        self.programs.begin_stop(now + STOP_TIME, now);
    }

    /// Stops all programs at the first signal, and kills them at a second one.
    ///
    /// timeout(1) sends its signal to the monitor and to the monitor's process group, so signals that arrive together are
    /// one request.
    fn terminate(&mut self, now: Instant) {
        match self.programs.stop_deadline() {
            None => {
                info!("asked to stop");
                self.begin_stop(now);
            }
            Some(deadline) if deadline + SAME_REQUEST <= now + STOP_TIME => {
                self.programs.kill("asked to stop twice");
            }
            Some(_) => {}
        }
    }

    /// Applies the configuration as it is now, as a signal or a changed file requests, once no other change is being made.
    fn reload_if_due(&mut self, now: Instant) {
        let is_busy = self.changes.is_busy() || self.programs.is_changing();
        let Some(who) = self.must_reload.take_if(|_| !is_busy) else { return };
        let change = Change::Reload { dry_run: false, confirm: None };
        let request = (ChangeRequest { change, confirmed: false }, Vec::new());
        let requester = Requester { who, over_http: false };
        if let Err(why) = self.changes.begin(request, requester, &mut self.programs, now) {
            warn!(why, "could not reload; type: rosemary reload");
        }
    }

    /// Begins safe mode if its rule requires that, once no change is being made.
    fn begin_safe_mode_if_due(&mut self, now: Instant) {
        if self.changes.is_busy() || !self.programs.is_safe_mode_due() {
            return;
        }
        self.changes.end_watch(&mut self.programs, now);
        if let Some(why) = self.programs.take_safe_mode_due() {
            self.programs.begin_safe_mode(&why, now);
        }
    }
}
