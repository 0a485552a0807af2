//! Receives the app from the monitor, and confines the process before anything reads the app's code.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use control::hosting::Hosting;
use control::zone::{GuestSettings, ZoneReply, ZoneRequest, ZoneSandbox};
use sdk::abi::MAX_CONFIG;
use sdk::services::Service;
use sdk::services::host::Services;
use sys::channel::Channel;
use sys::object::Object;
use sys::sandbox::seccomp::Profile;

use super::ZoneError;
use crate::host::ZoneHost;
use crate::sandbox;
use crate::server::Server;

/// A confined process with its app, whose code nothing has read yet.
#[derive(Debug)]
pub struct Confined {
    /// Carries out the app's calls.
    pub host: ZoneHost,
    /// The app's code.
    pub code: Code,
    /// The SHA-256 that the monitor named for the code.
    pub sha256: String,
    /// How to run the code.
    pub guest: GuestParts,
}

/// A program that runs apps in zones, by its own statement.
#[derive(Debug)]
pub struct ZoneProgram {
    /// The system calls that it needs.
    pub profile: Profile,
    /// The hostings whose apps it can run.
    pub hosts: &'static [Hosting],
    /// Whether its apps have descriptors for which the event loop waits.
    pub has_watched: bool,
    /// Whether it maps the code from the sealed memory that the monitor sent, instead of a copy in the private root directory.
    pub maps_sealed: bool,
}

/// The app's code, with the digest that the monitor named.
#[derive(Debug)]
pub enum Code {
    /// A read-only file in the private root directory.
    Copy(PathBuf),
    /// Sealed memory.
    Sealed(OwnedFd),
}

/// The settings of an app and its descriptors.
#[derive(Debug)]
pub struct GuestParts {
    /// The settings.
    pub settings: GuestSettings,
    /// The listening sockets of `settings.listeners`, in that order.
    pub listeners: Vec<OwnedFd>,
    /// The environment variables that the operator grants.
    pub env: Vec<(String, String)>,
}

impl Code {
    /// Loads a shared object.
    ///
    /// # Errors
    /// It is none for this machine, or a library is missing.
    pub fn load(self) -> io::Result<Object> {
        match self {
            Self::Copy(path) => Object::load_copy(&path),
            Self::Sealed(fd) => Object::load(fd),
        }
    }

    /// Reads the whole code, at most `most` bytes.
    ///
    /// # Errors
    /// It is longer, or cannot be read.
    pub fn read(&self, most: usize) -> io::Result<Vec<u8>> {
        let fd = match self {
            Self::Copy(path) => File::open(path)?.into(),
            Self::Sealed(fd) => fd.try_clone()?,
        };
        sys::shm::read_sealed(fd, most)
    }
}

/// Receives the first request and confines this process, which runs `program`. Returns `None` if the monitor requested a probe of
/// the sandbox.
///
/// # Errors
/// [`ZoneError`]: the process must end.
pub fn confine(monitor: &Channel, program: &ZoneProgram) -> Result<Option<Confined>, ZoneError> {
    let profile = program.profile;
    let (request, fds) = monitor.wait()?;
    if let ZoneRequest::Try { sandbox } = request {
        let objects: Vec<_> = fds.iter().map(OwnedFd::as_fd).collect();
        let confined = sandbox::confine(monitor, profile, (&objects, &[]), &sandbox)
            .map_err(ZoneError::Confine)?;
        monitor.send(&ZoneReply::Confined { report: confined.report }, &[])?;
        return Ok(None);
    }
    let ZoneRequest::Load { name, sandbox, sha256, numbers, services, log_level, provides, guest } =
        request
    else {
        return Err(ZoneError::OutOfOrder("something else than Load first"));
    };
    if !program.hosts.contains(&guest.host) {
        return Err(ZoneError::OtherHost(guest.host.name));
    }
    let mut fds = fds.into_iter();
    let (Some(object), Some(config)) = (fds.next(), fds.next()) else {
        return Err(ZoneError::OutOfOrder("Load without an object and a configuration"));
    };
    // Before the confinement, which refuses to seal memory.
    let server = provides.as_deref().and_then(Service::named).map(|service| {
        let memory =
            fds.next().ok_or(ZoneError::OutOfOrder("Load without the memory of a table"))?;
        Server::new(service, &memory).map_err(ZoneError::Table)
    });
    let server = server.transpose()?;
    let config = sys::shm::read_sealed(config, MAX_CONFIG).map_err(ZoneError::Config)?;
    let mut host = ZoneHost::new(name, numbers, config, Services::from_names(&services));
    host.log_level = log_level;
    host.server = server.unwrap_or_default();
    let guest = parts(*guest, fds.collect(), sandbox.as_ref())?;
    if program.has_watched {
        host.watched = crate::watched::Watched::with_bell().map_err(ZoneError::Stdout)?;
    }
    let code = match &sandbox {
        Some(sandbox) => {
            let mut keep: Vec<BorrowedFd<'_>> = host.watched.own_fds().collect();
            keep.extend(guest.listeners.iter().map(OwnedFd::as_fd));
            if program.maps_sealed {
                keep.push(object.as_fd());
            }
            let copied = (!program.maps_sealed).then(|| object.as_fd());
            let copy = sandbox::confine_for(monitor, profile, (copied, &keep), sandbox)?;
            sandbox::checked(object, copy, &sha256)?
        }
        None => Code::Sealed(object),
    };
    Ok(Some(Confined { host, code, sha256, guest }))
}

fn parts(
    settings: GuestSettings,
    listeners: Vec<OwnedFd>,
    sandbox: Option<&ZoneSandbox>,
) -> Result<GuestParts, ZoneError> {
    if listeners.len() != settings.listeners.len() {
        return Err(ZoneError::OutOfOrder("Load without its listening sockets"));
    }
    let env = sandbox.map(|it| it.env.clone().into_iter().collect()).unwrap_or_default();
    Ok(GuestParts { settings, listeners, env })
}
