//! The system calls that an app in Python may make beyond those of other zones.
//!
//! The interpreter and its threads need few. The others serve the listening sockets that the operator grants: the monitor
//! binds them, and a zone can still neither make nor bind nor connect a socket.

use super::{Condition, SyscallRule, always, when};

/// Requests of ioctl(2) that the interpreter makes: whether a file is a terminal, and the flag to close it on execve(2).
const IOCTL: &[u32] = &[
    0x5401, // TCGETS
    0x5421, // FIONBIO
    0x5450, // FIONCLEX
    0x5451, // FIOCLEX
];

/// Options of setsockopt(2), whatever their level. `SO_ATTACH_FILTER` and `SO_LOCK_FILTER` are not among them: the monitor keeps
/// the listening sockets, and a filter would make the next instance of the app deaf.
const OPTIONS: &[u32] = &[
    1,  // TCP_NODELAY
    2,  // SO_REUSEADDR
    4,  // TCP_KEEPIDLE
    5,  // TCP_KEEPINTVL
    6,  // TCP_KEEPCNT
    7,  // SO_SNDBUF
    8,  // SO_RCVBUF
    9,  // SO_KEEPALIVE
    13, // SO_LINGER
];

/// Calls of the interpreter, and of clients' connections.
#[rustfmt::skip]
pub(super) const PYTHON: &[SyscallRule] = &[
    when("ioctl", libc::SYS_ioctl, Condition::OneOf(1, IOCTL)), // every file that Python opens
    always("accept4", libc::SYS_accept4), // a client of a granted listening socket
    always("getsockname", libc::SYS_getsockname), // Python's socket objects
    always("getpeername", libc::SYS_getpeername), // the log of an HTTP server
    always("getsockopt", libc::SYS_getsockopt), // Python's socket objects
    when("setsockopt", libc::SYS_setsockopt, Condition::OneOf(2, OPTIONS)), // TCP_NODELAY, SO_KEEPALIVE
    always("getgroups", libc::SYS_getgroups), // the module `os` at its start
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLD_PYTHON: &[SyscallRule] = &[
    always("accept", libc::SYS_accept), // a client of a granted listening socket
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_PYTHON: &[SyscallRule] = &[];
