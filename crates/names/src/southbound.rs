//! The protocols that a listening socket of the kernel can have.

use std::fmt;
use std::str::FromStr;

/// The protocol of the devices that connect at an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Southbound {
    /// OpenFlow.
    #[default]
    OpenFlow,
    /// OVSDB with the schema `hardware_vtep`.
    HardwareVtep,
}

impl Southbound {
    /// Every protocol.
    pub const ALL: [Self; 2] = [Self::OpenFlow, Self::HardwareVtep];

    /// Returns the name in messages between processes.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenFlow => "openflow",
            Self::HardwareVtep => "hardware_vtep",
        }
    }
}

impl fmt::Display for Southbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Southbound {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|it| it.name() == name).ok_or(())
    }
}
