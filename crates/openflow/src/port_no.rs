//! Port numbers: physical, logical and reserved.

use crate::wire::WireFormat;
use crate::{DecodeError, Reader, Writer};
use core::fmt;

/// A port number, 32 bits wide as in OpenFlow 1.3. OpenFlow 1.3.5 §7.2.1 (`ofp_port_no`).
///
/// The 16-bit numbers of OpenFlow 1.0 are widened so that a reserved port has the same number in
/// every version: see [`crate::v1_0::port_from_wire`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortNo(pub u32);

impl PortNo {
    /// The highest physical or logical port number.
    pub const MAX: Self = Self(0xffff_ff00);
    /// No output in the action set: a value of [`Field::ActsetOutput`](crate::Field::ActsetOutput). From OpenFlow 1.5 on.
    pub const UNSET: Self = Self(0xffff_fff7);
    /// Output only: the in-port of the packet.
    pub const IN_PORT: Self = Self(0xffff_fff8);
    /// Output in a packet-out only: look up the packet in the flow tables.
    pub const TABLE: Self = Self(0xffff_fff9);
    /// The switch's own forwarding, without OpenFlow.
    pub const NORMAL: Self = Self(0xffff_fffa);
    /// All ports except the in-port and those excluded from flooding.
    pub const FLOOD: Self = Self(0xffff_fffb);
    /// All ports except the in-port.
    pub const ALL: Self = Self(0xffff_fffc);
    /// The controller.
    pub const CONTROLLER: Self = Self(0xffff_fffd);
    /// The switch's own network stack.
    pub const LOCAL: Self = Self(0xffff_fffe);
    /// No port, or any port: a wildcard in requests; `NONE` in OpenFlow 1.0.
    pub const ANY: Self = Self(0xffff_ffff);

    /// Whether this is the number of a switch port and not a reserved one.
    ///
    /// The local port counts as reserved.
    #[inline]
    pub fn is_physical(self) -> bool {
        self.0 != 0 && self <= Self::MAX
    }

    /// Whether a host can be behind this port: a physical or logical port, or [`LOCAL`](Self::LOCAL).
    ///
    /// An app that learns the location of hosts must learn from packets of these ports only. A
    /// packet-in may carry a reserved in-port, for example `CONTROLLER`, if a packet-out sent the
    /// packet through the flow tables. Forwarding to that port creates a loop. OpenFlow 1.3.5 §4.5.
    #[inline]
    pub fn is_host_port(self) -> bool {
        self.is_physical() || self == Self::LOCAL
    }

    /// Returns the in-port of a packet-out that answers a packet-in with this in-port: the controller if no host can be behind
    /// it. A packet-in that went through the flow tables may have no in-port or a reserved one, which a packet-out must not
    /// have. OpenFlow 1.3.5 §7.3.7.
    #[inline]
    #[must_use]
    pub fn to_answer(self) -> Self {
        if self.is_host_port() { self } else { Self::CONTROLLER }
    }

    /// Whether this is a common output port: a physical one, `LOCAL`, `FLOOD` or `ALL`.
    ///
    /// These lead to ports of the switch, whatever the in-port is.
    #[inline]
    pub fn is_usual_output(self) -> bool {
        self.is_physical() || matches!(self, Self::LOCAL | Self::FLOOD | Self::ALL)
    }

    /// Returns the name of a reserved port.
    pub(crate) fn reserved_name(self) -> Option<&'static str> {
        Some(match self {
            Self::IN_PORT => "IN_PORT",
            Self::TABLE => "TABLE",
            Self::NORMAL => "NORMAL",
            Self::FLOOD => "FLOOD",
            Self::ALL => "ALL",
            Self::CONTROLLER => "CONTROLLER",
            Self::LOCAL => "LOCAL",
            Self::ANY => "ANY",
            _ => return None,
        })
    }
}

impl fmt::Display for PortNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reserved_name() {
            Some(name) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

impl<'a> WireFormat<'a> for PortNo {
    const SIZE: Option<usize> = Some(4);
    #[inline]
    fn read(from: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        from.u32(field).map(Self)
    }
    #[inline]
    fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_print_their_names_and_others_their_numbers() {
        assert_eq!(PortNo(3).to_string(), "3");
        assert_eq!(PortNo::LOCAL.to_string(), "LOCAL");
        assert_eq!(format!("{:>6}|", PortNo::ALL), "   ALL|");
        assert_eq!(PortNo::MAX.to_string(), "4294967040");
    }

    #[test]
    fn hosts_are_behind_physical_ports_and_local() {
        for port in [PortNo(1), PortNo(0xff00), PortNo::MAX, PortNo::LOCAL] {
            assert!(port.is_host_port(), "{port}");
            assert_eq!(port.to_answer(), port);
        }
        let reserved = 0xffff_ff01..=0xffff_fffd;
        for port in reserved.chain([0, u32::MAX]).map(PortNo) {
            assert!(!port.is_host_port(), "{port}");
            assert_eq!(port.to_answer(), PortNo::CONTROLLER, "{port}");
        }
    }
}
