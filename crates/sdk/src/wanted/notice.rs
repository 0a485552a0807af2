//! Tells the application what the library did or could not do: [`Notice`].

use std::fmt;
use std::time::Duration;

use super::difference::Difference;
use crate::Switch;

/// Something that an application may log or act on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A switch has what is wanted, as far as no [`Failed`](Self::Failed) and no [`Full`](Self::Full) says otherwise.
    /// Once for each connection, later when something was done, and when there is room again after a [`Full`](Self::Full).
    Reconciled {
        /// The switch.
        switch: Switch,
        /// Number of missing entries that it has accepted.
        restored: usize,
        /// Number of entries that were there with other content and have the wanted one now.
        changed: usize,
        /// Number of entries that were removed because they are not wanted.
        removed: usize,
        /// Number of entries that were as wanted. They were not touched.
        kept: usize,
        /// Time since the switch's listing was complete.
        took: Duration,
    },
    /// With [`Settings::dry_run`](super::Settings::dry_run): what would be done.
    Difference {
        /// The switch.
        switch: Switch,
        /// The difference.
        difference: Difference,
    },
    /// An entry was not accepted. The library does not send it again to this switch until the entry or the connection
    /// changes.
    Failed {
        /// The switch.
        switch: Switch,
        /// The entry: `flow table=0,priority=3,in_port=1`.
        entry: String,
        /// The cookie as the application declared it; 0 for a group or meter.
        cookie: u64,
        /// The reason, in words.
        why: String,
    },
    /// A switch has no room for some entries. The library tries again later.
    Full {
        /// The switch.
        switch: Switch,
        /// Number of entries that are missing there.
        missing: usize,
        /// The reason, in words.
        why: String,
        /// Time until the next attempt.
        again_in: Duration,
    },
    /// The library cannot read what a switch has, so it adds what is wanted and removes nothing.
    Blind {
        /// The switch.
        switch: Switch,
        /// The reason, in words.
        why: String,
    },
    /// The wanted entries are not in the storage, so the next instance of the application does not have them.
    NotKept {
        /// The reason, in words.
        why: String,
    },
    /// The entries of earlier instances were read from the storage.
    Loaded {
        /// Number of entries that were read.
        entries: usize,
        /// Number of entries that could not be read and are forgotten.
        malformed: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconciled { switch, restored, changed, removed, kept, took } => write!(
                f,
                "{}: restored {restored}, changed {changed}, removed {removed}, kept {kept} wanted entries in {} ms",
                switch.dpid,
                took.as_millis()
            ),
            Self::Difference { switch, difference } => {
                write!(f, "{}: what would be done:\n{difference}", switch.dpid)
            }
            Self::Failed { switch, entry, why, .. } => {
                write!(f, "{} does not have the wanted {entry}: {why}", switch.dpid)
            }
            Self::Full { switch, missing, why, again_in } => write!(
                f,
                "{} has no room for {missing} wanted entries: {why}; the next attempt is in {} s",
                switch.dpid,
                again_in.as_secs()
            ),
            Self::Blind { switch, why } => write!(
                f,
                "cannot read the flows of {}: {why}; wanted entries are added, and nothing is removed",
                switch.dpid
            ),
            Self::NotKept { why } => write!(
                f,
                "the wanted entries are not in the storage: {why}; an app that starts again declares them again"
            ),
            Self::Loaded { entries, malformed: 0 } => {
                write!(f, "read {entries} wanted entries from the storage")
            }
            Self::Loaded { entries, malformed } => write!(
                f,
                "read {entries} wanted entries from the storage and forgot {malformed} malformed ones"
            ),
        }
    }
}
