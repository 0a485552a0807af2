//! What an operator may ask the kernel, and what it answers.
//!
//! Over a socket that the monitor made after it had authenticated the operator (design §2): the
//! monitor passes the kernel's end to the kernel and the other to the operator's command.

use serde::{Deserialize, Serialize};

/// An operator's command to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// Which switches are connected? Answered by [`Reply::Switches`].
    Switches {
        /// Only those with a greater DPID; `None` from the start. A reply holds at most
        /// [`PAGE`] switches, so that any number of them can be asked for.
        after: Option<u64>,
    },
    /// How do the apps fare? Answered by [`Reply::Apps`].
    Apps,
}

/// Most switches in one reply.
pub const PAGE: usize = 256;

/// The kernel to an operator's command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Connected switches in the order of their DPIDs.
    Switches {
        /// Those of this page.
        switches: Vec<SwitchStatus>,
        /// Whether there are more after the last of these.
        more: bool,
    },
    /// All apps.
    Apps(Vec<AppCounters>),
}

/// What became of the packet-ins for an app, and of its messages. Counted since the kernel started,
/// over all incarnations of the app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppCounters {
    /// The app's name.
    pub name: String,
    /// Packet-ins that it was given, or will be given when it is back.
    pub delivered: u64,
    /// Packet-ins that it did not get because it did not keep up.
    pub dropped: u64,
    /// Messages of it that were refused.
    pub refused: u64,
}

/// A connected switch. Counters count from its connection, this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// Its datapath identifier.
    pub dpid: String,
    /// The OpenFlow version spoken with it, as `1.3`.
    pub version: String,
    /// Its address and port.
    pub address: String,
    /// What OpenFlow is carried over: `tcp`, or TLS with its version, as `tls 1.3`.
    pub transport: String,
    /// Which connection of this datapath it is, counted by this kernel from 1.
    pub epoch: u32,
    /// Ports it has, without the local one.
    pub ports: usize,
    /// Packet-ins it sent.
    pub packet_ins: u64,
    /// Packet-ins that an app did not get because it did not keep up, for each app.
    pub dropped: u64,
    /// How often it was left unread for a while, because apps did not keep up.
    #[serde(default)]
    pub pauses: u64,
    /// Packet-ins that ended because a guard was silent or away.
    #[serde(default)]
    pub guarded: u64,
    /// Flow-mods sent to it for apps.
    pub flow_mods: u64,
    /// Packet-outs sent to it for apps.
    pub packet_outs: u64,
    /// Messages of apps to it that were refused.
    pub refused: u64,
    /// Error messages it sent.
    pub errors: u64,
}
