//! The promises that hold after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use control::app::AppId;
use control::kernel::KernelRequest;
use control::northbound::NorthboundRequest;
use control::operator::{ProgramState, Status};
use control::policy::Band;
use control::service::ServiceRequest;
use control::zone::ZoneRequest;
use supervisor::app::{App, Role};
use supervisor::contract::Contract;
use supervisor::effects::{Effect, Message, ProcessEvent, ProgramId};
use supervisor::program::ProgramKind;
use supervisor::supervisor::{End, STOP_TIME};
use supervisor::{Event, Supervisor};

use crate::machine::{Machine, Truth};

/// The most references to descriptors, which are held by apps, tables and messages under way.
const MOST_DESCRIPTORS: usize = 400;

/// The memory of the checks from one step to the next.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// For each program: its last start, and whether it must wait for its next one.
    starts: BTreeMap<ProgramId, Start>,
    /// The app that a kernel hosted and that ended it; the apps that were demoted before.
    ended: Option<(Truth, Vec<String>, BTreeSet<String>)>,
    stopping_since: Option<Instant>,
    /// Whether no change was being made before the event.
    was_idle: bool,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    at: Instant,
    /// Whether it was asked to end.
    is_asked: bool,
    /// The earliest next start, after an end of its own.
    not_before: Option<Instant>,
}

fn of_app(supervisor: &Supervisor, app: AppId) -> Option<&App> {
    supervisor.programs().apps().find(|it| it.id == app && it.role().serves())
}

fn demoted(supervisor: &Supervisor) -> BTreeSet<String> {
    let programs = supervisor.programs();
    let demoted = programs.apps().filter(|app| programs.why_demoted(&app.name).is_some());
    demoted.map(|app| app.name.clone()).collect()
}

impl Checks {
    /// An operator has requested something, or all programs restart: they may start earlier than by themselves.
    pub(crate) fn requested(&mut self) {
        self.starts.values_mut().for_each(|start| start.not_before = None);
    }

    /// The clock has jumped.
    pub(crate) fn jumped(&mut self) {
        self.stopping_since = None;
    }

    /// Remembers what matters of the state before an event.
    pub(crate) fn before(&mut self, event: &Event, supervisor: &Supervisor, machine: &Machine) {
        self.was_idle = supervisor.is_idle();
        let Event::Process(program, ProcessEvent::Ended(..)) = event else { return };
        let Some(truth) = machine.truth.get(program).copied() else { return };
        let is_kernel = supervisor.programs().kernel_id() == *program;
        if is_kernel {
            // Whoever ends a kernel that was asked to end has done nothing wrong.
            let is_asked = supervisor.programs().kernel_state() == ProgramState::Stopping;
            let truth = if is_asked { Truth::Requested } else { truth };
            let hosted = supervisor.programs().apps().filter(|app| app.is_in_kernel());
            let hosted = hosted.map(|app| app.name.clone()).collect();
            self.ended = Some((truth, hosted, demoted(supervisor)));
        }
        let min_run = Duration::from_secs(1);
        if let Some(start) = self.starts.get_mut(program) {
            let ran = machine.now().saturating_duration_since(start.at);
            start.not_before = match truth {
                Truth::Own | Truth::InApp(_) | Truth::Unexplained | Truth::Outside
                    if ran < min_run && !start.is_asked =>
                {
                    Some(start.at + min_run)
                }
                _ => None,
            };
        }
    }

    /// Checks an effect before it is carried out.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub(crate) fn effect(
        &mut self,
        program: ProgramId,
        effect: &Effect,
        supervisor: &Supervisor,
        now: Instant,
    ) -> Result<(), String> {
        let programs = supervisor.programs();
        // That also starts programs again that wait for their next start.
        if programs.all_restarted() == Some(now) {
            self.requested();
        }
        match effect {
            Effect::Spawn(spawn) => {
                // The log service stores the last lines of the others.
                if programs.is_stopping() && spawn.kind != ProgramKind::Service("log") {
                    return Err(format!("{} was started although all programs stop", spawn.name));
                }
                let early = self.starts.get(&program).and_then(|start| start.not_before);
                let is_by_itself = self.was_idle
                    && supervisor.is_idle()
                    && !programs.is_in_safe_mode()
                    && !programs.is_in_comeback();
                if early.is_some_and(|at| now < at) && is_by_itself {
                    return Err(format!("{} was started again too early", spawn.name));
                }
                self.starts.insert(program, Start { at: now, is_asked: false, not_before: None });
            }
            Effect::Send(message, ..) => {
                let is_stop = matches!(
                    message.as_ref(),
                    Message::Kernel(KernelRequest::Stop)
                        | Message::Zone(ZoneRequest::Stop)
                        | Message::Service(ServiceRequest::Stop)
                        | Message::Northbound(NorthboundRequest::Stop)
                );
                if let Some(start) = self.starts.get_mut(&program).filter(|_| is_stop) {
                    start.is_asked = true;
                }
                if let Message::Kernel(request) = message.as_ref() {
                    return kernel_request(request, supervisor, self.was_idle);
                }
            }
            Effect::Forget | Effect::Abandon => {
                self.starts.remove(&program);
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the state after an event.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub(crate) fn after(
        &mut self,
        supervisor: &Supervisor,
        machine: &Machine,
        contract: &Contract,
        now: Instant,
    ) -> Result<(), String> {
        let programs = supervisor.programs();
        if let Some((truth, hosted, before)) = self.ended.take() {
            let added: Vec<String> = demoted(supervisor).difference(&before).cloned().collect();
            let guilty = match truth {
                Truth::InApp(app) => of_app(supervisor, app).map(|app| app.name.clone()),
                _ => None,
            };
            if let Some(guilty) = guilty.filter(|it| hosted.contains(it))
                && let Ok(app) = programs.app_named(&guilty)
                && app.is_in_kernel()
                && !programs.is_stopping()
                && truth != Truth::Requested
            {
                return Err(format!("{guilty} has ended the kernel and may stay in it"));
            }
            let is_suspect = |app: &String| {
                let mut suspects = machine.suspects.iter().filter_map(|it| of_app(supervisor, *it));
                suspects.any(|it| it.name == *app)
            };
            let innocent = added.iter().find(|app| !is_suspect(app));
            if let Some(app) = innocent
                && !programs.is_in_safe_mode()
                && !programs.is_in_comeback()
            {
                return Err(format!("{app} is blamed for an end of the kernel ({truth:?})"));
            }
        }
        let known: BTreeSet<ProgramId> = programs.program_ids().collect();
        if let Some(lost) = contract.programs().find(|program| !known.contains(program)) {
            return Err(format!("the process of {lost:?} is lost"));
        }
        let most = 2 * programs.apps().count() + 8;
        if machine.processes.len() > most {
            return Err(format!("there are {} processes", machine.processes.len()));
        }
        let references = machine.references();
        if references > MOST_DESCRIPTORS {
            return Err(format!("{references} descriptors are held"));
        }
        if programs.is_stopping() {
            let since = *self.stopping_since.get_or_insert(now);
            if now.saturating_duration_since(since) > STOP_TIME + Duration::from_millis(50) {
                return Err("a stop takes too long".into());
            }
        }
        Ok(())
    }

    /// Checks the status that operators see.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub(crate) fn status(status: &Status) -> Result<(), String> {
        let mut names = BTreeSet::new();
        if let Some(twice) = status.apps.iter().find(|app| !names.insert(&app.name)) {
            return Err(format!("{} is shown twice", twice.name));
        }
        Ok(())
    }

    /// Checks the end of the monitor.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub(crate) fn ended(end: &End, machine: &Machine) -> Result<(), String> {
        if *end == End::AllEnded && !machine.processes.is_empty() {
            return Err(format!("{} processes are left after the end", machine.processes.len()));
        }
        Ok(())
    }

    /// Checks that everything that is to run runs, after a long time without faults.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(crate) fn calm(supervisor: &Supervisor, machine: &Machine) -> Result<(), String> {
        let programs = supervisor.programs();
        if programs.is_stopping() {
            return Ok(());
        }
        let sick = machine.processes.values().find(|it| it.hang.is_some() || it.call.is_some());
        if let Some(sick) = sick {
            return Err(format!("{:?} hangs and was not ended", sick.kind));
        }
        if programs.kernel_state() != ProgramState::Running {
            return Err(format!("the kernel is {} in calm", programs.kernel_state()));
        }
        let (_, services, _) = programs.status();
        for service in services {
            let is_fine = matches!(service.state, ProgramState::Running)
                || service.state == ProgramState::Held && service.last_exit.is_some();
            if !is_fine {
                return Err(format!("{} is {} in calm", service.name, service.state));
            }
        }
        for app in programs.apps() {
            if app.role() != Role::Current {
                return Err(format!("{} is {:?} in calm", app.name, app.role()));
            }
            let state = app.state(ProgramState::Running);
            let is_fine = match state {
                ProgramState::Running => app.is_connected(),
                ProgramState::Stopped => app.is_stopped_by_operator() || app.is_held_back(),
                ProgramState::Held => {
                    app.program().is_some_and(|it| it.lifecycle().last_exit().is_some())
                }
                _ => false,
            };
            if !is_fine && !programs.is_in_safe_mode() {
                return Err(format!("{} is {state} in calm", app.name));
            }
        }
        if !supervisor.is_idle() {
            return Err("a change is still being made in calm".into());
        }
        Ok(())
    }
}

/// Checks a message to the kernel.
fn kernel_request(
    request: &KernelRequest,
    supervisor: &Supervisor,
    was_idle: bool,
) -> Result<(), String> {
    let programs = supervisor.programs();
    match request {
        KernelRequest::Forget { app } => {
            if let Some(app) = of_app(supervisor, *app).filter(|app| app.is_guard()) {
                return Err(format!("the kernel leaves the guard out: {}", app.name));
            }
        }
        KernelRequest::AbsentApps { apps } => {
            for absent in apps.iter().filter(|absent| absent.remove) {
                let runs = of_app(supervisor, absent.app).is_some_and(|app| {
                    !app.is_stopped_by_operator() && app.role() == Role::Current
                });
                if runs {
                    return Err(format!("switches lose the flows of {}, which runs", absent.name));
                }
            }
        }
        KernelRequest::Start { apps, .. } => {
            let mut bands: Vec<(Band, &str)> = Vec::new();
            for app in apps {
                if app.host.is_in_kernel() {
                    if programs.is_in_safe_mode() {
                        return Err(format!("the kernel hosts {} in safe mode", app.name));
                    }
                    if let Some(why) = programs.why_demoted(&app.name) {
                        return Err(format!("the kernel hosts {}, which {why}", app.name));
                    }
                }
                let band = app.policy.band;
                let overlaps = |other: &Band| {
                    band != Band::NONE
                        && *other != Band::NONE
                        && band.lowest <= other.highest
                        && other.lowest <= band.highest
                };
                // While a reload moves bands, apps that leave still have their earlier ones.
                let is_settled = was_idle && programs.apps().all(|app| app.role() == Role::Current);
                let other = bands.iter().find(|(other, _)| overlaps(other));
                if let Some((_, other)) = other.filter(|_| is_settled) {
                    return Err(format!("{} and {other} share priorities", app.name));
                }
                bands.push((band, &app.name));
            }
            let left_out = programs.apps().find(|app| {
                app.is_guard() && app.role().serves() && !apps.iter().any(|it| it.app == app.id)
            });
            if let Some(guard) = left_out {
                return Err(format!("a new kernel does not know the guard {}", guard.name));
            }
        }
        _ => {}
    }
    Ok(())
}
