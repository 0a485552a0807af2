//! Opens and checks the files and directories that a process is granted to read.
//!
//! A path may contain links, and what it leads to may change at any time. So each path is opened once, before the
//! process gives anything up. The checks, the mount inside (`root.rs`) and the Landlock rule (`landlock.rs`) all use
//! the opened file. Mounts below a granted directory stay hidden.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, fstatfs};

use super::Sandbox;
use super::mounts::Mounts;
use super::namespaces::Proc;

/// Directories with the system's own state, which stay hidden from every process.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// File systems with the system's own state, which stay hidden wherever they are mounted.
const FILE_SYSTEMS: [libc::c_long; 2] = [libc::PROC_SUPER_MAGIC, libc::SYSFS_MAGIC];

/// A granted path and the file or directory that it led to.
#[derive(Debug)]
pub(super) struct Grant<'a> {
    pub(super) path: &'a Path,
    pub(super) opened: OwnedFd,
    pub(super) is_dir: bool,
}

/// Opens the granted paths.
///
/// # Errors
/// A path does not exist or must stay hidden. The text names it and says what to do.
pub(super) fn open<'a>(sandbox: &Sandbox<'a>, proc: &Proc) -> io::Result<Vec<Grant<'a>>> {
    if sandbox.read.is_empty() {
        return Ok(Vec::new());
    }
    let mounts = Mounts::read(proc)?;
    let one = |path: &'a PathBuf| {
        open_one(path, sandbox.never, proc, &mounts).map_err(|error| {
            let text = format!("{} cannot be shown to the app: {error}", path.display());
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
    let location = mounts.location_of(&opened, proc)?;
    for dir in never {
        // `None`: the directory does not exist now. It may later, so it counts by its path.
        let own = look_at(dir).ok();
        let own = own.map(|own| mounts.locations_in(&own, proc)).transpose()?.flatten();
        let is_same = match (&location, own) {
            (Some(location), Some(own)) => own.iter().any(|own| own.overlaps(location)),
            _ => is_on_the_way(&real, dir),
        };
        if is_same {
            return Err(io::Error::other(rosemarys_own(dir)));
        }
    }
    if FILE_SYSTEMS.contains(&fstatfs(&opened)?.f_type) {
        return Err(io::Error::other("it is the system's own state; grant another path"));
    }
    let kind = rustix::fs::FileType::from_raw_mode(fstat(&opened)?.st_mode);
    if !kind.is_dir() && !kind.is_file() {
        return Err(io::Error::other("it is neither a file nor a directory"));
    }
    Ok(Grant { path, opened, is_dir: kind.is_dir() })
}

/// Refuses granted directories where there is no private root directory: Landlock alone would also show the mounts
/// below them.
///
/// # Errors
/// A granted path is a directory.
pub(super) fn without_root(grants: &[Grant<'_>], why: &str) -> io::Result<()> {
    let Some(grant) = grants.iter().find(|grant| grant.is_dir) else { return Ok(()) };
    Err(io::Error::other(format!(
        "{} cannot be shown to the app: it has no root directory of its own ({why}), so mounts below \
         would be shown too; grant the files in it one by one, or see rosemary doctor",
        grant.path.display()
    )))
}

/// Why the path `real`, which has no links, must stay hidden; `None` if it may be granted. `own` are directories of
/// Rosemary with keys and sockets.
pub fn reason_not_grantable(real: &Path, own: &[PathBuf]) -> Option<String> {
    let covers = |dir: &Path| real.starts_with(dir) || dir.starts_with(real);
    if SYSTEM.iter().any(|dir| covers(Path::new(dir))) {
        let real = real.display();
        return Some(format!("it is {real}, the system's own state; grant another path"));
    }
    own.iter().find(|dir| covers(dir)).map(|dir| rosemarys_own(dir))
}

fn rosemarys_own(dir: &Path) -> String {
    format!("it would show {}, which is Rosemary's own; grant another path", dir.display())
}

/// Whether one of the paths is above the other, by the inode numbers of their parent directories. This is less exact
/// than [`Mounts`], and works for paths that do not exist and mounts that are not listed.
fn is_on_the_way(real: &Path, dir: &Path) -> bool {
    let id = |path: &Path| rustix::fs::stat(path).map(|it| (it.st_dev, it.st_ino)).ok();
    let is_above = |upper: &Path, lower: &Path| {
        let upper = id(upper); // `None`: it does not exist
        upper.is_some() && lower.ancestors().any(|lower| id(lower) == upper)
    };
    is_above(dir, real) || is_above(real, dir)
}

fn with_hint(error: io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "create it, or remove it from the app's capabilities",
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
    fn paths_of_the_system_and_of_rosemary_stay_hidden() {
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
