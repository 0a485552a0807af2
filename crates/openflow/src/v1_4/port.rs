//! Port descriptions, port-status and port-mod messages. OpenFlow 1.4.1 §7.2.1, §7.4.3, §7.3.4.3; 1.5.1 §7.2.1, §7.4.3,
//! §7.3.4.4.

use super::property::{Experimenter, Properties};
use crate::tlv::tlv_enum;
use crate::v1_3::table::OxmId;
use crate::wire::{List, Pad, sized_struct, wire_struct};
use crate::{MacAddr, PortName, PortNo};

sized_struct! {
    /// A port (`ofp_port`).
    pub struct Port<'a, V> = "port" {
        before {
            /// Its number.
            port_no: PortNo,
        }
        after {
            /// Padding.
            pad: Pad<2>,
            /// Its Ethernet address.
            hw_addr: MacAddr,
            /// Padding.
            pad2: Pad<2>,
            /// Its name.
            name: PortName,
            /// Configuration by the controller: `ofp_port_config`.
            config: u32,
            /// State reported by the switch: `ofp_port_state`.
            state: u32,
            /// Its technology.
            properties: Properties<'a, PortProperty<'a, V>>,
        }
    }
}

tlv_enum! {
    /// A property of a port (`ofp_port_desc_prop_header`).
    pub enum PortProperty<'a, V> = "port_desc_prop", align 1 {
        /// Ethernet.
        Ethernet(EthernetPort) = 0,
        /// Optics.
        Optical(OpticalPort) = 1,
        /// Pipeline fields of packets that come in.
        PipelineInput(List<'a, OxmId>) = 2 in 6..=6,
        /// Pipeline fields of packets that go out.
        PipelineOutput(List<'a, OxmId>) = 3 in 6..=6,
        /// Ports to which it recirculates packets.
        Recirculate(List<'a, u32>) = 4 in 6..=6,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

tlv_enum! {
    /// Changes by a port-mod beside the configuration (`ofp_port_mod_prop_header`).
    pub enum PortModProperty<'a> = "port_mod_prop", align 1 {
        /// Ethernet features to advertise: `ofp_port_features`.
        Ethernet(u32) = 0,
        /// Optics.
        Optical(OpticalMod) = 1,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_port_desc_prop_ethernet`.
    pub struct EthernetPort = "port_desc_prop_ethernet" {
        /// Padding.
        pad: Pad<4>,
        /// Current features: `ofp_port_features`, like the three fields that follow.
        curr: u32,
        /// Advertised features.
        advertised: u32,
        /// Supported features.
        supported: u32,
        /// Features advertised by the peer.
        peer: u32,
        /// Current speed of the link, in kbit/s.
        curr_speed: u32,
        /// Maximum speed of the port, in kbit/s.
        max_speed: u32,
    }

    /// `ofp_port_desc_prop_optical`. Frequencies are in MHz, wavelengths in 0.01 nm.
    pub struct OpticalPort = "port_desc_prop_optical" {
        /// Padding.
        pad: Pad<4>,
        /// Supported features: `ofp_optical_port_features`.
        supported: u32,
        /// Minimum frequency or wavelength of the transmitter.
        tx_min_freq_lmda: u32,
        /// Maximum frequency or wavelength of the transmitter.
        tx_max_freq_lmda: u32,
        /// Grid spacing of the transmitter.
        tx_grid_freq_lmda: u32,
        /// Minimum frequency or wavelength of the receiver.
        rx_min_freq_lmda: u32,
        /// Maximum frequency or wavelength of the receiver.
        rx_max_freq_lmda: u32,
        /// Grid spacing of the receiver.
        rx_grid_freq_lmda: u32,
        /// Minimum transmitted power, in 0.1 dBm.
        tx_pwr_min: u16,
        /// Maximum transmitted power, in 0.1 dBm.
        tx_pwr_max: u16,
    }

    /// `ofp_port_mod_prop_optical`.
    pub struct OpticalMod = "port_mod_prop_optical" {
        /// What to configure: `ofp_optical_port_features`.
        configure: u32,
        /// Frequency or wavelength of the centre.
        freq_lmda: u32,
        /// Offset from that; signed.
        fl_offset: u32,
        /// Grid spacing.
        grid_span: u32,
        /// Transmitted power, in 0.1 dBm.
        tx_pwr: u32,
    }

    /// The body of a port-status message (`ofp_port_status`).
    pub struct PortStatus<'a, V> = "port_status" {
        /// Reason: `ofp_port_reason`.
        reason: u8,
        /// Padding.
        pad: Pad<7>,
        /// Description of the port after the change.
        desc: Port<'a, V>,
    }

    /// The body of a port-mod (`ofp_port_mod`).
    pub struct PortMod<'a> = "port_mod" {
        /// Port number.
        port_no: PortNo,
        /// Padding.
        pad: Pad<4>,
        /// Its Ethernet address, which must equal the one in the port description.
        hw_addr: MacAddr,
        /// Padding.
        pad2: Pad<2>,
        /// `ofp_port_config` bits to set.
        config: u32,
        /// Mask of `config`.
        mask: u32,
        /// Its other changes.
        properties: Properties<'a, PortModProperty<'a>>,
    }
}
