//! Confines the zone before it reads a byte of the app's object, and then checks the object.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use control::zone::{TMP, ZoneReply, ZoneSandbox};
use rustix::fs::Access;
use sys::channel::Channel;
use sys::digest::sha256;
use sys::sandbox::seccomp::Profile;
use sys::sandbox::{Confined, Sandbox, Tmp};
use tracing::warn;

use crate::run::{Code, ZoneError};

/// Confines this process according to `settings` and reports the result to the monitor. Copies `object` into the private root
/// directory, if there is one, and returns the path of the copy. The process keeps the other descriptors.
///
/// # Errors
/// [`ZoneError`]: no object must be used.
pub fn confine_for(
    monitor: &Channel,
    profile: Profile,
    (object, keep): (Option<BorrowedFd<'_>>, &[BorrowedFd<'_>]),
    settings: &ZoneSandbox,
) -> Result<Option<PathBuf>, ZoneError> {
    let confined = confine(monitor, profile, (object.as_slice(), keep), settings)
        .map_err(ZoneError::Confine)?;
    let gaps = confined.report.gaps_text().filter(|_| settings.full);
    let listener = confined.listener.as_ref().map(OwnedFd::as_fd);
    let reply = ZoneReply::Confined { report: confined.report };
    confined.outlet.send(&reply, listener.as_slice())?;
    drop(confined.outlet); // from here on this process can send no descriptor
    drop(confined.listener); // only the monitor may keep it: this process must not answer its own calls
    if let Some(gaps) = gaps {
        return Err(ZoneError::Gaps(gaps));
    }
    for path in &settings.read {
        if let Err(error) = rustix::fs::access(path, Access::READ_OK) {
            let path = path.display();
            warn!(%path, %error, "the app's user may not read a path that fs.read grants; let others read it (chmod o+r)");
        }
    }
    Ok(confined.objects.into_iter().next())
}

/// Returns the app's code after a check of its digest `sha256`: `copy` in the private root directory, which is read-only by now, or else the
/// sealed memory `object`. Nobody can change either between the check and the load.
///
/// # Errors
/// [`ZoneError`]: the object must not be used.
pub fn checked(object: OwnedFd, copy: Option<PathBuf>, sha256: &str) -> Result<Code, ZoneError> {
    if let Some(copy) = copy {
        drop(object);
        check(&File::open(&copy).map_err(ZoneError::Load)?, sha256)?;
        Ok(Code::Copy(copy))
    } else {
        let object = File::from(object);
        check(&object, sha256)?;
        Ok(Code::Sealed(object.into()))
    }
}

/// Confines this process as a zone with this list of system calls. The first descriptors are objects, the others are kept.
///
/// # Errors
/// The process could not give up its user or its privileges.
pub fn confine(
    monitor: &Channel,
    profile: Profile,
    (objects, keep): (&[BorrowedFd<'_>], &[BorrowedFd<'_>]),
    settings: &ZoneSandbox,
) -> io::Result<Confined> {
    // Without a cgroup no limit counts the files in /tmp, so they get a part of the app's memory.
    let size = settings.limits.memory.map_or(TMP.size, |memory| TMP.size.min(memory.data / 4));
    let sandbox = Sandbox {
        run_as: settings.run_as,
        objects,
        keep,
        env: &settings.env,
        read: &settings.read,
        never: &settings.never,
        tmp: Some(Tmp { size, ..TMP }),
        ..Sandbox::new(profile, monitor.as_fd(), settings.limits)
    };
    sandbox.confine()
}

/// Refuses an object with another digest.
pub(crate) fn check(object: &File, expected: &str) -> Result<(), ZoneError> {
    let found = sha256(object).map_err(ZoneError::Load)?;
    if found == expected {
        return Ok(());
    }
    Err(ZoneError::OtherObject { expected: expected.to_owned(), found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_with_a_flipped_bit_is_refused() {
        let object = |bytes: &[u8]| File::from(sys::shm::sealed_copy("object", bytes).unwrap());
        let digest = sha256(&object(b"object")).unwrap();
        check(&object(b"object"), &digest).unwrap();
        let error = check(&object(b"objecu"), &digest).unwrap_err();
        assert!(error.to_string().contains(&digest), "{error}");
    }
}
