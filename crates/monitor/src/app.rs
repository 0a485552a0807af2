//! One app: its files, its rights, and what hosts it.
//!
//! An app runs in a zone, or in the kernel until it is demoted ([`Hosting`]). A zone may be hostile. The monitor takes a
//! zone's messages as claims about the zone itself, and accepts them in order only: one `Loaded`, and nothing after a
//! `Failed`. A zone that floods its socket is therefore killed at its second message.

mod connections;
mod files;
mod hold;
mod hosting;
mod intent;
mod limit;
mod log_level;
mod reports;
mod role;
mod safety;
mod settings;
mod status;
mod zone;

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use control::app::{AppId, Hosting as Host};
use control::incident::{self, Cause, Evidence};
use control::kernel::AppSpec;
use control::log::LogLevel;
use control::policy::Policy;
use control::query::AppCounters;
use control::service::ClientRights;
use control::zone::{SwitchNumbers, ZoneReply, ZoneRequest, ZoneSandbox};
use sdk::Limit;
use sdk::services::Service;
use sdk::services::apps::Measure;
use sys::sandbox::Limits;
use tracing::{error, info, warn};

use self::connections::names;
pub(crate) use self::files::{AppFiles, Fingerprint};
use self::hosting::{Hosting, InKernel};
use self::intent::Intent;
use self::limit::PaceWatch;
use self::reports::AppReports;
pub(crate) use self::role::Role;
pub(crate) use self::settings::{AppSettings, LOG_LEVEL};
use self::zone::{Zone, ZoneSettings};
use crate::choice;
use crate::config_file::ConfigFile;
use crate::modules::Modules;
use crate::process_table::Environment;
use crate::program::{Program, ProgramKind, end_of_hold};
use crate::python::PythonZone;
use crate::text::{harmless, shortened};
use crate::usage::meter::{LimitEvent, Meter, Severity};
use config::{Require, SERVE_HTTP};
use control::operator::ProgramState;

/// The service that an app of this name provides.
fn provided(app: &str) -> Option<Service> {
    Service::named(app).filter(|service| service.table_slots().is_some())
}

/// An app that the operator wants to run.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) id: AppId,
    pub(crate) name: String,
    policy: Policy,
    files: AppFiles,
    services: Vec<Service>,
    rights: ClientRights,
    hosting: Hosting,
    zone_settings: ZoneSettings,
    /// The user that the kernel runs as.
    kernel_uid: Option<u32>,
    meter: Meter,
    /// Whether the operator wants it to run.
    intent: Intent,
    role: Role,
    settings: AppSettings,
    /// The level of its log, if an operator has set it.
    log_level: Option<LogLevel>,
    /// Whether its process is in a second group, beside that of its predecessor.
    is_beside: bool,
    /// Whether the switches lose its flows when it leaves the table.
    removes_flows: bool,
    /// How to run it, if it is written in Python.
    python: Option<PythonZone>,
    /// The table that its process publishes, if the app provides a service.
    table: Option<OwnedFd>,
    reports: AppReports,
    /// The limit that another app has set.
    limit: Option<Measure>,
    pace: PaceWatch,
    /// Why its process failed last, in its own words.
    failure: Option<String>,
    /// Why it goes on with older files than there are, if it does.
    kept: Option<String>,
}

/// Adds address space for the tables of these services to the limits of a process.
fn with_tables(mut limits: Limits, services: impl Iterator<Item = Service>) -> Limits {
    let tables = services.filter_map(Service::table_slots).map(sys::table::size_of_table);
    if let Some(memory) = &mut limits.memory {
        memory.address_space = memory.address_space.saturating_add(tables.sum::<usize>() as u64);
    }
    limits
}

/// The effect of a zone's message on other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneEvent {
    /// There was no message.
    Nothing,
    /// The message concerned the zone only.
    Handled,
    /// The app is loaded and can be connected to the kernel and to services.
    Loaded,
}

impl App {
    /// The files whose change is one of the app: its object, unless it is a package, its configuration, and modules that it imports.
    pub(crate) fn own_files(&self) -> impl Iterator<Item = &Path> {
        self.files.own_files()
    }

    /// Describes the app `chosen` with number `id`; nothing is started. `demoted` says why it must not run in the kernel.
    pub(crate) fn new(
        id: AppId,
        chosen: choice::App,
        rights: ClientRights,
        around: &Environment,
        demoted: Option<&str>,
    ) -> Self {
        let settings = AppSettings::of(&chosen, &rights);
        let choice::App { name, object, origin, config, policy, host, limits, .. } = chosen;
        let sandbox = around.require.map(|require| ZoneSandbox {
            run_as: around.users.for_app(id.0),
            full: require == Require::Full,
            env: chosen.env,
            read: match &chosen.python {
                Some((python, interpreter)) => {
                    chosen.read.into_iter().chain(interpreter.read_dirs(python)).collect()
                }
                None => chosen.read,
            },
            never: chosen.never.to_vec(),
            limits: with_tables(
                around.enforcement.process_limits(&limits),
                chosen.services.iter().copied().chain(provided(&name)),
            ),
        });
        let meter = around.enforcement.meter(limits.clone());
        let zone_settings = ZoneSettings {
            app: name.clone(),
            executable: match &chosen.python {
                Some((_, interpreter)) => interpreter.command(),
                None => around.installation.zone.clone().into(),
            },
            sandbox,
            limits,
            enforcement: around.enforcement.clone(),
            incidents: around.incidents.clone(),
            longest_call: chosen.hang,
            restart: chosen.restart,
        };
        let python = chosen.python.as_ref();
        let modules =
            python.map(|(python, interpreter)| Modules::new(python, interpreter, &object));
        let serves_http = rights.names.iter().any(|right| right == SERVE_HTTP);
        let python = python.map(|(python, _)| {
            PythonZone::new(python, &object, (&policy.capabilities, serves_http))
        });
        let mut hosting = match host {
            Host::Kernel => Hosting::Kernel(InKernel::default()),
            Host::User => Hosting::Zone { zone: Box::new(zone_settings.make()), demotion: None },
        };
        if let Some(why) = demoted
            && hosting.demote(why, || zone_settings.make())
        {
            let hint = "rosemary app promote lets it run in the kernel again";
            warn!(app = name, why, hint, "app stays out of the kernel");
        }
        Self {
            id,
            name,
            python,
            policy,
            files: AppFiles::new(object, ConfigFile::new(config), modules, origin),
            services: chosen.services,
            rights,
            hosting,
            zone_settings,
            kernel_uid: around.users.for_kernel(),
            meter,
            intent: Intent::default(),
            role: Role::default(),
            settings,
            log_level: None,
            is_beside: false,
            removes_flows: false,
            table: None,
            reports: AppReports::new(around.incidents.clone()),
            limit: None,
            pace: PaceWatch::default(),
            failure: None,
            kept: None,
        }
    }

    /// The zone, if the app has one.
    pub(crate) fn zone_mut(&mut self) -> Option<&mut Zone> {
        self.hosting.zone_mut()
    }

    /// The zone's program, if the app has a zone.
    pub(crate) fn program(&self) -> Option<&Program> {
        self.hosting.zone().map(|zone| &zone.program)
    }

    /// The zone's program, if the app has a zone.
    pub(crate) fn program_mut(&mut self) -> Option<&mut Program> {
        self.hosting.zone_mut().map(|zone| &mut zone.program)
    }

    /// Returns whether the kernel hosts the app.
    pub(crate) fn is_in_kernel(&self) -> bool {
        matches!(self.hosting, Hosting::Kernel(_))
    }

    /// Returns whether the app has a zone that is loaded, so that it can be connected.
    pub(crate) fn is_loaded(&self) -> bool {
        self.program().is_some_and(Program::is_running)
    }

    /// Returns whether a zone of the app has no process and gets none.
    pub(crate) fn is_stopped(&self) -> bool {
        self.program().is_none_or(Program::is_stopped)
    }

    /// How long a call of the app may take.
    pub(crate) fn longest_call(&self) -> Duration {
        self.zone_settings.longest_call
    }

    /// When [`advance`](Self::advance) or a retry of the connection is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let zone = self.hosting.zone()?;
        let checks = zone.calls_due().into_iter().chain(zone.memory_due());
        checks.chain(zone.program.next_due()).chain(zone.retry_at()).min()
    }

    /// Does what is due for the zone: starts it, and checks its calls and its memory.
    pub(crate) fn advance(&mut self, now: Instant) {
        let Some(zone) = self.hosting.zone_mut() else { return };
        zone.check_calls(now);
        if zone.program.advance(now) {
            self.start_zone(now);
        }
        if let Some(zone) = self.hosting.zone_mut()
            && zone.memory_due().is_some_and(|at| at <= now)
            && let Some(excess) = zone.check_memory(&self.meter, now)
        {
            self.apply(excess, now);
        }
    }

    /// Starts the zone with the files as they are now.
    fn start_zone(&mut self, now: Instant) {
        let log_level = self.log_level();
        let Some(zone) = self.hosting.zone_mut() else { return };
        let (unusable, is_news) = match self.files.read(&self.name) {
            Err(why) => (Some(why.clone()), zone.hold.files_unreadable(&why)),
            // The app ended with exactly these files before: starting it would only repeat that.
            Ok(()) => {
                (zone.hold.files_read(&self.files.fingerprint()).map(ToOwned::to_owned), false)
            }
        };
        if let Some(why) = &unusable {
            if zone.program.lifecycle().too_many_restarts().is_some() || !self.files.use_good() {
                if is_news {
                    error!(app = self.name, why, "app was held until its files can be read");
                }
                return zone.program.hold(now, why);
            }
            let hint = "correct its files, then use `rosemary reload`";
            warn!(app = self.name, why, hint, "app goes on with the files with which it last ran");
        }
        self.kept = unusable;
        let config = match self.files.sealed_config() {
            Ok(config) => config,
            Err(why) => return zone.program.hold(now, &why),
        };
        self.meter.restart();
        let ends = |range: RangeInclusive<u32>| range.into_inner();
        let load = ZoneRequest::Load {
            name: self.name.clone(),
            sandbox: self.zone_settings.sandbox.clone(),
            sha256: self.files.sha256.clone().unwrap_or_default(),
            numbers: SwitchNumbers {
                band: (self.policy.band.lowest, self.policy.band.highest),
                groups: ends(self.id.groups()),
                meters: ends(self.id.meters()),
            },
            services: names(&self.services),
            log_level,
            provides: provided(&self.name).map(|service| service.name().to_owned()),
            python: self.python.as_ref().map(|python| Box::new(python.app.clone())),
        };
        if let Some(Err(why)) = self.python.as_mut().map(PythonZone::listen) {
            return zone.program.hold(now, &why);
        }
        self.table = match provided(&self.name).and_then(Service::table_slots) {
            None => None,
            Some(slots) => match sys::table::memory(slots) {
                Ok(table) => Some(table),
                Err(error) => {
                    let why = format!("the memory of its table could not be made: {error}");
                    return zone.program.hold(now, &why);
                }
            },
        };
        let files = self.files.object().into_iter().chain([config.as_fd()]);
        let files: Vec<BorrowedFd<'_>> =
            files.chain(self.table.as_ref().map(AsFd::as_fd)).collect();
        let sockets = self.python.iter().flat_map(PythonZone::sockets);
        let files: Vec<BorrowedFd<'_>> = files.into_iter().chain(sockets).collect();
        zone.program.set_log_level(log_level);
        zone.start(&load, &files, now);
    }

    /// Wants the zone to run, if the app has one and the operator has not stopped it.
    pub(crate) fn request_start(&mut self, now: Instant) {
        let is_to_run = matches!(self.role, Role::Current | Role::Candidate);
        if is_to_run
            && !self.intent.is_stopped()
            && let Some(program) = self.program_mut()
        {
            program.request_start(now);
        }
    }

    /// Receives the zone's next message.
    pub(crate) fn receive(&mut self, now: Instant) -> ZoneEvent {
        let Some(zone) = self.hosting.zone_mut() else { return ZoneEvent::Nothing };
        let Some((reply, fds)) = zone.program.receive::<ZoneReply>(now) else {
            return ZoneEvent::Nothing;
        };
        if zone.has_failed {
            zone.program.kill("it sent a message after it had failed");
            return ZoneEvent::Handled;
        }
        match reply {
            // The process confines itself before it loads the app, so this message is not the app's.
            ZoneReply::Confined { report } => zone.program.confined(&report, fds),
            ZoneReply::Loaded { version } => {
                if zone.program.mark_ready(now) {
                    self.loaded(&version);
                    return ZoneEvent::Loaded;
                }
                // A zone that is being stopped may have loaded just before.
                if zone.program.lifecycle().state() != ProgramState::Stopping {
                    zone.program.kill("it reported twice that it is loaded");
                }
            }
            ZoneReply::Unfit { why } => self.hold(&why, None, now),
            ZoneReply::NotLoaded { why } => {
                if zone.hold.load_failed(self.files.fingerprint()) {
                    let hint =
                        "if the app needs a missing library, install it and start Rosemary again";
                    self.hold(&why, Some(hint), now);
                } else {
                    self.failed(&why, now);
                }
            }
            ZoneReply::Failed { why } => self.failed(&why, now),
            ZoneReply::Incident { summary, evidence } => {
                self.reports.record(&self.name, &summary, &evidence, now);
            }
        }
        ZoneEvent::Handled
    }

    /// The zone has loaded the app.
    fn loaded(&mut self, version: &str) {
        let Some(zone) = self.hosting.zone_mut() else { return };
        let (pid, uid, shown) =
            (zone.program.pid(), self.zone_settings.uid(), shortened(version, 40));
        info!(app = self.name, version = shown, pid, uid, "app was loaded");
        zone.hold.loaded();
        self.files.version = Some(harmless(version, 40));
        self.files.note_good();
        self.meter.reset_alerts();
    }

    /// The zone reports that the app cannot go on: it is started again.
    fn failed(&mut self, why: &str, now: Instant) {
        let Some(zone) = self.hosting.zone_mut() else { return };
        let (object, why) = (self.files.object_path().display(), shortened(why, 400));
        error!(app = self.name, %object, why, "app failed");
        self.failure = Some(harmless(&why, 400));
        zone.has_failed = true;
        zone.program.incidents_mut().reported(Cause::Panic, &why);
        zone.program.mark_ending(now);
    }

    /// The zone reports that the app cannot run with its files: it is held until one of them changes.
    fn hold(&mut self, why: &str, hint: Option<&str>, now: Instant) {
        let Some(zone) = self.hosting.zone_mut() else { return };
        let object = self.files.object_path().display();
        let config = self.files.config_path().map(|path| path.display().to_string());
        let shown = shortened(why, 400);
        error!(app = self.name, %object, config, why = shown, hint, "app was held until one of its files changes");
        zone.hold.reject(self.files.fingerprint(), harmless(why, 400));
        self.files.note_bad();
        self.failure = Some(harmless(why, 400));
        zone.has_failed = true;
        zone.program.incidents_mut().reported(Cause::Unfit, &shown);
        zone.program.mark_unfit(now);
    }

    /// The zone's process has ended. Returns whether the kernel holds rings of it.
    pub(crate) fn zone_ended(&mut self, now: Instant) -> bool {
        let Some(zone) = self.hosting.zone_mut() else { return false };
        if let Some(why) = zone.program.lifecycle().too_many_restarts() {
            let kind = ProgramKind::Zone(self.name.clone());
            let why = format!("{why}; {}", end_of_hold(&kind, why));
            zone.hold.reject(self.files.fingerprint(), why);
        }
        zone.ended(now)
    }

    /// Why the kernel no longer hosts the app, if so.
    pub(crate) fn demoted(&self) -> Option<&str> {
        self.hosting.demoted()
    }

    /// Forgets why the zone is held and how often it was restarted, because the operator starts it.
    pub(crate) fn forgive(&mut self) {
        if let Some(zone) = self.hosting.zone_mut() {
            zone.hold.forgive();
            zone.program.forgive();
        }
    }

    /// Reads the files for a kernel that is about to start, if it is to host the app.
    ///
    /// A kernel receives its apps at its start only. If the files cannot be read now, the app gets a zone, which waits
    /// for them.
    pub(crate) fn prepare_for_kernel(&mut self, now: Instant) {
        if self.runs_in_kernel()
            && let Err(why) = self.files.read(&self.name)
        {
            self.demote(&why, now);
        }
    }

    /// A kernel was started, with the app if it hosts it.
    pub(crate) fn kernel_started(&mut self) {
        let is_stopped = self.intent.is_stopped();
        if let Hosting::Kernel(in_kernel) = &mut self.hosting
            && !is_stopped
        {
            in_kernel.kernel_started();
        }
    }

    /// How the app is announced to a kernel at its start.
    pub(crate) fn announcement(&self) -> AppSpec {
        let config_size = u32::try_from(self.config_for_kernel().len()).unwrap_or(u32::MAX);
        let (app, name, policy) = (self.id, self.name.clone(), self.policy_in_force());
        // A kernel does not load an app that the operator has stopped.
        let host = if self.runs_in_kernel() { Host::Kernel } else { Host::User };
        let (log_level, services) = (self.log_level(), names(&self.services));
        AppSpec { app, name, policy, host, log_level, config_size, services }
    }

    /// The object for a kernel that is to host the app.
    pub(crate) fn object_for_kernel(&self) -> Option<BorrowedFd<'_>> {
        self.files.object().filter(|_| self.runs_in_kernel())
    }

    /// The configuration for a kernel that is to host the app; empty for an app in a zone.
    pub(crate) fn config_for_kernel(&self) -> &[u8] {
        if self.runs_in_kernel() { self.files.config() } else { &[] }
    }

    /// The kernel reports that it has loaded this number of instances of the app. Returns whether a kernel was started with
    /// the app.
    pub(crate) fn loaded_in_kernel(
        &mut self,
        version: &str,
        instances: u16,
        kernel: Option<u32>,
    ) -> bool {
        let uid = self.uid();
        // The report of a worker may arrive after another worker's instance got the app demoted.
        if let Hosting::Kernel(in_kernel) = &mut self.hosting
            && in_kernel.loaded(instances)
        {
            let shown = shortened(version, 40);
            info!(
                app = self.name,
                version = shown,
                pid = kernel,
                uid,
                "app was loaded into the kernel"
            );
            self.files.version = Some(harmless(version, 40));
        }
        self.hosting.kernel_starts() > 0
    }

    /// Takes the app out of the kernel, now and for later kernels, and wants a zone for it. Returns whether the app was
    /// ever to run in the kernel.
    pub(crate) fn demote(&mut self, why: &str, now: Instant) -> bool {
        let why = harmless(why, 200);
        if self.hosting.demote(&why, || self.zone_settings.make()) {
            warn!(
                app = self.name,
                why, "app was taken out of the kernel; it gets a zone of its own"
            );
            self.files.forget_loaded();
            self.request_start(now);
        }
        self.hosting.demoted().is_some()
    }

    /// The kernel reports that the app failed in it, and goes on without the app. Returns whether the app was ever to run
    /// in the kernel.
    pub(crate) fn failed_in_kernel(&mut self, why: &str, now: Instant) -> bool {
        let was_in_kernel = self.is_in_kernel();
        let announced = self.demote(why, now);
        if was_in_kernel && let Some(program) = self.hosting.zone_mut().map(|it| &mut it.program) {
            let of_app = program.incidents_mut();
            let evidence = Evidence::fact(harmless(why, 400));
            let incidents = of_app.all().clone();
            let id = incidents.open(incident::Program::app(&self.name), Cause::Panic, evidence);
            incidents.reaction(id, "moved from the kernel to a zone");
            of_app.adopt(id, Cause::Panic, now);
        }
        announced
    }

    /// The kernel has ended. A zone keeps running.
    pub(crate) fn kernel_ended(&mut self) {
        match &mut self.hosting {
            Hosting::Kernel(in_kernel) => in_kernel.kernel_ended(),
            Hosting::Zone { zone, .. } => zone.kernel_ended(),
        }
    }

    /// Measures the zone and acts on limits that it exceeds.
    pub(crate) fn measure(&mut self, now: Instant) {
        let sample = self.program().and_then(Program::sample);
        for event in self.meter.measure(now, sample) {
            self.apply(event, now);
        }
    }

    /// Takes the kernel's counters of the app.
    pub(crate) fn counted(&mut self, counters: &AppCounters, now: Instant) {
        self.meter.counted(now, counters);
        self.pace.counted(&self.name, counters);
        if let Some(zone) = self.hosting.zone_mut() {
            zone.check_events(counters);
        }
    }

    /// Alerts the operator and the app, or kills the zone.
    fn apply(&mut self, event: LimitEvent, now: Instant) {
        let app = &self.name;
        match event {
            LimitEvent::Alert { limit, value, severity } => {
                let bound = self.meter.limits().of(limit);
                let (name, uses) = (limit.name(), limit.shown(value));
                let (soft, hard) = (limit.shown(bound.soft), limit.shown(bound.hard));
                match severity {
                    Severity::Soft => {
                        warn!(app, limit = name, uses, soft, hard, "app exceeded a soft limit");
                    }
                    Severity::Hard => {
                        warn!(app, limit = name, uses, hard, "app reached a hard limit");
                    }
                }
                self.alert(limit, [value, bound.soft, bound.hard]);
            }
            LimitEvent::Kill { limit, value, pause } => {
                let hard = limit.shown(self.meter.limits().of(limit).hard);
                let (name, uses) = (limit.name(), limit.shown(value));
                error!(app, limit = name, uses, hard, "app exceeded a hard limit and is killed");
                let why = format!("it used {uses}, above its {name} limit of {hard}");
                if let Some(program) = self.program_mut() {
                    program.kill_for_limit(limit, &why, now + pause);
                }
            }
        }
    }

    /// Alerts an app in a zone.
    fn alert(&self, limit: Limit, numbers: [u64; 3]) {
        if let Some(program) = self.program().filter(|program| program.is_running()) {
            // An app is alerted at most twice in ten seconds for each limit, so a full socket may hold only such
            // messages. It is no reason to kill the zone.
            let _ = program.try_send(&ZoneRequest::Alert { limit: limit as u8, numbers }, &[]);
        }
    }
}
