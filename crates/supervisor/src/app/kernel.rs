//! An app and the kernel that hosts it, or may host it: its announcement, its load, and its way out of the kernel.

use std::time::Instant;

use control::incident::{self, Cause, Evidence};
use control::kernel::{AnnouncedApp, HostedCode};
use tracing::{error, info, warn};

use super::App;
use super::connections::names;
use super::host_state::{HostState, Until};
use crate::effects::Fd;
use crate::program::{Executable, ProgramKind, end_of_hold};
use crate::restart_policy::{Decision, TooManyRestarts};
use crate::text::{harmless, shortened};

impl App {
    /// Returns whether the kernel hosts the app.
    pub fn is_in_kernel(&self) -> bool {
        matches!(self.host, HostState::Kernel(_))
    }

    /// Why the kernel no longer hosts the app, if so.
    pub fn demoted(&self) -> Option<&str> {
        self.host.demoted()
    }

    /// Reads the files for a kernel that is about to start, if it is to host the app.
    ///
    /// A kernel receives its apps at its start only. If the files cannot be read now, the app gets a zone, which waits
    /// for them.
    pub fn prepare_for_kernel(&mut self, now: Instant) {
        if self.runs_in_kernel()
            && let Err(why) = self.files.read(&self.name)
        {
            self.demote(&why, now);
        }
    }

    /// The kernel with the app could not be started.
    pub fn kernel_not_started(&mut self) {
        let is_stopped = self.intent.is_stopped();
        if let HostState::Kernel(in_kernel) = &mut self.host
            && !is_stopped
        {
            in_kernel.kernel_not_started();
        }
    }

    /// A kernel is started, with the app if it hosts it.
    pub fn kernel_started(&mut self) {
        let is_stopped = self.intent.is_stopped();
        if let HostState::Kernel(in_kernel) = &mut self.host
            && !is_stopped
        {
            in_kernel.kernel_started();
        }
    }

    /// How the app is announced to a kernel at its start.
    pub fn announcement(&self) -> AnnouncedApp {
        let config_size = u32::try_from(self.config_for_kernel().len()).unwrap_or(u32::MAX);
        let (app, name, policy) = (self.id, self.name.clone(), self.policy_in_force());
        // A kernel does not load an app that the operator has stopped.
        let host = self.spec.keys.host;
        let host = if self.runs_in_kernel() { host } else { host.outside() };
        let (log_level, services) = (self.log_level(), names(&self.spec.keys.services));
        let code = self.code_for_kernel().unwrap_or_default();
        AnnouncedApp { app, name, policy, host, log_level, config_size, services, code }
    }

    /// The object for a kernel that is to host the app.
    pub fn object_for_kernel(&self) -> Option<Fd> {
        self.files.object().filter(|_| self.runs_in_kernel())
    }

    fn code_for_kernel(&self) -> Option<HostedCode> {
        self.runs_in_kernel().then(|| HostedCode {
            sha256: self.files.object_sha256(),
            options: self.spec.keys.host_keys.options.clone(),
        })
    }

    /// The program of a kernel that is to host the app, if the usual one cannot.
    pub fn kernel_program(&self) -> Option<&Executable> {
        self.spec.runtime.kernel.as_ref().filter(|_| self.runs_in_kernel())
    }

    /// The configuration for a kernel that is to host the app; empty for an app in a zone.
    pub fn config_for_kernel(&self) -> &[u8] {
        if self.runs_in_kernel() { self.files.config() } else { &[] }
    }

    /// The kernel reports that it has loaded this number of instances of the app. Returns whether a kernel was started with
    /// the app.
    pub fn loaded_in_kernel(&mut self, version: &str, instances: u16, kernel: Option<u32>) -> bool {
        let uid = self.uid();
        // The report of a worker may arrive after another worker's instance got the app demoted.
        if let HostState::Kernel(in_kernel) = &mut self.host
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
        self.host.kernel_starts() > 0
    }

    /// Takes the app out of the kernel, now and for later kernels, and wants a zone for it. Returns whether the app was
    /// ever to run in the kernel.
    pub fn demote(&mut self, why: &str, now: Instant) -> bool {
        let why = harmless(why, 200);
        if self.host.demote(&why, || self.zone_settings.make()) {
            warn!(
                app = self.name,
                why, "app was taken out of the kernel; it gets a zone of its own"
            );
            self.files.forget_loaded();
            self.request_start(now);
        }
        self.host.demoted().is_some()
    }

    /// Takes an app out of the kernel that has ended, for a [trial](crate::comeback) of all kernel apps, and wants a zone for it.
    pub fn demote_for_trial(&mut self, now: Instant) {
        if self.host.demote_for_trial(|| self.zone_settings.make()) {
            self.files.forget_loaded();
            self.request_start(now);
        }
    }

    /// Whether it is out of the kernel for a trial of all kernel apps.
    pub fn is_out_for_trial(&self) -> bool {
        self.host.is_out(Until::Trial)
    }

    /// Keeps it out of the kernel until the operator promotes it.
    pub fn keep_out(&mut self, why: &str, now: Instant) {
        let why = harmless(why, 200);
        if !self.host.keep_demotion(&why) {
            self.demote(&why, now);
        }
    }

    /// Whether the running kernel has loaded it.
    pub fn is_loaded_in_kernel(&self) -> bool {
        matches!(&self.host, HostState::Kernel(in_kernel) if in_kernel.instances() > 0)
    }

    /// The memory of its zone in bytes, without files and rings, as measured last.
    pub fn zone_memory(&self) -> Option<u64> {
        self.program().filter(|program| program.is_running())?;
        self.meter.sample().map(|sample| sample.own_memory)
    }

    /// The kernel reports that the app failed in it, and goes on without the app. Returns whether the app was ever to run
    /// in the kernel.
    pub fn failed_in_kernel(&mut self, why: &str, now: Instant) -> bool {
        let was_in_kernel = self.is_in_kernel();
        let announced = self.demote(why, now);
        if was_in_kernel && let Some(program) = self.host.zone_mut().map(|it| &mut it.program) {
            let of_app = program.incidents_mut();
            let evidence = Evidence::fact(harmless(why, 400));
            let incidents = of_app.all().clone();
            let id = incidents.open(incident::Program::app(&self.name), Cause::Panic, evidence);
            incidents.reaction(id, "moved from the kernel to a zone");
            of_app.adopt(id, Cause::Panic, now);
        }
        announced
    }

    /// The kernel reports that an instance of the app has ended, and that another one takes its place. Returns whether the app is held
    /// now, so that the kernel must make no further one. `None` if the app was never to run in the kernel.
    pub fn instance_ended(&mut self, why: &str, now: Instant) -> Option<bool> {
        let why = harmless(why, 400);
        let HostState::Kernel(in_kernel) = &mut self.host else {
            return self.host.demoted().map(|_| false); // a late report
        };
        error!(app = self.name, why, "an instance of the app in the kernel ended");
        let decision = in_kernel.instance_ended(&why, self.spec.restart, now);
        let incidents = &self.zone_settings.incidents;
        let program = incident::Program::app(&self.name);
        let id = incidents.open(program, Cause::Panic, Evidence::fact(why.clone()));
        incidents.close(id, None);
        match decision {
            Decision::StartAt(_) => {
                incidents.reaction(id, "another instance in the kernel");
                Some(false)
            }
            Decision::Hold(too_many) => {
                incidents.reaction(id, format!("held: {too_many}"));
                self.hold_out_of_kernel(&why, too_many, now);
                Some(true)
            }
        }
    }

    /// Takes an app out of the kernel that has ended too often there. Its zone is held.
    fn hold_out_of_kernel(&mut self, why: &str, too_many: TooManyRestarts, now: Instant) {
        let files = self.files.fingerprint();
        self.demote(why, now);
        let Some(zone) = self.host.zone_mut() else { return };
        let end = end_of_hold(&ProgramKind::Zone(self.name.clone()), too_many);
        zone.hold.reject(files, format!("{why}; {too_many}; {end}"));
        let (facts, reaction) = (vec![too_many.to_string()], format!("held; {end}"));
        zone.program.incidents_mut().ended(Cause::TooManyRestarts, facts, reaction, now);
    }

    /// The kernel has ended. A zone keeps running.
    pub fn kernel_ended(&mut self) {
        match &mut self.host {
            HostState::Kernel(in_kernel) => in_kernel.kernel_ended(),
            HostState::Zone { zone, .. } => zone.kernel_ended(),
        }
    }
}
