//! Starts child processes that end with their parent, reports how they ended, and gives up privileges.
//!
//! A child's control socket is its standard input, so parent and child need not agree on a descriptor number, and a
//! program started by hand notices the missing socket at once. Every other descriptor is closed on exec, also those
//! that the parent inherited. The parent holds a child by its pidfd, which never refers to another process and becomes
//! readable at the child's end, so the parent never blocks in wait(2).
//!
//! In a PID namespace of its own, a child's descendants end with it. The parent makes that namespace if it may
//! ([`can_make_pid_namespace`], which takes root), otherwise the child makes one with a user namespace. Without either,
//! the parent kills the child's process group, which a descendant can leave.

mod held;
mod init;
mod usage;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{self, Command, Stdio};

use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit,
    kill_process_group, pidfd_open, pidfd_send_signal, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, waitid,
};
use rustix::thread::{Gid, Uid};

pub use self::held::HeldProgram;
pub use self::init::{can_make_pid_namespace, split_off_init};
pub(crate) use self::init::{check_pid_namespace, made_user_namespace, try_first};
pub use self::usage::{
    Memory, Thread, Usage, main_thread, named_thread, processor_time, read_other,
};
use crate::channel::Channel;

/// Makes the system kill the child when the thread that starts it ends.
///
/// Linux forgets this when the child changes its user; [`drop_privileges`] renews it.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above.
        match rustix::process::getppid() {
            Some(other) if other != parent => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            // `None`: the parent is outside of this PID namespace. If it has died, the control socket is closed.
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(prepare) }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {number}"),
            },
        }
    }
}

/// Who makes a PID namespace for a child, so that its descendants end with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PidNamespace {
    /// The child gets none.
    No,
    /// The parent makes it.
    ByParent,
    /// The child tries to make it, together with a user namespace, which the system may refuse.
    ByItself,
}

impl PidNamespace {
    /// `ByParent` if this process may make PID namespaces, otherwise `ByItself`.
    pub fn find() -> Self {
        if can_make_pid_namespace() { Self::ByParent } else { Self::ByItself }
    }
}

/// The reading ends of the pipes from a child's standard output and standard error. Reading never blocks.
#[derive(Debug)]
pub struct Outputs {
    /// The pipe from standard output.
    pub stdout: OwnedFd,
    /// The pipe from standard error.
    pub stderr: OwnedFd,
}

/// A child process, held by its pidfd. Dropping it kills the process if it still runs.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    reaped: bool,
    /// The pipe by which the init of its PID namespace reports how the program ended.
    report: Option<OwnedFd>,
    /// Whether its end also ends its descendants.
    ends_descendants: bool,
    /// The process number of the program behind the init, once it was found.
    program: Cell<Option<u32>>,
}

impl Child {
    /// Starts `command` with `control` as its standard input. Returns the child, and the pipes from its standard output
    /// and error.
    ///
    /// Neither end of a pipe blocks: the child's write fails when the pipe is full. The child has a session of its
    /// own and no terminal, so it can neither read from nor stop nor change the parent's terminal, and a key pressed
    /// there signals only the parent.
    ///
    /// # Errors
    /// The program cannot be executed, or the system is out of processes or descriptors.
    pub fn spawn(command: &mut Command, control: Channel) -> io::Result<(Self, Outputs)> {
        Self::start(command, control, None, Command::spawn)
    }

    /// Starts it in the same way as [`spawn`](Self::spawn), with a PID namespace according to `namespace`.
    ///
    /// # Errors
    /// As `spawn`.
    pub fn spawn_with(
        namespace: PidNamespace,
        command: &mut Command,
        control: Channel,
    ) -> io::Result<(Self, Outputs)> {
        match namespace {
            PidNamespace::No => Self::spawn(command, control),
            PidNamespace::ByParent => Self::spawn_in_pid_namespace(command, control),
            PidNamespace::ByItself => Self::spawn_to_enter_pid_namespace(command, control),
        }
    }

    /// Starts it in the same way as [`spawn`](Self::spawn), in a new PID namespace. The program should call
    /// [`split_off_init`] first, otherwise it is the init of the namespace itself.
    ///
    /// # Errors
    /// As `spawn`, or this process may not make namespaces, see [`can_make_pid_namespace`].
    pub fn spawn_in_pid_namespace(
        command: &mut Command,
        control: Channel,
    ) -> io::Result<(Self, Outputs)> {
        let spawn = |command: &mut Command| init::in_new_namespace(|| command.spawn());
        let (mut child, outputs) = Self::spawn_with_report(command, control, spawn)?;
        child.ends_descendants = true;
        Ok((child, outputs))
    }

    /// Starts it in the same way as [`spawn`](Self::spawn). The program tries to enter a PID namespace in
    /// [`split_off_init`]; only the program knows whether it succeeded.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn spawn_to_enter_pid_namespace(
        command: &mut Command,
        control: Channel,
    ) -> io::Result<(Self, Outputs)> {
        Self::spawn_with_report(command, control, Command::spawn)
    }

    fn spawn_with_report(
        command: &mut Command,
        control: Channel,
        spawn: impl FnOnce(&mut Command) -> io::Result<process::Child>,
    ) -> io::Result<(Self, Outputs)> {
        let (report, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        command.env(init::REPORT, theirs.as_raw_fd().to_string());
        let (mut child, outputs) = Self::start(command, control, Some(theirs), spawn)?;
        child.report = Some(report);
        Ok((child, outputs))
    }

    /// Starts it with `spawn` and leaves the descriptor `kept` open in it.
    fn start(
        command: &mut Command,
        control: Channel,
        kept: Option<OwnedFd>,
        spawn: impl FnOnce(&mut Command) -> io::Result<process::Child>,
    ) -> io::Result<(Self, Outputs)> {
        // Each end is an open file description with its own flags, so the child cannot make our end block.
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let ((stdout, to_stdout), (stderr, to_stderr)) = (pipe_with(flags)?, pipe_with(flags)?);
        command.stdin(Stdio::from(control.into_fd()));
        command.stdout(Stdio::from(to_stdout)).stderr(Stdio::from(to_stderr));
        let detach = move || {
            rustix::process::setsid()?;
            // SAFETY: a system call on numbers; it marks descriptors and touches no memory.
            let result = unsafe {
                libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed())
            };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
            if let Some(kept) = &kept {
                rustix::io::fcntl_setfd(kept, FdFlags::empty())?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes system calls and allocates nothing.
        unsafe { command.pre_exec(detach) };
        let child = spawn(die_with_parent(command));
        // The command would keep the pipes' other ends open until it is dropped.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child?;
        let pid = Pid::from_child(&child);
        // The process is ours and not yet waited for, so its number cannot have been reused.
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait(); // it cannot outlive a kill for long
        })?;
        let program = Cell::new(None);
        let child =
            Self { pid, pidfd, reaped: false, report: None, ends_descendants: false, program };
        Ok((child, Outputs { stdout, stderr }))
    }

    /// Its process number, for people. In a PID namespace, this is the number of its init until the program itself was
    /// found.
    pub fn pid(&self) -> u32 {
        let own = self.pid.as_raw_nonzero().get().unsigned_abs();
        if self.report.is_some() && self.program.get().is_none() {
            self.program.set(init::program_of(own, !self.ends_descendants));
        }
        self.program.get().unwrap_or(own)
    }

    /// Kills it with its descendants, as far as these can be found.
    pub fn kill(&self) {
        self.kill_group();
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL); // fails only when it has ended
    }

    /// Kills its process group, unless its PID namespace ends with it anyway. Only before it is reaped: afterwards the
    /// number may belong to another group.
    fn kill_group(&self) {
        if !self.ends_descendants && !self.reaped {
            let _ = kill_process_group(self.pid, Signal::KILL); // fails only when it is empty
        }
    }

    /// How it ended; `None` while it runs. Never blocks.
    ///
    /// # Errors
    /// It was reaped before.
    pub fn try_reap(&mut self) -> io::Result<Option<Exit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let ended = |options| waitid(WaitId::PidFd(self.pidfd.as_fd()), options);
        if ended(options | WaitIdOptions::NOWAIT)?.is_none() {
            return Ok(None);
        }
        self.kill_group();
        let Some(status) = ended(options)? else { return Ok(None) };
        self.reaped = true;
        if let Some(exit) = self.report.as_ref().and_then(init::read_report) {
            return Ok(Some(exit));
        }
        Ok(Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Code(-1), // not reachable with `EXITED` alone
        }))
    }
}

impl AsFd for Child {
    /// The pidfd: readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            // It cannot outlive a kill for long; waiting here leaves no zombie behind.
            let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

/// Becomes the user and group with the number `id`, without further groups and irrevocably.
///
/// Includes [`forbid_new_privileges`]. Call this while the process has one thread.
///
/// # Errors
/// The process may not change its user, or its parent died meanwhile.
pub fn drop_privileges(id: u32) -> io::Result<()> {
    let parent = rustix::process::getppid();
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    forbid_new_privileges()?;
    // The change of the user has cancelled it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != parent {
        return Err(io::Error::other("the parent process died during start"));
    }
    Ok(())
}

/// Makes execve(2) give no privileges, and hides the process from ptrace, `/proc` and core dumps.
///
/// # Errors
/// None on a supported system.
pub fn forbid_new_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Raises the soft limit of open descriptors to the hard one. Returns it; `None` if it is unlimited.
///
/// # Errors
/// None on a supported system.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum)
}

/// The limit of open descriptors; `None` if it is unlimited.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Whether this process runs as root in its user namespace.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether faulty code ends by this signal: the process itself causes it.
pub fn is_fault(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGABRT
            | libc::SIGBUS
            | libc::SIGFPE
            | libc::SIGILL
            | libc::SIGSEGV
            | libc::SIGSYS
            | libc::SIGTRAP
    )
}

/// The name of a signal; `None` for one that ends no program of Rosemary.
pub fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGABRT => "SIGABRT",
        libc::SIGALRM => "SIGALRM",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn wait(child: &mut Child) -> Exit {
        poll(&mut [PollFd::new(&*child, PollFlags::IN)], None).unwrap();
        child.try_reap().unwrap().expect("readable pidfd means it has ended")
    }

    fn shell(script: &str) -> (Child, Channel, Outputs) {
        let (ours, theirs) = Channel::passing_pair().unwrap();
        let (child, outputs) =
            Child::spawn(Command::new("sh").args(["-c", script]), theirs).unwrap();
        (child, ours, outputs)
    }

    #[test]
    fn exit_code_and_signal_are_reported() {
        assert_eq!(wait(&mut shell("exit 7").0), Exit::Code(7));
        let killed = wait(&mut shell("kill -SEGV $$").0);
        assert_eq!(killed, Exit::Signal(libc::SIGSEGV));
        assert_eq!(killed.to_string(), "killed by SIGSEGV");
    }

    #[test]
    fn running_child_is_killed_when_dropped() {
        let (mut child, _control, _output) = shell("exec sleep 1000");
        assert_eq!(child.try_reap().unwrap(), None);
        let pid = child.pid();
        drop(child);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn held_program_ends_with_its_number() {
        let (mut child, _control, _output) = shell("exec sleep 1000");
        let held = child.hold().unwrap();
        assert_eq!(held.pid(), child.pid());
        assert!(held.exists() && held.has_thread(held.pid()) && !held.has_thread(1));
        child.kill();
        wait(&mut child);
        assert!(!held.exists() && !held.has_thread(held.pid()));
        assert!(child.hold().is_none());
    }

    #[test]
    fn child_inherits_only_its_control_socket() {
        let leaked = rustix::fs::memfd_create("leak", rustix::fs::MemfdFlags::empty()).unwrap();
        // The descriptor that `ls` itself opens is the only one beyond 2.
        let (mut child, _control, _output) = shell("test $(ls /proc/self/fd | wc -l) -eq 4");
        assert_eq!(wait(&mut child), Exit::Code(0));
        drop(leaked);
    }

    #[test]
    fn child_without_pid_namespace_ends_its_process_group() {
        for script in ["sleep 31415.5 & exit 7", "sleep 31415.5 & exec sleep 31415.5"] {
            let (mut child, _control, output) = shell(script);
            if script.ends_with('7') {
                assert_eq!(wait(&mut child), Exit::Code(7));
            } else {
                drop(child);
            }
            // The pipe is closed when the last of them has ended.
            poll(&mut [PollFd::new(&output.stdout, PollFlags::IN)], None).unwrap();
            assert_eq!(rustix::io::read(&output.stdout, &mut [0; 1]).unwrap(), 0);
        }
    }

    #[test]
    fn output_arrives_and_a_full_pipe_does_not_block() {
        let (mut child, _control, output) = shell("echo out; echo err >&2");
        assert_eq!(wait(&mut child), Exit::Code(0));
        for (pipe, expected) in [(output.stdout, "out\n"), (output.stderr, "err\n")] {
            let mut text = [0; 100];
            let size = rustix::io::read(&pipe, &mut text).unwrap();
            assert_eq!(&text[..size], expected.as_bytes());
            // Children of other tests have the pipe too, until they execute a program.
            poll(&mut [PollFd::new(&pipe, PollFlags::IN)], None).unwrap();
            assert_eq!(rustix::io::read(&pipe, &mut text).unwrap(), 0, "no other process has it");
        }
        // Nobody reads meanwhile; dd fails because its write would block.
        let (mut child, _control, _output) = shell("dd if=/dev/zero bs=1M count=1 || exit 3");
        assert_eq!(wait(&mut child), Exit::Code(3));
    }
}
