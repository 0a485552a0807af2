//! Moves a process into namespaces of its own, `namespaces(7)`.

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

/// The opened directory `/proc`; `None` where it is not mounted. It stays usable after the root directory changes.
#[derive(Debug)]
pub(super) struct Proc(Option<OwnedFd>);

impl Proc {
    pub(super) fn open() -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self(rustix::fs::open("/proc", flags, Mode::empty()).ok())
    }

    /// The path of an open file, without links.
    pub(super) fn path_of(&self, opened: &OwnedFd) -> io::Result<PathBuf> {
        let proc = self.0.as_ref().ok_or_else(|| io::Error::other("/proc is not mounted"))?;
        let link = format!("self/fd/{}", opened.as_raw_fd());
        let path = rustix::fs::readlinkat(proc, link, Vec::new())?;
        Ok(OsString::from_vec(path.into_bytes()).into())
    }

    /// Reads the file `name` in the directory of this process.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let proc = self.0.as_ref().ok_or_else(|| io::Error::other("/proc is not mounted"))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(proc, format!("self/{name}"), flags, Mode::empty())?;
        let mut text = Vec::new();
        File::from(file).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Writes `text` into the file `name` in the directory of this process.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let proc = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(proc, format!("self/{name}"), flags, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes())?;
        Ok(())
    }
}

/// Whether this process is in a user namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// The process is in its own user namespace.
    Yes,
    /// The process can make other namespaces without one.
    NotNeeded,
}

/// Enters a user namespace if this process may not make other namespaces without one.
pub(super) fn enter_if_needed(proc: &Proc) -> io::Result<Entered> {
    if crate::process::made_user_namespace() {
        return Ok(Entered::Yes);
    }
    if capabilities(None)?.effective.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(Entered::NotNeeded);
    }
    enter(proc)
}

/// Enters a user namespace that contains only the user of this process.
pub(super) fn enter(proc: &Proc) -> io::Result<Entered> {
    crate::process::try_first(|| enter_now(proc))?
}

fn enter_now(proc: &Proc) -> io::Result<Entered> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER)?;
    // Root owns the /proc entry of a process that cannot be dumped, so the process makes itself dumpable for the
    // moment of the writes.
    let before = dumpable_behavior()?;
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let mapped = map_users(proc, uid, gid);
    set_dumpable_behavior(before)?;
    mapped?;
    Ok(Entered::Yes)
}

/// Enters a user namespace, and a PID namespace for the next child, while `/proc` is at its usual path.
pub(crate) fn enter_with_processes() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID)?;
    map_users(&Proc::open(), uid, gid)
}

/// Maps the user and group of this process to themselves. `user_namespaces(7)` allows it to a process that gives up
/// setgroups(2).
fn map_users(proc: &Proc, uid: u32, gid: u32) -> io::Result<()> {
    proc.write("setgroups", "deny")?;
    proc.write("uid_map", &format!("{uid} {uid} 1"))?;
    proc.write("gid_map", &format!("{gid} {gid} 1"))
}

/// The result of entering a user namespace, for the report.
pub(super) fn user_namespace_result(
    entered: io::Result<Entered>,
    run_as: Option<u32>,
) -> io::Result<()> {
    match entered {
        Ok(Entered::Yes) => Ok(()),
        Ok(Entered::NotNeeded) if run_as.is_none() => {
            Err(io::Error::other("root enters none unless it changes to another user"))
        }
        Ok(Entered::NotNeeded) => Err(io::Error::other("the process did not enter one")),
        Err(error) => Err(error),
    }
}

/// Enters new namespaces in place of those that this process shares with others, except for the network's if it
/// keeps that.
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
    // SAFETY: no flag that is used here unshares the table of descriptors.
    Ok(unsafe { unshare_unsafe(flags) }?)
}
