//! Actions on packets. OpenFlow 1.0.2 §5.2.4.
//!
//! ```text
//!  0      2     4
//! +------+-----+--------------------+
//! | type | len | as the type says   |   len counts all, and is a multiple of 8
//! +------+-----+--------------------+
//! ```

use std::net::Ipv4Addr;

use crate::MacAddr;
use crate::tlv::tlv_enum;
use crate::wire::{Pad, wire_struct};

tlv_enum! {
    /// An action (`ofp_action_*`).
    pub enum Action<'a> = "action", align 8 {
        /// Outputs the packet to a port.
        Output(Output) = 0,
        /// Sets the VLAN id; adds a tag if there is none.
        SetVlanVid(VlanVid) = 1,
        /// Sets the VLAN priority; adds a tag if there is none.
        SetVlanPcp(Byte) = 2,
        /// Removes the VLAN tag.
        StripVlan(NoArgument) = 3,
        /// Sets the Ethernet source.
        SetDlSrc(DlAddr) = 4,
        /// Sets the Ethernet destination.
        SetDlDst(DlAddr) = 5,
        /// Sets the IPv4 source.
        SetNwSrc(Ipv4Addr) = 6,
        /// Sets the IPv4 destination.
        SetNwDst(Ipv4Addr) = 7,
        /// Sets the IPv4 type of service: 6 bits of DSCP and 2 zero bits.
        SetNwTos(Byte) = 8,
        /// Sets the TCP or UDP source.
        SetTpSrc(TpPort) = 9,
        /// Sets the TCP or UDP destination.
        SetTpDst(TpPort) = 10,
        /// Outputs the packet to a queue of a port.
        Enqueue(Enqueue) = 11,
        /// Vendor-defined.
        Vendor(Vendor<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_action_output`.
    pub struct Output = "action_output" {
        /// Output port.
        port: u16,
        /// Maximum number of bytes to send to the controller.
        max_len: u16,
    }

    /// `ofp_action_header`: an action without an argument.
    pub struct NoArgument = "action_header" {
        /// Padding.
        pad: Pad<4>,
    }

    /// `ofp_action_vlan_vid`.
    pub struct VlanVid = "action_vlan_vid" {
        /// The VLAN id, 12 bits.
        vlan_vid: u16,
        /// Padding.
        pad: Pad<2>,
    }

    /// `ofp_action_vlan_pcp`, `ofp_action_nw_tos`.
    pub struct Byte = "action_byte" {
        /// The priority, or the type of service.
        value: u8,
        /// Padding.
        pad: Pad<3>,
    }

    /// `ofp_action_dl_addr`.
    pub struct DlAddr = "action_dl_addr" {
        /// The Ethernet address.
        dl_addr: MacAddr,
        /// Padding.
        pad: Pad<6>,
    }

    /// `ofp_action_tp_port`.
    pub struct TpPort = "action_tp_port" {
        /// The TCP or UDP port.
        tp_port: u16,
        /// Padding.
        pad: Pad<2>,
    }

    /// `ofp_action_enqueue`.
    pub struct Enqueue = "action_enqueue" {
        /// Output port: a physical port or the in-port.
        port: u16,
        /// Padding.
        pad: Pad<6>,
        /// Number of the queue at that port.
        queue_id: u32,
    }

    /// `ofp_action_vendor_header`.
    pub struct Vendor<'a> = "action_vendor" {
        /// Experimenter id.
        vendor: u32,
        /// Data; the vendor pads it so that the action ends on a multiple of 8 bytes.
        data: &'a [u8],
    }
}
