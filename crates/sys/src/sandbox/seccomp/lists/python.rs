//! The system calls that an app in Python may make beyond those of other zones.
//!
//! The interpreter and its threads need few. The others serve the listening sockets that the operator grants: the monitor
//! binds them, and a zone can still neither make nor bind nor connect a socket.

use super::{Condition, FCNTL, SyscallRule, always, when};

/// Requests of ioctl(2) that the interpreter makes: whether a file is a terminal, and the flag to close it on execve(2).
const IOCTL: &[u32] = &[
    0x5401, // TCGETS
    0x5421, // FIONBIO
    0x5450, // FIONCLEX
    0x5451, // FIOCLEX
];

/// Options of setsockopt(2). The monitor keeps the listening sockets for the next instance of the app, so it restores each of
/// these options before ([`SharedListener`](crate::listening::SharedListener)). It could not restore `SO_ATTACH_FILTER` and `SO_LOCK_FILTER`.
pub(crate) const LISTENER_OPTIONS: &[(libc::c_int, libc::c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
];

/// Commands of fcntl(2): those of every program, and the query for a lock, which holds nothing. It is `FCNTL` with one more.
const FCNTL_AND_QUERY: &[u32] = &[
    0, 1, 2, 3, 4, 1030, 1033, 1034, // as in `FCNTL`
    5,    // F_GETLK: SQLite asks whether another process writes
];
const _: () = assert!(FCNTL_AND_QUERY.len() == FCNTL.len() + 1);

/// Commands of fcntl(2) that the filter answers with success: locks that exclude other processes. The app is the only process
/// that sees its `/tmp`, so they would always succeed there. Made, they could also lock a library or a granted file, and
/// stop a program of the machine: the database of an RPM package manager is below `/usr/lib`.
///
/// Locks of open files, `F_OFD_SETLK` and flock(2), exclude threads of one process from each other. Success without a lock would
/// be wrong for them, so they are refused.
const LOCK_PROCESSES_OUT: &[u32] = &[
    6, // F_SETLK: SQLite, lockf()
    7, // F_SETLKW: lockf()
];

/// Modes and duplicates of descriptors, and locks.
pub(super) const LOCKS: &[SyscallRule] = &[when(
    "fcntl",
    libc::SYS_fcntl,
    Condition::OneOfOrDone(1, FCNTL_AND_QUERY, LOCK_PROCESSES_OUT),
)];

/// Calls of the interpreter, and of clients' connections.
#[rustfmt::skip]
pub(super) const PYTHON: &[SyscallRule] = &[
    when("ioctl", libc::SYS_ioctl, Condition::OneOf(1, IOCTL)), // every file that Python opens
    always("accept4", libc::SYS_accept4), // a client of a granted listening socket
    always("getsockname", libc::SYS_getsockname), // Python's socket objects
    always("getpeername", libc::SYS_getpeername), // the log of an HTTP server
    always("getsockopt", libc::SYS_getsockopt), // Python's socket objects
    when("setsockopt", libc::SYS_setsockopt, Condition::SocketOption(LISTENER_OPTIONS)), // see the list
    always("getgroups", libc::SYS_getgroups), // the module `os` at its start
    // Modes and times of files. The mounts of all files outside of /tmp are read-only, and no mount honours set-user-id bits.
    // Descriptors that came from the monitor are sockets, pipes and sealed memory, which nobody opens again by name.
    when("fchmod", libc::SYS_fchmod, Condition::OwnRoot), // shutil.copy(), tempfile
    when("fchmodat", libc::SYS_fchmodat, Condition::OwnRoot), // os.chmod() of some C libraries
    when("utimensat", libc::SYS_utimensat, Condition::OwnRoot), // shutil.copy2(), os.utime()
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLD_PYTHON: &[SyscallRule] = &[
    always("accept", libc::SYS_accept), // a client of a granted listening socket
    when("chmod", libc::SYS_chmod, Condition::OwnRoot), // as `fchmodat`
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_PYTHON: &[SyscallRule] = &[];
