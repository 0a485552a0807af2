//! Builds the private root directory of a confined process, with the few files of the machine that it needs.
//!
//! ```text
//! /            tmpfs, read-only, only directories
//! /usr/lib     the machine's, read-only; /lib, /lib64, ... are links or directories as on the machine
//! /etc         only ld.so.cache
//! /app         tmpfs with copies of the objects; read-only once they are in it
//! /tmp         tmpfs, bounded in bytes and entries, without execution; the working directory. It has places for grants below
//! /...         the paths that fs.read grants, read-only, without the mounts below them
//! ```
//!
//! There is no /proc, /dev, /sys, /run or /home. No mount honours set-user-id bits or device files. The process loads
//! an object from its copy, so nobody can change it between the check of its digest and its use.
//!
//! The mount calls of Linux 5.2 and `mount_setattr(2)` of 5.12 set the attributes of a mount before it becomes
//! visible.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};

use super::grants::Grant;
use super::{OBJECTS, Sandbox, Tmp};

/// Where the dynamic loader looks for libraries.
const LIBRARIES: [&str; 8] =
    ["usr/lib", "usr/lib32", "usr/lib64", "usr/libx32", "lib", "lib32", "lib64", "libx32"];

/// The dynamic loader's index of libraries.
const CACHE: &str = "etc/ld.so.cache";

/// Why the process gets no private root directory.
#[derive(Debug)]
pub(super) enum Failure {
    /// The system does not support it; the process still has the machine's root directory.
    Missing(String),
    /// A granted path cannot be shown.
    Granted(io::Error),
}

/// The content of a private root directory.
#[derive(Debug)]
pub(super) struct Root<'a> {
    objects: &'a [BorrowedFd<'a>],
    grants: &'a [Grant<'a>],
    tmp: Option<Tmp>,
    owner: u32,
}

impl<'a> Root<'a> {
    pub(super) fn of(sandbox: &Sandbox<'a>, grants: &'a [Grant<'a>]) -> Self {
        let owner = sandbox.run_as.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        Self { objects: sandbox.objects, grants, tmp: sandbox.tmp, owner }
    }

    /// Builds the directory and makes it the root, with no way back. Returns the paths of the objects inside.
    pub(super) fn enter(&self) -> Result<Vec<PathBuf>, Failure> {
        let missing = |what: &'static str| {
            move |error: io::Error| Failure::Missing(format!("{what}: {error}"))
        };
        // Otherwise these mounts would appear outside if `/` is a shared mount.
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .map_err(|error| missing("making the mounts private")(error.into()))?;
        let root = lay_over().map_err(missing("a root directory in memory"))?;
        // The new root covers the machine's, and `/` still leads to the machine's until `go_in`.
        let filled = self.fill(&root).and_then(|objects| {
            go_in(&root).map_err(missing("changing the root directory"))?;
            Ok(objects)
        });
        filled.inspect_err(|_| {
            let _ = rustix::process::fchdir(&root);
            let _ = unmount(".", UnmountFlags::DETACH);
            let _ = rustix::process::chdir("/");
        })
    }

    fn fill(&self, root: &OwnedFd) -> Result<Vec<PathBuf>, Failure> {
        let missing = |path: &str, error: io::Error| Failure::Missing(format!("/{path}: {error}"));
        for path in LIBRARIES.into_iter().chain([CACHE]) {
            show_library(root, Path::new(path)).map_err(|error| missing(path, error))?;
        }
        // Before the grants: Rosemary itself may be installed below /tmp.
        if let Some(tmp) = self.tmp {
            self.make_tmp(root, tmp).map_err(|error| missing("tmp", error))?;
        }
        let mut grants: Vec<_> = self.grants.iter().collect();
        grants.sort_by_key(|grant| grant.path); // a directory would cover paths below it
        for grant in grants {
            show_granted(root, grant).map_err(|error| {
                let text = format!("{} cannot be shown to the app: {error}", grant.path.display());
                Failure::Granted(io::Error::new(error.kind(), text))
            })?;
        }
        let objects = self.copy_objects(root).map_err(|error| missing("app", error))?;
        close(root, false).map_err(|error| missing("", error))?;
        Ok(objects)
    }

    fn make_tmp(&self, root: &OwnedFd, tmp: Tmp) -> io::Result<()> {
        let owner = self.owner.to_string();
        // One for the root directory of the mount, and those of the places of grants below.
        let below = self.grants.iter().filter_map(|grant| grant.path.strip_prefix("/tmp").ok());
        let own = 1 + below.map(|path| path.components().count() as u64).sum::<u64>();
        let options = [
            ("size", tmp.size.to_string()),
            ("nr_inodes", (tmp.inodes + own).to_string()),
            ("uid", owner.clone()),
            ("gid", owner),
            mode("0700"),
        ];
        let place = make_place(root, Path::new("tmp"), true)?;
        attach(&tmpfs(&options, true)?, &place)
    }

    fn copy_objects(&self, root: &OwnedFd) -> io::Result<Vec<PathBuf>> {
        if self.objects.is_empty() {
            return Ok(Vec::new());
        }
        let dir = OBJECTS.trim_start_matches('/');
        let place = make_place(root, Path::new(dir), true)?;
        let mount = tmpfs(&[mode("0755")], false)?;
        let mut copies = Vec::new();
        for (number, object) in self.objects.iter().enumerate() {
            let name = format!("{number}.so");
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let copy = openat(&mount, &name, flags, Mode::from(0o444))?;
            copy_all(*object, &mut File::from(copy))?;
            copies.push(Path::new(OBJECTS).join(name));
        }
        close(&mount, false)?;
        attach(&mount, &place)?;
        Ok(copies)
    }
}

/// Mounts an empty file system on `/`.
fn lay_over() -> io::Result<OwnedFd> {
    let root = tmpfs(&[("size", "1M".into()), ("nr_inodes", "256".into()), mode("0755")], true)?;
    move_mount(&root, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(root)
}

/// Copies a file from its beginning, without moving the offset that it shares with other processes.
fn copy_all(from: BorrowedFd<'_>, to: &mut File) -> io::Result<()> {
    let (mut at, mut buffer) = (0, vec![0; 256 * 1024]);
    loop {
        let size = rustix::io::pread(from, &mut buffer, at)?;
        let Some(bytes) = buffer.get(..size).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        to.write_all(bytes)?;
        at += size as u64;
    }
}

fn mode(mode: &str) -> (&'static str, String) {
    ("mode", mode.into())
}

/// Makes a file system in memory and does not mount it yet.
fn tmpfs(options: &[(&str, String)], no_exec: bool) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(context.as_fd(), *name, value.as_str())?;
    }
    fsconfig_create(context.as_fd())?;
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if no_exec {
        flags |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

fn attach(mount: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", place, "", flags)?)
}

/// Shows the library directory `path` of the machine in `root`, read-only and with the mounts below it. A link is
/// copied as a link, and a path that does not exist is skipped.
fn show_library(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let outside = Path::new("/").join(path);
    let metadata = match std::fs::symlink_metadata(&outside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if metadata.is_symlink() {
        let target = std::fs::read_link(&outside)?;
        make_place(root, path.parent().unwrap_or(Path::new("")), true)?;
        return Ok(symlinkat(&target, root, path)?);
    }
    let place = make_place(root, path, metadata.is_dir())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, &outside, flags)?;
    close(&tree, true)?;
    attach(&tree, &place)
}

/// Shows a granted path in `root`, read-only, at its path outside. Mounts below it stay hidden: they could be the
/// system's own state.
fn show_granted(root: &OwnedFd, grant: &Grant<'_>) -> io::Result<()> {
    let path = grant.path.strip_prefix("/").unwrap_or(grant.path);
    let place = make_place(root, path, grant.is_dir)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&grant.opened, "", flags).map_err(|error| match error {
        // Without root, the system clones mounts of another user namespace only all together.
        Errno::INVAL => io::Error::other(
            "something is mounted below it, which only root can leave out; grant the \
             directories beside it one by one",
        ),
        error => error.into(),
    })?;
    close(&tree, false)?;
    attach(&tree, &place)
}

/// Makes a directory or a file at `path` in `root` as a mount point, and returns it. Inside a granted directory it
/// exists already.
///
/// Others can change a granted directory from outside, so this follows no link: a link could lead out of `root`.
fn make_place(root: &OwnedFd, path: &Path, is_dir: bool) -> io::Result<OwnedFd> {
    let mut place = root.try_clone()?;
    let mut components = path.components().peekable();
    let mut so_far = PathBuf::from("/");
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let made = if is_dir || components.peek().is_some() {
            mkdirat(&place, name, Mode::from(0o755))
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            openat(&place, name, flags, Mode::from(0o444)).map(drop)
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::ROFS) => {
                return Err(io::Error::other(format!(
                    "it is on a mount below another granted path; grant the directory {} instead",
                    so_far.display()
                )));
            }
            Err(error) => return Err(error.into()),
        }
        so_far.push(name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        place = openat(&place, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&place)?.st_mode).is_symlink() {
            return Err(io::Error::other(format!(
                "{} is a link below another granted path; grant its target",
                so_far.display()
            )));
        }
    }
    Ok(place)
}

/// Makes a mount read-only and ignores its set-user-id bits and device files. `below`: also for the mounts in it.
fn close(mount: &OwnedFd, below: bool) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if below { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open, the path is an empty string, and the size is that of the
    // structure behind the pointer, which the system only reads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `root` the root directory and unmounts the old one.
fn go_in(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    // With the same path twice, the old root is mounted on the new one, and can be unmounted from there.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}
