//! One app: its files, its rights, and what hosts it.
//!
//! An app runs in a zone, or in the kernel until it is demoted ([`Hosting`]). `starting.rs`, `messages.rs` and `usage.rs` have the life
//! of its zone; `kernel.rs` has what concerns the kernel that hosts it.

mod connections;
mod files;
mod hold;
mod hosting;
mod intent;
mod kernel;
mod limit;
mod log_level;
mod messages;
mod reports;
mod role;
mod safety;
mod starting;
mod status;
mod usage;
mod zone;

use std::path::Path;
use std::time::{Duration, Instant};

use control::app::{AppId, Hosting as Host};
use control::log::LogLevel;
use control::zone::ZoneSandbox;
use sdk::services::Service;
use sdk::services::apps::Measure;
use sys::sandbox::Limits;
use tracing::warn;

pub(crate) use self::files::AppFiles;
use self::hosting::{Hosting, InKernel};
use self::intent::Intent;
use self::limit::PaceWatch;
pub(crate) use self::messages::ZoneEvent;
use self::reports::AppReports;
pub(crate) use self::role::Role;
use self::zone::{Zone, ZoneSettings};
use crate::choice;
use crate::config_file::ConfigFile;
use crate::modules::Modules;
use crate::process_table::Environment;
use crate::python::{self, PythonZone};
use config::Require;
use supervisor::effects::Fd;
use supervisor::program::Program;
use supervisor::spec::AppSpec;
use supervisor::system::System;
use supervisor::usage::meter::Meter;

/// The service that an app of this name provides.
fn provided(app: &str) -> Option<Service> {
    Service::named(app).filter(|service| service.table_slots().is_some())
}

/// An app that the operator wants to run.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) id: AppId,
    pub(crate) name: String,
    spec: AppSpec,
    files: AppFiles,
    hosting: Hosting,
    zone_settings: ZoneSettings,
    /// The user that the kernel runs as.
    kernel_uid: Option<u32>,
    meter: Meter,
    /// Whether the operator wants it to run.
    intent: Intent,
    role: Role,
    /// The level of its log, if an operator has set it.
    log_level: Option<LogLevel>,
    /// Whether its process is in a second group, beside that of its predecessor.
    is_beside: bool,
    /// Whether the switches lose its flows when it leaves the table.
    removes_flows: bool,
    /// How to run it, if it is written in Python.
    python: Option<PythonZone>,
    /// The table that its process publishes, if the app provides a service.
    table: Option<Fd>,
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

impl App {
    /// The files whose change is one of the app: its object, unless it is a package, its configuration, and modules that it imports.
    pub(crate) fn own_files(&self) -> impl Iterator<Item = &Path> {
        self.files.own_files()
    }

    /// Describes the app `chosen` with number `id`; nothing is started. `demoted` says why it must not run in the kernel.
    pub(crate) fn new(
        id: AppId,
        chosen: choice::App,
        around: &Environment,
        demoted: Option<&str>,
    ) -> Self {
        let choice::App { spec, object, never } = chosen;
        let (name, limits) = (spec.keys.name.clone(), spec.keys.limits);
        let sandbox = around.require.map(|require| ZoneSandbox {
            run_as: around.users.for_app(id.0),
            full: require == Require::Full,
            env: spec.keys.env.clone(),
            read: spec.readable(),
            never: never.to_vec(),
            limits: with_tables(
                around.enforcement.process_limits(&limits),
                spec.keys.services.iter().copied().chain(provided(&name)),
            ),
        });
        let meter = around.enforcement.meter(limits);
        let zone_settings = ZoneSettings {
            app: name.clone(),
            executable: match &spec.interpreter {
                Some(interpreter) => python::command(interpreter),
                None => around.installation.zone.clone().into(),
            },
            sandbox,
            limits,
            effects: around.effects.clone(),
            incidents: around.incidents.clone(),
            longest_call: spec.hang,
            restart: spec.restart,
        };
        let modules = Modules::of(&spec, &object);
        let python = PythonZone::of(&spec, &object);
        let mut hosting = match spec.keys.host {
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
            files: AppFiles::new(object, ConfigFile::new(spec.keys.config.clone()), modules),
            spec,
            hosting,
            zone_settings,
            kernel_uid: around.users.for_kernel(),
            meter,
            intent: Intent::default(),
            role: Role::default(),
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
    pub(crate) fn advance(&mut self, system: &dyn System, now: Instant) {
        let Some(zone) = self.hosting.zone_mut() else { return };
        zone.check_calls(system, now);
        if zone.program.advance(system, now) {
            self.start_zone(system, now);
        }
        if let Some(zone) = self.hosting.zone_mut()
            && zone.memory_due().is_some_and(|at| at <= now)
            && let memory = system.own_memory(zone.program.id())
            && let Some(excess) = zone.check_memory(memory, &self.meter, now)
        {
            self.apply(excess, now);
        }
    }

    /// Why the app cannot run before a reload finds another object, if so.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.files.refusal()
    }

    /// Forgets why the zone is held and how often it was restarted, because the operator starts it.
    pub(crate) fn forgive(&mut self) {
        if let Some(zone) = self.hosting.zone_mut() {
            zone.hold.forgive();
            zone.program.forgive();
        }
    }
}
