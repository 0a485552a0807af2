//! Holds the number of a child's program, so that a system call by this number cannot affect another process unnoticed.
//!
//! A program behind an init is reaped by that init, and its number can then belong to another process. The caller asks
//! [`exists`](HeldProgram::exists) after its system call: if the program still has the number, it had the number all the time.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Child, init};

/// A program that had its process number when this was made.
#[derive(Debug)]
pub struct HeldProgram {
    pid: u32,
    pidfd: OwnedFd,
}

impl Child {
    /// Holds its program; `None` if the program has ended. Call this after the program has started its work: before, the child itself
    /// is held, which may become an init.
    pub fn hold(&self) -> Option<HeldProgram> {
        if self.reaped {
            return None;
        }
        let own = self.pid.as_raw_nonzero().get().unsigned_abs();
        let behind_init = || init::program_of(own, !self.ends_descendants);
        let program = || self.report.as_ref().and_then(|_| behind_init()).unwrap_or(own);
        let pid = program();
        let pidfd = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?;
        // The descriptor may refer to a process that has just received the number of a program that ended.
        let held = HeldProgram { pid, pidfd };
        (program() == pid && held.exists()).then_some(held)
    }
}

impl HeldProgram {
    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the program runs, so that it has had the number since it was held.
    pub fn exists(&self) -> bool {
        // A pidfd is readable from the end of its process on, before anything can reap the process.
        let mut pidfd = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut pidfd, Some(&Timespec::default())) == Ok(0)
    }

    /// Whether the thread with the number `tid` is still one of the program. If it was one before, it has been one since.
    pub fn has_thread(&self, tid: u32) -> bool {
        Path::new(&format!("/proc/{}/task/{tid}", self.pid)).exists() && self.exists()
    }
}
