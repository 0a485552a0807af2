//! The programs that the monitor runs, and what an event of one means for the others.
//!
//! ```text
//! kernel Ready ----> start the zones; Attach for each that is loaded
//! zone Loaded -----> Attach to the kernel, Attached from it, Rings to the zone
//! zone ends -------> Detach to the kernel; start the zone again (lifecycle.rs)
//! kernel Demoted --> the app that the kernel hosted gets a zone (app/host_state.rs)
//! kernel ends -----> start it again, without the app in which it ended; zones keep running and
//!                    get new rings after its next Ready
//! ```
//!
//! Here are the table and the zones' messages; `kernel_messages.rs` has the kernel's, `stopping.rs` the end of all
//! programs, `status.rs` the reports to operators.

mod accounting;
mod app_limits;
mod failed_messages;
mod health;
mod kernel_apps;
mod kernel_messages;
mod missing_flows;
mod other_controllers;
mod providers;
mod refused_switches;
mod replacing;
mod routes;
mod safety;
mod scheduling;
mod status;
mod stopping;
mod verbs;

use std::fmt;
use std::path::Path;
use std::time::Instant;

use config::Supervision;
use control::app::AppId;
use control::kernel::KernelRequest;
use control::query::AppCounters;
use control::service::ServiceKind;
use tracing::{info, warn};

use self::app_limits::AppLimits;
use self::failed_messages::FailedMessages;
use self::kernel_apps::KernelApps;
use self::other_controllers::OtherControllers;
use self::refused_switches::RefusedSwitches;
use self::replacing::KernelSwap;
use self::safety::SafeMode;
use self::scheduling::Scheduling;
use crate::accounts::Accounts;
use crate::app::{App, Role, ZoneEvent};
use crate::effects::{Effects, ProcessEvent, ProgramId, Reply};
use crate::incidents::Incidents;
use crate::interface::{Northbound, NorthboundParts};
use crate::kernel::{Kernel, KernelParts};
use crate::program::{News, Program};
use crate::services::{ServiceEvent, ServiceParts, ServiceSlot, Services};
use crate::sessions::Sessions;
use crate::system::System;

/// The file with the apps that must not run in the kernel.
pub trait Demotions: fmt::Debug {
    /// Why the app of this name must not run in the kernel, if so.
    fn why(&self, app: &str) -> Option<&str>;

    /// Remembers that a kernel ended in `app`. If this cannot be stored, the app stays demoted until Rosemary stops.
    fn record(&mut self, app: &str, why: &str);

    /// The operator allows the app to run in the kernel again. Returns whether it was demoted.
    ///
    /// # Errors
    /// The change cannot be stored. The app then stays demoted.
    fn clear(&mut self, app: &str) -> std::io::Result<bool>;
}

/// The parts of the programs.
#[derive(Debug)]
pub struct Parts {
    /// The kernel.
    pub kernel: KernelParts,
    /// The apps, in the operator's order.
    pub apps: Vec<App>,
    /// The services that the apps need, and the log service.
    pub services: Vec<ServiceParts>,
    /// The HTTP interface, if there is one.
    pub northbound: Option<NorthboundParts>,
    /// The rules.
    pub rules: Supervision,
    /// The rule of safe mode.
    pub safe_mode: config::SafeMode,
    /// The sessions, which were admitted.
    pub sessions: Sessions,
    /// Why reserved threads have no processors of their own although the operator wants that, if so.
    pub without_partition: Option<String>,
    /// The accounts that were stored.
    pub accounts: Accounts,
    /// The apps that must not run in the kernel.
    pub demotions: Box<dyn Demotions>,
    /// Collects the effects for processes.
    pub effects: Effects,
    /// All incidents.
    pub incidents: Incidents,
}

/// Which app of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppSlot(usize);

/// Decides about the kernel, the apps, the services and the HTTP interface.
#[derive(Debug)]
pub struct Programs {
    kernel: Kernel,
    apps: Vec<App>,
    services: Services,
    /// The HTTP interface, if it is to run.
    northbound: Option<Northbound>,
    /// The apps that must not run in the kernel.
    demotions: Box<dyn Demotions>,
    incidents: Incidents,
    /// Changes of apps in the kernel, which wait for its end.
    swaps: Vec<KernelSwap>,
    safe_mode: SafeMode,
    kernel_apps: KernelApps,
    limits: AppLimits,
    scheduling: Scheduling,
    accounts: Accounts,
    refused_switches: RefusedSwitches,
    other_controllers: OtherControllers,
    failed_messages: FailedMessages,
    /// When all programs must have ended, once they were asked to stop.
    stop: Option<Instant>,
    effects: Effects,
}

impl Programs {
    /// The files of the apps that an operator may change: their objects, except those of packages, and their configurations.
    pub fn app_files(&self) -> impl Iterator<Item = &Path> {
        self.apps.iter().flat_map(App::own_files)
    }

    /// Describes all programs without starting them.
    pub fn new(parts: Parts) -> Self {
        let Parts { rules, effects, incidents, .. } = parts;
        let outbox = || (effects.clone(), incidents.clone());
        Self {
            kernel: Kernel::new(parts.kernel, &rules, outbox()),
            apps: parts.apps,
            services: Services::new(parts.services, &rules, outbox()),
            northbound: parts.northbound.map(|it| Northbound::new(it, &rules, outbox())),
            demotions: parts.demotions,
            swaps: Vec::new(),
            safe_mode: SafeMode::new(&parts.safe_mode),
            kernel_apps: KernelApps::default(),
            limits: AppLimits::default(),
            scheduling: Scheduling::new(parts.sessions, parts.without_partition),
            accounts: parts.accounts,
            refused_switches: RefusedSwitches::default(),
            other_controllers: OtherControllers::default(),
            failed_messages: FailedMessages::default(),
            stop: None,
            effects,
            incidents,
        }
    }

    /// Whether the programs were asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// When all programs must have ended, once they were asked to stop.
    pub(crate) fn stop_deadline(&self) -> Option<Instant> {
        self.stop
    }

    /// Whether this service runs, or is to run.
    pub(crate) fn has_service(&self, kind: ServiceKind) -> bool {
        self.services.has(kind)
    }

    /// Tells the HTTP interface by what users are recognised now.
    pub fn send_credentials(&mut self) {
        self.northbound.iter_mut().for_each(Northbound::send_credentials);
    }

    /// Warns of apps that run with the kernel's rights.
    pub fn warn_of_apps_in_kernel(&self) {
        for app in self.apps.iter().filter(|app| app.is_in_kernel()) {
            if app.kernel_program().is_some() {
                info!(
                    app = app.name,
                    "the kernel hosts this app: host only modules that you trust there"
                );
            } else {
                let name = &app.name;
                warn!(
                    app = name,
                    "the kernel hosts this app: the app can do all that the kernel can"
                );
            }
        }
    }

    /// Tells the service of databases which apps there are, if that has changed.
    pub(crate) fn announce_apps(&mut self) {
        // Rows stay while Rosemary does not run.
        if !self.is_stopping() {
            self.services.announce(&self.apps);
        }
    }

    /// Schedules the start of the kernel and the services. Zones follow when the kernel is ready.
    pub(crate) fn request_start(&mut self, now: Instant) {
        self.kernel.program.request_start(now);
        self.services.iter_mut().for_each(|service| service.program.request_start(now));
        self.northbound.iter_mut().for_each(|it| it.request_start(now));
    }

    /// When [`advance`](Self::advance) is due.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let kernel = self.kernel.program.next_due().into_iter().chain(self.kernel.hang_check_due());
        let apps = self.apps.iter().filter_map(App::next_due);
        let kernel = kernel.chain(self.limits.next_due());
        let kernel = kernel.chain(self.scheduling_due().filter(|_| !self.is_stopping()));
        let northbound = self.northbound.as_ref().and_then(Northbound::next_due);
        let others = self.services.next_due().into_iter().chain(northbound);
        // Nothing of these happens any more while all programs stop.
        let trials = self.kernel_apps.next_due().into_iter().chain(self.safe_mode.next_due());
        let trials = trials.filter(|_| !self.is_stopping());
        let stop = self.stop.into_iter().flat_map(|deadline| Services::log_stop_due(deadline, now));
        let stop = stop.chain(self.stop);
        kernel.chain(apps).chain(others).chain(trials).chain(stop).min()
    }

    /// Does what is due: starts and kills programs, retries connections and checks for hangs.
    pub(crate) fn advance(&mut self, system: &dyn System, now: Instant) {
        self.advance_changes(system, now);
        if self.kernel.program.advance(system, now) {
            self.kernel.start(&mut self.apps, system, now);
        }
        for slot in self.app_slots() {
            let Some(app) = self.app_mut(slot) else { continue };
            app.advance(system, now);
            if app.zone_mut().is_some_and(|zone| zone.must_retry(now)) {
                self.attach(slot);
            }
        }
        self.kernel.check_hang(&self.apps, system, now);
        self.services.advance(system, now);
        self.northbound.iter_mut().for_each(|it| it.advance(system, now));
        self.advance_limits(now);
        self.advance_scheduling(now);
        self.advance_shares();
        self.advance_safe_mode(now);
        self.advance_comeback(now);
        self.advance_stop(system, now);
    }

    pub(crate) fn process_event(
        &mut self,
        program: ProgramId,
        event: ProcessEvent,
        system: &dyn System,
        now: Instant,
    ) {
        if let ProcessEvent::Scheduled(result) = event {
            self.thread_was_scheduled(program, result, now);
        } else if let ProcessEvent::Used { cpu, traffic } = event {
            self.account_for_end(program, cpu, traffic, now);
        } else if self.kernel.program.id() == program {
            self.kernel_event(event, system, now);
        } else if let Some(slot) = self.slot_of(program) {
            self.zone_event(slot, event, system, now);
        } else if let Some(slot) = self.services.slot_of(program) {
            self.service_event(slot, event, system, now);
        } else if let Some(northbound) = self.northbound.as_mut().filter(|it| it.id() == program)
            && northbound.handle(event, now)
        {
            self.app_slots().for_each(|slot| self.connect_routes(slot, system));
        }
    }

    fn slot_of(&self, program: ProgramId) -> Option<AppSlot> {
        let is_it = |app: &App| app.program().is_some_and(|it| it.id() == program);
        self.apps.iter().position(is_it).map(AppSlot)
    }

    fn service_event(
        &mut self,
        slot: ServiceSlot,
        event: ProcessEvent,
        system: &dyn System,
        now: Instant,
    ) {
        match self.services.handle(slot, event, system, now) {
            ServiceEvent::Ready => {
                let (apps, kernel) = (&mut self.apps, &self.kernel.program);
                self.services.connect_service(slot, apps, kernel, system);
            }
            ServiceEvent::Failed(failed) if !self.is_stopping() => {
                let names: Vec<&str> = failed.iter().map(|kind| kind.name()).collect();
                let why = format!("several services failed: {}", names.join(", "));
                self.restart_all(&why, now);
            }
            ServiceEvent::Handled | ServiceEvent::Failed(_) => {}
        }
    }

    fn kernel_event(&mut self, event: ProcessEvent, system: &dyn System, now: Instant) {
        let news = match event {
            ProcessEvent::Counted(counters) => return self.counted(counters, system, now),
            ProcessEvent::NotCounted => return self.kernel.forget_counters(),
            ProcessEvent::Backtrace(incident, frames) => {
                return self.kernel.backtrace_made(incident, frames);
            }
            event => self.kernel.program.take(event, now),
        };
        match news {
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

    /// The kernel has counted what the apps did.
    fn counted(&mut self, counters: Vec<AppCounters>, system: &dyn System, now: Instant) {
        if !self.kernel.counted(counters) {
            return;
        }
        for app in self.apps.iter_mut().filter(|app| app.role().serves()) {
            if let Some(counters) = self.kernel.counters_of(&app.name) {
                app.counted(counters, system, now);
            }
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
            ZoneEvent::Loaded => self.zone_loaded(slot, system),
            ZoneEvent::Ended => {
                let detach = KernelRequest::Detach { app: app.id };
                self.kernel.program.send(detach, Vec::new());
            }
        }
    }

    /// Connects an app that its zone has loaded.
    fn zone_loaded(&mut self, slot: AppSlot, system: &dyn System) {
        self.attach(slot);
        if let Some(app) = self.apps.get_mut(slot.0) {
            self.services.connect_app(app, &self.kernel.program, system);
        }
        self.connect_provided(slot, system);
        self.connect_apps_service(slot, system);
        self.connect_routes(slot, system);
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
    pub fn clear_demotion(&mut self, app: &str) -> std::io::Result<bool> {
        self.demotions.clear(app)
    }

    /// Measures all programs, and acts on limits that apps exceed.
    pub(crate) fn measure(&mut self, system: &dyn System, now: Instant) {
        self.apps.iter_mut().for_each(|app| app.measure(system, now));
        self.measure_comeback(now);
        self.kernel.measure(&self.apps, system, now);
        self.services.measure(system, now);
        self.northbound.iter_mut().for_each(|it| it.measure(system, now));
        self.account(system, now);
    }

    /// All apps, also successors and apps that leave.
    pub fn apps(&self) -> impl Iterator<Item = &App> {
        self.apps.iter()
    }

    /// The app in whose zone this program is.
    pub fn app_of(&self, program: ProgramId) -> Option<&App> {
        self.slot_of(program).and_then(|slot| self.apps.get(slot.0))
    }

    /// The kernel's number.
    pub fn kernel_id(&self) -> ProgramId {
        self.kernel.program.id()
    }

    /// The numbers of all programs.
    pub fn program_ids(&self) -> impl Iterator<Item = ProgramId> {
        let zones = self.apps.iter().filter_map(App::program).map(Program::id);
        let services = self.services.ids().chain(self.northbound.iter().map(Northbound::id));
        zones.chain(services).chain([self.kernel.program.id()])
    }

    /// The incidents of all programs.
    pub fn incidents(&self) -> &Incidents {
        &self.incidents
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
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
