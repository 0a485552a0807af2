//! The kernel: its process, its start, the checks that it does not hang, and the blame for its end.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use config::Supervision;
use control::app::{AbsentApp, AppId};
use control::flight::{Charges, OngoingCall};
use control::incident::{Cause, Frame, IncidentId};
use control::kernel::{AnnouncedApp, KernelRequest, MOST_ABSENT};
use control::operator::{KernelStatus, ProgramUsage};
use control::query::AppCounters;
use sdk::Limit;
use sys::crash::CrashRecord;
use sys::process::PidNamespace;
use tracing::warn;

use crate::app::App;
use crate::attribution::{self, Attribution};
use crate::effects::{Attached, CrashedKernel, Effect, Effects, Fd, ProgramId, Record};
use crate::hang::answers::{AnswerProgress, Check};
use crate::hang::stops::StopWatch;
use crate::hang::workers::WorkerProgress;
use crate::hang::{CallProgress, DEFAULT_LONGEST_CALL, Progress};
use crate::incidents::Incidents;
use crate::program::{Executable, Program, ProgramExit, ProgramKind};
use crate::system::System;
use crate::usage::charges::ChargeWatch;
use crate::usage::leak::LeakDetector;
use crate::usage::meter::{LimitEvent, Meter, Severity};
use crate::usage::report;

/// The longest time in which a kernel that accepts switches answers. One that hangs is most likely ended before.
const ANSWER_TIME: Duration = Duration::from_secs(90);

/// The sockets and keys for each kernel.
pub trait KernelStart: fmt::Debug {
    /// The start request for a kernel with these apps, which becomes the user `run_as`, and the descriptors that belong to it. The
    /// listening sockets are as at the beginning, whatever an earlier kernel did with them.
    ///
    /// # Errors
    /// Why there is none, as a phrase.
    fn request(
        &mut self,
        run_as: Option<u32>,
        apps: Vec<AnnouncedApp>,
    ) -> Result<(KernelRequest, Vec<Fd>), String>;

    /// The addresses at which switches connect.
    fn addresses(&self) -> Vec<SocketAddr>;
}

/// The parts of the kernel.
#[derive(Debug)]
pub struct KernelParts {
    /// Its program.
    pub executable: Executable,
    /// How processes that it forks are made to end with it.
    pub apart: PidNamespace,
    /// Its sockets and keys.
    pub start: Box<dyn KernelStart>,
    /// The user that it becomes, if the monitor is root.
    pub run_as: Option<u32>,
    /// The user of the monitor.
    pub own_uid: u32,
    /// The apps that have a number and do not run.
    pub absent: Vec<AbsentApp>,
    /// Measures it.
    pub meter: Meter,
}

/// The kernel's program and what is known about the process.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) program: Program,
    effects: Effects,
    /// The usual program. An app can [need](App::kernel_program) another one.
    executable: Executable,
    start: Box<dyn KernelStart>,
    absent: Vec<AbsentApp>,
    /// The user that the kernel becomes, if the monitor is root.
    run_as: Option<u32>,
    own_uid: u32,
    /// Watches the calls of apps and the loops of workers while the process runs.
    progress: Option<(CallProgress, WorkerProgress)>,
    stop_watch: StopWatch,
    /// Where the process hung, leaked or exceeded a limit, if the monitor killed it for that.
    hung_in: Option<HungIn>,
    /// Whether an operator's change has stopped it, so that it starts again once it has ended.
    must_restart: bool,
    meter: Meter,
    leak: LeakDetector,
    charges: ChargeWatch,
    /// Watches whether it answers when it is asked for the apps' counters.
    answers: AnswerProgress,
    /// The apps' counters as it sent them last.
    counters: Vec<AppCounters>,
}

/// The blame for the end of a kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct EndOfKernel {
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

impl Kernel {
    /// Describes the kernel without starting it.
    pub fn new(
        parts: KernelParts,
        rules: &Supervision,
        (effects, incidents): (Effects, Incidents),
    ) -> Self {
        Self {
            program: Program::new(
                ProgramKind::Kernel,
                parts.executable.clone(),
                parts.apart,
                rules.kernel_limits,
                rules.kernel,
                (effects.clone(), incidents),
            ),
            effects,
            executable: parts.executable,
            start: parts.start,
            absent: parts.absent,
            run_as: parts.run_as,
            own_uid: parts.own_uid,
            progress: None,
            stop_watch: StopWatch::new(rules.hang),
            hung_in: None,
            must_restart: false,
            meter: parts.meter,
            leak: LeakDetector::new(rules.leak_growth, rules.leak_window),
            charges: ChargeWatch::default(),
            answers: AnswerProgress::new(rules.hang),
            counters: Vec::new(),
        }
    }

    /// Starts the process and sends it the settings and its apps.
    pub fn start(&mut self, apps: &mut [App], system: &dyn System, now: Instant) {
        for app in apps.iter_mut() {
            app.prepare_for_kernel(now);
        }
        let needed = apps.iter().find_map(App::kernel_program);
        self.program.set_executable(needed.unwrap_or(&self.executable).clone());
        self.program.start(now);
        self.meter.restart();
        self.leak.restart();
        self.charges.restart();
        self.stop_watch.restart();
        self.forget_counters();
        apps.iter_mut().for_each(App::kernel_started);
        let serving = apps.iter().filter(|app| app.role().serves());
        let announcements = serving.map(App::announcement).collect();
        let request = self.start.request(self.run_as, announcements);
        let request = request.and_then(|start| Ok((start, configs(apps, system)?)));
        let ((start, mut fds), configs) = match request {
            Ok(request) => request,
            Err(why) => {
                return self.program.kill(&format!("could not pass on what it needs: {why}"));
            }
        };
        fds.extend(configs);
        fds.extend(apps.iter().filter_map(App::object_for_kernel));
        let attached = fds.into_iter().map(Attached::Fd).chain([Attached::Recorder]);
        self.program.send_with(start, attached.collect());
        let runs = |absent: &&AbsentApp| {
            apps.iter().any(|app| app.id == absent.app && !app.is_stopped_by_operator())
        };
        let absent = self.absent.iter().filter(|absent| !runs(absent));
        let absent: Vec<AbsentApp> = absent.cloned().collect();
        if !absent.is_empty() {
            let apps = absent;
            self.program.send(KernelRequest::AbsentApps { apps }, Vec::new());
        }
        self.progress = Some((CallProgress::new(now), WorkerProgress::default()));
        self.hung_in = None;
    }

    /// The process could not be started.
    pub fn not_started(&mut self) {
        self.progress = None;
    }

    /// Notes, for this kernel and later ones, that an app does not run any more, and whether the switches lose its flows,
    /// groups and meters.
    pub fn add_absent(&mut self, absent: AbsentApp) {
        let known = &mut self.absent;
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
    pub fn absent_with_flows(&self) -> impl Iterator<Item = &AbsentApp> {
        self.absent.iter().filter(|absent| !absent.remove)
    }

    /// When [`check_hang`](Self::check_hang) is due.
    pub fn hang_check_due(&self) -> Option<Instant> {
        // A kernel that was killed for a hang is not checked again.
        self.progress.as_ref().filter(|_| self.hung_in.is_none()).map(|(calls, _)| calls.next_due())
    }

    /// Kills a process that hangs, in one of its apps or in its own code, or was stopped for too long.
    pub fn check_hang(&mut self, apps: &[App], system: &dyn System, now: Instant) {
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
    pub fn ended(
        &mut self,
        exit: &ProgramExit,
        record: Option<Box<Record>>,
        apps: &[App],
    ) -> EndOfKernel {
        self.forget_counters();
        let hung_in = self.hung_in.take();
        let Some(((watched, _), record)) = self.progress.take().zip(record) else {
            return EndOfKernel::default();
        };
        if !exit.by_itself && hung_in.is_none() {
            return EndOfKernel::default();
        }
        let Record { calls, crash, modules, recent, charges, ended_ns } = *record;
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
        let recent = attribution::recent(recent, crash.as_ref(), ended_ns, name_of);
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
                // Compiled code of sealed memory is none of the modules that the kernel has recorded.
                let native = apps.iter().filter(|app| !app.spec().keys.host.maps_sealed);
                let objects = native
                    .filter_map(|app| Some((app.id.0, app.name.clone(), app.object_for_kernel()?)));
                let objects = objects.collect();
                let crashed = CrashedKernel { incident: id, record, modules, objects };
                self.effects.add(self.program.id(), Effect::Backtrace(Box::new(crashed)));
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
    pub fn leak_rule(&self) -> (u64, Duration) {
        self.leak.rule()
    }

    /// Adds the backtrace of a crashed kernel to its incident.
    pub fn backtrace_made(&mut self, incident: IncidentId, frames: Vec<Frame>) {
        self.program.incidents_mut().all().amend(incident, |evidence| {
            if let Some(crash) = evidence.crash.as_mut().filter(|_| !frames.is_empty()) {
                crash.backtrace = frames;
            }
        });
    }

    /// Stops the process and starts another one as soon as it has ended.
    pub fn restart(&mut self, now: Instant) {
        self.stop(now);
        self.must_restart = true;
    }

    /// Whether the process is to start again after its end, or has ended for that.
    pub fn must_restart(&self) -> bool {
        self.must_restart
    }

    /// Returns once, when the process has ended after [`restart`](Self::restart), that it must be started.
    pub fn take_restart(&mut self) -> bool {
        self.program.is_stopped() && std::mem::take(&mut self.must_restart)
    }

    /// Asks the process to end, if it runs.
    pub fn stop(&mut self, now: Instant) {
        if self.program.request_stop(now) {
            self.program.send(KernelRequest::Stop, Vec::new());
        }
        self.must_restart = false;
    }

    /// The program that gets the other end of a connection for queries.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase.
    pub fn connection(&self) -> Result<ProgramId, String> {
        if !self.program.is_running() {
            return Err(format!("the kernel is {}", self.program.lifecycle().state()));
        }
        Ok(self.program.id())
    }

    /// Measures the process, and asks it for the apps' counters.
    pub fn measure(&mut self, apps: &[App], system: &dyn System, now: Instant) {
        let sample = system.sample(self.program.id());
        for event in self.meter.measure(now, sample) {
            self.apply(event, apps, system, now);
        }
        if let Some(sample) = sample.filter(|_| self.program.is_running()) {
            self.watch_memory(apps, sample.own_memory, system, now);
        }
        let program = self.program.id();
        if !self.program.is_running() || self.program.is_killed() {
            return self.answers.restart();
        }
        match self.answers.check(|| system.main_thread(program)) {
            Check::Ask(_) => self.effects.add(program, Effect::Count),
            Check::Wait => {}
            Check::Hung(silent) => {
                self.program.kill_for_own_failure(&silent.to_string());
                self.hung_in = Some(HungIn::KernelCode);
            }
        }
    }

    /// The kernel has sent the apps' counters. Returns whether it was asked.
    pub fn counted(&mut self, counters: Vec<AppCounters>) -> bool {
        let was_asked = self.answers.answered_last();
        if was_asked {
            self.counters = counters;
        }
        was_asked
    }

    /// The kernel could not be asked; the next measurement tries again.
    pub fn forget_counters(&mut self) {
        self.answers.restart();
        self.counters.clear();
    }

    /// The latest counters of the app with this name.
    pub fn counters_of(&self, app: &str) -> Option<&AppCounters> {
        self.counters.iter().find(|it| it.name == app)
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
    pub fn is_alive(&self) -> bool {
        !self.program.is_running() || self.answers.silent_for() < ANSWER_TIME
    }

    /// The kernel's status for operators.
    pub fn status(&self) -> KernelStatus {
        let lifecycle = self.program.lifecycle();
        KernelStatus {
            pid: self.program.pid(),
            uid: self.run_as.unwrap_or(self.own_uid),
            state: lifecycle.state(),
            restarts: lifecycle.restarts(),
            last_exit: lifecycle.last_exit().map(Into::into),
            listen: self.start.addresses().iter().map(ToString::to_string).collect(),
        }
    }

    /// Its measurements.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The kernel's usage for operators.
    pub fn usage(&self) -> ProgramUsage {
        let lifecycle = self.program.lifecycle();
        ProgramUsage {
            pid: self.program.pid(),
            restarts: lifecycle.restarts(),
            ..report::program_usage("kernel", "kernel", lifecycle.state(), &self.meter)
        }
    }
}

/// The configurations of the apps in the kernel, concatenated in sealed memory; `None` without such apps.
fn configs(apps: &[App], system: &dyn System) -> Result<Option<Fd>, String> {
    let in_kernel = apps.iter().filter(|app| app.runs_in_kernel());
    let configs: Vec<&[u8]> = in_kernel.map(App::config_for_kernel).collect();
    let sealed = || system.sealed("configurations", &configs.concat());
    (!configs.is_empty()).then(sealed).transpose()
}
