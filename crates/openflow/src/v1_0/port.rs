//! Ports: their description, news about them, changes to them. OpenFlow 1.0.2 §5.2.1, §5.4.3,
//! §5.3.3.

use crate::wire::{Pad, wire_struct};
use crate::{MacAddr, PortName};

wire_struct! {
    /// A physical port (`ofp_phy_port`), 48 bytes.
    pub struct PhyPort = "phy_port" {
        /// Its number.
        port_no: u16,
        /// Its Ethernet address.
        hw_addr: MacAddr,
        /// Its name.
        name: PortName,
        /// What the controller set: `ofp_port_config`.
        config: u32,
        /// What the switch found: `ofp_port_state`.
        state: u32,
        /// What the link does: `ofp_port_features`, as the three that follow.
        curr: u32,
        /// What the port offers.
        advertised: u32,
        /// What the port could do.
        supported: u32,
        /// What the other end offers.
        peer: u32,
    }

    /// The body of a port-status message (`ofp_port_status`).
    pub struct PortStatus = "port_status" {
        /// What happened: `ofp_port_reason`.
        reason: u8,
        /// Padding.
        pad: Pad<7>,
        /// The port as it is now.
        desc: PhyPort,
    }

    /// The body of a port-mod (`ofp_port_mod`).
    pub struct PortMod = "port_mod" {
        /// Which port.
        port_no: u16,
        /// Its Ethernet address, which must be the one the switch told.
        hw_addr: MacAddr,
        /// `ofp_port_config` bits to set.
        config: u32,
        /// Which of them to set.
        mask: u32,
        /// `ofp_port_features` to offer; 0 leaves it as it is.
        advertise: u32,
        /// Padding.
        pad: Pad<4>,
    }
}
