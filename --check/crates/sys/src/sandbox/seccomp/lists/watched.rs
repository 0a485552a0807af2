//! Lists the system calls whose refusal is reported, and those that the filter emulates.

use libc::c_long;

use super::{SyscallRule, always};

/// Calls whose refusal is reported to the monitor: those with which a program would reach beyond its sandbox. Their
/// conditions have no meaning here.
pub fn watched() -> impl Iterator<Item = &'static SyscallRule> {
    WATCHED.iter().chain(OLD_WATCHED)
}

#[rustfmt::skip]
const WATCHED: &[SyscallRule] = &[
    always("execve", libc::SYS_execve),
    always("execveat", libc::SYS_execveat),
    always("ptrace", libc::SYS_ptrace),
    always("process_vm_readv", libc::SYS_process_vm_readv),
    always("process_vm_writev", libc::SYS_process_vm_writev),
    always("process_madvise", libc::SYS_process_madvise),
    always("pidfd_open", libc::SYS_pidfd_open),
    always("pidfd_getfd", libc::SYS_pidfd_getfd),
    always("pidfd_send_signal", libc::SYS_pidfd_send_signal),
    always("kcmp", libc::SYS_kcmp),
    always("kill", libc::SYS_kill),
    always("tkill", libc::SYS_tkill),
    always("tgkill", libc::SYS_tgkill),
    always("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo),
    always("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo),
    always("clone", libc::SYS_clone),
    always("socket", libc::SYS_socket),
    always("socketpair", libc::SYS_socketpair),
    always("connect", libc::SYS_connect),
    always("bind", libc::SYS_bind),
    always("listen", libc::SYS_listen),
    always("accept", libc::SYS_accept),
    always("accept4", libc::SYS_accept4),
    always("mount", libc::SYS_mount),
    always("umount2", libc::SYS_umount2),
    always("pivot_root", libc::SYS_pivot_root),
    always("chroot", libc::SYS_chroot),
    always("unshare", libc::SYS_unshare),
    always("setns", libc::SYS_setns),
    always("open_tree", libc::SYS_open_tree),
    always("move_mount", libc::SYS_move_mount),
    always("fsopen", libc::SYS_fsopen),
    always("fsmount", libc::SYS_fsmount),
    always("fspick", libc::SYS_fspick),
    always("mount_setattr", libc::SYS_mount_setattr),
    always("openat", libc::SYS_openat),
    always("open_by_handle_at", libc::SYS_open_by_handle_at),
    always("mknodat", libc::SYS_mknodat),
    always("linkat", libc::SYS_linkat),
    always("symlinkat", libc::SYS_symlinkat),
    always("fchmodat", libc::SYS_fchmodat),
    always("fchownat", libc::SYS_fchownat),
    always("fchmod", libc::SYS_fchmod),
    always("fchown", libc::SYS_fchown),
    always("setxattr", libc::SYS_setxattr),
    always("lsetxattr", libc::SYS_lsetxattr),
    always("fsetxattr", libc::SYS_fsetxattr),
    always("flock", libc::SYS_flock),
    always("fcntl", libc::SYS_fcntl),
    always("utimensat", libc::SYS_utimensat),
    always("bpf", libc::SYS_bpf),
    always("io_uring_setup", libc::SYS_io_uring_setup),
    always("perf_event_open", libc::SYS_perf_event_open),
    always("userfaultfd", libc::SYS_userfaultfd),
    always("add_key", libc::SYS_add_key),
    always("request_key", libc::SYS_request_key),
    always("keyctl", libc::SYS_keyctl),
    always("clock_settime", libc::SYS_clock_settime),
    always("clock_adjtime", libc::SYS_clock_adjtime),
    always("settimeofday", libc::SYS_settimeofday),
    always("adjtimex", libc::SYS_adjtimex),
    always("setuid", libc::SYS_setuid),
    always("setgid", libc::SYS_setgid),
    always("setreuid", libc::SYS_setreuid),
    always("setregid", libc::SYS_setregid),
    always("setresuid", libc::SYS_setresuid),
    always("setresgid", libc::SYS_setresgid),
    always("setfsuid", libc::SYS_setfsuid),
    always("setfsgid", libc::SYS_setfsgid),
    always("setgroups", libc::SYS_setgroups),
    always("capset", libc::SYS_capset),
    always("init_module", libc::SYS_init_module),
    always("finit_module", libc::SYS_finit_module),
    always("delete_module", libc::SYS_delete_module),
    always("kexec_load", libc::SYS_kexec_load),
    always("reboot", libc::SYS_reboot),
    always("swapon", libc::SYS_swapon),
    always("swapoff", libc::SYS_swapoff),
    always("quotactl", libc::SYS_quotactl),
    always("acct", libc::SYS_acct),
    always("syslog", libc::SYS_syslog),
    always("sethostname", libc::SYS_sethostname),
    always("setdomainname", libc::SYS_setdomainname),
    always("sched_setaffinity", libc::SYS_sched_setaffinity),
    always("sched_setscheduler", libc::SYS_sched_setscheduler),
    always("sched_setparam", libc::SYS_sched_setparam),
    always("sched_setattr", libc::SYS_sched_setattr),
    always("setpriority", libc::SYS_setpriority),
    always("ioprio_set", libc::SYS_ioprio_set),
    always("prlimit64", libc::SYS_prlimit64),
    always("seccomp", libc::SYS_seccomp),
    always("memfd_create", libc::SYS_memfd_create),
    always("memfd_secret", libc::SYS_memfd_secret),
    always("shmget", libc::SYS_shmget),
    always("msgget", libc::SYS_msgget),
    always("semget", libc::SYS_semget),
    always("mq_open", libc::SYS_mq_open),
    always("personality", libc::SYS_personality),
    always("migrate_pages", libc::SYS_migrate_pages),
    always("move_pages", libc::SYS_move_pages),
    always("fanotify_init", libc::SYS_fanotify_init),
    always("vhangup", libc::SYS_vhangup),
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_WATCHED: &[SyscallRule] = &[
    always("open", libc::SYS_open),
    always("creat", libc::SYS_creat),
    always("fork", libc::SYS_fork),
    always("vfork", libc::SYS_vfork),
    always("mknod", libc::SYS_mknod),
    always("link", libc::SYS_link),
    always("symlink", libc::SYS_symlink),
    always("chmod", libc::SYS_chmod),
    always("chown", libc::SYS_chown),
    always("lchown", libc::SYS_lchown),
    always("iopl", libc::SYS_iopl),
    always("ioperm", libc::SYS_ioperm),
    always("modify_ldt", libc::SYS_modify_ldt),
    always("kexec_file_load", libc::SYS_kexec_file_load),
    always("uselib", libc::SYS_uselib),
    always("ustat", libc::SYS_ustat),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_WATCHED: &[SyscallRule] = &[];

/// Calls that the filter answers without the system making them, and their error; 0 for success.
#[rustfmt::skip]
pub static EMULATED: &[(&str, c_long, i32)] = &[
    // As if this Linux did not have them. C libraries then use the older calls, whose arguments a filter can check.
    ("clone3", libc::SYS_clone3, libc::ENOSYS), // threads: `clone`
    ("openat2", libc::SYS_openat2, libc::ENOSYS), // files: `openat`
    // An app writes only to /tmp, which is in memory. On a library, which lies on the machine's disk, these calls
    // would keep that disk busy for all processes.
    ("fsync", libc::SYS_fsync, 0), // files in /tmp
    ("fdatasync", libc::SYS_fdatasync, 0), // files in /tmp
    ("fadvise64", libc::SYS_fadvise64, 0), // C programs
    // As if no file had extended attributes. A program that copies some then copies the rest.
    ("listxattr", libc::SYS_listxattr, libc::ENOTSUP), // Python: shutil.copy2()
    ("llistxattr", libc::SYS_llistxattr, libc::ENOTSUP), // the same
    ("flistxattr", libc::SYS_flistxattr, libc::ENOTSUP), // the same
];
