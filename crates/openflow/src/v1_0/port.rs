//! Port descriptions, port-status and port-mod messages. OpenFlow 1.0.2 §5.2.1, §5.4.3, §5.3.3.

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
        /// Configuration by the controller: `ofp_port_config`.
        config: u32,
        /// State reported by the switch: `ofp_port_state`.
        state: u32,
        /// Current features: `ofp_port_features`, like the three fields that follow.
        curr: u32,
        /// Advertised features.
        advertised: u32,
        /// Supported features.
        supported: u32,
        /// Features advertised by the peer.
        peer: u32,
    }

    /// The body of a port-status message (`ofp_port_status`).
    pub struct PortStatus = "port_status" {
        /// Reason: `ofp_port_reason`.
        reason: u8,
        /// Padding.
        pad: Pad<7>,
        /// Description of the port after the change.
        desc: PhyPort,
    }

    /// The body of a port-mod (`ofp_port_mod`).
    pub struct PortMod = "port_mod" {
        /// Port number.
        port_no: u16,
        /// Its Ethernet address, which must equal the one in the port description.
        hw_addr: MacAddr,
        /// `ofp_port_config` bits to set.
        config: u32,
        /// Mask of `config`.
        mask: u32,
        /// `ofp_port_features` to advertise; 0 means no change.
        advertise: u32,
        /// Padding.
        pad: Pad<4>,
    }
}
