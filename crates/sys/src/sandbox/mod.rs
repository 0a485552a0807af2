//! The wall around a program: what a process gives up before it runs code that is not ours.
//!
//! [`Sandbox`] says what the process is to be left with; [`Sandbox::confine`] takes the rest away, in the
//! process itself, in this order, each step by what the steps before have left:
//!
//! ```text
//!  1  environment          emptied
//!  2  descriptors          all closed but the granted; standard input becomes an empty file
//!  3  user namespace       without root: where the rights to do 4 to 6 come from
//!  4  namespaces           mounts, network, System V IPC, host name, cgroups; that of processes is
//!                          made before, with the process (`process/init.rs`)
//!  5  root                 a small file system of its own: libraries, read-only; /tmp, bounded; /app
//!                          with copies of the objects, read-only from here on; what fs.read grants
//!  6  user                 the user of its own, if root started it; then, too, a user namespace, in
//!                          which the mounts of 5 are somebody else's
//!  7  privileges           capabilities, also those of the bounding and the ambient set; none to gain
//!                          by executing; not to be traced, not to be dumped
//!  8  limits               setrlimit(2); an app is the first to be ended when memory runs out
//!  9  Landlock             files by path, TCP, signals and abstract sockets: a second wall behind 4
//! 10  system calls         seccomp: an allow-list; what is refused and of interest is reported
//! ```
//!
//! Every step says whether it could be done ([`Report`]). What a system does not offer is left out
//! and said, never pretended; giving up the user and the privileges (6, 7) is not optional.
//! Design §2, §14; *Rosemary §3.2*.

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

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::thread::CapabilitySet;

pub use self::grants::reason_not_grantable;
pub use self::limits::{Limits, Memory};
pub(crate) use self::namespaces::enter_with_processes;
pub use self::report::{Finding, Mechanism, Report, State};
use self::seccomp::Profile;

/// Where the copies of objects are, inside.
pub const OBJECTS: &str = "/app";

/// Confines the monitor as far as one can be whose children are still to confine themselves: it keeps
/// the capabilities that this takes, no executing adds one, and the calls that are for nobody here are
/// refused to it and to all it starts.
///
/// To be called first in `main`, while there is one thread.
///
/// # Errors
/// What could not be done; what stands before it was.
pub fn confine_monitor() -> io::Result<()> {
    crate::process::forbid_new_privileges()?;
    privileges::keep_those_of_monitor()?;
    seccomp::restrict_monitor()
}

/// Bytes and entries that a private `/tmp` has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tmp {
    /// Bytes of its files together.
    pub size: u64,
    /// Files and directories together.
    pub inodes: u64,
}

/// What a process is to be left with.
#[derive(Debug)]
pub struct Sandbox<'a> {
    /// Which system calls.
    pub profile: Profile,
    /// The user and group to become; `None` to stay who it is.
    pub run_as: Option<u32>,
    /// Its control socket. It is kept, and the only socket that it can send messages through.
    pub control: BorrowedFd<'a>,
    /// Other descriptors that it keeps, standard output and error aside.
    pub keep: &'a [BorrowedFd<'a>],
    /// Objects to be copied into [`OBJECTS`].
    pub objects: &'a [BorrowedFd<'a>],
    /// Files and directories that can be read inside, by their paths outside; not what is mounted below
    /// them.
    pub read: &'a [PathBuf],
    /// Directories, without links in their paths, of which nothing is shown, whatever
    /// [`read`](Self::read) says or leads to. The system's own are among them in any case.
    pub never: &'a [PathBuf],
    /// Its `/tmp`; `None` for none.
    pub tmp: Option<Tmp>,
    /// Whether it keeps the machine's network, which is for who connects on others' behalf.
    pub network: bool,
    /// What setrlimit(2) is told.
    pub limits: Limits,
}

/// A process that is confined.
#[derive(Debug)]
pub struct Confined {
    /// What could be done.
    pub report: Report,
    /// Where the copies of the objects are, in their order; empty if there is no root of its own.
    pub objects: Vec<PathBuf>,
    /// Tells of refused system calls; for the monitor, see [`notifications`].
    pub listener: Option<OwnedFd>,
}

impl<'a> Sandbox<'a> {
    /// One in which a process stays who it is, keeps nothing but its control socket, and sees nothing.
    pub fn new(profile: Profile, control: BorrowedFd<'a>, limits: Limits) -> Self {
        Self {
            profile,
            run_as: None,
            control,
            keep: &[],
            objects: &[],
            read: &[],
            never: &[],
            tmp: None,
            network: false,
            limits,
        }
    }

    /// Confines this process, for good.
    ///
    /// To be called while it has one thread: some of the steps are about the calling thread only.
    ///
    /// # Errors
    /// It could not give up its user or its privileges, or a path that is granted cannot be, which is
    /// said with what to do: the process is to end.
    pub fn confine(&self) -> io::Result<Confined> {
        let mut confined = self.enter()?;
        self.limit_calls(&mut confined);
        Ok(confined)
    }

    /// The last step of [`confine`](Self::confine), for who still had something to do before.
    pub fn limit_calls(&self, confined: &mut Confined) {
        confined.listener = seccomp::restrict(self, &mut confined.report);
    }

    /// Confines this process, but for its system calls: [`limit_calls`](Self::limit_calls) is to follow
    /// when the libraries and objects are loaded whose files it may not open afterwards.
    ///
    /// # Errors
    /// As [`confine`](Self::confine).
    pub fn enter(&self) -> io::Result<Confined> {
        let mut report = Report::default();
        descriptors::clear_environment();
        report.on(Mechanism::Environment);
        report.add(Mechanism::Descriptors, descriptors::close_others(self));
        report.add(Mechanism::ProcessNamespace, crate::process::set_apart());

        // The way to /proc, which leads there also when there is no such path any more.
        let proc = namespaces::Proc::open();
        let mapped = self.mapped(&proc);
        let first_to_end = if self.profile == Profile::Zone {
            proc.write("oom_score_adj", "1000")
        } else {
            Ok(())
        };
        let mut users = namespaces::enter_if_needed(&proc);
        namespaces::leave(self.network, &mut report);
        // Of the mounts that are its own from here on: no others can be shown.
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
            // Behind the change of the user: what is mounted belongs to root's namespace.
            users = users.and_then(|entered| match entered {
                namespaces::Entered::Before => Ok(entered),
                namespaces::Entered::Not => namespaces::enter(&proc),
            });
            report.on(Mechanism::User);
        } else {
            report.missing(Mechanism::User, "it has the user of who started it".into());
        }
        report.add(Mechanism::UserNamespace, namespaces::what_came_of(users, self.run_as));
        drop(proc);

        report.add(Mechanism::Capabilities, privileges::drop_capabilities());
        crate::process::forbid_new_privileges()?;
        report.on(Mechanism::NoNewPrivileges);
        report.on(Mechanism::NotDumpable);
        let own_user = report.is_on(Mechanism::User) || report.is_on(Mechanism::UserNamespace);
        let limits = self.limits.set(own_user, mapped);
        report.add(Mechanism::Limits, limits.and(first_to_end));
        landlock::restrict(self, &grants, report.is_on(Mechanism::Root), &mut report);
        Ok(Confined { report, objects, listener: None })
    }

    /// Bytes of address space that this process has, and that its objects will take.
    fn mapped(&self, proc: &namespaces::Proc) -> io::Result<u64> {
        let objects = self.objects.iter().map(|object| Ok(rustix::fs::fstat(object)?.st_size));
        let objects = objects.sum::<io::Result<i64>>()?;
        let statm = String::from_utf8_lossy(&proc.read("statm")?).into_owned();
        let pages =
            statm.split_ascii_whitespace().next().and_then(|pages| pages.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm is not as usual"))?;
        Ok(pages * rustix::param::page_size() as u64 + objects.unsigned_abs())
    }
}
