//! The kernel's calls, beyond those of any program. It opens nothing, listens on nothing new, connects
//! to nothing and starts nothing: there is no call for that here.

use super::{Condition, SyscallRule, always, when};

/// What ioctl(2) may be asked for.
const IOCTL: &[u32] = &[
    0x5421, // FIONBIO
];

/// Of an argument that names a process or thread: the caller.
const ITSELF: &[u32] = &[0];

/// What the kernel does beyond that, once it has started: sockets that it was given, and rings that it makes.
#[rustfmt::skip]
pub(super) const KERNEL: &[SyscallRule] = &[
    always("epoll_create1", libc::SYS_epoll_create1), // a worker's start
    always("epoll_ctl", libc::SYS_epoll_ctl), // switches and zones come and go
    always("epoll_pwait", libc::SYS_epoll_pwait), // a worker sleeps
    always("epoll_pwait2", libc::SYS_epoll_pwait2), // a worker sleeps, to the nanosecond
    always("accept4", libc::SYS_accept4), // a switch connects
    always("recvfrom", libc::SYS_recvfrom), // from a switch
    always("recvmsg", libc::SYS_recvmsg), // from the monitor, from operators
    always("sendto", libc::SYS_sendto), // to a switch
    always("sendmsg", libc::SYS_sendmsg), // to the monitor, to operators
    always("shutdown", libc::SYS_shutdown), // a switch is sent away
    always("getsockopt", libc::SYS_getsockopt), // what became of a connection
    always("setsockopt", libc::SYS_setsockopt), // TCP_NODELAY
    always("getsockname", libc::SYS_getsockname), // logs
    always("getpeername", libc::SYS_getpeername), // logs
    when("ioctl", libc::SYS_ioctl, Condition::OneOf(1, IOCTL)), // std makes a socket non-blocking
    always("memfd_create", libc::SYS_memfd_create), // rings
    always("ftruncate", libc::SYS_ftruncate), // rings
    always("eventfd2", libc::SYS_eventfd2), // bells between its threads
    always("pipe2", libc::SYS_pipe2), // doorbells
    when("sched_setaffinity", libc::SYS_sched_setaffinity, Condition::OneOf(0, ITSELF)), // a worker pins itself
    when("sched_getscheduler", libc::SYS_sched_getscheduler, Condition::OneOf(0, ITSELF)), // a worker asks how it is woken
    when("sched_setscheduler", libc::SYS_sched_setscheduler, Condition::OneOf(0, ITSELF)), // and says it
];

/// The same, of x86-64.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLD_KERNEL: &[SyscallRule] = &[
    always("epoll_wait", libc::SYS_epoll_wait), // a worker sleeps
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_KERNEL: &[SyscallRule] = &[];
