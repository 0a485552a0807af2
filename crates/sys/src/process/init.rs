//! Puts a child into a PID namespace with a small init, `pid_namespaces(7)`.
//!
//! ```text
//! parent ----- Child, pidfd ----> init (1 inside) -- fork --> the program (2 inside) --> its descendants
//!    <------- the exit, by a pipe -----+
//! ```
//!
//! A descendant of the program can leave its session and outlive its parent, and it cannot leave the namespace. Init
//! ends when the program has ended. The system then kills every process inside before the parent learns of the end.
//! The same happens when the parent kills init, or dies.
//!
//! The program itself should not be the first process of a namespace: signals that such a process does not handle have
//! no effect, and it must reap orphans. Init cannot die of the program's signal, so it reports by a pipe how the
//! program ended.

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

/// The environment variable with the number of that pipe.
pub(super) const REPORT: &str = "ROSEMARY_INIT_REPORT";

/// Calls `spawn`, whose child becomes the first process of a new namespace.
///
/// # Errors
/// The process may not make one, or `spawn` failed.
pub(super) fn in_new_namespace<T>(spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let ours = File::open("/proc/thread-self/ns/pid")?;
    // Checks first that the thread can return: in a user namespace, a process that may make a new namespace may still
    // be refused its current one.
    move_into_link_name_space(ours.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    // SAFETY: the flag affects only children of this thread; no descriptor changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID) }?;
    let spawned = spawn();
    move_into_link_name_space(ours.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    spawned
}

/// Whether this process may make PID namespaces for its children.
pub fn can_make_pid_namespace() -> bool {
    in_new_namespace(|| Ok(())).is_ok()
}

/// The result of [`split_off_init`] in this process.
static RESULT: OnceLock<InitResult> = OnceLock::new();

/// Who made this process's PID namespace, or why there is none.
#[derive(Debug)]
enum InitResult {
    ByParent,
    /// This process, together with a user namespace, which gave it the right.
    ByItself,
    Refused(io::Error),
}

/// Makes this process the init of its PID namespace, and returns in a child of it.
///
/// If the parent could not make the namespace, this tries to make one together with a user namespace. Then there is a
/// third process, which only waits for init. Call this first in `main`, while there is one thread. It does nothing in a
/// program that was started without [`Child`](super::Child)'s environment variable.
///
/// # Errors
/// The system is out of processes.
pub fn split_off_init() -> io::Result<()> {
    let report = std::env::var(REPORT).ok().and_then(|number| number.parse::<RawFd>().ok());
    let Some(report) = report else { return Ok(()) };
    // SAFETY: the parent that set the variable has left this descriptor open for this function, and no other code
    // knows of it.
    let report = unsafe { OwnedFd::from_raw_fd(report) };
    if rustix::process::getpid().is_init() {
        let _ = RESULT.set(InitResult::ByParent);
    } else {
        let entered = try_first(crate::sandbox::enter_with_processes)?;
        if let Err(error) = entered {
            let _ = RESULT.set(InitResult::Refused(error));
            return Ok(());
        }
        let _ = RESULT.set(InitResult::ByItself);
        if let Some(init) = fork()? {
            wait_for(init);
        }
        // No check of the parent follows here: it is not in this namespace, so its number reads as 0.
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    match fork()? {
        None => Ok(()), // closes the report here, so that only init has it
        Some(program) => serve(program, &report),
    }
}

/// Checks that this process is behind an init in a PID namespace.
///
/// # Errors
/// The reason why it is not.
pub(crate) fn check_pid_namespace() -> io::Result<()> {
    match RESULT.get() {
        Some(InitResult::ByParent | InitResult::ByItself) => Ok(()),
        Some(InitResult::Refused(error)) => {
            Err(io::Error::new(error.kind(), format!("without root: {error}")))
        }
        None => Err(io::Error::other("the program was started without a PID namespace")),
    }
}

/// Whether this process entered a user namespace in [`split_off_init`].
pub(crate) fn made_user_namespace() -> bool {
    matches!(RESULT.get(), Some(InitResult::ByItself))
}

/// Calls `enter` in a child, and if that succeeds, in this process. A process that has entered a namespace cannot
/// leave it if a later part of `enter` fails. Call this while there is one thread.
///
/// # Errors
/// The outer error: the system is out of processes. The inner error: `enter` failed.
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
                    None => Err(io::Error::other("a signal ended the child that tried it")),
                });
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Forks. Returns the child's number, or `None` in the child.
fn fork() -> io::Result<Option<libc::pid_t>> {
    // SAFETY: there is one thread, so no other thread holds a lock that the child needs.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(child)),
    }
}

/// Runs the process outside of the namespace, whose child is init: it waits until init ends. When it is killed, init
/// is killed too.
fn wait_for(init: libc::pid_t) -> ! {
    close_all(0, libc::c_uint::MAX);
    give_up_privileges();
    // Init's own exit does not matter: its report says how the program ended.
    let init = rustix::process::Pid::from_raw(init);
    while let Err(rustix::io::Errno::INTR) = waitpid(init, WaitOptions::empty()) {}
    // SAFETY: it ends the process at once; there is nothing to clean up.
    unsafe { libc::_exit(0) }
}

/// Gives up capabilities, and hides the process from ptrace(2).
fn give_up_privileges() {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let _ = set_capabilities(None, none); // cannot fail, and the process only waits in any case
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Runs init: reaps orphans until the program ends, and reports its exit.
fn serve(program: libc::pid_t, report: &OwnedFd) -> ! {
    // The descriptors belong to the program, and no process must get them from init.
    let report_number = report.as_raw_fd().unsigned_abs();
    close_all(0, report_number.saturating_sub(1));
    close_all(report_number + 1, libc::c_uint::MAX);
    give_up_privileges();
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
        // SAFETY: the caller uses none of these descriptors any more, and never returns to code that does.
        unsafe { libc::close_range(first, last, 0) };
    }
}

/// The program's process number, as seen from here; `None` if init does not run yet or has not started the program.
///
/// Init is the process `child`, or a child of it if that process `made_namespace` itself.
pub(super) fn program_of(child: u32, made_namespace: bool) -> Option<u32> {
    let init = if made_namespace {
        // The process may also have a child of `try_first`.
        first_child_of(child).filter(|(inside, _)| *inside == 1)?.1
    } else {
        child
    };
    first_child_of(init).map(|(_, program)| program)
}

/// The child of a process with the lowest number in its innermost namespace: that number, and the one here.
fn first_child_of(pid: u32) -> Option<(u32, u32)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let lists = threads.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
    let children = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    });
    // The other children are orphans. The program got the first number inside, and when numbers wrap, they restart at
    // 300.
    children.filter_map(|child| Some((number_inside(child)?, child))).min()
}

/// The number of a process in its innermost namespace: the last of `NSpid`, `proc_pid_status(5)`.
fn number_inside(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// Encodes an exit as a byte for its kind and the number.
fn to_bytes(exit: Exit) -> [u8; 5] {
    let (kind, number) = match exit {
        Exit::Code(code) => (0, code),
        Exit::Signal(signal) => (1, signal),
    };
    let [a, b, c, d] = number.to_ne_bytes();
    [kind, a, b, c, d]
}

/// Reads init's report, if it has sent one.
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
    use crate::process::{Child, Outputs};

    const SCRIPT: &str = "ROSEMARY_TEST_SCRIPT";

    #[test]
    #[ignore = "the other tests start it as the program"]
    fn play() {
        let Some(script) = std::env::var_os(SCRIPT) else { return };
        split_off_init().unwrap();
        panic!("{}", Command::new("sh").arg("-c").arg(script).exec());
    }

    /// Starts a shell in a PID namespace. Returns `None` and prints the reason without root.
    fn shell(script: &str) -> Option<(Child, Channel, Outputs)> {
        if !can_make_pid_namespace() {
            println!("SKIPPED: making namespaces needs root");
            return None;
        }
        let (ours, theirs) = Channel::passing_pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture"]);
        command.arg("process::init::tests::play").env(SCRIPT, script);
        let (child, output) = Child::spawn_in_pid_namespace(&mut command, theirs).unwrap();
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
    fn exit_behind_init_is_reported() {
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
    fn descendants_end_before_the_end_is_reported() {
        let script = "setsid sleep 31415.1 & (setsid sleep 31415.1 &) ; exit 7";
        let Some((mut child, _control, _output)) = shell(script) else { return };
        assert_eq!(wait_for(&mut child), Exit::Code(7));
        assert!(with_argument("31415.1").is_empty());
    }

    #[test]
    fn killed_program_ends_its_descendants() {
        let Some((child, _control, _output)) = shell("setsid sleep 31415.2 & exec sleep 31415.2")
        else {
            return;
        };
        until("both run", || (with_argument("31415.2").len() == 2).then_some(()));
        drop(child);
        assert!(with_argument("31415.2").is_empty());
    }

    #[test]
    fn process_number_is_that_of_the_program() {
        let Some((mut child, _control, _output)) = shell("exec sleep 31415.3") else { return };
        let pid = until("it runs", || with_argument("31415.3").first().copied());
        assert_eq!(child.pid(), pid);
        let held = child.hold().unwrap();
        assert_eq!(held.pid(), pid);
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(wait_for(&mut child), Exit::Signal(libc::SIGKILL));
        assert!(!held.exists() && child.hold().is_none());
    }

    #[test]
    fn next_children_stay_in_the_parents_namespace() {
        let Some((_child, _control, _output)) = shell("exec sleep 31415.4") else { return };
        let output = Command::new("readlink").arg("/proc/self/ns/pid").output().unwrap();
        let ours = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), ours.to_str().unwrap());
    }
}
