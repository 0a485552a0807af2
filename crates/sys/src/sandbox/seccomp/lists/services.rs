//! Lists the services' system calls besides those of every program. No service starts a process, and only the broker and the service of
//! databases create sockets and open files.

use super::{Condition, SyscallRule, always, when};

/// Messages of every service on sockets that came as descriptors.
#[rustfmt::skip]
pub(super) const SERVICE: &[SyscallRule] = &[
    always("recvmsg", libc::SYS_recvmsg), // from the monitor, from apps
    always("recvfrom", libc::SYS_recvfrom), // the size of the next message
    when("sendto", libc::SYS_sendto, Condition::Null(4)), // to the monitor, to apps
    always("pipe2", libc::SYS_pipe2), // waking its threads
];

/// The report of a service that passes no descriptors to apps.
#[rustfmt::skip]
pub(super) const REPORT: &[SyscallRule] = &[
    when("sendmsg", libc::SYS_sendmsg, Condition::Outlet), // with the listener
];

/// Use of the file for a service's state, which came as a descriptor.
#[rustfmt::skip]
pub(super) const OWN_FILE: &[SyscallRule] = &[
    always("pread64", libc::SYS_pread64), // reading
    always("pwrite64", libc::SYS_pwrite64), // writing
    always("ftruncate", libc::SYS_ftruncate), // changing its length
    always("fdatasync", libc::SYS_fdatasync), // before an acknowledgement
    always("fsync", libc::SYS_fsync), // the same
    always("statx", libc::SYS_statx), // its length
];

/// Address families of the broker's sockets, for connections and name servers. With none of them can it reach a
/// socket of this machine that has no IP address.
const INTERNET: &[u32] = &[
    libc::AF_INET.cast_unsigned(),
    libc::AF_INET6.cast_unsigned(),
    libc::AF_NETLINK.cast_unsigned(), // C: the machine's addresses, by which it sorts those of a name
];

/// Requests of ioctl(2).
const IOCTL: &[u32] = &[
    0x5421, // FIONBIO: std connects with a timeout
    0x541b, // FIONREAD: C: the length of a name server's answer
];

/// Options of setsockopt(2).
const OPTIONS: &[(libc::c_int, libc::c_int)] = &[
    (libc::IPPROTO_IP, libc::IP_RECVERR), // C: name servers that cannot be reached
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), // C: name servers
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR), // the same
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER), // the same
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), // some C libraries: name servers
    (libc::IPPROTO_TCP, libc::TCP_NODELAY), // connections
    (libc::SOL_SOCKET, libc::SO_SNDBUF),  // connections: no limit of memory counts their buffers
    (libc::SOL_SOCKET, libc::SO_RCVBUF),  // the same
];

/// The broker's work with names and connections.
#[rustfmt::skip]
pub(super) const BROKER: &[SyscallRule] = &[
    always("sendmsg", libc::SYS_sendmsg), // to the monitor; to apps, with a connection
    when("socket", libc::SYS_socket, Condition::OneOf(0, INTERNET)), // connections, name servers
    always("connect", libc::SYS_connect), // the same
    always("bind", libc::SYS_bind), // C: asking the system for addresses
    always("getsockname", libc::SYS_getsockname), // C: sorting addresses
    always("getpeername", libc::SYS_getpeername), // std
    always("getsockopt", libc::SYS_getsockopt), // a connection's error
    when("setsockopt", libc::SYS_setsockopt, Condition::SocketOption(OPTIONS)), // C: name servers; connections
    always("sendmmsg", libc::SYS_sendmmsg), // C: name servers
    when("ioctl", libc::SYS_ioctl, Condition::OneOf(1, IOCTL)), // see the list
    when("openat", libc::SYS_openat, Condition::ToRead(2)), // C: /etc/hosts, libraries
    always("newfstatat", libc::SYS_newfstatat), // C: the same
    always("statx", libc::SYS_statx), // std
    always("pread64", libc::SYS_pread64), // the loader
    always("faccessat2", libc::SYS_faccessat2), // the loader
];

/// Address families of connections to databases, and to name servers.
const OF_DATABASES: &[u32] = &[
    libc::AF_UNIX.cast_unsigned(), // a database of this machine
    libc::AF_INET.cast_unsigned(),
    libc::AF_INET6.cast_unsigned(),
    libc::AF_NETLINK.cast_unsigned(), // C: the machine's addresses, by which it sorts those of a name
];

/// Options of setsockopt(2).
const OPTIONS_OF_DATABASES: &[(libc::c_int, libc::c_int)] = &[
    (libc::IPPROTO_IP, libc::IP_RECVERR), // C: name servers that cannot be reached
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), // C: name servers
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR), // the same
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER), // the same
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), // some C libraries: name servers
    (libc::IPPROTO_TCP, libc::TCP_NODELAY), // connections
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO), // connections: no call waits without an end
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO), // the same
];

/// Connections to databases, names of hosts, and the keys for TLS, which came as descriptors.
#[rustfmt::skip]
pub(super) const OVSDB: &[SyscallRule] = &[
    when("socket", libc::SYS_socket, Condition::OneOf(0, OF_DATABASES)), // connections, name servers
    always("connect", libc::SYS_connect), // the same
    always("bind", libc::SYS_bind), // C: asking the system for addresses
    always("getsockname", libc::SYS_getsockname), // C: sorting addresses
    always("getpeername", libc::SYS_getpeername), // std
    always("getsockopt", libc::SYS_getsockopt), // a connection's error
    when("setsockopt", libc::SYS_setsockopt, Condition::SocketOption(OPTIONS_OF_DATABASES)), // C: name servers; connections
    always("sendmmsg", libc::SYS_sendmmsg), // C: name servers
    when("ioctl", libc::SYS_ioctl, Condition::OneOf(1, IOCTL)), // see the list
    when("openat", libc::SYS_openat, Condition::ToRead(2)), // C: /etc/hosts, libraries
    always("newfstatat", libc::SYS_newfstatat), // C: the same
    always("statx", libc::SYS_statx), // std; the length of the keys
    always("pread64", libc::SYS_pread64), // the loader; the keys
    always("faccessat2", libc::SYS_faccessat2), // the loader
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLD_BROKER: &[SyscallRule] = &[
    when("open", libc::SYS_open, Condition::ToRead(1)), // some C libraries
    always("stat", libc::SYS_stat), // some C libraries
    always("access", libc::SYS_access), // the loader
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_BROKER: &[SyscallRule] = &[];
