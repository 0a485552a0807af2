//! Looks at the memory of a zone's process where no group counts it, more often near the limit.

use std::time::Instant;

use tracing::warn;

use super::Zone;
use crate::usage::meter::News;

/// When to look at the memory of a process.
#[derive(Debug, Default)]
pub(super) struct MemoryLooks {
    /// `None` while there is no process, or where a group counts its memory.
    due: Option<Instant>,
    /// Whether the log says that the memory of this process cannot be read.
    unread: bool,
}

impl MemoryLooks {
    /// Starts over with a first look at `due`.
    pub(super) fn begin(&mut self, due: Option<Instant>) {
        *self = Self { due, unread: false };
    }
}

impl Zone {
    /// When its memory is to be looked at again.
    pub(crate) fn memory_look(&self) -> Option<Instant> {
        self.memory_looks.due
    }

    /// Looks at its memory, which no group counts. Returns the end if it is above its limit.
    pub(crate) fn look_at_memory(&mut self, now: Instant) -> Option<News> {
        self.memory_looks.due = None; // also if it is being killed
        let memory = match self.program.own_memory()? {
            Ok(memory) => {
                self.memory_looks.unread = false;
                memory
            }
            Err(error) => {
                if !std::mem::replace(&mut self.memory_looks.unread, true) {
                    let hint = "mount /proc without hidepid, or run Rosemary as root";
                    warn!(app = self.name, %error, hint, "could not read the memory of the app");
                }
                0
            }
        };
        self.memory_looks.due = Some(now + self.meter.next_memory_look(memory));
        self.meter.look_at_memory(memory)
    }
}
