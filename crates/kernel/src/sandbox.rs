//! The wall around the kernel. It keeps what it was given: sockets, keys, objects, rings that it makes.
//!
//! Up before the objects of the apps in it are loaded, but for the list of system calls, which has none
//! for opening files and so comes after them, and before the first thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sys::channel::Channel;
use sys::sandbox::seccomp::Profile;
use sys::sandbox::{Confined, Sandbox, Limits, Report};

/// What setrlimit(2) is told: connections, threads, and rings.
const LIMITS: Limits =
    Limits { descriptors: 1 << 20, threads: 1024, file_size: 1 << 30, memory: None };

/// What there is to keep.
#[derive(Debug)]
pub(crate) struct KernelSandbox<'a> {
    /// The control socket.
    pub(crate) monitor: &'a Channel,
    /// The user to become.
    pub(crate) run_as: Option<u32>,
    /// What came with `Start`.
    pub(crate) fds: &'a [OwnedFd],
    /// How many of them are apps' objects. Before the last, which is the flight recorder.
    pub(crate) objects: usize,
}

impl KernelSandbox<'_> {
    /// Confines this process, but for its system calls.
    ///
    /// # Errors
    /// It could not give up its user or its privileges.
    pub(crate) fn enter(&self) -> io::Result<Confined> {
        let fds: Vec<BorrowedFd<'_>> = self.fds.iter().map(AsFd::as_fd).collect();
        let end = fds.len().saturating_sub(1);
        let objects = fds.get(end.saturating_sub(self.objects)..end).unwrap_or_default();
        let sandbox = Sandbox { run_as: self.run_as, keep: &fds, objects, ..sandbox(self.monitor) };
        sandbox.enter()
    }
}

/// Limits this process to the kernel's system calls; what came of it all, and the listener for the
/// monitor.
pub(crate) fn limit_calls(mut confined: Confined, monitor: &Channel) -> (Report, Option<OwnedFd>) {
    sandbox(monitor).limit_calls(&mut confined);
    (confined.report, confined.listener)
}

fn sandbox(monitor: &Channel) -> Sandbox<'_> {
    Sandbox::new(Profile::Kernel, monitor.as_fd(), LIMITS)
}
