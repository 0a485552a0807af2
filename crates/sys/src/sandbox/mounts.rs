//! Where in its file system something is, by whatever mount it was reached: what `/proc/self/mountinfo` and
//! `fdinfo` say of it, proc(5).
//!
//! A directory, or a part of it, may be mounted by other paths. In its file system it has one.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use super::namespaces::Proc;

/// The mounts of this process's namespace.
#[derive(Debug)]
pub(super) struct Mounts(Vec<Mount>);

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: Vec<u8>,
    /// The file system, by the number of its device.
    device: Vec<u8>,
    /// What of it is mounted.
    root: PathBuf,
    /// By which path.
    point: PathBuf,
}

/// A place in a file system.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: Vec<u8>,
    path: PathBuf,
}

impl Place {
    /// Whether one of them is in the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let within = self.path.starts_with(&other.path) || other.path.starts_with(&self.path);
        self.device == other.device && within
    }
}

impl Mounts {
    /// As they are now.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(super) fn read(proc: &Proc) -> io::Result<Self> {
        Ok(Self::parse(&proc.read("mountinfo")?))
    }

    fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect())
    }

    /// Where what was opened is; `None` where the system does not say, as of what is below the root directory of
    /// a process that was given another one (chroot(2)) and on no mount of its own.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(super) fn place_of(&self, opened: &OwnedFd, proc: &Proc) -> io::Result<Option<Place>> {
        let info = proc.read(&format!("fdinfo/{}", opened.as_raw_fd()))?;
        let mut lines = info.split(|byte| *byte == b'\n');
        let id = lines.find_map(|line| line.strip_prefix(b"mnt_id:"));
        let id = id.map(<[u8]>::trim_ascii);
        let mount = self.0.iter().find(|mount| Some(&*mount.id) == id);
        let path = proc.path_of(opened)?;
        Ok(mount.and_then(|mount| {
            let path = mount.root.join(path.strip_prefix(&mount.point).ok()?);
            Some(Place { device: mount.device.clone(), path })
        }))
    }

    /// Where the directory that was opened is, and all that is mounted in it; `None` as for
    /// [`place_of`](Self::place_of).
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(super) fn places_in(&self, dir: &OwnedFd, proc: &Proc) -> io::Result<Option<Vec<Place>>> {
        let path = proc.path_of(dir)?;
        let within = self.0.iter().filter(|mount| mount.point.starts_with(&path));
        let within = within.map(|it| Place { device: it.device.clone(), path: it.root.clone() });
        Ok(self.place_of(dir, proc)?.map(|own| within.chain([own]).collect()))
    }
}

impl Mount {
    /// From a line as `36 35 98:0 /mnt1 /mnt2 rw,noatime ...`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let (id, _parent, device) = (fields.next()?, fields.next()?, fields.next()?);
        let (root, point) = (path(fields.next()?), path(fields.next()?));
        Some(Self { id: id.into(), device: device.into(), root, point })
    }
}

/// A path as it stands there: spaces, ends of line and backslashes by their octal numbers.
fn path(mut text: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    while let [first, rest @ ..] = text {
        let number = (*first == b'\\').then_some(rest).and_then(|rest| rest.get(..3));
        let number = number
            .and_then(|digits| u8::from_str_radix(OsStr::from_bytes(digits).to_str()?, 8).ok());
        path.push(number.unwrap_or(*first));
        text = if number.is_some() { rest.get(3..).unwrap_or_default() } else { rest };
    }
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_what_is_strange_in_their_paths() {
        let text =
            b"36 35 98:0 /a\\040b /mnt\\134x\\ rw,noatime master:1 - ext3 /dev/root rw\nnonsense\n";
        let mount = Mount {
            id: b"36".into(),
            device: b"98:0".into(),
            root: "/a b".into(),
            point: "/mnt\\x\\".into(),
        };
        assert_eq!(Mounts::parse(text).0, [mount]);
    }

    #[test]
    fn places_overlap_in_one_file_system_where_one_is_in_the_other() {
        let place = |device: &str, path: &str| Place { device: device.into(), path: path.into() };
        let state = place("8:1", "/var/lib/rosemary");
        for path in ["/", "/var/lib", "/var/lib/rosemary", "/var/lib/rosemary/apps/x"] {
            assert!(state.overlaps(&place("8:1", path)), "{path}");
            assert!(!state.overlaps(&place("8:2", path)), "{path}");
        }
        assert!(!state.overlaps(&place("8:1", "/var/lib/rosemary2")));
    }

    #[test]
    fn what_was_opened_is_found_in_its_file_system() {
        let proc = Proc::open();
        let mounts = Mounts::read(&proc).unwrap();
        let open = |path: &str| {
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
            let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
            mounts.place_of(&opened, &proc).unwrap().unwrap()
        };
        let (upper, lower) = (open("/usr"), open("/usr/lib"));
        assert!(upper.overlaps(&lower) && upper != lower);
        assert!(!lower.overlaps(&open("/proc")));
    }
}
