//! The structures of OpenFlow 1.0: every field and every byte of padding.
//!
//! The types mirror the OpenFlow 1.0.2 specification and encode a decoded message to the same
//! bytes. They borrow from the message and do not allocate.

pub mod action;
pub(crate) mod convert;
pub mod flow_mod;
pub mod matching;
mod message;
pub mod packet;
pub mod port;
pub mod queue;
pub mod stats;
pub mod switch;
pub mod symmetric;

pub use action::Action;
pub use flow_mod::{FlowMod, FlowRemoved};
pub use matching::Match;
pub use message::{Body, Message};
pub use packet::{PacketIn, PacketOut};
pub use port::{PhyPort, PortMod, PortStatus};
pub use queue::{QueueGetConfigReply, QueueGetConfigRequest};
pub use stats::{ReplyBody, RequestBody, StatsReply, StatsRequest};
pub use switch::{Features, SwitchConfig};
pub use symmetric::{ErrorMsg, Vendor};

use crate::PortNo;

/// The first of the reserved port numbers of OpenFlow 1.0 (`OFPP_MAX`, OpenFlow 1.0.2 §5.2.1).
pub(crate) const RESERVED_16: u16 = 0xff00;
/// Added to a reserved port number when it is widened.
const WIDENING: u32 = 0xffff_0000;

/// Converts a 16-bit port number: reserved numbers are widened to those of later versions, others
/// are unchanged.
#[inline]
pub fn port_from_wire(port: u16) -> PortNo {
    PortNo(if port >= RESERVED_16 { u32::from(port) | WIDENING } else { port.into() })
}

/// Returns the 16-bit number of a port; `None` if OpenFlow 1.0 cannot express it.
#[inline]
pub fn port_to_wire(port: PortNo) -> Option<u16> {
    let reserved = u32::from(RESERVED_16) | WIDENING;
    match port.0 {
        number if number >= reserved => u16::try_from(number & !WIDENING).ok(),
        number => u16::try_from(number).ok().filter(|&number| number < RESERVED_16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_16_bit_port_round_trips() {
        for port in 0..=u16::MAX {
            assert_eq!(port_to_wire(port_from_wire(port)), Some(port));
        }
        assert_eq!(port_from_wire(0xfffd), PortNo::CONTROLLER);
        assert_eq!(port_from_wire(0xffff), PortNo::ANY);
        assert_eq!(port_to_wire(PortNo(0xff00)), None);
        assert_eq!(port_to_wire(PortNo(0x1_0000)), None);
    }
}
