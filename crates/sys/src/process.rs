//! Children that cannot outlive the one who started them.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Has the kernel kill the child when its parent ends, however the parent ends.
///
/// The signal comes when the *thread* that spawned the child ends: spawn from one that lives as
/// long as the child should. The kernel drops the wish when the child changes its user or
/// executes a set-user-ID program; a child that does so must ask again.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let ask = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the request: nobody would ever send the signal.
        if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; `ask` makes two
    // system calls and allocates nothing.
    unsafe { command.pre_exec(ask) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_of_a_thread_that_ended_is_killed() {
        let mut child = std::thread::spawn(|| {
            die_with_parent(Command::new("sleep").arg("60")).spawn().expect("sleep starts")
        })
        .join()
        .expect("the thread does not panic");
        let status = child.wait().expect("our own child");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    }
}
