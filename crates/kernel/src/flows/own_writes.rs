//! Says whether the kernel's own messages can have caused a change of flows of the kernel or of guards.
//!
//! A guard, an app with `flow.write.any` and the kernel delete and write such flows themselves. A switch does not say who has
//! caused a change. So a change within [`OWN_PATIENCE`] of a message that can have caused it is no loss.
//!
//! A switch with a flow monitor reports the changes of a message before it replies to a barrier behind the message (Open vSwitch,
//! `nicira-ext.h`). There the kernel sends a barrier, and its reply ends that time.

use std::time::{Duration, Instant};

/// Time after a message within which changes are taken for its effect.
pub(super) const OWN_PATIENCE: Duration = Duration::from_secs(2);

/// The messages to one switch.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    /// When flows were last deleted.
    deleted: Option<Instant>,
    /// When flows were last written.
    written: Option<Instant>,
    /// Flows were written since [`take_barrier`](Self::take_barrier).
    has_written: bool,
    /// When the barrier was sent whose reply is outstanding.
    barrier: Option<Instant>,
}

impl OwnWrites {
    /// Notes a message that can delete flows of guards.
    pub(super) fn note_delete(&mut self, now: Instant) {
        self.deleted = Some(now);
    }

    /// Notes a message that can write flows of a guard, or the kernel's entry.
    pub(super) fn note_write(&mut self) {
        self.has_written = true;
    }

    /// Notes that messages wait to be sent, perhaps with one of these among them.
    pub(super) fn delay(&mut self, now: Instant) {
        for at in [&mut self.deleted, &mut self.written] {
            if is_recent(*at, now) {
                *at = Some(now);
            }
        }
    }

    /// Whether a removal can be the effect of a message.
    pub(super) fn may_remove(&self, now: Instant) -> bool {
        is_recent(self.deleted, now)
    }

    /// Whether another change can be the effect of a message.
    pub(super) fn may_change(&self, now: Instant) -> bool {
        self.has_written || is_recent(self.written, now)
    }

    /// Whether a barrier must be sent now; if so, notes that it is.
    pub(super) fn take_barrier(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.has_written) {
            self.written = Some(now);
        }
        let has_barrier = is_recent(self.barrier, now);
        let is_due = !has_barrier && (is_recent(self.deleted, now) || is_recent(self.written, now));
        if is_due {
            self.barrier = Some(now);
        }
        is_due
    }

    /// Notes the reply to the barrier.
    pub(super) fn barrier_passed(&mut self) {
        let Some(sent) = self.barrier.take() else { return };
        // A message of the same moment can have come behind the barrier.
        for at in [&mut self.deleted, &mut self.written] {
            *at = at.filter(|at| *at >= sent);
        }
    }
}

fn is_recent(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < OWN_PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn reply_to_the_barrier_ends_the_time_of_earlier_messages() {
        let (mut own, now) = (OwnWrites::default(), Instant::now());
        assert!(!own.take_barrier(now) && !own.may_remove(now));
        own.note_delete(now);
        assert!(own.may_remove(now) && !own.may_change(now));
        assert!(own.take_barrier(now + MS) && !own.take_barrier(now + 2 * MS), "one at a time");
        own.note_write();
        own.barrier_passed();
        assert!(!own.may_remove(now + 3 * MS) && own.may_change(now + 3 * MS));
        assert!(own.take_barrier(now + 4 * MS));
        own.note_delete(now + 5 * MS);
        own.barrier_passed();
        assert!(own.may_remove(now + 6 * MS), "it was deleted behind the barrier");
    }

    #[test]
    fn message_of_the_barriers_moment_needs_another_barrier() {
        let (mut own, now) = (OwnWrites::default(), Instant::now());
        own.note_delete(now);
        assert!(own.take_barrier(now));
        own.barrier_passed();
        assert!(own.may_remove(now) && own.take_barrier(now + MS));
        own.barrier_passed();
        assert!(!own.may_remove(now + MS));
    }

    #[test]
    fn time_ends_without_a_reply() {
        let (mut own, now) = (OwnWrites::default(), Instant::now());
        own.note_delete(now);
        own.note_write();
        own.take_barrier(now);
        own.delay(now + OWN_PATIENCE / 2);
        assert!(own.may_remove(now + OWN_PATIENCE) && own.may_change(now + OWN_PATIENCE));
        let later = now + 2 * OWN_PATIENCE;
        assert!(!own.may_remove(later) && !own.may_change(later) && !own.take_barrier(later));
    }
}
