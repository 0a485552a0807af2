//! Finds the user of a TCP connection on this machine, by asking the system (`sock_diag(7)`).
//!
//! ```text
//! request   nlmsghdr (16)  inet_diag_req_v2: family, protocol, ext, pad, states (8), id (48)
//! reply     nlmsghdr (16)  inet_diag_msg: family, state, timer, retrans (4), id (48), expires, rqueue, wqueue, uid, inode (4 each)
//! id        source port, destination port (2 each, big endian), source, destination (16 each), interface (4), cookie (8)
//! ```
//!
//! The socket came from the monitor and belongs to the machine's network, which this process has left. The request names both ends of
//! the connection from the client's side, so the reply is about the client's socket alone.
//!
//! A socket that its process has closed has no owner: the system reports it with user 0 and without an inode until the
//! connection has ended. Any user can send a request and close the socket with the same segment. So only an open socket of a
//! connection that the client has not ended counts, and a later answer counts only if it names the same socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::state::lock;

/// Size of `nlmsghdr`.
const HEAD: usize = 16;

/// Size of `inet_diag_sockid`.
const ID: usize = 48;

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;

/// States of TCP in which the client has not ended the connection: `TCP_ESTABLISHED` and `TCP_CLOSE_WAIT`.
const LIVE: [u8; 2] = [1, 8];

/// The client's end of a connection on this machine.
///
/// Two values are equal only if they name the same socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The user who opened the socket.
    pub(crate) uid: u32,
    inode: u32,
    /// The system's number of the socket; no other socket has had it since the machine started.
    cookie: [u8; 8],
}

/// How long the system may take. It answers while the request is sent.
const PATIENCE: Duration = Duration::from_millis(200);

/// The socket for such questions.
#[derive(Debug)]
pub(crate) struct Peers(Mutex<(OwnedFd, u32)>);

impl Peers {
    /// Asks over this socket.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new((socket, 0)))
    }

    /// Returns the socket at the end `client` of a connection to `server`.
    ///
    /// # Errors
    /// The system does not know the connection, the client has ended it, or the system does not support the question.
    pub(crate) fn find(&self, client: SocketAddr, server: SocketAddr) -> io::Result<Peer> {
        let mut guard = lock(&self.0);
        let (socket, number) = &mut *guard;
        *number = number.wrapping_add(1);
        let (number, request) = (*number, request(client, server, *number));
        send(&*socket, &request, SendFlags::empty())?;
        let mut room = [0; 1024];
        loop {
            let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
            if poll(&mut [PollFd::new(&*socket, PollFlags::IN)], Some(&patience))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let (size, _) = recv(&*socket, &mut room[..], RecvFlags::DONTWAIT)?;
            // A late reply to an earlier request has another number.
            if let Some(peer) = peer_in(&room[..size.min(1024)], &id(client, server), number)? {
                return Ok(peer);
            }
        }
    }
}

/// The ends of a connection from the client's side.
fn id(client: SocketAddr, server: SocketAddr) -> [u8; ID] {
    let mut id = [0; ID];
    id[..2].copy_from_slice(&client.port().to_be_bytes());
    id[2..4].copy_from_slice(&server.port().to_be_bytes());
    for (at, ip) in [(4, client.ip()), (20, server.ip())] {
        match ip {
            IpAddr::V4(ip) => id[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => id[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    id[40..].fill(0xff); // no cookie
    id
}

fn request(client: SocketAddr, server: SocketAddr, number: u32) -> Vec<u8> {
    let family: u8 = if client.is_ipv4() { 2 } else { 10 };
    let size: u32 = 72;
    let mut request = Vec::with_capacity(72);
    request.extend(size.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend(number.to_ne_bytes());
    request.extend([0; 4]);
    request.extend([family, 6, 0, 0]); // TCP
    request.extend(u32::MAX.to_ne_bytes()); // all states
    request.extend(id(client, server));
    request
}

/// Returns the socket in a reply to request `number`; `None` if it answers another one.
///
/// # Errors
/// The reply is malformed, or names no open socket of a connection that the client has not ended.
fn peer_in(reply: &[u8], id: &[u8; ID], number: u32) -> io::Result<Option<Peer>> {
    let malformed = || io::Error::other("the system sent a malformed answer");
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(reply.get(at..at + 4)?.try_into().ok()?))
    };
    let kind = reply.get(4..6).and_then(|it| it.try_into().ok()).map(u16::from_ne_bytes);
    if word(8).ok_or_else(malformed)? != number {
        return Ok(None);
    }
    if kind != Some(BY_FAMILY) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let found = reply.get(HEAD + 4..HEAD + 4 + ID).ok_or_else(malformed)?;
    // Without such a connection, the system may report a listening socket of the same port.
    if found[..36] != id[..36] {
        return Err(io::ErrorKind::NotFound.into());
    }
    let state = reply.get(HEAD + 1).ok_or_else(malformed)?;
    let cookie = found[40..].try_into().map_err(|_| malformed())?;
    let uid = word(HEAD + 4 + ID + 12).ok_or_else(malformed)?;
    let inode = word(HEAD + 4 + ID + 16).ok_or_else(malformed)?;
    if !LIVE.contains(state) || inode == 0 {
        return Err(io::Error::other("the client has ended the connection"));
    }
    Ok(Some(Peer { uid, inode, cookie }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use rustix::net::netlink::SOCK_DIAG;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

    use super::*;

    fn peers() -> Peers {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        Peers::new(socket_with(AddressFamily::NETLINK, kind, flags, Some(SOCK_DIAG)).unwrap())
    }

    #[test]
    fn user_of_a_local_connection_is_found() {
        let own = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, from) = listener.accept().unwrap();
            let found = || peers().find(from, server.local_addr().unwrap());
            let first = found().unwrap();
            assert_eq!(first.uid, own);
            assert_eq!(found().unwrap(), first, "the same socket");
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(found().unwrap(), first, "the client may still read");
            drop(client);
        }
    }

    #[test]
    fn closed_socket_has_no_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, from) = listener.accept().unwrap();
            let at = server.local_addr().unwrap();
            (client, server, from, at)
        };
        // The request leaves with the end of the connection, in one segment.
        let (client, _server, from, at) = connect();
        send(client.as_fd(), b"DELETE / HTTP/1.1\r\n\r\n", SendFlags::MORE).unwrap();
        drop(client);
        assert!(peers().find(from, at).is_err(), "closed by the client");
        let (mut client, _server, from, at) = connect();
        client.write_all(b"x").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(peers().find(from, at).is_err(), "ended by the client");
        // The system keeps the client's end for a while after both have closed.
        let (client, server, from, at) = connect();
        drop(client);
        drop(server);
        assert!(peers().find(from, at).is_err(), "closed by both");
    }

    #[test]
    fn connection_of_the_same_ends_is_another_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let first = TcpStream::connect(at).unwrap();
        let (server, from) = listener.accept().unwrap();
        let earlier = peers().find(from, at).unwrap();
        // Without a wait at its end, the port is free at once.
        rustix::net::sockopt::set_socket_linger(&first, Some(Duration::ZERO)).unwrap();
        drop((first, server));
        let kind = (AddressFamily::INET, SocketType::STREAM);
        let again = socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&again, &from).unwrap();
        rustix::net::connect(&again, &at).unwrap();
        let later = peers().find(from, at).unwrap();
        assert_eq!(later.uid, earlier.uid);
        assert_ne!(later, earlier);
    }

    #[test]
    fn connection_that_does_not_exist_has_no_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert!(peers().find("127.0.0.1:1".parse().unwrap(), at).is_err());
        assert!(peers().find(at, "127.0.0.1:1".parse().unwrap()).is_err());
    }

    #[test]
    fn short_and_foreign_replies_are_no_users() {
        let id = [7; ID];
        assert!(peer_in(&[], &id, 1).is_err());
        assert!(peer_in(&[0; 20], &id, 1).unwrap().is_none());
        let mut reply = vec![0; 100];
        reply[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        assert!(peer_in(&reply, &id, 0).is_err(), "another connection");
        reply[20..68].copy_from_slice(&id);
        for state in 0..=u8::MAX {
            reply[17] = state;
            reply[84..88].fill(1);
            assert_eq!(peer_in(&reply, &id, 0).is_ok(), LIVE.contains(&state), "state {state}");
            reply[84..88].fill(0);
            assert!(peer_in(&reply, &id, 0).is_err(), "without an inode, state {state}");
        }
        (reply[17], reply[84]) = (1, 1);
        assert_eq!(peer_in(&reply, &id, 0).unwrap().map(|peer| peer.uid), Some(0));
        assert!(peer_in(&reply[..70], &id, 0).is_err());
    }
}
