//! A program of ours: its process, its control socket and its [`Supervision`], kept in step.
//!
//! What the process says is taken from its socket and what becomes of it from its pidfd; neither is
//! ever waited for. It starts with the environment variables of [`ENVIRONMENT`] and no others: an
//! app has no business with what the operator's shell knows.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::cgroup::{Controller, Group};
use sys::channel::{Channel, ChannelError};
use sys::process::{Child, Exit, Memory, PidNamespace, Usage};
use tracing::{error, info, warn};
use zone::Limit;

use crate::config::Limits;
use crate::output::{Output, Voice, shown};
use crate::supervise::{self, Due, Ended, Next, Supervision};
use crate::usage::Keeper;
use crate::usage::meter::Sample;

/// The signal by which the system ends who is at its limit of memory.
const KILL: i32 = Signal::KILL.as_raw();

/// What a program learns from the environment: how to log.
const ENVIRONMENT: [&str; 1] = ["RUST_BACKTRACE"];

/// A supervised program. Dropping it kills its process.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    file: PathBuf,
    voice: Voice,
    /// Who keeps what it forks where it ends with it.
    apart: PidNamespace,
    keeper: Arc<Keeper>,
    limits: Limits,
    supervision: Supervision,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// `None` when the process has closed its end, which it does by ending.
    control: Option<Channel>,
    output: Output,
    /// Why it was killed, once that was done and said: once is enough.
    killed: Option<Killed>,
    /// Behind `child`, without which it is empty and can be removed.
    group: Group,
}

#[derive(Debug)]
struct Killed {
    why: String,
    late: bool,
}

/// The end of a program, for who looks for its cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Death {
    /// How it ended, or why we killed it, as a phrase.
    pub(crate) how: String,
    /// Whether it was its own doing: it ended, or did not do in time what it had to. If not, it was
    /// asked to end, or killed for what it said.
    pub(crate) by_itself: bool,
}

impl Program {
    /// The kernel, a service or a zone, whose program is in `file`; it is not started. `keeper` keeps it below
    /// `limits`.
    pub(crate) fn new(
        voice: Voice,
        file: PathBuf,
        apart: PidNamespace,
        (keeper, limits): (Arc<Keeper>, Limits),
    ) -> Self {
        let supervision = Supervision::new(supervise::Limits::default());
        let name = match &voice {
            Voice::Kernel => "kernel".into(),
            Voice::Service(name) => format!("service {name}"),
            Voice::Zone(app) => format!("zone {app}"),
        };
        Self { name, file, voice, apart, keeper, limits, supervision, process: None }
    }

    pub(crate) fn supervision(&self) -> &Supervision {
        &self.supervision
    }

    /// Its process, if it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.pid())
    }

    /// What becomes readable when it ends.
    pub(crate) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(|process| process.child.as_fd())
    }

    /// What becomes readable when it says something.
    pub(crate) fn control(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref()?.control.as_ref().map(AsFd::as_fd)
    }

    /// What becomes readable when it writes something.
    pub(crate) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref()?.output.pipe()
    }

    /// Takes what it writes into our log.
    pub(crate) fn hear_output(&mut self, now: Instant) {
        if let Some(process) = &mut self.process {
            process.output.hear(now);
        }
    }

    /// When something will be due by itself, if nothing happens before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let output = self.process.as_ref().and_then(|process| process.output.next_due());
        self.supervision.next_due().into_iter().chain(output).min()
    }

    /// Wants it to run.
    pub(crate) fn want(&mut self, now: Instant) {
        self.supervision.start(now);
    }

    /// Does what is due, starting excepted. Says whether it is to be started now.
    pub(crate) fn is_start_due(&mut self, now: Instant) -> bool {
        if let Some(process) = &mut self.process {
            process.output.catch_up(now);
        }
        // Who is throttled is given longer.
        let received = || match self.voice {
            Voice::Kernel | Voice::Service(_) => None,
            Voice::Zone(_) => {
                let process = self.process.as_ref();
                let used = process.and_then(|process| Usage::of(process.child.pid()).ok());
                Some(used.map(|used| used.cpu).unwrap_or_default())
            }
        };
        match self.supervision.due(now, received) {
            None => return false,
            Some(Due::Start) => return true,
            Some(Due::KillUnready) => self.kill_for("it was not ready in time", true),
            Some(Due::KillUnended) => self.kill_for("it did not end in time", true),
        }
        false
    }

    /// Starts it.
    pub(crate) fn start(&mut self, now: Instant) {
        match self.spawn(now) {
            Ok(process) => {
                info!(program = self.name, pid = process.child.pid(), "started");
                self.process = Some(process);
                self.supervision.started(now);
            }
            Err(error) => {
                let why = format!("could not execute {}: {error}", self.file.display());
                self.not_started(now, &why);
            }
        }
    }

    /// It could not be started; that counts as an end.
    pub(crate) fn not_started(&mut self, now: Instant, why: &str) {
        let ended = self.supervision.ended(now, why.to_owned());
        error!(program = self.name, why, next = next(ended.next), "could not be started");
    }

    /// It would end again, for the reason `why`, if it were started as things are: it is left alone.
    pub(crate) fn hold(&mut self, now: Instant, why: &str) {
        self.supervision.hold(now, why.to_owned());
    }

    fn spawn(&self, now: Instant) -> io::Result<Process> {
        let (ours, theirs) = Channel::pair()?;
        let mut command = Command::new(&self.file);
        command.env_clear().current_dir("/");
        command.envs(ENVIRONMENT.iter().filter_map(|key| Some((key, std::env::var_os(key)?))));
        command.env(sys::log::VARIABLE, sys::log::for_children());
        let tree = self.keeper.tree();
        let bounds = || Keeper::bounds(&self.limits, self.apart);
        let group = match &self.voice {
            Voice::Kernel => tree.group("kernel", &Keeper::kernels_bounds()),
            Voice::Service(name) => tree.group(&format!("service-{name}"), &bounds()),
            Voice::Zone(app) => tree.group(&format!("zone-{app}"), &bounds()),
        }?;
        for (controller, why) in group.lower() {
            let (limit, hint) = (controller.name(), "give that group more, or its apps less");
            warn!(program = self.name, limit, why, hint, "has less than its limit");
        }
        group.start_in(&mut command)?;
        let (child, output) = Child::spawn_with(self.apart, &mut command, theirs)?;
        let log = self.limits.of(Limit::Log).hard;
        let output = Output::new(output, self.voice.clone(), log, now);
        Ok(Process { child, control: Some(ours), output, killed: None, group })
    }

    /// What it has used; `None` if it does not run, or is just ending.
    pub(crate) fn sample(&self) -> Option<Sample> {
        let Process { child, output, group, .. } = self.process.as_ref()?;
        let own = Usage::of(child.pid()).ok()?;
        let all = group.usage().unwrap_or_default(); // as if it were in none
        let own_memory = own.memory.without_rings(self.keeper.rings());
        Some(Sample {
            cpu: all.cpu.unwrap_or(own.cpu),
            memory: match all.memory {
                Some(memory) if self.keeper.tree().counts_swap() => memory,
                Some(memory) => memory.saturating_add(own.memory.swap),
                None => own_memory,
            },
            own_memory,
            threads: own.threads,
            descriptors: own.descriptors,
            log: output.written(),
            log_left_out: output.left_out(),
            refused_threads: all.refused_tasks,
        })
    }

    /// Whether it has a process whose memory no group counts.
    pub(crate) fn is_memory_uncounted(&self) -> bool {
        self.process.is_some() && !self.keeper.tree().has(Controller::Memory)
    }

    /// Bytes of its memory without rings, as `/proc` says; `None` if it does not run, or was killed.
    pub(crate) fn own_memory(&self) -> Option<io::Result<u64>> {
        let process = self.process.as_ref().filter(|process| process.killed.is_none())?;
        let memory = Memory::of(process.child.pid());
        Some(memory.map(|memory| memory.without_rings(self.keeper.rings())))
    }

    /// Sends it `request`; a process that does not listen is killed.
    pub(crate) fn tell<T: Serialize>(&mut self, request: &T, fds: &[BorrowedFd<'_>]) {
        match self.try_tell(request, fds) {
            // If it is closed, its end is on the way and will be noticed where it belongs.
            Ok(()) | Err(ChannelError::Closed) => {}
            Err(ChannelError::WouldBlock) => self.kill("it did not read its control socket"),
            Err(error) => self.kill(&error.to_string()),
        }
    }

    /// Sends it `request`, which is not important enough to kill for.
    pub(crate) fn try_tell<T: Serialize>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let control = self.process.as_ref().and_then(|process| process.control.as_ref());
        control.ok_or(ChannelError::Closed)?.send(request, fds)
    }

    /// Sends it `request` for an operator: only while most of its control socket is free, so that what
    /// operators cause never keeps out what the monitor has to say.
    pub(crate) fn send_for_operator<T: Serialize>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let control = self.process.as_ref().and_then(|process| process.control.as_ref());
        if control.is_some_and(Channel::is_crowded) {
            return Err(ChannelError::WouldBlock);
        }
        self.try_tell(request, fds)
    }

    /// What it says next; `None` if it says nothing now. Nonsense gets it killed. Descriptors are
    /// missing if we may open no more.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self, now: Instant) -> Option<(T, Vec<OwnedFd>)> {
        let process = self.process.as_mut()?;
        match process.control.as_ref()?.receive() {
            Ok(message) => return Some(message),
            Err(ChannelError::WouldBlock) => {}
            Err(ChannelError::OutOfDescriptors(message)) => match message.read() {
                Ok(message) => {
                    warn!(program = self.name, "received a message without its descriptors");
                    return Some((message, Vec::new()));
                }
                Err(error) => self.kill(&shortened(&error.to_string(), 200)),
            },
            Err(ChannelError::Closed) => {
                process.control = None; // it would stay readable
                self.supervision.ending(now);
            }
            Err(error) => self.kill(&shortened(&error.to_string(), 200)),
        }
        None
    }

    /// It says that it is ready. Says whether that was still to be said.
    pub(crate) fn ready(&mut self) -> bool {
        self.supervision.ready()
    }

    /// It said that it cannot run as things are, and will end: then it is held.
    pub(crate) fn unfit(&mut self, now: Instant) {
        self.supervision.unfit(now);
    }

    /// It said that it will end: it gets a moment to do so.
    pub(crate) fn ending(&mut self, now: Instant) {
        self.supervision.ending(now);
    }

    /// Wants it to run no more. Says whether it runs, and so has to be told.
    pub(crate) fn stop(&mut self, now: Instant) -> bool {
        self.supervision.stop(now)
    }

    /// Kills it. Its end is noticed like any other.
    pub(crate) fn kill(&mut self, why: &str) {
        self.kill_for(why, false);
    }

    /// Kills it for not having done in time what it had to. Its end is noticed like any other.
    pub(crate) fn kill_late(&mut self, why: &str) {
        self.kill_for(why, true);
    }

    /// Kills it for having taken more than it may, and does not start it again before `until`.
    pub(crate) fn kill_for_limit(&mut self, why: &str, until: Instant) {
        self.supervision.pause(until);
        self.kill_for(why, true);
    }

    /// Kills it; `late` if it is for not having done in time what it had to.
    fn kill_for(&mut self, why: &str, late: bool) {
        if let Some(process) = self.process.as_mut().filter(|process| process.killed.is_none()) {
            process.killed = Some(Killed { why: why.to_owned(), late });
            warn!(program = self.name, pid = process.child.pid(), why, "killed it");
            process.child.kill();
            self.supervision.killed();
        }
    }

    /// Its end was announced: finds out how. `None` if it has not really ended.
    pub(crate) fn reap(&mut self, now: Instant) -> Option<Death> {
        let process = self.process.as_mut()?;
        let exit = match process.child.try_reap() {
            Ok(None) => return None,
            Ok(Some(exit)) => {
                // The system ends who is at its limit of memory by the same signal as we do.
                let killed = process.killed.is_none() && exit == Exit::Signal(KILL);
                if killed && process.group.usage().is_ok_and(|used| used.memory_kills > 0) {
                    let most = Limit::Memory.shown(self.limits.of(Limit::Memory).hard);
                    format!("{exit}: it was at its memory limit of {most}")
                } else {
                    exit.to_string()
                }
            }
            Err(error) => format!("ended, and the system does not say how: {error}"),
        };
        let pid = process.child.pid();
        process.output.hear_last(now); // before it is said that it died
        let killed = process.killed.take();
        self.process = None;
        let exit = match &killed {
            Some(Killed { why, late: true }) => format!("{exit}: {why}"),
            _ => exit,
        };
        let Ended { ran, next: then } = self.supervision.ended(now, exit.clone());
        let (program, ran, next) = (&self.name, format!("{:.3} s", ran.as_secs_f64()), next(then));
        if then == Next::Stay {
            info!(program, pid, exit, ran, "stopped");
        } else {
            warn!(program, pid, exit, ran, next, "died");
        }
        let by_itself = then != Next::Stay && killed.as_ref().is_none_or(|killed| killed.late);
        Some(Death { how: killed.map_or(exit, |killed| killed.why), by_itself })
    }

    /// Lets go of a process that not even a kill has ended.
    pub(crate) fn abandon(&mut self) {
        if let Some(process) = self.process.take() {
            error!(program = self.name, pid = process.child.pid(), "left behind, though killed");
            std::mem::forget(process.child); // dropping it would wait
        }
    }
}

fn next(next: Next) -> String {
    match next {
        Next::StartAtOnce => "start again at once".into(),
        Next::StartAfter(time) => format!("start again in {} ms", time.as_millis()),
        Next::Held => "held until one of its files changes".into(),
        Next::Stay => "none".into(),
    }
}

/// What an app or a peer said, cut to `most` characters for the log.
///
/// As a field of the type `str` the log quotes and escapes it, so it can add no line and no colour.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let mut start: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        start.push_str("...");
    }
    start
}

/// As [`shortened`], for who reads it outside of the log: a terminal does nothing on it.
pub(crate) fn harmless(text: &str, most: usize) -> String {
    shown(&shortened(text, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_for_the_log() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened(&"x".repeat(300), 4), "xxxx...");
        assert_eq!(harmless("a\n\u{1b}[31mb\u{9b}c", 8), r"a\n\u{1b}[31mb...");
    }

    #[test]
    fn program_that_does_not_exist_is_tried_again_later() {
        let now = Instant::now();
        let keeper = Arc::new(Keeper::without_groups("a test"));
        let limits = (keeper, Limits::none());
        let mut program = Program::new(Voice::Kernel, "/nowhere".into(), PidNamespace::No, limits);
        program.want(now);
        assert!(program.is_start_due(now));
        program.start(now);
        assert!(!program.is_start_due(now));
        assert!(program.supervision().last_exit().unwrap().contains("/nowhere"));
        assert!(program.is_start_due(now + supervise::Limits::default().min_run));
    }
}
