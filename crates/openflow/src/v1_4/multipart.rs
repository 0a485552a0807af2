//! Content of multipart messages. OpenFlow 1.4.1 §7.3.5.2, §7.3.5.6, §7.3.5.8; ports and queues are the same in 1.5 (1.5.1
//! §7.3.5.7, §7.3.5.9).

use super::property::{Experimenter, Properties};
use crate::PortNo;
use crate::tlv::tlv_enum;
use crate::v1_3::Match;
use crate::v1_3::instruction::Instruction;
use crate::wire::{List, Pad, sized_struct, wire_struct};

sized_struct! {
    /// `ofp_flow_stats`.
    pub struct FlowStats<'a> = "flow_stats" {
        before {}
        after {
            /// The entry's table.
            table_id: u8,
            /// Padding.
            pad: Pad<1>,
            /// Lifetime of the entry, in seconds.
            duration_sec: u32,
            /// Nanoseconds beyond `duration_sec`.
            duration_nsec: u32,
            /// The entry's priority.
            priority: u16,
            /// The entry's idle timeout, in seconds.
            idle_timeout: u16,
            /// The entry's hard timeout, in seconds.
            hard_timeout: u16,
            /// `ofp_flow_mod_flags`.
            flags: u16,
            /// Importance for eviction.
            importance: u16,
            /// Padding.
            pad2: Pad<2>,
            /// The entry's cookie.
            cookie: u64,
            /// Number of matched packets.
            packet_count: u64,
            /// Number of matched bytes.
            byte_count: u64,
            /// Its match.
            #[cfg_attr(feature = "serde", serde(rename = "match"))]
            match_: Match<'a>,
            /// Its instructions.
            instructions: List<'a, Instruction<'a, 5>>,
        }
    }

    /// `ofp_port_stats`. A counter of all ones is not kept by the switch.
    pub struct PortStats<'a> = "port_stats" {
        before {}
        after {
            /// Padding.
            pad: Pad<2>,
            /// Port number.
            port_no: PortNo,
            /// Lifetime of the port, in seconds.
            duration_sec: u32,
            /// Nanoseconds beyond `duration_sec`.
            duration_nsec: u32,
            /// Packets received.
            rx_packets: u64,
            /// Packets sent.
            tx_packets: u64,
            /// Bytes received.
            rx_bytes: u64,
            /// Bytes sent.
            tx_bytes: u64,
            /// Packets dropped on reception.
            rx_dropped: u64,
            /// Packets dropped on sending.
            tx_dropped: u64,
            /// Errors on reception.
            rx_errors: u64,
            /// Errors on sending.
            tx_errors: u64,
            /// Counters of its technology.
            properties: Properties<'a, PortStatsProperty<'a>>,
        }
    }

    /// `ofp_queue_stats`.
    pub struct QueueStats<'a> = "queue_stats" {
        before {}
        after {
            /// Padding.
            pad: Pad<6>,
            /// Port number.
            port_no: PortNo,
            /// Queue number.
            queue_id: u32,
            /// Bytes sent.
            tx_bytes: u64,
            /// Packets sent.
            tx_packets: u64,
            /// Packets dropped because the queue was full.
            tx_errors: u64,
            /// Lifetime of the queue, in seconds.
            duration_sec: u32,
            /// Nanoseconds beyond `duration_sec`.
            duration_nsec: u32,
            /// Its properties.
            properties: Properties<'a>,
        }
    }
}

tlv_enum! {
    /// Counters of a port's technology (`ofp_port_stats_prop_header`).
    pub enum PortStatsProperty<'a> = "port_stats_prop", align 1 {
        /// Ethernet.
        Ethernet(EthernetStats) = 0,
        /// Optics.
        Optical(OpticalStats) = 1,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}

wire_struct! {
    /// `ofp_port_stats_prop_ethernet`.
    pub struct EthernetStats = "port_stats_prop_ethernet" {
        /// Padding.
        pad: Pad<4>,
        /// Frame alignment errors.
        rx_frame_err: u64,
        /// Packets received too fast.
        rx_over_err: u64,
        /// CRC errors.
        rx_crc_err: u64,
        /// Collisions.
        collisions: u64,
    }

    /// `ofp_port_stats_prop_optical`. Frequencies are in MHz, wavelengths in 0.01 nm.
    pub struct OpticalStats = "port_stats_prop_optical" {
        /// Padding.
        pad: Pad<4>,
        /// Which of the values are valid: `ofp_port_stats_optical_flags`.
        flags: u32,
        /// Frequency or wavelength of the transmitter.
        tx_freq_lmda: u32,
        /// Offset of the transmitter's signal.
        tx_offset: u32,
        /// Grid spacing of the transmitter.
        tx_grid_span: u32,
        /// Frequency or wavelength of the receiver.
        rx_freq_lmda: u32,
        /// Offset of the receiver's signal.
        rx_offset: u32,
        /// Grid spacing of the receiver.
        rx_grid_span: u32,
        /// Transmitted power, in 0.1 dBm.
        tx_pwr: u16,
        /// Received power, in 0.1 dBm.
        rx_pwr: u16,
        /// Bias current of the transmitter, in 0.1 mA.
        bias_current: u16,
        /// Temperature of the transmitter, in 0.1 degrees Celsius.
        temperature: u16,
    }
}
