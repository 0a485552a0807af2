//! One app in its zone: from its object's file to rings that lead to the kernel. Or in the kernel: then
//! it has no zone until it is demoted ([`Hosting`]).
//!
//! What a zone says is believed about itself only, and only in order: `Loaded` once, `Failed` once
//! and then nothing more. So a zone that floods its socket ends with its second message.

mod hold;
mod memory;

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel::control::{self, AppId, Host};
use kernel::policy::{Band, Policy};
use kernel::query::AppCounters;
use sdk::services::Service;
use services::control::{Client, Rights};
use sys::process::{PidNamespace, main_thread};
use sys::sandbox;
use tracing::{error, info, warn};
use zone::control::{Answer, Numbers, Request, Wall};

use self::hold::{Files, Unfit};
use self::memory::MemoryLooks;
use crate::admin::{AppStatus, KernelStatus};
use crate::attachment::{Answered, Attachment};
use crate::choice::{App, Origin};
use crate::config::{NO_BAND, host_name, stage_name};
use crate::config_file::ConfigFile;
use crate::hosting::Hosting;
use crate::object::Object;
use crate::output::Voice;
use crate::program::{Program, harmless, shortened};
use crate::progress::silence::{Activity, Silence};
use crate::progress::{Received, Watch};
use crate::sandbox::{RefusedCalls, Require};
use crate::supervise::State;
use crate::usage::Keeper;
use crate::usage::meter::Meter;
use crate::users::Users;

/// An app, and its zone if it has one.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) app: AppId,
    pub(crate) name: String,
    pub(crate) program: Program,
    hosting: Hosting,
    object: Object,
    origin: Origin,
    config: ConfigFile,
    /// What could not be made an app of.
    unfit: Option<Unfit>,
    /// Why its files cannot be read, if so.
    unread: Option<String>,
    /// How often the system could not load its object, of which files, since it could.
    not_loaded: (u32, Files),
    run_as: Option<u32>,
    /// What its app may read of the machine's files, and what nobody may.
    read: Vec<PathBuf>,
    never: Arc<[PathBuf]>,
    /// How high its wall is to be; `None` for none.
    wall: Option<Require>,
    pub(crate) refusals: RefusedCalls,
    /// The user that the kernel runs as.
    kernel_as: Option<u32>,
    pub(crate) policy: Policy,
    services: Vec<Service>,
    rights: Rights,
    attachment: Attachment,
    /// What setrlimit(2) is told.
    process_limits: sandbox::Limits,
    pub(crate) meter: Meter,
    /// Whether its app's calls come back, while its process runs.
    pub(crate) watch: Option<Watch>,
    /// Whether its process handles its events.
    silence: Silence,
    memory_looks: MemoryLooks,
    /// What a call of its app may last.
    pub(crate) hang: Duration,
    failed: bool,
    /// The version that the object states, once it is loaded.
    version: Option<String>,
    /// The digest of the object that the zone or the kernel was given.
    sha256: Option<String>,
}

/// What came of listening to a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It said nothing that could be taken now.
    Nothing,
    /// It said something.
    Something,
    /// Its app is loaded and wants to be attached.
    Loaded,
}

impl Zone {
    /// App number `app`, hosted by the program `host`, behind `wall` if there is to be one.
    pub(crate) fn new(
        app: AppId,
        of: App,
        host: PathBuf,
        users: Users,
        wall: Option<Require>,
        rights: Rights,
        keeper: &Arc<Keeper>,
    ) -> Self {
        let apart = if wall.is_some() { PidNamespace::find() } else { PidNamespace::No };
        Self {
            app,
            program: Program::new(
                Voice::Zone(of.name.clone()),
                host,
                apart,
                (keeper.clone(), of.limits.clone()),
            ),
            process_limits: keeper.process_limits(&of.limits),
            meter: keeper.meter(of.limits),
            wall,
            refusals: RefusedCalls::of_zone(of.name.clone(), Instant::now()),
            name: of.name,
            hosting: Hosting::new(of.host),
            object: of.object,
            origin: of.origin,
            config: ConfigFile::new(of.config),
            unfit: None,
            unread: None,
            not_loaded: (0, Files::default()),
            read: of.read,
            never: of.never,
            run_as: users.for_app(app.0).filter(|_| wall.is_some()),
            kernel_as: users.for_kernel(),
            policy: of.policy,
            services: of.services,
            rights,
            attachment: Attachment::default(),
            watch: None,
            silence: Silence::default(),
            memory_looks: MemoryLooks::default(),
            hang: of.hang,
            failed: false,
            version: None,
            sha256: None,
        }
    }

    /// Starts the zone's process and gives it object and configuration, as they are in their files now,
    /// unless an app could not be created of just these before.
    pub(crate) fn start(&mut self, now: Instant) {
        let taken = self.take().and_then(|sha256| Ok((sha256, self.sealed_config()?)));
        let (sha256, config) = match taken {
            Ok(taken) => taken,
            Err(why) => return self.hold_unread(why, now),
        };
        self.unread = None;
        if self.is_still_unfit(now) {
            return;
        }
        self.failed = false;
        self.refusals.over();
        self.meter.begin();
        self.silence.begin();
        self.program.start(now);
        self.memory_looks.begin(self.program.is_memory_uncounted().then_some(now));
        let wall = self.wall.map(|require| Wall {
            run_as: self.run_as,
            full: require == Require::Full,
            read: self.read.clone(),
            never: self.never.to_vec(),
            limits: self.process_limits,
        });
        let (name, numbers) = (self.name.clone(), self.numbers());
        let services = self.services.iter().map(|it| it.name().to_owned()).collect();
        let load = Request::Load { name, wall, sha256, numbers, services };
        let fds: Vec<BorrowedFd<'_>> =
            self.object.taken().into_iter().chain([config.as_fd()]).collect();
        self.program.tell(&load, &fds);
        match Watch::new(now) {
            Ok((watch, memory)) => {
                self.program.tell(&Request::Watch, &[memory.as_fd()]);
                self.watch = Some(watch);
            }
            Err(error) => self.program.kill(&format!("its calls cannot be watched: {error}")),
        }
    }

    /// It says that it cannot go on: it is started again.
    fn fail(&mut self, why: &str, now: Instant) {
        let (object, why) = (self.object.path().display(), shortened(why, 400));
        error!(app = self.name, %object, why, "app failed");
        self.failed = true;
        self.program.ending(now);
    }

    /// Ends its process if its app hangs.
    pub(crate) fn look(&mut self, now: Instant) {
        let Some(watch) = &mut self.watch else { return };
        // The calls are made by its main thread; what others use meanwhile is not the call's.
        let received = || match self.program.pid().map(main_thread) {
            Some(Ok(thread)) => Received::Time(thread.used),
            None | Some(Err(_)) => Received::Unknown,
        };
        if let Some(hang) = watch.look(now, received, |_| self.hang) {
            self.program.kill_late(&format!("its app hung: {hang}"));
        }
    }

    /// Takes what the kernel counted for its app, and ends its process if that handles none of its events.
    pub(crate) fn counted(&mut self, now: Instant, counters: &AppCounters) {
        self.meter.counted(now, counters);
        let Some(pid) = self.program.pid() else { return };
        if let Some(silent) = self.silence.look(counters, || Activity::of(pid), self.hang) {
            self.program.kill_late(&format!("its app hung: {silent}"));
        }
    }

    /// The configuration that was taken last, for a zone.
    fn sealed_config(&self) -> Result<OwnedFd, String> {
        let sealed = sys::shm::sealed_copy("configuration", self.config.taken());
        sealed.map_err(|error| format!("could not hand over its configuration: {error}"))
    }

    /// Takes object and configuration as they are in their files now. The object's digest, or why they
    /// cannot be had.
    fn take(&mut self) -> Result<String, String> {
        self.config.take()?;
        (self.version, self.sha256) = (None, None);
        let sha256 = self.object.take(&self.name).map(ToOwned::to_owned);
        let why = |error| format!("could not read {}: {error}", self.object.path().display());
        let sha256 = sha256.map_err(why)?;
        self.sha256 = Some(sha256.clone());
        Ok(sha256)
    }

    /// Gets its object ready for a kernel that is about to be started, if the kernel is to host it.
    ///
    /// What cannot be had now cannot be brought to that kernel later: then a zone waits for it.
    pub(crate) fn prepare(&mut self, now: Instant) {
        if self.is_for_kernel()
            && let Err(why) = self.take()
        {
            self.demote(&why, now);
        }
    }

    /// A kernel was started with it, if it is for the kernel.
    pub(crate) fn kernel_started(&mut self) {
        if self.is_for_kernel() {
            self.hosting.started();
        }
    }

    /// Whether the kernel is to host it.
    pub(crate) fn is_for_kernel(&self) -> bool {
        self.hosting.host() == Host::Kernel
    }

    /// The object for the kernel that is being started.
    pub(crate) fn object_for_kernel(&self) -> Option<BorrowedFd<'_>> {
        self.object.taken().filter(|_| self.is_for_kernel())
    }

    /// The configuration that was taken last.
    pub(crate) fn config(&self) -> &[u8] {
        self.config.taken()
    }

    /// The kernel says that it runs in the kernel. Says whether the kernel was to host it.
    pub(crate) fn hosted(&mut self, version: &str, kernel: Option<u32>) -> bool {
        if self.hosting.runs() {
            let (version, uid) = (shortened(version, 40), self.uid());
            info!(app = self.name, version, pid = kernel, uid, "app was loaded into the kernel");
            self.version = Some(harmless(&version, 40));
        }
        self.hosting.starts() > 0
    }

    /// The kernel hosts it no more: it gets a zone, now and for later kernels. Says whether a kernel
    /// ever was to host it.
    pub(crate) fn demote(&mut self, why: &str, now: Instant) -> bool {
        let why = harmless(why, 200);
        if self.hosting.demote(why.clone()) {
            warn!(
                app = self.name,
                why, "app was taken out of the kernel; it gets a zone of its own"
            );
            (self.version, self.sha256) = (None, None);
            self.program.want(now);
        }
        self.hosting.demoted().is_some()
    }

    /// Wants its zone to run, if it has one.
    pub(crate) fn want(&mut self, now: Instant) {
        if !self.is_for_kernel() {
            self.program.want(now);
        }
    }

    /// What is the app's on switches.
    fn numbers(&self) -> Numbers {
        let ends = |range: RangeInclusive<u32>| range.into_inner();
        Numbers {
            band: (self.policy.band.lowest, self.policy.band.highest),
            groups: ends(self.app.groups()),
            meters: ends(self.app.meters()),
        }
    }

    /// Takes what the zone said, if it said something.
    pub(crate) fn hear(&mut self, now: Instant) -> Heard {
        let Some((answer, fds)) = self.program.hear::<Answer>(now) else { return Heard::Nothing };
        if self.failed {
            self.program.kill("it spoke on after it had failed");
            return Heard::Something;
        }
        match answer {
            // Before it has loaded the app, what it says is its own.
            Answer::Confined { report } if !self.refusals.is_confined() => {
                self.refusals.confined(&report, fds);
            }
            Answer::Confined { .. } => self.program.kill("it said twice that it is confined"),
            Answer::Loaded { version } => {
                if self.program.ready() {
                    let (pid, version) = (self.program.pid(), shortened(&version, 40));
                    info!(app = self.name, version, pid, uid = self.uid(), "app was loaded");
                    self.version = Some(harmless(&version, 40));
                    self.not_loaded = (0, Files::default());
                    self.meter.tell_anew();
                    return Heard::Loaded;
                }
                if self.program.supervision().state() != State::Stopping {
                    self.program.kill("it said twice that it is loaded");
                }
            }
            Answer::Unfit { why } => self.hold_unfit(&why, None, now),
            Answer::NotLoaded { why } => self.could_not_load(&why, now),
            Answer::Failed { why } => self.fail(&why, now),
        }
        Heard::Something
    }

    /// What the kernel is told of it at its start.
    pub(crate) fn introduction(&self) -> control::App {
        let (app, name, policy) = (self.app, self.name.clone(), self.policy.clone());
        let config_size = if self.is_for_kernel() { self.config.taken().len() } else { 0 };
        let config_size = u32::try_from(config_size).unwrap_or(u32::MAX);
        control::App { app, name, policy, host: self.hosting.host(), config_size }
    }

    /// Whether its app is loaded and can be connected.
    pub(crate) fn is_loaded(&self) -> bool {
        self.program.supervision().state() == State::Running
    }

    /// Whether the app may use that service.
    pub(crate) fn names(&self, service: Service) -> bool {
        self.services.contains(&service)
    }

    /// What a service is told of the app.
    pub(crate) fn client(&self) -> Client {
        Client { app: self.app.0, name: self.name.clone(), rights: self.rights.clone() }
    }

    /// Gives it its end of a service's socket.
    pub(crate) fn give_service(&mut self, service: Service, socket: &OwnedFd) {
        let request = Request::Service { name: service.name().into() };
        self.program.tell(&request, &[socket.as_fd()]);
    }

    /// The kernel was asked for rings.
    pub(crate) fn rings_asked(&mut self) {
        self.attachment.asked();
    }

    /// The kernel made rings. Says whether they had been asked for.
    pub(crate) fn rings_made(&mut self, (capacity, batch): (u32, u16), fds: &[OwnedFd]) -> bool {
        match self.attachment.answered() {
            Answered::Unasked => return false,
            Answered::Stale => {}
            Answered::PassOn => {
                let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                self.program.tell(&Request::Rings { capacity, batch }, &fds);
                info!(app = self.name, "app was connected to the kernel");
            }
        }
        true
    }

    /// The kernel could not make rings, or they were lost on the way. Says whether they had been
    /// asked for.
    pub(crate) fn rings_not_made(&mut self, why: &str, now: Instant) -> bool {
        match self.attachment.failed(now) {
            Answered::Unasked => return false,
            Answered::Stale => {}
            Answered::PassOn => {
                warn!(
                    app = self.name,
                    why, "could not connect the app to the kernel; trying again"
                );
            }
        }
        true
    }

    /// When the kernel has to be asked for rings again.
    pub(crate) fn ask_again_at(&self) -> Option<Instant> {
        self.attachment.retry_at()
    }

    /// Whether that time has come; said once.
    pub(crate) fn is_to_ask_again(&mut self, now: Instant) -> bool {
        self.attachment.retry(now)
    }

    /// The kernel reports that the zone broke the rings' rules.
    pub(crate) fn fault(&mut self, why: &str) {
        if self.attachment.is_connected() {
            self.program
                .kill(&format!("its app broke a rule of its rings: {}", shortened(why, 400)));
        }
    }

    /// The zone's process has ended. Says whether the kernel has to be told.
    pub(crate) fn ended(&mut self, now: Instant) -> bool {
        self.refusals.over();
        if let Some(unfit) = &self.unfit {
            self.program.hold(now, &unfit.why);
        }
        self.watch = None;
        self.memory_looks.begin(None);
        self.attachment.zone_ended()
    }

    /// The kernel has ended; the zone keeps running.
    pub(crate) fn kernel_ended(&mut self) {
        self.attachment.kernel_ended();
        self.hosting.ended();
    }

    /// Asks it to end, if it runs.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.program.stop(now) {
            self.program.tell(&Request::Stop, &[]);
        }
    }

    fn uid(&self) -> u32 {
        let run_as = if self.is_for_kernel() { self.kernel_as } else { self.run_as };
        run_as.unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }

    /// Its process, what it does, and how often it was started again, while the kernel is that.
    pub(crate) fn runs_as(&self, kernel: Option<u32>, state: State) -> (Option<u32>, State, u64) {
        let supervision = self.program.supervision();
        let restarts = (self.hosting.starts() + supervision.starts()).saturating_sub(1);
        if self.is_for_kernel() {
            (kernel, self.hosting.state(state), restarts)
        } else {
            (self.program.pid(), supervision.state(), restarts)
        }
    }

    /// For the operator; `kernel` is that of this moment.
    pub(crate) fn status(&self, kernel: &KernelStatus) -> AppStatus {
        let (pid, state, restarts) = self.runs_as(kernel.pid, kernel.state);
        let last_exit = if self.is_for_kernel() {
            kernel.last_exit.as_deref()
        } else {
            self.program.supervision().last_exit().or(self.hosting.demoted())
        };
        let Band { lowest, highest } = self.policy.band;
        AppStatus {
            name: self.name.clone(),
            number: self.app.0,
            stage: stage_name(self.policy.stage).into(),
            band: (self.policy.band != NO_BAND).then_some([lowest, highest]),
            host: host_name(self.hosting.host()).into(),
            demoted: self.hosting.demoted().map(Into::into),
            version: self.version.clone(),
            sha256: self.sha256.clone(),
            origin: self.origin.name().into(),
            signed_by: self.origin.developer().map(Into::into),
            pid,
            uid: self.uid(),
            state,
            restarts,
            last_exit: last_exit.map(Into::into),
        }
    }
}
