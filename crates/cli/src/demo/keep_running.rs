//! Keeps the demo running until the operator ends it, and prints commands to inspect it.

use std::env;
use std::io::{IsTerminal as _, stdin};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::transcript::Transcript;
use crate::lab::{Host, Lab, Rosemary, Switch, ovs_name};
use crate::pki::quoted;

/// Interval between checks for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until Enter is pressed or a signal arrives.
///
/// # Errors
/// Rosemary ended in the meantime.
pub(super) fn wait_for_operator(
    lab: &Lab,
    binary: &Path,
    transcript: &mut Transcript,
    rosemary: &mut Rosemary<'_>,
    s1: &Switch<'_>,
    [h1, h2]: [&Host<'_>; 2],
) -> anyhow::Result<()> {
    transcript.step("The demo keeps running until you press Enter or Ctrl-C. To inspect it, run in another terminal:");
    let enter = enter(rosemary.pid());
    let (binary, files) = (quoted(binary), quoted(lab.files()));
    let (of, name, address) = (ovs_name(s1.of()), s1.name(), h2.address());
    for command in [
        format!("{binary} status"),
        format!("{binary} apps"),
        format!("env OVS_RUNDIR={files} ovs-ofctl -O {of} dump-flows {name}"),
        format!("ip netns exec {} ping -c 3 {address}", h1.name()),
    ] {
        transcript.print(&format!("{enter} {command}"));
    }
    transcript.written()?;
    let mut said = KeyInput::Nothing;
    while lab.check_interrupt().is_ok() && said != KeyInput::Enter {
        rosemary.must_run()?;
        if said == KeyInput::Nothing {
            said = listen();
        } else {
            thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(())
}

/// Returns the command prefix that enters the lab of process `pid`.
fn enter(pid: u32) -> String {
    if sys::namespace::is_of_one_user() {
        return format!("nsenter -t {pid} --user --preserve-credentials --net --mount");
    }
    let sudo = if env::var_os("SUDO_UID").is_some() { "sudo " } else { "" };
    format!("{sudo}nsenter -t {pid} --net --mount")
}

/// Input from standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyInput {
    Nothing,
    /// Enter, or the end of a terminal's input.
    Enter,
    /// The end of an input that is no terminal (`< /dev/null`): only a signal can end the demo now.
    Closed,
}

/// Polls standard input for [`POLL_INTERVAL`].
fn listen() -> KeyInput {
    let (stdin, mut text) = (stdin(), [0; 256]);
    let time = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL.subsec_nanos().into() };
    if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&time)) != Ok(1) {
        return KeyInput::Nothing;
    }
    match rustix::io::read(&stdin, &mut text) {
        Ok(0) | Err(_) if stdin.is_terminal() => KeyInput::Enter,
        Ok(0) | Err(_) => KeyInput::Closed,
        Ok(size) if text.iter().take(size).any(|byte| *byte == b'\n') => KeyInput::Enter,
        Ok(_) => KeyInput::Nothing,
    }
}
