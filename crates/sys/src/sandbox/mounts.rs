//! Finds the location of an open file in its file system, from `/proc/self/mountinfo` and `fdinfo`, proc(5).
//!
//! A directory may be reached by several mounts and paths. It has one location in its file system.

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
    /// The device number of the file system.
    device: Vec<u8>,
    /// The mounted directory of that file system.
    root: PathBuf,
    /// The path at which it is mounted.
    point: PathBuf,
}

/// A directory or file in a file system, independent of its mounts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FsLocation {
    device: Vec<u8>,
    path: PathBuf,
}

impl FsLocation {
    /// Whether one of the two contains the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let within = self.path.starts_with(&other.path) || other.path.starts_with(&self.path);
        self.device == other.device && within
    }
}

impl Mounts {
    /// Reads the current list.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(super) fn read(proc: &Proc) -> io::Result<Self> {
        Ok(Self::parse(&proc.read("mountinfo")?))
    }

    fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect())
    }

    /// The location of an open file. `None` where the system does not list its mount, for example after chroot(2) to a
    /// directory that is no mount point.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(super) fn location_of(
        &self,
        opened: &OwnedFd,
        proc: &Proc,
    ) -> io::Result<Option<FsLocation>> {
        let info = proc.read(&format!("fdinfo/{}", opened.as_raw_fd()))?;
        let mut lines = info.split(|byte| *byte == b'\n');
        let id = lines.find_map(|line| line.strip_prefix(b"mnt_id:"));
        let id = id.map(<[u8]>::trim_ascii);
        let mount = self.0.iter().find(|mount| Some(&*mount.id) == id);
        let path = proc.path_of(opened)?;
        Ok(mount.and_then(|mount| {
            let path = mount.root.join(path.strip_prefix(&mount.point).ok()?);
            Some(FsLocation { device: mount.device.clone(), path })
        }))
    }

    /// The locations of an open directory and of all mounts in it; `None` as for [`location_of`](Self::location_of).
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(super) fn locations_in(
        &self,
        dir: &OwnedFd,
        proc: &Proc,
    ) -> io::Result<Option<Vec<FsLocation>>> {
        let path = proc.path_of(dir)?;
        let within = self.0.iter().filter(|mount| mount.point.starts_with(&path));
        let within =
            within.map(|it| FsLocation { device: it.device.clone(), path: it.root.clone() });
        Ok(self.location_of(dir, proc)?.map(|own| within.chain([own]).collect()))
    }
}

impl Mount {
    /// Parses a line of the form `36 35 98:0 /mnt1 /mnt2 rw,noatime ...`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let (id, _parent, device) = (fields.next()?, fields.next()?, fields.next()?);
        let (root, point) = (path(fields.next()?), path(fields.next()?));
        Some(Self { id: id.into(), device: device.into(), root, point })
    }
}

/// Decodes a path of the list, in which spaces, newlines and backslashes are octal numbers.
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
    fn escaped_paths_of_mounts_are_decoded() {
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
    fn locations_overlap_if_one_contains_the_other() {
        let location =
            |device: &str, path: &str| FsLocation { device: device.into(), path: path.into() };
        let state = location("8:1", "/var/lib/rosemary");
        for path in ["/", "/var/lib", "/var/lib/rosemary", "/var/lib/rosemary/apps/x"] {
            assert!(state.overlaps(&location("8:1", path)), "{path}");
            assert!(!state.overlaps(&location("8:2", path)), "{path}");
        }
        assert!(!state.overlaps(&location("8:1", "/var/lib/rosemary2")));
    }

    #[test]
    fn open_files_are_found_in_their_file_system() {
        let proc = Proc::open();
        let mounts = Mounts::read(&proc).unwrap();
        let open = |path: &str| {
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
            let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
            mounts.location_of(&opened, &proc).unwrap().unwrap()
        };
        let (upper, lower) = (open("/usr"), open("/usr/lib"));
        assert!(upper.overlaps(&lower) && upper != lower);
        assert!(!lower.overlaps(&open("/proc")));
    }
}
