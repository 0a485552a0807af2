//! Defines the reasons for which a session ends.

use std::time::Duration;

use openflow::{DecodeError, Dpid, OfferedVersions, Version};
use thiserror::Error;

use crate::session::MAX_PORTS;

/// What makes a switch and this controller agree on a version.
const AGREE: &str = "name a common version in `openflow` of [controller]; for Open vSwitch run `ovs-vsctl clear bridge BRIDGE protocols`";

/// The reason why a session ended: the switch, or a limit of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Closed {
    /// The first bytes belong to another protocol.
    #[error("{0}")]
    NotOpenFlow(String),
    /// The switch offers no version that this controller speaks.
    #[error(
        "no OpenFlow version in common: the switch offers {theirs}, this controller speaks {ours}; {AGREE}"
    )]
    Incompatible {
        /// The versions that this controller offers.
        ours: OfferedVersions,
        /// The versions that the switch offers.
        theirs: String,
    },
    /// The switch refuses every version of this controller.
    #[error(
        "the switch offers {theirs} and refuses the versions of this controller, {ours}: {why}; {AGREE}"
    )]
    Refused {
        /// The versions that this controller offers.
        ours: OfferedVersions,
        /// The versions that the switch's hello offers.
        theirs: String,
        /// Its error message.
        why: String,
    },
    /// The peer violates another protocol than OpenFlow, or is no device that its driver can serve.
    #[error("{protocol}: {why}")]
    Protocol {
        /// The protocol.
        protocol: &'static str,
        /// The fault, and the remedy.
        why: String,
    },
    /// The first message is not a hello.
    #[error("the first message was of type {kind}, not a hello")]
    BeforeHello {
        /// The message's type on the wire.
        kind: u8,
    },
    /// The switch refuses a request of the handshake.
    #[error("the switch refuses to describe its {what}: {why}")]
    RequestRefused {
        /// The subject of the request.
        what: &'static str,
        /// Its error message.
        why: String,
    },
    /// A second features reply.
    #[error("a features reply that was not requested")]
    Unrequested,
    /// A message in another version than the negotiated one.
    #[error("a message in version {theirs:#04x} after {agreed} was agreed on")]
    WrongVersion {
        /// The message's version on the wire.
        theirs: u8,
        /// The negotiated version.
        agreed: Version,
    },
    /// A message of the handshake is malformed, or a length field makes the rest of the stream unreadable.
    #[error("a malformed message: {0}")]
    Malformed(#[from] DecodeError),
    /// The switch has more than [`MAX_PORTS`] ports.
    #[error(
        "it has more than {MAX_PORTS} ports, the most of one switch; divide it into several bridges"
    )]
    TooManyPorts,
    /// All switches together have more ports than allowed.
    #[error(
        "there is no room for its ports ({ports} so far): all switches together may have {most} beyond the first {own} of each; raise `switch-ports` in [controller]"
    )]
    PortsOfAll {
        /// The ports of this switch so far.
        ports: usize,
        /// Ports of each switch that do not count.
        own: usize,
        /// The limit for all others.
        most: usize,
    },
    /// An auxiliary connection, which this controller does not support.
    #[error("auxiliary connection {id}: this controller uses main connections only")]
    Auxiliary {
        /// Its number.
        id: u8,
    },
    /// The datapath is connected already.
    #[error(
        "{dpid} is connected already, from {address}; two switches must not have the same datapath-id"
    )]
    Duplicate {
        /// The datapath.
        dpid: Dpid,
        /// The address of the connection that stays.
        address: String,
    },
    /// Too many port changes while another connection of the datapath was probed.
    #[error("its ports changed too often while another connection with its datapath-id was probed")]
    TooManyChanges,
    /// The switch's certificate is for other datapaths.
    #[error(
        "it claims the datapath {dpid}, but its certificate is for {named}; make one for this datapath with `rosemary pki switch NAME --dpid {dpid}`"
    )]
    Impostor {
        /// The datapath id that the switch states.
        dpid: Dpid,
        /// The datapaths of its certificate.
        named: String,
    },
    /// The handshake took too long.
    #[error("the handshake was not complete after {}", seconds(*.0))]
    Handshake(Duration),
    /// The switch sent no whole message for too long, not even an answer to a probe.
    #[error("silent for {}", seconds(*.0))]
    Silent(Duration),
    /// The switch began a message and sent no whole one for too long.
    #[error(
        "the message that it began was not complete {} after its last whole one", seconds(*.0)
    )]
    Unfinished(Duration),
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f32())
}
