//! Keeps a listening socket usable for one process after another.
//!
//! Processes that hold the same socket share its options and its file status flags, and each of them can shut it down. Connections
//! inherit the options. So before the next process gets the socket, its owner [restores](SharedListener::restore) everything that
//! the list of system calls lets a confined process change: the options [`LISTENER_OPTIONS`], the flags, and the shutdown. It
//! keeps the waiting connections.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::sandbox::seccomp::LISTENER_OPTIONS;
use crate::socket;

/// `SO_BUF_LOCK`, `asm-generic/socket.h`, since Linux 5.14: which buffers keep the size that a process has set.
const SO_BUF_LOCK: libc::c_int = 72;

/// A socket option by its level and its name.
type SocketOption = (libc::c_int, libc::c_int);

/// A listening socket, with its flags and options at the beginning.
#[derive(Debug)]
pub struct SharedListener {
    fd: OwnedFd,
    flags: OFlags,
    options: Vec<(SocketOption, u32)>,
}

impl SharedListener {
    /// Takes a listening socket that no other process has yet.
    ///
    /// # Errors
    /// The system does not report its flags.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = fcntl_getfl(&fd)?;
        // A local socket has no option of TCP.
        let value = |option| Some((option, read(&fd, option).ok()?));
        let options = LISTENER_OPTIONS.iter().copied().filter_map(value).collect();
        Ok(Self { fd, flags, options })
    }

    /// Restores the flags and options. Returns whether the socket still listens; a process may have shut it down.
    ///
    /// # Errors
    /// The system refuses to restore one of them.
    pub fn restore(&self) -> io::Result<bool> {
        if fcntl_getfl(&self.fd)? != self.flags {
            fcntl_setfl(&self.fd, self.flags)?;
        }
        for &(option, before) in &self.options {
            if read(&self.fd, option)? != before {
                restore(&self.fd, option, before)?;
            }
        }
        let ended = PollFlags::HUP | PollFlags::RDHUP;
        let mut fds = [PollFd::new(&self.fd, ended)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(!fds[0].revents().intersects(ended))
    }
}

fn read(fd: &OwnedFd, (level, name): SocketOption) -> io::Result<u32> {
    let mut value = [0];
    socket::option_at(fd, level, name, &mut value)?;
    Ok(value[0])
}

fn restore(fd: &OwnedFd, option: SocketOption, before: u32) -> io::Result<()> {
    let is_buffer = matches!(option, (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF));
    // The system doubles the size of a buffer, socket(7).
    socket::set(fd, option, if is_buffer { before / 2 } else { before })?;
    if is_buffer {
        // Otherwise the buffers of later connections would keep this size. An older Linux cannot undo that.
        let _ = socket::set(fd, (libc::SOL_SOCKET, SO_BUF_LOCK), 0);
    }
    Ok(())
}

impl AsFd for SharedListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::UnixListener;

    use rustix::net::{Shutdown, shutdown};

    use super::*;

    fn shared() -> (SharedListener, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (SharedListener::new(listener.into()).unwrap(), address)
    }

    #[test]
    fn every_option_that_a_program_may_set_is_restored() {
        let (listener, address) = shared();
        assert_eq!(listener.options.len(), LISTENER_OPTIONS.len());
        for &(option, before) in &listener.options {
            let other = match before {
                0 => 1,
                1 => 0,
                more => more / 4,
            };
            socket::set(&listener.fd, option, other).unwrap();
            assert_ne!(read(&listener.fd, option).unwrap(), before, "{option:?}");
        }
        fcntl_setfl(&listener.fd, OFlags::NONBLOCK | OFlags::APPEND).unwrap();
        assert!(listener.restore().unwrap());
        for &(option, before) in &listener.options {
            assert_eq!(read(&listener.fd, option).unwrap(), before, "{option:?}");
        }
        assert_eq!(fcntl_getfl(&listener.fd).unwrap(), listener.flags);
        assert_eq!(read(&listener.fd, (libc::SOL_SOCKET, SO_BUF_LOCK)).unwrap_or(0), 0);
        TcpStream::connect(address).unwrap();
    }

    #[test]
    fn waiting_connection_survives() {
        let (listener, address) = shared();
        let _client = TcpStream::connect(address).unwrap();
        assert!(listener.restore().unwrap());
        TcpListener::from(listener.fd).accept().unwrap();
    }

    #[test]
    fn socket_that_was_shut_down_is_noticed() {
        let (listener, address) = shared();
        shutdown(&listener, Shutdown::Both).unwrap();
        assert!(!listener.restore().unwrap());
        assert!(TcpStream::connect(address).is_err());
        let name = format!("rosemary-test-{}-shut-down", std::process::id());
        let name = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
        let local = UnixListener::bind_addr(&name).unwrap();
        let local = SharedListener::new(local.into()).unwrap();
        assert!(local.restore().unwrap());
        shutdown(&local, Shutdown::Read).unwrap();
        assert!(!local.restore().unwrap());
    }
}
