//! Whose rings a zone holds: the bookkeeping between an `Attach` and its `Attached`.
//!
//! The kernel answers each `Attach` once, in order. Between the two the zone may have died and a
//! new one may have been loaded, so an answer counts only if it answers the last `Attach`, and
//! that one was sent for the process that runs now. The same for a fault: a kernel that reports
//! one before it has answered the current zone's `Attach` speaks of the zone before.

/// The state between one zone and one kernel.
#[derive(Debug, Default)]
pub(crate) struct Attachment {
    unanswered: u32,
    asked: bool,
    connected: bool,
}

/// What an `Attached` means.
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
    }

    /// An `Attached` came.
    pub(crate) fn answered(&mut self) -> Answered {
        let Some(rest) = self.unanswered.checked_sub(1) else { return Answered::Unasked };
        self.unanswered = rest;
        if rest > 0 || !self.asked {
            return Answered::Stale;
        }
        self.connected = true;
        Answered::PassOn
    }

    /// Whether a fault that the kernel reports now is of the zone that runs now.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// The zone has ended. Says whether the kernel has to be told.
    pub(crate) fn zone_ended(&mut self) -> bool {
        self.connected = false;
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
