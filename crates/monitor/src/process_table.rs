//! The programs that the monitor runs, and what an event of one means for the others.
//!
//! ```text
//! kernel Ready ----> start the zones; Attach for each that is loaded
//! zone Loaded -----> Attach to the kernel, Attached from it, Rings to the zone
//! zone ends -------> Detach to the kernel; start the zone again (lifecycle.rs)
//! kernel Demoted --> the app that the kernel hosted gets a zone (app/hosting.rs)
//! kernel ends -----> start it again, without the app in which it ended; zones keep running and
//!                    get new rings after its next Ready
//! ```
//!
//! Here are the table, its poll sources and the zones' messages; `kernel_messages.rs` has the kernel's, `stopping.rs` the end of all
//! programs, `status.rs` the reports to operators.

mod app_limits;
mod comeback;
mod failed_messages;
mod health;
mod kernel_messages;
mod missing_flows;
mod other_controllers;
mod providers;
mod refused_switches;
mod replacing;
mod routes;
mod safety;
mod status;
mod stopping;
mod verbs;

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use control::app::AppId;
use control::kernel::KernelRequest;
use tracing::warn;

use self::app_limits::AppLimits;
use self::comeback::KernelApps;
use self::failed_messages::FailedMessages;
use self::other_controllers::OtherControllers;
use self::refused_switches::RefusedSwitches;
use self::replacing::KernelSwap;
use self::safety::SafeMode;
use crate::apps_service::ClientId;
use crate::choice;
use crate::demotions::Demotions;
use crate::error::StartError;
use crate::installation::Installation;
use crate::kernel_process::KernelProcess;
use crate::kernel_settings::KernelSettings;
use crate::launch;
use crate::northbound::Northbound;
use crate::processes::Processes;
use crate::service_table::{ServiceEvent, ServiceSettings, ServiceSlot, ServiceTable};
use crate::usage::Enforcement;
use crate::users::Users;
use config::Require;
use supervisor::app::{App, Role, ZoneEvent};
use supervisor::effects::{Effects, ProcessEvent, ProgramId, Reply};
use supervisor::incidents::Incidents;
use supervisor::program::News;
use supervisor::system::System;

/// With what programs run on this machine.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) installation: Installation,
    pub(crate) users: Users,
    /// How complete the sandbox must be; `None` to run without a sandbox.
    pub(crate) require: Option<Require>,
    pub(crate) enforcement: Arc<Enforcement>,
    /// Collects the effects for processes.
    pub(crate) effects: Effects,
    pub(crate) incidents: Incidents,
}

/// Which app of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppSlot(usize);

/// A descriptor of the table that the event loop polls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// The kernel's replies with its counters.
    KernelCounters,
    /// The log service's replies.
    LogReplies,
    /// Requests of the HTTP interface.
    Northbound,
    /// A client of the service `apps`.
    AppsClient(ClientId),
    /// The kernel's replies with counters for these clients.
    CountersForApps,
}

/// The kernel, the apps and the services.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    kernel: KernelProcess,
    apps: Vec<App>,
    services: ServiceTable,
    /// The HTTP interface, if it is to run.
    northbound: Option<Northbound>,
    /// The apps that must not run in the kernel.
    demotions: Demotions,
    incidents: Incidents,
    /// Changes of apps in the kernel, which wait for its end.
    swaps: Vec<KernelSwap>,
    safe_mode: SafeMode,
    kernel_apps: KernelApps,
    limits: AppLimits,
    refused_switches: RefusedSwitches,
    other_controllers: OtherControllers,
    failed_messages: FailedMessages,
    /// Whether the programs were asked to stop.
    is_stopping: bool,
}

impl ProcessTable {
    /// The files of the apps that an operator may change: their objects, except those of packages, and their configurations.
    pub(crate) fn app_files(&self) -> impl Iterator<Item = &Path> {
        self.apps.iter().flat_map(App::own_files)
    }

    /// Describes all programs without starting them.
    ///
    /// # Errors
    /// The program of a service is missing.
    pub(crate) fn new(
        apps: Vec<(AppId, choice::App)>,
        kernel: KernelSettings,
        services: &ServiceSettings,
        around: &Environment,
        demotions: Demotions,
    ) -> Result<Self, StartError> {
        let kernel = KernelProcess::new(kernel, &services.rules, around);
        let services = ServiceTable::for_apps(apps.iter().map(|(_, app)| app), services, around)?;
        let app = |(id, app): (AppId, choice::App)| {
            let demoted = demotions.why(app.name());
            launch::app(id, app, around, demoted)
        };
        Ok(Self {
            kernel,
            apps: apps.into_iter().map(app).collect(),
            services,
            northbound: None,
            demotions,
            incidents: around.incidents.clone(),
            swaps: Vec::new(),
            safe_mode: SafeMode::default(),
            kernel_apps: KernelApps::default(),
            limits: AppLimits::default(),
            refused_switches: RefusedSwitches::default(),
            other_controllers: OtherControllers::default(),
            failed_messages: FailedMessages::default(),
            is_stopping: false,
        })
    }

    /// Adds the HTTP interface, if there is one, which starts with the other programs.
    pub(crate) fn set_northbound(&mut self, northbound: Option<Northbound>) {
        self.northbound = northbound;
    }

    /// The HTTP interface, for its requests.
    pub(crate) fn northbound_mut(&mut self) -> Option<&mut Northbound> {
        self.northbound.as_mut()
    }

    /// Warns of apps that run with the kernel's rights.
    pub(crate) fn warn_of_apps_in_kernel(&self) {
        for App { name, .. } in self.apps.iter().filter(|app| app.is_in_kernel()) {
            warn!(app = name, "the kernel hosts this app: the app can do all that the kernel can");
        }
    }

    /// Schedules the start of the kernel and the services. Zones follow when the kernel is ready.
    pub(crate) fn request_start(&mut self, now: Instant) {
        self.kernel.program.request_start(now);
        self.services.iter_mut().for_each(|service| service.program.request_start(now));
        self.northbound.iter_mut().for_each(|it| it.request_start(now));
    }

    /// The descriptors to poll, apart from those of processes.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (Source, BorrowedFd<'_>)> {
        let counters = self.kernel.counters.fd().map(|fd| (Source::KernelCounters, fd));
        let log = self.services.log_replies().map(|fd| (Source::LogReplies, fd));
        let northbound = self.northbound.as_ref().and_then(Northbound::requests);
        let northbound = northbound.map(|fd| (Source::Northbound, fd));
        let service = &self.limits.service;
        let clients = service.client_fds().map(|(client, fd)| (Source::AppsClient(client), fd));
        let for_apps = service.kernel_fd().map(|fd| (Source::CountersForApps, fd));
        counters.into_iter().chain(log).chain(clients).chain(for_apps).chain(northbound)
    }

    /// When [`advance`](Self::advance) is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let kernel = self.kernel.program.next_due().into_iter().chain(self.kernel.hang_check_due());
        let kernel = kernel.chain(self.kernel.backtrace_due());
        let apps = self.apps.iter().filter_map(App::next_due);
        let kernel = kernel.chain(self.limits.next_due());
        let northbound = self.northbound.as_ref().and_then(Northbound::next_due);
        let others = self.services.next_due().into_iter().chain(northbound);
        let others = others.chain(self.kernel_apps.next_due());
        kernel.chain(apps).chain(others).chain(self.safe_mode.next_due()).min()
    }

    /// Does what is due: starts and kills programs, retries connections, checks for hangs, forwards log lines.
    pub(crate) fn advance(&mut self, processes: &Processes, now: Instant) {
        self.advance_changes(processes, now);
        if self.kernel.program.advance(processes, now) {
            self.kernel.start(&mut self.apps, now);
        }
        for slot in self.app_slots() {
            let Some(app) = self.app_mut(slot) else { continue };
            app.advance(processes, now);
            if app.zone_mut().is_some_and(|zone| zone.must_retry(now)) {
                self.attach(slot);
            }
        }
        self.kernel.check_hang(&self.apps, processes, now);
        self.kernel.advance_backtrace(now);
        self.services.advance(processes, now);
        self.northbound.iter_mut().for_each(|it| it.advance(processes, now));
        self.advance_limits(processes, now);
        self.advance_safe_mode(now);
        self.advance_comeback(now);
    }

    /// Handles a descriptor of [`sources`](Self::sources) that became readable.
    pub(crate) fn handle(&mut self, source: Source, processes: &Processes, now: Instant) {
        match source {
            Source::KernelCounters => {
                if self.kernel.counters.receive() {
                    for app in self.apps.iter_mut().filter(|app| app.role().serves()) {
                        if let Some(counters) = self.kernel.counters.of(&app.name) {
                            app.counted(counters, processes, now);
                        }
                    }
                }
            }
            Source::LogReplies => self.services.receive_log_reply(now),
            // The event loop receives and answers requests.
            Source::Northbound => {}
            Source::AppsClient(client) => self.serve_apps_client(client, processes, now),
            Source::CountersForApps => self.counters_for_clients(processes, now),
        }
    }

    /// Handles what happened to the process of a program. The program may be gone.
    pub(crate) fn process_event(
        &mut self,
        program: ProgramId,
        event: ProcessEvent,
        system: &dyn System,
        now: Instant,
    ) {
        if self.kernel.program.id() == program {
            self.kernel_event(event, system, now);
        } else if let Some(slot) = self.slot_of(program) {
            self.zone_event(slot, event, system, now);
        } else if let Some(slot) = self.services.slot_of(program) {
            self.service_event(slot, event, now);
        } else if let Some(northbound) = self.northbound.as_mut().filter(|it| it.id() == program)
            && northbound.handle(event, now)
        {
            self.app_slots().for_each(|slot| self.connect_routes(slot));
        }
    }

    fn slot_of(&self, program: ProgramId) -> Option<AppSlot> {
        let is_it = |app: &App| app.program().is_some_and(|it| it.id() == program);
        self.apps.iter().position(is_it).map(AppSlot)
    }

    fn service_event(&mut self, slot: ServiceSlot, event: ProcessEvent, now: Instant) {
        match self.services.handle(slot, event, now) {
            ServiceEvent::Ready => {
                self.services.connect_service(slot, &mut self.apps, &self.kernel.program);
            }
            ServiceEvent::Failed(failed) if !self.is_stopping => {
                let names: Vec<&str> = failed.iter().map(|kind| kind.name()).collect();
                let why = format!("several services failed: {}", names.join(", "));
                self.restart_all(&why, now);
            }
            ServiceEvent::Handled | ServiceEvent::Failed(_) => {}
        }
    }

    fn kernel_event(&mut self, event: ProcessEvent, system: &dyn System, now: Instant) {
        match self.kernel.program.take(event, now) {
            None | Some(News::Started) => {}
            Some(News::NotStarted) => {
                self.kernel.not_started();
                self.apps.iter_mut().for_each(App::kernel_not_started);
            }
            Some(News::Received(reply, fds)) => {
                let Reply::Kernel(reply) = *reply else { return };
                if let Err(why) = self.handle_kernel_reply(reply, fds, system, now) {
                    self.kernel.program.kill(why);
                }
            }
            Some(News::Ended(exit, record)) => self.kernel_ended(&exit, record, now),
        }
    }

    fn zone_event(
        &mut self,
        slot: AppSlot,
        event: ProcessEvent,
        system: &dyn System,
        now: Instant,
    ) {
        let Some(app) = self.app_mut(slot) else { return };
        match app.zone_event(event, system, now) {
            ZoneEvent::Handled => {}
            // A candidate is connected when it takes over.
            ZoneEvent::Loaded if app.role() != Role::Current => {}
            ZoneEvent::Loaded => self.zone_loaded(slot, system, now),
            ZoneEvent::Ended => {
                let detach = KernelRequest::Detach { app: app.id };
                self.kernel.program.send(detach, Vec::new());
            }
        }
    }

    /// Connects an app that its zone has loaded.
    fn zone_loaded(&mut self, slot: AppSlot, system: &dyn System, now: Instant) {
        self.attach(slot);
        if let Some(app) = self.apps.get_mut(slot.0) {
            self.services.connect_app(app, &self.kernel.program);
        }
        self.connect_provided(slot, system);
        self.connect_apps_service(slot, now);
        self.connect_routes(slot);
    }

    /// Asks the kernel for rings for a loaded zone, if the kernel is ready.
    fn attach(&mut self, slot: AppSlot) {
        // Otherwise the kernel's Ready or the zone's Loaded leads here again.
        if self.kernel.program.is_running()
            && let Some(request) = self.app_mut(slot).and_then(App::attach_request)
        {
            self.kernel.program.send(request, Vec::new());
        }
    }

    /// The operator allows the app to run in the kernel again. It does so from the next kernel on that is started while
    /// the app is to be hosted there. Returns whether the app was demoted.
    ///
    /// # Errors
    /// The state directory cannot be written. The app then stays demoted.
    pub(crate) fn clear_demotion(&mut self, app: &str) -> std::io::Result<bool> {
        self.demotions.clear(app)
    }

    /// Measures all programs, and acts on limits that apps exceed.
    pub(crate) fn measure(&mut self, processes: &Processes, now: Instant) {
        self.apps.iter_mut().for_each(|app| app.measure(processes, now));
        self.measure_comeback(now);
        self.kernel.measure(&self.apps, processes, now);
        self.services.measure(processes, now);
        self.northbound.iter_mut().for_each(|it| it.measure(processes, now));
    }

    /// The incidents of all programs.
    pub(crate) fn incidents(&self) -> &Incidents {
        &self.incidents
    }

    /// The kernel, for a connection to it.
    pub(crate) fn kernel(&self) -> &KernelProcess {
        &self.kernel
    }

    /// The services, for a connection to one of them.
    pub(crate) fn services_mut(&mut self) -> &mut ServiceTable {
        &mut self.services
    }

    fn app_slots(&self) -> impl Iterator<Item = AppSlot> + use<> {
        (0..self.apps.len()).map(AppSlot)
    }

    fn app_mut(&mut self, slot: AppSlot) -> Option<&mut App> {
        self.apps.get_mut(slot.0)
    }

    fn app_by_id(&mut self, id: AppId) -> Option<&mut App> {
        self.apps.iter_mut().find(|app| app.id == id && app.role().serves())
    }
}
