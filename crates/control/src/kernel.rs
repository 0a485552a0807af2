//! Messages between the monitor and the kernel, over the kernel's control socket.
//!
//! Only the monitor holds the other end, so messages carry no authentication. Descriptors travel with a
//! message, in the order that its documentation states.

pub use names::Southbound;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use names::MAX_BATCH;
pub use openflow::OfferedVersions;
use serde::{Deserialize, Serialize};
use sys::ring::DEFAULT_CAPACITY;
use sys::sandbox::Report;

use crate::app::{AbsentApp, AppId, Installation};
use crate::hosting::Hosting;
use crate::log::LogLevel;
use crate::policy::Policy;
use crate::session::SessionShares;

/// The highest number of workers: the rings of all of them must fit in one message to a zone.
pub const MAX_WORKERS: u16 = 16;

/// Most apps in [`KernelRequest::AbsentApps`], so that they fit into a message.
pub const MOST_ABSENT: usize = 1000;

// A doorbell, and three descriptors per worker: see `KernelReply::Attached`.
const _: () =
    assert!(3 * (MAX_WORKERS as usize) < sys::channel::MAX_FDS, "an app's rings fit in a message");

/// The thread name of a worker, by which tools find the thread.
pub fn worker_name(number: usize) -> String {
    format!("worker-{number}")
}

/// An app as the kernel must know it before the app runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedApp {
    /// Its number.
    pub app: AppId,
    /// Its name, for messages.
    pub name: String,
    /// Its rights and its position among the apps.
    pub policy: Policy,
    /// What hosts it now.
    pub host: Hosting,
    /// The level of its log, if the kernel hosts it.
    pub log_level: LogLevel,
    /// The size of its configuration in bytes, if the kernel hosts it.
    pub config_size: u32,
    /// The names of the services that it may use, if the kernel hosts it.
    pub services: Vec<String>,
    /// The settings of its hosting, if the kernel hosts it.
    #[serde(default)]
    pub code: HostedCode,
}

/// The settings with which a hosting in the kernel loads an app's object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedCode {
    /// The SHA-256 of the object, in hexadecimal digits.
    pub sha256: String,
    /// The app's options.
    pub options: BTreeMap<String, String>,
}

/// The peers that may speak OpenFlow over plain TCP, which neither encrypts nor authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlainTcp {
    /// Peers on this machine.
    #[default]
    Loopback,
    /// Every peer that reaches the port.
    Any,
    /// No peer.
    Never,
}

impl PlainTcp {
    /// Whether a peer at `address` may speak plain TCP.
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Loopback => address.to_canonical().is_loopback(),
            Self::Any => true,
            Self::Never => false,
        }
    }
}

impl fmt::Display for PlainTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::Any => "any",
            Self::Never => "never",
        })
    }
}

impl FromStr for PlainTcp {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "loopback" => Ok(Self::Loopback),
            "any" => Ok(Self::Any),
            "never" => Ok(Self::Never),
            _ => Err("say loopback (from this machine only), any (from everywhere) or never"),
        }
    }
}

/// The most descriptors that the kernel opens.
pub const MAX_DESCRIPTORS: u64 = 1 << 20;

/// The most threads of the kernel.
pub const MAX_THREADS: u64 = 1024;

/// Settings of the workers. The defaults suit everybody who does not measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// Whether each worker keeps to a CPU of its own, if there are several workers and enough CPUs.
    pub pin: bool,
    /// Bytes that a worker reads from one switch before it turns to the next, within [`READ`](Self::READ).
    pub read: u32,
    /// Bytes of records that each ring holds, a power of two within [`RING`](Self::RING).
    pub ring: u32,
    /// Most records per call of an app, within [`BATCH`](Self::BATCH).
    pub batch: u16,
    /// Most ports of all switches together, beyond the first 64 of each; a switch that exceeds it is refused.
    #[serde(default = "Tuning::default_ports")]
    pub ports: u32,
    /// The versions of OpenFlow that switches may choose; `None` for all, with a preferred one.
    #[serde(default, with = "versions")]
    pub openflow: Option<OfferedVersions>,
}

impl Tuning {
    /// The lower bound is little more than one packet-in; more than the upper exceeds a core's private cache.
    pub const READ: RangeInclusive<u32> = 4 << 10..=1 << 20;
    /// The longest OpenFlow message takes a quarter of the smallest ring.
    pub const RING: RangeInclusive<u32> = 256 << 10..=4 << 20;
    /// The upper bound is the app ABI's.
    #[expect(clippy::cast_possible_truncation, reason = "64")]
    pub const BATCH: RangeInclusive<u16> = 1..=MAX_BATCH as u16;
    /// The upper bound takes 1.2 GB.
    pub const PORTS: RangeInclusive<u32> = 0..=1 << 24;

    /// A million ports take some 75 MB.
    const fn default_ports() -> u32 {
        1 << 20
    }
}

impl Default for Tuning {
    /// One read takes in over two thousand packet-ins. They and the records written for them fit in a
    /// second-level cache of 1 MiB.
    fn default() -> Self {
        Self {
            pin: true,
            read: 256 << 10,
            ring: DEFAULT_CAPACITY,
            batch: *Self::BATCH.end(),
            ports: Self::default_ports(),
            openflow: None,
        }
    }
}

/// Serialises the offered versions as their text.
mod versions {
    use super::OfferedVersions;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
    pub(super) fn serialize<S: Serializer>(
        offered: &Option<OfferedVersions>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        offered.map(|it| it.to_string()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<OfferedVersions>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// A listening socket of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListensAt {
    /// The address that it is bound to, for messages.
    pub address: SocketAddr,
    /// The protocol of those who connect there.
    #[serde(with = "southbound")]
    pub protocol: Southbound,
}

/// Serialises a protocol as its name.
mod southbound {
    use super::Southbound;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
    pub(super) fn serialize<S: Serializer>(it: &Southbound, to: S) -> Result<S::Ok, S::Error> {
        it.name().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Southbound, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(|()| D::Error::custom("not the name of a protocol"))
    }
}

/// Sent by the monitor to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelRequest {
    /// The first message: confine yourself and serve switches. Answered by [`KernelReply::Confined`] and
    /// then [`KernelReply::Ready`].
    ///
    /// Descriptors, in this order: one listening TCP socket per address; the three PEM files of the keys,
    /// each in sealed memory, if `tls` is set (certificate, key, authorities); if the kernel hosts apps,
    /// their configurations, concatenated in sealed memory, and the object of each, in sealed memory; the
    /// memory of the [flight recorder](crate::flight), in which worker n has slot n.
    Start {
        /// The sockets.
        listeners: Vec<ListensAt>,
        /// The user and group to become first, if the monitor is root.
        run_as: Option<u32>,
        /// All apps of the configuration. A guard counts as silent until it is attached.
        apps: Vec<AnnouncedApp>,
        /// The peers that may speak plain TCP.
        plain: PlainTcp,
        /// Whether there are keys, so that switches may speak TLS.
        tls: bool,
        /// The number of workers, at most [`MAX_WORKERS`]; `None` for one per CPU.
        workers: Option<u16>,
        /// Settings of the workers.
        tuning: Tuning,
        /// The installation, for the cookies of the kernel's own flows.
        installation: Installation,
    },
    /// A zone has loaded its app and needs rings. Answered by [`KernelReply::Attached`] or
    /// [`KernelReply::NotAttached`].
    Attach {
        /// The app. If it is attached already, the kernel detaches it first.
        app: AppId,
        /// Its name, for messages.
        name: String,
        /// Its rights and its position among the apps.
        policy: Policy,
    },
    /// The zone's process has ended and was reaped, so the contents of its rings are final.
    Detach {
        /// The app.
        app: AppId,
    },
    /// The rights or the position of an app have changed, or an app was added that has no zone yet. A guard counts as
    /// silent until it is attached.
    Know {
        /// The app.
        app: AppId,
        /// Its name, for messages.
        name: String,
        /// Its rights and its position among the apps.
        policy: Policy,
    },
    /// From now on, divide the work of each worker by these shares of sessions. Apps name theirs in their policies.
    Sessions {
        /// The shares.
        shares: SessionShares,
    },
    /// From now on, charge each call of an app in this process with the memory that it takes, or do so no longer. The charges
    /// are in the [flight recorder](crate::flight).
    ChargeMemory {
        /// Whether calls are charged.
        charge: bool,
    },
    /// From now on, log the lines of this level and of more severe ones of an app that the kernel hosts.
    LogLevel {
        /// The app.
        app: AppId,
        /// The level.
        level: LogLevel,
    },
    /// The app receives no more packets, and none wait for it, until it is attached again. Its flows stay in the
    /// switches. If it is attached, the kernel detaches it first.
    Forget {
        /// The app.
        app: AppId,
    },
    /// An app that the kernel hosts has ended too often: make no further instance of it. The records that it had not handled wait for
    /// its zone.
    Disable {
        /// The app.
        app: AppId,
    },
    /// These apps have a number and do not run: what they own in switches is an orphan. Sent after [`Start`](Self::Start),
    /// at most [`MOST_ABSENT`] at a time; apps of an earlier message stay absent until they are attached. To remove what an
    /// app that has just stopped owns in all switches, the monitor sends this with `remove` set for that app.
    AbsentApps {
        /// The apps.
        apps: Vec<AbsentApp>,
    },
    /// A service runs that an app in the kernel uses, for the first time or again. Descriptors: a socket ([`sys::packets`]) for
    /// the instance of each worker, in the order of the workers; then the service's table, if it has one
    /// ([`sys::table`]). Sent after [`KernelReply::Hosted`].
    Service {
        /// The app.
        app: AppId,
        /// The service's name.
        name: String,
    },
    /// An operator whom the monitor has authenticated sends [queries](crate::query). Descriptor: their
    /// connected socket.
    Operator,
    /// Close everything and exit with code 0.
    Stop,
}

/// A connection that claimed a datapath that it may not have, as its certificate is for others or the datapath is connected. Or
/// a connection that did not complete its handshake, although a switch was connected from its address before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedSwitch {
    /// The datapath identifier that it claimed, or that of the switch which was connected from its address before.
    pub dpid: String,
    /// Its address.
    pub address: SocketAddr,
    /// Why it was refused, as a phrase.
    pub why: String,
    /// Whether the switch closed it, before its handshake was complete, and not the kernel.
    pub closed_by_switch: bool,
}

/// A sign that another controller commands a switch. The kernel repeats it while it sees the sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherController {
    /// The switch's datapath identifier.
    pub dpid: String,
    /// The sign.
    pub sign: OtherSign,
}

/// By what the kernel has noticed another controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtherSign {
    /// The table-miss entry of this installation has replaced the kernel's own.
    Entry(Installation),
    /// The switch refuses messages because another controller is its master.
    Slave,
}

impl fmt::Display for OtherSign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(Installation(id)) => write!(
                f,
                "the Rosemary with the installation {id:#x} has replaced the table-miss entry"
            ),
            Self::Slave => {
                f.write_str("the switch refuses messages because another controller is its master")
            }
        }
    }
}

/// Flows that a switch had lost, and that are restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingFlows {
    /// The switch's datapath identifier.
    pub dpid: String,
    /// How the kernel has noticed it.
    pub loss: FlowLoss,
    /// Number of flows whose loss the kernel has noticed. Those of apps that are no guards are not among them.
    pub flows: u64,
    /// Time from the first notice to the restoration, in milliseconds.
    pub ms: u64,
    /// Events like this one that were not reported since the last.
    pub suppressed: Option<u64>,
}

/// How the kernel has noticed that a switch had lost flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowLoss {
    /// The switch reported the removal of the kernel's table-miss entry.
    EntryReported,
    /// The switch no longer lists the kernel's table-miss entry.
    EntryNotListed,
    /// The switch reported the removal of flows of the guard with this name.
    OfGuard(String),
}

impl fmt::Display for FlowLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EntryReported => {
                f.write_str("the switch reported the removal of the table-miss entry")
            }
            Self::EntryNotListed => f.write_str("the switch no longer lists the table-miss entry"),
            Self::OfGuard(name) => write!(
                f,
                "the switch reported the removal of flows of the guard {name} that Rosemary had not deleted"
            ),
        }
    }
}

/// A message of the kernel's own, or of a guard, that a switch does not carry out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedMessage {
    /// The switch's datapath identifier.
    pub dpid: String,
    /// The message, as "the table-miss entry".
    pub message: String,
    /// Why it failed, as a phrase about the switch.
    pub why: String,
    /// What follows from it, as a phrase.
    pub effect: String,
}

/// Sent by the kernel to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelReply {
    /// The process is confined. Descriptor, if there is one: the listener that reports refused system
    /// calls ([`sys::sandbox::notifications`]).
    Confined {
        /// The confinement that the system granted.
        report: Report,
    },
    /// The kernel serves switches.
    Ready,
    /// New rings. Descriptors for the zone: up doorbell; then, for each worker, up memory, down memory and
    /// down doorbell.
    Attached {
        /// The app.
        app: AppId,
        /// Bytes of records that each ring holds.
        capacity: u32,
        /// Most records per call of the app.
        batch: u16,
    },
    /// The kernel could not make rings, most likely for want of descriptors. The monitor tries again.
    NotAttached {
        /// The app.
        app: AppId,
        /// The reason, as a phrase.
        why: String,
    },
    /// The zone broke the protocol of its rings. The kernel has cut them; the monitor must end the zone's
    /// process.
    Fault {
        /// The app.
        app: AppId,
        /// The rule that it broke, with the values.
        why: String,
    },
    /// An app runs in the kernel.
    Hosted {
        /// The app.
        app: AppId,
        /// The version that its object states.
        version: String,
        /// The number of its instances: one for each worker, at most [`MAX_WORKERS`].
        instances: u16,
    },
    /// An app that the kernel should host panicked, or could not be loaded or created. The kernel has
    /// disabled it and goes on. Once the app's zone is attached, it receives the events that it had not
    /// handled.
    Demoted {
        /// The app.
        app: AppId,
        /// The reason, as a phrase.
        why: String,
    },
    /// An instance of a contained app in the kernel trapped or exceeded a limit. The kernel makes another instance, which
    /// receives the events that were not handled.
    InstanceEnded {
        /// The app.
        app: AppId,
        /// The reason, as a phrase.
        why: String,
    },
    /// A switch had lost flows of the kernel or of a guard, most likely with those of other apps. Guards have put theirs
    /// back, and then the kernel its own.
    FlowsMissing(MissingFlows),
    /// A switch does not carry out a message, which the kernel repeats. A flood of them is reported in part.
    MessageFailed(FailedMessage),
    /// A switch carries out the message that had failed, or has disconnected.
    MessageRecovered {
        /// The switch's datapath identifier.
        dpid: String,
        /// The message.
        message: String,
    },
    /// A connection was refused the datapath that it claimed. A flood of them is reported in part.
    SwitchRefused(RefusedSwitch),
    /// Another controller commands a switch.
    OtherController(OtherController),
    /// A record has ended the app twice. The kernel will not deliver it again.
    SetAside {
        /// The app.
        app: AppId,
        /// The whole record, as lower-case hexadecimal digits.
        record: String,
    },
}
