//! The questions about processes that decisions need.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use control::flight::{Charges, OngoingCall, OngoingTurn, Traffic};
use control::service::ServiceKind;
use sys::process::Thread;

use crate::effects::{Fd, ProgramId};
use crate::hang::events::Activity;
use crate::usage::meter::Sample;

/// Answers questions about the processes of programs, and makes memory and sockets for them. An `Option` is `None` where there is no
/// process, or the process is just ending, or the system does not say it.
pub trait System: fmt::Debug {
    /// How much the program uses.
    fn sample(&self, program: ProgramId) -> Option<Sample>;

    /// Processor time that its process has received since its start.
    fn processor_time(&self, program: ProgramId) -> Option<Duration>;

    /// Bytes of its memory without rings, or the reason for which they cannot be read. A process that was killed has `None`.
    fn own_memory(&self, program: ProgramId) -> Option<Result<u64, String>>;

    /// Whether the monitor alone limits its memory, as no group does.
    fn is_memory_uncounted(&self) -> bool;

    /// Its main thread.
    fn main_thread(&self, program: ProgramId) -> Option<Thread>;

    /// The worker of a kernel with this number.
    fn worker(&self, program: ProgramId, number: usize) -> Option<Thread>;

    /// The activity of a zone; that of other threads than the main one only if `events_wait`.
    fn activity(&self, program: ProgramId, events_wait: bool) -> Activity;

    /// The calls of apps in its process that have not returned.
    fn calls(&self, program: ProgramId) -> Vec<OngoingCall>;

    /// The present turns of its threads that have a loop and call no app.
    fn turns(&self, program: ProgramId) -> Vec<OngoingTurn>;

    /// The memory that was charged to apps in its process.
    fn charges(&self, program: ProgramId) -> Charges;

    /// The messages of apps since its process started, for a kernel.
    fn traffic(&self, program: ProgramId) -> Traffic;

    /// Memory for a table with this number of slots.
    ///
    /// # Errors
    /// Why there is none, as a phrase.
    fn table(&self, slots: u32) -> Result<Fd, String>;

    /// Whether only its app can write the table.
    fn is_table_sealed(&self, table: &Fd) -> bool;

    /// Read-only memory with this content; `name` is for people.
    ///
    /// # Errors
    /// Why there is none, as a phrase.
    fn sealed(&self, name: &str, content: &[u8]) -> Result<Fd, String>;

    /// Two connected sockets for packets.
    ///
    /// # Errors
    /// Why there are none, as a phrase.
    fn sockets(&self, kind: Sockets) -> Result<[Fd; 2], String>;

    /// The descriptors with which a service starts: its state file, locked, for the user `owner`, created if it is missing; for the
    /// service of databases the keys for TLS, if there are some. None for another service.
    ///
    /// # Errors
    /// Why a file cannot be used, as a phrase with its path.
    fn files_of(&self, service: ServiceKind, owner: Option<u32>) -> Result<Vec<Fd>, String>;

    /// Gives the damaged state file of a service another name. Returns its new path. An earlier file of that name is replaced.
    ///
    /// # Errors
    /// Why the file cannot be renamed, as a phrase with its path.
    fn set_aside(&self, service: ServiceKind) -> Result<PathBuf, String>;

    /// Whether all lines of the log are stored, or cannot be.
    fn is_log_stored(&self) -> bool;
}

/// The kinds of socket pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// Neither end passes descriptors.
    Plain,
    /// The second end passes descriptors to the first one, and sends only a little ahead of it.
    PassingToFirst,
}

/// A system without processes.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Nothing;

#[cfg(test)]
impl System for Nothing {
    fn sample(&self, _: ProgramId) -> Option<Sample> {
        None
    }

    fn processor_time(&self, _: ProgramId) -> Option<Duration> {
        None
    }

    fn own_memory(&self, _: ProgramId) -> Option<Result<u64, String>> {
        None
    }

    fn is_memory_uncounted(&self) -> bool {
        true
    }

    fn main_thread(&self, _: ProgramId) -> Option<Thread> {
        None
    }

    fn worker(&self, _: ProgramId, _: usize) -> Option<Thread> {
        None
    }

    fn activity(&self, _: ProgramId, _: bool) -> Activity {
        Activity { thread: None, process: None }
    }

    fn calls(&self, _: ProgramId) -> Vec<OngoingCall> {
        Vec::new()
    }

    fn turns(&self, _: ProgramId) -> Vec<OngoingTurn> {
        Vec::new()
    }

    fn traffic(&self, _: ProgramId) -> Traffic {
        Traffic::default()
    }

    fn charges(&self, _: ProgramId) -> Charges {
        Charges::default()
    }

    fn table(&self, _: u32) -> Result<Fd, String> {
        Err("there is no memory".into())
    }

    fn is_table_sealed(&self, _: &Fd) -> bool {
        false
    }

    fn sealed(&self, _: &str, _: &[u8]) -> Result<Fd, String> {
        Err("there is no memory".into())
    }

    fn sockets(&self, _: Sockets) -> Result<[Fd; 2], String> {
        Err("there are no descriptors".into())
    }

    fn files_of(&self, _: ServiceKind, _: Option<u32>) -> Result<Vec<Fd>, String> {
        Err("there are no files".into())
    }

    fn set_aside(&self, _: ServiceKind) -> Result<PathBuf, String> {
        Err("there are no files".into())
    }

    fn is_log_stored(&self) -> bool {
        true
    }
}
