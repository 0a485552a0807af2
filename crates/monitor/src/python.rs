//! Finds the interpreter for apps in Python, and prepares their zones.
//!
//! `make python` makes a virtual environment with the SDK and notes in `rosemary-python.json` how to start it. The monitor
//! reads this note and no other file of it, and executes nothing to learn more.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use config::{SERVE_HTTP, ServiceRight};
use control::zone::{PythonApp, PythonForm};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use supervisor::spec::AppSpec;
pub use supervisor::spec::Interpreter;

use crate::error::StartError;
use crate::installation;
use crate::listen::{self, BindError, Listener};
use crate::object::Object;
use crate::processes::duplicates;
use supervisor::app::Listeners;
use supervisor::effects::Fd;
use supervisor::program::Executable;

/// The name of the note in the virtual environment.
const NOTE: &str = "rosemary-python.json";

/// The most bytes of the note.
const MAX_NOTE: u64 = 64 * 1024;

/// Finds the interpreter in the virtual environment of the running program's installation.
///
/// # Errors
/// [`StartError::NoPython`].
pub fn interpreter() -> Result<Interpreter, StartError> {
    let looked = installation::python_dirs()?;
    let notes: Vec<PathBuf> = looked.iter().map(|dir| dir.join(NOTE)).collect();
    let note = notes.iter().find(|note| note.is_file());
    let note = note.ok_or_else(|| StartError::NoPython { looked: looked.clone() })?;
    read(note).map_err(|source| StartError::Path {
        what: "read",
        path: note.clone(),
        hint: "make it again with `make python`",
        source,
    })
}

fn read(note: &Path) -> io::Result<Interpreter> {
    let note: Interpreter = serde_json::from_slice(&installation::read_file(note, MAX_NOTE)?)?;
    let relative = [&note.program, &note.boot].into_iter().chain(&note.read);
    if let Some(path) = relative.into_iter().find(|path| !path.is_absolute()) {
        return Err(io::Error::other(format!("{} is not absolute", path.display())));
    }
    Ok(note)
}

/// Whether a directory of the interpreter's packages contains this file.
pub fn has_file(interpreter: &Interpreter, file: &Path) -> bool {
    interpreter.dirs().any(|dir| dir.join(file).is_file())
}

/// The command that starts a zone: isolated from the user's environment (`-I`), without `site` (`-S`).
pub(crate) fn command(interpreter: &Interpreter) -> Executable {
    let args = ["-I", "-S", "-B", "-X", "utf8"].map(Into::into).into_iter();
    Executable {
        path: interpreter.program.clone(),
        args: args.chain([interpreter.boot.clone().into()]).collect(),
    }
}

/// An app in Python: how to start it, and its sockets.
#[derive(Debug)]
pub(crate) struct PythonZone {
    pub(crate) app: PythonApp,
    sockets: Vec<Socket>,
}

impl PythonZone {
    /// Describes the zone of an app with this object; `None` for an app that is not in Python.
    pub(crate) fn of(spec: &AppSpec, object: &Object) -> Option<Self> {
        let python = spec.keys.python.as_ref()?;
        let form = match object {
            Object::File(_) => PythonForm::Source,
            Object::Module { .. } => PythonForm::Module,
            Object::Packaged { .. } | Object::Unusable { .. } => PythonForm::Archive,
        };
        let capabilities = spec.policy.capabilities.iter();
        let capabilities = capabilities.map(|grant| grant.capability.to_string());
        let serves_http = spec.keys.service_rights.contains(&ServiceRight::ServeHttp);
        let serve = serves_http.then(|| SERVE_HTTP.to_owned());
        let app = PythonApp {
            framework: python.framework,
            form,
            object: object.path().display().to_string(),
            path: python.path.clone(),
            options: python.options.clone(),
            capabilities: capabilities.chain(serve).collect(),
            listeners: python.listen.clone(),
        };
        Some(Self { app, sockets: Vec::new() })
    }

    /// Gives the app sockets that are not bound instead of its own, for a trial: a running instance, or another program, may
    /// have the addresses. No client reaches them, and a zone can neither bind nor connect a socket.
    ///
    /// # Errors
    /// The system makes no socket.
    pub(crate) fn listen_nowhere(&mut self) -> io::Result<()> {
        let unbound = self.app.listeners.iter().map(|(_, address)| {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let flags = SocketFlags::CLOEXEC;
            Ok(Socket::Unbound(socket_with(family, SocketType::STREAM, flags, None)?))
        });
        self.sockets = unbound.collect::<io::Result<_>>()?;
        Ok(())
    }

    /// The sockets, in the order of the app's `listeners`.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(Socket::as_fd)
    }
}

impl Listeners for PythonZone {
    fn listen(&mut self) -> Result<Vec<Fd>, String> {
        let bound = self.app.listeners.iter().map(|(name, address)| {
            shared(*address).map_err(|BindError { hint, source }| {
                format!("could not listen at {address} for {name}: {source}; {hint}, or name another address in `listen`")
            })
        });
        self.sockets = bound.map(|it| it.map(Socket::Bound)).collect::<Result<_, _>>()?;
        duplicates(self.sockets())
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
    use std::time::Duration;

    use config::{AppConfig, RestartPolicy};
    use control::policy::Policy;
    use control::service::ClientRights;
    use control::zone::Framework;
    use supervisor::spec::Origin;

    use super::*;

    /// The zone of an app of Ryu that listens at these addresses.
    fn zone(listen: Vec<(String, SocketAddr)>) -> PythonZone {
        let mut keys = AppConfig::in_python("rest", Framework::Ryu);
        keys.python.as_mut().unwrap().listen = listen;
        let spec = AppSpec {
            keys,
            policy: Policy::default(),
            origin: Origin::Unsigned,
            object: "ryu.app.rest".into(),
            rights: ClientRights::default(),
            hang: Duration::ZERO,
            restart: RestartPolicy::default(),
            interpreter: None,
        };
        PythonZone::of(&spec, &Object::module("ryu.app.rest").unwrap()).unwrap()
    }

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
        let mut zone = zone(vec![("wsapi".into(), taken)]);
        let why = zone.listen().unwrap_err();
        assert!(why.contains("for wsapi") && why.contains("`ss -ltnp`"), "{why}");
        drop(other);
        zone.listen().unwrap();
    }

    #[test]
    fn sockets_of_a_trial_leave_the_addresses_free() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let other = std::net::TcpListener::bind(taken).unwrap();
        let more = "[::1]:1".parse().unwrap();
        let mut zone = zone(vec![("wsapi".into(), taken), ("more".into(), more)]);
        zone.listen_nowhere().unwrap();
        let bound: Vec<_> =
            zone.sockets().map(|fd| rustix::net::getsockname(fd).unwrap()).collect();
        let nowhere: [SocketAddr; 2] = ["0.0.0.0:0".parse().unwrap(), "[::]:0".parse().unwrap()];
        assert_eq!(bound.len(), 2);
        for (bound, nowhere) in bound.into_iter().zip(nowhere) {
            assert_eq!(SocketAddr::try_from(bound).unwrap(), nowhere);
        }
        drop(other);
    }

    #[test]
    fn note_with_relative_paths_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NOTE);
        std::fs::write(&path, r#"{"interpreter": "/p", "boot": "/b", "read": ["/r"]}"#).unwrap();
        let interpreter = read(&path).unwrap();
        assert!(!interpreter.ryu);
        let command = command(&interpreter);
        assert_eq!((command.path, command.args.len()), ("/p".into(), 6));
        std::fs::write(&path, r#"{"interpreter": "/p", "boot": "b", "read": []}"#).unwrap();
        assert!(read(&path).is_err());
    }
}
