//! Binds the sockets of the HTTP interface.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use control::northbound::{API_SOCKET, ListenerRole, NorthboundListener};
use rustix::fs::Mode;
use sys::listening::SharedListener;
use tracing::{error, warn};

use crate::error::StartError;
use crate::listen::{self, BindError, Listener};

/// The bound sockets.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<(NorthboundListener, Socket)>);

#[derive(Debug)]
enum Socket {
    Tcp(Listener),
    Local(SharedListener),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Local(listener) => listener.as_fd(),
        }
    }
}

impl Listeners {
    /// The descriptors, in the order of [`described`](Self::described).
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(_, fd)| fd.as_fd())
    }

    /// Prepares the sockets for the next process, see [`Listener::renew`].
    pub(crate) fn renew(&mut self) {
        for (_, socket) in &mut self.0 {
            match socket {
                Socket::Tcp(listener) => listener.renew(),
                Socket::Local(listener) => {
                    let result = listener.restore();
                    if !matches!(result, Ok(true)) {
                        let hint = "restart Rosemary";
                        error!(
                            ?result,
                            hint, "the Unix socket of the HTTP interface cannot be used any more"
                        );
                    }
                }
            }
        }
    }

    /// The purposes of the sockets.
    pub(crate) fn described(&self) -> Vec<NorthboundListener> {
        self.0.iter().map(|(listener, _)| *listener).collect()
    }

    /// The socket at which `role` is served.
    pub(crate) fn find(&self, role: ListenerRole) -> Option<(NorthboundListener, BorrowedFd<'_>)> {
        self.0.iter().find(|(it, _)| it.role == role).map(|(it, fd)| (*it, fd.as_fd()))
    }

    /// The address at which `role` is served.
    pub(crate) fn address(&self, role: ListenerRole) -> Option<SocketAddr> {
        self.find(role).and_then(|(it, _)| it.address)
    }

    /// The addresses of the API.
    pub(crate) fn api(&self) -> impl Iterator<Item = SocketAddr> {
        let api = self.0.iter().filter(|(it, _)| it.role == ListenerRole::Api);
        api.filter_map(|(it, _)| it.address)
    }

    /// Closes the socket for `role`.
    pub(crate) fn remove(&mut self, role: ListenerRole) {
        self.0.retain(|(listener, _)| listener.role != role);
    }

    /// Listens at `address` for `role`. If the operator has not `chosen` the address and another program has taken it, this warns
    /// and adds nothing.
    ///
    /// # Errors
    /// [`StartError::Northbound`] or [`StartError::AppRoutes`]: the system refuses a chosen address.
    pub(crate) fn add(
        &mut self,
        role: ListenerRole,
        (address, chosen): (SocketAddr, bool),
        after_crash: bool,
    ) -> Result<(), StartError> {
        match listen::bind_alone(address, after_crash && chosen) {
            Ok(listener) => {
                let address = Some(listener.address());
                self.0.push((NorthboundListener { role, address }, Socket::Tcp(listener)));
                Ok(())
            }
            Err(BindError { hint, source }) if chosen => Err(match role {
                ListenerRole::Apps => StartError::AppRoutes { address, hint, source },
                _ => StartError::Northbound { address, hint, source },
            }),
            Err(BindError { source: error, .. }) => {
                let (what, key) = match role {
                    ListenerRole::Apps => ("the routes of apps", "`app-routes`"),
                    _ => ("the HTTP interface", "--api or `api`"),
                };
                let hint =
                    format!("free the port, or choose another address with {key} in [northbound]");
                warn!(what, %address, %error, hint, "could not listen at an address");
                Ok(())
            }
        }
    }

    /// Listens at a Unix socket in the runtime directory `dir`, for its owner and `group`. If that fails, this warns.
    ///
    /// This changes the umask of the process for a moment, so the caller must not let another thread make files meanwhile.
    pub(crate) fn add_unix(&mut self, dir: &Path, group: Option<u32>) {
        let path = dir.join(API_SOCKET);
        // Only a killed instance can have left a socket, because this one holds the lock.
        let _ = std::fs::remove_file(&path);
        let old_umask = rustix::process::umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let bound = UnixListener::bind(&path);
        rustix::process::umask(old_umask);
        let ready = bound.and_then(|listener| {
            listener.set_nonblocking(true)?;
            if let Some(group) = group {
                std::os::unix::fs::chown(&path, None, Some(group))?;
                std::fs::set_permissions(&path, Permissions::from_mode(0o660))?;
            }
            SharedListener::new(listener.into())
        });
        match ready {
            Ok(listener) => {
                let listener_of = NorthboundListener { role: ListenerRole::Unix, address: None };
                self.0.push((listener_of, Socket::Local(listener)));
            }
            Err(error) => {
                let path = path.display();
                warn!(%path, %error, "could not listen at the Unix socket of the HTTP interface");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_default_address_is_left_out_and_taken_chosen_one_is_an_error() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        let mut listeners = Listeners::default();
        listeners.add(ListenerRole::Api, (taken, false), false).unwrap();
        assert_eq!(listeners.address(ListenerRole::Api), None);
        let error = listeners.add(ListenerRole::Api, (taken, true), false).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("--api") && text.contains(&taken.port().to_string()), "{text}");
        let error = listeners.add(ListenerRole::Apps, (taken, true), false).unwrap_err();
        assert!(error.to_string().contains("`app-routes` in [northbound]"), "{error}");
        drop(other);
        listeners.add(ListenerRole::Api, (taken, true), false).unwrap();
        assert_eq!(listeners.address(ListenerRole::Api), Some(taken));
    }

    #[test]
    fn unix_socket_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let mut listeners = Listeners::default();
        listeners.add_unix(dir.path(), None);
        let mode = std::fs::metadata(dir.path().join(API_SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        listeners.add_unix(dir.path(), None); // replaces the one of a killed instance
        assert_eq!(listeners.described().len(), 2);
    }
}
