//! Why the conversation with a switch ended.

use std::time::Duration;

use openflow::{DecodeError, Dpid, Version};
use thiserror::Error;

use super::session::MAX_PORTS;

/// Why a session is over. Always somebody else's doing, and for the record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Closed {
    /// The first byte is not an OpenFlow version.
    #[error("{0}")]
    NotOpenFlow(String),
    /// A version that we do not speak, or none in common.
    #[error(
        "no OpenFlow version in common: the switch offers {theirs}, this controller speaks 1.0 and 1.3; set the bridge's protocols to one of them"
    )]
    Incompatible {
        /// What it offered.
        theirs: String,
    },
    /// The switch refuses every version that we speak.
    #[error(
        "the switch refuses the versions of this controller, 1.0 and 1.3: {why}; set the bridge's protocols to one of them"
    )]
    Refused {
        /// Its error message.
        why: String,
    },
    /// Something else than a hello came first.
    #[error("the first message was of type {kind}, not a hello")]
    BeforeHello {
        /// Its type on the wire.
        kind: u8,
    },
    /// It introduces itself a second time.
    #[error("a features reply that nobody asked for")]
    Unasked,
    /// A message in another version than was agreed on.
    #[error("a message in version {theirs:#04x} after {agreed} was agreed on")]
    WrongVersion {
        /// Its version on the wire.
        theirs: u8,
        /// What was agreed on.
        agreed: Version,
    },
    /// A message of the handshake is broken, or a length field makes the rest unreadable.
    #[error("a malformed message: {0}")]
    Malformed(#[from] DecodeError),
    /// It describes more ports than there can be.
    #[error(
        "it has more than {MAX_PORTS} ports, the most of one switch; divide it into several bridges"
    )]
    TooManyPorts,
    /// All switches together have more ports than they may.
    #[error(
        "there is no room for its ports ({ports} so far): all switches together may have {most} beyond the first {own} of each; raise `switch-ports` in [controller]"
    )]
    PortsOfAll {
        /// Those of this switch, so far.
        ports: usize,
        /// How many of each switch do not count.
        own: usize,
        /// How many there may be beyond those.
        most: usize,
    },
    /// An auxiliary connection, which we do not use.
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
        /// Where the connection that stays comes from.
        address: String,
    },
    /// It told of more changes than are kept while the connection is asked that has its datapath.
    #[error("its ports changed too often while another connection with its datapath-id was asked")]
    TooManyChanges,
    /// The certificate that the switch showed speaks for other datapaths.
    #[error(
        "it calls itself {dpid}, and its certificate is for {named}; make one for this datapath with `rosemary pki switch NAME --dpid {dpid}`"
    )]
    Impostor {
        /// What the switch calls itself.
        dpid: Dpid,
        /// What its certificate says.
        named: String,
    },
    /// The handshake took too long.
    #[error("the handshake was not complete after {}", seconds(*.0))]
    Handshake(Duration),
    /// It said nothing for too long, not even to an echo request.
    #[error("silent for {}", seconds(*.0))]
    Silent(Duration),
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f32())
}
