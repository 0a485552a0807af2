//! Namespaces: what of the machine a process can name at all.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities, unshare_unsafe};

use super::{Mechanism, Report};

/// The directory `/proc`, as it was when it was opened; `None` where it is not mounted.
#[derive(Debug)]
pub(super) struct Proc(Option<OwnedFd>);

impl Proc {
    pub(super) fn open() -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self(rustix::fs::open("/proc", flags, Mode::empty()).ok())
    }

    /// Where what was opened is, by a path without links.
    pub(super) fn path_of(&self, opened: &OwnedFd) -> io::Result<PathBuf> {
        let proc = self.0.as_ref().ok_or_else(|| io::Error::other("/proc is not mounted"))?;
        let link = format!("self/fd/{}", opened.as_raw_fd());
        let path = rustix::fs::readlinkat(proc, link, Vec::new())?;
        Ok(OsString::from_vec(path.into_bytes()).into())
    }

    /// What the file `name` of this process says.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let proc = self.0.as_ref().ok_or_else(|| io::Error::other("/proc is not mounted"))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(proc, format!("self/{name}"), flags, Mode::empty())?;
        let mut text = Vec::new();
        File::from(file).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Writes `text` into the file `name` of this process.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let proc = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(proc, format!("self/{name}"), flags, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes())?;
        Ok(())
    }
}

/// Whether this process is in a user namespace that was made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// It is.
    Before,
    /// It was not needed so far.
    Not,
}

/// Enters a user namespace if this process may make no other namespaces as it is.
pub(super) fn enter_if_needed(proc: &Proc) -> io::Result<Entered> {
    if crate::process::made_user_namespace() {
        return Ok(Entered::Before);
    }
    if capabilities(None)?.effective.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(Entered::Not);
    }
    enter(proc)
}

/// Enters a user namespace in which there is this process's user and no other.
pub(super) fn enter(proc: &Proc) -> io::Result<Entered> {
    crate::process::try_first(|| enter_now(proc))?
}

fn enter_now(proc: &Proc) -> io::Result<Entered> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER)?;
    // Who has changed its user, or cannot be dumped, does not own its own entry in /proc.
    let before = dumpable_behavior()?;
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let mapped = map_users(proc, uid, gid);
    set_dumpable_behavior(before)?;
    mapped?;
    Ok(Entered::Before)
}

/// As [`enter`], with `/proc` in its place and a namespace of processes for the next child.
pub(crate) fn enter_with_processes() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID)?;
    map_users(&Proc::open(), uid, gid)
}

/// `user_namespaces(7)`: a process may map the user it was, if it gives up changing its groups.
fn map_users(proc: &Proc, uid: u32, gid: u32) -> io::Result<()> {
    proc.write("setgroups", "deny")?;
    proc.write("uid_map", &format!("{uid} {uid} 1"))?;
    proc.write("gid_map", &format!("{gid} {gid} 1"))
}

/// What is to be said of the user namespace.
pub(super) fn what_came_of(entered: io::Result<Entered>, run_as: Option<u32>) -> io::Result<()> {
    match entered {
        Ok(Entered::Before) => Ok(()),
        Ok(Entered::Not) if run_as.is_none() => {
            Err(io::Error::other("root, without a user of its own to become, keeps to its own"))
        }
        Ok(Entered::Not) => Err(io::Error::other("it was not entered")),
        Err(error) => Err(error),
    }
}

/// Leaves the namespaces that this process shares with others, that of the network if it is not to keep
/// it.
pub(super) fn leave(keep_network: bool, report: &mut Report) {
    for (mechanism, flag) in [
        (Mechanism::MountNamespace, UnshareFlags::NEWNS),
        (Mechanism::NetworkNamespace, UnshareFlags::NEWNET),
        (Mechanism::IpcNamespace, UnshareFlags::NEWIPC),
        (Mechanism::HostNameNamespace, UnshareFlags::NEWUTS),
        (Mechanism::CgroupNamespace, UnshareFlags::NEWCGROUP),
    ] {
        if keep_network && flag == UnshareFlags::NEWNET {
            report.granted(mechanism);
            continue;
        }
        let mut left = unshare(flag);
        if left.is_ok() && flag == UnshareFlags::NEWUTS {
            left = rustix::system::sethostname(b"zone").map_err(Into::into);
        }
        report.add(mechanism, left);
    }
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: none of the flags that are used here is about descriptors.
    Ok(unsafe { unshare_unsafe(flags) }?)
}
