//! Limits the system calls of a process, seccomp(2).
//!
//! | file | content |
//! | --- | --- |
//! | `lists.rs` | the system calls that each kind of process may make, and who needs each |
//! | `program.rs` | compiles such a list into a BPF program |
//!
//! A call that is not on the list fails with EPERM. For calls that an attacker would use ([`watched`]), the system
//! first notifies the monitor ([`notifications`](super::notifications)), which answers EPERM while the caller waits.
//! Without a listener they fail with EPERM at once.
//!
//! Why this module has a compiler of its own: `docs/decisions/0004-seccomp-compiler.md`.

mod lists;
mod program;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub(crate) use self::lists::LISTENER_OPTIONS;
pub use self::lists::{Condition, EMULATED, Profile, SyscallRule, watched};
use self::program::Own;
use super::{Mechanism, Report, Sandbox};

/// Installs the filter of the sandbox's profile. Returns the listener for watched calls.
pub(super) fn restrict(
    sandbox: &Sandbox<'_>,
    outlet: BorrowedFd<'_>,
    report: &mut Report,
) -> Option<OwnedFd> {
    let own = Own {
        pid: rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(),
        outlet: outlet.as_raw_fd().unsigned_abs(),
        has_proc: !report.is_on(Mechanism::Root),
        is_counted: sandbox.limits.memory.is_none(),
    };
    let notifying = program::compile(sandbox.profile, own, true);
    match install(&notifying, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER) {
        Ok(listener) => {
            report.on(Mechanism::SystemCalls);
            report.on(Mechanism::CallReports);
            // SAFETY: with this flag the system returns a new descriptor.
            return Some(unsafe { OwnedFd::from_raw_fd(listener) });
        }
        Err(error) => {
            let silent = program::compile(sandbox.profile, own, false);
            report.add(Mechanism::SystemCalls, install(&silent, 0).map(drop));
            report.missing(Mechanism::CallReports, format!("seccomp user notification: {error}"));
        }
    }
    None
}

/// Installs the filter of the monitor. No process listens for its refused calls, and its children confine themselves
/// later.
pub(super) fn restrict_monitor() -> io::Result<()> {
    let program = program::compile(
        Profile::Monitor,
        Own { pid: 0, outlet: 0, has_proc: true, is_counted: true },
        false,
    );
    install(&program, 0).map(drop)
}

/// Whether a process may add a filter later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Further {
    /// It may, as the list of its system calls follows.
    Allowed,
    /// It may not.
    Refused,
}

/// Refuses this process all memory that becomes executable from now on.
///
/// A host of WebAssembly calls this after it has mapped the compiled code and before it runs it.
///
/// # Errors
/// The system refuses: the process must run no code of an app.
pub fn forbid_new_code(further: Further) -> io::Result<()> {
    install(&program::without_new_code(further), libc::SECCOMP_FILTER_FLAG_TSYNC).map(drop)
}

fn install(program: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<i32> {
    let len = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    // The type asks for a mutable pointer, and the system only reads the program.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: pointer and length belong to the program, which outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match i32::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}
