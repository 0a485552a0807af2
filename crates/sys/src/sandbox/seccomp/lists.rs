//! The system calls that each kind of process may make, with who needs them.
//!
//! The names are Linux's; the numbers those of the machine this is compiled for. Calls that only
//! x86-64 still has, because newer machines were given the newer call alone, are in lists of their own.
//!
//! `read`, `write`, `poll` and what else the packet path does carry no test: the system then knows the
//! answer without running the filter.

mod kernel;
mod monitor;
mod services;
mod watched;

use libc::c_long;

use self::kernel::{KERNEL, OLD_KERNEL};
use self::monitor::{MONITOR, OLD_MONITOR};
use self::services::{BROKER, OLD_BROKER, OWN_FILE, SERVICE};
pub use self::watched::{EMULATED, watched};

/// A kind of process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// An app's zone.
    Zone,
    /// Who looks into a package.
    Security,
    /// The kernel, with the apps in it.
    Kernel,
    /// The log, a service.
    Log,
    /// The storage, a service.
    Storage,
    /// The broker, a service.
    Broker,
    /// The resource monitor, and all that it starts until that confines itself.
    Monitor,
}

impl Profile {
    /// What it may call. An entry stands once.
    pub fn allowed(self) -> impl Iterator<Item = &'static SyscallRule> {
        let lists: &[&[SyscallRule]] = match self {
            Self::Zone => &[PROGRAM, HOLDS, OLD_PROGRAM, CONTROL, FILES, OLD_FILES, TMP, OLD_TMP],
            Self::Security => &[PROGRAM, HOLDS, OLD_PROGRAM, CONTROL, GIVEN_FILES],
            Self::Kernel => &[PROGRAM, MAKES, OLD_PROGRAM, KERNEL, OLD_KERNEL],
            Self::Log | Self::Storage => &[PROGRAM, HOLDS, OLD_PROGRAM, SERVICE, OWN_FILE],
            Self::Broker => &[PROGRAM, MAKES, OLD_PROGRAM, SERVICE, BROKER, OLD_BROKER],
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

/// A call, and when it may be made.
#[derive(Debug, Clone, Copy)]
pub struct SyscallRule {
    /// As in the manual.
    pub name: &'static str,
    /// On this machine.
    pub number: c_long,
    /// When.
    pub condition: Condition,
}

/// When a call may be made. Arguments count from 0; of an `int` the system looks at the lower half
/// only, and so do we.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// The argument is one of these.
    OneOf(u8, &'static [u32]),
    /// Of the argument, these bits (first) have this value (second).
    Bits(u8, u32, u32),
    /// The argument, a pointer, is null.
    Null(u8),
    /// The argument is one of the first list, or, where there is no root directory of its own and an
    /// object is loaded by way of `/proc`, one of the second.
    OneOfOrWithProc(u8, &'static [u32], &'static [u32]),
    /// The first argument named here is the process's own number, and the second is not a signal that stops a process.
    /// A stopped process handles no events and does not end.
    OwnSignal(u8, u8),
    /// As of sendmsg(2): the first argument is the control socket's number, and the third has no
    /// `MSG_FASTOPEN`, as another socket may be given that number, and would be connected.
    ControlSocket,
    /// The argument has the flags of open(2), and none with which a file can be made or changed. With
    /// such, who is told looks at the path.
    ToRead(u8),
    /// There is a root directory of its own, and so nothing to change but in its `/tmp`.
    OwnRoot,
    /// Its memory is not bounded by setrlimit(2), which leaves stacks out, also those that this makes larger.
    Counted,
    /// The argument has the flags of mmap(2), and none with which memory is taken that no limit counts.
    CountedFlags(u8),
}

/// What fcntl(2) may be asked for: nothing that has signals sent, leases or locks made.
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

/// The same, for who makes doorbells. Others could enlarge those that they hold.
const FCNTL_OF_PIPES: &[u32] = &[
    0, 1, 2, 3, 4, 1030, 1033, 1034, // as above
    1031, // F_SETPIPE_SZ: how much a doorbell holds
    1032, // F_GETPIPE_SZ
];

/// What prctl(2) may be asked for.
const PRCTL: &[u32] = &[
    15,          // PR_SET_NAME
    16,          // PR_GET_NAME
    0x5356_4d41, // PR_SET_VMA
];

/// What else, where objects are loaded by way of `/proc`: who cannot be dumped has nothing there.
const DUMPABLE: &[u32] = &[
    3, // PR_GET_DUMPABLE
    4, // PR_SET_DUMPABLE
];

/// What madvise(2) may be asked for: nothing by which the system keeps more than the pages (`MADV_MERGEABLE`, whose
/// tables no limit counts, and which shows others' pages by the time that writing takes), nor has work to do at once
/// for a whole range.
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

/// What `arch_prctl(2)` may be asked for: not shadow stacks, which setrlimit(2) leaves out.
#[cfg(target_arch = "x86_64")]
const ARCH_PRCTL: &[u32] = &[
    0x1002, // ARCH_SET_FS
    0x1003, // ARCH_GET_FS
];

/// Memory that no limit counts: the machine's huge pages, and what is taken for a stack, which setrlimit(2)
/// leaves out.
pub(super) const UNCOUNTED: u32 = (libc::MAP_HUGETLB | libc::MAP_GROWSDOWN).cast_unsigned();

/// Memory that setrlimit(2) does not count: shared, and of no file. Nor does who looks see it, as it stays when
/// its pages are let go of.
pub(super) const SHARED: u32 = (libc::MAP_SHARED | libc::MAP_ANONYMOUS).cast_unsigned();

/// Signals that stop a process, by themselves or where it has no handler for them.
pub(super) const STOPS: [u32; 4] = [
    libc::SIGSTOP.cast_unsigned(),
    libc::SIGTSTP.cast_unsigned(),
    libc::SIGTTIN.cast_unsigned(),
    libc::SIGTTOU.cast_unsigned(),
];

/// Flags of `clone` that make a thread, and those that must not be there.
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

/// Duplicates and modes of descriptors, seals of shared memory.
const HOLDS: &[SyscallRule] = &[when("fcntl", libc::SYS_fcntl, Condition::OneOf(1, FCNTL))];

/// The same, and pipes.
const MAKES: &[SyscallRule] =
    &[when("fcntl", libc::SYS_fcntl, Condition::OneOf(1, FCNTL_OF_PIPES))];

/// What any program in Rust or C needs, zones, kernel and apps alike.
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
    when("mmap", libc::SYS_mmap, Condition::CountedFlags(3)), // memory, rings, objects, stacks of threads; not what no limit counts
    always("munmap", libc::SYS_munmap), // the same
    when("mremap", libc::SYS_mremap, Condition::Counted), // the allocator, which does without
    always("mprotect", libc::SYS_mprotect), // the loader, stacks of threads
    when("madvise", libc::SYS_madvise, Condition::OneOf(2, MADVISE)), // allocators, stacks of threads
    always("brk", libc::SYS_brk), // the allocator
    always("futex", libc::SYS_futex), // locks, joining threads
    when("clone", libc::SYS_clone, Condition::Bits(0, CLONE_MASK, CLONE_THREAD)), // threads; no processes, no namespaces
    always("set_robust_list", libc::SYS_set_robust_list), // C: a thread's start
    always("rseq", libc::SYS_rseq), // C: a thread's start
    always("set_tid_address", libc::SYS_set_tid_address), // C: a thread's start
    always("sched_yield", libc::SYS_sched_yield), // locks
    always("sched_getaffinity", libc::SYS_sched_getaffinity), // std: how many processors there are
    always("getcpu", libc::SYS_getcpu), // C: per-processor caches
    always("membarrier", libc::SYS_membarrier), // lock-free libraries; about the process itself
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
    always("clock_gettime", libc::SYS_clock_gettime), // time, where the vDSO has none
    always("clock_getres", libc::SYS_clock_getres), // the same
    always("gettimeofday", libc::SYS_gettimeofday), // the same
    always("getrandom", libc::SYS_getrandom), // keys of hash tables, TLS
    always("getpid", libc::SYS_getpid), // abort()
    always("gettid", libc::SYS_gettid), // abort(), names of threads
    always("getppid", libc::SYS_getppid), // whether the parent lives
    always("getuid", libc::SYS_getuid), // libraries at their start
    always("geteuid", libc::SYS_geteuid), // the same
    always("getgid", libc::SYS_getgid), // the same
    always("getegid", libc::SYS_getegid), // the same
    always("uname", libc::SYS_uname), // libraries at their start
    always("sysinfo", libc::SYS_sysinfo), // C: qsort() asks how much memory there is
    always("getrusage", libc::SYS_getrusage), // apps that measure themselves
    when("prlimit64", libc::SYS_prlimit64, Condition::Null(2)), // reading limits, not setting them
    when("prctl", libc::SYS_prctl, Condition::OneOfOrWithProc(0, PRCTL, DUMPABLE)), // names of threads and of memory
];

/// The same, of x86-64.
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

/// A zone's messages with the monitor and with services, and what the broker connected for it.
///
/// Sockets can be made, bound and connected by nobody here. With an address, sendto(2) would connect, too.
#[rustfmt::skip]
const CONTROL: &[SyscallRule] = &[
    when("sendmsg", libc::SYS_sendmsg, Condition::ControlSocket), // an answer
    always("recvmsg", libc::SYS_recvmsg), // a request, with its descriptors; a service's answer
    always("recvfrom", libc::SYS_recvfrom), // the size of the next request; from a connection
    when("sendto", libc::SYS_sendto, Condition::Null(4)), // a request to a service; to a connection
    always("shutdown", libc::SYS_shutdown), // the end of a connection
];

/// Files that were given as descriptors, where none can be opened.
#[rustfmt::skip]
const GIVEN_FILES: &[SyscallRule] = &[
    always("pread64", libc::SYS_pread64), // a package and its signature
    always("statx", libc::SYS_statx), // their sizes
];

/// Reading files: libraries and what is granted. Which, the root directory and Landlock say.
///
/// No `flock`: a lock on a library or on what is granted would be held against everybody outside.
#[rustfmt::skip]
const FILES: &[SyscallRule] = &[
    when("openat", libc::SYS_openat, Condition::ToRead(2)), // the loader, std, C; to write: the monitor looks at the path
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
    always("fstatfs", libc::SYS_fstatfs), // room in /tmp
    always("statfs", libc::SYS_statfs), // room in /tmp
];

/// The same, of x86-64.
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

/// Changing files: a private `/tmp`, where there is one.
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

/// The same, of x86-64.
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
