//! The kernel as the monitor sees it: its process, its start, and the checks that it does not hang.

use std::fs::File;
use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use control::app::{AbsentApp, AppId};
use control::flight::{Charges, OngoingCall};
use control::incident::Cause;
use control::kernel::{KernelRequest, MOST_ABSENT};
use sdk::Limit;
use sys::channel::{Channel, ChannelError};
use sys::clock::now_ns;
use sys::crash::CrashRecord;
use sys::process::PidNamespace;
use tracing::warn;

use crate::attribution::{self, Attribution};
use crate::backtrace::{CrashedKernel, NotMade, PendingBacktrace};
use crate::kernel_settings::KernelSettings;
use crate::process_table::Environment;
use crate::processes::Processes;
use crate::usage::counters::KernelCounters;
use config::Supervision;
use control::operator::{KernelStatus, ProgramUsage};
use supervisor::app::App;
use supervisor::effects::{Attached, Fd, Record};
use supervisor::hang::stops::StopWatch;
use supervisor::hang::workers::WorkerProgress;
use supervisor::hang::{CallProgress, DEFAULT_LONGEST_CALL, Progress};
use supervisor::program::{Program, ProgramExit, ProgramKind};
use supervisor::system::System;
use supervisor::usage::charges::ChargeWatch;
use supervisor::usage::leak::LeakDetector;
use supervisor::usage::meter::{LimitEvent, Meter, Severity};
use supervisor::usage::report;

/// The kernel's program and what the monitor knows about the process.
#[derive(Debug)]
pub(crate) struct KernelProcess {
    pub(crate) program: Program,
    settings: KernelSettings,
    /// The user that the kernel becomes, if the monitor is root.
    run_as: Option<u32>,
    /// Watches the calls of apps and the loops of workers while the process runs.
    progress: Option<(CallProgress, WorkerProgress)>,
    stop_watch: StopWatch,
    /// Where the process hung, leaked or exceeded a limit, if the monitor killed it for that.
    hung_in: Option<HungIn>,
    /// Whether an operator's change has stopped it, so that it starts again once it has ended.
    must_restart: bool,
    /// The program's file as it was at the start of the process, for a backtrace.
    executable: Option<File>,
    backtrace: Option<PendingBacktrace>,
    /// The user for the process that reads the files of a crashed kernel, if the monitor is root.
    reader: Option<u32>,
    meter: Meter,
    leak: LeakDetector,
    charges: ChargeWatch,
    pub(crate) counters: KernelCounters,
}

/// The blame for the end of a kernel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndOfKernel {
    /// The app, if the evidence carries it.
    pub(crate) blamed: Option<AppId>,
    /// Whether the kernel recorded that another process sent the signal.
    pub(crate) from_outside: bool,
    /// Whether code in the kernel ended it, and the evidence names neither an app nor the kernel's own code.
    pub(crate) is_unexplained: bool,
}

/// Where a kernel hung, leaked or exceeded a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HungIn {
    App(AppId),
    KernelCode,
    /// It leaked or exceeded a limit, and the memory is charged to no app.
    Unknown,
}

impl KernelProcess {
    /// Describes the kernel without starting it.
    pub(crate) fn new(settings: KernelSettings, rules: &Supervision, around: &Environment) -> Self {
        let executable = around.installation.kernel.clone();
        Self {
            program: Program::new(
                ProgramKind::Kernel,
                executable,
                PidNamespace::find(),
                rules.kernel_limits,
                rules.kernel,
                (around.effects.clone(), around.incidents.clone()),
            ),
            settings,
            run_as: around.users.for_kernel(),
            progress: None,
            stop_watch: StopWatch::new(rules.hang),
            hung_in: None,
            must_restart: false,
            executable: None,
            backtrace: None,
            reader: around.users.for_nobody(),
            meter: around.enforcement.meter(rules.kernel_limits),
            leak: LeakDetector::new(rules.leak_growth, rules.leak_window),
            charges: ChargeWatch::default(),
            counters: KernelCounters::default(),
        }
    }

    /// Starts the process and sends it the settings and its apps.
    pub(crate) fn start(&mut self, apps: &mut [App], now: Instant) {
        for app in apps.iter_mut() {
            app.prepare_for_kernel(now);
        }
        self.executable = File::open(self.program.executable()).ok();
        self.program.start(now);
        self.meter.restart();
        self.leak.restart();
        self.charges.restart();
        self.stop_watch.restart();
        apps.iter_mut().for_each(App::kernel_started);
        let serving = apps.iter().filter(|app| app.role().serves());
        let announcements = serving.map(App::announcement).collect();
        let request = self.settings.start_request(self.run_as, announcements);
        let request = request.and_then(|start| Ok((start, configs(apps).transpose()?)));
        let ((start, mut fds), configs) = match request {
            Ok(request) => request,
            Err(error) => {
                let why = format!("could not pass on what it needs: {error}");
                return self.program.kill(&why);
            }
        };
        fds.extend(configs.map(Fd::new));
        fds.extend(apps.iter().filter_map(App::object_for_kernel));
        let attached = fds.into_iter().map(Attached::Fd).chain([Attached::Recorder]);
        self.program.send_with(start, attached.collect());
        let runs = |absent: &&AbsentApp| {
            apps.iter().any(|app| app.id == absent.app && !app.is_stopped_by_operator())
        };
        let absent = self.settings.absent.iter().filter(|absent| !runs(absent));
        let absent: Vec<AbsentApp> = absent.cloned().collect();
        if !absent.is_empty() {
            let apps = absent;
            self.program.send(KernelRequest::AbsentApps { apps }, Vec::new());
        }
        self.progress = Some((CallProgress::new(now), WorkerProgress::default()));
        self.hung_in = None;
    }

    /// The process could not be started.
    pub(crate) fn not_started(&mut self) {
        self.progress = None;
    }

    /// Notes, for this kernel and later ones, that an app does not run any more, and whether the switches lose its flows,
    /// groups and meters.
    pub(crate) fn add_absent(&mut self, absent: AbsentApp) {
        let known = &mut self.settings.absent;
        known.retain(|it| it.app != absent.app);
        if known.len() >= MOST_ABSENT {
            known.remove(0);
        }
        known.push(absent.clone());
        if self.program.is_running() {
            self.program.send(KernelRequest::AbsentApps { apps: vec![absent] }, Vec::new());
        }
    }

    /// The apps that do not run and keep their flows, groups and meters.
    pub(crate) fn absent_with_flows(&self) -> impl Iterator<Item = &AbsentApp> {
        self.settings.absent.iter().filter(|absent| !absent.remove)
    }

    /// When [`check_hang`](Self::check_hang) is due.
    pub(crate) fn hang_check_due(&self) -> Option<Instant> {
        // A kernel that was killed for a hang is not checked again.
        self.progress.as_ref().filter(|_| self.hung_in.is_none()).map(|(calls, _)| calls.next_due())
    }

    /// Kills a process that hangs, in one of its apps or in its own code, or was stopped for too long.
    pub(crate) fn check_hang(&mut self, apps: &[App], system: &dyn System, now: Instant) {
        if self.hang_check_due().is_none_or(|at| now < at) {
            return;
        }
        let Some((calls, workers)) = &mut self.progress else { return };
        let program = self.program.id();
        let thread = |worker| system.worker(program, worker);
        let stopped = self.stop_watch.check(system.main_thread(program));
        let turns = system.turns(program).into_iter();
        let stuck = workers.check(turns, thread).map(|stuck| stuck.to_string());
        if let Some(why) = stopped.map(|stopped| stopped.to_string()).or(stuck) {
            self.program.kill_for_own_failure(&why);
            self.hung_in = Some(HungIn::KernelCode);
            return;
        }
        let app = |number: NonZeroU16| apps.iter().find(|app| app.id.0 == number.get());
        let longest = |number| app(number).map_or(DEFAULT_LONGEST_CALL, App::longest_call);
        let progress =
            |call: &OngoingCall| thread(call.slot).map_or(Progress::Clock, Progress::Worker);
        let ongoing = system.calls(program).into_iter();
        if let Some(hung) = calls.check(now, ongoing, progress, longest) {
            let name = app(hung.app).map_or("", |app| &*app.name);
            self.program.kill_for_own_failure(&format!("its app {name} hung: {hung}"));
            self.hung_in = Some(HungIn::App(AppId(hung.app.get())));
        }
    }

    /// The process has ended. Returns the blame, and adds the evidence to the incident.
    pub(crate) fn ended(
        &mut self,
        exit: &ProgramExit,
        record: Option<Box<Record>>,
        apps: &[App],
        now: Instant,
    ) -> EndOfKernel {
        self.counters.disconnect();
        let hung_in = self.hung_in.take();
        let Some(((watched, _), record)) = self.progress.take().zip(record) else {
            return EndOfKernel::default();
        };
        if !exit.by_itself && hung_in.is_none() {
            return EndOfKernel::default();
        }
        let Record { calls, crash, modules, recent, charges } = *record;
        let app = |number: u16| apps.iter().find(|app| app.id.0 == number);
        let lasting = calls.iter().copied().filter(|call| watched.has_lasted(call)).collect();
        let calls: Vec<_> = calls.into_iter().filter(|it| app(it.app.get()).is_some()).collect();
        // The monitor itself ended a kernel that hung, and its record is of an earlier moment, if there is one.
        let crash = crash.filter(|_| hung_in.is_none());
        let Attribution { blamed, called } = match hung_in {
            Some(HungIn::App(app)) => Attribution::of_app(Some(app), &calls),
            // The call of an app may be noted while a worker hangs elsewhere: that app did not cause the hang.
            Some(HungIn::KernelCode | HungIn::Unknown) => Attribution::of_app(None, &calls),
            None if matches!(exit.cause, Cause::Limit { .. }) => {
                Attribution::of_app(self.app_that_took_memory(&charges, lasting), &calls)
            }
            None => Attribution::of_end(&calls, &modules, crash.as_ref(), &exit.cause),
        };
        let from_outside = crash.as_ref().is_some_and(CrashRecord::is_from_outside);
        let name_of = |number: u16| Some(app(number)?.name.clone());
        let recent = attribution::recent(recent, crash.as_ref(), now_ns(), name_of);
        let incidents = self.program.incidents_mut();
        if let Some(id) = incidents.last() {
            let name = |id: AppId| name_of(id.0);
            incidents.all().amend(id, |evidence| {
                evidence.blamed = blamed.and_then(name);
                evidence.called = called.into_iter().filter_map(name).collect();
                evidence.recent = recent;
                if let Some(record) = &crash {
                    evidence.facts.push(attribution::fact(record));
                    evidence.crash = attribution::crash(record, &modules);
                }
            });
            if let Some(record) = crash.filter(|it| it.signal.is_some()) {
                let program = self.executable.as_ref().map(AsFd::as_fd);
                let crashed = CrashedKernel { record, modules, program, run_as: self.reader };
                let object_of = |number| {
                    app(number).and_then(|it| Some((it.name.clone(), it.object_for_kernel()?)))
                };
                match crashed.begin_backtrace(id, object_of, now) {
                    Ok(begun) => self.backtrace = Some(begun),
                    Err(error) => warn!(%error, "could not make a backtrace of the kernel"),
                }
            }
        }
        let is_unexplained = blamed.is_none()
            && match hung_in {
                Some(place) => place == HungIn::Unknown,
                None => !from_outside && attribution::is_by_code(&exit.cause),
            };
        EndOfKernel { blamed, from_outside, is_unexplained }
    }

    /// The app to which the memory of a kernel that ended at its limit is charged: by its calls, or by the only call that
    /// lasts for some time.
    fn app_that_took_memory(&self, charges: &Charges, lasting: Vec<OngoingCall>) -> Option<AppId> {
        let memory = self.meter.sample().map_or(0, |sample| sample.own_memory);
        let blamed = self.charges.charged(memory, charges);
        blamed.map(|it| it.app).or_else(|| {
            let mut lasting = lasting.into_iter();
            let app = lasting.next()?.app;
            lasting.all(|other| other.app == app).then_some(AppId(app.get()))
        })
    }

    /// The growth of memory in bytes that is a leak, and the time of that growth.
    pub(crate) fn leak_rule(&self) -> (u64, Duration) {
        self.leak.rule()
    }

    /// When [`advance_backtrace`](Self::advance_backtrace) is due.
    pub(crate) fn backtrace_due(&self) -> Option<Instant> {
        self.backtrace.as_ref().map(PendingBacktrace::next_due)
    }

    /// Adds the backtrace of a crashed kernel to its incident once it is made.
    pub(crate) fn advance_backtrace(&mut self, now: Instant) {
        if self.backtrace_due().is_none_or(|at| now < at) {
            return;
        }
        let Some(backtrace) = &mut self.backtrace else { return };
        match backtrace.check(now) {
            Ok(None) => return,
            Ok(Some((id, frames))) => {
                self.program.incidents_mut().all().amend(id, |evidence| {
                    if let Some(crash) = evidence.crash.as_mut().filter(|_| !frames.is_empty()) {
                        crash.backtrace = frames;
                    }
                });
            }
            Err(NotMade) => {}
        }
        self.backtrace = None;
    }

    /// Stops the process and starts another one as soon as it has ended.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.stop(now);
        self.must_restart = true;
    }

    /// Whether the process is to start again after its end, or has ended for that.
    pub(crate) fn must_restart(&self) -> bool {
        self.must_restart
    }

    /// Returns once, when the process has ended after [`restart`](Self::restart), that it must be started.
    pub(crate) fn take_restart(&mut self) -> bool {
        self.program.is_stopped() && std::mem::take(&mut self.must_restart)
    }

    /// Asks the process to end, if it runs.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.program.request_stop(now) {
            self.program.send(KernelRequest::Stop, Vec::new());
        }
        self.must_restart = false;
    }

    /// Gives the kernel one end of a new connection for queries and returns the other.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase.
    pub(crate) fn connect(&self, processes: &Processes) -> Result<Channel, String> {
        if !self.program.is_running() {
            return Err(format!("the kernel is {}", self.program.lifecycle().state()));
        }
        let (our_end, kernel_end) = Channel::pair().map_err(|error| error.to_string())?;
        let (program, fds) = (self.program.id(), [kernel_end.as_fd()]);
        match processes.send_for_operator(program, KernelRequest::Operator, &fds) {
            Ok(()) => Ok(our_end),
            Err(ChannelError::WouldBlock) => Err("too many operators connect to the kernel".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Measures the process, and asks it for the apps' counters.
    pub(crate) fn measure(&mut self, apps: &[App], processes: &Processes, now: Instant) {
        let sample = processes.sample(self.program.id());
        for event in self.meter.measure(now, sample) {
            self.apply(event, apps, processes, now);
        }
        if let Some(sample) = sample.filter(|_| self.program.is_running()) {
            self.watch_memory(apps, sample.own_memory, processes, now);
        }
        // While the kernel is away there is no connection, and the next measurement tries again.
        if !self.counters.is_connected()
            && let Ok(channel) = self.connect(processes)
        {
            self.counters.connected(channel);
        }
        self.counters.request(now);
    }

    /// Alerts the operator, or kills a process that exceeds a limit which only the monitor enforces.
    fn apply(&mut self, event: LimitEvent, apps: &[App], system: &dyn System, now: Instant) {
        match event {
            LimitEvent::Alert { limit, value, severity } => {
                let bound = self.meter.limits().of(limit);
                let (name, uses) = (limit.name(), limit.shown(value));
                let (soft, hard) = (limit.shown(bound.soft), limit.shown(bound.hard));
                match severity {
                    Severity::Soft => {
                        warn!(limit = name, uses, soft, hard, "the kernel exceeded a soft limit");
                    }
                    Severity::Hard => {
                        warn!(limit = name, uses, hard, "the kernel reached a hard limit");
                    }
                }
            }
            LimitEvent::Kill { limit, value, .. } => {
                let (name, hard) = (limit.name(), limit.shown(self.meter.limits().of(limit).hard));
                let used = limit.shown(value);
                let charged = self.charged(apps, value, system).filter(|_| limit == Limit::Memory);
                let taken = charged.as_ref().map_or_else(String::new, |(_, it)| format!("; {it}"));
                let why = format!("it used {used}, above its {name} limit of {hard}{taken}");
                self.hung_in = Some(charged.map_or(HungIn::Unknown, |(app, _)| HungIn::App(app)));
                // The network needs it again at once.
                self.program.kill_for_limit(limit, &why, now);
            }
        }
    }

    /// The app to which the kernel's memory is charged, and the evidence as a phrase.
    fn charged(&self, apps: &[App], memory: u64, system: &dyn System) -> Option<(AppId, String)> {
        let blamed = self.charges.charged(memory, &system.charges(self.program.id()))?;
        let app = apps.iter().find(|it| it.id == blamed.app)?;
        Some((blamed.app, blamed.phrase(&app.name)))
    }

    /// Kills a process that leaks. While its memory rises, it charges the calls of its apps.
    fn watch_memory(&mut self, apps: &[App], memory: u64, system: &dyn System, now: Instant) {
        if let Some(leak) = self.leak.measure(now, memory) {
            let (why, place) = match self.charged(apps, memory, system) {
                Some((app, charged)) => (format!("{charged}; {leak}"), HungIn::App(app)),
                None => (leak.to_string(), HungIn::Unknown),
            };
            self.program.kill_for_leak(&why);
            self.hung_in = Some(place);
            return;
        }
        let charges = || system.charges(self.program.id());
        let hosts_apps = apps.iter().any(App::runs_in_kernel);
        let is_rising = hosts_apps && self.leak.is_rising();
        if let Some(charge) = self.charges.measure(is_rising, memory, charges) {
            self.program.send(KernelRequest::ChargeMemory { charge }, Vec::new());
        }
    }

    /// Whether it answers, or is started or ended by its policy, which limits the time of both.
    pub(crate) fn is_alive(&self, now: Instant) -> bool {
        !self.program.is_running() || self.counters.are_answered(now)
    }

    /// The kernel's status for operators.
    pub(crate) fn status(&self) -> KernelStatus {
        let lifecycle = self.program.lifecycle();
        KernelStatus {
            pid: self.program.pid(),
            uid: self.run_as.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            state: lifecycle.state(),
            restarts: lifecycle.restarts(),
            last_exit: lifecycle.last_exit().map(Into::into),
            listen: self.settings.addresses().map(|it| it.to_string()).collect(),
        }
    }

    /// The kernel's usage for operators.
    pub(crate) fn usage(&self) -> ProgramUsage {
        let lifecycle = self.program.lifecycle();
        ProgramUsage {
            pid: self.program.pid(),
            restarts: lifecycle.restarts(),
            ..report::program_usage("kernel", "kernel", lifecycle.state(), &self.meter)
        }
    }
}

/// The configurations of the apps in the kernel, concatenated in sealed memory; `None` without such apps.
fn configs(apps: &[App]) -> Option<io::Result<OwnedFd>> {
    let in_kernel = apps.iter().filter(|app| app.runs_in_kernel());
    let configs: Vec<&[u8]> = in_kernel.map(App::config_for_kernel).collect();
    (!configs.is_empty()).then(|| sys::shm::sealed_copy("configurations", &configs.concat()))
}
