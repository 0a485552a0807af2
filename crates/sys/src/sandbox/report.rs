//! What could be done of a sandbox, mechanism by mechanism.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// A part of the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The environment is empty.
    Environment,
    /// No descriptor but the granted is open.
    Descriptors,
    /// Other processes are not seen, and what it forks ends with it.
    ProcessNamespace,
    /// A user namespace of its own.
    UserNamespace,
    /// Mounts of its own.
    MountNamespace,
    /// A network of its own, in which there is nothing.
    NetworkNamespace,
    /// System V and POSIX message queues, semaphores and shared memory of its own.
    IpcNamespace,
    /// A host name of its own.
    HostNameNamespace,
    /// It sees the cgroups from its own on.
    CgroupNamespace,
    /// Of the machine's files it sees libraries and what was granted, read-only.
    Root,
    /// A user of its own.
    User,
    /// No capability, and no way to one.
    Capabilities,
    /// Executing a file gives no rights.
    NoNewPrivileges,
    /// It cannot be traced by equals, and leaves no core dump.
    NotDumpable,
    /// Limits by setrlimit(2).
    Limits,
    /// Landlock: files.
    LandlockFiles,
    /// Landlock: TCP.
    LandlockTcp,
    /// Landlock: signals and abstract sockets.
    LandlockScopes,
    /// The allow-list of system calls.
    SystemCalls,
    /// Refused system calls are told.
    #[serde(rename = "records")]
    CallReports,
}

impl Mechanism {
    /// All, in the order in which they are applied.
    pub const ALL: [Self; 20] = [
        Self::Environment,
        Self::Descriptors,
        Self::ProcessNamespace,
        Self::UserNamespace,
        Self::MountNamespace,
        Self::NetworkNamespace,
        Self::IpcNamespace,
        Self::HostNameNamespace,
        Self::CgroupNamespace,
        Self::Root,
        Self::User,
        Self::Capabilities,
        Self::NoNewPrivileges,
        Self::NotDumpable,
        Self::Limits,
        Self::LandlockFiles,
        Self::LandlockTcp,
        Self::LandlockScopes,
        Self::SystemCalls,
        Self::CallReports,
    ];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Descriptors => "descriptors",
            Self::ProcessNamespace => "process namespace",
            Self::UserNamespace => "user namespace",
            Self::MountNamespace => "mount namespace",
            Self::NetworkNamespace => "network namespace",
            Self::IpcNamespace => "IPC namespace",
            Self::HostNameNamespace => "host name namespace",
            Self::CgroupNamespace => "cgroup namespace",
            Self::Root => "root directory",
            Self::User => "user",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no new privileges",
            Self::NotDumpable => "not dumpable",
            Self::Limits => "limits",
            Self::LandlockFiles => "Landlock: files",
            Self::LandlockTcp => "Landlock: TCP",
            Self::LandlockScopes => "Landlock: signals and abstract sockets",
            Self::SystemCalls => "system calls",
            Self::CallReports => "records of refused system calls",
        }
    }

    /// What, if it is on, does the same, so that this one is only a second wall.
    pub fn also_done_by(self) -> &'static [Self] {
        match self {
            // A user of its own is one that nobody else's processes and files have. Without root
            // it is the operator's, of which the namespaces and Landlock show it nothing.
            Self::UserNamespace => &[Self::User],
            Self::User => &[Self::UserNamespace, Self::ProcessNamespace, Self::Root],
            Self::LandlockTcp => &[Self::NetworkNamespace],
            Self::LandlockScopes => &[Self::NetworkNamespace, Self::ProcessNamespace],
            _ => &[],
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a mechanism is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is.
    On,
    /// It is not meant to be: what it would take away is what the process is for.
    Granted,
    /// It could not be had.
    Missing {
        /// What the system said.
        why: String,
    },
}

/// A mechanism and whether it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub mechanism: Mechanism,
    /// Whether.
    pub state: State,
}

/// What could be done of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Each mechanism once, as far as it was got to.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn on(&mut self, mechanism: Mechanism) {
        self.findings.push(Finding { mechanism, state: State::On });
    }

    pub(super) fn granted(&mut self, mechanism: Mechanism) {
        self.findings.push(Finding { mechanism, state: State::Granted });
    }

    pub(super) fn missing(&mut self, mechanism: Mechanism, why: String) {
        self.findings.push(Finding { mechanism, state: State::Missing { why } });
    }

    pub(super) fn add(&mut self, mechanism: Mechanism, result: io::Result<()>) {
        match result {
            Ok(()) => self.on(mechanism),
            Err(error) => self.missing(mechanism, error.to_string()),
        }
    }

    /// Whether `mechanism` is on.
    pub fn is_on(&self, mechanism: Mechanism) -> bool {
        self.findings.iter().any(|it| it.mechanism == mechanism && it.state == State::On)
    }

    /// Those that are missing and that nothing else makes up for, and why.
    pub fn gaps(&self) -> Vec<(Mechanism, &str)> {
        let gap = |mechanism: Mechanism| {
            let others = mechanism.also_done_by();
            if !others.is_empty() && others.iter().all(|other| self.is_on(*other)) {
                return None;
            }
            match self.findings.iter().find(|it| it.mechanism == mechanism).map(|it| &it.state) {
                Some(State::On | State::Granted) => None,
                Some(State::Missing { why }) => Some((mechanism, why.as_str())),
                None => Some((mechanism, "it was not got to")),
            }
        };
        Mechanism::ALL.into_iter().filter_map(gap).collect()
    }

    /// The [`gaps`](Self::gaps) in a phrase, each with its reason; `None` if there are none.
    pub fn gaps_text(&self) -> Option<String> {
        let gaps = self.gaps();
        let told: Vec<_> = gaps.iter().map(|(gap, why)| format!("{gap} ({why})")).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_but(missing: &[Mechanism]) -> Report {
        let mut report = Report::default();
        for mechanism in Mechanism::ALL {
            if missing.contains(&mechanism) {
                report.missing(mechanism, "not here".into());
            } else {
                report.on(mechanism);
            }
        }
        report
    }

    #[test]
    fn second_wall_is_no_gap_while_the_first_stands() {
        assert_eq!(all_but(&[]).gaps(), []);
        assert_eq!(all_but(&[Mechanism::LandlockTcp, Mechanism::User]).gaps(), []);
        let both = [Mechanism::LandlockTcp, Mechanism::NetworkNamespace];
        assert_eq!(all_but(&both).gaps().len(), 2);
        assert!(!all_but(&[Mechanism::User, Mechanism::UserNamespace]).gaps().is_empty());
    }

    #[test]
    fn what_is_not_in_a_report_is_missing() {
        assert_eq!(Report::default().gaps().len(), Mechanism::ALL.len());
    }
}
