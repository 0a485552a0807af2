//! What the monitor is to do with processes, in the order in which it was decided.

use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use config::Limits;
use control::incident::Cause;
use control::kernel::{KernelReply, KernelRequest};
use control::log::LogLevel;
use control::northbound::{NorthboundReply, NorthboundRequest};
use control::service::{ServiceReply, ServiceRequest};
use control::zone::{ZoneReply, ZoneRequest};
use serde::Serialize;
use sys::process::PidNamespace;
use sys::sandbox::Report;

use crate::program::{Executable, ProgramKind};

/// A descriptor that a message carries.
pub(crate) type Fd = Arc<OwnedFd>;

/// Duplicates descriptors that stay with their owner.
///
/// # Errors
/// The monitor can open no more.
pub(crate) fn duplicates<'fd>(fds: impl Iterator<Item = BorrowedFd<'fd>>) -> io::Result<Vec<Fd>> {
    fds.map(|fd| fd.try_clone_to_owned().map(Fd::new)).collect()
}

/// A program. No two programs of one monitor ever have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProgramId(u64);

/// A message to a program, on its control socket.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Message {
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
pub(crate) enum Reply {
    /// Of the kernel.
    Kernel(KernelReply),
    /// Of a zone.
    Zone(ZoneReply),
    /// Of a service.
    Service(ServiceReply),
    /// Of the HTTP interface.
    Northbound(NorthboundReply),
}

/// What happens if a program does not read its control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfFull {
    /// It is killed.
    Kill,
    /// The message is dropped, and logged if this says what is lost with it.
    Drop(Option<&'static str>),
}

/// How a process is started.
#[derive(Debug)]
pub(crate) struct Spawn {
    pub(crate) name: String,
    pub(crate) kind: ProgramKind,
    pub(crate) executable: Executable,
    /// How processes that the program forks are made to end with it.
    pub(crate) apart: PidNamespace,
    pub(crate) limits: Limits,
    /// The level of its log, if it is a zone.
    pub(crate) log_level: LogLevel,
    /// Whether its cgroup has another name than usual, as another process has the usual one.
    pub(crate) is_in_second_group: bool,
}

/// Something to do with the process of a program.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Start it.
    Spawn(Box<Spawn>),
    /// Send it a message with descriptors.
    Send(Box<Message>, Vec<Fd>, IfFull),
    /// It has reported how it confined itself, with the listener for refused calls.
    Confined(Box<Report>, Vec<OwnedFd>),
    /// Change the level of its log.
    SetLogLevel(LogLevel),
    /// Kill it. Its end is reported.
    Kill,
    /// Leave it behind, although it was killed.
    Abandon,
    /// Forget the program. Its process is killed, and its end is not reported.
    Forget,
}

/// What happened to the process of a program.
#[derive(Debug)]
pub(crate) enum ProcessEvent {
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
    /// It has ended, with this exit status.
    Ended(String, Cause),
}

/// Collects effects. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects(Rc<RefCell<Decided>>);

#[derive(Debug, Default)]
struct Decided {
    effects: Vec<(ProgramId, Effect)>,
    programs: u64,
}

impl Effects {
    /// A number for a new program.
    pub(crate) fn new_program(&self) -> ProgramId {
        let mut decided = self.0.borrow_mut();
        decided.programs += 1;
        ProgramId(decided.programs)
    }

    /// Adds an effect.
    pub(crate) fn add(&self, program: ProgramId, effect: Effect) {
        self.0.borrow_mut().effects.push((program, effect));
    }

    /// The effects that were added since the last call, in their order.
    pub(crate) fn take(&self) -> Vec<(ProgramId, Effect)> {
        std::mem::take(&mut self.0.borrow_mut().effects)
    }
}
