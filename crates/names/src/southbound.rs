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

/// The upper 16 bits of the datapath ids of devices with the schema `hardware_vtep`: "VT". These bits are free for implementers
/// (OpenFlow 1.3.5 §7.3.1), and no known switch uses this value.
pub const VTEP_PREFIX: u16 = 0x5654;

impl Southbound {
    /// Returns the protocol of a datapath by its id, if only the driver of one makes such ids.
    pub fn of_datapath(dpid: u64) -> Option<Self> {
        (dpid >> 48 == u64::from(VTEP_PREFIX)).then_some(Self::HardwareVtep)
    }

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
