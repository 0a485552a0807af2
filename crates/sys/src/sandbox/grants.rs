//! What a process is granted to read: opened once, looked at, and from then on meant by what was opened.
//!
//! A path may lead elsewhere by links, and elsewhere again a moment later. So what counts is what it led to
//! when it was opened, before anything was given up: that is looked at, shown inside by the path that was
//! granted (`root.rs`), and what the rules of Landlock are about (`landlock.rs`). Of what is mounted below it
//! nothing is shown.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, fstatfs};

use super::Sandbox;
use super::mounts::Mounts;
use super::namespaces::Proc;

/// The system's own state, whoever asks.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The file systems that have it, wherever they are mounted.
const FILE_SYSTEMS: [libc::c_long; 2] = [libc::PROC_SUPER_MAGIC, libc::SYSFS_MAGIC];

/// A path that is granted, and what it led to.
#[derive(Debug)]
pub(super) struct Grant<'a> {
    pub(super) path: &'a Path,
    pub(super) opened: OwnedFd,
    pub(super) is_dir: bool,
}

/// Opens what is granted.
///
/// # Errors
/// One of them is not there, or is shown to nobody; the text says which, and what to do.
pub(super) fn open<'a>(sandbox: &Sandbox<'a>, proc: &Proc) -> io::Result<Vec<Grant<'a>>> {
    if sandbox.read.is_empty() {
        return Ok(Vec::new());
    }
    let mounts = Mounts::read(proc)?;
    let one = |path: &'a PathBuf| {
        open_one(path, sandbox.never, proc, &mounts).map_err(|error| {
            let text = format!("{} cannot be shown to it: {error}", path.display());
            io::Error::new(error.kind(), text)
        })
    };
    sandbox.read.iter().map(one).collect()
}

fn open_one<'a>(
    path: &'a Path,
    never: &[PathBuf],
    proc: &Proc,
    mounts: &Mounts,
) -> io::Result<Grant<'a>> {
    let look_at =
        |path: &Path| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let opened = look_at(path).map_err(|error| with_hint(error.into()))?;
    let real = proc.path_of(&opened)?;
    if let Some(why) = reason_not_grantable(&real, never) {
        return Err(io::Error::other(why));
    }
    let place = mounts.place_of(&opened, proc)?;
    for dir in never {
        // One that is not there may be made later.
        let own = look_at(dir).ok();
        let own = own.map(|own| mounts.places_in(&own, proc)).transpose()?.flatten();
        let is_same = match (&place, own) {
            (Some(place), Some(own)) => own.iter().any(|own| own.overlaps(place)),
            _ => is_on_the_way(&real, dir),
        };
        if is_same {
            return Err(io::Error::other(rosemarys_own(dir)));
        }
    }
    if FILE_SYSTEMS.contains(&fstatfs(&opened)?.f_type) {
        return Err(io::Error::other("it is the system's own state; grant what is elsewhere"));
    }
    let kind = rustix::fs::FileType::from_raw_mode(fstat(&opened)?.st_mode);
    if !kind.is_dir() && !kind.is_file() {
        return Err(io::Error::other("it is neither a file nor a directory"));
    }
    Ok(Grant { path, opened, is_dir: kind.is_dir() })
}

/// Landlock alone would also show what is mounted below a directory.
///
/// # Errors
/// One of them is a directory.
pub(super) fn without_root(grants: &[Grant<'_>], why: &str) -> io::Result<()> {
    let Some(grant) = grants.iter().find(|grant| grant.is_dir) else { return Ok(()) };
    Err(io::Error::other(format!(
        "{} cannot be shown to it: there is no root directory of its own ({why}), so what is mounted \
         below would be shown too; grant the files in it one by one, or see rosemary doctor",
        grant.path.display()
    )))
}

/// Why what is at `real`, a path without links, is shown to nobody, if it is not. `own` are directories of
/// Rosemary's, in which there are keys and sockets.
pub fn reason_not_grantable(real: &Path, own: &[PathBuf]) -> Option<String> {
    let covers = |dir: &Path| real.starts_with(dir) || dir.starts_with(real);
    if SYSTEM.iter().any(|dir| covers(Path::new(dir))) {
        let real = real.display();
        return Some(format!("it is {real}, the system's own state; grant what is elsewhere"));
    }
    own.iter().find(|dir| covers(dir)).map(|dir| rosemarys_own(dir))
}

fn rosemarys_own(dir: &Path) -> String {
    format!("it would show {}, which is Rosemary's own; grant what is elsewhere", dir.display())
}

/// Whether one of them is above the other, as far as files are known by their numbers on the way there: what can
/// be said where mounts are not listed, and of what is not there.
fn is_on_the_way(real: &Path, dir: &Path) -> bool {
    let id = |path: &Path| rustix::fs::stat(path).map(|it| (it.st_dev, it.st_ino)).ok();
    let is_above = |upper: &Path, lower: &Path| {
        let upper = id(upper); // none: it is not there
        upper.is_some() && lower.ancestors().any(|lower| id(lower) == upper)
    };
    is_above(dir, real) || is_above(real, dir)
}

fn with_hint(error: io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "put it there, or take it out of the app's capabilities",
        io::ErrorKind::PermissionDenied => {
            "let the user who starts Rosemary search the directories above it (chmod o+x)"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_the_system_and_what_is_rosemarys_own_is_shown_to_nobody() {
        let own = [PathBuf::from("/etc/rosemary/pki"), PathBuf::from("/var/lib/rosemary")];
        let why = |path: &str| reason_not_grantable(Path::new(path), &own);
        for path in ["/proc", "/proc/1/environ", "/sys/kernel", "/dev/mem", "/"] {
            assert!(why(path).is_some_and(|why| why.contains("system's own")), "{path}");
        }
        for path in ["/etc", "/etc/rosemary/pki/ca-key.pem", "/var/lib/rosemary"] {
            assert!(why(path).is_some_and(|why| why.contains("Rosemary's own")), "{path}");
        }
        for path in ["/etc/hosts", "/process", "/srv/dev", "/var/lib/rosemary2"] {
            assert_eq!(why(path), None);
        }
    }
}
