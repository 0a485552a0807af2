//! The sockets, keys and tokens of the HTTP interface.
//!
//! The monitor binds the addresses once and passes the descriptors to each process ([`supervisor::interface`]).

pub(crate) mod listeners;
pub(crate) mod tokens;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

use control::northbound::{Credentials, ListenerRole, NorthboundRequest, NorthboundSettings};
use control::service::ServiceSandbox;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use supervisor::effects::{Attached, Fd};
use supervisor::interface::{Interface, local};
use tracing::warn;

use self::listeners::Listeners;
use self::tokens::Tokens;
use crate::error::StartError;
use crate::keys::{SealedKeys, UserKeys};
use crate::processes::duplicates;

pub(crate) use supervisor::program::NORTHBOUND as NAME;

/// The parameters of each start.
#[derive(Debug)]
pub(crate) struct NorthboundInput {
    /// Its listening sockets.
    pub(crate) listeners: Listeners,
    /// The operator's settings.
    pub(crate) settings: NorthboundSettings,
    /// By what users are recognised.
    pub(crate) tokens: Tokens,
    /// Where the routes of apps are served once an app has some, and whether the operator chose that.
    pub(crate) app_routes: (SocketAddr, bool),
    /// The keys for TLS, if it listens where other machines can reach it.
    pub(crate) keys: Option<UserKeys>,
}

/// A user in the list of revoked users.
#[derive(Debug, Default)]
pub(crate) struct Revocation {
    /// The directory of the list; `None` without keys.
    pub(crate) dir: Option<PathBuf>,
    /// Before the list was read again: the time before which refused certificates begin.
    pub(crate) earlier: Option<u64>,
    /// The same now.
    pub(crate) before: Option<u64>,
}

impl NorthboundInput {
    /// The address for a client on this machine, if it has one: one with plain HTTP, otherwise one with TLS.
    pub(crate) fn api(&self) -> Option<SocketAddr> {
        local(self.listeners.api())
    }

    /// Reads the list of revoked users again, which takes effect at once. Returns its entry of the user `name`.
    ///
    /// # Errors
    /// The list cannot be read, or is damaged. The earlier one stays in effect.
    pub(crate) fn revoke_user(&mut self, name: &str) -> Result<Revocation, StartError> {
        let Some(keys) = &mut self.keys else { return Ok(Revocation::default()) };
        let known =
            |keys: &UserKeys| keys.revoked.iter().find(|it| it.name == name).map(|it| it.before);
        let earlier = known(keys);
        keys.read_revoked()?;
        let (dir, before) = (keys.dir.clone(), known(keys));
        Ok(Revocation { dir: Some(dir), earlier, before })
    }

    /// By what users are recognised now.
    fn credentials(&self) -> Credentials {
        let revoked = self.keys.as_ref().map(|it| it.revoked.clone()).unwrap_or_default();
        Credentials { revoked, ..self.tokens.credentials().clone() }
    }
}

/// What each process of the HTTP interface receives, shared with the event loop, which adds and revokes tokens.
#[derive(Debug, Clone)]
pub(crate) struct SharedInput(Rc<RefCell<NorthboundInput>>);

impl From<NorthboundInput> for SharedInput {
    fn from(input: NorthboundInput) -> Self {
        Self(Rc::new(RefCell::new(input)))
    }
}

impl SharedInput {
    /// Does something with it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut NorthboundInput) -> T) -> T {
        act(&mut self.0.borrow_mut())
    }
}

impl Interface for SharedInput {
    fn start(
        &mut self,
        sandbox: Option<ServiceSandbox>,
    ) -> Result<(NorthboundRequest, Vec<Attached>), String> {
        let mut input = self.0.borrow_mut();
        input.listeners.renew();
        let NorthboundInput { listeners, settings, keys, .. } = &*input;
        let diag = diag_socket();
        let sealed = keys.iter().map(|it| &it.keys).flat_map(SealedKeys::fds);
        let passed = duplicates(listeners.fds()).and_then(|it| Ok((it, duplicates(sealed)?)));
        let (sockets, sealed) = passed.map_err(|error| error.to_string())?;
        let request = NorthboundRequest::Start {
            sandbox,
            listeners: listeners.described(),
            settings: settings.clone(),
            credentials: input.credentials(),
            peers: diag.is_some(),
            keys: keys.is_some(),
        };
        let diag = diag.map(|diag| Attached::Fd(Fd::new(diag)));
        let sockets = sockets.into_iter().map(Attached::Fd).chain([Attached::Requests]);
        let attached = sockets.chain(diag).chain(sealed.into_iter().map(Attached::Fd));
        Ok((request, attached.collect()))
    }

    fn credentials(&self) -> NorthboundRequest {
        NorthboundRequest::Credentials(self.0.borrow().credentials())
    }

    fn used(&mut self, token: &str) {
        self.0.borrow_mut().tokens.used(token);
    }

    fn listen_for_apps(&mut self) -> Option<(NorthboundRequest, Fd)> {
        let mut input = self.0.borrow_mut();
        let (address, _) = input.app_routes;
        if input.listeners.address(ListenerRole::Apps).is_some() {
            return None;
        }
        // While Rosemary runs, a taken address is no reason to end it, even if the operator chose it.
        input.listeners.add(ListenerRole::Apps, (address, false), false).ok()?;
        let (listener, fd) = input.listeners.find(ListenerRole::Apps)?;
        match fd.try_clone_to_owned() {
            Ok(fd) => Some((NorthboundRequest::Listen(listener), Fd::new(fd))),
            Err(error) => {
                input.listeners.remove(ListenerRole::Apps);
                let hint = "restart the app once fewer descriptors are open";
                warn!(%error, hint, "could not listen for requests to apps");
                None
            }
        }
    }

    fn app_routes(&self) -> Option<SocketAddr> {
        self.0.borrow().listeners.address(ListenerRole::Apps)
    }

    fn api(&self) -> Vec<SocketAddr> {
        self.0.borrow().listeners.api().collect()
    }
}

/// Makes a socket that reports the users of local TCP connections (`sock_diag(7)`). It belongs to the monitor's network, which the
/// process itself leaves.
fn diag_socket() -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(SOCK_DIAG));
    let hint = "clients on this machine without a token can only read";
    socket
        .inspect_err(|error| {
            warn!(%error, hint, "could not ask the system for the users of local connections");
        })
        .ok()
}
