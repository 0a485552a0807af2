//! Which services there are.

use sdk::services::Service;

/// A service: one that apps may be given, or one that is for Rosemary itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What all programs log, for operators.
    Log,
    /// One that apps ask.
    ForApps(Service),
}

impl Kind {
    /// All that there are, in the order in which they are shown.
    pub const ALL: [Self; 3] =
        [Self::Log, Self::ForApps(Service::Storage), Self::ForApps(Service::Broker)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::ForApps(service) => service.name(),
        }
    }

    /// The name of its program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Log => "rosemary-log",
            Self::ForApps(Service::Storage) => "rosemary-storage",
            Self::ForApps(Service::Broker) => "rosemary-broker",
        }
    }

    /// The name of the file that it keeps its state in, if it keeps any.
    pub fn file(self) -> Option<&'static str> {
        match self {
            Self::Log => Some("log.redb"),
            Self::ForApps(Service::Storage) => Some("storage.redb"),
            Self::ForApps(Service::Broker) => None,
        }
    }

    /// Its number among services, by which its user is told from others'.
    pub fn number(self) -> u32 {
        match self {
            Self::Log => 0,
            Self::ForApps(service) => service.number(), // from 1 on
        }
    }
}
