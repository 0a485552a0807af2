//! Handles the answers of a switch and the refusals of the kernel.

use std::time::Duration;

use openflow::{MultipartReply, ReplyBody};

use super::super::Owns;
use super::super::entry::{Content, MARK};
use super::super::notice::Notice;
use super::super::window::Op;
use super::{CHECK_SOON, LONGEST_PAUSE, MOST_FAILURES, MOST_LISTED, PAUSE, Phase, Site, Turn};
use crate::abi::Refusal;
use crate::network::Xid;
use crate::{Reply, SwitchError};

impl Site {
    /// Handles a reply; returns whether it was for the library.
    pub(in crate::wanted) fn reply(
        &mut self,
        reply: &Reply<'_>,
        turn: &mut Turn<'_, '_, '_>,
    ) -> bool {
        if self.window.is_barrier(reply.xid) {
            let confirmed = self.window.confirm();
            for op in &confirmed {
                self.confirmed(op);
            }
            self.pause = PAUSE;
            return true;
        }
        let Phase::Reading(reading) = &mut self.phase else { return false };
        if reading.xid != reply.xid {
            return false;
        }
        reading.since = turn.now();
        reading.size += reply.message.len();
        let more = match reply.multipart() {
            Ok(MultipartReply { more, body }) if reading.size <= MOST_LISTED => {
                match body {
                    ReplyBody::Flow(_) => reading.listing.flows.push(reply.message.into()),
                    ReplyBody::GroupDesc(groups) => {
                        reading.listing.groups.get_or_insert_default().extend(groups);
                    }
                    ReplyBody::MeterConfig(meters) => {
                        reading.listing.meters.get_or_insert_default().extend(meters);
                    }
                    _ => {}
                }
                more
            }
            Ok(_) => {
                self.cannot_read("it lists more than the library reads".into(), turn);
                return true;
            }
            Err(error) => {
                self.cannot_read(format!("its reply is malformed: {error}"), turn);
                return true;
            }
        };
        if !more && let Phase::Reading(reading) = std::mem::replace(&mut self.phase, Phase::Idle) {
            self.next_step(*reading, turn);
        }
        true
    }

    pub(super) fn confirmed(&mut self, op: &Op) {
        match op {
            Op::Put(id) => {
                if self.work.missing.contains(id) {
                    self.work.restored += 1;
                } else {
                    self.work.changed += 1;
                }
            }
            Op::Modify(_) | Op::Replace(_) => self.work.changed += 1,
            Op::Remove(_) => self.work.removed += 1,
        }
    }

    /// Handles an error of the switch; returns whether it was about a message of the library.
    pub(in crate::wanted) fn error(
        &mut self,
        error: &SwitchError<'_>,
        turn: &mut Turn<'_, '_, '_>,
    ) -> bool {
        if self.is_reading(error.xid) {
            return self.reading_failed(&error.error.to_string(), turn);
        }
        let Some(op) = self.window.fail(error.xid) else { return false };
        let why = words(error.error.code_name());
        let text = error.error;
        match why {
            Some(why) => {
                self.lacks_room(&op, format!("{why} ({text})"));
                // What would add more only fails as well. Removals make room.
                let left = self.queue.len();
                self.queue.retain(|op| matches!(op, Op::Remove(_)));
                self.no_room.0 += left - self.queue.len();
            }
            None if is_stale(error.error.code_name()) && !self.in_doubt(&op) => {
                // An earlier instance added or removed it. The next listing shows what is there.
                self.check_by(turn.now() + CHECK_SOON);
            }
            None => self.failed(&op, format!("the switch answered {text}"), turn),
        }
        true
    }

    /// Notes that there is no room for an entry. A listing without it is right, even if the listing began before the entry was sent.
    fn lacks_room(&mut self, op: &Op, why: String) {
        self.no_room.0 += 1;
        self.no_room.1 = why;
        if let Op::Put(id) | Op::Modify(id) | Op::Replace(id) = op {
            self.known.unlisted.remove(id);
        }
    }

    /// Notes that a group or meter was there or not there unexpectedly; returns whether it was so before.
    pub(super) fn in_doubt(&mut self, op: &Op) -> bool {
        match op {
            Op::Put(id) | Op::Modify(id) | Op::Replace(id) => !self.known.doubtful.insert(*id),
            Op::Remove(_) => false,
        }
    }

    /// Handles a refusal of the kernel; returns whether it was about a message of the library.
    pub(in crate::wanted) fn refused(
        &mut self,
        why: Option<Refusal>,
        message: &[u8],
        remedy: Option<&str>,
        turn: &mut Turn<'_, '_, '_>,
    ) -> bool {
        let Some(xid) = Xid::of(message) else { return false };
        let reason =
            why.map_or("for a reason that this SDK does not know".into(), |why| why.to_string());
        let reason = remedy.map_or(reason.clone(), |remedy| format!("{reason}: {remedy}"));
        if self.is_reading(xid) {
            if why == Some(Refusal::Capability) {
                self.cannot_read(format!("{reason}; add \"stats.read\" to its capabilities"), turn);
                return true;
            }
            self.phase = Phase::Idle;
            self.check_by(turn.now() + LONGEST_PAUSE);
            return true;
        }
        if self.window.is_barrier(xid) {
            self.window.clear();
            self.check_by(turn.now() + LONGEST_PAUSE);
            return true;
        }
        let Some(op) = self.window.fail(xid) else { return false };
        match why {
            Some(Refusal::NoSwitch | Refusal::Epoch) => {}
            Some(why) if why.is_temporary() => {
                self.queue.push_front(op);
                self.pause(turn.now());
            }
            Some(Refusal::Flows) => self.lacks_room(&op, reason),
            Some(Refusal::Capability)
                if self.switch.version.features().add_resets_counters
                    && !self.only_add
                    && is_put(&op) =>
            {
                self.only_add = true;
                self.queue.push_front(op);
            }
            _ => self.failed(&op, format!("the kernel refused it: {reason}"), turn),
        }
        true
    }

    /// Sends nothing for a while, twice as long as last time.
    pub(super) fn pause(&mut self, now: Duration) {
        self.resume_at = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Notes that an entry failed, and reports it.
    pub(super) fn failed(&mut self, op: &Op, why: String, turn: &mut Turn<'_, '_, '_>) {
        let (entry, cookie) = match op {
            Op::Put(id) | Op::Modify(id) | Op::Replace(id) => {
                self.known.failed.insert(*id);
                let Some(entry) = turn.set.get(*id) else { return };
                let cookie = match entry.content() {
                    Content::Flow(flow) => flow.cookie,
                    _ => 0,
                };
                (entry.key.to_string(), cookie)
            }
            Op::Remove(stray) => (stray.key.to_string(), stray.cookie),
        };
        self.failures += 1;
        if self.failures <= MOST_FAILURES {
            let cookie = if turn.settings.owns == Owns::Declared { cookie & !MARK } else { cookie };
            turn.notices.push(Notice::Failed { switch: self.switch, entry, cookie, why });
        }
    }

    /// Notes that answers were lost, perhaps those that this waits for.
    pub(in crate::wanted) fn answers_lost(&mut self, now: Duration) {
        let waited = self.sets.forget() | self.window.clear();
        if waited || matches!(self.phase, Phase::Reading(_)) {
            self.phase = Phase::Idle;
            self.check_by(now + CHECK_SOON);
        }
    }
}

fn is_put(op: &Op) -> bool {
    matches!(op, Op::Put(_) | Op::Modify(_))
}

/// Says in words that a switch has no room; `None` for another error.
fn words(code: Option<&str>) -> Option<&'static str> {
    match code? {
        "TABLE_FULL" | "ALL_TABLES_FULL" => Some("the flow table is full"),
        "OUT_OF_GROUPS" => Some("the group table is full"),
        "OUT_OF_METERS" => Some("the switch has no meter left"),
        _ => None,
    }
}

/// Whether an error says that a group or meter is there, or is not.
fn is_stale(code: Option<&str>) -> bool {
    matches!(code, Some("GROUP_EXISTS" | "UNKNOWN_GROUP" | "METER_EXISTS" | "UNKNOWN_METER"))
}
