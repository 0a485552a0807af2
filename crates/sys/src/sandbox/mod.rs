//! Confines a process before it runs code that is not ours.
//!
//! A [`Sandbox`] names what the process keeps. [`Sandbox::confine`] runs in that process and takes everything else
//! away, in this order, because each step needs what a later one gives up:
//!
//! ```text
//!  1  environment          emptied, apart from granted variables
//!  2  descriptors          closed, except for the granted ones; standard input becomes an empty file
//!  3  user namespace       without root only: it gives the rights for steps 4 to 6
//!  4  namespaces           mounts, network, System V IPC, host name, cgroups; `process/init.rs` has made the PID
//!                          namespace before
//!  5  root                 a small private file system: libraries, read-only; /tmp, bounded; /app with copies of
//!                          the objects, read-only from here on; the paths that fs.read grants
//!  6  user                 a user of its own, if root started it; then also a user namespace, which does not own
//!                          the mounts of step 5
//!  7  privileges           no capabilities in any set, none to gain by execve(2), no tracing, no core dump
//!  8  limits               setrlimit(2), after which no descriptor gets the outlet's number again; the system ends an app first when memory runs out
//!  9  Landlock             files by path, TCP, signals and abstract sockets: a second layer behind step 4
//! 10  system calls         seccomp with an allow-list; refused calls of interest are reported
//! ```
//!
//! The [`Report`] says of each step whether the system supported it. A step that the system does not support is left
//! out. Giving up the user and the privileges (6, 7) is not optional. `SECURITY.md` has the reasons.

mod descriptors;
mod grants;
mod landlock;
mod limits;
mod mounts;
mod namespaces;
pub mod notifications;
mod privileges;
mod report;
mod root;
pub mod seccomp;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::thread::CapabilitySet;

pub use self::grants::reason_not_grantable;
pub use self::limits::{Limits, Memory};
pub(crate) use self::namespaces::enter_with_processes;
pub use self::report::{Finding, Mechanism, MechanismState, Report};
use self::seccomp::Profile;
use crate::channel::Channel;

/// An empty environment.
static NO_VARIABLES: BTreeMap<String, String> = BTreeMap::new();

/// The directory with the copies of objects, inside the sandbox.
pub const OBJECTS: &str = "/app";

/// The private directory for files, inside the sandbox, and the working directory of a process that has it.
const TMP: &str = "/tmp";

/// Confines the monitor, whose children confine themselves later.
///
/// The monitor keeps the capabilities that its children need for that, and execve(2) adds none. The system refuses
/// calls that no program of Rosemary makes to the monitor and to its children. Call this first in `main`, while
/// there is one thread.
///
/// # Errors
/// The first step that failed; the steps before it are in force.
pub fn confine_monitor() -> io::Result<()> {
    crate::process::forbid_new_privileges()?;
    privileges::keep_those_of_monitor()?;
    seccomp::restrict_monitor()
}

/// The size of a private `/tmp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tmp {
    /// Bytes of its files together.
    pub size: u64,
    /// Files and directories together.
    pub inodes: u64,
}

/// The settings of a sandbox: everything that the confined process keeps.
#[derive(Debug)]
pub struct Sandbox<'a> {
    /// Its list of system calls.
    pub profile: Profile,
    /// The user and group to become; `None` to keep the current ones.
    pub run_as: Option<u32>,
    /// Its control socket, the only socket that a zone can send messages through.
    pub control: BorrowedFd<'a>,
    /// Other descriptors to keep besides standard output and error.
    pub keep: &'a [BorrowedFd<'a>],
    /// Objects to copy into [`OBJECTS`].
    pub objects: &'a [BorrowedFd<'a>],
    /// The environment variables that replace those of the process. No name is empty or contains `=`, and neither names
    /// nor values contain a zero byte.
    pub env: &'a BTreeMap<String, String>,
    /// Files and directories that the process may read, by their paths outside. Mounts below them stay hidden.
    pub read: &'a [PathBuf],
    /// Directories that stay hidden even where [`read`](Self::read) leads to them. Their paths contain no links.
    /// `/proc`, `/sys` and `/dev` always stay hidden.
    pub never: &'a [PathBuf],
    /// Its private `/tmp`, if it gets one. It is then the working directory, otherwise `/` is.
    pub tmp: Option<Tmp>,
    /// Whether it keeps the machine's network. Only the broker and the service of databases do.
    pub network: bool,
    /// Its resource limits.
    pub limits: Limits,
}

/// The result of [`Sandbox::confine`].
#[derive(Debug)]
pub struct Confined {
    /// Which mechanisms are in force.
    pub report: Report,
    /// Paths of the copied objects, in the order of [`Sandbox::objects`]; empty without a private root directory.
    pub objects: Vec<PathBuf>,
    /// Reports refused system calls. The process passes it to the monitor, see [`notifications`].
    pub listener: Option<OwnedFd>,
    /// The control socket under another number, for the one message with the listener. The process drops it before it runs
    /// foreign code: only by this number may most processes send a descriptor, and no descriptor gets it later.
    pub outlet: Channel,
}

impl<'a> Sandbox<'a> {
    /// A sandbox in which the process keeps its user and its control socket and reads no files.
    pub fn new(profile: Profile, control: BorrowedFd<'a>, limits: Limits) -> Self {
        Self {
            profile,
            run_as: None,
            control,
            keep: &[],
            objects: &[],
            env: &NO_VARIABLES,
            read: &[],
            never: &[],
            tmp: None,
            network: false,
            limits,
        }
    }

    /// Confines this process for the rest of its life.
    ///
    /// Call this while the process has one thread: some steps affect only the calling thread.
    ///
    /// # Errors
    /// The process could not give up its user or its privileges, or a granted path cannot be shown. The error says
    /// what to do. The process must end then.
    pub fn confine(&self) -> io::Result<Confined> {
        let mut confined = self.confine_except_calls()?;
        self.limit_calls(&mut confined);
        Ok(confined)
    }

    /// Installs the list of system calls, the last step of [`confine`](Self::confine).
    pub fn limit_calls(&self, confined: &mut Confined) {
        let outlet = confined.outlet.as_fd();
        confined.listener = seccomp::restrict(self, outlet, &mut confined.report);
    }

    /// Does all steps of [`confine`](Self::confine) except the last. The caller loads libraries and objects, whose
    /// files it cannot open afterwards, and then calls [`limit_calls`](Self::limit_calls).
    ///
    /// # Errors
    /// As [`confine`](Self::confine).
    pub fn confine_except_calls(&self) -> io::Result<Confined> {
        let mut report = Report::default();
        descriptors::replace_environment(self.env);
        report.on(Mechanism::Environment);
        report.add(Mechanism::Descriptors, descriptors::close_others(self));
        let (outlet, limits) = descriptors::outlet(self)?;
        report.add(Mechanism::ProcessNamespace, crate::process::check_pid_namespace());

        // Opened now: step 5 removes the path.
        let proc = namespaces::Proc::open();
        let mapped = self.mapped(&proc);
        let first_to_end =
            if matches!(self.profile, Profile::Zone | Profile::Wasm | Profile::Python) {
                proc.write("oom_score_adj", "1000")
            } else {
                Ok(())
            };
        let mut users = namespaces::enter_if_needed(&proc);
        namespaces::leave(self.network, &mut report);
        // After the new mount namespace: only a mount of this namespace can be moved into the new root.
        let grants = grants::open(self, &proc)?;
        let root = if report.is_on(Mechanism::MountNamespace) {
            root::Root::of(self, &grants).enter()
        } else {
            Err(root::Failure::Missing("there is no mount namespace".into()))
        };
        let objects = match root {
            Ok(objects) => {
                report.on(Mechanism::Root);
                objects
            }
            Err(root::Failure::Missing(why)) => {
                grants::without_root(&grants, &why)?;
                report.missing(Mechanism::Root, why);
                Vec::new()
            }
            Err(root::Failure::Granted(error)) => return Err(error),
        };

        if let Some(id) = self.run_as {
            privileges::shrink_bounding_set(CapabilitySet::empty())?;
            crate::process::drop_privileges(id)?;
            // After the change of the user, so that the mounts belong to the parent's user namespace, and this
            // process cannot change them.
            users = users.and_then(|entered| match entered {
                namespaces::Entered::Yes => Ok(entered),
                namespaces::Entered::NotNeeded => namespaces::enter(&proc),
            });
            report.on(Mechanism::User);
        } else {
            report.missing(Mechanism::User, "it runs as the user who started Rosemary".into());
        }
        report.add(Mechanism::UserNamespace, namespaces::user_namespace_result(users, self.run_as));
        drop(proc);

        report.add(Mechanism::Capabilities, privileges::drop_capabilities());
        crate::process::forbid_new_privileges()?;
        report.on(Mechanism::NoNewPrivileges);
        report.on(Mechanism::NotDumpable);
        let own_user = report.is_on(Mechanism::User) || report.is_on(Mechanism::UserNamespace);
        let limits = limits.set(own_user, mapped);
        report.add(Mechanism::Limits, limits.and(first_to_end));
        if self.tmp.is_some() && report.is_on(Mechanism::Root) {
            // Programs write files with relative names. As another user, because /tmp belongs to it.
            rustix::process::chdir(TMP)?;
        }
        landlock::restrict(self, &grants, report.is_on(Mechanism::Root), &mut report);
        Ok(Confined { report, objects, listener: None, outlet })
    }

    /// Bytes of address space that this process uses, plus the size of its objects.
    fn mapped(&self, proc: &namespaces::Proc) -> io::Result<u64> {
        let objects = self.objects.iter().map(|object| Ok(rustix::fs::fstat(object)?.st_size));
        let objects = objects.sum::<io::Result<i64>>()?;
        let statm = String::from_utf8_lossy(&proc.read("statm")?).into_owned();
        let pages =
            statm.split_ascii_whitespace().next().and_then(|pages| pages.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| {
            io::Error::other(
                "/proc/self/statm does not begin with a number, as proc(5) says it does",
            )
        })?;
        Ok(pages * rustix::param::page_size() as u64 + objects.unsigned_abs())
    }
}
