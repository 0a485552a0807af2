//! The services' calls, beyond those of any program. None starts anything; none but the broker makes a
//! socket or opens a file.

use super::{Condition, SyscallRule, always, when};

/// What any service does: messages on the sockets that it was given.
#[rustfmt::skip]
pub(super) const SERVICE: &[SyscallRule] = &[
    always("recvmsg", libc::SYS_recvmsg), // from the monitor, from apps
    always("recvfrom", libc::SYS_recvfrom), // the size of the next message
    always("sendmsg", libc::SYS_sendmsg), // to the monitor; to apps, with a descriptor
    when("sendto", libc::SYS_sendto, Condition::Null(4)), // to apps
    always("pipe2", libc::SYS_pipe2), // bells between its threads
];

/// What a service does with the file that it was given for its state.
#[rustfmt::skip]
pub(super) const OWN_FILE: &[SyscallRule] = &[
    always("pread64", libc::SYS_pread64), // reading
    always("pwrite64", libc::SYS_pwrite64), // writing
    always("ftruncate", libc::SYS_ftruncate), // making it longer or shorter
    always("fdatasync", libc::SYS_fdatasync), // before an acknowledgement
    always("fsync", libc::SYS_fsync), // the same
    always("statx", libc::SYS_statx), // its length
];

/// Kinds of sockets that the broker makes: for connections and for asking name servers. None with
/// which something on this machine could be reached that has no address.
const INTERNET: &[u32] = &[
    libc::AF_INET.cast_unsigned(),
    libc::AF_INET6.cast_unsigned(),
    libc::AF_NETLINK.cast_unsigned(), // C: which addresses this machine has, to sort a name's by
];

/// What ioctl(2) may be asked for.
const IOCTL: &[u32] = &[
    0x5421, // FIONBIO: std connects with a timeout
    0x541b, // FIONREAD: C, how long a name server's answer is
];

/// What the broker does: names and connections.
#[rustfmt::skip]
pub(super) const BROKER: &[SyscallRule] = &[
    when("socket", libc::SYS_socket, Condition::OneOf(0, INTERNET)), // connections, name servers
    always("connect", libc::SYS_connect), // the same
    always("bind", libc::SYS_bind), // C: asking the system for addresses
    always("getsockname", libc::SYS_getsockname), // C: sorting addresses
    always("getpeername", libc::SYS_getpeername), // std
    always("getsockopt", libc::SYS_getsockopt), // what became of a connection
    always("setsockopt", libc::SYS_setsockopt), // C: name servers
    always("sendmmsg", libc::SYS_sendmmsg), // C: name servers
    when("ioctl", libc::SYS_ioctl, Condition::OneOf(1, IOCTL)), // see there
    when("openat", libc::SYS_openat, Condition::ToRead(2)), // C: /etc/hosts, libraries
    always("newfstatat", libc::SYS_newfstatat), // C: the same
    always("statx", libc::SYS_statx), // std
    always("pread64", libc::SYS_pread64), // the loader
    always("faccessat2", libc::SYS_faccessat2), // the loader
];

/// The same, of x86-64.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLD_BROKER: &[SyscallRule] = &[
    when("open", libc::SYS_open, Condition::ToRead(1)), // some C libraries
    always("stat", libc::SYS_stat), // some C libraries
    always("access", libc::SYS_access), // the loader
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_BROKER: &[SyscallRule] = &[];
