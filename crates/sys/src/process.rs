//! Children that die with their parent, told truly when they ended, and privileges given up.
//!
//! A child's control socket is its standard input: no descriptor numbers have to be agreed upon,
//! and a child started by hand notices at once. Every other descriptor is closed on exec, those
//! that the parent itself had inherited included. A child is known by its pidfd, which cannot
//! come to mean another process, and is never waited for: its pidfd becomes readable.
//!
//! What a child forks ends with it where the system lets us set it apart ([`can_set_apart`], which
//! takes root), or the child itself, by a user namespace; elsewhere what it forks is killed with it
//! unless it leaves the child's process group.

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

pub use self::init::{can_set_apart, split_off_init};
pub(crate) use self::init::{made_user_namespace, set_apart, try_first};
pub use self::usage::{
    Memory, Thread, Usage, main_thread, named_thread, processor_time, read_other,
};
use crate::channel::Channel;

/// Has the child killed when the thread that starts it ends, however that ends.
///
/// The kernel forgets this when the child changes its user; [`drop_privileges`] renews it.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above.
        match rustix::process::getppid() {
            Some(other) if other != parent => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            // None: it is not seen from a namespace of processes. Who dies just now leaves a
            // control socket that is closed.
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(prepare) }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned from `main` or called `exit` with this code.
    Code(i32),
    /// This signal ended it.
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

/// Who sets a child apart, so that all it forks ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    /// Nobody.
    No,
    /// Who starts it, by a namespace of processes.
    ByParent,
    /// The child, which needs a user namespace for that and may not get one.
    ByItself,
}

impl Apart {
    /// The better of the two that this process can have.
    pub fn find() -> Self {
        if can_set_apart() { Self::ByParent } else { Self::ByItself }
    }
}

/// A child process, held by its pidfd. Dropping it kills the process if it still runs.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    reaped: bool,
    /// Set apart: what its init says of its end.
    report: Option<OwnedFd>,
    /// Whether its end takes along all that it forked.
    takes_all: bool,
    /// Set apart: the process behind the init, once it was seen.
    program: Cell<Option<u32>>,
}

impl Child {
    /// Starts `command` with `control` as its standard input; it dies with us. What it writes to
    /// its standard output and error comes out of the pipe that is returned with it.
    ///
    /// Neither end of the pipe blocks: what it cannot take is lost to the child. The child has a
    /// session of its own and nothing of our terminal, if we have one: it can read no key, stop no
    /// output and set no mode there, and a key pressed there signals only us.
    ///
    /// # Errors
    /// The program cannot be executed, or the system is out of processes or descriptors.
    pub fn spawn(command: &mut Command, control: Channel) -> io::Result<(Self, OwnedFd)> {
        let (child, output) = Self::start(command, control, None, Command::spawn)?;
        Ok((child, output))
    }

    /// Starts it as [`spawn`](Self::spawn) does, `apart` as far as that goes.
    ///
    /// # Errors
    /// As `spawn`.
    pub fn spawn_with(
        apart: Apart,
        command: &mut Command,
        control: Channel,
    ) -> io::Result<(Self, OwnedFd)> {
        match apart {
            Apart::No => Self::spawn(command, control),
            Apart::ByParent => Self::spawn_apart(command, control),
            Apart::ByItself => Self::spawn_to_set_itself_apart(command, control),
        }
    }

    /// As [`spawn`](Self::spawn), in a namespace of processes of its own. The program calls
    /// [`split_off_init`] first; where it does not, it is itself the namespace's init.
    ///
    /// # Errors
    /// As `spawn`, or this process may not make namespaces, see [`can_set_apart`].
    pub fn spawn_apart(command: &mut Command, control: Channel) -> io::Result<(Self, OwnedFd)> {
        let spawn = |command: &mut Command| init::in_new_namespace(|| command.spawn());
        let (mut child, output) = Self::spawn_with_report(command, control, spawn)?;
        child.takes_all = true;
        Ok((child, output))
    }

    /// As [`spawn_apart`](Self::spawn_apart), where this process may not make namespaces: the
    /// program tries to set itself apart, in [`split_off_init`]. Whether it could, it knows itself.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn spawn_to_set_itself_apart(
        command: &mut Command,
        control: Channel,
    ) -> io::Result<(Self, OwnedFd)> {
        Self::spawn_with_report(command, control, Command::spawn)
    }

    fn spawn_with_report(
        command: &mut Command,
        control: Channel,
        spawn: impl FnOnce(&mut Command) -> io::Result<process::Child>,
    ) -> io::Result<(Self, OwnedFd)> {
        let (report, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        command.env(init::REPORT, theirs.as_raw_fd().to_string());
        let (mut child, output) = Self::start(command, control, Some(theirs), spawn)?;
        child.report = Some(report);
        Ok((child, output))
    }

    /// Starts it with `spawn`, with `kept` open as it is here.
    fn start(
        command: &mut Command,
        control: Channel,
        kept: Option<OwnedFd>,
        spawn: impl FnOnce(&mut Command) -> io::Result<process::Child>,
    ) -> io::Result<(Self, OwnedFd)> {
        // Each end is an open file description of its own, with modes of its own: whatever the
        // child makes of its end, ours does not block.
        let (output, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        command.stdin(Stdio::from(control.into_fd()));
        command.stdout(Stdio::from(theirs.try_clone()?)).stderr(Stdio::from(theirs));
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
        // The command keeps what it gave away until it is dropped: then no one else has the pipe.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child?;
        let pid = Pid::from_child(&child);
        // The process is ours and not yet waited for, so its number cannot have been reused.
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait(); // it cannot outlive a kill for long
        })?;
        let program = Cell::new(None);
        let child = Self { pid, pidfd, reaped: false, report: None, takes_all: false, program };
        Ok((child, output))
    }

    /// Its process id, for people to read; signals go by the pidfd. Of one that was set apart it is that
    /// of its init, until the program itself has been seen.
    pub fn pid(&self) -> u32 {
        let own = self.pid.as_raw_nonzero().get().unsigned_abs();
        if self.report.is_some() && self.program.get().is_none() {
            self.program.set(init::program_of(own, !self.takes_all));
        }
        self.program.get().unwrap_or(own)
    }

    /// Ends it (SIGKILL), with what it has forked as far as that can be found.
    pub fn kill(&self) {
        self.kill_group();
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL); // fails only when it has ended
    }

    /// Kills its process group, unless its end does that and more. To be called before it is reaped:
    /// afterwards the number may be another's.
    fn kill_group(&self) {
        if !self.takes_all && !self.reaped {
            let _ = kill_process_group(self.pid, Signal::KILL); // fails only when it is empty
        }
    }

    /// How it ended, if it has; never waits.
    ///
    /// # Errors
    /// It was reaped already.
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

/// Becomes the user and group with the number `id`, with no other groups and no way back.
///
/// Also forbids gaining privileges by executing files, and keeps others of the same user from
/// looking into the process. To be called before the process has a second thread.
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
    // Changing the user has cancelled it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != parent {
        return Err(io::Error::other("the parent process died during start"));
    }
    Ok(())
}

/// Forbids gaining privileges by executing files, and looking into the process by ptrace,
/// `/proc` or a core dump; for a process that keeps its user.
///
/// # Errors
/// Not on any supported system.
pub fn forbid_new_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Allows this process as many open descriptors as it may have; returns how many.
///
/// # Errors
/// Not on any supported system.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum)
}

/// How many descriptors this process may have open; `None` for as many as it likes.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Whether this process runs as root in its user namespace.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn signal_name(number: i32) -> Option<&'static str> {
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

    fn shell(script: &str) -> (Child, Channel, OwnedFd) {
        let (ours, theirs) = Channel::pair().unwrap();
        let (child, output) =
            Child::spawn(Command::new("sh").args(["-c", script]), theirs).unwrap();
        (child, ours, output)
    }

    #[test]
    fn child_tells_its_exit_code_and_its_signal() {
        assert_eq!(wait(&mut shell("exit 7").0), Exit::Code(7));
        let killed = wait(&mut shell("kill -SEGV $$").0);
        assert_eq!(killed, Exit::Signal(libc::SIGSEGV));
        assert_eq!(killed.to_string(), "killed by SIGSEGV");
    }

    #[test]
    fn child_that_runs_is_not_waited_for_and_dies_when_dropped() {
        let (mut child, _control, _output) = shell("exec sleep 1000");
        assert_eq!(child.try_reap().unwrap(), None);
        let pid = child.pid();
        drop(child);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn child_inherits_its_control_socket_and_nothing_else() {
        let leaked = rustix::fs::memfd_create("leak", rustix::fs::MemfdFlags::empty()).unwrap();
        // The descriptor that `ls` itself opens is the only one beyond 2.
        let (mut child, _control, _output) = shell("test $(ls /proc/self/fd | wc -l) -eq 4");
        assert_eq!(wait(&mut child), Exit::Code(0));
        drop(leaked);
    }

    #[test]
    fn child_that_is_not_apart_takes_its_process_group_along() {
        for script in ["sleep 31415.5 & exit 7", "sleep 31415.5 & exec sleep 31415.5"] {
            let (mut child, _control, output) = shell(script);
            if script.ends_with('7') {
                assert_eq!(wait(&mut child), Exit::Code(7));
            } else {
                drop(child);
            }
            // The pipe is closed when the last of them has ended.
            poll(&mut [PollFd::new(&output, PollFlags::IN)], None).unwrap();
            assert_eq!(rustix::io::read(&output, &mut [0; 1]).unwrap(), 0);
        }
    }

    #[test]
    fn what_a_child_writes_arrives_and_what_finds_no_room_does_not_block_it() {
        let (mut child, _control, output) = shell("echo out; echo err >&2");
        assert_eq!(wait(&mut child), Exit::Code(0));
        let mut text = [0; 100];
        let size = rustix::io::read(&output, &mut text).unwrap();
        assert_eq!(&text[..size], b"out\nerr\n");
        // What other tests fork has it too, until it executes.
        poll(&mut [PollFd::new(&output, PollFlags::IN)], None).unwrap();
        assert_eq!(rustix::io::read(&output, &mut text).unwrap(), 0, "nobody else has it");
        // Nobody reads meanwhile; dd fails because its write would block.
        let (mut child, _control, _output) = shell("dd if=/dev/zero bs=1M count=1 || exit 3");
        assert_eq!(wait(&mut child), Exit::Code(3));
    }
}
