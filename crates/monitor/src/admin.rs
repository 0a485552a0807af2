//! What an operator's command and the monitor say to each other over the admin socket.
//!
//! One enum each way, one message per packet. Who asks is known from the socket (peer credentials);
//! a message never says it. The monitor answers for itself and for what it started; for what the
//! kernel knows it hands out a connection to the kernel (design §2).

use serde::{Deserialize, Serialize};

use crate::lifecycle::State;

/// An operator's command to the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// What runs? Answered by [`Tell::Status`].
    Status,
    /// How much does each program use? Answered by [`Tell::Usage`].
    Usage,
    /// A connection to the kernel, please. Answered by [`Tell::Kernel`] or [`Tell::Unavailable`].
    Kernel,
    /// A connection to the log, please. Answered by [`Tell::Log`] or [`Tell::Unavailable`].
    Log,
}

/// The monitor to an operator's command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Tell {
    /// What runs.
    Status(Status),
    /// How much each program uses: the monitor, the kernel, the services, and the apps in their order.
    Usage(Vec<ProgramUsage>),
    /// Descriptor: a socket whose other end the kernel was given; it speaks `kernel::query`.
    Kernel,
    /// Descriptor: a socket whose other end the log was given, to read; it speaks
    /// `services::log::messages`, in the packets of `sdk::services`.
    Log,
    /// You may not ask, or not this.
    Refused {
        /// Why, as a phrase.
        why: String,
    },
    /// Not now.
    Unavailable {
        /// Why, as a phrase.
        why: String,
    },
}

/// Everything that the monitor started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this software.
    pub version: String,
    /// The monitor itself.
    pub monitor: MonitorStatus,
    /// The kernel.
    pub kernel: KernelStatus,
    /// The services that run: the log, and those that apps use.
    pub services: Vec<ServiceStatus>,
    /// The apps.
    pub apps: Vec<AppStatus>,
}

/// The monitor itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MonitorStatus {
    /// Its process.
    pub pid: u32,
    /// Time since it started.
    pub uptime_seconds: f64,
}

/// The kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelStatus {
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// What it does.
    pub state: State,
    /// How often it was started again.
    pub restarts: u64,
    /// How it ended last, as a phrase.
    pub last_exit: Option<String>,
    /// The addresses at which switches connect.
    pub listen: Vec<String>,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// The user that its process is.
    pub uid: u32,
    /// What it does.
    pub state: State,
    /// How often it was started again.
    pub restarts: u64,
    /// How it ended last, as a phrase.
    pub last_exit: Option<String>,
}

/// An app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppStatus {
    /// Its name.
    pub name: String,
    /// Its number, which it keeps for ever.
    pub number: u16,
    /// When packets reach it: `guard`, `control` or `observe`.
    pub stage: String,
    /// The lowest and the highest priority of its flows; `None` if it may write none.
    pub band: Option<[u16; 2]>,
    /// What hosts it: `user` for a zone, `kernel` for the kernel.
    pub host: String,
    /// Why it is no longer in the kernel, where it was to be, as a phrase.
    pub demoted: Option<String>,
    /// The version that its object states, once it is loaded.
    pub version: Option<String>,
    /// SHA-256 of the object that runs, as hexadecimal digits.
    pub sha256: Option<String>,
    /// Where it comes from: `package`, if a developer's key signed it, `shipped` if it came with
    /// Rosemary, `unsigned` if it is a bare file, which is for development.
    pub origin: String,
    /// Whose key, by the name in `[[trust]]`; `None` unless it is from a package.
    pub signed_by: Option<String>,
    /// Its process, if it runs; the kernel's for an app that the kernel hosts.
    pub pid: Option<u32>,
    /// The user that its process is.
    pub uid: u32,
    /// What it does.
    pub state: State,
    /// How often it was started again.
    pub restarts: u64,
    /// How it ended last, as a phrase.
    pub last_exit: Option<String>,
}

/// How much a program uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramUsage {
    /// Its name; an app's own.
    pub name: String,
    /// What it is: `monitor`, `kernel`, `service`, `app`, or `kernel app`, whose memory and time are the kernel's.
    pub kind: String,
    /// What it does.
    pub state: State,
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u64,
    /// How much it uses of everything that there can be a limit on.
    pub uses: Vec<Amount>,
    /// The limits whose soft value it is above now, by name.
    pub above: Vec<String>,
    /// Packet-ins that the app gets in a second; `None` if not known, as of others.
    pub events_per_second: Option<u64>,
    /// Packet-ins that it did not get because it did not keep up, since the kernel started.
    pub dropped: Option<u64>,
    /// Messages of it that were refused, since the kernel started.
    pub refused: Option<u64>,
}

impl ProgramUsage {
    /// How much it uses of that, by the name of the limit.
    pub fn amount(&self, limit: &str) -> Option<&Amount> {
        self.uses.iter().find(|it| it.limit == limit)
    }
}

/// How much a program uses of something, in its unit: bytes, bytes or messages in a second, descriptors,
/// threads, thousandths of a processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Of what: the name of the limit, as in the configuration.
    pub limit: String,
    /// How much; `None` if not known.
    pub value: Option<u64>,
    /// Above this it is told; `None` for no limit.
    pub soft: Option<u64>,
    /// More than this there is not; `None` for no limit.
    pub hard: Option<u64>,
}
