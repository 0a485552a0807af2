//! Lists the kernel's system calls besides those of every program. None of them opens a file, listens, connects or
//! starts a process.

use super::{Condition, NODELAY, SyscallRule, always, when};

/// Requests of ioctl(2).
const IOCTL: &[u32] = &[
    0x5421, // FIONBIO
];

/// Values of an argument that names the calling thread.
const ITSELF: &[u32] = &[0];

/// Use of sockets that came as descriptors, and creation of rings.
#[rustfmt::skip]
pub(super) const KERNEL: &[SyscallRule] = &[
    always("epoll_create1", libc::SYS_epoll_create1), // a worker's start
    always("epoll_ctl", libc::SYS_epoll_ctl), // switches and zones connect and disconnect
    always("epoll_pwait", libc::SYS_epoll_pwait), // a worker sleeps
    always("epoll_pwait2", libc::SYS_epoll_pwait2), // a worker sleeps, to the nanosecond
    always("accept4", libc::SYS_accept4), // a switch connects
    always("recvfrom", libc::SYS_recvfrom), // from a switch
    always("recvmsg", libc::SYS_recvmsg), // from the monitor, from operators
    always("sendto", libc::SYS_sendto), // to a switch
    always("sendmsg", libc::SYS_sendmsg), // to the monitor, to operators
    always("shutdown", libc::SYS_shutdown), // ending a switch's connection
    always("getsockopt", libc::SYS_getsockopt), // a connection's error
    when("setsockopt", libc::SYS_setsockopt, Condition::SocketOption(NODELAY)), // switches
    always("getsockname", libc::SYS_getsockname), // logs
    always("getpeername", libc::SYS_getpeername), // logs
    when("ioctl", libc::SYS_ioctl, Condition::OneOf(1, IOCTL)), // std makes a socket non-blocking
    always("memfd_create", libc::SYS_memfd_create), // rings
    always("ftruncate", libc::SYS_ftruncate), // rings
    always("eventfd2", libc::SYS_eventfd2), // waking its threads
    always("pipe2", libc::SYS_pipe2), // doorbells
    when("sched_setaffinity", libc::SYS_sched_setaffinity, Condition::OneOf(0, ITSELF)), // a worker pins itself
    when("sched_getscheduler", libc::SYS_sched_getscheduler, Condition::OneOf(0, ITSELF)), // a worker reads its wake-up policy
    when("sched_setscheduler", libc::SYS_sched_setscheduler, Condition::OneOf(0, ITSELF)), // and sets it
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLD_KERNEL: &[SyscallRule] = &[
    always("epoll_wait", libc::SYS_epoll_wait), // a worker sleeps
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_KERNEL: &[SyscallRule] = &[];
