//! What an operator may ask the kernel, and what it answers.
//!
//! Over a socket that the monitor made after it had authenticated the operator (design §2): the
//! monitor passes the kernel's end to the kernel and the other to the operator's command.

use std::time::Duration;

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
    /// Which flows has a switch? It is transactions. Answered by [`Reply::Flows`], [`Reply::NoSwitch`] or
    /// [`Reply::Failed`], at the latest after [`FLOWS_PATIENCE`].
    Flows {
        /// Its datapath identifier.
        dpid: u64,
    },
    /// The flows behind those of the last [`Reply::Flows`], which said that there are more.
    /// Answered as [`Query::Flows`].
    MoreFlows,
    /// How do the apps fare? Answered by [`Reply::Apps`].
    Apps,
}

/// How long the answer to [`Query::Flows`] may take: the kernel gives up before.
pub const FLOWS_PATIENCE: Duration = Duration::from_secs(25);

/// Letters of a flow's match and of its actions, at most; what is cut off ends in `...`.
pub const LONGEST_TEXT: usize = 8 * 1024;

/// Most switches in one reply.
pub const PAGE: usize = 192;

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
    /// Flows of a switch in its own order.
    Flows {
        /// Those of this page.
        flows: Vec<FlowStatus>,
        /// Whether there are more, for [`Query::MoreFlows`].
        more: bool,
    },
    /// No such switch is connected.
    NoSwitch,
    /// It could not be found out.
    Failed {
        /// Why, as a phrase.
        why: String,
    },
    /// All apps.
    Apps(Vec<AppCounters>),
}

/// A flow of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Its table.
    pub table: u8,
    /// Its priority on the switch.
    pub priority: u16,
    /// The name of the app whose it is; `kernel`, or `other` for whoever else wrote it.
    pub owner: String,
    /// Its cookie in hexadecimal: what its owner calls it, or the whole of another's.
    pub cookie: String,
    /// Which packets, in words.
    #[serde(rename = "match")]
    pub match_: String,
    /// What happens to them, in words.
    pub actions: String,
    /// Packets it matched; `None` if the switch does not count them.
    pub packets: Option<u64>,
    /// Bytes it matched; `None` if the switch does not count them.
    pub bytes: Option<u64>,
    /// How long it has been there, in milliseconds.
    pub duration_ms: u64,
    /// Its idle timeout in seconds; 0 is none.
    pub idle_timeout: u16,
    /// Its hard timeout in seconds; 0 is none.
    pub hard_timeout: u16,
}

/// What became of the packet-ins for an app, and of its messages. Counted since the kernel started,
/// over all incarnations of the app.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppCounters {
    /// The app's name.
    pub name: String,
    /// Packet-ins that it was given, or will be given when it is back.
    pub delivered: u64,
    /// Packet-ins that it did not get because it did not keep up.
    pub dropped: u64,
    /// Messages of it that were refused.
    pub refused: u64,
    /// Replies, errors, removed flows and refusals that the app did not get. It did not read them, a switch did not
    /// answer, or too many of its messages without consecutive transaction ids were sent to remember whose an error was.
    #[serde(default)]
    pub lost: u64,
    /// Flow-mods, group-mods, meter-mods, port-mods and table-mods of it that went to switches.
    #[serde(default)]
    pub flow_mods: u64,
    /// Packet-outs of it that did.
    #[serde(default)]
    pub packet_outs: u64,
    /// Messages of it that did and ask for an answer.
    #[serde(default)]
    pub requests: u64,
    /// Bytes that wait for it now, with the worker with which most do.
    #[serde(default)]
    pub queued: u64,
    /// Whether it answers too late, so that no packet waits for it: those of a guard that fails closed are dropped.
    #[serde(default)]
    pub skipped: bool,
    /// Packet-ins that it got and that did not wait for it for this reason.
    #[serde(default)]
    pub passed_over: u64,
    /// Records that its zones have handled, of any kind.
    #[serde(default)]
    pub handled: u64,
    /// Records in the rings of its zone that it has not handled.
    #[serde(default)]
    pub waiting: u64,
    /// Seconds in which it was slowed down for messages that were refused and rings of its doorbell for nothing.
    #[serde(default)]
    pub slowed: u64,
    /// Bytes of its messages that wait now for switches that do not take them at once.
    #[serde(default)]
    pub unsent: u64,
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
    /// Which connection it is: a number that this kernel gives to no other.
    pub epoch: u32,
    /// Ports it has, without the local one.
    pub ports: usize,
    /// Flow tables it has.
    #[serde(default)]
    pub n_tables: u8,
    /// Flows that its first table holds at most; `None` if it does not say.
    #[serde(default)]
    pub table_size: Option<u32>,
    /// Flows in all its tables, as it told last: while flows are added, at most about 10 s ago. `None` if it
    /// does not say.
    #[serde(default)]
    pub flows: Option<u64>,
    /// The table with the most flows for its size; `None` if all are empty, or of no size that it states.
    #[serde(default)]
    pub fullest: Option<Fullest>,
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
    /// Bytes that wait now to be sent to it.
    #[serde(default)]
    pub unsent: u64,
    /// Error messages it sent.
    pub errors: u64,
}

/// A flow table that fills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fullest {
    /// Its number.
    pub table: u8,
    /// Flows in it, as the switch told last.
    pub flows: u64,
    /// Flows that it can hold.
    pub size: u32,
    /// The switch has told that nine tenths of it or more are in use, and not since that it is less than
    /// eight.
    pub nearly_full: bool,
    /// Then, the app that has added most of late; `None` if none has.
    pub app: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::{LONGEST_ANSWER, OPERATORS_PATIENCE};

    #[test]
    fn kernel_gives_up_before_who_asked_does() {
        assert!(LONGEST_ANSWER + OPERATORS_PATIENCE < FLOWS_PATIENCE);
    }
}
