//! System calls: what a process may ask of the kernel at all, seccomp(2).
//!
//! | file | what it is |
//! | --- | --- |
//! | `lists.rs` | the calls that each kind of process may make, with who needs them |
//! | `program.rs` | a filter of such a list, in the kernel's language |
//!
//! A call that is not on the list fails with EPERM. One that an attacker would like ([`watched`]) is
//! also told to the monitor ([`notifications`](super::notifications)), which answers EPERM: the caller waits so
//! long. What needs a listener and has none fails all the same.

mod lists;
mod program;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub use self::lists::{Condition, EMULATED, Profile, SyscallRule, watched};
use self::program::Own;
use super::{Mechanism, Report, Sandbox};

/// Installs the filter of the sandbox's kind. Returns where refused calls are told.
pub(super) fn restrict(sandbox: &Sandbox<'_>, report: &mut Report) -> Option<OwnedFd> {
    let own = Own {
        pid: rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(),
        control: sandbox.control.as_raw_fd().unsigned_abs(),
        has_proc: !report.is_on(Mechanism::Root),
        is_counted: sandbox.limits.memory.is_none(),
    };
    let told = program::of(sandbox.profile, own, true);
    match install(&told, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER) {
        Ok(listener) => {
            report.on(Mechanism::SystemCalls);
            report.on(Mechanism::CallReports);
            // SAFETY: with this flag the system has made a descriptor for us and returned it.
            return Some(unsafe { OwnedFd::from_raw_fd(listener) });
        }
        Err(error) => {
            let silent = program::of(sandbox.profile, own, false);
            report.add(Mechanism::SystemCalls, install(&silent, 0).map(drop));
            report.missing(Mechanism::CallReports, format!("seccomp user notification: {error}"));
        }
    }
    None
}

/// As [`restrict`], for the monitor: nobody is there whom refused calls could be told, and what it
/// starts is still to confine itself.
pub(super) fn restrict_monitor() -> io::Result<()> {
    let program = program::of(
        Profile::Monitor,
        Own { pid: 0, control: 0, has_proc: true, is_counted: true },
        false,
    );
    install(&program, 0).map(drop)
}

fn install(program: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<i32> {
    let len = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    // The system reads the program and does not write it, whatever the type says.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: pointer and length are those of the program, which outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match i32::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}
