//! Sets and reads options of local sockets that rustix does not support, socket(7) and unix(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// `SO_PASSRIGHTS`, `asm-generic/socket.h`, since Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;

/// `SO_MEMINFO`, `asm-generic/socket.h`, and the places of its values, `linux/sock_diag.h`.
const SO_MEMINFO: libc::c_int = 55;
const SK_MEMINFO_WMEM_ALLOC: usize = 2;
const SK_MEMINFO_SNDBUF: usize = 3;
const SK_MEMINFO_VARS: usize = 9;

/// Makes the system refuse descriptors of a local socket's peer, or of a listening socket's peers. Their send fails with
/// EPERM.
///
/// A process that receives a descriptor also closes it, even if it had no room for it, and a close can block: for a TCP
/// socket with `SO_LINGER`, as long as the sender has chosen. So a process that must not block must not receive
/// descriptors from a peer that can open any.
///
/// This has no effect before Linux 6.16, and on sockets that are not local.
pub(crate) fn refuse_descriptors(socket: &impl AsFd) {
    let _ = set(socket, (libc::SOL_SOCKET, SO_PASSRIGHTS), 0);
}

/// Whether this system supports `SO_PASSRIGHTS`; if not, prints that the test is skipped.
#[cfg(test)]
pub(crate) fn can_refuse_descriptors(socket: &impl AsFd) -> bool {
    match option(socket, SO_PASSRIGHTS, &mut [0]) {
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            eprintln!("SKIPPED: this system lacks SO_PASSRIGHTS (Linux 6.16)");
            false
        }
        _ => true,
    }
}

/// Whether unread messages use more than a quarter of the send buffer.
pub(crate) fn is_crowded(socket: &impl AsFd) -> bool {
    let mut memory = [0; SK_MEMINFO_VARS];
    match option(socket, SO_MEMINFO, &mut memory) {
        Ok(_) => memory[SK_MEMINFO_WMEM_ALLOC] > memory[SK_MEMINFO_SNDBUF] / 4,
        Err(_) => false, // before Linux 4.12, where only a failed send tells that the buffer is full
    }
}

/// Sets a socket option, named by its level and its name, that is a number.
///
/// # Errors
/// The system refuses.
pub(crate) fn set(
    socket: &impl AsFd,
    (level, name): (libc::c_int, libc::c_int),
    value: u32,
) -> io::Result<()> {
    let value = value.to_ne_bytes();
    let size = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and `size` are those of `value`.
    let result = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option that is an array of 32-bit numbers. Returns its size in bytes.
///
/// # Errors
/// The system refuses; `ERANGE` if the array is too short for some options.
pub(crate) fn option(
    socket: &impl AsFd,
    name: libc::c_int,
    value: &mut [u32],
) -> io::Result<usize> {
    option_at(socket, libc::SOL_SOCKET, name, value)
}

/// Reads an option of another level in the same way as [`option`].
///
/// # Errors
/// As for [`option`].
pub(crate) fn option_at(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut [u32],
) -> io::Result<usize> {
    let mut size = libc::socklen_t::try_from(size_of_val(value)).map_err(io::Error::other)?;
    let start = value.as_mut_ptr().cast();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `start` and `size` are those of `value`, which is borrowed mutably for the call. Any bytes that the
    // system writes there are valid numbers.
    let result = unsafe { libc::getsockopt(fd, level, name, start, &raw mut size) };
    if result == 0 { Ok(size as usize) } else { Err(io::Error::last_os_error()) }
}
