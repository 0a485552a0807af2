//! Which program it is, and its names in the log and in incidents.

use control::incident;

/// Which program this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// The kernel.
    Kernel,
    /// The service of this name.
    Service(&'static str),
    /// The zone of the app of this name.
    Zone(String),
}

impl ProgramKind {
    /// The program's name in the log.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Kernel => "kernel".into(),
            Self::Service(name) => format!("service {name}"),
            Self::Zone(app) => format!("zone {app}"),
        }
    }

    /// The program as incidents name it.
    pub(super) fn of_incidents(&self) -> incident::Program {
        match self {
            Self::Kernel => incident::Program::kernel(),
            Self::Service(name) => incident::Program::service(name),
            Self::Zone(app) => incident::Program::app(app),
        }
    }

    /// The name under which the program's own lines stand in the log.
    pub(crate) fn author(&self) -> String {
        match self {
            Self::Kernel => "kernel".into(),
            Self::Service(name) => format!("service {name}"),
            Self::Zone(app) => format!("app {app}"),
        }
    }
}
