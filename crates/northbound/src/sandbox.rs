//! Confines the process before it accepts a connection.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use control::northbound::NorthboundReply;
use control::service::ServiceSandbox;
use sys::channel::Channel;
use sys::sandbox::seccomp::Profile;
use sys::sandbox::{Limits, Sandbox};

use crate::limits;
use crate::process::NorthboundError;

/// The limits of setrlimit(2). A package that a client uploads is the longest file.
const LIMITS: Limits = Limits {
    descriptors: limits::DESCRIPTORS,
    threads: 64,
    file_size: limits::PACKAGE as u64,
    memory: None,
};

/// Confines the process and reports the result to the monitor.
///
/// # Errors
/// The process could not give up its privileges, or the sandbox has gaps and must have none.
pub(crate) fn confine(
    monitor: &Channel,
    fds: &[OwnedFd],
    required: ServiceSandbox,
) -> Result<(), NorthboundError> {
    let keep: Vec<BorrowedFd<'_>> = fds.iter().map(OwnedFd::as_fd).collect();
    let sandbox = Sandbox {
        run_as: required.run_as,
        keep: &keep,
        ..Sandbox::new(Profile::Northbound, monitor.as_fd(), LIMITS)
    };
    let confined = sandbox.confine().map_err(|error: io::Error| NorthboundError::Confine(error))?;
    let gaps = confined.report.gaps_text().filter(|_| required.full);
    let listener = confined.listener.as_ref().map(OwnedFd::as_fd);
    let reply = NorthboundReply::Confined { report: confined.report };
    confined.outlet.send(&reply, listener.as_slice())?;
    gaps.map_or(Ok(()), |gaps| Err(NorthboundError::Gaps(gaps)))
}
