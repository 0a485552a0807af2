//! What the monitor and the kernel say to each other over the kernel's control socket.
//!
//! One enum each way. The monitor is the only one that holds the other end, so nothing here is
//! authenticated. Descriptors travel with the message, in the order stated.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::policy::Policy;

/// An application, by the number it was given (design §10); 0 and 0xffff are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AppId(pub u16);

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

/// The monitor to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first message: begin to serve. Descriptors: one listening TCP socket per address, then
    /// those of [`Keys::to_fds`](crate::tls::keys::Keys::to_fds) if there are keys, then the
    /// object, in sealed memory, of each app that runs in the kernel, then, if there are such
    /// apps, the memory of the [flight recorder](sys::flight).
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
        /// [`MAX_WORKERS`](crate::crew::MAX_WORKERS); `None` for one per CPU.
        workers: Option<u16>,
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
    /// Switches are being served.
    Ready,
    /// New rings. Descriptors for the zone: up doorbell; then, for each worker: up memory, down
    /// memory, down doorbell.
    Attached {
        /// Which app.
        app: AppId,
        /// Bytes of records that each ring holds.
        capacity: u32,
    },
    /// No rings could be made, most likely for want of descriptors; to be tried again.
    NotAttached {
        /// Which app.
        app: AppId,
        /// Why.
        why: String,
    },
    /// The zone lied about its ring (design §5): its links are cut, its process must be ended.
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
