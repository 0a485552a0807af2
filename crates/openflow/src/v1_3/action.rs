//! Actions on packets. OpenFlow 1.3.5 §7.2.5.
//!
//! ```text
//!  0      2     4
//! +------+-----+--------------------+
//! | type | len | as the type says   |   len counts all, and is a multiple of 8
//! +------+-----+--------------------+
//! ```
//!
//! [`Action`] is the table of OpenFlow 1.1 to 1.5 (1.1 §A.2.6, 1.2 §A.2.5, 1.4.1 §7.2.5, 1.5.1 §7.2.6): no
//! number changes its meaning between them.

use std::net::Ipv4Addr;

use crate::oxm::{OPENFLOW_BASIC, Oxm};
use crate::tlv::tlv_enum;
use crate::v1_0::action::{Byte, DlAddr, TpPort, VlanVid};
use crate::v1_5::action::CopyField;
use crate::wire::{Align8, Pad, WireFormat, wire_struct};
use crate::{DecodeError, PortNo, Reader, Writer};

tlv_enum! {
    /// An action (`ofp_action_*`).
    pub enum Action<'a, V> = "action", align 8 {
        /// Outputs the packet to a port.
        Output(Output) = 0,
        /// Sets the VLAN id.
        SetVlanVid(VlanVid) = 1 in 2..=2,
        /// Sets the VLAN priority.
        SetVlanPcp(Byte) = 2 in 2..=2,
        /// Sets the Ethernet source.
        SetDlSrc(DlAddr) = 3 in 2..=2,
        /// Sets the Ethernet destination.
        SetDlDst(DlAddr) = 4 in 2..=2,
        /// Sets the IPv4 source.
        SetNwSrc(Ipv4Addr) = 5 in 2..=2,
        /// Sets the IPv4 destination.
        SetNwDst(Ipv4Addr) = 6 in 2..=2,
        /// Sets the IPv4 type of service: 6 bits of DSCP and 2 zero bits.
        SetNwTos(Byte) = 7 in 2..=2,
        /// Sets the explicit congestion notification, 2 bits.
        SetNwEcn(Byte) = 8 in 2..=2,
        /// Sets the TCP, UDP or SCTP source.
        SetTpSrc(TpPort) = 9 in 2..=2,
        /// Sets the TCP, UDP or SCTP destination.
        SetTpDst(TpPort) = 10 in 2..=2,
        /// Copies the TTL outwards, from the next-to-outermost header.
        CopyTtlOut(NoArgument) = 11,
        /// Copies the TTL inwards, to the next-to-outermost header.
        CopyTtlIn(NoArgument) = 12,
        /// Sets the MPLS label, 20 bits.
        SetMplsLabel(u32) = 13 in 2..=2,
        /// Sets the MPLS traffic class, 3 bits.
        SetMplsTc(Byte) = 14 in 2..=2,
        /// Sets the MPLS TTL.
        SetMplsTtl(Ttl) = 15,
        /// Decrements the MPLS TTL.
        DecMplsTtl(NoArgument) = 16,
        /// Pushes a VLAN tag.
        PushVlan(EtherType) = 17,
        /// Pops the outer VLAN tag.
        PopVlan(NoArgument) = 18,
        /// Pushes an MPLS label.
        PushMpls(EtherType) = 19,
        /// Pops the outer MPLS label; the argument is the ethertype below it.
        PopMpls(EtherType) = 20,
        /// Sets the queue that outputs use.
        SetQueue(u32) = 21,
        /// Processes the packet with a group.
        Group(u32) = 22,
        /// Sets the IP TTL or hop limit.
        SetNwTtl(Ttl) = 23,
        /// Decrements the IP TTL or hop limit.
        DecNwTtl(NoArgument) = 24,
        /// Sets a header field.
        SetField(SetField<'a, V>) = 25 in 3..=6,
        /// Pushes a PBB service tag.
        PushPbb(EtherType) = 26 in 4..=6,
        /// Pops the PBB service tag.
        PopPbb(NoArgument) = 27 in 4..=6,
        /// Copies bits of a field to another.
        CopyField(CopyField) = 28 in 6..=6,
        /// Sends the packet through a meter.
        Meter(u32) = 29 in 6..=6,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_action_output`.
    pub struct Output = "action_output" {
        /// Output port.
        port: PortNo,
        /// Maximum number of bytes to send to the controller; `0xffff` is the whole packet,
        /// unbuffered.
        max_len: u16,
        /// Padding.
        pad: Pad<6>,
    }

    /// `ofp_action_header`: an action without an argument.
    pub struct NoArgument = "action_header" {
        /// Padding.
        pad: Pad<4>,
    }

    /// `ofp_action_mpls_ttl`, `ofp_action_nw_ttl`.
    pub struct Ttl = "action_ttl" {
        /// The time to live.
        ttl: u8,
        /// Padding.
        pad: Pad<3>,
    }

    /// `ofp_action_push`, `ofp_action_pop_mpls`.
    pub struct EtherType = "action_push" {
        /// The ethertype of the tag pushed, or of what the popped one leaves.
        ethertype: u16,
        /// Padding.
        pad: Pad<2>,
    }

    /// `ofp_action_experimenter_header`.
    pub struct Experimenter<'a> = "action_experimenter" {
        /// Experimenter id.
        experimenter: u32,
        /// Data; the experimenter pads it so that the action ends on a multiple of 8 bytes.
        data: &'a [u8],
    }
}

/// The first version whose set-field can have a mask (OpenFlow 1.5.1 §7.2.6.7).
const MASKED_SET_FIELD: u8 = 6;

/// `ofp_action_set_field`: one OXM, and padding that `len` includes. Before OpenFlow 1.5 the field has no mask,
/// unless its class is not the specification's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SetField<'a, const V: u8> {
    /// The field and its value.
    pub field: Oxm<'a>,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Align8,
}

impl<const V: u8> SetField<'_, V> {
    /// Whether the version allows this field as the argument.
    pub(crate) fn allows(field: &Oxm<'_>) -> bool {
        V >= MASKED_SET_FIELD || !field.has_mask || field.class != OPENFLOW_BASIC
    }
}

impl<'a, const V: u8> WireFormat<'a> for SetField<'a, V> {
    #[inline]
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let offset = from.offset();
        let field = Oxm::read(from, "action_set_field.field")?;
        if !Self::allows(&field) {
            return Err(DecodeError::BadValue {
                field: "action_set_field.field",
                offset: offset + 2,
                found: u64::from(field.field) << 1 | 1,
                expected: "a field without a mask",
            });
        }
        let pad = Align8::read(from, "action_set_field.pad", 4 + field.size())?;
        Ok(Self { field, pad })
    }
    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        self.field.write(to);
        self.pad.write(to, 4 + self.field.size());
    }
}
