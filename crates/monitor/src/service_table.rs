//! The services that run, and the monitor's own connection to the log service.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::service::{ClientRights, LogRight, ServiceClient, ServiceKind, ServiceQuotas};
use sys::channel::ChannelError;
use sys::packets::Packets;
use tracing::{error, warn};

use crate::choice;
use crate::error::StartError;
use crate::log_forwarder::{InvalidReply, LogForwarder, REPLY_TIMEOUT};
use crate::process_table::Environment;
use crate::processes::Processes;
use crate::service::Service;
use config::Supervision;
use control::operator::{ProgramUsage, ServiceStatus};
use supervisor::app::App;
use supervisor::effects::{ProcessEvent, ProgramId, Reply};
use supervisor::program::{News, Program};
use supervisor::service_failures::ServiceFailures;
use supervisor::system::System;
use supervisor::usage::report;

/// How long before the end of a stop the log service is stopped at the latest.
const LOG_STOP_TIME: Duration = Duration::from_millis(600);

/// Settings of all services.
#[derive(Debug)]
pub(crate) struct ServiceSettings {
    /// The directory of their state files.
    pub(crate) state_dir: PathBuf,
    /// How much state they keep.
    pub(crate) quotas: ServiceQuotas,
    /// When they are restarted and held.
    pub(crate) rules: Supervision,
}

/// Which service of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServiceSlot(usize);

/// The services that run: the log service, and those that an app names.
#[derive(Debug)]
pub(crate) struct ServiceTable {
    services: Vec<Service>,
    log_forwarder: LogForwarder,
    failures: ServiceFailures,
}

/// The effect of a service's event on other processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceEvent {
    /// The event concerned the service only.
    Handled,
    /// The service became ready for apps.
    Ready,
    /// These services failed within the configured time: Rosemary must restart.
    Failed(Vec<ServiceKind>),
}

impl ServiceTable {
    /// Describes the services that `apps` need, without starting them.
    ///
    /// # Errors
    /// The program of a service is missing.
    pub(crate) fn for_apps<'a>(
        apps: impl Iterator<Item = &'a choice::App>,
        settings: &ServiceSettings,
        around: &Environment,
    ) -> Result<Self, StartError> {
        let named: Vec<_> = apps.flat_map(|app| app.spec.keys.services.iter().copied()).collect();
        let needed = ServiceKind::ALL.into_iter();
        let needed =
            needed.filter(|kind| kind.for_apps().is_none_or(|service| named.contains(&service)));
        let services: Result<Vec<Service>, StartError> =
            needed.map(|kind| Service::new(kind, settings, around)).collect();
        let rules = &settings.rules;
        Ok(Self {
            services: services?,
            log_forwarder: LogForwarder::new(Instant::now()),
            failures: ServiceFailures::new(rules.failed_services, rules.failed_services_window),
        })
    }

    /// Adds and starts the services that `apps` need and that do not run yet.
    ///
    /// # Errors
    /// The program of a service is missing.
    pub(crate) fn add_for_apps<'a>(
        &mut self,
        apps: impl Iterator<Item = &'a choice::App>,
        (settings, around): (&ServiceSettings, &Environment),
        now: Instant,
    ) -> Result<(), StartError> {
        let services = apps.flat_map(|app| app.spec.keys.services.iter().copied());
        for kind in services.filter_map(ServiceKind::of) {
            if !self.services.iter().any(|it| it.kind == kind) {
                let mut service = Service::new(kind, settings, around)?;
                service.program.request_start(now);
                self.services.push(service);
            }
        }
        Ok(())
    }

    /// All services.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Service> {
        self.services.iter_mut()
    }

    /// Readable when the log service has answered the monitor.
    pub(crate) fn log_replies(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.log_forwarder.fd()
    }

    /// When [`advance`](Self::advance) is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let programs = self.services.iter().filter_map(|service| service.program.next_due());
        programs.chain(self.log_forwarder.next_due()).min()
    }

    /// Does what is due: starts services and forwards log lines.
    pub(crate) fn advance(&mut self, system: &dyn System, now: Instant) {
        for service in &mut self.services {
            if service.program.advance(system, now) {
                service.start(now);
            }
        }
        self.kill_overdue_log(now);
        self.log_forwarder.warn_of_lost_lines(now);
        self.log_forwarder.forward(now);
    }

    /// The service whose program this is.
    pub(crate) fn slot_of(&self, program: ProgramId) -> Option<ServiceSlot> {
        self.services.iter().position(|it| it.program.id() == program).map(ServiceSlot)
    }

    /// Handles what happened to the process of a service.
    pub(crate) fn handle(
        &mut self,
        slot: ServiceSlot,
        event: ProcessEvent,
        now: Instant,
    ) -> ServiceEvent {
        let Some(service) = self.services.get_mut(slot.0) else { return ServiceEvent::Handled };
        let kind = service.kind;
        match service.program.take(event, now) {
            None | Some(News::Started | News::NotStarted) => {}
            Some(News::Received(reply, fds)) => {
                let Reply::Service(reply) = *reply else { return ServiceEvent::Handled };
                if service.received(reply, fds, now) {
                    if kind != ServiceKind::Log {
                        return ServiceEvent::Ready;
                    }
                    self.connect_log_forwarder(now);
                }
            }
            Some(News::Ended(exit, _)) => {
                service.ended(now);
                if kind == ServiceKind::Log {
                    self.log_forwarder.disconnect();
                }
                if exit.by_itself
                    && let Some(failed) = self.failures.failed(kind, now)
                {
                    return ServiceEvent::Failed(failed);
                }
            }
        }
        ServiceEvent::Handled
    }

    /// Connects `app`, in its zone or in `kernel`, with each service that it names, if both are ready.
    pub(crate) fn connect_app(&mut self, app: &mut App, kernel: &Program) {
        self.services.iter_mut().for_each(|service| connect(app, service, kernel));
    }

    /// Connects each of `apps` with one service.
    pub(crate) fn connect_service(
        &mut self,
        slot: ServiceSlot,
        apps: &mut [App],
        kernel: &Program,
    ) {
        if let Some(service) = self.services.get_mut(slot.0) {
            for app in apps {
                connect(app, service, kernel);
            }
        }
    }

    /// Connects an operator, whose user is `uid`, to the log service for reading. Returns the operator's end.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase.
    pub(crate) fn connect_operator_to_log(
        &mut self,
        uid: u32,
        processes: &Processes,
    ) -> Result<OwnedFd, String> {
        let log = self.log().ok_or("there is no log service")?;
        log.must_be_ready()?;
        let (ours, theirs) = Packets::pair().map_err(|error| error.to_string())?;
        let client = log_client(format!("operator {uid}"), LogRight::Read);
        match log.admit_operator(client, &theirs.into_fd(), processes) {
            Ok(()) => Ok(ours.into_fd()),
            Err(ChannelError::WouldBlock) => Err("too many operators connect to the log".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Handles the log service's answer to the monitor.
    pub(crate) fn receive_log_reply(&mut self, now: Instant) {
        if self.log_forwarder.receive(now) == Err(InvalidReply) {
            self.kill_log("it sent the monitor an invalid reply");
            self.log_forwarder.disconnect();
        }
    }

    /// Asks all services but the log service to end.
    pub(crate) fn stop_all_but_log(&mut self, now: Instant) {
        // The log service runs until the others' last lines are stored: see `stop_log`.
        let others = self.services.iter_mut().filter(|service| service.kind != ServiceKind::Log);
        others.for_each(|service| service.stop(now));
    }

    /// Returns whether all services but the log service have stopped.
    pub(crate) fn all_but_log_stopped(&self) -> bool {
        let mut others = self.services.iter().filter(|service| service.kind != ServiceKind::Log);
        others.all(|service| service.program.is_stopped())
    }

    /// Returns whether all services have stopped.
    pub(crate) fn all_stopped(&self) -> bool {
        self.services.iter().all(|service| service.program.is_stopped())
    }

    /// Stops the log service after all other programs have stopped (`others_stopped`) and their lines are stored, or
    /// shortly before the `deadline` of the stop.
    pub(crate) fn stop_log(&mut self, others_stopped: bool, deadline: Instant, now: Instant) {
        if others_stopped {
            self.log_forwarder.flush(now);
        }
        let is_late = deadline <= now + LOG_STOP_TIME;
        let must_stop = is_late || others_stopped && self.log_forwarder.is_done();
        let Some(log) = self.log() else { return };
        if log.program.is_stopped() {
            return;
        }
        if log.program.lifecycle().state() != control::operator::ProgramState::Stopping {
            if must_stop {
                log.stop(now);
            }
        } else if deadline <= now + LOG_STOP_TIME / 2 {
            // The lifecycle would kill it only after the deadline.
            log.program.kill("it did not end in time");
        }
    }

    /// When [`stop_log`](Self::stop_log) acts because of the time.
    pub(crate) fn log_stop_due(deadline: Instant, now: Instant) -> impl Iterator<Item = Instant> {
        let before = [LOG_STOP_TIME, LOG_STOP_TIME / 2];
        before
            .into_iter()
            .filter_map(move |time| deadline.checked_sub(time))
            .filter(move |at| now < *at)
    }

    /// Measures all services.
    pub(crate) fn measure(&mut self, system: &dyn System, now: Instant) {
        self.services.iter_mut().for_each(|service| service.measure(system, now));
    }

    /// The services' status for operators.
    pub(crate) fn status(&self) -> Vec<ServiceStatus> {
        self.services.iter().map(Service::status).collect()
    }

    /// Data of services that the disk does not take, with the reasons, as phrases.
    pub(crate) fn not_stored(&self) -> impl Iterator<Item = String> {
        self.services.iter().filter_map(Service::not_stored)
    }

    /// The services' usage for operators.
    pub(crate) fn usage(&self) -> impl Iterator<Item = ProgramUsage> {
        self.services.iter().map(|service| {
            let lifecycle = service.program.lifecycle();
            let name = service.kind.name();
            let usage = report::program_usage(name, "service", lifecycle.state(), &service.meter);
            ProgramUsage { pid: service.program.pid(), restarts: lifecycle.restarts(), ..usage }
        })
    }

    fn log(&mut self) -> Option<&mut Service> {
        self.services.iter_mut().find(|service| service.kind == ServiceKind::Log)
    }

    /// Kills a log service that has not answered in time.
    fn kill_overdue_log(&mut self, now: Instant) {
        if self.log_forwarder.is_overdue(now) {
            // If the monitor itself was delayed, the answer has arrived meanwhile.
            self.receive_log_reply(now);
        }
        if self.log_forwarder.is_overdue(now) {
            // A log service that receives no processor time cannot answer. It is not hung.
            if self.log().is_some_and(|log| log.owes_answer()) {
                return self.log_forwarder.extend_timeout(now);
            }
            self.log_forwarder.disconnect();
            if let Some(log) = self.log() {
                let why = format!("it did not answer in {} s", REPLY_TIMEOUT.as_secs());
                log.program.kill_for_own_failure(&why);
            }
        }
    }

    fn kill_log(&mut self, why: &str) {
        if let Some(log) = self.log() {
            log.program.kill(why);
        }
    }

    /// Connects the log forwarder to a log service that became ready.
    fn connect_log_forwarder(&mut self, now: Instant) {
        match self.connect_to_log() {
            Ok(socket) => self.log_forwarder.connect(socket, now),
            Err(why) => self.kill_log(&format!("it could not be connected: {why}")),
        }
    }

    /// The monitor's end of a new connection to the log service, for writing.
    fn connect_to_log(&mut self) -> Result<Packets, String> {
        let log = self.log().ok_or("there is no log service")?;
        log.must_be_ready()?;
        let (ours, theirs) = Packets::pair().map_err(|error| error.to_string())?;
        log.admit(log_client("monitor".into(), LogRight::Write), theirs.into_fd().into());
        Ok(ours)
    }
}

/// Connects each instance of an app and a service, if the app names the service and both are ready.
fn connect(app: &mut App, service: &mut Service, kernel: &Program) {
    let Some(kind) = service.kind.for_apps() else { return };
    let serves = app.role() == supervisor::app::Role::Current;
    if !serves || !app.uses(kind) || app.instances() == 0 || !service.is_ready() {
        return;
    }
    let (app_name, service_name) = (app.name.as_str(), service.kind.name());
    let pairs: std::io::Result<Vec<_>> =
        (0..app.instances()).map(|_instance| pair_for(kind)).collect();
    match pairs {
        Ok(pairs) => {
            let mut app_ends = Vec::new();
            for (app_end, service_end) in pairs {
                if kind == sdk::services::Service::Broker
                    && let Err(error) = service_end.send_little_ahead()
                {
                    warn!(app = app_name, %error, "could not bound the data that waits for the app");
                }
                service.admit(app.client(), service_end.into_fd().into());
                app_ends.push(app_end.into_fd().into());
            }
            app.connect_service(kind, (app_ends, None), kernel);
        }
        Err(error) => {
            let hint = "restart the app once fewer descriptors are open";
            error!(app = app_name, service = service_name, %error, hint, "could not connect an app to a service");
        }
    }
}

/// Makes the sockets of an app and a service. The broker alone passes descriptors, to the app.
fn pair_for(service: sdk::services::Service) -> std::io::Result<(Packets, Packets)> {
    match service {
        sdk::services::Service::Broker => Packets::passing_pair(),
        _ => Packets::pair(),
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
