//! One app: its files, its rights, and what hosts it.
//!
//! An app runs in a zone, or in the kernel until it is demoted ([`HostState`]). `starting.rs`, `messages.rs` and `usage.rs` have the life
//! of its zone; `kernel.rs` has what concerns the kernel that hosts it.

mod connections;
mod files;
mod hold;
mod host_state;
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

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use control::app::AppId;
use control::hosting::HostProcess;
use control::log::LogLevel;
use control::zone::{GuestSettings, ZoneSandbox};
use names::Service;
use sdk::services::apps::Measure;
use sys::process::PidNamespace;
use tracing::warn;

use self::files::AppFiles;
use self::host_state::{HostState, InKernel};
use self::intent::Intent;
use self::limit::PaceWatch;
pub use self::messages::ZoneEvent;
use self::reports::AppReports;
pub use self::role::Role;
pub use self::zone::Zone;
use self::zone::ZoneSettings;
use crate::effects::{Effects, Fd};
use crate::files::FileSource;
use crate::incidents::Incidents;
use crate::program::Program;
use crate::spec::AppSpec;
use crate::system::System;
use crate::usage::meter::Meter;

/// The service that an app of this name provides.
pub fn provided(app: &str) -> Option<Service> {
    Service::named(app).filter(|service| service.table_slots().is_some())
}

/// An app that the operator wants to run.
#[derive(Debug)]
pub struct App {
    /// Its number.
    pub id: AppId,
    /// Its name.
    pub name: String,
    spec: AppSpec,
    files: AppFiles,
    host: HostState,
    zone_settings: ZoneSettings,
    /// The user that the kernel runs as.
    kernel_uid: u32,
    meter: Meter,
    /// Whether the operator wants it to run.
    intent: Intent,
    role: Role,
    /// The level of its log by default.
    default_log_level: LogLevel,
    /// The level of its log, if an operator has set it.
    log_level: Option<LogLevel>,
    /// Whether its process is in a second group, beside that of its predecessor.
    is_beside: bool,
    /// Whether the switches lose its flows when it leaves the table.
    removes_flows: bool,
    guest: Guest,
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

/// The listening sockets of an app.
pub trait Listeners: fmt::Debug {
    /// Binds them, unless they are bound. They are as at the beginning, whatever an earlier instance did with them.
    ///
    /// # Errors
    /// Why one cannot be bound, as a phrase.
    fn listen(&mut self) -> Result<Vec<Fd>, String>;

    /// Restores what an ended instance changed at them, because another instance may use them.
    fn restore(&self);
}

/// The sockets of an app that listens nowhere.
#[derive(Debug)]
pub struct NoListeners;

impl Listeners for NoListeners {
    fn listen(&mut self) -> Result<Vec<Fd>, String> {
        Ok(Vec::new())
    }

    fn restore(&self) {}
}

/// How the zone of an app runs it.
#[derive(Debug)]
pub struct Guest {
    /// The settings that the zone receives.
    pub settings: GuestSettings,
    /// The app's sockets, in the order of the settings' `listeners`.
    pub listeners: Box<dyn Listeners>,
}

/// The parts of a new app.
#[derive(Debug)]
pub struct Launch {
    /// Its number.
    pub id: AppId,
    /// Its specification.
    pub spec: AppSpec,
    /// Its files.
    pub files: Box<dyn FileSource>,
    /// How its zone runs it.
    pub guest: Guest,
    /// The sandbox of its zone; `None` to run the zone without one.
    pub sandbox: Option<ZoneSandbox>,
    /// How processes that its zone forks are made to end with the zone.
    pub apart: PidNamespace,
    /// Measures it.
    pub meter: Meter,
    /// The users of the monitor and of the kernel.
    pub uids: (u32, u32),
    /// The level of its log by default.
    pub log_level: LogLevel,
    /// Collects the effects for processes.
    pub effects: Effects,
    /// All incidents.
    pub incidents: Incidents,
}

impl App {
    /// The files whose change is one of the app: its object, unless it is a package, its configuration, and modules that it imports.
    pub fn own_files(&self) -> impl Iterator<Item = &Path> {
        self.files.own_files()
    }

    /// Describes the app; nothing is started. `demoted` says why it must not run in the kernel.
    pub fn new(launch: Launch, demoted: Option<&str>) -> Self {
        let Launch { id, spec, files, guest, sandbox, .. } = launch;
        let name = spec.keys.name.clone();
        let zone_settings = ZoneSettings {
            app: name.clone(),
            executable: spec.runtime.program.clone(),
            sandbox,
            apart: launch.apart,
            own_uid: launch.uids.0,
            limits: spec.keys.limits,
            effects: launch.effects,
            incidents: launch.incidents.clone(),
            longest_call: spec.hang,
            restart: spec.restart,
        };
        let mut host = match spec.keys.host.process {
            HostProcess::Kernel => HostState::Kernel(InKernel::default()),
            HostProcess::Zone => {
                HostState::Zone { zone: Box::new(zone_settings.make()), demotion: None }
            }
        };
        if let Some(why) = demoted
            && host.demote(why, || zone_settings.make())
        {
            let hint = "rosemary app promote lets it run in the kernel again";
            warn!(app = name, why, hint, "app stays out of the kernel");
        }
        Self {
            id,
            name,
            guest,
            files: AppFiles::new(files),
            spec,
            host,
            zone_settings,
            kernel_uid: launch.uids.1,
            meter: launch.meter,
            intent: Intent::default(),
            role: Role::default(),
            default_log_level: launch.log_level,
            log_level: None,
            is_beside: false,
            removes_flows: false,
            table: None,
            reports: AppReports::new(launch.incidents),
            limit: None,
            pace: PaceWatch::default(),
            failure: None,
            kept: None,
        }
    }

    /// The zone, if the app has one.
    pub fn zone_mut(&mut self) -> Option<&mut Zone> {
        self.host.zone_mut()
    }

    /// The zone's program, if the app has a zone.
    pub fn program(&self) -> Option<&Program> {
        self.host.zone().map(|zone| &zone.program)
    }

    /// The zone's program, if the app has a zone.
    pub fn program_mut(&mut self) -> Option<&mut Program> {
        self.host.zone_mut().map(|zone| &mut zone.program)
    }

    /// Returns whether the app has a zone that is loaded, so that it can be connected.
    pub fn is_loaded(&self) -> bool {
        self.program().is_some_and(Program::is_running)
    }

    /// Returns whether a zone of the app has no process and gets none.
    pub fn is_stopped(&self) -> bool {
        self.program().is_none_or(Program::is_stopped)
    }

    /// How long a call of the app may take.
    pub fn longest_call(&self) -> Duration {
        self.zone_settings.longest_call
    }

    /// When [`advance`](Self::advance) or a retry of the connection is due.
    pub fn next_due(&self) -> Option<Instant> {
        let zone = self.host.zone()?;
        let checks = zone.calls_due().into_iter().chain(zone.memory_due());
        checks.chain(zone.program.next_due()).chain(zone.retry_at()).min()
    }

    /// Does what is due for the zone: starts it, and checks its calls and its memory.
    pub fn advance(&mut self, system: &dyn System, now: Instant) {
        let Some(zone) = self.host.zone_mut() else { return };
        zone.check_calls(system, now);
        if zone.program.advance(system, now) {
            self.start_zone(system, now);
        }
        if let Some(zone) = self.host.zone_mut()
            && zone.memory_due().is_some_and(|at| at <= now)
            && let memory =
                system.own_memory(zone.program.id()).filter(|_| !zone.program.is_killed())
            && let Some(excess) = zone.check_memory(memory, &self.meter, now)
        {
            self.apply(excess, now);
        }
    }

    /// Why the app cannot run before a reload finds another object, if so.
    pub fn refusal(&self) -> Option<&str> {
        self.files.refusal()
    }

    /// Forgets why the zone is held and how often it was restarted, because the operator starts it.
    pub fn forgive(&mut self) {
        if let Some(zone) = self.host.zone_mut() {
            zone.hold.forgive();
            zone.program.forgive();
        }
    }
}
