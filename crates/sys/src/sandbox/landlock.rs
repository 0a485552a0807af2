//! Landlock, `landlock(7)`: rules by path and by port that a process makes for itself.
//!
//! Behind a root directory and a network of its own it is a second wall; where those could not be had
//! it is the first. What the running system knows of it is used, by the version it states.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::grants::Grant;
use super::{Mechanism, OBJECTS, Report, Sandbox};

/// `struct landlock_ruleset_attr`, `linux/landlock.h`.
#[repr(C)]
#[derive(Debug, Default)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

// LANDLOCK_ACCESS_FS_*.
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const TRUNCATE: u64 = 1 << 14;

const READ: u64 = READ_FILE | READ_DIR;
const WRITE: u64 = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | TRUNCATE;

/// Of a rule on a file that is not a directory only these make sense.
const OF_A_FILE: u64 = READ_FILE | WRITE_FILE | TRUNCATE;

/// The rights on files that there are since each version, and the bits of TCP and of scopes.
fn handled(version: i64) -> RulesetAttr {
    let files = match version {
        1 => (1 << 13) - 1,
        2 => (1 << 14) - 1,
        3 | 4 => (1 << 15) - 1,
        _ => (1 << 16) - 1,
    };
    RulesetAttr {
        handled_access_fs: files,
        handled_access_net: if version >= 4 { 0b11 } else { 0 },
        scoped: if version >= 6 { 0b11 } else { 0 },
    }
}

/// Restricts the calling thread and all it starts. `own_root`: paths are those inside.
pub(super) fn restrict(
    sandbox: &Sandbox<'_>,
    grants: &[Grant<'_>],
    own_root: bool,
    report: &mut Report,
) {
    let version = match version() {
        Ok(version) => version,
        Err(error) => {
            let why = match error.raw_os_error() {
                Some(libc::ENOSYS) => "this Linux does not have Landlock (since 5.13)".into(),
                Some(libc::EOPNOTSUPP) => {
                    "Landlock is switched off (boot with lsm=landlock,...)".into()
                }
                _ => format!("Landlock: {error}"),
            };
            return none(sandbox, &why, report);
        }
    };
    let mut handled = handled(version);
    if sandbox.network {
        handled.handled_access_net = 0;
    }
    if let Err(error) = enforce(sandbox, grants, own_root, &handled) {
        return none(sandbox, &format!("Landlock: {error}"), report);
    }
    report.on(Mechanism::LandlockFiles);
    if sandbox.network {
        report.granted(Mechanism::LandlockTcp);
    }
    for (mechanism, since, linux) in
        [(Mechanism::LandlockTcp, 4, "6.7"), (Mechanism::LandlockScopes, 6, "6.12")]
    {
        if sandbox.network && mechanism == Mechanism::LandlockTcp {
            continue;
        }
        if version >= since {
            report.on(mechanism);
        } else {
            let why = format!("this Linux does not have it (since {linux})");
            if sandbox.network {
                report.granted(mechanism); // as in `none`
            } else {
                report.missing(mechanism, why);
            }
        }
    }
}

/// There is no Landlock.
fn none(sandbox: &Sandbox<'_>, why: &str, report: &mut Report) {
    for it in [Mechanism::LandlockFiles, Mechanism::LandlockTcp, Mechanism::LandlockScopes] {
        match it {
            // Of who keeps the network, the list of calls has no sockets with abstract names, and
            // the processes that it could send signals to are its own.
            Mechanism::LandlockTcp | Mechanism::LandlockScopes if sandbox.network => {
                report.granted(it);
            }
            _ => report.missing(it, why.to_owned()),
        }
    }
}

fn version() -> io::Result<i64> {
    // SAFETY: with this flag the system reads no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttr>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    if version < 0 { Err(io::Error::last_os_error()) } else { Ok(version) }
}

fn enforce(
    sandbox: &Sandbox<'_>,
    grants: &[Grant<'_>],
    own_root: bool,
    handled: &RulesetAttr,
) -> io::Result<()> {
    // SAFETY: the system reads the structure, whose size is given with it.
    let ruleset = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(handled),
            size_of::<RulesetAttr>(),
            0_u32,
        )
    };
    if ruleset < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just made this descriptor for us.
    let ruleset =
        unsafe { OwnedFd::from_raw_fd(i32::try_from(ruleset).map_err(io::Error::other)?) };
    let libraries = ["/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/etc/ld.so.cache"];
    let more = ["/lib", "/lib32", "/lib64", "/libx32"];
    for path in libraries.into_iter().chain(more) {
        allow(&ruleset, Path::new(path), READ & handled.handled_access_fs)?;
    }
    for grant in grants {
        // What it was opened as: by its path the process, which has another user by now, may not get there.
        allow_opened(&ruleset, &grant.opened, grant.is_dir, READ & handled.handled_access_fs)?;
    }
    if own_root {
        allow(&ruleset, Path::new(OBJECTS), READ & handled.handled_access_fs)?;
        if sandbox.tmp.is_some() {
            allow(&ruleset, Path::new("/tmp"), WRITE & handled.handled_access_fs)?;
        }
    }
    // SAFETY: a call on numbers.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Allows `access` to `path` and all below. What is not there needs no rule.
fn allow(ruleset: &OwnedFd, path: &Path, access: u64) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let parent = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(parent) => parent,
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let is_dir = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&parent)?.st_mode).is_dir();
    allow_opened(ruleset, &parent, is_dir, access)
}

/// The same of what was opened.
fn allow_opened(ruleset: &OwnedFd, parent: &OwnedFd, is_dir: bool, access: u64) -> io::Result<()> {
    let access = if is_dir { access } else { access & OF_A_FILE };
    let rule = PathBeneathAttr { allowed_access: access, parent_fd: parent.as_raw_fd() };
    // SAFETY: the system reads the structure, which is the one that this kind of rule takes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const rule,
            0_u32,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
