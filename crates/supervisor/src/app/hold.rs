//! Decides when an app is held: not started, because it would end again with its current files.
//!
//! The event loop looks each second whether the files have changed. The log has one line per reason; `rosemary apps`
//! shows the reason as long as the app is held.

use crate::files::Fingerprint;

/// How often the system may fail to load the same object before its app is held.
const MOST_FAILED_LOADS: u32 = 5;

/// The reasons for which an app is held.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// The files with which the app cannot run.
    rejected: Option<Rejected>,
    /// Why the files could not be read at the last attempt.
    unreadable: Option<String>,
    failed_loads: FailedLoads,
}

#[derive(Debug)]
struct Rejected {
    files: Fingerprint,
    why: String,
}

/// Consecutive failures of the system to load the same object.
#[derive(Debug, Default)]
struct FailedLoads {
    count: u32,
    files: Fingerprint,
}

impl Hold {
    /// The files could not be read. Returns whether this is a new reason, which the log does not have yet.
    pub(super) fn files_unreadable(&mut self, why: &str) -> bool {
        let is_new = self.unreadable.as_deref() != Some(why);
        if is_new {
            self.unreadable = Some(why.to_owned());
        }
        is_new
    }

    /// The files could be read. Returns why the app still cannot run with them, if they have not changed.
    pub(super) fn files_read(&mut self, files: &Fingerprint) -> Option<&str> {
        self.unreadable = None;
        if self.rejected.as_ref().is_some_and(|rejected| rejected.files != *files) {
            self.rejected = None;
        }
        self.reason()
    }

    /// The app cannot run with `files`.
    pub(super) fn reject(&mut self, files: Fingerprint, why: String) {
        self.rejected = Some(Rejected { files, why });
    }

    /// The operator starts the app, whatever it did before with these files.
    pub(super) fn forgive(&mut self) {
        *self = Self::default();
    }

    /// Why the app cannot run with its files, if so.
    pub(super) fn reason(&self) -> Option<&str> {
        self.rejected.as_ref().map(|rejected| rejected.why.as_str())
    }

    /// The system could not load the object. Returns whether that happened too often with these files.
    ///
    /// The first failures may be the system's fault, for example a library that is just being replaced.
    pub(super) fn load_failed(&mut self, files: Fingerprint) -> bool {
        if self.failed_loads.files != files {
            self.failed_loads = FailedLoads { count: 0, files };
        }
        self.failed_loads.count += 1;
        self.failed_loads.count >= MOST_FAILED_LOADS
    }

    /// The app was loaded.
    pub(super) fn loaded(&mut self) {
        self.failed_loads = FailedLoads::default();
    }
}
