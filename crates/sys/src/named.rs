//! Listens on and connects to control sockets with a path in the file system.
//!
//! Operators connect by such a socket. Rosemary's own processes use descriptors that they passed each other. The system
//! states the credentials of a peer at the time of its connect(2) (`SO_PEERCRED`, `SO_PEERGROUPS`, unix(7)), and the
//! peer cannot forge them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};

use crate::channel::Channel;
use crate::socket;

/// The credentials of the process at the other end of a named control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its process number, or 0 if it is in a PID namespace that is not visible from here.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its other groups.
    pub groups: Vec<u32>,
}

/// A listening seqpacket socket with a path. The path outlives it, so the caller removes the file.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Binds a new socket to `path`, with at most `backlog` waiting connections.
    ///
    /// Neither [`accept`](Self::accept) nor a call on a connection blocks. Since Linux 6.16, peers can pass no
    /// descriptors. The umask limits the file's mode, which is 0777 otherwise.
    ///
    /// # Errors
    /// A file exists at `path`, `path` is longer than 107 bytes, or the system refuses.
    pub fn bind(path: &Path, backlog: i32) -> io::Result<Self> {
        let fd = new_socket()?;
        socket::refuse_descriptors(&fd);
        bind(&fd, &SocketAddrUnix::new(path)?)?;
        listen(&fd, backlog)?;
        Ok(Self(fd))
    }

    /// Accepts the oldest waiting connection; `None` if none waits.
    ///
    /// # Errors
    /// The system is out of descriptors or memory; the connection keeps waiting.
    pub fn accept(&self) -> io::Result<Option<(Channel, Peer)>> {
        let fd = match accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let peer = peer(&fd)?;
        Ok(Some((Channel::from_fd(fd), peer)))
    }
}

impl AsFd for Listener {
    /// Readable when a connection waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Connects to the socket at `path`. The channel does not block.
///
/// # Errors
/// `NotFound` or `ConnectionRefused` if no process listens, `PermissionDenied`, `WouldBlock` if the backlog is full, or
/// another system error.
pub fn connect_to(path: &Path) -> io::Result<Channel> {
    let fd = new_socket()?;
    connect(&fd, &SocketAddrUnix::new(path)?)?;
    Ok(Channel::from_fd(fd))
}

/// Connects in the same way as [`connect_to`], and waits up to `patience` while the backlog is full.
///
/// The system wakes waiting processes in their order. A process that retries instead may never succeed.
///
/// # Errors
/// As [`connect_to`].
pub fn connect_patiently(path: &Path, patience: Duration) -> io::Result<Channel> {
    let give_up = Instant::now() + patience;
    let fd = new_socket()?;
    ioctl_fionbio(&fd, false)?;
    loop {
        // At least 1 ms: a timeout of 0 means none.
        let rest = give_up.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        set_socket_timeout(&fd, Timeout::Send, Some(rest))?;
        match connect(&fd, &SocketAddrUnix::new(path)?) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    }
    ioctl_fionbio(&fd, true)?;
    Ok(Channel::from_fd(fd))
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Reads the peer's credentials. rustix's `socket_peercred` does not allow the process number 0, which the system
/// states for a peer in another PID namespace.
fn peer(fd: &OwnedFd) -> io::Result<Peer> {
    let mut credentials = [0_u32; 3]; // `struct ucred`: pid_t, uid_t, gid_t
    let size = socket::option(fd, libc::SO_PEERCRED, &mut credentials)?;
    if size != size_of::<libc::ucred>() {
        return Err(io::Error::other("the system stated no credentials of the peer"));
    }
    let [pid, uid, gid] = credentials;
    Ok(Peer { pid, uid, gid, groups: peer_groups(fd)? })
}

fn peer_groups(fd: &OwnedFd) -> io::Result<Vec<u32>> {
    const MOST: usize = 65_536; // NGROUPS_MAX, credentials(7)
    let mut groups = vec![0; 64];
    let size = match socket::option(fd, libc::SO_PEERGROUPS, &mut groups) {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
            groups.resize(MOST, 0);
            socket::option(fd, libc::SO_PEERGROUPS, &mut groups)?
        }
        result => result?,
    };
    groups.truncate(size / size_of::<u32>());
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::ChannelError;

    fn path(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("rosemary-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn peer_is_known_by_its_process_user_and_groups() {
        let path = path("peer");
        let listener = Listener::bind(&path, 4).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let ours = connect_to(&path).unwrap();
        let (theirs, peer) = listener.accept().unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getegid().as_raw());
        let groups = rustix::process::getgroups().unwrap();
        assert_eq!(peer.groups, groups.iter().map(|group| group.as_raw()).collect::<Vec<_>>());
        ours.send(&1, &[]).unwrap();
        assert_eq!(theirs.receive::<u8>().unwrap().0, 1);
    }

    #[test]
    fn path_without_a_listener_refuses() {
        let path = path("gone");
        assert_eq!(connect_to(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(Listener::bind(&path, 4).unwrap());
        assert_eq!(connect_to(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let twice = Listener::bind(&path, 4).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(twice.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn descriptors_of_a_peer_are_refused() {
        let path = path("descriptors");
        let listener = Listener::bind(&path, 4).unwrap();
        let ours = connect_to(&path).unwrap();
        let before = ours.send(&1, &[ours.as_fd()]);
        let (theirs, _) = listener.accept().unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        if !socket::can_refuse_descriptors(&theirs) {
            return;
        }
        assert!(before.is_err(), "refused before the connection is accepted, too");
        assert!(ours.send(&1, &[ours.as_fd()]).is_err());
        ours.send(&2, &[]).unwrap();
        assert_eq!(theirs.receive::<u8>().unwrap().0, 2);
        theirs.send(&3, &[theirs.as_fd()]).unwrap();
        assert_eq!(ours.receive::<u8>().unwrap().1.len(), 1);
    }

    #[test]
    fn connections_beyond_the_backlog_are_refused() {
        let path = path("full");
        let listener = Listener::bind(&path, 1).unwrap();
        let mut waiting = Vec::new();
        let error = (0..100).find_map(|_| match connect_to(&path) {
            Ok(channel) => {
                waiting.push(channel);
                None
            }
            Err(error) => Some(error),
        });
        assert_eq!(error.unwrap().kind(), io::ErrorKind::WouldBlock);
        let late = connect_patiently(&path, Duration::from_millis(20));
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let silent = waiting[0].receive::<u8>();
        assert!(matches!(silent, Err(ChannelError::WouldBlock)));
        let patient = std::thread::spawn({
            let path = path.clone();
            move || connect_patiently(&path, Duration::from_secs(60))
        });
        let mut accepted = Vec::new();
        while !patient.is_finished() {
            accepted.extend(listener.accept().unwrap());
        }
        std::fs::remove_file(&path).unwrap();
        let silent = patient.join().unwrap().unwrap().receive::<u8>();
        assert!(matches!(silent, Err(ChannelError::WouldBlock | ChannelError::Closed)));
    }
}
