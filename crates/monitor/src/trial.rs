//! Finding out what wall there can be, by putting one up: the zone's program confines itself as it
//! would for an app, says what could be done, and ends.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::channel::{Channel, ChannelError};
use sys::jail::Report;
use sys::process::{Apart, Child};
use zone::control::{Answer, Request, Wall};

use crate::users::Users;

/// For a start, a few namespaces, and an end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tries with the program `zone`, as the user that calls this, with a user that no app has.
///
/// # Errors
/// The program cannot be started, or could not even give up its privileges.
pub fn run(zone: &Path) -> io::Result<Report> {
    let users = Users::find().map_err(io::Error::other)?;
    let apart = Apart::find();
    let (ours, theirs) = Channel::pair()?;
    let mut command = Command::new(zone);
    command.env_clear().current_dir("/");
    let (child, _output) = Child::spawn_with(apart, &mut command, theirs)?;
    let limits = zone::wall::LIMITS;
    let wall = Wall { run_as: users.for_app(u16::MAX), full: false, read: Vec::new(), limits };
    // An object like any: that it can be copied is a part of it.
    let object = sys::shm::sealed_copy("object", b"object")?;
    ours.send(&Request::Try { wall }, &[object.as_fd()]).map_err(io::Error::other)?;
    let until = Instant::now() + PATIENCE;
    let answer = loop {
        match ours.receive::<Answer>() {
            Ok((answer, _)) => break answer,
            Err(ChannelError::WouldBlock) => {}
            Err(error) => return Err(io::Error::other(format!("rosemary-zone: {error}"))),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "rosemary-zone does not answer"));
        }
        let timeout: Option<Timespec> = left.try_into().ok();
        match poll(&mut [PollFd::new(&ours, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    drop(child); // killed, if it has not ended by itself
    match answer {
        Answer::Confined { report } => Ok(report),
        Answer::Failed { why } | Answer::Unfit { why } => Err(io::Error::other(why)),
        Answer::Loaded { .. } => {
            Err(io::Error::other("rosemary-zone loaded what it was not given"))
        }
    }
}
