//! Queries of an operator's command to the kernel, and the replies.
//!
//! They travel over a socket that the monitor makes after it has authenticated the operator: the monitor
//! gives one end to the kernel and the other to the command.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::app::AppId;
use crate::details::{DetailPart, Details};

/// Sent by an operator's command to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelQuery {
    /// List the connected switches. Answered by [`KernelQueryReply::Switches`].
    Switches {
        /// Only switches with a greater DPID; `None` for the first page. A reply holds at most [`PAGE`]
        /// switches, so that any number of them can be listed.
        after: Option<u64>,
    },
    /// List the flows of a switch. The kernel requests them from the switch. Answered by
    /// [`KernelQueryReply::Flows`], [`KernelQueryReply::NoSwitch`] or [`KernelQueryReply::Failed`] within
    /// [`FLOWS_TIMEOUT`].
    Flows {
        /// The switch's datapath identifier.
        dpid: u64,
    },
    /// Continue the last [`KernelQueryReply::Flows`], which announced more. Answered as
    /// [`KernelQuery::Flows`].
    MoreFlows,
    /// Report a part of a switch's details. The kernel requests it from the switch. Answered by
    /// [`KernelQueryReply::Details`], [`KernelQueryReply::NoSwitch`] or [`KernelQueryReply::Failed`] within
    /// [`FLOWS_TIMEOUT`].
    Details {
        /// The switch's datapath identifier.
        dpid: u64,
        /// Which part.
        part: DetailPart,
    },
    /// Continue the last [`KernelQueryReply::Details`], which announced more. Answered as
    /// [`KernelQuery::Details`].
    MoreDetails,
    /// List entries of a switch in the form in which it reports them. The kernel requests them from the switch. Answered by
    /// [`KernelQueryReply::Entries`], [`KernelQueryReply::NoSwitch`] or [`KernelQueryReply::Failed`] within
    /// [`FLOWS_TIMEOUT`].
    Entries {
        /// The switch's datapath identifier.
        dpid: u64,
        /// Which entries.
        part: EntryPart,
    },
    /// Continue the last [`KernelQueryReply::Entries`], which announced more. Answered as [`KernelQuery::Entries`].
    MoreEntries,
    /// List the counters of all apps. Answered by [`KernelQueryReply::Apps`].
    Apps,
    /// List the messages that each app has sent to each switch. Answered by [`KernelQueryReply::Senders`].
    Senders {
        /// Only switches with a greater DPID; `None` for the first page.
        after: Option<u64>,
    },
    /// Read what apps that do not run any more, and others, own in the switches. Answered at once, by
    /// [`KernelQueryReply::ReadingOrphans`] or [`KernelQueryReply::NoSwitch`].
    ReadOrphans {
        /// The switch's datapath identifier; `None` for all switches.
        dpid: Option<u64>,
        /// Whether to remove it. Flows of others are removed only from a switch that is named.
        remove: bool,
    },
    /// List what was found. Answered by [`KernelQueryReply::Orphans`].
    Orphans {
        /// The switch's datapath identifier; `None` for all switches.
        dpid: Option<u64>,
        /// Number of entries to leave out, which the command has already.
        skip: usize,
    },
}

/// Kinds of entries of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryPart {
    /// Its flows.
    Flows,
    /// Its groups with their buckets. Not in OpenFlow 1.0.
    Groups,
    /// Its meters with their bands. Not in OpenFlow 1.0.
    Meters,
    /// The features of its tables, which are a mebibyte for Open vSwitch. Not in OpenFlow 1.0.
    TableFeatures,
}

/// How long a command waits for the reply to [`KernelQuery::Flows`] or [`KernelQuery::Details`]; the kernel gives up earlier.
pub const FLOWS_TIMEOUT: Duration = Duration::from_secs(25);

/// Most characters of a flow's match and of its actions; a longer text is cut and ends in `...`.
pub const MAX_TEXT: usize = 8 * 1024;

/// Most switches in one reply.
pub const PAGE: usize = 192;

/// Sent by the kernel to an operator's command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelQueryReply {
    /// Connected switches, by ascending DPID.
    Switches {
        /// The switches of this page.
        switches: Vec<SwitchStatus>,
        /// Whether more switches follow the last of these.
        more: bool,
    },
    /// Flows of a switch, in the switch's order.
    Flows {
        /// The flows of this page.
        flows: Vec<FlowStatus>,
        /// Whether more follow; [`KernelQuery::MoreFlows`] requests them.
        more: bool,
    },
    /// Entries of a switch.
    Entries {
        /// Hexadecimal digits of OpenFlow messages: multipart replies, one behind the other. A page may end within a message.
        messages: String,
        /// In the first page: the numbers and names of the apps whose entries they may be.
        owners: Vec<(AppId, String)>,
        /// Whether more follow; [`KernelQuery::MoreEntries`] requests them.
        more: bool,
    },
    /// A part of a switch's details.
    Details {
        /// The part, or a page of it.
        details: Details,
        /// Whether more follow; [`KernelQuery::MoreDetails`] requests them.
        more: bool,
    },
    /// No such switch is connected.
    NoSwitch,
    /// The kernel could not find out.
    Failed {
        /// The reason, as a phrase.
        why: String,
    },
    /// The counters of all apps.
    Apps(Vec<AppCounters>),
    /// The messages that apps have sent to switches.
    Senders {
        /// All pairs of some switches, by switch and app: at most [`SENDERS`] and those of one switch.
        senders: Vec<SwitchSender>,
        /// Whether more switches follow.
        more: bool,
    },
    /// The switches are being read.
    ReadingOrphans,
    /// Entries in switches whose owners run no longer, as read last.
    Orphans {
        /// The entries of this page, at most [`PAGE`], by switch and app.
        orphans: Orphans,
        /// Whether more entries follow.
        more: bool,
    },
}

/// Number of pairs of a switch and an app at which a page of them ends.
pub const SENDERS: usize = 384;

/// The messages that an app has sent to a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchSender {
    /// The switch's datapath identifier.
    #[serde(rename = "d")]
    pub dpid: u64,
    /// The number of the switch's connection.
    #[serde(rename = "e")]
    pub epoch: u32,
    /// The app's number.
    #[serde(rename = "a")]
    pub app: AppId,
    /// Flow-mods, group-mods, meter-mods, port-mods and table-mods that the kernel admitted on this connection.
    #[serde(rename = "f")]
    pub flow_mods: u64,
}

/// Entries in switches whose owners run no longer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphans {
    /// An entry for each such app in each switch, and one for the flows of others.
    pub found: Vec<Orphan>,
    /// Switches that are still being read for a command.
    pub awaited: usize,
    /// Switches that did not answer when they were read last.
    pub failed: usize,
}

/// What one app that does not run any more owns in a switch, or what others own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// The switch's datapath identifier.
    pub dpid: String,
    /// The app's number; [`AppId::OTHER`] for others.
    pub app: AppId,
    /// The app's name; `other` for others.
    pub owner: String,
    /// Its flows.
    pub flows: u32,
    /// Its groups.
    pub groups: u32,
    /// Its meters.
    pub meters: u32,
}

/// A flow of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Its table.
    pub table: u8,
    /// Its priority on the switch.
    pub priority: u16,
    /// The name of the app that owns it; `kernel`, or `other` if someone else wrote it.
    pub owner: String,
    /// Its cookie in hexadecimal: the owning app's 48 bits, or all 64 bits of a flow of others.
    pub cookie: String,
    /// The match, as text.
    #[serde(rename = "match")]
    pub match_: String,
    /// The actions, as text.
    pub actions: String,
    /// Packets it matched; `None` if the switch does not count them.
    pub packets: Option<u64>,
    /// Bytes it matched; `None` if the switch does not count them.
    pub bytes: Option<u64>,
    /// Its age in milliseconds.
    pub duration_ms: u64,
    /// Its idle timeout in seconds; 0 is none.
    pub idle_timeout: u16,
    /// Its hard timeout in seconds; 0 is none.
    pub hard_timeout: u16,
}

/// Counters of an app's packet-ins and messages, since the kernel started, over all instances of the app.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppCounters {
    /// The app's name.
    pub name: String,
    /// Packet-ins that it received, or will receive once it is back.
    pub delivered: u64,
    /// Packet-ins that were dropped for this app: its ring was full because the app did not keep up, its backlog was
    /// full because the app did not run, or too many packet-ins waited for guards and control apps.
    pub dropped: u64,
    /// Its messages that the kernel refused.
    pub refused: u64,
    /// Replies, errors, removed flows and refusals that did not reach the app: it did not read them, a
    /// switch did not answer, or the kernel could not attribute an error, because too many messages
    /// without consecutive transaction ids were outstanding.
    #[serde(default)]
    pub lost: u64,
    /// Its flow-mods, group-mods, meter-mods, port-mods and table-mods that were sent to switches.
    #[serde(default)]
    pub flow_mods: u64,
    /// Its packet-outs that were sent to switches.
    #[serde(default)]
    pub packet_outs: u64,
    /// Its messages that were sent to switches and request a reply.
    #[serde(default)]
    pub requests: u64,
    /// Bytes queued for it now, at the worker that has the most.
    #[serde(default)]
    pub queued: u64,
    /// Whether it answers too late, so that no packet waits for it. If it is a guard that fails closed,
    /// its packets are dropped.
    #[serde(default)]
    pub skipped: bool,
    /// Packet-ins that it received and that did not wait for it for this reason.
    #[serde(default)]
    pub passed_over: u64,
    /// Records of any kind that its zones have handled.
    #[serde(default)]
    pub handled: u64,
    /// Records in the rings of its zone that it has not handled yet.
    #[serde(default)]
    pub waiting: u64,
    /// Seconds in which the kernel throttled it, for refused messages and needless doorbell rings.
    #[serde(default)]
    pub slowed: u64,
    /// Bytes of its messages that wait now because switches do not take them at once.
    #[serde(default)]
    pub unsent: u64,
    /// Its flow-mods that waited because of its pace.
    #[serde(default)]
    pub delayed: u64,
    /// Bytes of its messages that wait now because of its pace.
    #[serde(default)]
    pub paced: u64,
    /// How long packet-ins took.
    #[serde(default)]
    pub latencies: Latencies,
}

/// The upper bounds of the buckets of [`Latencies`], in microseconds. The last bucket has none.
pub const LATENCY_BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Times from the moment at which the kernel read packet-ins of a switch until the app had handled them. They are samples: each worker
/// times at most one batch of an app at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// The samples of each bucket.
    pub counts: [u64; LATENCY_BOUNDS_US.len() + 1],
    /// Their sum in microseconds.
    pub sum_us: u64,
}

/// A connected switch. Its counters start with its present connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// Its datapath identifier.
    pub dpid: String,
    /// The name of its local port, which is that of the bridge in Open vSwitch. The switch chooses it, and others can have the same.
    /// `None` if the switch reports no local port, or one without a name.
    #[serde(default)]
    pub name: Option<String>,
    /// The OpenFlow version spoken with it, as `1.3`.
    pub version: String,
    /// Its address and port.
    pub address: String,
    /// The transport: `tcp`, or TLS with its version, as `tls 1.3`.
    pub transport: String,
    /// The connection's number, which this kernel gives to no other.
    pub epoch: u32,
    /// Its ports, without the local one.
    pub ports: usize,
    /// Its flow tables.
    #[serde(default)]
    pub n_tables: u8,
    /// Most flows in its first table; `None` if the switch does not state it.
    #[serde(default)]
    pub table_size: Option<u32>,
    /// Flows in all its tables, as the switch reported last: at most about 10 s ago while flows are added.
    /// `None` if the switch does not report it.
    #[serde(default)]
    pub flows: Option<u64>,
    /// Flows that no app of this installation and not the kernel has written, when the kernel read them last: at least once after
    /// each connection.
    #[serde(default)]
    pub foreign_flows: u32,
    /// The table with the most flows relative to its size; `None` if all are empty or of unknown size.
    #[serde(default)]
    pub fullest: Option<Fullest>,
    /// Messages of Rosemary that it does not carry out, although they were repeated.
    #[serde(default)]
    pub failing: Vec<FailingMessage>,
    /// That it sends no packets to a controller and takes none from it; absent for a switch that does both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_packets: Option<NoPackets>,
    /// How the kernel knows its flows.
    #[serde(default)]
    pub flow_monitor: FlowMonitorState,
    /// Why it does not report the changes of its flows, as a phrase about it.
    #[serde(default)]
    pub flow_monitor_off: Option<String>,
    /// Requests for its flows and tables over this connection, by their reason: `heal`, `orphans`, `count`, `apps`, `bands`,
    /// `check`, `monitor`, `operator`, `description`.
    #[serde(default)]
    pub requests: BTreeMap<String, u64>,
    /// The role that it last reported to have given to Rosemary: `nochange`, `equal`, `master` or `slave`.
    #[serde(default)]
    pub role: Option<String>,
    /// Packet-ins received from it.
    pub packet_ins: u64,
    /// Packet-ins that were dropped, for the reasons of [`AppCounters::dropped`]: counted once for each observer or control
    /// app that lost one, and once in all if the queue of waiting packet-ins was full.
    pub dropped: u64,
    /// How often the kernel stopped reading from it for a while, because apps did not keep up.
    #[serde(default)]
    pub pauses: u64,
    /// Packet-ins that were dropped because a guard was silent or down.
    #[serde(default)]
    pub guarded: u64,
    /// Flow-mods sent to it for apps.
    pub flow_mods: u64,
    /// Packet-outs sent to it for apps.
    pub packet_outs: u64,
    /// Messages of apps to it that the kernel refused.
    pub refused: u64,
    /// Bytes waiting to be sent to it.
    #[serde(default)]
    pub unsent: u64,
    /// Error messages received from it.
    pub errors: u64,
}

/// A switch that sends no packets to a controller and takes none from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoPackets {
    /// Why, as a sentence.
    pub why: String,
    /// The apps that need packet-ins, and so do not get the switch.
    pub apps: Vec<String>,
}

/// How the kernel knows the flows of a switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowMonitorState {
    /// The kernel requests them.
    #[default]
    Off,
    /// The switch was asked to report changes, and its list of flows is awaited.
    Waiting,
    /// The switch reports each change.
    On,
    /// The switch reports the changes of others. The kernel requests the numbers of flows.
    Others,
    /// The switch has paused its reports, so the kernel requests the flows.
    Paused,
}

/// A message of Rosemary that a switch does not carry out. Rosemary sends it again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingMessage {
    /// The message, as "the table-miss entry".
    pub message: String,
    /// Why the last attempt failed, as a phrase about the switch.
    pub why: String,
    /// What follows from it, as a phrase.
    pub effect: String,
    /// The number of failed attempts.
    pub tries: u32,
    /// Seconds since the first of them.
    pub seconds: u64,
}

/// The occupancy of a flow table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fullest {
    /// Its number.
    pub table: u8,
    /// Flows in it, as the switch reported last.
    pub flows: u64,
    /// Most flows that it can hold.
    pub size: u32,
    /// Set when the switch reports that nine tenths or more are in use, cleared when it reports less than
    /// eight tenths.
    pub nearly_full: bool,
    /// If `nearly_full`, the app that has recently added the most flows; `None` if none has.
    pub app: Option<String>,
}
