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

    /// Returns the user of the process at the end `client` of a connection to `server`.
    ///
    /// # Errors
    /// The system does not know the connection, or does not support the question.
    pub(crate) fn uid(&self, client: SocketAddr, server: SocketAddr) -> io::Result<u32> {
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
            if let Some(uid) = uid_in(&room[..size.min(1024)], &id(client, server), number)? {
                return Ok(uid);
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

/// Returns the user in a reply to request `number`; `None` if it answers another one.
fn uid_in(reply: &[u8], id: &[u8; ID], number: u32) -> io::Result<Option<u32>> {
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
    word(HEAD + 4 + ID + 12).map(Some).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

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
            assert_eq!(peers().uid(from, server.local_addr().unwrap()).unwrap(), own);
            drop(client);
        }
    }

    #[test]
    fn connection_that_does_not_exist_has_no_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert!(peers().uid("127.0.0.1:1".parse().unwrap(), at).is_err());
        assert!(peers().uid(at, "127.0.0.1:1".parse().unwrap()).is_err());
    }

    #[test]
    fn short_and_foreign_replies_are_no_users() {
        let id = [7; ID];
        assert!(uid_in(&[], &id, 1).is_err());
        assert!(uid_in(&[0; 20], &id, 1).unwrap().is_none());
        let mut reply = vec![0; 100];
        reply[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        assert!(uid_in(&reply, &id, 0).is_err(), "another connection");
        reply[20..68].copy_from_slice(&id);
        assert_eq!(uid_in(&reply, &id, 0).unwrap(), Some(0));
        assert!(uid_in(&reply[..70], &id, 0).is_err());
    }
}
