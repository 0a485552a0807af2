//! What the monitor and the kernel say to each other over the kernel's control socket.
//!
//! One enum each way. The monitor is the only one that holds the other end, so nothing here is
//! authenticated. Descriptors travel with the message, in the order stated.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::policy::Policy;

/// An application, by the number it was given (design §10); 0 and 0xffff are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AppId(pub u16);

/// An app, before its zone runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Which.
    pub app: AppId,
    /// Its name, for messages.
    pub name: String,
    /// Its rights, and its place among the apps.
    pub policy: Policy,
}

/// The monitor to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first message: begin to serve. Descriptors: one listening TCP socket per address.
    Start {
        /// The addresses the sockets are bound to, for messages.
        listeners: Vec<SocketAddr>,
        /// The user and group to become before anything else, if the monitor is root.
        run_as: Option<u32>,
        /// The apps that there will be: until one is attached, a guard counts as silent.
        apps: Vec<App>,
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
    /// New rings. Descriptors for the zone: up memory, down memory, up doorbell, down doorbell.
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
    /// A record has now ended the app twice and will not be delivered a third time.
    SetAside {
        /// Which app.
        app: AppId,
        /// The record, whole, as lower-case hexadecimal digits.
        record: String,
    },
}
