//! Whose rings a zone holds: the bookkeeping between an `Attach` and its `Attached`.
//!
//! The kernel answers each `Attach` once, in order: with `Attached`, or with `NotAttached` when it has
//! no room for more rings, and then it is asked again after a moment. Between the two the zone may have died and a
//! new one may have been loaded, so an answer counts only if it answers the last `Attach`, and
//! that one was sent for the process that runs now. The same for a fault: a kernel that reports
//! one before it has answered the current zone's `Attach` speaks of the zone before.

use std::time::{Duration, Instant};

/// From an attempt that failed to the next.
const RETRY: Duration = Duration::from_secs(1);

/// The state between one zone and one kernel.
#[derive(Debug, Default)]
pub(crate) struct Attachment {
    unanswered: u32,
    asked: bool,
    connected: bool,
    /// When to ask again, after it could not be done.
    retry_at: Option<Instant>,
}

/// The meaning of an `Attached`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The rings are for the zone that runs: pass them on.
    PassOn,
    /// The rings are for a zone that has ended, or were replaced: close them.
    Stale,
    /// Nothing was asked: the kernel talks nonsense.
    Unasked,
}

impl Attachment {
    /// An `Attach` was sent for the zone that runs now.
    pub(crate) fn asked(&mut self) {
        self.unanswered += 1;
        self.asked = true;
        self.connected = false;
        self.retry_at = None;
    }

    /// An `Attached` came.
    pub(crate) fn answered(&mut self) -> Answered {
        let answered = self.count();
        self.connected |= answered == Answered::PassOn;
        answered
    }

    /// A `NotAttached` came, or an `Attached` whose rings were lost on the way. What it means is
    /// what the rings would have meant.
    pub(crate) fn failed(&mut self, now: Instant) -> Answered {
        let answered = self.count();
        if answered == Answered::PassOn {
            self.asked = false;
            self.retry_at = Some(now + RETRY);
        }
        answered
    }

    /// Counts an answer.
    fn count(&mut self) -> Answered {
        let Some(rest) = self.unanswered.checked_sub(1) else { return Answered::Unasked };
        self.unanswered = rest;
        if rest > 0 || !self.asked { Answered::Stale } else { Answered::PassOn }
    }

    /// When to ask again, if it has to be.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether that time has come. Said once: who then finds zone or kernel not ready asks when
    /// they are.
    pub(crate) fn retry(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }

    /// Whether a fault that the kernel reports now is of the zone that runs now.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// The zone has ended. Says whether the kernel has to be told.
    pub(crate) fn zone_ended(&mut self) -> bool {
        self.connected = false;
        self.retry_at = None;
        std::mem::take(&mut self.asked)
    }

    /// The kernel has ended: what was asked of it will not be answered.
    pub(crate) fn kernel_ended(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_passed_on_to_the_zone_they_were_asked_for() {
        let mut attachment = Attachment::default();
        attachment.asked();
        assert!(!attachment.is_connected());
        assert_eq!(attachment.answered(), Answered::PassOn);
        assert!(attachment.is_connected());
    }

    #[test]
    fn rings_of_a_zone_that_died_meanwhile_are_stale_even_if_a_new_one_has_asked() {
        let mut attachment = Attachment::default();
        attachment.asked();
        assert!(attachment.zone_ended());
        attachment.asked();
        assert_eq!(attachment.answered(), Answered::Stale);
        assert!(!attachment.is_connected(), "a fault now would be the old zone's");
        assert_eq!(attachment.answered(), Answered::PassOn);
    }

    #[test]
    fn rings_for_a_zone_that_died_and_has_not_been_loaded_again_are_stale() {
        let mut attachment = Attachment::default();
        attachment.asked();
        attachment.zone_ended();
        assert_eq!(attachment.answered(), Answered::Stale);
    }

    #[test]
    fn rings_nobody_asked_for_are_nonsense() {
        assert_eq!(Attachment::default().answered(), Answered::Unasked);
        assert_eq!(Attachment::default().failed(Instant::now()), Answered::Unasked);
    }

    #[test]
    fn attempt_that_failed_is_answered_and_is_repeated_after_a_moment() {
        let (mut attachment, now) = (Attachment::default(), Instant::now());
        attachment.asked();
        assert_eq!(attachment.failed(now), Answered::PassOn);
        assert_eq!(attachment.retry_at(), Some(now + RETRY));
        assert!(!attachment.zone_ended(), "the kernel does not know it");
        assert_eq!(attachment.retry_at(), None);
        attachment.asked();
        assert_eq!(attachment.failed(now), Answered::PassOn);
        assert!(!attachment.retry(now));
        assert!(attachment.retry(now + RETRY) && !attachment.retry(now + RETRY));
        attachment.asked();
        assert_eq!(attachment.answered(), Answered::PassOn);
    }

    #[test]
    fn attempt_that_failed_for_a_zone_that_died_is_not_repeated() {
        let (mut attachment, now) = (Attachment::default(), Instant::now());
        attachment.asked();
        attachment.zone_ended();
        assert_eq!(attachment.failed(now), Answered::Stale);
        assert_eq!(attachment.retry_at(), None);
    }

    #[test]
    fn kernel_is_told_of_a_zones_end_only_if_it_knew_the_zone() {
        let mut attachment = Attachment::default();
        assert!(!attachment.zone_ended());
        attachment.asked();
        attachment.kernel_ended();
        assert!(!attachment.zone_ended());
    }
}
