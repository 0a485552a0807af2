//! Lists the monitor's system calls besides those of the other programs. Its children inherit the list until they
//! confine themselves with a shorter one, so it contains the calls that they need for that.

use super::{SyscallRule, always};

/// Calls of the monitor, and of its children until they confine themselves.
#[rustfmt::skip]
pub(super) const MONITOR: &[SyscallRule] = &[
    always("execve", libc::SYS_execve), // kernel, zones
    always("wait4", libc::SYS_wait4), // init
    always("waitid", libc::SYS_waitid), // children that ended
    always("pidfd_open", libc::SYS_pidfd_open), // children
    always("pidfd_send_signal", libc::SYS_pidfd_send_signal), // ending children
    always("process_vm_readv", libc::SYS_process_vm_readv), // the paths of refused calls
    always("unshare", libc::SYS_unshare), // namespaces of zones
    always("setns", libc::SYS_setns), // back from them
    always("setsid", libc::SYS_setsid), // children
    always("close_range", libc::SYS_close_range), // children
    always("setresuid", libc::SYS_setresuid), // children
    always("setresgid", libc::SYS_setresgid), // children
    always("setgroups", libc::SYS_setgroups), // children
    always("capget", libc::SYS_capget), // children
    always("capset", libc::SYS_capset), // children
    always("seccomp", libc::SYS_seccomp), // children
    always("landlock_create_ruleset", libc::SYS_landlock_create_ruleset), // children
    always("landlock_add_rule", libc::SYS_landlock_add_rule), // children
    always("landlock_restrict_self", libc::SYS_landlock_restrict_self), // children
    always("mount", libc::SYS_mount), // the root of a zone
    always("umount2", libc::SYS_umount2), // the same
    always("pivot_root", libc::SYS_pivot_root), // the same
    always("fsopen", libc::SYS_fsopen), // the same
    always("fsconfig", libc::SYS_fsconfig), // the same
    always("fsmount", libc::SYS_fsmount), // the same
    always("move_mount", libc::SYS_move_mount), // the same
    always("open_tree", libc::SYS_open_tree), // the same
    always("mount_setattr", libc::SYS_mount_setattr), // the same
    always("symlinkat", libc::SYS_symlinkat), // the same
    always("sethostname", libc::SYS_sethostname), // its host name
    always("chdir", libc::SYS_chdir), // the same
    always("fchdir", libc::SYS_fchdir), // the same
    always("socket", libc::SYS_socket), // the admin socket, listeners
    always("socketpair", libc::SYS_socketpair), // control sockets
    always("bind", libc::SYS_bind), // the same
    always("listen", libc::SYS_listen), // the same
    always("connect", libc::SYS_connect), // the broker
    always("accept", libc::SYS_accept), // operators
    always("fchmod", libc::SYS_fchmod), // modes of the runtime directory
    always("fchmodat", libc::SYS_fchmodat), // the same
    always("fchown", libc::SYS_fchown), // the same
    always("fchownat", libc::SYS_fchownat), // the group of the admin socket
    always("linkat", libc::SYS_linkat), // files of state
    always("utimensat", libc::SYS_utimensat), // files of state
    always("sync_file_range", libc::SYS_sync_file_range), // files of state
    always("signalfd4", libc::SYS_signalfd4), // signals
    always("getresuid", libc::SYS_getresuid), // who it is
    always("getresgid", libc::SYS_getresgid), // who it is
    always("getgroups", libc::SYS_getgroups), // who it is
    always("getpgid", libc::SYS_getpgid), // children
    always("getsid", libc::SYS_getsid), // children
    always("setpgid", libc::SYS_setpgid), // children
    always("getpriority", libc::SYS_getpriority), // children
    always("setpriority", libc::SYS_setpriority), // children
    always("rt_sigtimedwait", libc::SYS_rt_sigtimedwait), // signals
    always("rt_sigpending", libc::SYS_rt_sigpending), // signals
    always("rt_sigsuspend", libc::SYS_rt_sigsuspend), // signals
    always("timerfd_create", libc::SYS_timerfd_create), // services
    always("timerfd_settime", libc::SYS_timerfd_settime), // services
    always("timerfd_gettime", libc::SYS_timerfd_gettime), // services
    always("inotify_init1", libc::SYS_inotify_init1), // services
    always("copy_file_range", libc::SYS_copy_file_range), // std: copying files
    always("sendfile", libc::SYS_sendfile), // std: copying files
    always("splice", libc::SYS_splice), // std: copying files
    always("msync", libc::SYS_msync), // services
    always("mlock", libc::SYS_mlock), // keys
    always("munlock", libc::SYS_munlock), // keys
    always("get_robust_list", libc::SYS_get_robust_list), // C programs
    always("sched_setscheduler", libc::SYS_sched_setscheduler), // children
    always("sched_setattr", libc::SYS_sched_setattr), // reserved processor time of zones and workers
    always("sched_getattr", libc::SYS_sched_getattr), // the same
    always("sendmmsg", libc::SYS_sendmmsg), // the broker: names
    always("recvmmsg", libc::SYS_recvmmsg), // the broker: names
    always("truncate", libc::SYS_truncate), // files of state
    always("fsync", libc::SYS_fsync), // files of state
    always("fdatasync", libc::SYS_fdatasync), // files of state
    always("flock", libc::SYS_flock), // the lock that keeps a second instance out
    always("fadvise64", libc::SYS_fadvise64), // C programs
    always("preadv2", libc::SYS_preadv2), // services
    always("pwritev2", libc::SYS_pwritev2), // services
];

/// Older calls of x86-64 for the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLD_MONITOR: &[SyscallRule] = &[
    always("chmod", libc::SYS_chmod), // modes of the runtime directory
    always("chown", libc::SYS_chown), // the same
    always("lchown", libc::SYS_lchown), // the same
    always("link", libc::SYS_link), // files of state
    always("symlink", libc::SYS_symlink), // files of state
    always("pipe", libc::SYS_pipe), // C programs
    always("getpgrp", libc::SYS_getpgrp), // children
    always("vfork", libc::SYS_vfork), // std: children
    always("fork", libc::SYS_fork), // init
    always("creat", libc::SYS_creat), // C programs
    always("setrlimit", libc::SYS_setrlimit), // children
    always("alarm", libc::SYS_alarm), // C programs
    always("pause", libc::SYS_pause), // C programs
    always("eventfd", libc::SYS_eventfd), // C programs
    always("epoll_create", libc::SYS_epoll_create), // C programs
    always("getdents", libc::SYS_getdents), // C programs
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_MONITOR: &[SyscallRule] = &[];
