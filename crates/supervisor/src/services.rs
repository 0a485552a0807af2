//! The services that run: the log service, and the services of apps.

mod service;

use std::time::{Duration, Instant};

use config::Supervision;
use control::operator::{ProgramState, ProgramUsage, ServiceStatus};
use control::service::{ClientRights, LogRight, ServiceClient, ServiceKind, ServiceRequest};
use sdk::services::Service as Named;
use tracing::error;

pub use self::service::{Service, ServiceParts};
use crate::app::{App, Role};
use crate::effects::{Effect, Effects, ProcessEvent, ProgramId, Reply};
use crate::incidents::Incidents;
use crate::program::{News, Program};
use crate::service_failures::ServiceFailures;
use crate::system::{Sockets, System};
use crate::usage::meter::Meter;
use crate::usage::report;

/// How long before the end of a stop the log service is stopped at the latest.
const LOG_STOP_TIME: Duration = Duration::from_millis(600);

/// Which service of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceSlot(usize);

/// The services that run: the log service, and those that an app names.
#[derive(Debug)]
pub struct Services {
    running: Vec<Service>,
    rules: Supervision,
    effects: Effects,
    incidents: Incidents,
    failures: ServiceFailures,
}

/// The effect of a service's event on other programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceEvent {
    /// The event concerned the service only.
    Handled,
    /// The service became ready for apps.
    Ready,
    /// These services failed within the configured time: Rosemary must restart.
    Failed(Vec<ServiceKind>),
}

impl Services {
    /// Describes services without starting them.
    pub fn new(
        services: Vec<ServiceParts>,
        rules: &Supervision,
        (effects, incidents): (Effects, Incidents),
    ) -> Self {
        let outbox = || (effects.clone(), incidents.clone());
        let services = services.into_iter().map(|parts| Service::new(parts, rules, outbox()));
        Self {
            running: services.collect(),
            rules: *rules,
            failures: ServiceFailures::new(rules.failed_services, rules.failed_services_window),
            effects,
            incidents,
        }
    }

    /// When failures of several services last caused a restart of all programs.
    pub fn all_restarted(&self) -> Option<Instant> {
        self.failures.restarted()
    }

    /// Adds and starts those of these services that do not run yet.
    pub fn add(&mut self, services: Vec<ServiceParts>, now: Instant) {
        for parts in services {
            if !self.running.iter().any(|it| it.kind == parts.kind) {
                let outbox = (self.effects.clone(), self.incidents.clone());
                let mut service = Service::new(parts, &self.rules, outbox);
                service.program.request_start(now);
                self.running.push(service);
            }
        }
    }

    /// Whether this one is among them.
    pub(crate) fn has(&self, kind: ServiceKind) -> bool {
        self.running.iter().any(|service| service.kind == kind)
    }

    /// Sends the service of databases the names of the apps that use it, if they have changed.
    pub(crate) fn announce(&mut self, apps: &[App]) {
        let Some(service) = self.running.iter_mut().find(|it| it.kind == ServiceKind::Ovsdb) else {
            return;
        };
        let uses = |app: &&App| app.uses(Named::Ovsdb) && app.keeps_rows();
        let mut names: Vec<String> = apps.iter().filter(uses).map(|it| it.name.clone()).collect();
        names.sort();
        names.dedup();
        service.announce(&names);
    }

    /// The numbers of their programs.
    pub fn ids(&self) -> impl Iterator<Item = ProgramId> {
        self.running.iter().map(|service| service.program.id())
    }

    /// All services.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Service> {
        self.running.iter_mut()
    }

    /// When [`advance`](Self::advance) is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.running.iter().filter_map(|service| service.program.next_due()).min()
    }

    /// Does what is due: starts services.
    pub fn advance(&mut self, system: &dyn System, now: Instant) {
        for service in &mut self.running {
            if service.program.advance(system, now) {
                service.start(system, now);
            }
        }
    }

    /// The service whose program this is.
    pub fn slot_of(&self, program: ProgramId) -> Option<ServiceSlot> {
        self.running.iter().position(|it| it.program.id() == program).map(ServiceSlot)
    }

    /// Handles what happened to the process of a service.
    pub fn handle(
        &mut self,
        slot: ServiceSlot,
        event: ProcessEvent,
        system: &dyn System,
        now: Instant,
    ) -> ServiceEvent {
        let Some(service) = self.running.get_mut(slot.0) else { return ServiceEvent::Handled };
        let kind = service.kind;
        if let ProcessEvent::LogSilent(time) = event {
            self.log_is_silent(slot, time);
            return ServiceEvent::Handled;
        }
        match service.program.take(event, now) {
            None | Some(News::Started | News::NotStarted) => {}
            Some(News::Received(reply, fds)) => {
                let Reply::Service(reply) = *reply else { return ServiceEvent::Handled };
                if service.received(reply, fds, now) {
                    if kind != ServiceKind::Log {
                        return ServiceEvent::Ready;
                    }
                    self.forward_log(system);
                }
            }
            Some(News::Ended(exit, _)) => {
                service.ended(now);
                if kind == ServiceKind::Log {
                    self.effects.add(service.program.id(), Effect::EndLog);
                }
                if exit.by_itself
                    && kind.counts_as_failed()
                    && let Some(failed) = self.failures.failed(kind, now)
                {
                    return ServiceEvent::Failed(failed);
                }
            }
        }
        ServiceEvent::Handled
    }

    /// Connects `app`, in its zone or in `kernel`, with each service that it names, if both are ready.
    pub fn connect_app(&mut self, app: &mut App, kernel: &Program, system: &dyn System) {
        self.running.iter_mut().for_each(|service| connect(app, service, kernel, system));
    }

    /// Connects each of `apps` with one service.
    pub fn connect_service(
        &mut self,
        slot: ServiceSlot,
        apps: &mut [App],
        kernel: &Program,
        system: &dyn System,
    ) {
        if let Some(service) = self.running.get_mut(slot.0) {
            for app in apps {
                connect(app, service, kernel, system);
            }
        }
    }

    /// The log service, and the message with which it gets the other end of a connection of an operator, whose user is `uid`.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase.
    pub fn log_for_operator(&self, uid: u32) -> Result<(ProgramId, ServiceRequest), String> {
        let log = self.running.iter().find(|service| service.kind == ServiceKind::Log);
        let log = log.ok_or("there is no log service")?;
        log.must_be_ready()?;
        let client = log_client(format!("operator {uid}"), LogRight::Read);
        Ok((log.program.id(), ServiceRequest::Client(client)))
    }

    /// The history service, and the message with which it gets the other end of a connection of an operator, whose user is `uid`.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase that says what to do.
    pub fn history_for_operator(&self, uid: u32) -> Result<(ProgramId, ServiceRequest), String> {
        let history = self.running.iter().find(|service| service.kind == ServiceKind::History);
        let history = history.ok_or(
            "no history is kept; write `[history]` into the configuration and restart Rosemary",
        )?;
        history.must_be_ready()?;
        let rights = ClientRights { history: true, ..ClientRights::default() };
        let client = ServiceClient { app: 0, name: format!("operator {uid}"), rights };
        Ok((history.program.id(), ServiceRequest::Client(client)))
    }

    /// Whether this is the program of the history service.
    pub fn is_history(&self, program: ProgramId) -> bool {
        let mut history = self.running.iter().filter(|it| it.kind == ServiceKind::History);
        history.any(|service| service.program.id() == program)
    }

    /// Asks all services but the log service to end.
    pub fn stop_all_but_log(&mut self, now: Instant) {
        // The log service runs until the others' last lines are stored: see `stop_log`.
        let others = self.running.iter_mut().filter(|service| service.kind != ServiceKind::Log);
        others.for_each(|service| service.stop(now));
    }

    /// Returns whether all services but the log service have stopped.
    pub fn all_but_log_stopped(&self) -> bool {
        let mut others = self.running.iter().filter(|service| service.kind != ServiceKind::Log);
        others.all(|service| service.program.is_stopped())
    }

    /// Returns whether all services have stopped.
    pub fn all_stopped(&self) -> bool {
        self.running.iter().all(|service| service.program.is_stopped())
    }

    /// Stops the log service after all other programs have stopped (`others_stopped`) and their lines are stored, or
    /// shortly before the `deadline` of the stop.
    pub fn stop_log(
        &mut self,
        others_stopped: bool,
        deadline: Instant,
        system: &dyn System,
        now: Instant,
    ) {
        let effects = self.effects.clone();
        let Some(log) = self.log() else { return };
        if others_stopped {
            effects.add(log.program.id(), Effect::FlushLog);
        }
        let is_late = deadline <= now + LOG_STOP_TIME;
        let must_stop = is_late || others_stopped && system.is_log_stored();
        if log.program.is_stopped() {
            return;
        }
        if log.program.lifecycle().state() != ProgramState::Stopping {
            if must_stop {
                log.stop(now);
            }
        } else if deadline <= now + LOG_STOP_TIME / 2 {
            // The lifecycle would kill it only after the deadline.
            log.program.kill("it did not end in time");
        }
    }

    /// When [`stop_log`](Self::stop_log) acts because of the time.
    pub fn log_stop_due(deadline: Instant, now: Instant) -> impl Iterator<Item = Instant> {
        let before = [LOG_STOP_TIME, LOG_STOP_TIME / 2];
        before
            .into_iter()
            .filter_map(move |time| deadline.checked_sub(time))
            .filter(move |at| now < *at)
    }

    /// Measures all services.
    pub fn measure(&mut self, system: &dyn System, now: Instant) {
        self.running.iter_mut().for_each(|service| service.measure(system, now));
    }

    /// The services' status for operators.
    pub fn status(&self) -> Vec<ServiceStatus> {
        self.running.iter().map(Service::status).collect()
    }

    /// Data of services that the disk does not take, with the reasons, as phrases.
    pub fn not_stored(&self) -> impl Iterator<Item = String> {
        self.running.iter().filter_map(Service::not_stored)
    }

    /// The services with their kinds and measurements.
    pub fn meters(&self) -> impl Iterator<Item = (&Program, ServiceKind, &Meter)> {
        self.running.iter().map(|it| (&it.program, it.kind, &it.meter))
    }

    /// The services' usage for operators.
    pub fn usage(&self) -> impl Iterator<Item = ProgramUsage> {
        self.running.iter().map(|service| {
            let lifecycle = service.program.lifecycle();
            let name = service.kind.name();
            let usage = report::program_usage(name, "service", lifecycle.state(), &service.meter);
            ProgramUsage { pid: service.program.pid(), restarts: lifecycle.restarts(), ..usage }
        })
    }

    fn log(&mut self) -> Option<&mut Service> {
        self.running.iter_mut().find(|service| service.kind == ServiceKind::Log)
    }

    /// Kills a log service that has not answered the monitor in time.
    fn log_is_silent(&mut self, slot: ServiceSlot, time: Duration) {
        let Some(log) = self.running.get_mut(slot.0) else { return };
        // A log service that receives no processor time cannot answer. It is not hung.
        if log.owes_answer() {
            return self.effects.add(log.program.id(), Effect::WaitForLog);
        }
        self.effects.add(log.program.id(), Effect::EndLog);
        let why = format!("it did not answer in {} s", time.as_secs());
        log.program.kill_for_own_failure(&why);
    }

    /// Has the lines of all logs sent to a log service that became ready.
    fn forward_log(&mut self, system: &dyn System) {
        let effects = self.effects.clone();
        let Some(log) = self.log() else { return };
        match system.sockets(Sockets::Plain) {
            Ok([ours, theirs]) => {
                log.admit(log_client("monitor".into(), LogRight::Write), theirs);
                effects.add(log.program.id(), Effect::ForwardLog(ours));
            }
            Err(why) => log.program.kill(&format!("it could not be connected: {why}")),
        }
    }
}

/// Connects each instance of an app and a service, if the app names the service and both are ready.
fn connect(app: &mut App, service: &mut Service, kernel: &Program, system: &dyn System) {
    let Some(kind) = service.kind.for_apps() else { return };
    let serves = app.role() == Role::Current;
    if !serves || !app.uses(kind) || app.instances() == 0 || !service.is_ready() {
        return;
    }
    // The broker alone passes descriptors, to the app.
    let sockets = match kind {
        Named::Broker => Sockets::PassingToFirst,
        _ => Sockets::Plain,
    };
    let (app_name, service_name) = (app.name.as_str(), service.kind.name());
    let pairs: Result<Vec<_>, String> =
        (0..app.instances()).map(|_instance| system.sockets(sockets)).collect();
    match pairs {
        Ok(pairs) => {
            let mut app_ends = Vec::new();
            for [app_end, service_end] in pairs {
                service.admit(app.client(), service_end);
                app_ends.push(app_end);
            }
            app.connect_service(kind, (app_ends, None), kernel);
        }
        Err(error) => {
            let hint = "restart the app once fewer descriptors are open";
            error!(
                app = app_name,
                service = service_name,
                error,
                hint,
                "could not connect an app to a service"
            );
        }
    }
}

/// A client of the log service with this right.
fn log_client(name: String, right: LogRight) -> ServiceClient {
    ServiceClient {
        app: 0,
        name,
        rights: ClientRights { log: Some(right), ..ClientRights::default() },
    }
}
