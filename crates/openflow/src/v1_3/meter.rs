//! Meters: rate limits. OpenFlow 1.3.5 §7.3.4.4.

use crate::tlv::tlv_enum;
use crate::wire::{List, Pad, wire_struct};

wire_struct! {
    /// The body of a meter-mod (`ofp_meter_mod`).
    pub struct MeterMod<'a> = "meter_mod" {
        /// `ofp_meter_mod_command`.
        command: u16,
        /// `ofp_meter_flags`.
        flags: u16,
        /// Meter number.
        meter_id: u32,
        /// Its bands.
        bands: List<'a, MeterBand<'a>>,
    }

    /// `ofp_meter_band_drop`.
    pub struct Drop = "meter_band_drop" {
        /// Rate above which the band applies, in kbit/s or packets per second.
        rate: u32,
        /// Burst size, in kbit or packets.
        burst_size: u32,
        /// Padding.
        pad: Pad<4>,
    }

    /// `ofp_meter_band_dscp_remark`.
    pub struct DscpRemark = "meter_band_dscp_remark" {
        /// Rate above which the band applies, in kbit/s or packets per second.
        rate: u32,
        /// Burst size, in kbit or packets.
        burst_size: u32,
        /// By how much the drop precedence rises.
        prec_level: u8,
        /// Padding.
        pad: Pad<3>,
    }

    /// `ofp_meter_band_experimenter`.
    pub struct Experimenter<'a> = "meter_band_experimenter" {
        /// Rate above which the band applies, in kbit/s or packets per second.
        rate: u32,
        /// Burst size, in kbit or packets.
        burst_size: u32,
        /// Experimenter id.
        experimenter: u32,
        /// Data of the experimenter or vendor.
        data: &'a [u8],
    }
}

tlv_enum! {
    /// A meter band (`ofp_meter_band_header`): the treatment of packets above a rate.
    pub enum MeterBand<'a> = "meter_band", align 8 {
        /// Drops the packet.
        Drop(Drop) = 1,
        /// Raises the packet's drop precedence.
        DscpRemark(DscpRemark) = 2,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}
