//! Confines the kernel, which keeps the sockets, keys and objects that it got at its start.
//!
//! The kernel confines itself before it loads objects of apps. The list of system calls follows after them, because it
//! has no call to open a file, and before the first thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use control::kernel::{MAX_DESCRIPTORS, MAX_THREADS};
use sys::channel::Channel;
use sys::sandbox::seccomp::Profile;
use sys::sandbox::{Confined, Limits, Report, Sandbox};

/// Resource limits: connections, threads and rings.
const LIMITS: Limits =
    Limits { descriptors: MAX_DESCRIPTORS, threads: MAX_THREADS, file_size: 1 << 30, memory: None };

/// The descriptors and the user that the kernel keeps.
#[derive(Debug)]
pub(crate) struct KernelSandbox<'a> {
    /// The control socket.
    pub(crate) monitor: &'a Channel,
    /// The user to become.
    pub(crate) run_as: Option<u32>,
    /// The descriptors that came with `Start`.
    pub(crate) fds: &'a [OwnedFd],
    /// Those of them whose content the kernel loads from files in its root directory.
    pub(crate) objects: &'a [BorrowedFd<'a>],
}

impl KernelSandbox<'_> {
    /// Confines this process except for its system calls.
    ///
    /// # Errors
    /// The process could not give up its user or its privileges.
    pub(crate) fn enter(&self) -> io::Result<Confined> {
        let fds: Vec<BorrowedFd<'_>> = self.fds.iter().map(AsFd::as_fd).collect();
        let (run_as, objects) = (self.run_as, self.objects);
        let sandbox = Sandbox { run_as, keep: &fds, objects, ..sandbox(self.monitor) };
        sandbox.confine_except_calls()
    }
}

/// Limits this process to the kernel's system calls. Returns the report, and the listener for the monitor.
pub(crate) fn limit_calls(mut confined: Confined, monitor: &Channel) -> (Report, Option<OwnedFd>) {
    sandbox(monitor).limit_calls(&mut confined);
    (confined.report, confined.listener)
}

fn sandbox(monitor: &Channel) -> Sandbox<'_> {
    Sandbox::new(Profile::Kernel, monitor.as_fd(), LIMITS)
}
