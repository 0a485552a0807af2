//! Why a lab could not be built or did not do what was waited for.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use sys::namespace::EnterError;
use thiserror::Error;

/// What went wrong, with what the operator can do about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// Namespaces and interfaces are for root alone.
    #[error("this makes network namespaces, which needs root; type: sudo {command}")]
    NotRoot {
        /// The command line of this process, to be typed again.
        command: String,
    },
    /// An ordinary user, and nothing that an ordinary user may do here.
    #[error(
        "this makes network namespaces, and here only root may{}; type: sudo {command}", because(*why)
    )]
    NoUserNamespace {
        /// What forbids it, if that was found out.
        why: Option<&'static str>,
        /// The command line of this process, to be typed again.
        command: String,
    },
    /// Root, but not root enough.
    #[error("{}", namespace_hint(.0))]
    Namespace(#[from] EnterError),
    /// Programs the lab is made of are not installed.
    #[error(
        "not found in PATH: {}; type: {}apt-get install {}",
        programs.join(", "), path_first(*in_sbin), packages.join(" ")
    )]
    Missing {
        /// The programs.
        programs: Vec<&'static str>,
        /// The Debian packages they come in, each once.
        packages: Vec<&'static str>,
        /// Whether `/usr/sbin` has all of them, and is not in `PATH`.
        in_sbin: bool,
    },
    /// A file, directory or process could not be had.
    #[error("could not {what}")]
    Io {
        /// What was tried, after "could not".
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A command said no.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// A program that should run ended by itself.
    #[error("{name} ended by itself ({status}); its last lines:\n{log}")]
    Ended {
        /// The program.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote.
        log: String,
    },
    /// What was waited for did not happen.
    #[error("{what}: not within {limit:?}{evidence}")]
    TooLate {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// What there was instead: nothing, or a new line and more.
        evidence: Evidence,
    },
    /// A program's output could not be understood.
    #[error("the output of {program} makes no sense ({reason}):\n{output}")]
    Output {
        /// The program.
        program: &'static str,
        /// What was expected.
        reason: String,
        /// What it wrote.
        output: String,
    },
    /// The operator asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// For `map_err`: `what` reads on from "could not".
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Whether this machine lacks something the lab needs: the case for skipping a test.
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

/// What keeps a lab from being entered, and what may help.
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

/// What may help before anything is installed.
fn path_first(in_sbin: bool) -> &'static str {
    if in_sbin { "export PATH=$PATH:/usr/sbin, or: " } else { "" }
}

/// The end of a log or a report, shown below an error if there is any.
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
    fn chroot_is_not_told_to_be_a_container_without_privileges() {
        let says = |error| LabError::Namespace(error).to_string();
        let chroot = says(EnterError::MakePrivate(Errno::INVAL));
        assert!(chroot.contains("mount --rbind") && !chroot.contains("privileged"), "{chroot}");
        assert!(says(EnterError::Unshare(Errno::PERM)).contains("--privileged"));
    }
}
