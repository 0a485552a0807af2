//! The reasons for which the driver refuses a message.
//!
//! A refusal is an error message of OpenFlow that carries the reason as text ([`ErrorMessage::explained`]). OpenFlow's own codes have
//! none for most of them.

use std::net::Ipv4Addr;

use openflow::{ErrorMessage, PortNo};
use thiserror::Error;

use super::{NO_PACKETS, OF};

/// Why a message is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    #[error("{NO_PACKETS}")]
    Packets,
    #[error("a hardware_vtep device knows no {0}; it has flows only")]
    Kind(String),
    #[error("the message is malformed: {0}")]
    Malformed(String),
    #[error("a hardware_vtep device has table 0 only, not table {0}")]
    Table(u8),
    #[error(
        "a hardware_vtep device has flows of three forms: `in_port=` a VLAN of a port, `tunnel_id=`, and `eth_dst=,tunnel_id=`; \
         this one matches {0}"
    )]
    Match(String),
    #[error("{0} is no tunnel key: expected 1 to 16777215")]
    TunnelKey(u64),
    #[error(
        "the flow of an address needs a unicast address, not {0}; `tunnel_id=` alone covers group addresses"
    )]
    Group(String),
    #[error("this flow takes the actions `{expected}`, not {found}")]
    Actions { expected: &'static str, found: String },
    #[error("port {0} is no tunnel; the number of a tunnel is the IPv4 address of its other end")]
    NoTunnel(PortNo),
    #[error("{0} is an address of the device itself, so there is no tunnel to it")]
    OwnAddress(Ipv4Addr),
    #[error("the device has no physical port {0}; `rosemary ports` lists its ports")]
    NoPort(u32),
    #[error("the device removes no flow by itself: leave out the timeouts")]
    Timeouts,
    #[error("the device cannot check for overlapping flows: leave out the flag")]
    CheckOverlap,
    #[error("the device keeps no packets: leave out the buffer")]
    Buffer,
    #[error(
        "another manager of the device has written this entry; remove it there, or choose another address"
    )]
    Foreign,
    #[error(
        "a flow with this match has the priority {0}; the device has one entry for each match, so delete that flow first"
    )]
    OtherPriority(u16),
    #[error(
        "several logical switches of the device have the tunnel key {0}; give each its own with `vtep-ctl set Logical_Switch`"
    )]
    Ambiguous(u32),
    #[error("{0} messages wait for the device; send fewer")]
    TooMany(usize),
    #[error("the device's database refused it: {0}")]
    Database(String),
}

impl Refusal {
    /// The code of the error message. A number does not change its meaning.
    fn code(&self) -> u16 {
        match self {
            Self::Packets => 1,
            Self::Kind(_) => 2,
            Self::Malformed(_) => 3,
            Self::Table(_) => 4,
            Self::Match(_) => 5,
            Self::TunnelKey(_) => 6,
            Self::Group(_) => 7,
            Self::Actions { .. } => 8,
            Self::NoTunnel(_) => 9,
            Self::OwnAddress(_) => 10,
            Self::NoPort(_) => 11,
            Self::Timeouts => 12,
            Self::CheckOverlap => 13,
            Self::Buffer => 14,
            Self::Foreign => 15,
            Self::OtherPriority(_) => 16,
            Self::Ambiguous(_) => 17,
            Self::TooMany(_) => 18,
            Self::Database(_) => 19,
        }
    }

    /// Returns the error message that refuses message `xid`.
    pub(super) fn message(&self, xid: u32) -> Vec<u8> {
        let data = ErrorMessage::explained(&self.to_string());
        let error = ErrorMessage {
            version: OF,
            kind: ErrorMessage::EXPERIMENTER,
            code: self.code(),
            data: &data,
        };
        let mut message = Vec::new();
        // The texts are short, except for those of a server, which the OVSDB client bounds.
        let encoded = openflow::append(&mut message, |out| error.encode(xid, out));
        debug_assert!(encoded.is_ok(), "{self}");
        message
    }
}
