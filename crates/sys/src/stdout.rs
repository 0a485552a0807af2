//! Makes standard output suit code that prints for people, such as an app that the process hosts.
//!
//! The monitor reads standard output from a pipe. C buffers what it prints into a pipe in blocks of some kilobytes, so a
//! line would appear much later, or never if the process is killed. And Rust's `println!` panics if the pipe is full.

use std::io::{self, Error};
use std::ptr;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

// The crate `libc` does not declare it on every system.
unsafe extern "C" {
    /// C's stream for standard output.
    static stdout: *mut libc::FILE;
}

/// Makes C write each line to standard output as soon as it ends. Rust does so by itself.
///
/// Call this before any code prints, while the process has one thread.
///
/// # Errors
/// None on a supported system.
pub fn write_lines_at_once() -> io::Result<()> {
    // SAFETY: the C library sets the pointer before `main` and nobody changes it.
    let stream = unsafe { stdout };
    // SAFETY: the stream is open, nothing was printed yet, and without a buffer of ours C allocates its own.
    match unsafe { libc::setvbuf(stream, ptr::null_mut(), libc::_IOLBF, 0) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Makes a write to standard output wait for its reader if the pipe is full.
///
/// # Errors
/// Standard output is not open.
pub fn wait_for_reader() -> io::Result<()> {
    let fd = rustix::stdio::stdout();
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? - OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::process::Command;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;
    use crate::channel::Channel;
    use crate::process::Child;

    const PLAY: &str = "ROSEMARY_STDOUT_PLAY";

    /// The lines that [`flood`] prints: more than a pipe holds.
    const FLOOD: usize = 20_000;

    #[test]
    #[ignore = "the other tests start it as a process of its own"]
    fn play() {
        match std::env::var(PLAY).as_deref() {
            Ok("print") => print(),
            Ok("flood") => flood(),
            _ => {}
        }
    }

    fn print() {
        write_lines_at_once().unwrap();
        // SAFETY: the texts end with a zero byte and contain no directives.
        unsafe { libc::printf(c"a line of C\nits beginning".as_ptr()) };
        std::thread::sleep(Duration::from_secs(1_000));
    }

    fn flood() {
        wait_for_reader().unwrap();
        (0..FLOOD).for_each(|number| println!("flood {number}"));
    }

    fn start(play: &str) -> (Child, Channel, OwnedFd) {
        let (ours, theirs) = Channel::passing_pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "stdout::tests::play"]);
        let (child, outputs) = Child::spawn(command.env(PLAY, play), theirs).unwrap();
        (child, ours, outputs.stdout)
    }

    /// Reads until the text is `complete` or ends.
    fn read(pipe: &OwnedFd, complete: &str) -> String {
        let mut text = String::new();
        let mut chunk = [0; 1000];
        while complete.is_empty() || !text.contains(complete) {
            poll(&mut [PollFd::new(pipe, PollFlags::IN)], None).unwrap();
            match rustix::io::read(pipe, &mut chunk).unwrap() {
                0 => break,
                size => text += std::str::from_utf8(&chunk[..size]).unwrap(),
            }
        }
        text
    }

    #[test]
    fn line_of_c_arrives_while_the_process_runs() {
        let (mut child, _control, output) = start("print");
        let text = read(&output, "a line of C\n");
        assert!(text.contains("a line of C\n") && !text.contains("beginning"), "{text}");
        assert_eq!(child.try_reap().unwrap(), None, "it still runs");
    }

    #[test]
    fn flood_of_lines_waits_for_the_reader() {
        let (_child, _control, output) = start("flood");
        std::thread::sleep(Duration::from_millis(50)); // meanwhile the pipe is full
        let text = read(&output, "");
        let lines = text.lines().filter(|line| line.starts_with("flood ")).count();
        assert_eq!(lines, FLOOD);
    }
}
