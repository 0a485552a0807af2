//! Why a lab could not be built, or a condition was not met.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use sys::namespace::EnterError;
use thiserror::Error;

/// What failed, and what the operator can do about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// Only root may create namespaces and interfaces.
    #[error("creating network namespaces requires root; type: sudo {command}")]
    NotRoot {
        /// The command line of this process.
        command: String,
    },
    /// This system does not let ordinary users create user namespaces.
    #[error(
        "creating network namespaces requires root on this system{}; type: sudo {command}", because(*why)
    )]
    NoUserNamespace {
        /// The setting that forbids it, if known.
        why: Option<&'static str>,
        /// The command line of this process.
        command: String,
    },
    /// Root lacks a privilege.
    #[error("{}", namespace_hint(.0))]
    Namespace(#[from] EnterError),
    /// Required programs are not installed.
    #[error(
        "not found in PATH: {}; type: {}apt-get install {}",
        programs.join(", "), path_first(*in_sbin), packages.join(" ")
    )]
    Missing {
        /// The programs.
        programs: Vec<&'static str>,
        /// Their Debian packages, each once.
        packages: Vec<&'static str>,
        /// Whether all of them are in `/usr/sbin`, which is not in `PATH`.
        in_sbin: bool,
    },
    /// A file, directory or process could not be used.
    #[error("could not {what}")]
    Io {
        /// The failed operation, after "could not".
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// Its output.
        stderr: String,
    },
    /// A program ended unexpectedly.
    #[error("{name} ended unexpectedly ({status}); its last lines:\n{log}")]
    Ended {
        /// The program.
        name: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its output.
        log: String,
    },
    /// A condition was not met in time.
    #[error("{what}: not within {limit:?}{evidence}")]
    TooLate {
        /// The condition.
        what: String,
        /// The time limit.
        limit: Duration,
        /// The state instead: empty, or a new line and the details.
        evidence: Evidence,
    },
    /// A program's output could not be parsed.
    #[error("cannot parse the output of {program} ({reason}):\n{output}")]
    Output {
        /// The program.
        program: &'static str,
        /// The missing program.
        reason: String,
        /// Its output.
        output: String,
    },
    /// The operator interrupted the lab.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// For `map_err`: `what` continues "could not".
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Whether this machine lacks a requirement of the lab, so that a test is skipped.
    pub fn is_about_the_machine(&self) -> bool {
        matches!(
            self,
            Self::NotRoot { .. }
                | Self::NoUserNamespace { .. }
                | Self::Namespace(_)
                | Self::Missing { .. }
        )
    }
}

/// Returns why a lab could not be entered, and a remedy.
fn namespace_hint(error: &EnterError) -> &'static str {
    match error {
        EnterError::MakePrivate(Errno::INVAL) => {
            "/ is not a mount point here, as in a plain chroot; outside, bind it to itself first: \
             mount --rbind DIR DIR, then chroot DIR"
        }
        _ => {
            "root may not make namespaces here; in a container, start it with --privileged \
             (or --cap-add SYS_ADMIN --cap-add NET_ADMIN)"
        }
    }
}

fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(" ({why})"))
}

/// Returns what to try before installing anything.
fn path_first(in_sbin: bool) -> &'static str {
    if in_sbin { "export PATH=$PATH:/usr/sbin, or: " } else { "" }
}

/// The end of a log or a report, shown below an error unless it is empty.
#[derive(Debug, Default)]
pub struct Evidence(pub String);

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.trim().is_empty() { Ok(()) } else { write!(f, "; seen instead:\n{}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chroot_gets_its_own_hint() {
        let says = |error| LabError::Namespace(error).to_string();
        let chroot = says(EnterError::MakePrivate(Errno::INVAL));
        assert!(chroot.contains("mount --rbind") && !chroot.contains("privileged"), "{chroot}");
        assert!(says(EnterError::Unshare(Errno::PERM)).contains("--privileged"));
    }
}
