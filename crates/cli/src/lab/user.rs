//! The lab of an ordinary user: in a user namespace, where that user is root.

use std::fs;

use sys::namespace::EnterError;

use super::{LabError, this_command};

/// The switches by which a system keeps ordinary users from making user namespaces, and how they stand
/// then: Ubuntu's, Debian's of old, everybody's.
const SWITCHES: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns is 1",
    ),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0"),
];

/// Makes an ordinary user's process root of a user namespace of its own, so that it may enter a lab.
/// Nothing is done for who is root already.
///
/// To be called while the process has one thread.
///
/// # Errors
/// [`LabError::NoUserNamespace`] if the system does not let ordinary users do that.
pub fn become_root() -> Result<(), LabError> {
    if sys::process::is_root() {
        return Ok(());
    }
    sys::namespace::become_root().map_err(|_| refused())
}

/// What is wrong with the machine if a lab could not be entered: what root lacks, or what an ordinary
/// user does. Some systems let them make user namespaces and then nothing in them.
pub(super) fn enter_error(error: EnterError) -> LabError {
    if sys::namespace::is_of_one_user() { refused() } else { error.into() }
}

fn refused() -> LabError {
    let stands = |(file, how, _): &&(&str, &str, &str)| {
        fs::read_to_string(file).is_ok_and(|text| text.trim() == *how)
    };
    let why = SWITCHES.iter().find(stands).map(|(_, _, why)| *why);
    LabError::NoUserNamespace { why, command: this_command() }
}
