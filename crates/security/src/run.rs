//! Confines the process, handles its one request and replies.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, SystemTime};

use control::security::{KeyPurpose, SecurityReply, SecurityRequest};
use keys::Keys;
use package::{MAX_PACKAGE, MAX_SIGNATURE};
use sys::channel::{Channel, ChannelError};
use sys::sandbox::seccomp::Profile;
use sys::sandbox::{Limits, Memory, Sandbox};
use sys::shm::read_sealed;
use thiserror::Error;

use crate::backtrace::{CrashedThread, backtrace};
use crate::package_check::{verify, verify_installed};

/// Limits for setrlimit(2): it writes no files, and has memory for the longest package and descriptors for all files of
/// a backtrace.
const LIMITS: Limits = Limits {
    descriptors: 128,
    threads: 1,
    file_size: 0,
    memory: Some(Memory { data: 1 << 30, address_space: 2 << 30 }),
};

/// The process could not reply.
#[derive(Debug, Error)]
pub enum SecurityError {
    /// The client has gone, or sent a message that is not a request.
    #[error("the client: {0}; rosemary-security is started by the monitor and by `rosemary app`")]
    Channel(#[from] ChannelError),
}

/// Receives the request, confines this process, and replies.
///
/// # Errors
/// [`SecurityError`]. Every other failure is a reply.
pub fn run(client: &Channel) -> Result<(), SecurityError> {
    let (request, fds) = client.wait()?;
    let reply = confine_and_handle(client, request, fds)
        .unwrap_or_else(|error| SecurityReply::Failed { why: error.to_string() });
    Ok(client.send(&reply, &[])?)
}

fn confine_and_handle(
    client: &Channel,
    request: SecurityRequest,
    fds: Vec<OwnedFd>,
) -> io::Result<SecurityReply> {
    let (SecurityRequest::InspectPackage { run_as, .. }
    | SecurityRequest::CheckKeys { run_as, .. }
    | SecurityRequest::Unwind { run_as, .. }) = request;
    let keep: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    let sandbox = Sandbox::new(Profile::Security, client.as_fd(), LIMITS);
    let sandbox = Sandbox { run_as, keep: &keep, ..sandbox };
    // Without the listener, system calls outside the profile fail and are not reported: one process
    // handles one request, so there is nobody to watch it.
    drop(sandbox.confine()?);
    match request {
        SecurityRequest::InspectPackage { keys, installed, .. } => {
            inspect_package(fds, &keys, installed)
        }
        SecurityRequest::CheckKeys { purpose, now, .. } => check_keys(fds, purpose, now),
        SecurityRequest::Unwind { registers, stack, modules, .. } => {
            let frames = backtrace(&CrashedThread { registers, stack, modules }, fds);
            Ok(SecurityReply::Backtrace { frames })
        }
    }
}

fn inspect_package(
    fds: Vec<OwnedFd>,
    keys: &[String],
    installed: bool,
) -> io::Result<SecurityReply> {
    let [package, signature] = <[OwnedFd; 2]>::try_from(fds)
        .map_err(|_| io::Error::other("a request without a package and its signature"))?;
    let keys = keys.iter().map(|key| key.parse()).collect::<Result<Vec<_>, _>>();
    let keys = keys.map_err(io::Error::other)?;
    let signature = read_sealed(signature, MAX_SIGNATURE)?;
    let package = read_sealed(package, MAX_PACKAGE)?;
    let verify = if installed { verify_installed } else { verify };
    Ok(match verify(&package, &signature, &keys) {
        Ok(signed) => SecurityReply::Signed(signed),
        Err(fault) => SecurityReply::Refused { why: fault.to_string() },
    })
}

fn check_keys(fds: Vec<OwnedFd>, purpose: KeyPurpose, now: Duration) -> io::Result<SecurityReply> {
    let fds = <[OwnedFd; Keys::FILES]>::try_from(fds)
        .map_err(|_| io::Error::other("a request without the files of the keys"))?;
    let keys = Keys::from_fds(fds)?;
    Ok(match keys.server_config(purpose) {
        Ok(_) => SecurityReply::KeysUsable { warning: keys.warning(SystemTime::UNIX_EPOCH + now) },
        Err(error) => SecurityReply::KeysUnusable { file: error.file, why: error.why },
    })
}
