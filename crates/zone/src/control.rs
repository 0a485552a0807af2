//! What the monitor and a zone say to each other over the zone's control socket.
//!
//! One enum each way. The zone may be hostile: the monitor takes an [`Answer`] as a claim of the
//! app's about itself, never as a fact about anything else.

use serde::{Deserialize, Serialize};

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
    /// The first message: confine yourself, load the app. Descriptor: the shared object, in a
    /// sealed memfd. Answered by [`Answer::Loaded`] or [`Answer::Failed`].
    Load {
        /// The app's name, for messages.
        name: String,
        /// The user and group to become first, if the monitor is root.
        run_as: Option<u32>,
        /// What is the app's on switches.
        numbers: Numbers,
    },
    /// Rings of the kernel; the ones before, if any, are dead. Descriptors: up doorbell; then, for
    /// each of the kernel's workers: up memory, down memory, down doorbell.
    Rings {
        /// Bytes of records that each ring holds.
        capacity: u32,
    },
    /// Exit with code 0 after the batch in hand.
    Stop,
}

/// A zone to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The app is loaded and created, and waits for rings.
    Loaded {
        /// The version that the object states.
        version: String,
    },
    /// The app could not be loaded, or cannot go on; the process exits after this.
    Failed {
        /// Why, as a phrase.
        why: String,
    },
}
