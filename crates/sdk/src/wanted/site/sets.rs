//! Sends queued messages that belong together as one change set, so that no packet meets a part of them.
//!
//! Messages belong together if one of them replaces or removes an entry, or if a guard restores its flows. A switch without
//! bundles in its version, a single message, and more messages than a set can have are sent without a set.
//!
//! A set that fails changes nothing. Its messages are then sent one by one, because then a message that cannot be applied hinders
//! no other one. [`DIVIDED`] later, the next exchange is a set again.

use std::time::Duration;

use super::super::window::Op;
use super::sending::class;
use super::{Phase, RING_PAUSE, ROOM_LEFT, Site, Turn};
use crate::abi::Refusal;
use crate::changes::{CommitId, Committed, MAX_CHANGES, NotApplied, SetWriter};
use crate::network::SendError;

/// Time without an outcome after which it counts as lost. Sets of other applications may be in front of this one.
const SET_PATIENCE: Duration = Duration::from_secs(60);

/// Time for which messages are sent one by one after a set has failed.
const DIVIDED: Duration = Duration::from_secs(30);

/// Longest time of attempts while the ring has no room for a set: the operator may have made the ring too small for any.
const RING_PATIENCE: Duration = Duration::from_millis(500);

/// The change sets of one switch.
#[derive(Debug, Default)]
pub(super) struct Sets {
    pending: Option<Pending>,
    /// The queued messages belong together.
    is_joined: bool,
    /// Messages are sent one by one until this time.
    divided_until: Duration,
    /// The time since which the ring has no room for the set.
    full_since: Option<Duration>,
}

/// A set whose outcome is outstanding.
#[derive(Debug)]
struct Pending {
    commit: CommitId,
    ops: Vec<Op>,
    until: Duration,
}

/// How the queue was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentAs {
    /// As a set, whose outcome is outstanding.
    Set,
    /// Not yet: there is no room before this time.
    Nothing(Duration),
    /// The messages are to be sent one by one.
    Messages,
}

impl Sets {
    /// Notes that the queued messages belong together.
    pub(super) fn join(&mut self) {
        self.is_joined = true;
    }

    /// Whether no outcome is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    /// The time at which an outstanding outcome counts as lost.
    pub(super) fn until(&self) -> Option<Duration> {
        self.pending.as_ref().map(|pending| pending.until)
    }

    /// Forgets an outcome that is overdue; returns whether there was one.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        self.pending.take_if(|pending| now >= pending.until).is_some()
    }

    /// Forgets an outstanding outcome; returns whether there was one.
    pub(super) fn forget(&mut self) -> bool {
        self.pending.take().is_some()
    }

    /// Decides whether the ring may still get room for a set.
    fn waits_for_room(&mut self, now: Duration) -> bool {
        now < *self.full_since.get_or_insert(now) + RING_PATIENCE
    }

    /// Has messages sent one by one for a while.
    fn divide(&mut self, now: Duration) {
        (self.divided_until, self.full_since) = (now + DIVIDED, None);
    }
}

impl Site {
    /// Sends the queue as a change set, if its messages belong together and fit into one.
    pub(super) fn send_set(&mut self, turn: &mut Turn<'_, '_, '_>) -> SentAs {
        let now = turn.now();
        if !self.sets.is_idle() {
            return SentAs::Set;
        }
        if self.queue.is_empty() {
            self.sets.is_joined = false;
        }
        let may_have_bundles = self.switch.version.features().may_have_bundles();
        let fits = (2..=MAX_CHANGES).contains(&self.queue.len());
        if !(self.sets.is_joined && may_have_bundles && fits && now >= self.sets.divided_until) {
            return SentAs::Messages;
        }
        let room_left = if turn.settings.at_once { 0 } else { ROOM_LEFT };
        if *turn.budget == 0 || turn.network.room() < room_left {
            return SentAs::Nothing(now + RING_PAUSE);
        }
        let Some(set) = self.write_set(turn) else {
            self.sets.divide(now);
            return SentAs::Messages;
        };
        if set.len() < 2 {
            return SentAs::Messages;
        }
        let count = set.len();
        match turn.network.commit_set(self.switch, set) {
            Ok(commit) => {
                *turn.budget = turn.budget.saturating_sub(count);
                self.await_set(commit, now);
                SentAs::Set
            }
            Err(SendError::Full) if self.sets.waits_for_room(now) => {
                SentAs::Nothing(now + RING_PAUSE)
            }
            Err(_) => {
                self.sets.divide(now);
                SentAs::Messages
            }
        }
    }

    /// Writes the queue as a set. Messages that cannot be encoded leave the queue as failed. `None` if the set would be too long.
    ///
    /// Removals of flows come first, so that a full table has room. A packet does not meet the state between: where a
    /// switch applies changes one by one, the kernel sends the additions first.
    fn write_set(&mut self, turn: &mut Turn<'_, '_, '_>) -> Option<SetWriter> {
        let own = turn.network.host().own();
        let mut set = turn.network.begin_set();
        let place = |op: &Op| match (op, class(op, turn.set)) {
            (Op::Remove(_), 0) => 0,
            (Op::Remove(_), _) => 4,
            (_, class) => 3 - class,
        };
        let mut ops: Vec<Op> = self.queue.iter().cloned().collect();
        ops.sort_by_key(place);
        let mut failed = Vec::new();
        for op in ops {
            let added = match self.change(&op, turn.set) {
                Some(change) => set.add(&change, &own, self.switch.version),
                None => continue,
            };
            match added {
                Ok(()) => {}
                Err(SendError::ChangeSet { .. }) => return None,
                Err(error) => failed.push((op, error)),
            }
        }
        for (op, error) in failed {
            self.queue.retain(|queued| *queued != op);
            self.failed(&op, error.to_string(), turn);
        }
        Some(set)
    }

    /// Notes that the queue was sent as a set.
    fn await_set(&mut self, commit: CommitId, now: Duration) {
        let ops: Vec<Op> = self.queue.drain(..).collect();
        let may_lack = !self.has_kept || matches!(self.phase, Phase::Reading(_));
        if may_lack {
            let sent = ops.iter().filter_map(|op| match op {
                Op::Put(id) | Op::Replace(id) => Some(*id),
                Op::Modify(_) | Op::Remove(_) => None,
            });
            self.known.unlisted.extend(sent);
        }
        (self.sets.is_joined, self.sets.full_since) = (false, None);
        self.sets.pending = Some(Pending { commit, ops, until: now + SET_PATIENCE });
    }

    /// Handles the outcome of a change set; returns whether it was for the library.
    pub(in crate::wanted) fn committed(
        &mut self,
        committed: &Committed<'_>,
        turn: &mut Turn<'_, '_, '_>,
    ) -> bool {
        let is_it = |pending: &mut Pending| pending.commit == committed.commit;
        let Some(Pending { ops, .. }) = self.sets.pending.take_if(is_it) else { return false };
        match committed.outcome {
            Ok(_) => ops.iter().for_each(|op| self.confirmed(op)),
            Err(NotApplied::Refused { why: Some(Refusal::NoSwitch | Refusal::Epoch), .. }) => {}
            // A later set can be applied, and single messages would show packets a part of it.
            Err(NotApplied::Refused { why: Some(why), .. }) if why.is_temporary() => {
                for op in ops.into_iter().rev() {
                    self.queue.push_front(op);
                }
                self.sets.join();
                self.pause(turn.now());
            }
            Err(NotApplied::Refused { .. } | NotApplied::Failed { is_partial: false, .. }) => {
                self.sets.divide(turn.now());
                for op in ops.into_iter().rev() {
                    self.queue.push_front(op);
                }
            }
            Err(NotApplied::Failed { .. } | NotApplied::Unanswered { .. }) => {
                self.sets.divide(turn.now());
                self.check_by(turn.now());
            }
        }
        true
    }
}
