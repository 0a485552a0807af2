//! What a worker and the server's thread say to each other.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender};

use sys::doorbell::{Doorbell, Ringer};

use crate::control::AppId;
use crate::flows::Part;
use crate::policy::Policy;
use crate::query::{AppCounters, SwitchStatus};

/// What the server's thread asks of a worker.
#[derive(Debug)]
pub enum Command {
    /// Make rings for an app, new ones if it had some.
    Attach {
        /// Which app.
        app: AppId,
        /// Its name, for messages.
        name: String,
        /// Its rights, and its place among the apps.
        policy: Policy,
    },
    /// The app's zone is dead.
    Detach {
        /// Which app.
        app: AppId,
    },
    /// An app in this process failed on another worker: it is not to be called any more.
    Disable {
        /// Which app.
        app: AppId,
    },
    /// Tell about switches with a greater DPID, at most [`PAGE`], and whether there are more.
    Switches {
        /// `None`: from the start.
        after: Option<u64>,
        /// Where to.
        reply: Sender<(Vec<SwitchStatus>, bool)>,
    },
    /// Ask a switch for its flows; answered by [`Notice::Flows`].
    Flows {
        /// Which switch.
        dpid: u64,
        /// What the answer is to name.
        question: u64,
    },
    /// Tell what became of the packet-ins for apps, and of their messages.
    Apps {
        /// Where to.
        reply: Sender<Vec<AppCounters>>,
    },
    /// Close everything and return.
    Stop,
}

/// What a worker tells the server's thread.
#[derive(Debug)]
pub enum Notice {
    /// An app has rings; the descriptors are the zone's, in the order of
    /// [`Answer::Attached`](crate::control::Answer::Attached).
    Attached {
        /// Which app.
        app: AppId,
        /// Bytes each ring holds.
        capacity: u32,
        /// The zone's descriptors.
        fds: [OwnedFd; 4],
    },
    /// An app could not be given rings.
    NotAttached {
        /// Which app.
        app: AppId,
        /// Why.
        why: String,
    },
    /// An app runs in this process, on this worker.
    Hosted {
        /// Which app.
        app: AppId,
        /// The version that its object states.
        version: String,
    },
    /// An app in this process has failed, and is not called any more on this worker.
    Demoted {
        /// Which app.
        app: AppId,
        /// How.
        why: String,
    },
    /// Something about the flows that were asked for.
    Flows {
        /// What was asked.
        question: u64,
        /// What there is to say.
        part: Part,
    },
    /// The worker is over, one way or another.
    Ended,
    /// An app's zone lied about its ring.
    Fault {
        /// Which app.
        app: AppId,
        /// How.
        fault: String,
    },
    /// A record ended an app twice.
    SetAside {
        /// Which app.
        app: AppId,
        /// The record.
        record: Vec<u8>,
    },
}

/// One end of the pair of channels between a worker and the server.
#[derive(Debug)]
pub struct Wires {
    /// What the server asks.
    pub commands: Receiver<Command>,
    /// Rung after a command was sent.
    pub commands_bell: Doorbell,
    /// What the server is told.
    pub notices: Sender<Notice>,
    /// To be rung after a notice was sent.
    pub notices_bell: Ringer,
}
