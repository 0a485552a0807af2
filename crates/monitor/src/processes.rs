//! Carries out the effects that `supervisor` decides, and reports the events of processes.
//!
//! Each process has a control socket, a pidfd, two pipes and, once it is confined, a listener for refused system calls. The monitor
//! never waits for any of them.

mod connections;
mod output;
mod process;
mod schedule;
mod state_file;
mod system;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use control::flight::FlightReader;
use control::log::LogLevel;
use supervisor::effects::{
    Attached, Effect, Fd, IfFull, Message, ProcessEvent, ProgramId, Record, Reply, Spawn,
};
use supervisor::program::ProgramKind;
use sys::cgroup::partition::Partition;
use sys::channel::{Channel, ChannelError};
use sys::clock::now_ns;
use sys::packets::Packets;
use tracing::{error, warn};

pub(crate) use self::output::Stream;
use self::process::Process;
use crate::backtrace::{self, NotMade, PendingBacktrace};
use crate::environment::Environment;
use crate::log_forwarder::{self, InvalidReply, LogForwarder, REPLY_TIMEOUT};
use crate::sandbox::RefusedCalls;
use crate::usage::Enforcement;
use supervisor::text::shortened;

/// The most messages that one peer's socket is read for in one turn of the loop, so that no peer starves the others.
pub(crate) const MESSAGES_PER_TURN: usize = 64;

/// A descriptor of a process that the event loop polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// The pipe from its standard output or error.
    Output(Stream),
    /// Its control socket.
    Control,
    /// Its pidfd, which becomes readable when the process ends.
    Exit,
    /// The listener for system calls that its sandbox refused.
    RefusedCalls,
    /// The kernel's replies with the apps' counters.
    Counters,
    /// The requests of operators that it passes on. The event loop receives them by [`Processes::receive_request`].
    Requests,
    /// The log service's replies to the monitor.
    LogReplies,
}

/// The processes of all programs. Dropping it kills them.
#[derive(Debug)]
pub(crate) struct Processes {
    enforcement: Arc<Enforcement>,
    running: BTreeMap<ProgramId, Running>,
    /// The directory of the services' state files.
    state_dir: PathBuf,
    /// The user for the process that reads the files of a crashed kernel, if the monitor is root.
    reader: Option<u32>,
    /// The kernel's file as it was at the start of its process, for a backtrace.
    kernel_file: Option<File>,
    backtrace: Option<(ProgramId, PendingBacktrace)>,
    log: LogForwarder,
    /// The log service to which lines are sent.
    log_service: Option<ProgramId>,
    /// The processors of reserved threads, if they have some of their own. Declared after `running`: fields drop in order, and only empty
    /// cpusets can be removed.
    partition: Option<Partition>,
}

/// A process that has not been reaped.
#[derive(Debug)]
struct Running {
    name: String,
    kind: ProgramKind,
    process: Process,
    refused_calls: RefusedCalls,
    log_level: LogLevel,
    /// The process id that was reported last.
    pid: u32,
    /// Where it records its calls.
    recorder: Option<FlightReader>,
    /// A connection to the kernel for counters.
    counters: Option<Channel>,
    /// Whether the kernel owes an answer on it.
    owes_counters: bool,
    /// The monitor's end of the channel on which it passes on requests of operators.
    requests: Option<Channel>,
}

/// What happened, and to which program.
type Events = Vec<(ProgramId, ProcessEvent)>;

impl Processes {
    /// Without processes.
    pub(crate) fn new(
        environment: &Environment,
        partition: Option<Partition>,
        now: Instant,
    ) -> Self {
        Self {
            enforcement: environment.enforcement.clone(),
            partition,
            running: BTreeMap::new(),
            state_dir: environment.state_dir.clone(),
            reader: environment.users.for_nobody(),
            kernel_file: None,
            backtrace: None,
            log: LogForwarder::new(now),
            log_service: None,
        }
    }

    /// Carries out effects in their order. Returns what happened.
    pub(crate) fn carry_out(&mut self, effects: Vec<(ProgramId, Effect)>, now: Instant) -> Events {
        let mut events = Events::new();
        for (program, effect) in effects {
            if let Some(event) = self.carry_out_one(program, effect, now) {
                events.push((program, event));
            }
        }
        events
    }

    fn carry_out_one(
        &mut self,
        program: ProgramId,
        effect: Effect,
        now: Instant,
    ) -> Option<ProcessEvent> {
        let effect = match effect {
            Effect::Spawn(spawn) => return Some(self.spawn(program, *spawn, now)),
            Effect::Audit { app, text } => {
                match app {
                    Some(app) => log_forwarder::audit_on(&app, &text),
                    None => log_forwarder::audit(&text),
                }
                return None;
            }
            Effect::Backtrace(crashed) => {
                let file = self.kernel_file.as_ref().map(AsFd::as_fd);
                match backtrace::begin(*crashed, file, self.reader, now) {
                    Ok(begun) => self.backtrace = Some((program, begun)),
                    Err(error) => warn!(%error, "could not make a backtrace of the kernel"),
                }
                return None;
            }
            Effect::EndLog => {
                self.log.disconnect();
                return None;
            }
            Effect::FlushLog => {
                self.log.flush(now);
                return None;
            }
            Effect::Schedule(request) => {
                let result = self.schedule(program, request);
                return result.map(ProcessEvent::Scheduled);
            }
            other => other,
        };
        // A process that has just ended receives no message.
        let running = self.running.get_mut(&program)?;
        match effect {
            Effect::Count => return self.count(program),
            Effect::ForwardLog(socket) => match socket.try_clone() {
                Ok(socket) => {
                    self.log.connect(Packets::from_fd(socket), now);
                    self.log_service = Some(program);
                }
                Err(error) => {
                    let why = format!("it could not be connected: {error}");
                    return Some(ProcessEvent::Broken(why));
                }
            },
            Effect::WaitForLog => self.log.extend_timeout(now),
            // The first six are carried out above, and the others by the event loop.
            Effect::Spawn(_)
            | Effect::Schedule(_)
            | Effect::Audit { .. }
            | Effect::Backtrace(_)
            | Effect::EndLog
            | Effect::FlushLog
            | Effect::AddAppsClient(..)
            | Effect::Decided(..) => {}
            Effect::Send(message, attached, if_full) => {
                return running.send(&message, attached, if_full);
            }
            Effect::Confined(report, fds) => {
                if running.refused_calls.is_confined() {
                    return Some(ProcessEvent::Broken(
                        "it reported twice that it is confined".into(),
                    ));
                }
                running.refused_calls.confined(&report, fds);
                // Only a kernel passes more: the rings of zones.
                if let Some(control) = &running.process.control
                    && running.kind != ProgramKind::Kernel
                {
                    control.refuse_descriptors();
                }
            }
            Effect::SetLogLevel(level) => {
                running.log_level = level;
                running.process.output.set_log_level(level);
            }
            Effect::Kill => running.process.kill(),
            Effect::Abandon => {
                if let Some(running) = self.running.remove(&program) {
                    running.abandon();
                }
            }
            Effect::Forget => drop(self.running.remove(&program)),
        }
        None
    }

    fn spawn(&mut self, program: ProgramId, spawn: Spawn, now: Instant) -> ProcessEvent {
        if spawn.kind == ProgramKind::Kernel {
            self.kernel_file = File::open(&spawn.executable.path).ok();
        }
        match Process::spawn(&spawn, &self.enforcement, now) {
            Ok(process) => {
                let pid = process.child.pid();
                let Spawn { name, kind, log_level, .. } = spawn;
                let refused_calls = RefusedCalls::of(&kind, now);
                let running = Running {
                    name,
                    kind,
                    process,
                    refused_calls,
                    log_level,
                    pid,
                    recorder: None,
                    counters: None,
                    owes_counters: false,
                    requests: None,
                };
                self.running.insert(program, running);
                ProcessEvent::Started(pid)
            }
            Err(error) => {
                let path = spawn.executable.path.display();
                ProcessEvent::NotStarted(format!("could not execute {path}: {error}"))
            }
        }
    }

    /// The descriptors to poll, with what they belong to. Those of one process are in the order in which they must be handled: log
    /// lines and messages precede the end.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (ProgramId, Port, BorrowedFd<'_>)> {
        let is_kernel = |running: &Running| running.kind == ProgramKind::Kernel;
        let others = self.running.iter().filter(move |(_, running)| !is_kernel(running));
        // What a zone has sent before the kernel reports a fault of it comes first.
        let kernel = self.running.iter().filter(move |(_, running)| is_kernel(running));
        let log = self.log_service.zip(self.log.fd());
        let log = log.map(|(program, fd)| (program, Port::LogReplies, fd));
        let ports = others.chain(kernel).flat_map(|(program, running)| {
            running.ports().map(move |(port, fd)| (*program, port, fd))
        });
        ports.chain(log)
    }

    /// When [`advance`](Self::advance) is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let due = self.running.values().flat_map(|running| {
            let output = running.process.output.next_due();
            output.into_iter().chain(running.refused_calls.next_due())
        });
        let backtrace = self.backtrace.iter().map(|(_, backtrace)| backtrace.next_due());
        due.chain(backtrace).chain(self.log.next_due()).min()
    }

    /// Logs the counts of dropped lines and calls, reads again from processes that wrote too much, and forwards log lines. Returns
    /// what happened.
    pub(crate) fn advance(&mut self, now: Instant) -> Events {
        for running in self.running.values_mut() {
            running.process.output.catch_up(now);
            running.refused_calls.catch_up(now);
        }
        let mut events: Events = self.backtrace_made(now).into_iter().collect();
        events.extend(self.forward_log(now));
        events
    }

    /// The backtrace of a crashed kernel, once it is made.
    fn backtrace_made(&mut self, now: Instant) -> Option<(ProgramId, ProcessEvent)> {
        let (program, backtrace) =
            self.backtrace.as_mut().filter(|(_, it)| it.next_due() <= now)?;
        let made = match backtrace.check(now) {
            Ok(None) => return None,
            Ok(Some((id, frames))) => Some((*program, ProcessEvent::Backtrace(id, frames))),
            Err(NotMade) => None,
        };
        self.backtrace = None;
        made
    }

    /// Sends log lines to the log service. Returns that it does not answer, or breaks its protocol.
    fn forward_log(&mut self, now: Instant) -> Option<(ProgramId, ProcessEvent)> {
        let mut event = None;
        if self.log.is_overdue(now) {
            // If the monitor itself was delayed, the answer has arrived meanwhile.
            event = self.receive_log_reply(now);
        }
        if self.log.is_overdue(now) {
            event = self.log_service.map(|it| (it, ProcessEvent::LogSilent(REPLY_TIMEOUT)));
        }
        self.log.warn_of_lost_lines(now);
        self.log.forward(now);
        event
    }

    fn receive_log_reply(&mut self, now: Instant) -> Option<(ProgramId, ProcessEvent)> {
        let InvalidReply = self.log.receive(now).err()?;
        self.log.disconnect();
        let why = "it sent the monitor an invalid reply";
        Some((self.log_service?, ProcessEvent::Broken(why.into())))
    }

    /// Handles a descriptor that became readable. Returns what happened.
    pub(crate) fn handle(&mut self, program: ProgramId, port: Port, now: Instant) -> Events {
        if port == Port::LogReplies {
            return self.receive_log_reply(now).into_iter().collect();
        }
        let Some(running) = self.running.get_mut(&program) else { return Events::new() };
        let mut events: Vec<ProcessEvent> = running.found().into_iter().collect();
        match port {
            Port::Output(stream) => running.process.output.read_some(stream, now),
            Port::RefusedCalls => running.refused_calls.answer_waiting(running.log_level, now),
            Port::Control => running.receive(&mut events, true),
            Port::Counters => events.extend(running.counted()),
            Port::Requests | Port::LogReplies => {}
            Port::Exit => {
                // Messages that the process sent before it ended belong to it, not to its successor.
                running.receive(&mut events, false);
                if let Some((exit, cause)) = running.process.try_reap() {
                    // Before the line about the end, so that the log shows the program's last lines first.
                    running.process.output.read_rest(now);
                    running.refused_calls.finish(now);
                    // The record of a zone is a claim of its app.
                    let recorder = running.recorder.as_ref();
                    let recorder = recorder.filter(|_| running.kind == ProgramKind::Kernel);
                    let record = recorder.map(|it| Box::new(record(it)));
                    self.running.remove(&program);
                    events.push(ProcessEvent::Ended(exit, cause, record));
                }
            }
        }
        events.into_iter().map(|event| (program, event)).collect()
    }

    fn pid(&self, program: ProgramId) -> Option<u32> {
        self.running.get(&program).map(|running| running.process.child.pid())
    }

    fn recorder(&self, program: ProgramId) -> Option<&FlightReader> {
        self.running.get(&program)?.recorder.as_ref()
    }
}

/// Reads what a process that has ended had recorded.
fn record(recorder: &FlightReader) -> Record {
    Record {
        calls: recorder.calls().collect(),
        crash: recorder.crash(),
        modules: recorder.modules(),
        recent: recorder.recent(),
        charges: recorder.charges(),
        ended_ns: now_ns(),
    }
}

/// Duplicates descriptors that stay with their owner.
///
/// # Errors
/// The monitor can open no more.
pub(crate) fn duplicates<'fd>(fds: impl Iterator<Item = BorrowedFd<'fd>>) -> io::Result<Vec<Fd>> {
    fds.map(|fd| fd.try_clone_to_owned().map(Fd::new)).collect()
}

impl Running {
    fn ports(&self) -> impl Iterator<Item = (Port, BorrowedFd<'_>)> {
        let Process { child, control, output, .. } = &self.process;
        let [stdout, stderr] = Stream::BOTH;
        [
            (Port::Output(stdout), output.pipe(stdout)),
            (Port::Output(stderr), output.pipe(stderr)),
            (Port::Control, control.as_ref().map(AsFd::as_fd)),
            (Port::Exit, Some(child.as_fd())),
            (Port::RefusedCalls, self.refused_calls.fd()),
            (Port::Counters, self.counters.as_ref().map(AsFd::as_fd)),
            (Port::Requests, self.requests.as_ref().map(AsFd::as_fd)),
        ]
        .into_iter()
        .filter_map(|(port, fd)| Some((port, fd?)))
    }

    /// The id of the program itself, once, when it was found.
    fn found(&mut self) -> Option<ProcessEvent> {
        let pid = self.process.child.pid();
        (std::mem::replace(&mut self.pid, pid) != pid).then_some(ProcessEvent::Found(pid))
    }

    /// Sends a message. Returns why the process must be killed, if it must.
    fn send(
        &mut self,
        message: &Message,
        attached: Vec<Attached>,
        if_full: IfFull,
    ) -> Option<ProcessEvent> {
        let fds: io::Result<Vec<Fd>> = attached.into_iter().map(|it| self.attach(it)).collect();
        let fds = match fds {
            Ok(fds) => fds,
            Err(error) => {
                let why = format!("it got no descriptor of its own: {error}");
                return Some(ProcessEvent::Broken(why));
            }
        };
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
        let error = match self.process.control.as_ref()?.send(message, &fds) {
            // A closed socket means that the process ends; its pidfd reports that.
            Ok(()) | Err(ChannelError::Closed) => return None,
            Err(error) => error,
        };
        match (if_full, error) {
            (IfFull::Kill, ChannelError::WouldBlock) => {
                Some(ProcessEvent::Broken("it did not read its control socket".into()))
            }
            (IfFull::Kill, error) => Some(ProcessEvent::Broken(error.to_string())),
            (IfFull::Drop(lost), error) => {
                if let Some(lost) = lost {
                    warn!(program = self.name, %error, hint = "restart it", "{lost}");
                }
                None
            }
        }
    }

    fn attach(&mut self, attached: Attached) -> io::Result<Fd> {
        match attached {
            Attached::Fd(fd) => Ok(fd),
            Attached::Recorder => {
                let (recorder, fd) = FlightReader::new()?;
                self.recorder = Some(recorder);
                Ok(fd.into())
            }
            Attached::Requests => {
                let (ours, theirs) = Channel::passing_pair()?;
                self.requests = Some(ours);
                Ok(theirs.into_fd().into())
            }
        }
    }

    /// Receives messages, `until_fds` up to the first one with descriptors, so that few are open at a time. A malformed message is a
    /// reason to kill the process.
    fn receive(&mut self, events: &mut Vec<ProcessEvent>, until_fds: bool) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(control) = &self.process.control else { return };
            match received(control, &self.kind, &self.name) {
                Ok((reply, fds)) => {
                    let is_last = until_fds && !fds.is_empty();
                    events.push(ProcessEvent::Received(Box::new(reply), fds));
                    if is_last {
                        return;
                    }
                }
                Err(ChannelError::WouldBlock) => return,
                Err(ChannelError::Closed) => {
                    // A closed socket stays readable: polled further, it would keep the loop awake.
                    self.process.control = None;
                    return events.push(ProcessEvent::Closed);
                }
                Err(error) => {
                    let why = shortened(&error.to_string(), 200);
                    return events.push(ProcessEvent::Broken(why));
                }
            }
        }
    }

    /// Gives up a process that did not end even though it was killed.
    fn abandon(self) {
        error!(program = self.name, pid = self.process.child.pid(), "left a killed process behind");
        // Dropping the child would wait for it, and so keep the monitor from ending.
        std::mem::forget(self.process.child);
    }
}

/// Receives the next message of a program of this kind.
fn received(
    control: &Channel,
    kind: &ProgramKind,
    program: &str,
) -> Result<(Reply, Vec<OwnedFd>), ChannelError> {
    fn next<T: serde::de::DeserializeOwned>(
        (control, program): (&Channel, &str),
        reply: fn(T) -> Reply,
    ) -> Result<(Reply, Vec<OwnedFd>), ChannelError> {
        match control.receive_immediate::<T>() {
            Ok((message, fds)) => Ok((reply(message), fds)),
            Err(ChannelError::OutOfDescriptors(message)) => {
                warn!(program, "received a message without its descriptors");
                Ok((reply(message.read()?), Vec::new()))
            }
            Err(error) => Err(error),
        }
    }
    let control = (control, program);
    match kind {
        ProgramKind::Kernel => next(control, Reply::Kernel),
        ProgramKind::Zone(_) => next(control, Reply::Zone),
        ProgramKind::Service(_) => next(control, Reply::Service),
        ProgramKind::Northbound => next(control, Reply::Northbound),
    }
}
