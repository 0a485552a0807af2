//! Takes a configuration back that nobody confirms in time, and records the configurations that are applied.
//!
//! ```text
//! reload --confirm S --> the time is stored --> candidates load --> applied, Unconfirmed --> confirm: it stays
//!                              |                     |                    |
//!                              +--- refused: forgotten                    +--> S seconds are over, or undo: the one before returns
//! ```
//!
//! The time is stored before anything changes, so a monitor that dies at any moment finds it at its next start. At the end of the time
//! the configuration before returns like any other one: it is planned, its apps are loaded, and it becomes the file's. If it cannot be
//! applied, the attempt is repeated after [`RETRY`]. In safe mode it waits for the end of safe mode.

use std::time::{Duration, Instant};

use control::change::{Change, ChangeState, LONGEST_CONFIRMATION_S, Outcome, UnconfirmedConfig};
use tracing::{error, warn};

use super::changes::{Basis, Changes, Running, TIMEOUT};
use super::deployment::{EarlierConfig, Plan, StoredConfirmation};
use super::difference::Difference;
use super::history::{Applied, History};
use super::purpose::{NewText, Purpose, Reload};
use crate::programs::Programs;

/// The time until the next attempt to take a configuration back.
const RETRY: Duration = Duration::from_secs(30);

/// Who takes a configuration back that nobody has confirmed.
pub const ITSELF: &str = "Rosemary";

/// A configuration that waits for its confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unconfirmed {
    /// Its number.
    pub id: u64,
    /// The number of the configuration that returns without a confirmation.
    pub before: u64,
    /// When that one returns, or when the next attempt is made.
    pub until: Instant,
    /// Why the last attempt failed, as a phrase, if it did.
    pub failure: Option<String>,
}

/// What a start does with the stored time for a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtStart {
    /// Nothing waits for a confirmation.
    Nothing,
    /// The change was not applied, or was taken back: the time is forgotten.
    Forget,
    /// The configuration stays although nobody confirmed it, because the one before is lost: the time is forgotten.
    Lost,
    /// The configuration goes on waiting.
    Wait(StoredConfirmation),
    /// The time is over: the configuration `before` returns.
    TakeBack {
        /// Its number.
        before: u64,
    },
}

/// Decides what a start does with the stored time for a confirmation. `loaded` is the text of the configuration that was loaded.
pub fn at_start(history: &History, loaded: &str, stored: Option<StoredConfirmation>) -> AtStart {
    let Some(StoredConfirmation { before, time }) = stored else { return AtStart::Nothing };
    match history.get(before) {
        None => AtStart::Lost,
        Some(it) if *it.text == *loaded => AtStart::Forget,
        Some(_) if time.is_zero() => AtStart::TakeBack { before },
        Some(_) => AtStart::Wait(StoredConfirmation { before, time }),
    }
}

/// The time for a confirmation, from a request.
pub(super) fn time_of(confirm: Option<u32>) -> Option<Duration> {
    confirm.map(|seconds| Duration::from_secs(seconds.into()))
}

impl Changes {
    /// Refuses a change that does not fit the configuration which waits for a confirmation.
    ///
    /// # Errors
    /// Why it does not fit, as a phrase.
    pub(super) fn fits_confirmation(&self, change: &Change, now: Instant) -> Result<(), String> {
        let (dry_run, confirm) = match change {
            Change::Reload { dry_run, confirm }
            | Change::Configure { dry_run, confirm, .. }
            | Change::Undo { dry_run, confirm, .. } => (*dry_run, *confirm),
            _ => return Ok(()),
        };
        if confirm.is_some_and(|seconds| !(1..=LONGEST_CONFIRMATION_S).contains(&seconds)) {
            return Err(format!(
                "the time for a confirmation is not between 1 and {LONGEST_CONFIRMATION_S} seconds"
            ));
        }
        let Some(unconfirmed) = self.basis.unconfirmed.as_ref().filter(|_| !dry_run) else {
            return Ok(());
        };
        let id = unconfirmed.id;
        match change {
            Change::Undo { id: undone, confirm: None, .. } if *undone == id => Ok(()),
            Change::Undo { id: undone, .. } if *undone == id => Err(format!(
                "change {id} waits for a confirmation, and the configuration before it was confirmed; leave out --confirm"
            )),
            _ => {
                let left = seconds_left(unconfirmed.until, now);
                Err(format!(
                    "change {id} of the configuration waits for a confirmation for another {left} s; type \
                     `rosemary confirm` to keep it, or `rosemary undo {id}` to take it back"
                ))
            }
        }
    }

    /// The configuration before the change `id`.
    ///
    /// # Errors
    /// Why it cannot return, as a phrase.
    pub(super) fn earlier(
        &self,
        id: u64,
        force: bool,
        keeps_reserved: bool,
    ) -> Result<EarlierConfig, String> {
        let history = &self.basis.history;
        // If the file was edited and Rosemary restarted meanwhile, others are in between.
        let unconfirmed = self.basis.unconfirmed.as_ref().filter(|it| it.id == id);
        let before = unconfirmed.and_then(|it| history.get(it.before));
        let text = before.map_or_else(|| history.before(id), Ok)?.text.clone();
        let loaded = self.basis.config.text().into();
        Ok(EarlierConfig { text, loaded, force, keeps_reserved })
    }

    /// The configuration that waits for a confirmation, for operators.
    pub(crate) fn unconfirmed(
        &self,
        programs: &Programs,
        now: Instant,
    ) -> Option<UnconfirmedConfig> {
        let Unconfirmed { id, until, failure, .. } = self.basis.unconfirmed.as_ref()?;
        let is_late = failure.is_none() && *until <= now;
        let waits = (is_late && programs.is_in_safe_mode())
            .then(|| "Rosemary is in safe mode; end it with `rosemary safe-mode exit`".to_owned());
        let overdue = failure.clone().or(waits);
        Some(UnconfirmedConfig { id: *id, seconds_left: seconds_left(*until, now), overdue })
    }

    /// Takes the configuration back if its time is over and no other change is being made.
    pub(crate) fn return_if_due(&mut self, programs: &mut Programs, now: Instant) {
        let unconfirmed = self.basis.unconfirmed.as_ref().filter(|it| it.until <= now);
        let Some(id) = unconfirmed.map(|it| it.id) else { return };
        if self.is_busy() || programs.is_changing() || programs.is_in_safe_mode() {
            return;
        }
        self.end_watch(programs, now);
        // An edit of the file must not keep the network from its former state; the edited text is kept.
        let earlier = match self.earlier(id, true, false) {
            Ok(earlier) => earlier,
            Err(why) => return self.not_taken_back(id, &why, now),
        };
        let purpose = Purpose::Reload(Reload {
            dry_run: false,
            text: NewText::Earlier(earlier),
            confirm: None,
            takes_back: Some(id),
            over_http: false,
        });
        let what = format!("undo {id}, as nobody confirmed it");
        warn!(change = id, "nobody confirmed a configuration in time; the one before returns");
        let mut running = self.new_running((ITSELF, what), (purpose, None, true), programs, now);
        running.report.state = running.begin_planning(&mut self.basis, programs);
        self.run(running, programs, now);
    }

    /// A configuration could not be taken back.
    pub(super) fn not_taken_back(&mut self, id: u64, why: &str, now: Instant) {
        let Some(unconfirmed) = self.basis.unconfirmed.as_mut().filter(|it| it.id == id) else {
            return;
        };
        if unconfirmed.until > now {
            return; // an operator requested it before the time was over
        }
        let hint = "correct that; the attempt is repeated every 30 s";
        error!(change = id, why, hint, "an unconfirmed configuration could not be taken back");
        (unconfirmed.until, unconfirmed.failure) = (now + RETRY, Some(why.to_owned()));
    }
}

/// Whole seconds until a time, rounded up.
fn seconds_left(until: Instant, now: Instant) -> u64 {
    until.saturating_duration_since(now).as_millis().div_ceil(1_000).try_into().unwrap_or(u64::MAX)
}

impl Running {
    /// Keeps the configuration that waits for a confirmation. Returns the change's state.
    pub(super) fn confirm(&mut self, basis: &mut Basis) -> ChangeState {
        let Some(id) = basis.unconfirmed.as_ref().map(|it| it.id) else {
            let why = "no configuration waits for a confirmation".to_owned();
            return ChangeState::Refused { why };
        };
        if let Err(why) = basis.deployment.await_confirmation(None) {
            let why = format!("the confirmation could not be stored: {why}");
            return ChangeState::Refused { why };
        }
        basis.unconfirmed = None;
        basis.set_outcome(id, Outcome::Confirmed);
        self.report
            .notices
            .push(format!("Change {id} of the configuration is confirmed and stays."));
        ChangeState::Done
    }

    /// Stores, before anything changes, that the planned configuration will wait for a confirmation.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase: also that its end would change reserved keys for a client of the HTTP interface.
    pub(super) fn announce_confirmation(
        &mut self,
        plan: &Plan,
        difference: &Difference,
        basis: &mut Basis,
    ) -> Result<(), String> {
        let Purpose::Reload(reload) = &mut self.purpose else { return Ok(()) };
        let Some(time) = reload.confirm else { return Ok(()) };
        if difference.steps.iter().any(|step| step.changes_files) {
            let notice = "Files of apps have changed, too; they are no part of the configuration, and stay if nobody confirms it.";
            self.report.notices.push(notice.into());
        }
        if plan.config.text() == basis.config.text() {
            reload.confirm = None;
            let notice =
                "The configuration is the same as before, so nothing waits for a confirmation.";
            self.report.notices.push(notice.into());
            return Ok(());
        }
        if reload.over_http {
            let keys = config::reserved::differing(basis.config.text(), plan.config.text())?;
            if !keys.is_empty() {
                return Err(format!(
                    "the file changes {}, and over the HTTP interface nobody takes that back; reload it without confirm_within, or use \
                     `rosemary reload --confirm` on the machine",
                    keys.join(", ")
                ));
            }
        }
        store_confirmation(basis, TIMEOUT + time)
    }

    /// Stores that the configuration waits for a confirmation from now on.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    pub(super) fn begin_confirmation(&self, basis: &mut Basis) -> Result<(), String> {
        match &self.purpose {
            Purpose::Reload(Reload { confirm: Some(time), .. }) => store_confirmation(basis, *time),
            _ => Ok(()),
        }
    }

    /// Forgets that the configuration was to wait for a confirmation, as it is not applied.
    pub(super) fn drop_confirmation(&self, basis: &mut Basis) {
        if matches!(self.purpose, Purpose::Reload(Reload { confirm: Some(_), .. }))
            && let Err(why) = basis.deployment.await_confirmation(None)
        {
            let hint = "make room in the state directory and reload";
            error!(
                why,
                hint,
                "could not forget a confirmation; the next start may take a configuration back"
            );
        }
    }

    /// Records the configuration that was just applied, and whether it waits for a confirmation. `time` is in nanoseconds since 1970.
    pub(super) fn record_config(&mut self, basis: &mut Basis, time: u64, now: Instant) {
        let Purpose::Reload(Reload { confirm, takes_back, .. }) = self.purpose else { return };
        if let Some(id) = takes_back {
            basis.unconfirmed = None;
            if let Err(why) = basis.deployment.await_confirmation(None) {
                // The next start finds the configuration before, and forgets it.
                warn!(why, "could not remove the time of a confirmation");
            }
            basis.set_outcome(id, Outcome::TakenBack);
        }
        let last = basis.history.last();
        if last.is_some_and(|it| *it.text == *basis.config.text()) {
            return;
        }
        let before = last.map(|it| it.change.id);
        let applied = Applied {
            who: &self.who,
            what: &self.what,
            time,
            waits: confirm.is_some(),
            text: basis.config.text(),
        };
        let (new, dropped) = basis.history.add(&applied);
        let stored = basis.deployment.record(&new, &dropped);
        if let Err(why) = &stored {
            warn!(why, "could not store a configuration in the history");
            self.report.notices.push(format!(
                "The history of the configuration cannot be stored: {why}; after a restart this change cannot be undone."
            ));
        }
        basis.history.set_stored(stored);
        let id = new.change.id;
        if let Some((time, before)) = confirm.zip(before) {
            basis.unconfirmed = Some(Unconfirmed { id, before, until: now + time, failure: None });
            self.report.notices.push(format!(
                "Type `rosemary confirm` within {} s to keep change {id}; otherwise the configuration before it returns.",
                time.as_secs()
            ));
        }
    }
}

/// Stores that the configuration after the present one waits for a confirmation.
fn store_confirmation(basis: &mut Basis, time: Duration) -> Result<(), String> {
    let before = basis.history.last().ok_or("the configuration before it is unknown")?;
    // It may not be on the disk yet, if the disk was full.
    let stored = basis.deployment.record(before, &[]);
    let before = before.change.id;
    let stored = stored.and_then(|()| {
        basis.deployment.await_confirmation(Some(StoredConfirmation { before, time }))
    });
    stored.map_err(|why| format!("the time for the confirmation cannot be stored: {why}"))
}

impl Basis {
    /// Sets what became of a configuration, also in the stored history.
    fn set_outcome(&mut self, id: u64, outcome: Outcome) {
        if let Some(kept) = self.history.set_outcome(id, outcome) {
            let stored = self.deployment.record(&kept, &[]);
            self.history.set_stored(stored);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_takes_back_what_nobody_confirmed() {
        let mut history = History::default();
        let text = "[controller]\nworkers = 1\n";
        history.add(&Applied { who: "a", what: "b", time: 0, waits: false, text });
        let waits = |before, time| Some(StoredConfirmation { before, time });
        let (none, long) = (Duration::ZERO, Duration::from_secs(9));
        let at_start = |loaded, stored| at_start(&history, loaded, stored);
        assert_eq!(at_start("", None), AtStart::Nothing);
        assert_eq!(at_start("", waits(1, none)), AtStart::TakeBack { before: 1 });
        let wait = AtStart::Wait(StoredConfirmation { before: 1, time: long });
        assert_eq!(at_start("", waits(1, long)), wait);
        assert_eq!(at_start(text, waits(1, none)), AtStart::Forget, "nothing was applied");
        assert_eq!(at_start("", waits(2, none)), AtStart::Lost);
    }

    #[test]
    fn seconds_are_rounded_up() {
        let now = Instant::now();
        assert_eq!(seconds_left(now + Duration::from_millis(1_001), now), 2);
        assert_eq!(seconds_left(now, now + Duration::from_secs(1)), 0);
    }
}
