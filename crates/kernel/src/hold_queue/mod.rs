//! Holds packets that an app receives only after another app's verdict.
//!
//! ```text
//!  packet-in --> guards, all at once --> control apps, one after the other --> removed
//!                  any Stop: removed       a Stop: removed
//! ```
//!
//! This module has no rings and no clock, so that unit tests cover its rules. [`Deliver`] writes the records.
//!
//! Order: each switch has one queue, in order of arrival. An entry is delivered to a control app only after all earlier
//! entries of the queue for that app. So several entries pass through the apps at once, and none overtakes another.
//!
//! An app that repeatedly answers too late is skipped, see [`patience`].

mod patience;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use openflow::PortDesc;
use sdk::abi::Record;
use slab::Slab;

pub(crate) use self::patience::News;
use self::patience::{PROMPT, Patience};
use crate::ids::{AppSlot, ConnId};
use crate::plan::{Plan, Set, Wanted};
use control::kernel::Tuning;

/// How long a packet waits for guards, or for one control app, before it goes on without their verdicts.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// Most entries, and most bytes of messages in them.
const MOST_HELD: usize = 4096;
const MOST_BYTES: usize = 4 << 20;

/// Reserve for switches with fewer than [`FEW`] entries: a quarter, so that the flood of
/// one switch does not cause drops of others' packets.
const KEPT: usize = MOST_HELD / 4;
const KEPT_BYTES: usize = MOST_BYTES / 4;
const FEW: usize = 16;

/// Least size of an entry, in bytes, by which room for entries is converted to room in bytes.
const LEAST: usize = 64;

/// Bytes of messages that fit into the smallest up ring: a record is at most twice as long as its
/// message, if that carries a whole frame.
const AT_ONCE: usize = *Tuning::RING.start() as usize * 5 / 16;

/// Most spare buffers, and the largest capacity of one in bytes: a message with a whole frame is shorter.
const SPARE: usize = 512;
const SPARE_SIZE: usize = 2048;

/// Names an entry to the app that received it; 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u64);

impl Ticket {
    /// The ticket of a record that needs no verdict.
    pub(crate) const NONE: Self = Self(0);

    /// The low bits of a ticket for a skipped app, which names no entry.
    const PROBE: u64 = 0xffff;
}

/// A held packet-in or port change.
#[derive(Debug)]
pub(crate) enum Held {
    /// A packet-in: the record's head and the OpenFlow message.
    Packet(Record, Vec<u8>),
    /// A change of a port, which must not overtake packets: `OFPPR_*`, and the port.
    Port(u8, PortDesc),
}

/// Delivers entries to apps.
pub(crate) trait Deliver {
    /// Delivers a packet or a port change to an app. `false` if the app has no room. Otherwise the app sends a verdict
    /// on `ticket`, unless that is [`Ticket::NONE`].
    fn deliver(&mut self, app: AppSlot, held: &Held, ticket: Ticket) -> bool;
}

#[derive(Debug)]
struct HeldPacket {
    held: Held,
    ticket: Ticket,
    /// The connection of its switch.
    owner: ConnId,
    /// Guards whose verdicts are pending.
    guards: Set,
    /// Control apps to which it was not delivered yet.
    controls: Set,
    /// The control app whose verdict is pending.
    with: Set,
    /// The deadline of the pending verdicts. Entries of [`Holds::deadlines`] with another time are void.
    until: Option<Instant>,
    /// Whether no other app receives it. It is removed at the front of its queue.
    gone: bool,
}

/// All entries of a worker.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    entries: Slab<HeldPacket>,
    bytes: usize,
    next: u64,
    /// The deadlines of entries, soonest first: all wait equally long.
    deadlines: VecDeque<(Instant, Ticket)>,
    /// Buffers of removed entries for the next copies, so that holding a packet allocates nothing.
    spare: Vec<Vec<u8>>,
    /// By app: packets that were decided without its verdict, until they are logged.
    pub(crate) late: BTreeMap<AppSlot, u64>,
    /// The apps that are skipped.
    pub(crate) patience: Patience,
}

impl Holds {
    /// Copies a message into a spare buffer.
    pub(crate) fn copy(&mut self, message: &[u8]) -> Vec<u8> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(message);
        copy
    }

    /// Holds a packet for the verdicts of the guards of `wanted`, or an entry that must queue behind such packets.
    /// Returns the ticket for the guards; `None` if there is no room.
    pub(crate) fn hold(
        &mut self,
        queue: &mut VecDeque<usize>,
        owner: ConnId,
        held: Held,
        wanted: Wanted,
        now: Instant,
    ) -> Option<Ticket> {
        let size = held.size();
        let (entries, bytes) = self.left(queue.len());
        if entries == 0 || bytes < size {
            return None;
        }
        let vacant = self.entries.vacant_entry();
        self.next += 1;
        let ticket = Ticket(self.next << 16 | vacant.key() as u64);
        let until = (!wanted.guards.is_empty()).then(|| now + PATIENCE);
        vacant.insert(HeldPacket {
            held,
            ticket,
            owner,
            guards: wanted.guards,
            controls: wanted.controls,
            with: Set::EMPTY,
            until,
            gone: false,
        });
        self.bytes += size;
        queue.push_back(ticket.key());
        self.deadlines.extend(until.map(|until| (until, ticket)));
        Some(ticket)
    }

    /// Returns the bytes of messages that may be read from a switch with `waiting` entries in the queue.
    ///
    /// All held packets may be delivered to one app at once, so together they should fit into a ring.
    pub(crate) fn room(&self, waiting: usize) -> usize {
        let (entries, bytes) = self.left(waiting);
        let before = if waiting < FEW { 0 } else { self.bytes };
        bytes.min(entries * LEAST).min(AT_ONCE.saturating_sub(before))
    }

    /// Returns the entries and bytes that are left for a switch with `waiting` entries.
    fn left(&self, waiting: usize) -> (usize, usize) {
        let (kept, kept_bytes) = if waiting < FEW { (0, 0) } else { (KEPT, KEPT_BYTES) };
        let entries = MOST_HELD.saturating_sub(self.entries.len() + kept);
        (entries, MOST_BYTES.saturating_sub(self.bytes + kept_bytes))
    }

    /// Applies the verdict of an app on a ticket. Returns the switch whose queue the caller must
    /// [advance](Self::advance).
    pub(crate) fn verdict(
        &mut self,
        ticket: Ticket,
        app: AppSlot,
        stop: bool,
        now: Instant,
    ) -> Option<ConnId> {
        if ticket.is_probe() {
            self.patience.probe_answered(app, ticket, now);
            return None;
        }
        let given = self.find(ticket).filter(|entry| entry.guards.has(app) || entry.with.has(app));
        let bound = match &given {
            Some(entry) if entry.with.has(app) => PROMPT,
            _ => Duration::MAX, // any verdict of a guard is in time
        };
        let given = given.and_then(|entry| entry.until?.checked_sub(PATIENCE));
        self.patience.answered(app, given, bound, now);
        self.decide(ticket, app, stop)
    }

    /// Decides about a packet in place of an app that has sent no verdict.
    pub(crate) fn decide(&mut self, ticket: Ticket, app: AppSlot, stop: bool) -> Option<ConnId> {
        let entry = self.find(ticket)?;
        let set = Set::of(app);
        if !entry.guards.has(app) && entry.with != set {
            return None; // its time was over before
        }
        entry.guards = entry.guards.without(set);
        entry.with = entry.with.without(set);
        entry.gone |= stop;
        Some(entry.owner)
    }

    /// Returns the ticket of a packet for an app that is skipped.
    pub(crate) fn pass_over(&mut self, app: AppSlot, now: Instant) -> Ticket {
        self.patience.pass_over(app, Ticket::probe(&mut self.next), now)
    }

    /// Returns when [`expire`](Self::expire) is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(at, _)| *at)
    }

    /// Decides about packets whose time is over without the missing verdicts. Appends the switches whose queues must be
    /// [advanced](Self::advance) to `owners`.
    pub(crate) fn expire(&mut self, now: Instant, plan: &Plan, owners: &mut Vec<ConnId>) {
        while let Some((at, ticket)) = self.deadlines.front().copied() {
            if at > now {
                return;
            }
            self.deadlines.pop_front();
            let Some(entry) = self.find(ticket).filter(|entry| entry.until == Some(at)) else {
                continue; // the verdicts came in time
            };
            let silent = std::mem::take(&mut entry.guards);
            entry.gone |= silent.iter().any(|guard| !plan.goes_on_without(guard));
            let with = std::mem::replace(&mut entry.with, Set::EMPTY);
            owners.push(entry.owner);
            for app in silent.with(with).iter() {
                *self.late.entry(app).or_default() += 1;
                let bound = match (with.has(app), plan.goes_on_without(app)) {
                    (true, _) => PROMPT,
                    (false, true) => PATIENCE,
                    (false, false) => Duration::MAX,
                };
                self.patience.expired(app, bound, at);
            }
        }
    }

    /// Delivers the entries of a switch's queue to the next apps as far as verdicts allow, and removes finished ones.
    pub(crate) fn advance(
        &mut self,
        queue: &mut VecDeque<usize>,
        plan: &Plan,
        now: Instant,
        to: &mut impl Deliver,
    ) {
        let mut taken = Set::EMPTY; // control apps that wait for an earlier entry
        for key in queue.iter() {
            let Some(entry) = self.entries.get_mut(*key) else { continue };
            while !entry.gone && entry.guards.is_empty() && entry.with.is_empty() {
                let Some(next) = plan.first(entry.controls) else {
                    entry.gone = true;
                    break;
                };
                if taken.has(next) {
                    break;
                }
                entry.controls = entry.controls.without(Set::of(next));
                let is_packet = matches!(entry.held, Held::Packet(..));
                let skipped = is_packet && self.patience.skips(next);
                let awaited = is_packet && !skipped && !entry.controls.is_empty();
                let ticket = if awaited {
                    entry.ticket
                } else if skipped {
                    self.patience.pass_over(next, Ticket::probe(&mut self.next), now)
                } else {
                    Ticket::NONE
                };
                if to.deliver(next, &entry.held, ticket) && awaited {
                    entry.with = Set::of(next);
                    entry.until = Some(now + PATIENCE);
                    self.deadlines.push_back((now + PATIENCE, ticket));
                }
            }
            if !entry.gone {
                taken = taken.with(entry.controls);
            }
        }
        while let Some(key) = queue.front().copied() {
            if self.entries.get(key).is_some_and(|entry| !entry.gone) {
                return;
            }
            queue.pop_front();
            self.remove(key);
        }
    }

    /// Removes all entries of a switch that is gone.
    pub(crate) fn forget(&mut self, queue: &mut VecDeque<usize>) {
        for key in queue.drain(..) {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: usize) {
        let Some(entry) = self.entries.try_remove(key) else { return };
        self.bytes -= entry.held.size();
        if let Held::Packet(_, mut message) = entry.held
            && message.capacity() <= SPARE_SIZE
            && self.spare.len() < SPARE
        {
            message.clear();
            self.spare.push(message);
        }
    }

    fn find(&mut self, ticket: Ticket) -> Option<&mut HeldPacket> {
        self.entries.get_mut(ticket.key()).filter(|entry| entry.ticket == ticket)
    }
}

impl Ticket {
    /// Makes the next ticket for a skipped app.
    fn probe(last: &mut u64) -> Self {
        *last += 1;
        Self(*last << 16 | Self::PROBE)
    }

    /// Whether the ticket belongs to a skipped app.
    fn is_probe(self) -> bool {
        self.0 & Self::PROBE == Self::PROBE
    }

    /// The entry's key in the slab. Keys stay below [`MOST_HELD`], so 16 bits hold them.
    fn key(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

impl Held {
    fn size(&self) -> usize {
        match self {
            Self::Packet(_, message) => message.len(),
            Self::Port(..) => size_of::<PortDesc>(),
        }
    }
}

#[cfg(test)]
mod tests;
