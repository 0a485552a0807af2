//! The invented processes: they carry out effects, start slowly, crash, hang, lie and leak.
//!
//! `machine/messages.rs` has their answers to messages, `machine/system.rs` the answers to questions about them.

mod messages;
mod system;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use control::app::AppId;
use control::flight::{Charges, OngoingCall};
use control::incident::{Cause, IncidentId};
use control::kernel::{AnnouncedApp, KernelReply};
use control::northbound::NorthboundReply;
use control::query::AppCounters;
use control::service::ServiceReply;
use control::zone::ZoneReply;
use supervisor::effects::{
    ClientId, Effect, Fd, IfFull, LimitRequest, Measure, ProcessEvent, ProgramId, Record, Reply,
    Spawn,
};
use supervisor::program::ProgramKind;
use sys::crash::CrashRecord;
use sys::process::Thread;

use crate::disk::Disk;
use crate::faults::{Armed, Hang};
use crate::tape::Tape;

/// Why a process ended, as only the simulation knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    /// It was asked to, or killed by the monitor.
    Requested,
    /// Its own code ended it.
    Own,
    /// An app that it hosts ended it, which its record shows.
    InApp(AppId),
    /// An app that it hosts ended it, or the kernel itself, and nothing shows which one.
    Unexplained,
    /// Another process ended it.
    Outside,
}

/// Something that a process will do.
#[derive(Debug)]
enum Plan {
    Send(Reply, usize),
    End(String, Cause, Truth),
    Counted,
    Close,
}

/// A process.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault or a step of its own")]
pub(crate) struct Process {
    /// Its kind.
    pub kind: ProgramKind,
    /// When it was started.
    pub since: Instant,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Whether the monitor has killed it.
    pub is_killed: bool,
    /// Whether its end is planned.
    ends: bool,
    /// The way in which its main thread hangs; `None` if the thread is well.
    pub hang: Option<Hang>,
    /// Since when it hangs or leaks.
    pub sick_since: Option<Instant>,
    /// The call of an app that does not return, if there is one.
    pub call: Option<OngoingCall>,
    /// The app whose memory grows in the kernel; `None` if that is the kernel's own.
    pub leaking_app: Option<AppId>,
    /// The rate at which its memory grows, in bytes per second.
    pub leak: u64,
    /// Memory beyond its usual one.
    pub excess: u64,
    /// Whether it takes up messages.
    pub is_deaf: bool,
    /// Whether it does not end when it is asked to.
    pub ignores_stop: bool,
    /// How long it survives a kill; `None` for ever.
    survives: Option<Duration>,
    /// The apps that a kernel knows.
    pub apps: Vec<AnnouncedApp>,
    /// The memory that a kernel charges to apps.
    charges: BTreeMap<AppId, u64>,
    /// The app's object.
    sha256: String,
    has_confined: bool,
}

/// A limit of an app in force, for the requests of clients of the service `apps`.
#[derive(Debug, Clone)]
pub(crate) struct AppsClient {
    /// Its number.
    pub number: ClientId,
    /// The name of the app.
    pub app: String,
}

/// The processes, and what they will do.
#[derive(Debug)]
pub(crate) struct Machine {
    clock: Rc<Cell<Instant>>,
    disk: Disk,
    fd: Fd,
    pub processes: BTreeMap<ProgramId, Process>,
    plans: BTreeMap<(Instant, u64), (ProgramId, Plan)>,
    backtraces: BTreeMap<(Instant, u64), (ProgramId, IncidentId)>,
    sequence: u64,
    pids: u32,
    calls: u64,
    /// The faults of the next processes, by the kind of the program.
    pub armed: Vec<(&'static str, Armed)>,
    /// Faults that took effect: the kind of the program, and the fault.
    pub happened: Vec<(&'static str, &'static str)>,
    /// The truth about the last end of a program.
    pub truth: BTreeMap<ProgramId, Truth>,
    /// Whether records name a wrong app for the end of the kernel.
    pub forges_records: bool,
    /// The apps that may be blamed for the last end of a kernel.
    pub suspects: Vec<AppId>,
    pub clients: Vec<AppsClient>,
    next_client: u64,
    log_silent_at: Option<(Instant, ProgramId)>,
    forwards_to: Option<ProgramId>,
}

/// The name of a kind of program, for faults.
pub(crate) fn kind_name(kind: &ProgramKind) -> &'static str {
    match kind {
        ProgramKind::Kernel => "kernel",
        ProgramKind::Zone(_) => "zone",
        ProgramKind::Northbound => "northbound",
        ProgramKind::Service(name) => name,
    }
}

/// The system's answer to a request to schedule threads.
fn scheduled(tape: &mut Tape) -> Result<(), String> {
    if tape.happens(200) { Err("it has less free processor time".into()) } else { Ok(()) }
}

fn exit(cause: &Cause) -> String {
    cause.to_string()
}

impl Machine {
    /// Without processes.
    pub(crate) fn new(clock: Rc<Cell<Instant>>, disk: Disk, fd: Fd) -> Self {
        Self {
            clock,
            disk,
            fd,
            processes: BTreeMap::new(),
            plans: BTreeMap::new(),
            backtraces: BTreeMap::new(),
            sequence: 0,
            pids: 1000,
            calls: 0,
            armed: Vec::new(),
            happened: Vec::new(),
            truth: BTreeMap::new(),
            forges_records: false,
            suspects: Vec::new(),
            clients: Vec::new(),
            next_client: 0,
            log_silent_at: None,
            forwards_to: None,
        }
    }

    /// The time.
    pub(crate) fn now(&self) -> Instant {
        self.clock.get()
    }

    fn plan(&mut self, program: ProgramId, after: Duration, plan: Plan) {
        self.sequence += 1;
        self.plans.insert((self.now() + after, self.sequence), (program, plan));
    }

    /// A process sends a message after some time.
    pub(crate) fn send(&mut self, program: ProgramId, after: Duration, reply: Reply, fds: usize) {
        self.plan(program, after, Plan::Send(reply, fds));
    }

    /// A process closes its control socket.
    pub(crate) fn close(&mut self, program: ProgramId) {
        self.plan(program, Duration::ZERO, Plan::Close);
    }

    /// A process ends after some time, unless its end is planned already.
    pub(crate) fn end(&mut self, program: ProgramId, after: Duration, cause: Cause, truth: Truth) {
        let Some(process) = self.processes.get_mut(&program).filter(|it| !it.ends) else { return };
        process.ends = true;
        self.plan(program, after, Plan::End(exit(&cause), cause, truth));
    }

    /// Processes that survive all kills end at last.
    pub(crate) fn release_survivors(&mut self) {
        let survives = |(program, it): (&ProgramId, &mut Process)| {
            let lasts = it.survives.is_none().then_some((*program, it.is_killed));
            it.survives.get_or_insert(Duration::ZERO);
            lasts
        };
        let survivors: Vec<_> = self.processes.iter_mut().filter_map(survives).collect();
        for (program, _) in survivors.into_iter().filter(|(_, is_killed)| *is_killed) {
            let cause = Cause::Signal { signal: 9 };
            self.plan(program, Duration::ZERO, Plan::End(exit(&cause), cause, Truth::Requested));
        }
    }

    /// When a process does something.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let plans = self.plans.keys().next().map(|(at, _)| *at);
        let backtraces = self.backtraces.keys().next().map(|(at, _)| *at);
        let log = self.log_silent_at.map(|(at, _)| at);
        plans.into_iter().chain(backtraces).chain(log).min()
    }

    /// The next event of a process that is due.
    pub(crate) fn next(&mut self) -> Option<(ProgramId, ProcessEvent)> {
        let now = self.now();
        if let Some((_, program)) = self.log_silent_at.take_if(|(at, _)| *at <= now) {
            let is_log = self.forwards_to == Some(program) && self.processes.contains_key(&program);
            return is_log.then_some((program, ProcessEvent::LogSilent(Duration::from_secs(10))));
        }
        if let Some(entry) = self.backtraces.first_entry().filter(|it| it.key().0 <= now) {
            let (program, incident) = entry.remove();
            return Some((program, ProcessEvent::Backtrace(incident, Vec::new())));
        }
        let entry = self.plans.first_entry().filter(|it| it.key().0 <= now)?;
        let (program, plan) = entry.remove();
        if let Plan::Counted = plan {
            let counters = self.counters(self.processes.get(&program)?);
            return counters.map(|it| (program, ProcessEvent::Counted(it)));
        }
        let process = self.processes.get_mut(&program)?;
        match plan {
            Plan::Counted => None,
            Plan::Send(reply, fds) => {
                match &reply {
                    Reply::Kernel(KernelReply::Ready)
                    | Reply::Zone(ZoneReply::Loaded { .. })
                    | Reply::Service(ServiceReply::Ready)
                    | Reply::Northbound(NorthboundReply::Ready) => process.is_ready = true,
                    _ => {}
                }
                let fds: Vec<OwnedFd> = (0..fds).filter_map(|_| self.fd.try_clone().ok()).collect();
                Some((program, ProcessEvent::Received(Box::new(reply), fds)))
            }
            Plan::Close => Some((program, ProcessEvent::Closed)),
            Plan::End(how, cause, truth) => {
                let others = process.apps.iter().map(|app| app.app);
                let other = others.into_iter().find(|app| truth != Truth::InApp(*app));
                let shown = match (truth, other) {
                    (Truth::InApp(_), Some(other)) if self.forges_records => Truth::InApp(other),
                    (truth, _) => truth,
                };
                let record = (process.kind == ProgramKind::Kernel)
                    .then(|| Box::new(record(process, shown, &cause)));
                if record.is_some() {
                    let call = process.call.map(|call| AppId(call.app.get()));
                    let called = if let Truth::InApp(app) = truth { Some(app) } else { None };
                    self.suspects =
                        [call, called, process.leaking_app].into_iter().flatten().collect();
                }
                self.truth
                    .insert(program, if process.is_killed { Truth::Requested } else { truth });
                self.forget(program);
                Some((program, ProcessEvent::Ended(how, cause, record)))
            }
        }
    }

    fn forget(&mut self, program: ProgramId) {
        if let Some(process) = self.processes.remove(&program)
            && let ProgramKind::Zone(app) = &process.kind
        {
            self.clients.retain(|client| client.app != *app);
        }
        self.plans.retain(|_, (of, _)| *of != program);
        if self.forwards_to == Some(program) {
            (self.forwards_to, self.log_silent_at) = (None, None);
        }
    }

    fn take_armed(&mut self, kind: &'static str, which: &[Armed]) -> Option<Armed> {
        let at = self.armed.iter().position(|(of, armed)| *of == kind && which.contains(armed))?;
        let (of, armed) = self.armed.swap_remove(at);
        self.happened.push((of, armed.name()));
        Some(armed)
    }

    /// Carries out effects in their order, as the contract says. Returns what happened at once.
    pub(crate) fn carry_out(
        &mut self,
        effects: Vec<(ProgramId, Effect)>,
        tape: &mut Tape,
    ) -> Vec<(ProgramId, ProcessEvent)> {
        let mut events = Vec::new();
        for (program, effect) in effects {
            if let Some(event) = self.carry_out_one(program, effect, tape) {
                events.push((program, event));
            }
        }
        events
    }

    fn carry_out_one(
        &mut self,
        program: ProgramId,
        effect: Effect,
        tape: &mut Tape,
    ) -> Option<ProcessEvent> {
        match effect {
            Effect::Spawn(spawn) => return Some(self.spawn(program, *spawn, tape)),
            Effect::Schedule(_) if program == ProgramId::MONITOR => {
                return Some(ProcessEvent::Scheduled(scheduled(tape)));
            }
            Effect::AddAppsClient(client, _) => {
                self.next_client += 1;
                self.clients
                    .push(AppsClient { number: ClientId(self.next_client), app: client.name });
                return None;
            }
            Effect::Backtrace(crashed) => {
                self.sequence += 1;
                let at = self.now() + Duration::from_millis(50 + tape.below(300));
                self.backtraces.insert((at, self.sequence), (program, crashed.incident));
                return None;
            }
            _ => {}
        }
        let process = self.processes.get_mut(&program)?;
        match effect {
            Effect::Send(message, attached, if_full) => {
                if process.is_deaf && tape.below(20) == 19 {
                    return match if_full {
                        IfFull::Kill => {
                            Some(ProcessEvent::Broken("it did not read its control socket".into()))
                        }
                        IfFull::Drop(_) => None,
                    };
                }
                drop(attached);
                self.received(program, *message, tape);
            }
            Effect::Confined(..) if std::mem::replace(&mut process.has_confined, true) => {
                let why = "it reported twice that it is confined";
                return Some(ProcessEvent::Broken(why.into()));
            }
            Effect::Kill => {
                process.is_killed = true;
                let survives = process.survives;
                // An end that was planned before comes from the kill now.
                process.ends = true;
                self.plans.retain(|_, (of, plan)| *of != program || !matches!(plan, Plan::End(..)));
                if let Some(survives) = survives {
                    let cause = Cause::Signal { signal: 9 };
                    self.plan(program, survives, Plan::End(exit(&cause), cause, Truth::Requested));
                }
            }
            Effect::Abandon | Effect::Forget => self.forget(program),
            Effect::Count => {
                if self.take_armed("kernel", &[Armed::DoesNotCount]).is_some() {
                    return Some(ProcessEvent::NotCounted);
                }
                let process = self.processes.get(&program)?;
                if process.hang.is_none() {
                    self.plan(program, Duration::from_millis(1 + tape.below(20)), Plan::Counted);
                }
            }
            Effect::Schedule(_) => return Some(ProcessEvent::Scheduled(scheduled(tape))),
            Effect::ForwardLog(_) => self.forwards_to = Some(program),
            Effect::EndLog => (self.forwards_to, self.log_silent_at) = (None, None),
            _ => {}
        }
        None
    }

    fn spawn(&mut self, program: ProgramId, spawn: Spawn, tape: &mut Tape) -> ProcessEvent {
        let kind = kind_name(&spawn.kind);
        if self.take_armed(kind, &[Armed::NotStarted]).is_some() {
            return ProcessEvent::NotStarted("could not execute it: no processes are left".into());
        }
        self.pids += 1;
        let survives = match self.take_armed(kind, &[Armed::SurvivesKill, Armed::SurvivesEver]) {
            Some(Armed::SurvivesKill) => Some(Duration::from_millis(500 + 500 * tape.below(20))),
            Some(_) => None,
            None => Some(Duration::from_millis(tape.below(10))),
        };
        let ignores_stop = self.take_armed(kind, &[Armed::IgnoresStop]).is_some();
        let process = Process {
            kind: spawn.kind,
            since: self.now(),
            is_ready: false,
            is_killed: false,
            ends: false,
            hang: None,
            sick_since: None,
            call: None,
            leaking_app: None,
            leak: 0,
            excess: 0,
            is_deaf: false,
            ignores_stop,
            survives,
            apps: Vec::new(),
            charges: BTreeMap::new(),
            sha256: String::new(),
            has_confined: false,
        };
        self.processes.insert(program, process);
        ProcessEvent::Started(self.pids)
    }

    /// A call of an app begins that does not return.
    pub(crate) fn begin_call(&mut self, program: ProgramId, app: NonZeroU16) {
        self.calls += 1;
        let call = OngoingCall { slot: 0, app, number: self.calls };
        let now = self.now();
        if let Some(process) = self.processes.get_mut(&program) {
            process.call = Some(call);
            process.sick_since = Some(now);
        }
    }

    /// The log service does not answer.
    pub(crate) fn make_log_silent(&mut self, tape: &mut Tape) -> bool {
        let Some(program) = self.forwards_to else { return false };
        let now = self.now();
        self.log_silent_at = Some((now + Duration::from_millis(1_100), program));
        // A log service that hangs answers no question.
        if let Some(process) = self.processes.get_mut(&program).filter(|_| tape.happens(700)) {
            process.hang = Some(Hang::Sleeps);
            process.sick_since.get_or_insert(now);
        }
        true
    }

    /// A request of a client of the service `apps`.
    pub(crate) fn limit_request(&mut self, tape: &mut Tape) -> Option<LimitRequest> {
        let client = tape.one(&self.clients)?.clone();
        let apps: BTreeSet<String> = self
            .processes
            .values()
            .filter_map(|it| {
                if let ProgramKind::Zone(app) = &it.kind { Some(app.clone()) } else { None }
            })
            .collect();
        let apps: Vec<String> = apps.into_iter().collect();
        let app = tape.one(&apps)?.clone();
        let limit = match tape.below(3) {
            0 => None,
            1 => Some(Measure::Suspend),
            _ => Some(Measure::Throttle(100)),
        };
        let limit =
            limit.map(|it| (it, Duration::from_secs(1 + tape.below(20)), "much".to_owned()));
        let id = tape.below(1000);
        Some(LimitRequest { client: client.number, id, by: client.app, app, limit })
    }

    /// The references to the descriptor that stands for all.
    pub(crate) fn references(&self) -> usize {
        std::sync::Arc::strong_count(&self.fd)
    }

    /// The memory of a process now.
    fn memory(&self, process: &Process) -> u64 {
        let now = self.now();
        let grown = process.sick_since.map_or(0, |since| {
            let seconds = now.saturating_duration_since(since).as_millis();
            u64::try_from(seconds).unwrap_or(u64::MAX).saturating_mul(process.leak) / 1000
        });
        (20 << 20) + process.excess + grown
    }

    /// The counters of a kernel. A zone that hangs handles none of the events that wait for it.
    fn counters(&self, kernel: &Process) -> Option<Vec<AppCounters>> {
        let hangs = |app: &AnnouncedApp| {
            let is_its =
                |kind: &ProgramKind| matches!(kind, ProgramKind::Zone(name) if *name == app.name);
            self.processes.values().any(|it| is_its(&it.kind) && it.hang.is_some())
        };
        let handled = u64::try_from(self.now().saturating_duration_since(kernel.since).as_millis());
        let counters = |app: &AnnouncedApp| {
            let (handled, waiting) = if hangs(app) { (0, 5) } else { (handled.unwrap_or(0), 0) };
            AppCounters { name: app.name.clone(), handled, waiting, ..AppCounters::default() }
        };
        (!kernel.is_deaf).then(|| kernel.apps.iter().map(counters).collect())
    }

    fn thread(&self, process: &Process) -> Thread {
        let lived = self.now().saturating_duration_since(process.since);
        let hung = process
            .sick_since
            .filter(|_| process.hang.is_some())
            .map_or(Duration::ZERO, |since| self.now().saturating_duration_since(since));
        let used = lived.saturating_sub(hung) / 20;
        match process.hang {
            None | Some(Hang::Sleeps) => Thread { used, runs: false, stopped: false },
            Some(Hang::Stopped) => Thread { used, runs: false, stopped: true },
            Some(Hang::Spins) => Thread { used: used + hung, runs: true, stopped: false },
        }
    }
}

/// The record of a kernel that ends.
fn record(process: &Process, truth: Truth, cause: &Cause) -> Record {
    let call = |app: AppId| {
        let app = NonZeroU16::new(app.0)?;
        Some(OngoingCall { slot: 0, app, number: 1 })
    };
    let calls: Vec<OngoingCall> = match truth {
        Truth::InApp(app) => call(app).into_iter().collect(),
        _ => process.call.into_iter().collect(),
    };
    let signal = if let Cause::Signal { signal } = cause { Some(*signal) } else { None };
    let crash = CrashRecord {
        signal,
        code: i32::from(truth != Truth::Outside),
        address: 0x10,
        sent_itself: false,
        slot: matches!(truth, Truth::InApp(_)).then_some(0),
        registers: Vec::new(),
        stack: Vec::new(),
    };
    // A process that the monitor kills, or the system at its memory limit, records nothing.
    let is_recorded = !matches!(cause, Cause::Signal { signal: 9 } | Cause::Limit { .. });
    let charges = Charges::of(process.charges.iter().map(|(app, bytes)| (*app, *bytes)));
    Record {
        calls,
        crash: is_recorded.then_some(crash),
        modules: Vec::new(),
        recent: Vec::new(),
        charges,
        ended_ns: 0,
    }
}
