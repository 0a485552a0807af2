//! The history of the configuration on the invented disk, and the time for a confirmation.

use std::time::Duration;

use config::Config;
use supervisor::change::deployment::StoredConfirmation;
use supervisor::change::history::{Applied, Configuration, History};
use supervisor::change::{AtStart, ITSELF, Unconfirmed, at_start};

use super::{Content, Disk};

/// The most time between the request and the end of the time: it is stored with the time that programs have to load, at first.
pub(crate) const SLACK: Duration = Duration::from_secs(31);

impl Disk {
    /// The text of the file.
    pub(crate) fn file_text(&self) -> String {
        let content = self.0.borrow();
        content.text(content.edition)
    }

    /// From now on no time for a confirmation is stored, although the supervisor is told so.
    pub(crate) fn forget_confirmations(&self) {
        self.0.borrow_mut().forgets_confirmations = true;
    }

    /// Starts with the file, as the monitor does: the configuration before returns if the time for a confirmation is over.
    pub(crate) fn start(&self) -> (Config, History, Option<Unconfirmed>) {
        let content = &mut *self.0.borrow_mut();
        let now = content.clock.get();
        let mut history = History::new(content.history.values().cloned().collect(), 0);
        let stored = content.confirmation.map(|(before, until)| StoredConfirmation {
            before,
            time: until.saturating_duration_since(now),
        });
        let mut waiting = None;
        match at_start(&history, &content.text(content.edition), stored) {
            AtStart::Nothing => {}
            AtStart::Forget | AtStart::Lost => content.confirmation = None,
            AtStart::Wait(StoredConfirmation { before, time }) => waiting = Some((before, time)),
            AtStart::TakeBack { before } if content.is_full => {
                waiting = Some((before, Duration::ZERO));
            }
            AtStart::TakeBack { before } => {
                let text = history.get(before).map(|it| it.text.clone());
                if let Some(edition) = text.and_then(|it| content.edition_of(&it)) {
                    content.use_edition(edition);
                }
                content.confirmation = None;
            }
        }
        let config = content.config();
        if history.last().is_none_or(|last| *last.text != *config.text()) {
            let (waits, text) = (waiting.is_some(), config.text());
            let applied = Applied { who: ITSELF, what: "start", time: 0, waits, text };
            let (new, dropped) = history.add(&applied);
            let stored = content.record(&new, &dropped);
            history.set_stored(stored);
        }
        let unconfirmed = waiting.zip(history.last()).map(|((before, left), last)| Unconfirmed {
            id: last.change.id,
            before,
            until: now + left,
            failure: None,
        });
        (config, history, unconfirmed)
    }
}

impl Content {
    /// Makes an edition the file's.
    pub(super) fn use_edition(&mut self, edition: u64) {
        if let Some(apps) = self.editions.get(&edition) {
            (self.edition, self.apps) = (edition, apps.clone());
        }
    }

    /// Stores a configuration.
    ///
    /// # Errors
    /// The disk is full.
    pub(super) fn record(&mut self, kept: &Configuration, dropped: &[u64]) -> Result<(), String> {
        if self.is_full {
            return Err("the disk is full".into());
        }
        self.history.insert(kept.change.id, kept.clone());
        self.history.retain(|id, _| !dropped.contains(id));
        Ok(())
    }

    /// Stores the time for a confirmation.
    ///
    /// # Errors
    /// The disk is full.
    pub(super) fn await_confirmation(
        &mut self,
        waiting: Option<StoredConfirmation>,
    ) -> Result<(), String> {
        if self.is_full && waiting.is_some() {
            return Err("the disk is full".into());
        }
        let now = self.clock.get();
        let waiting = waiting.filter(|_| !self.forgets_confirmations);
        self.confirmation = waiting.map(|it| (it.before, now + it.time));
        Ok(())
    }
}
