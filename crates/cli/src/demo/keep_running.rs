//! The demo goes on until the operator has seen enough, and says how to look into it.

use std::env;
use std::io::{IsTerminal as _, stdin};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::story::Story;
use crate::lab::{Host, Lab, Rosemary, Switch};
use crate::pki::quoted;

/// From one look at the signals to the next.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until Enter is pressed or a signal asks to stop.
///
/// # Errors
/// Rosemary ended meanwhile.
pub(super) fn until_enough(
    lab: &Lab,
    binary: &Path,
    story: &mut Story,
    rosemary: &mut Rosemary<'_>,
    s1: &Switch<'_>,
    [h1, h2]: [&Host<'_>; 2],
) -> anyhow::Result<()> {
    story.step("It runs on until you press Enter, or Ctrl-C. To look into it, type elsewhere:");
    let enter = enter(rosemary.pid());
    let (binary, files) = (quoted(binary), quoted(lab.files()));
    let (of, name, address) = (s1.of().ovs_name(), s1.name(), h2.address());
    for command in [
        format!("{binary} status"),
        format!("{binary} apps"),
        format!("env OVS_RUNDIR={files} ovs-ofctl -O {of} dump-flows {name}"),
        format!("ip netns exec {} ping -c 3 {address}", h1.name()),
    ] {
        story.tell(&format!("{enter} {command}"));
    }
    story.written()?;
    let mut said = Said::Nothing;
    while lab.check_interrupt().is_ok() && said != Said::Enough {
        rosemary.must_run()?;
        if said == Said::Nothing {
            said = listen();
        } else {
            thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// What puts a command into the lab in which the process `pid` is.
fn enter(pid: u32) -> String {
    if sys::namespace::is_of_one_user() {
        return format!("nsenter -t {pid} --user --preserve-credentials --net --mount");
    }
    let sudo = if env::var_os("SUDO_UID").is_some() { "sudo " } else { "" };
    format!("{sudo}nsenter -t {pid} --net --mount")
}

/// What came from standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    /// Enter, or a terminal's end.
    Enough,
    /// What is no terminal (`< /dev/null`) has ended: only a signal can stop it now.
    NoMore,
}

/// Listens for as long as [`LOOK`].
fn listen() -> Said {
    let (stdin, mut text) = (stdin(), [0; 256]);
    let time = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&time)) != Ok(1) {
        return Said::Nothing;
    }
    match rustix::io::read(&stdin, &mut text) {
        Ok(0) | Err(_) if stdin.is_terminal() => Said::Enough,
        Ok(0) | Err(_) => Said::NoMore,
        Ok(size) if text.iter().take(size).any(|byte| *byte == b'\n') => Said::Enough,
        Ok(_) => Said::Nothing,
    }
}
