//! Records which mechanisms of a sandbox are in force on this machine.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// A part of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The environment has only granted variables.
    Environment,
    /// Only granted descriptors are open.
    Descriptors,
    /// The process does not see other processes, and its children end with it.
    ProcessNamespace,
    /// A user namespace of its own.
    UserNamespace,
    /// Mounts of its own.
    MountNamespace,
    /// A network of its own without interfaces.
    NetworkNamespace,
    /// System V and POSIX message queues, semaphores and shared memory of its own.
    IpcNamespace,
    /// A host name of its own.
    HostNameNamespace,
    /// The process sees only cgroups below its own.
    CgroupNamespace,
    /// The process sees only libraries and granted files, read-only.
    Root,
    /// A user of its own.
    User,
    /// No capabilities, and no way to gain one.
    Capabilities,
    /// execve(2) gives no rights.
    NoNewPrivileges,
    /// Processes of the same user cannot trace it, and it leaves no core dump.
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
    /// The monitor learns of refused system calls.
    #[serde(rename = "records")]
    CallReports,
}

impl Mechanism {
    /// All mechanisms in the order in which they are applied.
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

    /// Its name for people.
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
            Self::CallReports => "reports of refused system calls",
        }
    }

    /// The mechanisms that together protect against the same, so that this one is only a second layer.
    pub fn also_done_by(self) -> &'static [Self] {
        match self {
            // With a user of its own, a process can touch no files and processes of others. Without root it has
            // the operator's user, whose files and processes the namespaces hide from it.
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

/// The state of a mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MechanismState {
    /// It is in force.
    On,
    /// It does not apply: the process needs what it would take away.
    Granted,
    /// The system does not support it, or refused it.
    Missing {
        /// The system's reason.
        why: String,
    },
}

/// A mechanism and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Its state.
    pub state: MechanismState,
}

/// The states of a sandbox's mechanisms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Each mechanism once, up to the step at which the process stopped.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn on(&mut self, mechanism: Mechanism) {
        self.findings.push(Finding { mechanism, state: MechanismState::On });
    }

    pub(super) fn granted(&mut self, mechanism: Mechanism) {
        self.findings.push(Finding { mechanism, state: MechanismState::Granted });
    }

    pub(super) fn missing(&mut self, mechanism: Mechanism, why: String) {
        self.findings.push(Finding { mechanism, state: MechanismState::Missing { why } });
    }

    pub(super) fn add(&mut self, mechanism: Mechanism, result: io::Result<()>) {
        match result {
            Ok(()) => self.on(mechanism),
            Err(error) => self.missing(mechanism, error.to_string()),
        }
    }

    /// Whether `mechanism` is in force.
    pub fn is_on(&self, mechanism: Mechanism) -> bool {
        self.findings.iter().any(|it| it.mechanism == mechanism && it.state == MechanismState::On)
    }

    /// The missing mechanisms that no other one replaces, with the reasons.
    pub fn gaps(&self) -> Vec<(Mechanism, &str)> {
        let gap = |mechanism: Mechanism| {
            let others = mechanism.also_done_by();
            if !others.is_empty() && others.iter().all(|other| self.is_on(*other)) {
                return None;
            }
            match self.findings.iter().find(|it| it.mechanism == mechanism).map(|it| &it.state) {
                Some(MechanismState::On | MechanismState::Granted) => None,
                Some(MechanismState::Missing { why }) => Some((mechanism, why.as_str())),
                None => Some((mechanism, "an earlier step failed")),
            }
        };
        Mechanism::ALL.into_iter().filter_map(gap).collect()
    }

    /// The [`gaps`](Self::gaps) as a phrase, each with its reason; `None` if there are none.
    pub fn gaps_text(&self) -> Option<String> {
        let gaps = self.gaps();
        let gaps: Vec<_> = gaps.iter().map(|(gap, why)| format!("{gap} ({why})")).collect();
        (!gaps.is_empty()).then(|| gaps.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_except(missing: &[Mechanism]) -> Report {
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
    fn missing_second_layer_is_no_gap() {
        assert_eq!(all_except(&[]).gaps(), []);
        assert_eq!(all_except(&[Mechanism::LandlockTcp, Mechanism::User]).gaps(), []);
        let both = [Mechanism::LandlockTcp, Mechanism::NetworkNamespace];
        assert_eq!(all_except(&both).gaps().len(), 2);
        assert!(!all_except(&[Mechanism::User, Mechanism::UserNamespace]).gaps().is_empty());
    }

    #[test]
    fn mechanism_without_a_finding_is_missing() {
        assert_eq!(Report::default().gaps().len(), Mechanism::ALL.len());
    }
}
