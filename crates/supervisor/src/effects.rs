//! Effects: the monitor carries them out in the order of the decisions. Events: it reports the results.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::Limits;
use control::flight::{Charges, LoadedModule, OngoingCall, RecentEvent};
use control::incident::{Cause, Frame, IncidentId};
use control::kernel::{KernelReply, KernelRequest};
use control::log::LogLevel;
use control::northbound::{NorthboundReply, NorthboundRequest};
use control::query::AppCounters;
use control::service::{ServiceClient, ServiceReply, ServiceRequest};
use control::zone::{ZoneReply, ZoneRequest};
pub use sdk::services::apps::Measure;
use serde::Serialize;
use sys::crash::CrashRecord;
use sys::process::PidNamespace;
use sys::sandbox::Report;

use crate::program::{Executable, ProgramKind};
use crate::sessions::schedule::Deadline;

/// A descriptor that a message carries. Nothing here looks into it.
pub type Fd = Arc<OwnedFd>;

/// A descriptor of a message.
#[derive(Debug)]
pub enum Attached {
    /// This descriptor.
    Fd(Fd),
    /// Memory in which the process records its calls, and which [`System`](crate::system::System) reads.
    Recorder,
    /// Its end of a channel over which it sends requests of operators.
    Requests,
}

impl From<Fd> for Attached {
    fn from(fd: Fd) -> Self {
        Self::Fd(fd)
    }
}

/// A program. No two programs of one monitor ever have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramId(u64);

impl ProgramId {
    /// The monitor itself, which provides the service `apps`.
    pub const MONITOR: Self = Self(0);
}

/// A message to a program, on its control socket.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Message {
    /// To the kernel.
    Kernel(KernelRequest),
    /// To a zone.
    Zone(ZoneRequest),
    /// To a service.
    Service(ServiceRequest),
    /// To the HTTP interface.
    Northbound(NorthboundRequest),
}

impl From<KernelRequest> for Message {
    fn from(request: KernelRequest) -> Self {
        Self::Kernel(request)
    }
}

impl From<ZoneRequest> for Message {
    fn from(request: ZoneRequest) -> Self {
        Self::Zone(request)
    }
}

impl From<ServiceRequest> for Message {
    fn from(request: ServiceRequest) -> Self {
        Self::Service(request)
    }
}

impl From<NorthboundRequest> for Message {
    fn from(request: NorthboundRequest) -> Self {
        Self::Northbound(request)
    }
}

/// A message of a program, on its control socket.
#[derive(Debug)]
pub enum Reply {
    /// A reply of the kernel.
    Kernel(KernelReply),
    /// A reply of a zone.
    Zone(ZoneReply),
    /// A reply of a service.
    Service(ServiceReply),
    /// A reply of the HTTP interface.
    Northbound(NorthboundReply),
}

/// What happens if a program does not read its control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfFull {
    /// It is killed.
    Kill,
    /// The message is dropped, and logged if this says what is lost with it.
    Drop(Option<&'static str>),
}

/// How a process is started.
#[derive(Debug)]
pub struct Spawn {
    /// Its name, for the log.
    pub name: String,
    /// Which program it is.
    pub kind: ProgramKind,
    /// Its file and its arguments.
    pub executable: Executable,
    /// How processes that the program forks are made to end with it.
    pub apart: PidNamespace,
    /// Its limits.
    pub limits: Limits,
    /// The level of a zone's log.
    pub log_level: LogLevel,
    /// Whether its cgroup has another name than usual, as another process has the usual one.
    pub is_in_second_group: bool,
}

/// An action on the process of a program.
#[derive(Debug)]
pub enum Effect {
    /// Start it.
    Spawn(Box<Spawn>),
    /// Send it a message with descriptors.
    Send(Box<Message>, Vec<Attached>, IfFull),
    /// It has reported how it confined itself, with the listener for refused calls.
    Confined(Box<Report>, Vec<OwnedFd>),
    /// Add a record to the audit log.
    Audit {
        /// The app that has made a change for a user; `None` for the monitor.
        app: Option<String>,
        /// The record.
        text: String,
    },
    /// Change the level of its log.
    SetLogLevel(LogLevel),
    /// Ask the kernel for the apps' counters, over a connection of the monitor's own.
    Count,
    /// Make a backtrace of a kernel that has crashed.
    Backtrace(Box<CrashedKernel>),
    /// Send the lines of all logs to it, the log service, over the monitor's end of a connection.
    ForwardLog(Fd),
    /// Give the log service as much time again for its answer.
    WaitForLog,
    /// Send the last lines to the log service at once, because no more follow.
    FlushLog,
    /// Send no more lines to the log service.
    EndLog,
    /// Add a client of the service `apps`, with the monitor's end of its socket.
    AddAppsClient(ServiceClient, Fd),
    /// Answer a client of the service `apps`.
    Decided(LimitRequest, Result<(), String>),
    /// Schedule threads of it, or of the monitor.
    Schedule(Schedule),
    /// Kill it. Its end is reported.
    Kill,
    /// Leave it behind, although it was killed.
    Abandon,
    /// Forget the program. Its process is killed, and its end is not reported.
    Forget,
}

/// How threads of a program are to be scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// The threads.
    pub threads: Threads,
    /// The reservation of each of them; `None` for none.
    pub deadline: Option<Deadline>,
    /// The weight of the program's cgroup; `None` to leave it as it is.
    pub weight: Option<u32>,
}

/// Threads of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The main thread of a zone, which calls the app.
    Main,
    /// The workers of a kernel, which has this number of them.
    Workers(u16),
    /// The main thread of the monitor.
    Own,
}

/// A kernel that has crashed, for its backtrace.
#[derive(Debug)]
pub struct CrashedKernel {
    /// The incident to which the backtrace belongs.
    pub incident: IncidentId,
    /// Its record.
    pub record: CrashRecord,
    /// The modules that it had loaded.
    pub modules: Vec<LoadedModule>,
    /// The numbers, names and objects of the apps that it hosted.
    pub objects: Vec<(u16, String, Fd)>,
}

/// A client of the service `apps`. No client has number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientId(pub u64);

/// A request of an app to limit or release another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRequest {
    /// The client.
    pub client: ClientId,
    /// The request's number, which the client has chosen.
    pub id: u64,
    /// The name of the app that asks.
    pub by: String,
    /// The name of the app that it is about.
    pub app: String,
    /// The limit, with its time and reason; `None` to end it.
    pub limit: Option<(Measure, Duration, String)>,
}

/// What happened to the process of a program.
#[derive(Debug)]
pub enum ProcessEvent {
    /// It was started, with this process id. In a PID namespace of its own, this is the id of its init.
    Started(u32),
    /// This is the id of the program itself, in its PID namespace.
    Found(u32),
    /// It could not be started, for this reason.
    NotStarted(String),
    /// It has sent a message with descriptors, which are missing if the monitor can open no more.
    Received(Box<Reply>, Vec<OwnedFd>),
    /// It has closed its control socket, which counts as a sign that it ends.
    Closed,
    /// It has broken the protocol of its control socket, as this phrase says.
    Broken(String),
    /// The kernel has answered with the apps' counters.
    Counted(Vec<AppCounters>),
    /// The kernel could not be asked, or has not answered as it should.
    NotCounted,
    /// The backtrace of an earlier kernel is made, for this incident.
    Backtrace(IncidentId, Vec<Frame>),
    /// Its threads were scheduled as requested last, or the system refused, as this phrase says. Then they are scheduled as ordinary ones.
    Scheduled(Result<(), String>),
    /// It, the log service, has not answered in this time.
    LogSilent(Duration),
    /// It has ended, with this exit status. If it recorded its calls, the record comes with it.
    Ended(String, Cause, Option<Box<Record>>),
}

/// The record of a process that has ended.
#[derive(Debug)]
pub struct Record {
    /// The calls of apps that had not returned.
    pub calls: Vec<OngoingCall>,
    /// How it crashed, or which thread ended it, if it noted that.
    pub crash: Option<CrashRecord>,
    /// Its loaded modules.
    pub modules: Vec<LoadedModule>,
    /// The last events of each worker, the oldest first, with the worker's number.
    pub recent: Vec<(usize, Vec<RecentEvent>)>,
    /// The memory that was charged to apps.
    pub charges: Charges,
    /// When it ended: nanoseconds of the monotonic clock, as in `recent`.
    pub ended_ns: u64,
}

/// Collects effects. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Effects(Rc<RefCell<Decided>>);

#[derive(Debug, Default)]
struct Decided {
    effects: Vec<(ProgramId, Effect)>,
    programs: u64,
}

impl Effects {
    /// A number for a new program.
    pub fn new_program(&self) -> ProgramId {
        let mut decided = self.0.borrow_mut();
        decided.programs += 1;
        ProgramId(decided.programs)
    }

    /// Adds an effect.
    pub fn add(&self, program: ProgramId, effect: Effect) {
        self.0.borrow_mut().effects.push((program, effect));
    }

    /// Adds a record of a user to the audit log.
    pub fn audit(&self, text: String) {
        self.add(ProgramId::MONITOR, Effect::Audit { app: None, text });
    }

    /// The effects that were added since the last call, in their order.
    pub fn take(&self) -> Vec<(ProgramId, Effect)> {
        std::mem::take(&mut self.0.borrow_mut().effects)
    }
}
