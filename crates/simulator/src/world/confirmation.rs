//! The promise of a confirmation: a configuration that nobody confirms does not stay, whatever happens meanwhile.

use std::time::{Duration, Instant};

use super::World;
use crate::disk::SLACK;

/// What happens to configurations that wait for a confirmation.
pub(crate) const CONFIRMATIONS: [&str; 5] =
    ["waits", "waits after a restart", "confirmed", "taken back", "taken back by a restart"];

/// A configuration that waits for a confirmation.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Its number.
    id: u64,
    /// The text that returns.
    before: String,
    /// When that text must have returned, unless something is in the way.
    late_at: Instant,
}

impl World {
    /// Checks the state of the confirmation after an event, or after a start.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn check_confirmation(&mut self, is_start: bool) -> Result<(), String> {
        let now = self.now();
        let supervisor = &self.supervisor;
        let (history, running) = (supervisor.history(), supervisor.config().text());
        let last = history.last().ok_or("the history is empty")?;
        if *last.text != *running {
            return Err("the last configuration of the history does not run".into());
        }
        if history.texts().count() > supervisor::change::history::MOST {
            return Err("the history has grown over its bound".into());
        }
        let waits = supervisor.unconfirmed(now);
        let is_confirmed = std::mem::take(&mut self.is_confirmed);
        let mut happened = None;
        match (self.waiting.take(), waits) {
            (None, None) => {}
            (None, Some(waits)) => {
                let before = history.before(waits.id)?.text.to_string();
                let left = Duration::from_secs(waits.seconds_left);
                let late_at = now + left + SLACK;
                self.waiting = Some(Waiting { id: waits.id, before, late_at });
                happened = Some("waits");
            }
            (Some(waiting), Some(waits)) if is_start => {
                self.waiting = Some(Waiting { id: waits.id, ..waiting });
                happened = Some("waits after a restart");
            }
            (Some(waiting), Some(waits)) => {
                if waits.id != waiting.id || last.change.id != waiting.id {
                    return Err("another configuration was applied while one waits".into());
                }
                self.waiting = Some(waiting);
            }
            (Some(_), None) if is_confirmed => happened = Some("confirmed"),
            (Some(waiting), None) => {
                if running != waiting.before || self.disk.file_text() != waiting.before {
                    return Err("a configuration that nobody confirmed stays".into());
                }
                happened = Some(if is_start { "taken back by a restart" } else { "taken back" });
            }
        }
        if let Some(happened) = happened {
            self.coverage.count("confirmation", happened);
        }
        Ok(())
    }

    /// Checks that nothing waits for a confirmation after a long time without faults.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn check_confirmation_in_calm(&self) -> Result<(), String> {
        let programs = self.supervisor.programs();
        let Some(waiting) = self.waiting.as_ref().filter(|it| it.late_at < self.now()) else {
            return Ok(());
        };
        if programs.is_in_safe_mode() || programs.is_stopping() {
            return Ok(());
        }
        let overdue = self.supervisor.unconfirmed(self.now()).and_then(|it| it.overdue);
        let why = overdue.unwrap_or_default();
        Err(format!("change {} is neither confirmed nor taken back in calm: {why}", waiting.id))
    }
}
