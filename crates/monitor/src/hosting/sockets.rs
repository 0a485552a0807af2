//! Binds the listening sockets of apps, which a zone cannot bind.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use supervisor::app::Listeners;
use supervisor::effects::Fd;

use crate::listen::{self, BindError, Listener};
use crate::processes::duplicates;

/// The listening sockets of an app.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// A name and an address of each.
    listeners: Vec<(String, SocketAddr)>,
    sockets: Vec<Socket>,
}

impl Sockets {
    /// The sockets of an app that listens at these addresses, each with its name. None is bound yet.
    pub(crate) fn of(listeners: Vec<(String, SocketAddr)>) -> Self {
        Self { listeners, sockets: Vec::new() }
    }

    /// Gives the app sockets that are not bound instead of its own, for a trial: a running instance, or another program, may
    /// have the addresses. No client reaches them, and a zone can neither bind nor connect a socket.
    ///
    /// # Errors
    /// The system makes no socket.
    pub(crate) fn listen_nowhere(&mut self) -> io::Result<()> {
        let unbound = self.listeners.iter().map(|(_, address)| {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let flags = SocketFlags::CLOEXEC;
            Ok(Socket::Unbound(socket_with(family, SocketType::STREAM, flags, None)?))
        });
        self.sockets = unbound.collect::<io::Result<_>>()?;
        Ok(())
    }

    /// The descriptors, in the order of the addresses.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(Socket::as_fd)
    }
}

impl Listeners for Sockets {
    fn listen(&mut self) -> Result<Vec<Fd>, String> {
        let bound = self.listeners.iter().map(|(name, address)| {
            shared(*address).map_err(|BindError { hint, source }| {
                format!("could not listen at {address} for {name}: {source}; {hint}, or name another address in `listen`")
            })
        });
        self.sockets = bound.map(|it| it.map(Socket::Bound)).collect::<Result<_, _>>()?;
        duplicates(self.fds())
            .map_err(|error| format!("its sockets could not be passed on: {error}"))
    }

    fn restore(&self) {
        for socket in &self.sockets {
            if let Socket::Bound(listener) = socket {
                listener.restore();
            }
        }
    }
}

/// A socket of an app.
#[derive(Debug)]
enum Socket {
    Bound(Arc<Listener>),
    Unbound(OwnedFd),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Bound(listener) => listener.as_fd(),
            Self::Unbound(fd) => fd.as_fd(),
        }
    }
}

/// The sockets that apps listen at. Two instances of an app that are exchanged share theirs.
static BOUND: Mutex<Option<HashMap<SocketAddr, Weak<Listener>>>> = Mutex::new(None);

/// Returns the listening socket of this address, as at the beginning.
fn shared(address: SocketAddr) -> Result<Arc<Listener>, BindError> {
    let mut bound = BOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let bound = bound.get_or_insert_default();
    bound.retain(|_, socket| socket.strong_count() > 0);
    if let Some(socket) = bound.get(&address).and_then(Weak::upgrade)
        && socket.restore()
    {
        return Ok(socket);
    }
    let socket = Arc::new(listen::bind_alone(address, false)?);
    bound.insert(address, Arc::downgrade(&socket));
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_instances_of_an_app_share_a_socket() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let one = shared(free).unwrap();
        let two = shared(free).unwrap();
        assert!(Arc::ptr_eq(&one, &two));
        drop((one, two));
        assert!(std::net::TcpStream::connect(free).is_err(), "it is closed");
        shared(free).unwrap();
    }

    #[test]
    fn next_instance_inherits_nothing_from_the_one_before() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let first = shared(free).unwrap();
        rustix::net::sockopt::set_tcp_nodelay(&*first, true).unwrap();
        rustix::io::ioctl_fionbio(&*first, false).unwrap();
        let second = shared(free).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!rustix::net::sockopt::tcp_nodelay(&*second).unwrap());
        assert!(rustix::fs::fcntl_getfl(&*second).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
        rustix::net::shutdown(&*first, rustix::net::Shutdown::Both).unwrap();
        let third = shared(free).unwrap();
        assert!(!Arc::ptr_eq(&first, &third));
        std::net::TcpStream::connect(free).unwrap();
    }

    #[test]
    fn refused_address_comes_with_a_remedy() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let other = std::net::TcpListener::bind(taken).unwrap();
        let mut sockets = Sockets::of(vec![("wsapi".into(), taken)]);
        let why = sockets.listen().unwrap_err();
        assert!(why.contains("for wsapi") && why.contains("`ss -ltnp`"), "{why}");
        drop(other);
        sockets.listen().unwrap();
    }

    #[test]
    fn sockets_of_a_trial_leave_the_addresses_free() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let other = std::net::TcpListener::bind(taken).unwrap();
        let more = "[::1]:1".parse().unwrap();
        let mut sockets = Sockets::of(vec![("wsapi".into(), taken), ("more".into(), more)]);
        sockets.listen_nowhere().unwrap();
        let bound: Vec<_> = sockets.fds().map(|fd| rustix::net::getsockname(fd).unwrap()).collect();
        let nowhere: [SocketAddr; 2] = ["0.0.0.0:0".parse().unwrap(), "[::]:0".parse().unwrap()];
        assert_eq!(bound.len(), 2);
        for (bound, nowhere) in bound.into_iter().zip(nowhere) {
            assert_eq!(SocketAddr::try_from(bound).unwrap(), nowhere);
        }
        drop(other);
    }
}
