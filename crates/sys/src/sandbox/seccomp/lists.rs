//! Lists the system calls that each kind of process may make, and who needs each.
//!
//! The names are those of Linux. The numbers are those of the machine for which this is compiled. Older calls that
//! only x86-64 has are in lists of their own.
//!
//! `read`, `write`, `poll` and the other calls of the packet path have no condition: Linux caches that they are
//! allowed and does not run the filter for them.

mod kernel;
mod monitor;
mod northbound;
mod python;
mod services;
mod watched;

use libc::c_long;

use self::kernel::{KERNEL, OLD_KERNEL};
use self::monitor::{MONITOR, OLD_MONITOR};
use self::northbound::NORTHBOUND;
pub(crate) use self::python::LISTENER_OPTIONS;
use self::python::{LOCKS, OLD_PYTHON, PYTHON};
use self::services::{BROKER, OLD_BROKER, OVSDB, OWN_FILE, REPORT, SERVICE};
pub use self::watched::{EMULATED, watched};

/// The list of system calls of a kind of process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// An app's zone.
    Zone,
    /// The zone of WebAssembly apps.
    Wasm,
    /// The zone of an app in Python.
    Python,
    /// A program that reads one file of others: that checks packages, or compiles WebAssembly modules.
    Security,
    /// The kernel and the apps in it.
    Kernel,
    /// The log service.
    Log,
    /// The storage service.
    Storage,
    /// The broker service.
    Broker,
    /// The service of databases.
    Ovsdb,
    /// The history service.
    History,
    /// The HTTP interface.
    Northbound,
    /// The monitor, and its children until they confine themselves.
    Monitor,
}

impl Profile {
    /// Every profile of a confined process.
    #[cfg(test)]
    pub(super) const CONFINED: [Self; 11] = [
        Self::Zone,
        Self::Wasm,
        Self::Python,
        Self::Security,
        Self::Kernel,
        Self::Log,
        Self::Storage,
        Self::Broker,
        Self::Ovsdb,
        Self::History,
        Self::Northbound,
    ];

    /// Whether such a process sends descriptors after its report: rings, connections, memory with a package. The others can
    /// send none, see [`Condition::Outlet`].
    pub(crate) fn passes_descriptors(self) -> bool {
        match self {
            Self::Kernel | Self::Broker | Self::Northbound | Self::Monitor => true,
            Self::Zone
            | Self::Wasm
            | Self::Python
            | Self::Security
            | Self::Log
            | Self::Storage
            | Self::History
            | Self::Ovsdb => false,
        }
    }

    /// The calls that it allows, each at most once.
    pub fn allowed(self) -> impl Iterator<Item = &'static SyscallRule> {
        let lists: &[&[SyscallRule]] = match self {
            Self::Zone => &[PROGRAM, HOLDS, OLD_PROGRAM, CONTROL, FILES, OLD_FILES, TMP, OLD_TMP],
            Self::Wasm => &[
                PROGRAM,
                HOLDS,
                OLD_PROGRAM,
                CONTROL,
                FILES,
                OLD_FILES,
                TMP,
                OLD_TMP,
                FURTHER_FILTER,
            ],
            Self::Python => &[
                PROGRAM,
                LOCKS,
                OLD_PROGRAM,
                CONTROL,
                FILES,
                OLD_FILES,
                TMP,
                OLD_TMP,
                PYTHON,
                OLD_PYTHON,
            ],
            Self::Security => &[PROGRAM, HOLDS, OLD_PROGRAM, CONTROL, GIVEN_FILES],
            Self::Kernel => &[PROGRAM, MAKES, OLD_PROGRAM, KERNEL, OLD_KERNEL],
            Self::Log | Self::Storage => &[PROGRAM, HOLDS, OLD_PROGRAM, SERVICE, REPORT, OWN_FILE],
            Self::History => &[PROGRAM, HOLDS, OLD_PROGRAM, SERVICE, REPORT, OWN_FILE],
            Self::Broker => &[PROGRAM, MAKES, OLD_PROGRAM, SERVICE, BROKER, OLD_BROKER],
            Self::Ovsdb => &[PROGRAM, MAKES, OLD_PROGRAM, SERVICE, REPORT, OVSDB, OLD_BROKER],
            Self::Northbound => &[PROGRAM, MAKES, OLD_PROGRAM, NORTHBOUND, OLD_KERNEL],
            Self::Monitor => &[
                PROGRAM,
                MAKES,
                OLD_PROGRAM,
                FILES,
                OLD_FILES,
                TMP,
                OLD_TMP,
                KERNEL,
                OLD_KERNEL,
                MONITOR,
                OLD_MONITOR,
            ],
        };
        lists.iter().copied().flatten()
    }
}

/// A system call and the condition under which it is allowed.
#[derive(Debug, Clone, Copy)]
pub struct SyscallRule {
    /// Its name in the manual.
    pub name: &'static str,
    /// Its number on this machine.
    pub number: c_long,
    /// The condition.
    pub condition: Condition,
}

/// When a call is allowed. Arguments count from 0. Of an `int` argument, Linux and the filter use only the lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// The argument is one of these values.
    OneOf(u8, &'static [u32]),
    /// The bits of the argument that are set in the first number have the value of the second.
    Bits(u8, u32, u32),
    /// The argument is a null pointer.
    Null(u8),
    /// The argument is one of the first list. In a process with a private root directory, the filter answers the values of the
    /// second list with success, and the system does not make the call.
    OneOfOrDone(u8, &'static [u32], &'static [u32]),
    /// The argument is one of the first list. A process without a private root directory, which loads its object by
    /// `/proc`, may also use the second list.
    OneOfOrWithProc(u8, &'static [u32], &'static [u32]),
    /// The first argument named here is the process's own number, and the second is no signal that stops a process.
    /// A stopped process handles no events and does not end.
    OwnSignal(u8, u8),
    /// For sendmsg(2): the first argument is the number of the process's outlet, and the third has no `MSG_FASTOPEN`. The
    /// process closes the outlet after its first message, and no later descriptor can get that number. So a process with
    /// this condition passes the listener for its refused calls to the monitor and cannot pass any descriptor later.
    Outlet,
    /// For setsockopt(2): the second and third argument are one of these pairs of a level and an option.
    SocketOption(&'static [(libc::c_int, libc::c_int)]),
    /// The argument has flags of open(2), and none that creates or changes a file. A call with such a flag is watched,
    /// and its listener checks the path.
    ToRead(u8),
    /// The process has a private root directory, so it can change files only in its `/tmp`.
    OwnRoot,
    /// A cgroup counts the process's memory. The limits of setrlimit(2) do not count stacks, which this call enlarges.
    Counted,
    /// The argument has flags of mmap(2), and none for memory that no limit counts.
    CountedFlags(u8),
}

/// Commands of fcntl(2), without those that send signals or take leases and locks.
const FCNTL: &[u32] = &[
    0,    // F_DUPFD
    1,    // F_GETFD
    2,    // F_SETFD
    3,    // F_GETFL
    4,    // F_SETFL
    1030, // F_DUPFD_CLOEXEC
    1033, // F_ADD_SEALS
    1034, // F_GET_SEALS
];

/// The same for processes that make doorbells. Others could enlarge the doorbells that they hold.
const FCNTL_OF_PIPES: &[u32] = &[
    0, 1, 2, 3, 4, 1030, 1033, 1034, // as above
    1031, // F_SETPIPE_SZ: the size of a doorbell
    1032, // F_GETPIPE_SZ
];

/// The option that a program sets for a connection that its library in Rust calls `set_nodelay`.
///
/// No list has `SO_LINGER`. The close of a socket with it blocks whoever closes it last, which may be another process.
const NODELAY: &[(libc::c_int, libc::c_int)] = &[(libc::IPPROTO_TCP, libc::TCP_NODELAY)];

/// Operations of prctl(2).
const PRCTL: &[u32] = &[
    15,          // PR_SET_NAME
    16,          // PR_GET_NAME
    0x5356_4d41, // PR_SET_VMA
];

/// Further operations for a process that loads its object by `/proc`, where a process that cannot be dumped may not
/// read its own files.
const DUMPABLE: &[u32] = &[
    3, // PR_GET_DUMPABLE
    4, // PR_SET_DUMPABLE
];

/// Advice for madvise(2). `MADV_MERGEABLE` is missing: no limit counts its tables, and the time of writes reveals the
/// pages of others. Advice that makes the system work on a whole range at once is missing, too.
const MADVISE: &[u32] = &[
    0,   // MADV_NORMAL
    1,   // MADV_RANDOM
    2,   // MADV_SEQUENTIAL
    3,   // MADV_WILLNEED
    4,   // MADV_DONTNEED
    8,   // MADV_FREE
    10,  // MADV_DONTFORK
    11,  // MADV_DOFORK
    14,  // MADV_HUGEPAGE
    15,  // MADV_NOHUGEPAGE
    16,  // MADV_DONTDUMP
    17,  // MADV_DODUMP
    18,  // MADV_WIPEONFORK: cryptography, TLS in the kernel
    19,  // MADV_KEEPONFORK
    102, // MADV_GUARD_INSTALL: C, stacks of threads
    103, // MADV_GUARD_REMOVE
];

/// Operations of `arch_prctl(2)`, without shadow stacks, which setrlimit(2) does not count.
#[cfg(target_arch = "x86_64")]
const ARCH_PRCTL: &[u32] = &[
    0x1002, // ARCH_SET_FS
    0x1003, // ARCH_GET_FS
];

/// Flags for memory that no limit counts: the machine's huge pages, and stacks, which setrlimit(2) does not count.
pub(super) const UNCOUNTED: u32 = (libc::MAP_HUGETLB | libc::MAP_GROWSDOWN).cast_unsigned();

/// Flags for memory that setrlimit(2) does not count: shared and without a file. The resident size does not show it
/// either, because it stays allocated after its pages are unmapped.
pub(super) const SHARED: u32 = (libc::MAP_SHARED | libc::MAP_ANONYMOUS).cast_unsigned();

/// Signals that stop a process if it does not handle them.
pub(super) const STOPS: [u32; 4] = [
    libc::SIGSTOP.cast_unsigned(),
    libc::SIGTSTP.cast_unsigned(),
    libc::SIGTTIN.cast_unsigned(),
    libc::SIGTTOU.cast_unsigned(),
];

/// Flags of clone(2) that a thread needs. The mask adds those that must be absent.
const CLONE_THREAD: u32 =
    (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND).cast_unsigned();
const CLONE_MASK: u32 = CLONE_THREAD
    | (libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_PTRACE)
        .cast_unsigned();

const fn always(name: &'static str, number: c_long) -> SyscallRule {
    SyscallRule { name, number, condition: Condition::Always }
}

const fn when(name: &'static str, number: c_long, condition: Condition) -> SyscallRule {
    SyscallRule { name, number, condition }
}

/// Modes and duplicates of descriptors, seals of shared memory.
const HOLDS: &[SyscallRule] = &[when("fcntl", libc::SYS_fcntl, Condition::OneOf(1, FCNTL))];

/// The same and the size of pipes.
const MAKES: &[SyscallRule] =
    &[when("fcntl", libc::SYS_fcntl, Condition::OneOf(1, FCNTL_OF_PIPES))];

/// Calls that every program in Rust or C needs.
#[rustfmt::skip]
const PROGRAM: &[SyscallRule] = &[
    always("read", libc::SYS_read), // doorbells, files
    always("write", libc::SYS_write), // doorbells, the log
    always("readv", libc::SYS_readv), // std's and C's buffered reading
    always("writev", libc::SYS_writev), // std's and C's buffered writing; a switch's output
    always("close", libc::SYS_close), // all
    always("fstat", libc::SYS_fstat), // sizes of shared memory; C's streams
    always("lseek", libc::SYS_lseek), // C's streams
    always("dup", libc::SYS_dup), // C programs
    always("dup3", libc::SYS_dup3), // C programs
    always("ppoll", libc::SYS_ppoll), // zone and kernel sleep; poll(2) of newer machines
    when("mmap", libc::SYS_mmap, Condition::CountedFlags(3)), // memory, rings, objects, stacks of threads
    always("munmap", libc::SYS_munmap), // the same
    when("mremap", libc::SYS_mremap, Condition::Counted), // the allocator, which also works without it
    always("mprotect", libc::SYS_mprotect), // the loader, stacks of threads
    when("madvise", libc::SYS_madvise, Condition::OneOf(2, MADVISE)), // allocators, stacks of threads
    always("brk", libc::SYS_brk), // the allocator
    always("futex", libc::SYS_futex), // locks, joining threads
    when("clone", libc::SYS_clone, Condition::Bits(0, CLONE_MASK, CLONE_THREAD)), // threads; no processes, no namespaces
    always("set_robust_list", libc::SYS_set_robust_list), // C: a thread's start
    always("rseq", libc::SYS_rseq), // C: a thread's start
    always("set_tid_address", libc::SYS_set_tid_address), // C: a thread's start
    always("sched_yield", libc::SYS_sched_yield), // locks
    always("sched_getaffinity", libc::SYS_sched_getaffinity), // std: the number of processors
    always("getcpu", libc::SYS_getcpu), // C: per-processor caches
    always("membarrier", libc::SYS_membarrier), // lock-free libraries; affects only the process itself
    always("exit", libc::SYS_exit), // a thread's end
    always("exit_group", libc::SYS_exit_group), // the process's end
    always("rt_sigaction", libc::SYS_rt_sigaction), // handlers, as std's for stack overflows
    always("rt_sigprocmask", libc::SYS_rt_sigprocmask), // a thread's start, abort()
    always("rt_sigreturn", libc::SYS_rt_sigreturn), // the end of a handler
    always("sigaltstack", libc::SYS_sigaltstack), // std: a thread's start
    when("tgkill", libc::SYS_tgkill, Condition::OwnSignal(0, 2)), // abort(), raise()
    when("kill", libc::SYS_kill, Condition::OwnSignal(0, 1)), // raise() of some libraries
    always("restart_syscall", libc::SYS_restart_syscall), // a sleep that was interrupted
    always("nanosleep", libc::SYS_nanosleep), // sleeping
    always("clock_nanosleep", libc::SYS_clock_nanosleep), // sleeping
    always("clock_gettime", libc::SYS_clock_gettime), // clocks that the vDSO does not have
    always("clock_getres", libc::SYS_clock_getres), // the same
    always("gettimeofday", libc::SYS_gettimeofday), // the same
    always("getrandom", libc::SYS_getrandom), // keys of hash tables, TLS
    always("getpid", libc::SYS_getpid), // abort()
    always("gettid", libc::SYS_gettid), // abort(), names of threads
    always("getppid", libc::SYS_getppid), // checking that the parent lives
    always("getuid", libc::SYS_getuid), // libraries at their start
    always("geteuid", libc::SYS_geteuid), // the same
    always("getgid", libc::SYS_getgid), // the same
    always("getegid", libc::SYS_getegid), // the same
    always("uname", libc::SYS_uname), // libraries at their start
    always("sysinfo", libc::SYS_sysinfo), // C: qsort() reads the size of memory
    always("getrusage", libc::SYS_getrusage), // apps that measure themselves
    when("prlimit64", libc::SYS_prlimit64, Condition::Null(2)), // reading limits, not setting them
    when("prctl", libc::SYS_prctl, Condition::OneOfOrWithProc(0, PRCTL, DUMPABLE)), // names of threads and of memory
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_PROGRAM: &[SyscallRule] = &[
    always("poll", libc::SYS_poll), // zone and kernel sleep
    always("dup2", libc::SYS_dup2), // C programs
    when("arch_prctl", libc::SYS_arch_prctl, Condition::OneOf(0, ARCH_PRCTL)), // C: a thread's start
    always("getrlimit", libc::SYS_getrlimit), // C: stack sizes
    always("time", libc::SYS_time), // C programs
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_PROGRAM: &[SyscallRule] = &[];

/// A zone's messages with the monitor and with services, and its use of connections that the broker made.
///
/// A zone can neither create nor bind nor connect a socket. With an address, sendto(2) would connect one.
#[rustfmt::skip]
const CONTROL: &[SyscallRule] = &[
    when("sendmsg", libc::SYS_sendmsg, Condition::Outlet), // the report of the confinement, with the listener
    always("recvmsg", libc::SYS_recvmsg), // a request, with its descriptors; a service's answer
    always("recvfrom", libc::SYS_recvfrom), // the size of the next request; from a connection
    when("sendto", libc::SYS_sendto, Condition::Null(4)), // to the monitor, to a service; to a connection
    always("shutdown", libc::SYS_shutdown), // the end of a connection
];

/// Use of files that came as descriptors, for a process that can open none.
#[rustfmt::skip]
const GIVEN_FILES: &[SyscallRule] = &[
    always("pread64", libc::SYS_pread64), // a package and its signature
    always("statx", libc::SYS_statx), // their sizes
];

/// A further filter of the process itself, for all its threads. Such a filter only refuses more. Without a listener for it: that would be
/// a descriptor by which the process answers its own calls.
#[rustfmt::skip]
const FURTHER_FILTER: &[SyscallRule] = &[
    when("seccomp", libc::SYS_seccomp, Condition::OneOf(1, &[1])), // SECCOMP_FILTER_FLAG_TSYNC: no executable memory after the load
];

/// Reading files. The private root directory and Landlock decide which: libraries and granted files.
///
/// There is no `flock`: a lock on such a file would also block processes outside.
#[rustfmt::skip]
const FILES: &[SyscallRule] = &[
    when("openat", libc::SYS_openat, Condition::ToRead(2)), // the loader, std, C; for writing, the monitor checks the path
    always("newfstatat", libc::SYS_newfstatat), // the loader, std
    always("statx", libc::SYS_statx), // std
    always("faccessat", libc::SYS_faccessat), // C programs
    always("faccessat2", libc::SYS_faccessat2), // C programs
    always("readlinkat", libc::SYS_readlinkat), // std
    always("getdents64", libc::SYS_getdents64), // listing directories
    always("getcwd", libc::SYS_getcwd), // std, C
    always("pread64", libc::SYS_pread64), // the loader
    always("preadv", libc::SYS_preadv), // std's positioned reading
    always("umask", libc::SYS_umask), // C programs
    always("fstatfs", libc::SYS_fstatfs), // free space in /tmp
    always("statfs", libc::SYS_statfs), // free space in /tmp
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_FILES: &[SyscallRule] = &[
    when("open", libc::SYS_open, Condition::ToRead(1)), // some C libraries
    always("stat", libc::SYS_stat), // some C libraries
    always("lstat", libc::SYS_lstat), // some C libraries
    always("access", libc::SYS_access), // the loader
    always("readlink", libc::SYS_readlink), // std
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FILES: &[SyscallRule] = &[];

/// Changing files in a private `/tmp`.
#[rustfmt::skip]
const TMP: &[SyscallRule] = &[
    when("pwrite64", libc::SYS_pwrite64, Condition::OwnRoot), // C programs
    when("pwritev", libc::SYS_pwritev, Condition::OwnRoot), // C programs
    when("ftruncate", libc::SYS_ftruncate, Condition::OwnRoot), // std
    when("fallocate", libc::SYS_fallocate, Condition::OwnRoot), // C programs
    when("unlinkat", libc::SYS_unlinkat, Condition::OwnRoot), // std
    when("mkdirat", libc::SYS_mkdirat, Condition::OwnRoot), // std
    when("renameat", libc::SYS_renameat, Condition::OwnRoot), // std
    when("renameat2", libc::SYS_renameat2, Condition::OwnRoot), // C programs
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_TMP: &[SyscallRule] = &[
    when("unlink", libc::SYS_unlink, Condition::OwnRoot), // std
    when("mkdir", libc::SYS_mkdir, Condition::OwnRoot), // std
    when("rmdir", libc::SYS_rmdir, Condition::OwnRoot), // std
    when("rename", libc::SYS_rename, Condition::OwnRoot), // std
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_TMP: &[SyscallRule] = &[];
