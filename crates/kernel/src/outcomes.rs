//! Watches the outcomes of the kernel's own messages to one switch, and decides when one is sent again.
//!
//! ```text
//!           barrier reply, no error before it
//!  sent ------------------------------------------> done
//!    \---- error, or no barrier reply within PATIENCE ----> failing ---- back-off ----> sent
//! ```
//!
//! A flow-mod or a configuration has no reply. The kernel therefore sends a barrier behind such messages: a switch has
//! handled them, and reported its errors, before it replies to the barrier (OpenFlow 1.3.5 §6.2, 1.0.2 §5.3.7). One barrier
//! serves all messages of a tick. Requests have replies of their own, and their users say how they ended.
//!
//! A guard's flows are the guard's messages, but no packet may pass because a switch has refused them. The kernel asks the
//! guard to send them again. That has succeeded if the guard then sends flow-mods and the switch refuses none of them within
//! [`SETTLE`].
//!
//! Whatever fails is shown to the operator. A message that the kernel repeats only because it failed is reported, too, if the
//! switch is still connected after [`GRACE`].

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::ids::AppSlot;
use control::query::FailingMessage;

/// Time until the reply to the barrier behind a message.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Back-off before the first and before any later repetition.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Time in which the switch refuses a flow of a guard that was asked for its flows.
const SETTLE: Duration = Duration::from_secs(2);

/// How long a failure must last before it is reported. A switch that disconnects may refuse a last message.
const GRACE: Duration = Duration::from_millis(500);

/// Most runs of messages with an open outcome. The outcome of the oldest is given up for another one.
const MOST_SENT: usize = 256;

/// The purpose of a message of the kernel's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Adds the table-miss entry.
    TableMiss,
    /// Sets the configuration.
    Config,
    /// Removes what absent apps own, or what an app wrote before its band moved.
    Removal,
    /// Requests the table-miss entry.
    EntryCheck,
    /// Requests flows, groups or meters.
    Reading,
    /// Requests the number of an app's flows.
    Count,
    /// Adds flows of the guard in this slot. The guard sends them.
    Guard(AppSlot),
}

impl Purpose {
    /// Whether another part of the kernel repeats the message in any case.
    fn is_periodic(self) -> bool {
        matches!(self, Self::EntryCheck | Self::Reading | Self::Count)
    }

    /// Names the message for the operator, and says what follows if the switch does not carry it out. `name` is that of the
    /// guard.
    pub(crate) fn text(self, name: &str) -> (String, &'static str) {
        let (message, effect) = match self {
            Self::TableMiss => (
                "the table-miss entry",
                "packets that match no flow do not reach Rosemary, unless another entry sends them",
            ),
            Self::Config => {
                ("the configuration for whole packets", "apps may receive truncated packets")
            }
            Self::Removal => (
                "the removal of flows, groups or meters that no running app owns",
                "these remain and handle packets",
            ),
            Self::EntryCheck => (
                "the request for the table-miss entry",
                "its loss is noticed only if the switch reports it",
            ),
            Self::Reading => (
                "the request for its flows",
                "apps do not learn which flows they have there, and what absent apps own remains",
            ),
            Self::Count => (
                "the request for the number of an app's flows",
                "the app's limit of flows does not hold there",
            ),
            Self::Guard(_) => {
                let effect = "packets that it denies may pass by flows of other apps";
                return (format!("flows of the guard {name}"), effect);
            }
        };
        (message.to_owned(), effect)
    }
}

/// The outcomes of the kernel's own messages to a switch.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Messages with an open outcome, the oldest first.
    sent: VecDeque<Sent>,
    /// When the barrier was sent whose reply is outstanding.
    barrier: Option<Instant>,
    failing: BTreeMap<Purpose, Failing>,
    /// Reported failures that have ended.
    ended: Vec<Purpose>,
}

/// Consecutive messages with the same purpose.
#[derive(Debug)]
struct Sent {
    /// The transaction id of the first.
    xid: u32,
    count: u32,
    purpose: Purpose,
    /// Whether a barrier was sent behind them.
    has_barrier: bool,
    is_refused: bool,
}

/// A message that the switch does not carry out.
#[derive(Debug)]
struct Failing {
    why: String,
    since: Instant,
    /// Number of failed attempts.
    tries: u32,
    next: Next,
    is_reported: bool,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// The message is sent again at this time.
    Repeat(Instant),
    /// The message was sent again, or another part of the kernel does so.
    Outcome,
    /// The guard was asked for its flows when it had sent this number of flow-mods. The outcome is known at this time.
    Settle(Instant, u64),
}

/// A change that the operator should learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The switch does not carry out a message, for this reason.
    Fails(Purpose, String),
    /// The switch carries it out again.
    Recovered(Purpose),
}

impl Outcomes {
    /// Notes a message that is sent.
    pub(crate) fn sent(&mut self, purpose: Purpose, xid: u32) {
        if let Some(last) = self.sent.back_mut()
            && last.purpose == purpose
            && !last.has_barrier
            && last.xid.wrapping_add(last.count) == xid
        {
            last.count += 1;
            return;
        }
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        let sent = Sent { xid, count: 1, purpose, has_barrier: false, is_refused: false };
        self.sent.push_back(sent);
    }

    /// Whether a barrier must be sent now; if so, notes that it is.
    pub(crate) fn take_barrier(&mut self, now: Instant) -> bool {
        let is_due = self.barrier.is_none() && self.sent.iter().any(|it| !it.has_barrier);
        if is_due {
            self.barrier = Some(now);
            self.sent.iter_mut().for_each(|it| it.has_barrier = true);
        }
        is_due
    }

    /// Applies the reply to the barrier.
    pub(crate) fn barrier_passed(&mut self) {
        for (purpose, is_refused) in self.take_covered() {
            if !is_refused {
                self.done(purpose);
            }
        }
    }

    /// Notes that the switch has refused the barrier, or does not reply to it.
    pub(crate) fn barrier_failed(&mut self, why: &str, now: Instant) {
        for (purpose, is_refused) in self.take_covered() {
            if !is_refused {
                self.fail(purpose, why, now);
            }
        }
    }

    /// The purposes of the messages before the barrier, and whether the switch has refused one of them.
    fn take_covered(&mut self) -> BTreeMap<Purpose, bool> {
        self.barrier = None;
        let mut covered = BTreeMap::new();
        self.sent.retain(|it| {
            if it.has_barrier {
                *covered.entry(it.purpose).or_default() |= it.is_refused;
            }
            !it.has_barrier
        });
        covered
    }

    /// Applies an error. Returns the purpose of the refused message, if it was the kernel's and its outcome is open.
    pub(crate) fn refused(&mut self, xid: u32, why: &str, now: Instant) -> Option<Purpose> {
        let is_about = |it: &&mut Sent| xid.wrapping_sub(it.xid) < it.count;
        let sent = self.sent.iter_mut().find(is_about)?;
        sent.is_refused = true;
        let purpose = sent.purpose;
        self.fail(purpose, why, now);
        Some(purpose)
    }

    /// Notes that the switch shows that it has not carried out a message, although it has not refused it.
    pub(crate) fn deny(&mut self, purpose: Purpose, why: &str, now: Instant) {
        let sent = self.sent.iter_mut().filter(|it| it.purpose == purpose);
        sent.for_each(|it| it.is_refused = true);
        self.fail(purpose, why, now);
    }

    /// Notes a failed attempt, with the reason as a phrase about the switch.
    pub(crate) fn fail(&mut self, purpose: Purpose, why: &str, now: Instant) {
        let failing = self.failing.entry(purpose).or_insert_with(|| Failing {
            why: String::new(),
            since: now,
            tries: 0,
            next: Next::Outcome,
            is_reported: false,
        });
        why.clone_into(&mut failing.why);
        // Of more errors after one attempt, the first decides when the next attempt follows.
        if !matches!(failing.next, Next::Repeat(_)) {
            failing.tries = failing.tries.saturating_add(1);
            if !purpose.is_periodic() {
                failing.next = Next::Repeat(now + pause(failing.tries));
            }
        }
    }

    /// Notes that the switch has carried out a message.
    pub(crate) fn done(&mut self, purpose: Purpose) {
        if self.failing.remove(&purpose).is_some_and(|it| it.is_reported) {
            self.ended.push(purpose);
        }
    }

    /// Whether there is anything to do in a tick.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.failing.is_empty() && self.ended.is_empty()
    }

    /// Whether the switch does not carry out a message.
    pub(crate) fn is_failing(&self, purpose: Purpose) -> bool {
        self.failing.contains_key(&purpose)
    }

    /// Notes outcomes that time shows. `flow_mods` counts the flow-mods of a guard.
    pub(crate) fn tick(&mut self, flow_mods: impl Fn(AppSlot) -> u64, now: Instant) {
        if self.barrier.is_some_and(|sent| now.saturating_duration_since(sent) >= PATIENCE) {
            self.barrier_failed("it did not reply to the barrier behind it", now);
        }
        let mut settled = Vec::new();
        for (purpose, failing) in &mut self.failing {
            let (Purpose::Guard(slot), Next::Settle(at, before)) = (*purpose, failing.next) else {
                continue;
            };
            if now < at {
                continue;
            }
            if flow_mods(slot) > before {
                settled.push(*purpose);
            } else {
                failing.next = Next::Repeat(now + pause(failing.tries));
            }
        }
        for purpose in settled {
            self.done(purpose);
        }
    }

    /// Returns the messages that must be sent again now, and notes that they are.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Purpose> {
        let is_due = |it: &Failing| matches!(it.next, Next::Repeat(at) if now >= at);
        let due = self.failing.iter_mut().filter(|(_, it)| is_due(it));
        let due = due.map(|(purpose, failing)| {
            failing.next = Next::Outcome;
            *purpose
        });
        due.collect()
    }

    /// Notes that a guard was asked for its flows, when it had sent this number of flow-mods.
    pub(crate) fn asked_guard(&mut self, slot: AppSlot, flow_mods: u64, now: Instant) {
        if let Some(failing) = self.failing.get_mut(&Purpose::Guard(slot)) {
            failing.next = Next::Settle(now + SETTLE, flow_mods);
        }
    }

    /// Returns the changes since the last call that the operator should learn.
    pub(crate) fn take_reports(&mut self, now: Instant) -> Vec<Report> {
        let ended = self.ended.drain(..).map(Report::Recovered);
        let is_new = |(purpose, it): &(&Purpose, &mut Failing)| {
            let lasts = now.saturating_duration_since(it.since) >= GRACE;
            lasts && !it.is_reported && !purpose.is_periodic()
        };
        let failing = self.failing.iter_mut().filter(is_new).map(|(purpose, failing)| {
            failing.is_reported = true;
            Report::Fails(*purpose, failing.why.clone())
        });
        ended.chain(failing).collect()
    }

    /// Returns the purposes that were reported as failing, because the switch is gone.
    pub(crate) fn take_reported(&mut self) -> impl Iterator<Item = Purpose> {
        let failing = std::mem::take(&mut self.failing);
        let reported = failing.into_iter().filter(|(_, it)| it.is_reported);
        let ended = std::mem::take(&mut self.ended);
        ended.into_iter().chain(reported.map(|(purpose, _)| purpose))
    }

    /// Returns what the switch does not carry out, for operators. `name` names a guard.
    pub(crate) fn failing(
        &self,
        name: impl Fn(AppSlot) -> String,
        now: Instant,
    ) -> Vec<FailingMessage> {
        let shown = self.failing.iter().map(|(purpose, failing)| {
            let name = if let Purpose::Guard(slot) = purpose { name(*slot) } else { String::new() };
            let (message, effect) = purpose.text(&name);
            FailingMessage {
                message,
                why: failing.why.clone(),
                effect: effect.to_owned(),
                tries: failing.tries,
                seconds: now.saturating_duration_since(failing.since).as_secs(),
            }
        });
        shown.collect()
    }
}

/// The back-off after this number of failed attempts.
fn pause(tries: u32) -> Duration {
    let factor = 1_u32.checked_shl(tries.saturating_sub(1)).filter(|it| *it > 0);
    FIRST_PAUSE.saturating_mul(factor.unwrap_or(u32::MAX)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISS: Purpose = Purpose::TableMiss;
    const GUARD: Purpose = Purpose::Guard(AppSlot(3));

    fn start() -> (Outcomes, Instant) {
        (Outcomes::default(), Instant::now())
    }

    fn is_failing(outcomes: &Outcomes, purpose: Purpose) -> bool {
        outcomes.is_failing(purpose)
    }

    fn is_open(outcomes: &Outcomes, purpose: Purpose) -> bool {
        outcomes.sent.iter().any(|it| it.purpose == purpose)
    }

    #[test]
    fn message_before_an_answered_barrier_is_done() {
        let (mut outcomes, now) = start();
        assert!(outcomes.is_idle() && !outcomes.take_barrier(now));
        outcomes.sent(MISS, 7);
        assert!(outcomes.take_barrier(now) && !outcomes.take_barrier(now), "one at a time");
        outcomes.sent(Purpose::Config, 9);
        outcomes.barrier_passed();
        assert!(!is_open(&outcomes, MISS) && is_open(&outcomes, Purpose::Config));
        assert!(outcomes.take_barrier(now), "the configuration came behind the first barrier");
        outcomes.barrier_passed();
        outcomes.tick(|_| 0, now + PATIENCE);
        assert!(outcomes.is_idle() && outcomes.take_reports(now + PATIENCE).is_empty());
    }

    #[test]
    fn refused_message_is_repeated_with_back_off_until_it_is_done() {
        let (mut outcomes, mut now) = start();
        let mut pauses = Vec::new();
        for xid in 0..9 {
            outcomes.sent(MISS, xid);
            outcomes.take_barrier(now);
            assert_eq!(outcomes.refused(xid, "full", now), Some(MISS));
            assert_eq!(outcomes.refused(xid, "full", now), Some(MISS), "a second error about it");
            outcomes.barrier_passed();
            let since = now;
            while outcomes.take_due(now).is_empty() {
                now += Duration::from_millis(100);
            }
            pauses.push((now - since).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        outcomes.sent(MISS, 100);
        outcomes.take_barrier(now);
        assert!(is_failing(&outcomes, MISS), "until the reply");
        let shown = outcomes.failing(|_| String::new(), now);
        assert_eq!((shown.len(), shown[0].tries, shown[0].why.as_str()), (1, 9, "full"));
        assert_eq!(shown[0].seconds, pauses.iter().sum::<u64>());
        outcomes.barrier_passed();
        assert!(outcomes.failing(|_| String::new(), now).is_empty());
    }

    #[test]
    fn lost_barrier_means_a_lost_message() {
        let (mut outcomes, now) = start();
        outcomes.sent(MISS, 1);
        outcomes.take_barrier(now);
        outcomes.tick(|_| 0, now + PATIENCE / 2);
        assert!(!is_failing(&outcomes, MISS));
        outcomes.tick(|_| 0, now + PATIENCE);
        assert!(is_failing(&outcomes, MISS));
        assert_eq!(outcomes.take_due(now + PATIENCE + FIRST_PAUSE), [MISS]);
        outcomes.sent(MISS, 2);
        assert!(outcomes.take_barrier(now + PATIENCE), "the lost one does not stop the next");
    }

    #[test]
    fn failure_is_reported_once_and_its_end_too() {
        let (mut outcomes, now) = start();
        outcomes.sent(MISS, 1);
        outcomes.take_barrier(now);
        outcomes.refused(1, "full", now);
        assert_eq!(outcomes.take_reports(now), [], "it may just disconnect");
        let fails = Report::Fails(MISS, "full".into());
        assert_eq!(outcomes.take_reports(now + GRACE), [fails]);
        assert_eq!(outcomes.take_reports(now + GRACE), []);
        outcomes.done(MISS);
        outcomes.fail(Purpose::Config, "no", now);
        outcomes.done(Purpose::Config);
        assert_eq!(outcomes.take_reports(now + GRACE), [Report::Recovered(MISS)]);
        outcomes.fail(MISS, "full", now);
        outcomes.take_reports(now + GRACE);
        assert!(outcomes.take_reported().eq([MISS]), "the switch is gone");
    }

    #[test]
    fn error_is_found_in_a_run_and_after_the_ids_wrap() {
        let (mut outcomes, now) = start();
        for xid in [u32::MAX - 1, u32::MAX, 0, 1] {
            outcomes.sent(Purpose::Removal, xid);
        }
        outcomes.sent(MISS, 5);
        assert_eq!(outcomes.sent.len(), 2);
        assert_eq!(outcomes.refused(1, "no", now), Some(Purpose::Removal));
        assert_eq!(outcomes.refused(2, "no", now), None);
        assert_eq!(outcomes.refused(u32::MAX - 2, "no", now), None);
        outcomes.take_barrier(now);
        outcomes.barrier_passed();
        assert!(is_failing(&outcomes, Purpose::Removal) && !is_failing(&outcomes, MISS));
    }

    #[test]
    fn open_outcomes_are_bounded() {
        let (mut outcomes, now) = start();
        for xid in 0..10_000 {
            outcomes.sent(MISS, 2 * xid);
        }
        assert_eq!(outcomes.sent.len(), MOST_SENT);
        assert_eq!(outcomes.refused(0, "full", now), None);
        assert_eq!(outcomes.refused(2 * 9_999, "full", now), Some(MISS));
    }

    #[test]
    fn guard_has_recovered_once_its_flows_came_and_stayed() {
        let (mut outcomes, now) = start();
        (0..100).for_each(|_| outcomes.fail(GUARD, "full", now));
        assert_eq!(outcomes.failing[&GUARD].tries, 1, "a burst is one attempt");
        let at = now + FIRST_PAUSE;
        assert_eq!(outcomes.take_due(at), [GUARD]);
        outcomes.asked_guard(AppSlot(3), 100, at);
        outcomes.tick(|_| 100, at + SETTLE);
        assert!(is_failing(&outcomes, GUARD), "it has sent none");
        let at = at + SETTLE + FIRST_PAUSE;
        assert_eq!(outcomes.take_due(at), [GUARD]);
        outcomes.asked_guard(AppSlot(3), 100, at);
        outcomes.fail(GUARD, "full", at);
        outcomes.tick(|_| 200, at + SETTLE);
        assert!(is_failing(&outcomes, GUARD), "the switch refused one again");
        let at = at + 2 * FIRST_PAUSE;
        assert_eq!(outcomes.take_due(at), [GUARD]);
        outcomes.asked_guard(AppSlot(3), 200, at);
        outcomes.tick(|_| 300, at + SETTLE / 2);
        assert!(is_failing(&outcomes, GUARD), "too early");
        outcomes.tick(|_| 300, at + SETTLE);
        assert!(!is_failing(&outcomes, GUARD));
    }

    #[test]
    fn periodic_request_is_not_repeated_here() {
        let (mut outcomes, now) = start();
        outcomes.fail(Purpose::EntryCheck, "it refused it", now);
        outcomes.fail(Purpose::EntryCheck, "it refused it", now);
        assert_eq!(outcomes.failing[&Purpose::EntryCheck].tries, 2);
        assert!(outcomes.take_due(now + LONGEST_PAUSE).is_empty());
        assert_eq!(outcomes.take_reports(now + LONGEST_PAUSE), [], "it is shown only");
    }
}
