//! Finding out what wall there can be, by putting one up: the zone's program confines itself as it
//! would for an app, says what could be done, and ends.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use sys::sandbox::Report;
use zone::control::{Answer, Request, Wall};

use crate::child;
use crate::users::Users;

/// Tries with the program `zone`, as the user that calls this, with a user that no app has.
///
/// # Errors
/// The program cannot be started, or could not even give up its privileges.
pub fn run(zone: &Path) -> io::Result<Report> {
    let users = Users::find().map_err(io::Error::other)?;
    let limits = zone::sandbox::LIMITS;
    let wall = Wall {
        run_as: users.for_nobody(),
        full: false,
        read: Vec::new(),
        never: Vec::new(),
        limits,
    };
    // An object like any: that it can be copied is a part of it.
    let object = sys::shm::sealed_copy("object", b"object")?;
    match child::ask(zone, &Request::Try { wall }, &[object.as_fd()])? {
        Answer::Confined { report } => Ok(report),
        Answer::Failed { why } | Answer::Unfit { why } | Answer::NotLoaded { why } => {
            Err(io::Error::other(why))
        }
        Answer::Loaded { .. } => {
            Err(io::Error::other("rosemary-zone loaded what it was not given"))
        }
    }
}
