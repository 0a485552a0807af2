//! Confine, verify, answer.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use package::{MAX_PACKAGE, MAX_SIGNATURE};
use sys::channel::{Channel, ChannelError};
use sys::sandbox::seccomp::Profile;
use sys::sandbox::{Limits, Memory, Sandbox};
use sys::shm::read_sealed;
use thiserror::Error;

use crate::control::{Answer, Request};
use crate::verify::verify;

/// What setrlimit(2) is told: it writes no files, and has room for the longest package there can be.
const LIMITS: Limits = Limits {
    descriptors: 16,
    threads: 1,
    file_size: 0,
    memory: Some(Memory { data: 1 << 30, address_space: 2 << 30 }),
};

/// Why it could not do what it is for.
#[derive(Debug, Error)]
pub enum SecurityError {
    /// Who asks is gone, or says nonsense.
    #[error("who asks: {0}; rosemary-security is started by the monitor and by `rosemary app`")]
    Channel(#[from] ChannelError),
}

/// Takes the request, confines this process, and answers.
///
/// # Errors
/// [`SecurityError`]; everything else is an answer.
pub fn run(asker: &Channel) -> Result<(), SecurityError> {
    let (request, fds) = asker.wait()?;
    let answer = look(asker, &request, fds)
        .unwrap_or_else(|error| Answer::Failed { why: error.to_string() });
    Ok(asker.send(&answer, &[])?)
}

fn look(asker: &Channel, request: &Request, fds: Vec<OwnedFd>) -> io::Result<Answer> {
    let [package, signature] = <[OwnedFd; 2]>::try_from(fds)
        .map_err(|_| io::Error::other("a request without a package and its signature"))?;
    let keep = [package.as_fd(), signature.as_fd()];
    let sandbox = Sandbox::new(Profile::Security, asker.as_fd(), LIMITS);
    let sandbox = Sandbox { run_as: request.run_as, keep: &keep, ..sandbox };
    drop(sandbox.confine()?); // what it tries beyond is refused, and nobody has to be told
    let keys = request.keys.iter().map(|key| key.parse()).collect::<Result<Vec<_>, _>>();
    let keys = keys.map_err(io::Error::other)?;
    let signature = read_sealed(signature, MAX_SIGNATURE)?;
    let package = read_sealed(package, MAX_PACKAGE)?;
    Ok(match verify(&package, &signature, &keys, request.installed) {
        Ok(signed) => Answer::Signed(signed),
        Err(doubt) => Answer::Refused(doubt),
    })
}
