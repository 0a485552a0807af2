//! The lab of an ordinary user: a user namespace in which that user is root.

use std::fs;

use sys::namespace::EnterError;

use super::{LabError, this_command};

/// Settings that forbid user namespaces to ordinary users, with the forbidding value: of Ubuntu, of
/// older Debian, of any Linux.
const SWITCHES: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns is 1",
    ),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0"),
];

/// Makes an ordinary user's process root of its own user namespace, so that it may enter a lab.
/// Does nothing for root.
///
/// The process must be single-threaded.
///
/// # Errors
/// [`LabError::NoUserNamespace`] if the system forbids it to ordinary users.
pub fn become_root() -> Result<(), LabError> {
    if sys::process::is_root() {
        return Ok(());
    }
    sys::namespace::become_root().map_err(|_| refused())
}

/// Returns why a lab could not be entered: root lacks a privilege, or the system forbids namespaces
/// to ordinary users. Some systems allow user namespaces but nothing inside them.
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
