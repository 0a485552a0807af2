//! Which program it is, and its names in the log and in incidents.

use control::incident;

/// The name of the HTTP interface in logs, incidents and lists.
pub const NORTHBOUND: &str = "northbound";

/// Which program this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramKind {
    /// The kernel.
    Kernel,
    /// The service of this name.
    Service(&'static str),
    /// The HTTP interface, which is shown as a service.
    Northbound,
    /// The zone of the app of this name.
    Zone(String),
}

impl ProgramKind {
    /// The name of a service; empty for other programs.
    pub fn service(&self) -> &'static str {
        match self {
            Self::Service(name) => name,
            Self::Northbound => NORTHBOUND,
            Self::Kernel | Self::Zone(_) => "",
        }
    }

    /// The program's name in the log.
    pub fn name(&self) -> String {
        match self {
            Self::Kernel => "kernel".into(),
            Self::Service(_) | Self::Northbound => format!("service {}", self.service()),
            Self::Zone(app) => format!("zone {app}"),
        }
    }

    /// The program as incidents name it.
    pub fn of_incidents(&self) -> incident::Program {
        match self {
            Self::Kernel => incident::Program::kernel(),
            Self::Service(_) | Self::Northbound => incident::Program::service(self.service()),
            Self::Zone(app) => incident::Program::app(app),
        }
    }

    /// The name under which the program's own lines stand in the log.
    pub fn author(&self) -> String {
        match self {
            Self::Kernel => "kernel".into(),
            Self::Service(_) | Self::Northbound => format!("service {}", self.service()),
            Self::Zone(app) => format!("app {app}"),
        }
    }
}
