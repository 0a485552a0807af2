//! The loop: everything that runs, and what each event does to the others.
//!
//! One thread, one poll(2) over the signals, the admin socket and its connections, and three
//! descriptors per program: its control socket, its pidfd and what it writes. No call in here waits for anybody.
//! Each turn takes a bounded number of messages from each peer, so that none can starve the others.
//!
//! ```text
//! kernel Ready ----> start the zones, attach those that are loaded
//! zone Loaded -----> attach it: Attach to the kernel, Attached back, Rings to the zone
//! zone ends -------> Detach to the kernel, start it again (supervise.rs)
//! kernel Demoted --> the app, which the kernel hosted, gets a zone (hosting.rs)
//! kernel ends -----> start it again, without the apps it ended in; the zones run on, and get new
//!                    rings on its Ready
//! ```

mod entrance;
mod heard;
mod operators;
mod services;
mod usage;

use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::services::kind::Kind;
use kernel::control::{AppId, Request, worker_name};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::process::{PidNamespace, named_thread};
use tracing::{info, warn};

pub(crate) use self::entrance::Entrance;
pub(crate) use self::services::Services;
use self::usage::Looks;
use crate::choice::App;
use crate::config::Limits;
use crate::error::StartError;
use crate::journal::Journal;
use crate::output::Voice;
use crate::places::Places;
use crate::program::{Death, Program};
use crate::progress::{DEFAULT_BOUND, Received, Watch};
use crate::reception::{OperatorId, Reception};
use crate::rights;
use crate::sandbox::{RefusedCalls, Require};
use crate::service::Service;
use crate::signals::Signals;
use crate::supervise::State;
use crate::usage::Keeper;
use crate::usage::counters::Counters;
use crate::usage::meter::Meter;
use crate::users::Users;
use crate::zone::{Heard, Zone};

/// Messages of one peer in one turn of the loop.
const MESSAGES_PER_TURN: usize = 64;

/// From the request to stop to our own end, whatever happens.
const STOP: Duration = Duration::from_millis(1_800);

/// Everything that runs.
#[derive(Debug)]
pub(crate) struct House {
    started: Instant,
    entrance: Entrance,
    users: Users,
    kernel: Program,
    kernel_refusals: RefusedCalls,
    /// In which app the kernel is, and whether it gets on, while it runs.
    watch: Option<Watch>,
    /// For what it was killed, if it hung.
    hung: Option<Hung>,
    zones: Vec<Zone>,
    services: Vec<Service>,
    journal: Journal,
    reception: Reception,
    signals: Signals,
    counters: Counters,
    kernel_meter: Meter,
    own_meter: Meter,
    looks: Looks,
    /// Set once stopping has begun: when it is over.
    over_at: Option<Instant>,
}

/// What a kernel hung in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hung {
    /// The app with this number.
    App(u16),
    /// Its own code.
    Kernel,
}

/// What has become readable.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signal,
    Door,
    Operator(OperatorId),
    KernelOutput,
    KernelControl,
    KernelEnd,
    ZoneOutput(usize),
    ZoneControl(usize),
    ZoneEnd(usize),
    ZoneRefusal(usize),
    KernelRefusal,
    ServiceOutput(usize),
    ServiceControl(usize),
    ServiceEnd(usize),
    ServiceRefusal(usize),
    Journal,
    Counters,
}

impl House {
    /// Puts it together; nothing is started yet.
    ///
    /// # Errors
    /// [`StartError::Users`].
    pub(crate) fn new(
        places: Places,
        apps: impl Iterator<Item = (AppId, App)>,
        entrance: Entrance,
        reception: Reception,
        signals: Signals,
        (wall, keeper): (Option<Require>, Keeper),
        services: &Services,
    ) -> Result<Self, StartError> {
        let users = Users::find()?;
        let looks = Looks::new(Instant::now());
        let keeper = Arc::new(keeper.with_rings(entrance.ring_bytes()));
        let apps: Vec<(AppId, App)> = apps.collect();
        let (rights, idle) = rights::of(&apps);
        Self::tell_of_idle_rights(&idle);
        let running = apps.iter().map(|(_, app)| app);
        let services = services.needed(running, &places, users, wall, &keeper)?;
        let zone = |((number, app), rights)| {
            Zone::new(number, app, places.zone.clone(), users, wall, rights, &keeper)
        };
        let zones = apps.into_iter().zip(rights).map(zone).collect();
        Ok(Self {
            started: Instant::now(),
            entrance,
            users,
            kernel: Program::new(
                Voice::Kernel,
                places.kernel,
                PidNamespace::find(),
                (keeper, Limits::none()),
            ),
            kernel_refusals: RefusedCalls::of_kernel(Instant::now()),
            watch: None,
            hung: None,
            zones,
            services,
            journal: Journal::new(Instant::now()),
            reception,
            signals,
            counters: Counters::default(),
            kernel_meter: Meter::new(Limits::none(), Vec::new()),
            own_meter: Meter::new(Limits::none(), Vec::new()),
            looks,
            over_at: None,
        })
    }

    /// Runs until a signal has asked to stop and everything has stopped.
    ///
    /// Says whether nothing was left behind.
    pub(crate) fn run(&mut self) -> io::Result<bool> {
        self.kernel.want(Instant::now());
        self.services.iter_mut().for_each(|service| service.program.want(Instant::now()));
        loop {
            let now = Instant::now();
            self.do_what_is_due(now);
            if self.all_stopped() {
                info!("Rosemary stopped");
                return Ok(true);
            }
            if self.over_at.is_some_and(|at| at <= now) {
                self.kernel.abandon();
                self.zones.iter_mut().for_each(|zone| zone.program.abandon());
                self.services.iter_mut().for_each(|service| service.program.abandon());
                return Ok(false);
            }
            for source in self.wait(now)? {
                self.handle(source, Instant::now());
            }
        }
    }

    fn all_stopped(&self) -> bool {
        let stopped = |program: &Program| program.supervision().state() == State::Stopped;
        self.over_at.is_some()
            && stopped(&self.kernel)
            && self.zones.iter().all(|zone| stopped(&zone.program))
            && self.services.iter().all(|service| stopped(&service.program))
    }

    fn do_what_is_due(&mut self, now: Instant) {
        if self.kernel.is_start_due(now) {
            self.start_kernel(now);
        }
        self.kernel_refusals.catch_up(now);
        for zone in &mut self.zones {
            zone.refusals.catch_up(now);
            zone.look(now);
            if zone.program.is_start_due(now) {
                zone.start(now);
            }
        }
        for i in 0..self.zones.len() {
            if self.zones.get_mut(i).is_some_and(|zone| zone.is_to_ask_again(now)) {
                self.attach(i);
            }
        }
        self.look_at_kernel(now);
        self.attend_services(now);
        self.reception.drop_silent(now);
        self.look(now);
    }

    /// Ends a kernel that hangs, in one of its apps or in its own code.
    fn look_at_kernel(&mut self, now: Instant) {
        if self.hung.is_some() {
            return;
        }
        let zones = &self.zones;
        let zone = |app: NonZeroU16| zones.iter().find(|zone| zone.app.0 == app.get());
        let bound = |app| zone(app).map_or(DEFAULT_BOUND, |zone| zone.hang);
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.next_due() <= now) else {
            return;
        };
        let pid = self.kernel.pid();
        let thread = |worker| named_thread(pid?, &worker_name(worker)).ok();
        if let Some(stuck) = watch.look_at_turns(thread) {
            self.kernel.kill_late(&stuck.to_string());
            self.hung = Some(Hung::Kernel);
            return;
        }
        if let Some(hang) = watch.look(now, || Received::ByClock, bound) {
            let name = zone(hang.app).map_or("", |zone| &*zone.name);
            self.kernel.kill_late(&format!("its app {name} hung: {hang}"));
            self.hung = Some(Hung::App(hang.app.get()));
        }
    }

    fn start_kernel(&mut self, now: Instant) {
        self.zones.iter_mut().for_each(|zone| zone.prepare(now));
        let (watch, recorder) = match Watch::new(now) {
            Ok(made) => made,
            Err(error) => {
                let why = format!("could not make its flight recorder: {error}");
                return self.kernel.not_started(now, &why);
            }
        };
        self.kernel.start(now);
        self.kernel_meter.begin();
        if self.kernel.pid().is_none() {
            return;
        }
        self.zones.iter_mut().for_each(Zone::kernel_started);
        let apps = self.zones.iter().map(Zone::introduction).collect();
        let (start, mut fds) = self.entrance.start(self.users.for_kernel(), apps);
        let configs = match self.configs_for_kernel().transpose() {
            Ok(configs) => configs,
            Err(error) => {
                let why = format!("could not hand over its apps' configurations: {error}");
                return self.kernel.kill(&why);
            }
        };
        fds.extend(configs.iter().map(AsFd::as_fd));
        fds.extend(self.zones.iter().filter_map(Zone::object_for_kernel));
        fds.push(recorder.as_fd());
        self.kernel.tell(&start, &fds);
        (self.watch, self.hung) = (Some(watch), None);
    }

    /// The configurations of the apps that the kernel is to host, one behind the other, if there are such
    /// apps.
    fn configs_for_kernel(&self) -> Option<io::Result<OwnedFd>> {
        let hosted: Vec<&[u8]> =
            self.zones.iter().filter(|zone| zone.is_for_kernel()).map(Zone::config).collect();
        (!hosted.is_empty()).then(|| sys::shm::sealed_copy("configurations", &hosted.concat()))
    }

    /// What the kernel's end means for the apps.
    fn kernel_ended(&mut self, death: &Death, now: Instant) {
        self.kernel_refusals.over();
        self.counters.kernel_ended();
        let watch = self.watch.take().filter(|_| death.by_itself);
        let named = match self.hung.take() {
            Some(Hung::App(app)) => vec![app],
            Some(Hung::Kernel) => Vec::new(),
            None => watch.map_or_else(Vec::new, |it| it.apps()),
        };
        for zone in &mut self.zones {
            zone.kernel_ended();
            if named.contains(&zone.app.0) && zone.is_for_kernel() {
                zone.demote(&format!("the kernel ended in it: {}", death.how), now);
            }
        }
    }

    /// Sleeps until something is readable or due.
    fn wait(&self, now: Instant) -> io::Result<Vec<Source>> {
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        let mut watch = |source, fd| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        };
        watch(Source::Signal, self.signals.as_fd());
        for (id, fd) in self.reception.operators() {
            watch(Source::Operator(id), fd);
        }
        // Behind those that are connected: what they ask is heard before another takes their place.
        if let Some(door) = self.reception.door() {
            watch(Source::Door, door);
        }
        let zone = |i| [Source::ZoneOutput(i), Source::ZoneControl(i), Source::ZoneEnd(i)];
        let zones = self.zones.iter().enumerate().map(|(i, it)| (zone(i), &it.program));
        let kernel = [Source::KernelOutput, Source::KernelControl, Source::KernelEnd];
        let service =
            |i| [Source::ServiceOutput(i), Source::ServiceControl(i), Source::ServiceEnd(i)];
        let services = self.services.iter().enumerate().map(|(i, it)| (service(i), &it.program));
        for (sources, program) in zones.chain(services).chain([(kernel, &self.kernel)]) {
            let fds = [program.output(), program.control(), program.end()];
            for (source, fd) in sources.into_iter().zip(fds) {
                if let Some(fd) = fd {
                    watch(source, fd);
                }
            }
        }
        if let Some(fd) = self.kernel_refusals.fd() {
            watch(Source::KernelRefusal, fd);
        }
        if let Some(fd) = self.counters.fd() {
            watch(Source::Counters, fd);
        }
        if let Some(fd) = self.journal.fd() {
            watch(Source::Journal, fd);
        }
        for (i, zone) in self.zones.iter().enumerate() {
            if let Some(fd) = zone.refusals.fd() {
                watch(Source::ZoneRefusal(i), fd);
            }
        }
        for (i, service) in self.services.iter().enumerate() {
            if let Some(fd) = service.refusals.fd() {
                watch(Source::ServiceRefusal(i), fd);
            }
        }
        let due = self.next_due(now);
        let timeout = due.map(|at| at.saturating_duration_since(now)).map(|time| {
            // Rounded up to the next millisecond, or the loop would spin through the last one.
            let time = time + Duration::from_millis(1);
            Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(time.subsec_nanos()),
            }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let ready = sources.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let services = self.services.iter().map(|service| &service.program);
        let zones = self.zones.iter().map(|zone| &zone.program);
        let programs = zones.chain(services).chain([&self.kernel]);
        programs
            .filter_map(Program::next_due)
            .chain(self.zones.iter().filter_map(Zone::ask_again_at))
            .chain(self.zones.iter().filter_map(|zone| zone.refusals.next_due()))
            .chain(self.services.iter().filter_map(|service| service.refusals.next_due()))
            .chain(self.kernel_refusals.next_due())
            .chain(self.reception.next_due())
            .chain([self.looks.next_due()])
            .chain(self.zones.iter().filter_map(Zone::memory_look))
            .chain(self.zones.iter().filter_map(|zone| zone.watch.as_ref().map(Watch::next_due)))
            .chain(self.watch.as_ref().filter(|_| self.hung.is_none()).map(Watch::next_due))
            .chain(self.journal.next_due())
            .chain(self.log_due(now))
            .chain(self.over_at)
            .min()
    }

    fn handle(&mut self, source: Source, now: Instant) {
        match source {
            Source::Signal => self.on_signal(now),
            Source::Door => self.reception.admit(now),
            Source::Operator(id) => {
                if let Some(ask) = self.reception.hear(id, now) {
                    self.answer(id, ask, now);
                }
            }
            Source::KernelOutput => self.kernel.hear_output(now),
            Source::ZoneOutput(i) => {
                if let Some(zone) = self.zones.get_mut(i) {
                    zone.program.hear_output(now);
                }
            }
            Source::KernelControl => self.hear_kernel(now),
            Source::ZoneControl(i) => self.hear_zone(i, now),
            Source::ZoneRefusal(i) => {
                if let Some(zone) = self.zones.get_mut(i) {
                    zone.refusals.answer_waiting(now);
                }
            }
            Source::KernelRefusal => self.kernel_refusals.answer_waiting(now),
            Source::ServiceOutput(_)
            | Source::ServiceControl(_)
            | Source::ServiceEnd(_)
            | Source::ServiceRefusal(_) => self.handle_service(source, now),
            Source::Counters => self.hear_counters(now),
            Source::Journal => self.hear_journal(now),
            Source::KernelEnd => {
                self.hear_kernel(now); // its last words, while they can be told from the next one's
                if let Some(death) = self.kernel.reap(now) {
                    self.kernel_ended(&death, now);
                }
            }
            Source::ZoneEnd(i) => {
                self.hear_zone(i, now);
                let Some(zone) = self.zones.get_mut(i) else { return };
                if zone.program.reap(now).is_some() && zone.ended(now) {
                    self.kernel.tell(&Request::Detach { app: zone.app }, &[]);
                }
            }
        }
    }

    fn on_signal(&mut self, now: Instant) {
        let count = self.signals.count();
        let first = usize::from(self.over_at.is_none());
        if self.over_at.is_none() && count > 0 {
            info!("asked to stop");
            self.over_at = Some(now + STOP);
            self.zones.iter_mut().for_each(|zone| zone.stop(now));
            let log = |service: &&mut Service| service.kind != Kind::Log; // behind all others
            self.services.iter_mut().filter(log).for_each(|service| service.stop(now));
            if self.kernel.stop(now) {
                self.kernel.tell(&Request::Stop, &[]);
            }
        }
        if count > first {
            self.zones.iter_mut().for_each(|zone| zone.program.kill("asked to stop twice"));
            for service in &mut self.services {
                service.program.kill("asked to stop twice");
            }
            self.kernel.kill("asked to stop twice");
        }
    }

    fn hear_zone(&mut self, i: usize, now: Instant) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(zone) = self.zones.get_mut(i) else { return };
            match zone.hear(now) {
                Heard::Nothing => return,
                Heard::Something => {}
                Heard::Loaded => {
                    self.attach(i);
                    self.connect_to_services(i);
                }
            }
        }
    }

    /// Asks the kernel for rings for a zone that is loaded, if the kernel is ready.
    fn attach(&mut self, i: usize) {
        let Some(zone) = self.zones.get_mut(i) else { return };
        if zone.is_loaded() && self.kernel.supervision().state() == State::Running {
            zone.rings_asked();
            let (app, name, policy) = (zone.app, zone.name.clone(), zone.policy.clone());
            self.kernel.tell(&Request::Attach { app, name, policy }, &[]);
        }
    }

    /// Says in the log with what rights the others will run.
    pub(crate) fn tell_users(&self) {
        for zone in self.zones.iter().filter(|zone| zone.is_for_kernel()) {
            let app = &zone.name;
            warn!(app, "the kernel was trusted with this app: it can do all that the kernel can");
        }
        self.users.tell();
    }
}
