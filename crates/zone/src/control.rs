//! What the monitor and a zone say to each other over the zone's control socket.
//!
//! One enum each way. The zone may be hostile: the monitor takes an [`Answer`] as a claim of the
//! app's about itself, never as a fact about anything else.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sys::sandbox::{Limits, Report};

/// The numbers on switches that are an app's: of its 0, and of its highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Priorities of flows.
    pub band: (u16, u16),
    /// Groups.
    pub groups: (u32, u32),
    /// Meters.
    pub meters: (u32, u32),
}

/// The monitor to a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first message: confine yourself, load the app. Descriptors: the shared object, and its
    /// configuration, which may be empty, each in a sealed memfd. Answered by [`Answer::Confined`] and then
    /// [`Answer::Loaded`], or by [`Answer::Unfit`], [`Answer::NotLoaded`] or [`Answer::Failed`].
    Load {
        /// The app's name, for messages.
        name: String,
        /// The wall to put up first; `None` to run the app with all that the monitor may, which is
        /// for tests of the wall alone.
        wall: Option<Wall>,
        /// The digest of the object, SHA-256 in hexadecimal digits; another one is not loaded.
        sha256: String,
        /// What is the app's on switches.
        numbers: Numbers,
        /// The services that are named for it, by their names.
        services: Vec<String>,
    },
    /// The first and only message: confine yourself, say what could be done, and exit. Descriptor: as
    /// with [`Load`](Self::Load). Answered by [`Answer::Confined`] or [`Answer::Failed`].
    Try {
        /// The wall to put up.
        wall: Wall,
    },
    /// From now on, note in this memory when the app is called, so that a call that does not come back
    /// is noticed. Descriptor: the memory of a [flight recorder](sys::flight).
    Watch,
    /// Rings of the kernel; the ones before, if any, are dead. Descriptors: up doorbell; then, for
    /// each of the kernel's workers: up memory, down memory, down doorbell.
    Rings {
        /// Bytes of records that each ring holds.
        capacity: u32,
        /// Most records that the app is to be called with.
        batch: u16,
    },
    /// A service is there; the one before of this name, if any, is gone. Descriptor: the socket to
    /// it ([`sys::packets`]).
    Service {
        /// Its name.
        name: String,
    },
    /// The app uses more of something than its soft limit, or as much as its hard one: tell it.
    Alert {
        /// Of what: the number of an [`sdk::Limit`].
        limit: u8,
        /// How much, its soft and its hard limit.
        numbers: [u64; 3],
    },
    /// Exit with code 0 after the batch in hand.
    Stop,
}

/// How a zone is to confine itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wall {
    /// The user and group to become, if the monitor is root.
    pub run_as: Option<u32>,
    /// Whether a wall with gaps is not enough: then the app is not loaded.
    pub full: bool,
    /// What the app may read, by absolute paths.
    pub read: Vec<PathBuf>,
    /// What no app is shown, wherever those lead.
    pub never: Vec<PathBuf>,
    /// What setrlimit(2) is told.
    pub limits: Limits,
}

/// A zone to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The process is confined, and no byte of the object was looked at before. Descriptor, if there
    /// is one: the listener that is told of refused system calls ([`sys::sandbox::notifications`]).
    Confined {
        /// What could be done.
        report: Report,
    },
    /// The app is loaded and created, and waits for rings.
    Loaded {
        /// The version that the object states.
        version: String,
    },
    /// The app cannot be created of this object with this configuration, and so could not be the next
    /// time either; the process exits after this.
    Unfit {
        /// Why, as a phrase.
        why: String,
    },
    /// The system could not load the app's object: it is none, or needs what is not there. The process exits
    /// after this.
    NotLoaded {
        /// Why, as a phrase.
        why: String,
    },
    /// The app cannot be started, or cannot go on; the process exits after this.
    Failed {
        /// Why, as a phrase.
        why: String,
    },
}
