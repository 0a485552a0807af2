//! Binds the sockets at which switches connect.
//!
//! The monitor keeps the sockets for its whole life and gives every kernel duplicates. While no kernel runs, connections of
//! switches wait in the backlog instead of being refused. The monitor itself never accepts a connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use control::kernel::{ListensAt, Southbound};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
};

use sys::channel::MAX_FDS;
use sys::listening::SharedListener;
use tracing::{error, warn};

use crate::error::StartError;
use crate::keys;
use crate::options::ListenAddresses;
use config::MOST_APPS;

/// The most connections that wait while no kernel accepts them. The system limits this to `net.core.somaxconn`, which is
/// 4096 since Linux 5.4.
const BACKLOG: i32 = 1024;

/// The most listening sockets. One message passes them to a kernel, together with the keys, the objects of the apps that
/// it hosts, and the flight recorder.
const MOST: usize = MAX_FDS - keys::FDS - MOST_APPS - 1;

/// The time that the system may take to close the sockets of a killed instance.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// A bound and listening TCP socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: SharedListener,
    address: SocketAddr,
    /// The protocol of those who connect there.
    pub(crate) protocol: Southbound,
}

impl Listener {
    /// The address to which it is bound.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Describes the socket for the kernel.
    pub(crate) fn listens_at(&self) -> ListensAt {
        ListensAt { address: self.address, protocol: self.protocol }
    }

    /// Restores what a process may have changed. Returns whether the socket still listens: the process may have shut it down.
    pub(crate) fn restore(&self) -> bool {
        let address = self.address;
        match self.socket.restore() {
            Ok(true) => true,
            Ok(false) => {
                warn!(%address, "a program has shut down a listening socket");
                false
            }
            Err(error) => {
                warn!(%address, %error, "could not restore the options of a listening socket");
                true
            }
        }
    }

    /// Prepares the socket for the next process that gets it: restores it, and binds the address again if it was shut down. If
    /// that fails, this logs it, and the process gets the socket as it is.
    pub(crate) fn renew(&mut self) {
        if self.restore() {
            return;
        }
        let address = self.address;
        match bind_one(address) {
            Ok(new) => *self = Self { protocol: self.protocol, ..new },
            Err(error) => {
                let hint = "restart Rosemary";
                error!(%address, %error, hint, "could not listen again at an address");
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Listens on all required addresses, on those for devices of other protocols, and on the optional one if it is free. A taken optional address is logged.
///
/// # Errors
/// Like [`bind_all`].
pub(crate) fn bind_listeners(
    addresses: &ListenAddresses,
    after_crash: bool,
) -> Result<Vec<Listener>, StartError> {
    check(&[&addresses.required[..], &addresses.vtep].concat())?;
    let mut listeners = bind_all(&addresses.required, after_crash)?;
    let of_vtep = |listener| Listener { protocol: Southbound::HardwareVtep, ..listener };
    listeners.extend(bind_all(&addresses.vtep, after_crash)?.into_iter().map(of_vtep));
    if let Some(optional) = addresses.optional {
        match bind_all(&[optional], after_crash) {
            Ok(more) => listeners.extend(more),
            Err(error) => warn!(
                address = %optional, %error,
                "switches cannot use OpenFlow's former port; name the addresses with `listen` to avoid this warning"
            ),
        }
    }
    Ok(listeners)
}

/// Listens on all of `addresses`.
///
/// With `after_crash`, the system may still be closing the sockets of a killed instance, so an occupied address is tried
/// again for a second.
///
/// # Errors
/// [`StartError::TooManyAddresses`], [`StartError::SameAddress`], [`StartError::Occupied`] or [`StartError::Listen`].
fn bind_all(addresses: &[SocketAddr], after_crash: bool) -> Result<Vec<Listener>, StartError> {
    check(addresses)?;
    let give_up = Instant::now() + if after_crash { CLOSE_TIME } else { Duration::ZERO };
    let mut listeners = Vec::new();
    for &address in addresses {
        let listener = loop {
            match bind_one(address) {
                Err(Errno::ADDRINUSE) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                result => break result.map_err(|error| refusal(address, error))?,
            }
        };
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Why an address cannot be used.
#[derive(Debug)]
pub(crate) struct BindError {
    /// A remedy.
    pub(crate) hint: &'static str,
    /// The system's reason.
    pub(crate) source: io::Error,
}

/// Listens on one address that is not for switches. `after_crash` is as for [`bind_listeners`].
///
/// # Errors
/// The system refuses.
pub(crate) fn bind_alone(address: SocketAddr, after_crash: bool) -> Result<Listener, BindError> {
    let give_up = Instant::now() + if after_crash { CLOSE_TIME } else { Duration::ZERO };
    loop {
        match bind_one(address) {
            Ok(listener) => return Ok(listener),
            Err(Errno::ADDRINUSE) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => {
                let hint = match error {
                    Errno::ADDRINUSE => "`ss -ltnp` says which program has it",
                    Errno::ACCESS | Errno::PERM => "ports below 1024 need root",
                    Errno::ADDRNOTAVAIL => {
                        "`ip -brief address` lists the addresses of this machine"
                    }
                    _ => "the system refuses it",
                };
                return Err(BindError { hint, source: error.into() });
            }
        }
    }
}

/// Checks that all of `addresses` could be bound together.
///
/// # Errors
/// [`StartError::TooManyAddresses`] or [`StartError::SameAddress`].
pub(crate) fn check(addresses: &[SocketAddr]) -> Result<(), StartError> {
    if addresses.len() > MOST {
        return Err(StartError::TooManyAddresses { count: addresses.len(), most: MOST });
    }
    for (i, first) in addresses.iter().enumerate() {
        if let Some(second) = addresses.iter().skip(i + 1).find(|second| overlap(first, second)) {
            return Err(StartError::SameAddress { first: *first, second: *second });
        }
    }
    Ok(())
}

fn bind_one(address: SocketAddr) -> Result<Listener, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of an earlier instance may still be in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if address.is_ipv6() {
        // `[::]` means IPv6 only, whatever the system's default. For both, the operator passes `--listen` twice.
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    bind(&fd, &address)?;
    listen(&fd, BACKLOG)?;
    let address = getsockname(&fd)?.try_into().unwrap_or(address);
    let socket = SharedListener::new(fd)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
    Ok(Listener { socket, address, protocol: Southbound::OpenFlow })
}

fn refusal(address: SocketAddr, error: Errno) -> StartError {
    let hint = match error {
        Errno::ADDRINUSE => return StartError::Occupied { address },
        Errno::ACCESS | Errno::PERM => {
            "ports below 1024 need root (or CAP_NET_BIND_SERVICE); OpenFlow's is 6653"
        }
        Errno::ADDRNOTAVAIL => {
            "this machine does not have that address; `ip -brief address` lists its addresses"
        }
        Errno::AFNOSUPPORT => "this machine does not support that address family",
        _ => "choose another address with --listen",
    };
    StartError::Listen { address, hint, source: io::Error::from(error) }
}

/// Returns whether the second address could not be bound after the first.
fn overlap(first: &SocketAddr, second: &SocketAddr) -> bool {
    let (one, other) = (first.ip(), second.ip());
    first.port() == second.port()
        && first.is_ipv4() == second.is_ipv4()
        && (one == other || first.port() != 0 && (one.is_unspecified() || other.is_unspecified()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn bound_socket_queues_connections() {
        let listeners = bind_all(&[address("127.0.0.1:0")], false).unwrap();
        assert_ne!(listeners[0].address().port(), 0);
        std::net::TcpStream::connect(listeners[0].address()).unwrap();
    }

    #[test]
    fn socket_that_a_program_has_shut_down_is_bound_again() {
        let mut listener = bind_one(address("127.0.0.1:0")).unwrap();
        let bound = listener.address();
        let held = listener.as_fd().try_clone_to_owned().unwrap();
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        assert!(std::net::TcpStream::connect(bound).is_err());
        listener.renew();
        assert_eq!(listener.address(), bound);
        std::net::TcpStream::connect(bound).unwrap();
        drop(held); // an instance that still runs may hold the old one
    }

    #[test]
    fn occupied_address_error_shows_how_to_find_the_owner() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        let error = bind_all(&[taken], false).unwrap_err().to_string();
        let line = format!("`ss -ltnp 'sport = :{}'`", taken.port());
        assert!(error.contains(&line) && error.contains("--listen"), "{error}");
    }

    #[test]
    fn occupied_optional_address_is_left_out() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        let mut addresses = ListenAddresses {
            required: vec![address("127.0.0.1:0")],
            optional: Some(taken),
            vtep: vec![],
        };
        assert_eq!(bind_listeners(&addresses, false).unwrap().len(), 1);
        addresses.optional = Some(address("127.0.0.1:0"));
        assert_eq!(bind_listeners(&addresses, false).unwrap().len(), 2);
        addresses.vtep = vec![address("127.0.0.2:0")];
        let protocols = bind_listeners(&addresses, false).unwrap();
        let of_vtep = protocols.iter().filter(|it| it.protocol == Southbound::HardwareVtep);
        assert_eq!((protocols.len(), of_vtep.count()), (3, 1));
        addresses.vtep = vec![];
        addresses.required = vec![taken];
        assert!(bind_listeners(&addresses, false).is_err());
    }

    #[test]
    fn occupied_address_is_retried_after_crash() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        let waiting = std::thread::spawn(move || bind_all(&[taken], true).map(|_| ()));
        std::thread::sleep(Duration::from_millis(50));
        drop(other);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn overlapping_addresses_are_refused() {
        for (first, second) in [
            ("127.0.0.1:6653", "127.0.0.1:6653"),
            ("0.0.0.0:6653", "127.0.0.1:6653"),
            ("[::1]:6653", "[::]:6653"),
        ] {
            let result = bind_all(&[address(first), address(second)], false);
            assert!(matches!(result, Err(StartError::SameAddress { .. })), "{first} {second}");
        }
        assert!(!overlap(&address("0.0.0.0:6653"), &address("[::]:6653")));
        assert!(!overlap(&address("0.0.0.0:6653"), &address("127.0.0.1:6633")));
    }

    #[test]
    fn foreign_address_is_refused_with_hint() {
        let error = bind_all(&[address("192.0.2.1:6653")], false).unwrap_err().to_string();
        assert!(error.contains("does not have that address"), "{error}");
    }
}
