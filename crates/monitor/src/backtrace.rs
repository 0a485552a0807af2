//! Has the functions found that a crashed kernel was calling, in a process of their own and without waiting for it.
//!
//! The objects of apps are hostile input, so `rosemary-security` reads them. A thread waits for its reply.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use control::flight::LoadedModule;
use control::incident::{Frame, IncidentId};
use control::security::{CrashedModule, SecurityReply, SecurityRequest};
use sys::crash::CrashRecord;
use sys::object::loaded_modules;
use tracing::warn;

use crate::installation::Installation;
use crate::one_shot;
use supervisor::effects::CrashedKernel;

/// The time between two checks for the reply.
const PERIOD: Duration = Duration::from_millis(50);

/// The most modules whose files are read.
const MOST_FILES: usize = 64;

/// A backtrace that is being made.
#[derive(Debug)]
pub(crate) struct PendingBacktrace {
    incident: IncidentId,
    reply: Receiver<Vec<Frame>>,
    next_check: Instant,
}

/// Starts to make the backtrace of a crashed kernel. `program` is its program's file, and `run_as` the user for the process that
/// reads the files, if the monitor is root.
///
/// # Errors
/// A program is missing, or the system is out of threads or descriptors.
pub(crate) fn begin(
    crashed: CrashedKernel,
    program: Option<BorrowedFd<'_>>,
    run_as: Option<u32>,
    now: Instant,
) -> io::Result<PendingBacktrace> {
    let CrashedKernel { incident, record, modules: loaded, objects } = crashed;
    let object_of = |number: u16| objects.iter().find(|(it, ..)| *it == number);
    let security = Installation::security().map_err(io::Error::other)?;
    let own = loaded_modules();
    let (mut modules, mut files) = (Vec::new(), Vec::new());
    for LoadedModule { module, app } in loaded {
        let (name, file) = match app.and_then(|app| object_of(app.get())) {
            Some((_, name, object)) => (name.clone(), reopen(object.as_fd()).ok()),
            None if module.name.is_empty() => {
                ("kernel".into(), program.and_then(|it| reopen(it).ok()))
            }
            // The name is the kernel's claim. Only files that this program itself uses are opened.
            None => {
                let same = own.iter().find(|it| it.file_name() == module.name);
                let path = same.map(|it| PathBuf::from(&it.name));
                (module.name, path.and_then(|path| File::open(path).ok()))
            }
        };
        let file = file.filter(|_| files.len() < MOST_FILES);
        let has_file = file.is_some();
        modules.push(CrashedModule { name, range: module.range, bias: module.bias, has_file });
        files.extend(file.map(OwnedFd::from));
    }
    let CrashRecord { registers, stack, .. } = record;
    let request = SecurityRequest::Unwind { run_as, registers, stack, modules };
    let (send, reply) = sync_channel(1);
    let wait = move || {
        let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        match one_shot::request(&security, &request, &files) {
            // The monitor may have stopped waiting.
            Ok(SecurityReply::Backtrace { frames }) => _ = send.send(frames),
            Ok(other) => warn!(?other, "could not make a backtrace of the kernel"),
            Err(error) => warn!(%error, "could not make a backtrace of the kernel"),
        }
    };
    std::thread::Builder::new().name("backtrace".into()).spawn(wait)?;
    Ok(PendingBacktrace { incident, reply, next_check: now + PERIOD })
}

impl PendingBacktrace {
    /// When [`check`](Self::check) is due.
    pub(crate) fn next_due(&self) -> Instant {
        self.next_check
    }

    /// Returns the backtrace and its incident once it is made. `Err` if it will not be made.
    pub(crate) fn check(
        &mut self,
        now: Instant,
    ) -> Result<Option<(IncidentId, Vec<Frame>)>, NotMade> {
        self.next_check = now + PERIOD;
        match self.reply.try_recv() {
            Ok(frames) => Ok(Some((self.incident, frames))),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(NotMade),
        }
    }
}

/// The backtrace could not be made; the log says why.
#[derive(Debug)]
pub(crate) struct NotMade;

/// Opens the file of a descriptor again, with a position of its own: the reader moves it.
fn reopen(fd: BorrowedFd<'_>) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
