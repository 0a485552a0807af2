//! Duplicates descriptors that code of another language names by number.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// Duplicates the open descriptor `number`. The duplicate is closed on execve(2).
///
/// # Errors
/// There is no such descriptor, or the process is out of descriptors.
pub fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes a number and touches no memory. A number that is not open is an error.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_descriptors_are_duplicated() {
        assert!(duplicate(1).is_ok());
        assert!(duplicate(-1).is_err());
        assert!(duplicate(1_000_000).is_err());
    }
}
