//! Lists the HTTP interface's system calls besides those of every program. None of them opens a file, listens, connects or starts a
//! process: its sockets came as descriptors.

use super::{Condition, NODELAY, SyscallRule, always, when};

/// Requests of ioctl(2).
const IOCTL: &[u32] = &[
    0x5421, // FIONBIO
];

/// Use of sockets that came as descriptors, and packages in memory for the monitor.
#[rustfmt::skip]
pub(super) const NORTHBOUND: &[SyscallRule] = &[
    always("epoll_create1", libc::SYS_epoll_create1), // the runtime
    always("epoll_ctl", libc::SYS_epoll_ctl), // clients connect and disconnect
    always("epoll_pwait", libc::SYS_epoll_pwait), // the runtime sleeps
    always("eventfd2", libc::SYS_eventfd2), // the runtime wakes itself
    always("accept4", libc::SYS_accept4), // a client connects
    always("recvfrom", libc::SYS_recvfrom), // from clients
    always("recvmsg", libc::SYS_recvmsg), // from the monitor and the kernel
    always("sendto", libc::SYS_sendto), // to clients
    always("sendmsg", libc::SYS_sendmsg), // to the monitor and the kernel
    always("shutdown", libc::SYS_shutdown), // ending a client's connection
    always("getsockopt", libc::SYS_getsockopt), // a connection's error; the user of a client at the Unix socket
    when("setsockopt", libc::SYS_setsockopt, Condition::SocketOption(NODELAY)), // clients
    always("getsockname", libc::SYS_getsockname), // which address a client used
    always("getpeername", libc::SYS_getpeername), // where a client is
    when("ioctl", libc::SYS_ioctl, Condition::OneOf(1, IOCTL)), // std makes a socket non-blocking
    always("memfd_create", libc::SYS_memfd_create), // a package or a configuration for the monitor
    always("ftruncate", libc::SYS_ftruncate), // the same
    always("statx", libc::SYS_statx), // the length of sealed memory
    always("pread64", libc::SYS_pread64), // its content
];
