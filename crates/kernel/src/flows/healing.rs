//! Decides when a switch that has lost flows of the kernel or of a guard gets them back, and in which order.
//!
//! Whoever deletes all flows of a switch (`ovs-ofctl del-flows`, another controller) also deletes the kernel's table-miss
//! entry. The switch reports that removal, or the entry is missing when the kernel [checks](EntryCheck). Whoever deletes
//! some flows may delete those of guards alone. The switch reports these if they were added with `SEND_FLOW_REM`, as wanted
//! flows are. Then:
//!
//! ```text
//!          loss noticed          INTERVAL since the last one      guards have answered, or PATIENCE is over
//!  Whole --------------> Noticed -------------------------> Guards ---------------------------------------> Whole
//! ```
//!
//! * `Guards`: the guards put their flows back. The flows of other apps are refused meanwhile, so that no packet passes by
//!   such a flow before the flow that drops it exists.
//! * At the end, the kernel restores its entry, and the other apps may put their flows back.
//! * A restoration is reported if the switch then stays connected for [`GRACE`].
//!
//! One delete causes a report for each flow. The kernel sends a barrier when it begins a restoration, and no report before the
//! reply causes another one: the guards' flow-mods come after the barrier, so those reports are of the same delete or of
//! one before it. Open vSwitch reports removals in another thread than it answers barriers, so a report may come after the reply.
//! Then another restoration follows: it could be a second delete, and guards must not miss that.
//!
//! A guard, an app with `flow.write.any` and the kernel delete guards' flows themselves. Reports that such a message can have
//! caused are no loss ([`own_writes`](super::own_writes)). A guard that keeps its flows with the SDK's library restores them in
//! that case, too.
//!
//! A switch with a flow monitor reports every removal and every change, whatever the flags of the flow, and before the reply to a
//! barrier. Its reports come here instead of the removals.
//!
//! In OpenFlow 1.0 a delete of all flows by the only app that writes flows deletes the kernel's entry too. The kernel sends its
//! entry again behind such a message, so the report of that removal is no loss.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use control::policy::{Policy, Stage};

use super::own_writes::OwnWrites;
use crate::ids::AppSlot;

/// Least time between two restorations of one switch: each costs the guards all their flow-mods.
const INTERVAL: Duration = Duration::from_secs(1);

/// Longest time that guards may take. A guard checks each packet anyway, so afterwards only its own flows are late.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a switch must stay connected before a restoration is reported. A bridge that is removed, as at the end of Mininet,
/// reports the removal of its flows too.
const GRACE: Duration = Duration::from_millis(500);

/// Longest time until the report of a removal that the only app with flows has caused.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);

/// Longest time until the reply to the barrier at the begin of a restoration.
const BARRIER_PATIENCE: Duration = Duration::from_secs(2);

/// Most removals whose reports are awaited.
const MOST_EXPECTED: usize = 16;

/// Time between two checks of a switch, and the spread of the first ones.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Replies without the entry after which a switch that has never listed it counts as having lost it.
const CHECKS: u32 = 2;

/// Time without a reply after which a check is repeated.
const CHECK_PATIENCE: Duration = Duration::from_secs(30);

/// How the kernel has noticed that flows are gone. A later variant says more than an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// The switch has reported the removal of a flow of this guard.
    Guard(AppSlot),
    /// The switch does not list the kernel's entry any more.
    NotListed,
    /// The switch has reported the removal of the kernel's entry.
    Reported,
}

/// A guard that has received the event about the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) slot: AppSlot,
    /// The instance of the guard.
    pub(crate) life: u16,
    /// Number of records that the guard has handled once it has handled the event.
    pub(crate) handled: u64,
}

/// The restoration of one switch's flows.
#[derive(Debug, Default)]
pub(crate) struct Healing {
    state: HealingState,
    /// When the last restoration began.
    began: Option<Instant>,
    /// A further loss during a restoration, and its number of reports about flows of guards.
    again: Option<(Loss, u64)>,
    /// Number of reports about flows of guards since the last restoration that was reported.
    of_guards: u64,
    /// When the barrier was sent whose reply ends the reports of the same delete.
    barrier: Option<Instant>,
    /// The messages that delete or write flows of guards.
    own: OwnWrites,
    /// When removals of the entry were sent that their sender has already made up for; the oldest first.
    expected: VecDeque<Instant>,
    /// Restorations that are not reported yet, the oldest first.
    unreported: VecDeque<Restored>,
    pub(crate) check: EntryCheck,
}

/// A restoration that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) loss: Loss,
    /// Number of reports about flows of guards.
    of_guards: u64,
    /// How long the switch was without its flows since the kernel noticed it.
    pub(crate) time: Duration,
    /// When it ended.
    at: Instant,
}

impl Restored {
    /// The number of flows whose loss was noticed. The kernel has one entry, however often its loss is reported.
    pub(crate) fn flows(&self) -> u64 {
        self.of_guards + u64::from(!matches!(self.loss, Loss::Guard(_)))
    }
}

impl Loss {
    /// The number of reports about flows of guards that this loss adds.
    fn of_guards(self) -> u64 {
        u64::from(matches!(self, Self::Guard(_)))
    }
}

#[derive(Debug, Default)]
enum HealingState {
    #[default]
    Whole,
    Noticed {
        loss: Loss,
        at: Instant,
    },
    Guards {
        loss: Loss,
        noticed: Instant,
        since: Instant,
        waiting: Vec<Waiting>,
    },
}

impl Healing {
    /// Notes that a message deletes the kernel's entry, with the entry behind it again. The switch reports the removal.
    pub(crate) fn expect_removal(&mut self, now: Instant) {
        // Of more removals in so short a time, the reports count as losses: the entry is restored once more.
        if self.expected.len() < MOST_EXPECTED {
            self.expected.push_back(now);
        }
    }

    /// Whether a report is about a removal that was expected. A report that never came, as of a switch that sends none, hides
    /// a later loss for [`REPORT_PATIENCE`] at most.
    fn is_expected(&mut self, now: Instant) -> bool {
        let is_old = |sent: &Instant| now.saturating_duration_since(*sent) >= REPORT_PATIENCE;
        while self.expected.front().is_some_and(is_old) {
            self.expected.pop_front();
        }
        self.expected.pop_front().is_some()
    }

    /// Notes that a guard, or another sender that may, deletes flows of guards.
    pub(crate) fn note_delete(&mut self, now: Instant) {
        self.own.note_delete(now);
    }

    /// Notes that a guard writes flows, or the kernel its entry.
    pub(crate) fn note_write(&mut self) {
        self.own.note_write();
    }

    /// Whether a barrier must be sent behind such messages now; if so, notes that it is. For a switch with a flow monitor.
    pub(crate) fn take_own_barrier(&mut self, now: Instant) -> bool {
        self.own.take_barrier(now)
    }

    /// Notes the reply to that barrier.
    pub(crate) fn own_writes_passed(&mut self) {
        self.own.barrier_passed();
    }

    /// Notes that messages wait to be sent, perhaps with a delete of [`note_delete`](Self::note_delete) among them.
    pub(crate) fn delay_delete(&mut self, now: Instant) {
        self.own.delay(now);
    }

    /// Notes that the kernel's entry, or a flow of a guard, is gone.
    pub(crate) fn note_loss(&mut self, loss: Loss, now: Instant) {
        let is_expected = match loss {
            Loss::Reported => self.is_expected(now),
            Loss::Guard(_) => self.own.may_remove(now),
            Loss::NotListed => false,
        };
        if !is_expected {
            self.lose(loss, now);
        }
    }

    /// Notes that the kernel's entry, or a flow of a guard, was changed in place, or replaced by a flow of others.
    pub(crate) fn note_change(&mut self, loss: Loss, now: Instant) {
        if !self.own.may_change(now) {
            self.lose(loss, now);
        }
    }

    fn lose(&mut self, loss: Loss, now: Instant) {
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        if since(self.barrier).is_some_and(|time| time < BARRIER_PATIENCE) {
            return self.note_same_loss(loss);
        }
        match &mut self.state {
            HealingState::Whole => {
                self.state = HealingState::Noticed { loss, at: now };
                self.of_guards += loss.of_guards();
            }
            HealingState::Noticed { .. } => self.note_same_loss(loss),
            HealingState::Guards { .. } => {
                let (known, flows) = self.again.unwrap_or((loss, 0));
                self.again = Some((loss.max(known), flows + loss.of_guards()));
            }
        }
    }

    /// Notes a further flow that was lost with the ones before.
    fn note_same_loss(&mut self, more: Loss) {
        match &mut self.state {
            HealingState::Noticed { loss, .. } | HealingState::Guards { loss, .. } => {
                *loss = more.max(*loss);
                self.of_guards += more.of_guards();
            }
            HealingState::Whole => {
                if let Some(restored) = self.unreported.back_mut() {
                    restored.loss = more.max(restored.loss);
                    restored.of_guards += more.of_guards();
                }
            }
        }
    }

    /// Notes that the switch has handled the barrier of the last restoration. Without a reply, [`BARRIER_PATIENCE`] ends the
    /// wait.
    pub(crate) fn barrier_passed(&mut self) {
        self.barrier = None;
    }

    /// Whether flows of this app are refused because those of the guards come first.
    #[inline]
    pub(crate) fn holds_back(&self, policy: &Policy) -> bool {
        !matches!(self.state, HealingState::Whole) && !matches!(policy.stage, Stage::Guard(_))
    }

    /// Begins a restoration if one is due. The caller then sends a barrier, before the guards learn of the loss.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let HealingState::Noticed { loss, at } = self.state else { return false };
        let is_due =
            self.began.is_none_or(|began| now.saturating_duration_since(began) >= INTERVAL);
        if is_due {
            (self.began, self.barrier) = (Some(now), Some(now));
            self.state =
                HealingState::Guards { loss, noticed: at, since: now, waiting: Vec::new() };
        }
        is_due
    }

    /// Whether guards are restoring their flows.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.state, HealingState::Guards { .. })
    }

    /// Notes a guard that must answer before the restoration ends.
    pub(crate) fn wait_for(&mut self, guard: Waiting) {
        if let HealingState::Guards { waiting, .. } = &mut self.state {
            waiting.push(guard);
        }
    }

    /// Ends the restoration if all guards `have_answered`, or too late. Returns whether it has ended.
    pub(crate) fn end(&mut self, have_answered: impl Fn(&Waiting) -> bool, now: Instant) -> bool {
        let HealingState::Guards { loss, noticed, since, waiting } = &mut self.state else {
            return false;
        };
        waiting.retain(|guard| !have_answered(guard));
        if !waiting.is_empty() && now.saturating_duration_since(*since) < PATIENCE {
            return false;
        }
        let time = now.saturating_duration_since(*noticed);
        let of_guards = std::mem::take(&mut self.of_guards);
        self.unreported.push_back(Restored { loss: *loss, of_guards, time, at: now });
        self.state = match self.again.take() {
            Some((loss, flows)) => {
                self.of_guards = flows;
                HealingState::Noticed { loss, at: now }
            }
            None => HealingState::Whole,
        };
        true
    }

    /// Returns once a restoration after which the switch has stayed connected.
    pub(crate) fn take_report(&mut self, now: Instant) -> Option<Restored> {
        let oldest = self.unreported.front()?;
        let is_due = now.saturating_duration_since(oldest.at) >= GRACE;
        if is_due { self.unreported.pop_front() } else { None }
    }
}

/// The periodic check that the kernel's entry is in the switch.
///
/// A switch reports the removal of the entry at once, so the check is for those that do not, and for an entry that was
/// changed in place.
#[derive(Debug, Default)]
pub(crate) struct EntryCheck {
    next: Option<Instant>,
    /// Whether the switch has listed the entry before.
    was_listed: bool,
    /// Whether the reply so far lists it.
    is_listed: bool,
    /// Number of replies without the entry, while none has listed it.
    without: u32,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// The reply has more parts, or is the first one and lacks the entry.
    Unknown,
    /// The switch lists the entry.
    Listed,
    /// An earlier reply lists the entry, and this one does not.
    Gone,
    /// Neither this reply nor an earlier one lists the entry, [`CHECKS`] in all.
    NeverListed,
}

impl EntryCheck {
    /// Whether the entry must be requested now; if so, notes that it is. The first check of each switch has another moment
    /// within [`CHECK_EVERY`], by its datapath id, as many switches connect at once.
    pub(crate) fn is_due(&mut self, dpid: u64, now: Instant) -> bool {
        let next = *self.next.get_or_insert_with(|| {
            let part = u32::from(dpid.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]);
            now + CHECK_EVERY * (part + 1) / 256
        });
        let is_due = now >= next;
        if is_due {
            (self.next, self.is_listed) = (Some(now + CHECK_PATIENCE), false);
        }
        is_due
    }

    /// Takes a part of the reply: whether it lists the entry.
    pub(crate) fn part(&mut self, lists_entry: bool, is_last: bool, now: Instant) -> Listing {
        self.is_listed |= lists_entry;
        if !is_last {
            return Listing::Unknown;
        }
        self.next = Some(now + CHECK_EVERY);
        if self.is_listed {
            self.was_listed = true;
            return Listing::Listed;
        }
        if self.was_listed {
            return Listing::Gone;
        }
        self.without = self.without.saturating_add(1);
        if self.without < CHECKS { Listing::Unknown } else { Listing::NeverListed }
    }
}

#[cfg(test)]
mod tests;
