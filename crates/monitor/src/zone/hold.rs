//! When an app is not started: as its files are, it would end again.
//!
//! It is looked at each second whether they have changed; the log says it once, and `rosemary apps` as long as
//! it is so.

use std::time::Instant;

use tracing::error;

use super::Zone;
use crate::program::{harmless, shortened};

/// How often the system may fail to load an object before its app is held.
const MOST_LOADS: u32 = 5;

/// An app's files as they were taken: the object's digest, and the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    sha256: String,
    config: Vec<u8>,
}

/// What an app could not be created of.
#[derive(Debug)]
pub(super) struct Unfit {
    files: Files,
    pub(super) why: String,
}

impl Zone {
    /// It has files that cannot be read: it waits for them, which is said once.
    pub(super) fn hold_unread(&mut self, why: String, now: Instant) {
        if self.unread.as_ref() != Some(&why) {
            error!(app = self.name, why, "app was held until its files can be read");
        }
        self.program.hold(now, &why);
        self.unread = Some(why);
    }

    /// It says that it cannot run as its files are: it is held, which is said once.
    pub(super) fn hold_unfit(&mut self, why: &str, hint: Option<&str>, now: Instant) {
        let why = shortened(why, 400);
        let object = self.object.path().display();
        let config = self.config.path().map(|path| path.display().to_string());
        error!(app = self.name, %object, config, why, hint, "app was held until one of its files changes");
        self.unfit = Some(Unfit { files: self.files(), why: harmless(&why, 400) });
        self.failed = true;
        self.program.unfit(now);
    }

    /// The system could not load its object: a few times that may have been the system's fault.
    pub(super) fn could_not_load(&mut self, why: &str, now: Instant) {
        let files = self.files();
        if self.not_loaded.1 != files {
            self.not_loaded = (0, files);
        }
        self.not_loaded.0 += 1;
        if self.not_loaded.0 >= MOST_LOADS {
            let hint =
                "if it needs a library that is not there: install that, and start Rosemary again";
            self.hold_unfit(why, Some(hint), now);
        } else {
            self.fail(why, now);
        }
    }

    /// Whether its files are those that it could not run with. Then it stays held.
    pub(super) fn is_still_unfit(&mut self, now: Instant) -> bool {
        let files = self.files();
        let Some(unfit) = self.unfit.take().filter(|unfit| unfit.files == files) else {
            return false;
        };
        self.program.hold(now, &unfit.why);
        self.unfit = Some(unfit);
        true
    }

    fn files(&self) -> Files {
        let sha256 = self.sha256.clone().unwrap_or_default();
        Files { sha256, config: self.config.taken().to_owned() }
    }
}
