//! Finds out which mechanisms of a sandbox this machine supports.
//!
//! The zone program confines itself in the same way as for an app, reports the result and ends.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use control::zone::{DEFAULT_LIMITS, ZoneReply, ZoneRequest, ZoneSandbox};
use sys::sandbox::Report;

use crate::one_shot;
use crate::users::Users;

/// Runs the program `zone`. If the caller is root, it becomes a user that no app has.
///
/// # Errors
/// The program cannot be started, or could not give up its user or its privileges.
pub fn run(zone: &Path) -> io::Result<Report> {
    let users = Users::find().map_err(io::Error::other)?;
    let sandbox = ZoneSandbox {
        run_as: users.for_nobody(),
        full: false,
        env: BTreeMap::new(),
        read: Vec::new(),
        never: Vec::new(),
        limits: DEFAULT_LIMITS,
    };
    // The content does not matter: the probe copies the object and does not load it.
    let object = sys::shm::sealed_copy("object", b"object")?;
    match one_shot::request(zone, &ZoneRequest::Try { sandbox }, &[object.as_fd()])? {
        ZoneReply::Confined { report } => Ok(report),
        ZoneReply::Failed { why } | ZoneReply::Unfit { why } | ZoneReply::NotLoaded { why } => {
            Err(io::Error::other(why))
        }
        ZoneReply::Loaded { .. }
        | ZoneReply::Incident { .. }
        | ZoneReply::Problem { .. }
        | ZoneReply::Audit { .. } => {
            Err(io::Error::other("rosemary-zone loaded an app in a probe"))
        }
    }
}
