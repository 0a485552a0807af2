//! What the monitor and the kernel say to each other over the kernel's control socket.
//!
//! One enum each way. The monitor is the only one that holds the other end, so nothing here is
//! authenticated. Descriptors travel with the message, in the order stated.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use sdk::abi::MAX_BATCH;
use serde::{Deserialize, Serialize};
use sys::sandbox::Report;
use sys::ring::DEFAULT_CAPACITY;

use crate::policy::Policy;

/// An application, by the number it was given (design §10); 0 and 0xffff are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AppId(pub u16);

/// Groups that an app has, as a power of two: its number is in the upper half of a group's.
const GROUP_BITS: u32 = 16;

/// Meters that an app has, as a power of two.
///
/// Switches have few of them, and Open vSwitch numbers them up to 2^18 at most: 256 for each app
/// reach as far as the app with the number 1023 there. A higher app's meters the switch refuses,
/// with an error that the app is told.
const METER_BITS: u32 = 8;

impl AppId {
    /// The groups that are the app's.
    pub fn groups(self) -> RangeInclusive<u32> {
        self.range(GROUP_BITS)
    }

    /// The meters that are the app's.
    pub fn meters(self) -> RangeInclusive<u32> {
        self.range(METER_BITS)
    }

    fn range(self, bits: u32) -> RangeInclusive<u32> {
        let first = u32::from(self.0) << bits;
        first..=first | ((1 << bits) - 1)
    }
}

/// An app, before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Which.
    pub app: AppId,
    /// Its name, for messages.
    pub name: String,
    /// Its rights, and its place among the apps.
    pub policy: Policy,
    /// Where it runs.
    pub host: Host,
    /// Bytes of its configuration, if it runs in the kernel.
    pub config_size: u32,
}

/// Where an app runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// In a zone of its own: a *user app*.
    #[default]
    User,
    /// In the kernel: a *kernel app* (trusted execution).
    Kernel,
}

/// Who may speak OpenFlow over plain TCP, unencrypted and unproven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plain {
    /// Who connects from this machine.
    #[default]
    Loopback,
    /// Everybody who reaches the port.
    Any,
    /// Nobody.
    Never,
}

impl Plain {
    /// Whether who connects from `address` may.
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Loopback => address.to_canonical().is_loopback(),
            Self::Any => true,
            Self::Never => false,
        }
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::Any => "any",
            Self::Never => "never",
        })
    }
}

impl FromStr for Plain {
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

/// What the thread of a worker is called, for who looks at it from outside.
pub fn worker_name(number: usize) -> String {
    format!("worker-{number}")
}

/// How workers work. Nobody needs to think of it who measures nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// Whether each worker keeps to a CPU of its own, if there are several and CPUs for all.
    pub pin: bool,
    /// Bytes that are read of one switch before it is another's turn, within [`READ`](Self::READ).
    pub read: u32,
    /// Bytes of records that each ring holds, a power of two within [`RING`](Self::RING).
    pub ring: u32,
    /// Most records that an app is called with, within [`BATCH`](Self::BATCH).
    pub batch: u16,
    /// Ports of all switches together, beyond the first 64 of each; a switch with more is refused.
    #[serde(default = "Tuning::usual_ports")]
    pub ports: u32,
}

impl Tuning {
    /// Less is hardly more than a packet-in at once; more fits into no core's own cache.
    pub const READ: RangeInclusive<u32> = 4 << 10..=1 << 20;
    /// The longest OpenFlow message takes a quarter of the least.
    pub const RING: RangeInclusive<u32> = 256 << 10..=4 << 20;
    /// The most is that of the app ABI.
    #[expect(clippy::cast_possible_truncation, reason = "64")]
    pub const BATCH: RangeInclusive<u16> = 1..=MAX_BATCH as u16;
    /// The most takes 1.2 GB.
    pub const PORTS: RangeInclusive<u32> = 0..=1 << 24;

    /// A million ports take some 75 MB.
    const fn usual_ports() -> u32 {
        1 << 20
    }
}

impl Default for Tuning {
    /// Two thousand packet-ins and more are read at once, which with what is written for them stay in a second cache of
    /// 1 MiB.
    fn default() -> Self {
        Self {
            pin: true,
            read: 256 << 10,
            ring: DEFAULT_CAPACITY,
            batch: *Self::BATCH.end(),
            ports: Self::usual_ports(),
        }
    }
}

/// The monitor to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first message: begin to serve. Descriptors: one listening TCP socket per address, then
    /// those of [`Keys::to_fds`](crate::tls::keys::Keys::to_fds) if there are keys. Then, if there
    /// are apps that run in the kernel: their configurations, one behind the other, in sealed memory;
    /// the object of each, in sealed memory. Last the memory of the [flight recorder](sys::flight), in
    /// which worker n has seat n.
    Start {
        /// The addresses the sockets are bound to, for messages.
        listeners: Vec<SocketAddr>,
        /// The user and group to become before anything else, if the monitor is root.
        run_as: Option<u32>,
        /// The apps that there will be: until one is attached, a guard counts as silent.
        apps: Vec<App>,
        /// Who may speak plain TCP.
        plain: Plain,
        /// Whether there are keys, so that switches may speak TLS.
        tls: bool,
        /// How many threads serve switches, at most
        /// [`MAX_WORKERS`](crate::pool::MAX_WORKERS); `None` for one per CPU.
        workers: Option<u16>,
        /// How they work.
        tuning: Tuning,
    },
    /// A zone's app is loaded and wants to be connected; answered by [`Answer::Attached`].
    Attach {
        /// Which app. Attaching one that is attached detaches it first.
        app: AppId,
        /// Its name, for messages.
        name: String,
        /// Its rights, and its place among the apps.
        policy: Policy,
    },
    /// The zone's process has ended and been reaped: what its rings hold is final.
    Detach {
        /// Which app.
        app: AppId,
    },
    /// Somebody whom the monitor has authenticated has questions (see [`query`](crate::query)).
    /// Descriptor: their connected socket.
    Operator,
    /// Close everything and exit with code 0.
    Stop,
}

/// The kernel to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The process is confined. Descriptor, if there is one: the listener that is told of refused
    /// system calls ([`sys::sandbox::notifications`]).
    Confined {
        /// What could be done.
        report: Report,
    },
    /// Switches are being served.
    Ready,
    /// New rings. Descriptors for the zone: up doorbell; then, for each worker: up memory, down
    /// memory, down doorbell.
    Attached {
        /// Which app.
        app: AppId,
        /// Bytes of records that each ring holds.
        capacity: u32,
        /// Most records that the app is to be called with.
        batch: u16,
    },
    /// No rings could be made, most likely for want of descriptors; to be tried again.
    NotAttached {
        /// Which app.
        app: AppId,
        /// Why.
        why: String,
    },
    /// The zone lied about its ring (design §5): its app ports are cut, its process must be ended.
    Fault {
        /// Which app.
        app: AppId,
        /// Which rule it broke, with the values.
        why: String,
    },
    /// An app runs in the kernel.
    Hosted {
        /// Which app.
        app: AppId,
        /// The version that its object states.
        version: String,
    },
    /// An app that should run in the kernel panicked, or could not be loaded or created. It is
    /// disabled; the kernel goes on. As soon as its zone is attached it gets what it had not
    /// handled.
    Demoted {
        /// Which app.
        app: AppId,
        /// What happened, as a phrase.
        why: String,
    },
    /// A record has now ended the app twice and will not be delivered a third time.
    SetAside {
        /// Which app.
        app: AppId,
        /// The record, whole, as lower-case hexadecimal digits.
        record: String,
    },
}

#[cfg(test)]
mod tests {
    use openflow::MeterMod;

    use super::*;

    #[test]
    fn ranges_of_apps_do_not_overlap_and_end_below_the_numbers_with_a_meaning() {
        for number in [1, 2, 1023, 0xfffe] {
            let (this, next) = (AppId(number), AppId(number + 1));
            assert_eq!(this.groups().end() + 1, *next.groups().start());
            assert_eq!(this.meters().end() + 1, *next.meters().start());
        }
        assert_eq!(AppId(7).groups(), 0x0007_0000..=0x0007_ffff);
        assert_eq!(AppId(7).meters(), 0x700..=0x7ff);
        assert!(*AppId(0xfffe).groups().end() < 0xffff_ff00, "OFPG_MAX");
        assert!(*AppId(0xfffe).meters().end() < MeterMod::MAX_METER);
        assert!(*AppId(1023).meters().end() < 1 << 18, "Open vSwitch");
    }
}
