//! The monitor's event loop: waits for signals, operators and processes, and handles each event.
//!
//! One thread polls the signals, the admin socket and its connections, the descriptors of processes ([`Processes::sources`]) and
//! the clients of the service `apps`. No call in the loop waits for a peer. Each turn handles a bounded
//! number of messages of each peer, so that no peer can starve the others.
//!
//! After each event, [`Processes`] carries out the effects that [`Supervisor`] has decided, in their order, and returns events in turn.

mod answers;

use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant, SystemTime};

use control::incident::{Cause, Evidence, Program};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::process::Usage;
use tracing::info;

use crate::account_store::AccountStore;
use crate::admin_server::{AdminServer, OperatorId};
use crate::apps_service::AppsService;
use crate::deployment::Disk;
use crate::incident_store::IncidentStore;
use crate::northbound::SharedInput;
use crate::notify::{Condition, ServiceManager, Stage};
use crate::processes::{Port, Processes};
use crate::provenance::{self, FileFault};
use crate::signals::Signals;
use crate::watch::Watch;
use config::Limits;
#[cfg(debug_assertions)]
use supervisor::contract::Contract;
use supervisor::effects::{ClientId, Effect, Effects, ProcessEvent, ProgramId};
use supervisor::supervisor::End;
use supervisor::usage::MEASUREMENT_PERIOD;
use supervisor::usage::meter::{Meter, Sample};
use supervisor::{Event, Supervisor};

/// How long systemd waits for slow apps: one that never becomes ready must not keep it from regarding Rosemary as started.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest time that a stop waits for the disk to store the last incidents.
const FLUSH_TIME: Duration = Duration::from_millis(100);

/// The event loop and what it serves.
#[derive(Debug)]
pub(crate) struct EventLoop {
    started: Instant,
    supervisor: Supervisor,
    processes: Processes,
    effects: Effects,
    /// Checks the processes, in a build for tests.
    #[cfg(debug_assertions)]
    contract: Contract,
    apps_service: AppsService,
    /// The tokens and keys of the HTTP interface, if there is one.
    interface: Option<SharedInput>,
    incidents: IncidentStore,
    accounts: AccountStore,
    admin: AdminServer,
    disk: Disk,
    /// The files of apps, with `--watch`.
    watch: Option<Watch>,
    signals: Signals,
    /// Systemd, if it started the monitor.
    service_manager: Option<ServiceManager>,
    /// Measures the monitor itself.
    own_meter: Meter,
    measure_at: Instant,
}

/// A descriptor that became readable.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signal,
    Hangup,
    /// A plan of a change is made; the next turn uses it.
    Plan,
    AdminListener,
    Operator(OperatorId),
    /// A client of the service `apps`.
    AppsClient(ClientId),
    /// The kernel's replies with counters for clients of the service `apps`.
    CountersForApps,
    Process(ProgramId, Port),
}

impl EventLoop {
    /// Takes over the processes, which are not started yet, and the admin socket.
    pub(crate) fn new(
        (supervisor, processes, effects): (Supervisor, Processes, Effects),
        (incidents, accounts): (IncidentStore, AccountStore),
        interface: Option<SharedInput>,
        (admin, signals): (AdminServer, Signals),
        disk: Disk,
        service_manager: Option<ServiceManager>,
    ) -> Self {
        let now = Instant::now();
        let watch = disk.must_watch().then(|| Watch::new(now));
        Self {
            started: now,
            supervisor,
            processes,
            effects,
            #[cfg(debug_assertions)]
            contract: Contract::default(),
            apps_service: AppsService::default(),
            interface,
            incidents,
            accounts,
            admin,
            disk,
            watch,
            signals,
            service_manager,
            own_meter: Meter::new(Limits::none(), Vec::new()),
            measure_at: now,
        }
    }

    /// Starts the programs, and runs until a signal asks to stop and they have ended.
    ///
    /// Returns whether all of them have ended.
    ///
    /// # Errors
    /// The system refuses to poll.
    pub(crate) fn run(&mut self) -> io::Result<bool> {
        self.decide(Event::Start, Instant::now());
        loop {
            let now = Instant::now();
            self.set_time();
            self.advance(now);
            self.settle(now);
            if let Some(end) = self.supervisor.end(now) {
                self.settle(now);
                self.account_now(now);
                self.store_accounts();
                self.accounts.flush(FLUSH_TIME);
                self.incidents.flush(FLUSH_TIME);
                if end == End::AllEnded {
                    info!("Rosemary stopped");
                }
                return Ok(end == End::AllEnded);
            }
            for source in self.wait(now)? {
                let now = Instant::now();
                self.set_time();
                self.handle(source, now);
                self.settle(now);
            }
        }
    }

    /// Sets the time for incidents and accounts.
    fn set_time(&mut self) {
        self.incidents.set_time();
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.supervisor.programs_mut().accounts_mut().set_time(time.as_secs());
    }

    /// Queues the accounts that have changed for the disk.
    fn store_accounts(&mut self) {
        self.accounts.write(self.supervisor.programs_mut().accounts_mut().take_unstored());
    }

    /// Has the supervisor decide about an event.
    fn decide(&mut self, event: Event, now: Instant) {
        #[cfg(debug_assertions)]
        if let Event::Process(program, event) = &event {
            self.contract.event(*program, event).expect("processes keep the contract");
        }
        self.supervisor.handle(event, &self.processes, now);
    }

    /// Carries out what was decided, and handles what follows from it.
    fn settle(&mut self, now: Instant) {
        loop {
            let effects = self.effects.take();
            if effects.is_empty() {
                break;
            }
            #[cfg(debug_assertions)]
            for (program, effect) in &effects {
                self.contract.effect(*program, effect).expect("the supervisor keeps the contract");
            }
            let mut others = Vec::new();
            for (program, effect) in effects {
                match effect {
                    Effect::AddAppsClient(client, fd) => self.apps_service.add(client, &fd, now),
                    Effect::Decided(request, decision) => {
                        self.apps_service.decided(&request, decision);
                    }
                    effect => others.push((program, effect)),
                }
            }
            let events = self.processes.carry_out(others, now);
            self.decide_all(events, now);
        }
        self.record_faults();
        self.incidents.write();
    }

    /// Makes an incident of each file of the installation that was found to differ.
    fn record_faults(&self) {
        for FileFault { file, found, reaction } in provenance::take_faults() {
            let incidents = self.incidents.incidents();
            let evidence = Evidence::fact(format!("it {found}"));
            let id = incidents.open(Program::monitor(), Cause::DamagedFile { file }, evidence);
            incidents.reaction(id, reaction);
            incidents.close(id, None);
        }
    }

    fn decide_all(&mut self, events: Vec<(ProgramId, ProcessEvent)>, now: Instant) {
        for (program, event) in events {
            self.decide(Event::Process(program, event), now);
        }
    }

    /// Does what is due.
    fn advance(&mut self, now: Instant) {
        let events = self.processes.advance(now);
        self.decide_all(events, now);
        self.look_at_apps(now);
        self.decide(Event::Time, now);
        self.apps_service.give_up(now);
        self.read_for_clients(now);
        self.admin.drop_silent(now);
        if self.measure_at <= now {
            self.measure_at = now + MEASUREMENT_PERIOD;
            self.decide(Event::Measure, now);
            self.measure_monitor(now);
        }
        if self.accounts.is_due(now) {
            self.store_accounts();
        }
        self.report_to_service_manager(now);
    }

    /// The apps for which it has ended, and why they are held; `None` if a signal ended it.
    pub(crate) fn held(self) -> Option<String> {
        self.supervisor.held()
    }

    fn report_to_service_manager(&mut self, now: Instant) {
        let Some(manager) = &mut self.service_manager else { return };
        let is_late = self.started + PATIENCE <= now;
        let programs = self.supervisor.programs();
        let stage = match () {
            () if programs.is_stopping() => Stage::Stopping,
            () if self.supervisor.is_reloading() => Stage::Reloading,
            () if self.supervisor.has_started(is_late) => Stage::Ready,
            () => Stage::Starting,
        };
        let (is_alive, text) = (programs.is_alive(), programs.summary());
        manager.update(Condition { stage, is_alive, text }, now);
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let is_stopping = self.supervisor.programs().is_stopping();
        let programs = self.supervisor.next_due(now).into_iter();
        programs
            .chain(self.processes.next_due())
            .chain(self.admin.next_due())
            .chain([self.measure_at])
            .chain(self.watch.as_ref().filter(|_| !is_stopping).map(Watch::next_due))
            .chain(self.apps_service.next_due())
            .min()
    }

    /// Sleeps until a descriptor is readable or something is due.
    fn wait(&self, now: Instant) -> io::Result<Vec<Source>> {
        let operators = self.admin.operators().map(|(id, fd)| (Source::Operator(id), fd));
        // The listener follows the connections: their requests are read before a new connection may replace them.
        let listener = self.admin.listener().map(|fd| (Source::AdminListener, fd));
        let clients = self.apps_service.client_fds().map(|(it, fd)| (Source::AppsClient(it), fd));
        let counters = self.apps_service.kernel_fd().map(|fd| (Source::CountersForApps, fd));
        let clients = clients.chain(counters);
        let processes = self.processes.sources();
        let processes = processes.map(|(it, port, fd)| (Source::Process(it, port), fd));
        let hangup = self.signals.hangups().map(|fd| (Source::Hangup, fd));
        let plans = self.disk.fds();
        let plan = plans.iter().map(|fd| (Source::Plan, fd.as_fd()));
        let signals = [(Source::Signal, self.signals.as_fd())].into_iter();
        let signals = signals.chain(hangup).chain(plan);
        let polled = signals.chain(operators).chain(listener).chain(processes).chain(clients);
        let (sources, mut fds): (Vec<Source>, Vec<PollFd<'_>>) =
            polled.map(|(it, fd)| (it, PollFd::from_borrowed_fd(fd, PollFlags::IN))).unzip();
        let timeout = self.next_due(now).map(|at| at.saturating_duration_since(now)).map(|time| {
            // poll(2) may return up to a millisecond early. Without this the loop would spin until then.
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

    fn handle(&mut self, source: Source, now: Instant) {
        match source {
            Source::Signal => {
                if self.signals.take() {
                    self.decide(Event::Terminate, now);
                }
            }
            Source::Hangup => {
                self.signals.forget_hangups();
                self.decide(Event::Reload("SIGHUP"), now);
            }
            Source::Plan => {}
            Source::AdminListener => self.admin.accept(now),
            Source::Operator(id) => {
                if let Some(request) = self.admin.receive(id, now) {
                    self.answer(id, request, now);
                }
            }
            Source::AppsClient(client) => {
                if let Some(request) = self.apps_service.receive(client, now) {
                    self.decide(Event::Limit(request), now);
                }
                self.read_for_clients(now);
            }
            Source::CountersForApps => {
                if let Some(counted) = self.apps_service.receive_from_kernel() {
                    let apps = self.supervisor.programs().counters_for_apps(&counted.apps);
                    self.apps_service.answer_counters(&counted, apps);
                }
                self.read_for_clients(now);
            }
            Source::Process(program, Port::Requests) => self.answer_program(program, now),
            Source::Process(program, port) => {
                let events = self.processes.handle(program, port, now);
                self.decide_all(events, now);
            }
        }
    }

    /// Requests the counters from the kernel if a client of the service `apps` waits for them.
    fn read_for_clients(&mut self, now: Instant) {
        if !self.apps_service.must_read() {
            return;
        }
        if !self.apps_service.is_connected() {
            let kernel = self.supervisor.programs().kernel().connection();
            match kernel.and_then(|kernel| self.processes.connect_kernel(kernel)) {
                Ok(channel) => self.apps_service.connected(channel),
                Err(_) => return self.apps_service.disconnect(),
            }
        }
        self.apps_service.begin_reading(now);
    }

    /// Requests a reload if the file of an app has changed.
    fn look_at_apps(&mut self, now: Instant) {
        let programs = self.supervisor.programs();
        let Some(watch) = self.watch.as_mut().filter(|_| !programs.is_stopping()) else { return };
        let changed = watch.changed(programs.app_files(), now);
        for file in changed {
            info!(file = %file.display(), "the file of an app has changed");
            self.decide(Event::Reload("--watch"), now);
        }
    }

    fn measure_monitor(&mut self, now: Instant) {
        let own = own_sample();
        if let Some(sample) = &own {
            self.supervisor.programs_mut().account_for_monitor(sample, now);
        }
        // No event can follow: the monitor has no limits.
        self.own_meter.measure(now, own);
    }

    /// Charges what all programs have used until now, the monitor included.
    fn account_now(&mut self, now: Instant) {
        let programs = self.supervisor.programs_mut();
        programs.account_now(&self.processes, now);
        if let Some(sample) = own_sample() {
            programs.account_for_monitor(&sample, now);
        }
    }
}

/// How much the monitor uses, if the system says it.
fn own_sample() -> Option<Sample> {
    Usage::of(std::process::id()).ok().map(|own| Sample {
        cpu: own.cpu,
        memory: own.memory.all,
        own_memory: own.memory.all,
        threads: own.threads,
        descriptors: own.descriptors,
        ..Sample::default()
    })
}
