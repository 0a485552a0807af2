//! A namespace of processes for a child, and the tiny init in it, `pid_namespaces(7)`.
//!
//! ```text
//! parent ----- Child, pidfd ----> init (1 inside) -- fork --> the program (2 inside) --> what it forks
//!    <---------- how it ended, by a pipe ----+
//! ```
//!
//! What a program forks may outlive it: it leaves its session and its parent. It cannot leave the
//! namespace. When the program has ended, init ends, and then the system kills all that is left inside
//! before the parent learns of the end; the same when the parent kills init, or dies.
//!
//! Init is there because the first process of a namespace is not like others: signals that it does not
//! handle do not end it, and what is orphaned becomes its child. As it cannot die of the signal that the
//! program died of, it says through a pipe how the program ended.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::process::{
    DumpableBehavior, Signal, WaitOptions, set_dumpable_behavior, set_parent_process_death_signal,
    wait, waitpid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags, move_into_link_name_space,
    set_capabilities, unshare_unsafe,
};

use super::Exit;

/// The environment variable with the number of the pipe to say it through.
pub(super) const REPORT: &str = "ROSEMARY_INIT_REPORT";

/// Calls `spawn`, whose child is the first process of a new namespace.
///
/// # Errors
/// The process may not make one, or what `spawn` says.
pub(super) fn in_new_namespace<T>(spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let ours = File::open("/proc/thread-self/ns/pid")?;
    // Whether there is a way back, before there is need of it: in a user namespace, who may make a new
    // one need not be allowed into that where it is.
    move_into_link_name_space(ours.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    // SAFETY: the flag concerns the children of this thread alone; no descriptor changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID) }?;
    let spawned = spawn();
    move_into_link_name_space(ours.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    spawned
}

/// Whether this process may give its children namespaces of their own.
pub fn can_set_apart() -> bool {
    in_new_namespace(|| Ok(())).is_ok()
}

/// What came of [`split_off_init`] in this process: whether it is behind an init.
static APART: OnceLock<Apart> = OnceLock::new();

/// How this process was set apart, or why not.
#[derive(Debug)]
enum Apart {
    /// By who started it.
    ByParent,
    /// By itself, with a user namespace, which who may make no other has to have first.
    ByItself,
    /// It could not be.
    No(io::Error),
}

/// Makes of this process the init of its namespace, if it was started as the first in one, and
/// returns in a child of it. Where who started it could not make one, it is tried from here, with a
/// user namespace: then there is a third process, which waits for init and does nothing else.
///
/// To be called first in `main`, while there is one thread.
///
/// # Errors
/// The system is out of processes.
pub fn split_off_init() -> io::Result<()> {
    let report = std::env::var(REPORT).ok().and_then(|number| number.parse::<RawFd>().ok());
    let Some(report) = report else { return Ok(()) };
    // SAFETY: who set the variable left this descriptor open for this, and nothing else here knows
    // of it.
    let report = unsafe { OwnedFd::from_raw_fd(report) };
    if rustix::process::getpid().is_init() {
        let _ = APART.set(Apart::ByParent);
    } else {
        let entered = try_first(crate::sandbox::enter_with_processes)?;
        if let Err(error) = entered {
            let _ = APART.set(Apart::No(error));
            return Ok(());
        }
        let _ = APART.set(Apart::ByItself);
        if let Some(init) = fork()? {
            wait_for(init);
        }
        // It can be asked for no parent: that one is not in the namespace.
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    match fork()? {
        None => Ok(()), // the report is closed here: it is init's alone
        Some(program) => serve(program, &report),
    }
}

/// Whether this process is behind an init, in a namespace of processes.
///
/// # Errors
/// Why not.
pub(crate) fn set_apart() -> io::Result<()> {
    match APART.get() {
        Some(Apart::ByParent | Apart::ByItself) => Ok(()),
        Some(Apart::No(error)) => {
            Err(io::Error::new(error.kind(), format!("without root: {error}")))
        }
        None => Err(io::Error::other("it was not started apart")),
    }
}

/// Whether this process made itself a user namespace when it was set apart.
pub(crate) fn made_user_namespace() -> bool {
    matches!(APART.get(), Some(Apart::ByItself))
}

/// Does what `enter` says if it can be done: from some namespaces there is no way back when only a part
/// of it worked, so it is tried in a child before. To be called while there is one thread.
///
/// # Errors
/// The outer one: the system is out of processes. The inner one: what `enter` says.
pub(crate) fn try_first<T>(enter: impl Fn() -> io::Result<T>) -> io::Result<io::Result<T>> {
    let Some(child) = fork()? else {
        let code = match enter() {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        };
        // SAFETY: it ends the child at once; there is nothing to clean up.
        unsafe { libc::_exit(code) }
    };
    let child = rustix::process::Pid::from_raw(child);
    loop {
        match waitpid(child, WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                return Ok(match status.exit_status() {
                    Some(0) => enter(),
                    Some(code) => Err(io::Error::from_raw_os_error(code)),
                    None => Err(io::Error::other("trying it ended the child that tried")),
                });
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The child's number, or `None` in the child.
fn fork() -> io::Result<Option<libc::pid_t>> {
    // SAFETY: there is one thread, so the child is as good a process as this one.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(child)),
    }
}

/// The whole life of the process outside, whose child is init. When it is killed, so is init.
fn wait_for(init: libc::pid_t) -> ! {
    close_all(0, libc::c_uint::MAX);
    keep_to_itself();
    // Init ends as it likes: how the program ended, it says by the report.
    let init = rustix::process::Pid::from_raw(init);
    while let Err(rustix::io::Errno::INTR) = waitpid(init, WaitOptions::empty()) {}
    // SAFETY: it ends the process at once; there is nothing to clean up.
    unsafe { libc::_exit(0) }
}

/// Gives up capabilities and being looked into.
fn keep_to_itself() {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let _ = set_capabilities(None, none); // fails not, and if it did, it would still only wait
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Init's whole life.
fn serve(program: libc::pid_t, report: &OwnedFd) -> ! {
    // It needs none of what it was given, and nobody must get it from here.
    let report_number = report.as_raw_fd().unsigned_abs();
    close_all(0, report_number.saturating_sub(1));
    close_all(report_number + 1, libc::c_uint::MAX);
    keep_to_itself();
    let exit = loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == program => {
                match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => break Exit::Code(code),
                    (None, Some(signal)) => break Exit::Signal(signal),
                    (None, None) => {} // not reachable without options
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {} // an orphan was reaped
            Err(_) => break Exit::Code(-1),            // not reachable: the program is a child
        }
    };
    let _ = rustix::io::write(report, &to_bytes(exit));
    // SAFETY: it ends the process at once; there is nothing to clean up.
    unsafe { libc::_exit(0) }
}

fn close_all(first: u32, last: u32) {
    if first <= last {
        // SAFETY: the caller is about to use none of these descriptors, and never to return to
        // whoever else might.
        unsafe { libc::close_range(first, last, 0) };
    }
}

/// The program's process, as seen from here, if the init that is number `child`, or is a child of that
/// one if that `set_itself_apart`, is there and has started it.
pub(super) fn program_of(child: u32, set_itself_apart: bool) -> Option<u32> {
    let init = if set_itself_apart {
        // Another child of it is the one that tried.
        first_child_of(child).filter(|(inside, _)| *inside == 1)?.1
    } else {
        child
    };
    first_child_of(init).map(|(_, program)| program)
}

/// Of a process's children the one with the lowest number inside; that number, and the one here.
fn first_child_of(pid: u32) -> Option<(u32, u32)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let lists = threads.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
    let children = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    });
    // Others are orphans that init was given. The program was the first to get a number inside, and
    // when those begin anew, they do so behind 300.
    children.filter_map(|child| Some((number_inside(child)?, child))).min()
}

/// The number of a process in the innermost namespace that it is in: the last of `NSpid`,
/// `proc_pid_status(5)`.
fn number_inside(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// A byte that says which, and the number.
fn to_bytes(exit: Exit) -> [u8; 5] {
    let (kind, number) = match exit {
        Exit::Code(code) => (0, code),
        Exit::Signal(signal) => (1, signal),
    };
    let [a, b, c, d] = number.to_ne_bytes();
    [kind, a, b, c, d]
}

/// What init has said, if it has.
pub(super) fn read_report(report: &OwnedFd) -> Option<Exit> {
    let mut bytes = [0; 5];
    let size = rustix::io::read(report, &mut bytes).ok()?;
    let [kind, number @ ..] = bytes;
    let number = i32::from_ne_bytes(number);
    match (size, kind) {
        (5, 0) => Some(Exit::Code(number)),
        (5, _) => Some(Exit::Signal(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;
    use crate::channel::Channel;
    use crate::process::Child;

    const SCRIPT: &str = "ROSEMARY_TEST_SCRIPT";

    #[test]
    #[ignore = "executed by the other tests, to play the program"]
    fn play() {
        let Some(script) = std::env::var_os(SCRIPT) else { return };
        split_off_init().unwrap();
        panic!("{}", Command::new("sh").arg("-c").arg(script).exec());
    }

    /// Set apart; `None`, and says so, if that cannot be had.
    fn shell(script: &str) -> Option<(Child, Channel, OwnedFd)> {
        if !can_set_apart() {
            println!("SKIPPED: making namespaces needs root");
            return None;
        }
        let (ours, theirs) = Channel::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture"]);
        command.arg("process::init::tests::play").env(SCRIPT, script);
        let (child, output) = Child::spawn_apart(&mut command, theirs).unwrap();
        Some((child, ours, output))
    }

    fn wait_for(child: &mut Child) -> Exit {
        poll(&mut [PollFd::new(&*child, PollFlags::IN)], None).unwrap();
        child.try_reap().unwrap().expect("readable pidfd means it has ended")
    }

    /// Processes with `word` among their arguments.
    fn with_argument(word: &str) -> Vec<u32> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes())
        })
        .collect()
    }

    fn until<T>(what: &str, condition: impl Fn() -> Option<T>) -> T {
        let give_up = Instant::now() + Duration::from_secs(15);
        loop {
            if let Some(value) = condition() {
                return value;
            }
            assert!(Instant::now() < give_up, "never {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn end_behind_init_is_told_truly() {
        for (script, exit) in [
            ("exit 7", Exit::Code(7)),
            ("exit 139", Exit::Code(139)),
            ("kill -SEGV $$", Exit::Signal(libc::SIGSEGV)),
            ("kill -ABRT $$", Exit::Signal(libc::SIGABRT)),
            ("kill -KILL $$", Exit::Signal(libc::SIGKILL)),
        ] {
            let Some((mut child, _control, _output)) = shell(script) else { return };
            assert_eq!(wait_for(&mut child), exit, "{script}");
        }
    }

    #[test]
    fn what_a_program_left_behind_ends_with_it_before_its_end_is_told() {
        let script = "setsid sleep 31415.1 & (setsid sleep 31415.1 &) ; exit 7";
        let Some((mut child, _control, _output)) = shell(script) else { return };
        assert_eq!(wait_for(&mut child), Exit::Code(7));
        assert!(with_argument("31415.1").is_empty());
    }

    #[test]
    fn program_that_is_killed_takes_along_what_it_forked() {
        let Some((child, _control, _output)) = shell("setsid sleep 31415.2 & exec sleep 31415.2")
        else {
            return;
        };
        until("both run", || (with_argument("31415.2").len() == 2).then_some(()));
        drop(child);
        assert!(with_argument("31415.2").is_empty());
    }

    #[test]
    fn number_is_the_programs_own_as_seen_from_outside() {
        let Some((mut child, _control, _output)) = shell("exec sleep 31415.3") else { return };
        let pid = until("it runs", || with_argument("31415.3").first().copied());
        assert_eq!(child.pid(), pid);
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(wait_for(&mut child), Exit::Signal(libc::SIGKILL));
    }

    #[test]
    fn thread_that_set_a_child_apart_has_its_next_children_where_it_is() {
        let Some((_child, _control, _output)) = shell("exec sleep 31415.4") else { return };
        let output = Command::new("readlink").arg("/proc/self/ns/pid").output().unwrap();
        let ours = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), ours.to_str().unwrap());
    }
}
