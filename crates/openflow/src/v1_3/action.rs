//! Actions on packets. OpenFlow 1.3.5 §7.2.5.
//!
//! ```text
//!  0      2     4
//! +------+-----+--------------------+
//! | type | len | as the type says   |   len counts all, and is a multiple of 8
//! +------+-----+--------------------+
//! ```

use crate::oxm::{OPENFLOW_BASIC, Oxm};
use crate::tlv::tlv_enum;
use crate::wire::{Align8, Pad, WireFormat, wire_struct};
use crate::{DecodeError, PortNo, Reader, Writer};

tlv_enum! {
    /// An action (`ofp_action_*`).
    pub enum Action<'a> = "action", align 8 {
        /// Outputs the packet to a port.
        Output(Output) = 0,
        /// Copies the TTL outwards, from the next-to-outermost header.
        CopyTtlOut(NoArgument) = 11,
        /// Copies the TTL inwards, to the next-to-outermost header.
        CopyTtlIn(NoArgument) = 12,
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
        SetField(SetField<'a>) = 25,
        /// Pushes a PBB service tag.
        PushPbb(EtherType) = 26,
        /// Pops the PBB service tag.
        PopPbb(NoArgument) = 27,
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

/// `ofp_action_set_field`: one OXM, and padding that `len` includes. The field has no mask, unless
/// its class is not the specification's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SetField<'a> {
    /// The field and its value.
    pub field: Oxm<'a>,
    /// Padding.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "crate::json::nothing"))]
    pub pad: Align8,
}

impl<'a> WireFormat<'a> for SetField<'a> {
    #[inline]
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let offset = from.offset();
        let field = Oxm::read(from, "action_set_field.field")?;
        if field.has_mask && field.class == OPENFLOW_BASIC {
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
