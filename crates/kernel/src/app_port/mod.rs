//! An app's rings, from attach to death and back: snapshot, replay, live.
//!
//! ```text
//!            attach                 all told             backlog empty
//!   Down ------------> Snapshot --------------> Replay ---------------> Live
//!     ^                  |                         |                     |
//!     \--- the zone dies +-------------------------+---------------------/
//!          and its up ring becomes the front of the backlog
//! ```
//!
//! Why: `docs/decisions/0001-ring-commit-protocol.md`, "After a death". In short: packet-ins that
//! were not done are delivered again behind a snapshot, those that may have ended the zone one at
//! a time; state (switches and ports) is always told from what it is now, never from what was
//! queued.
//!
//! The rule that keeps it right: **no record about a switch before that switch is told**
//! ([`AppPort::announce`]), and what finds the ring full is noted ([`Told`], `AppPort::gone`) instead of
//! queued.

mod answers;
mod backlog;
mod counts;
mod drain;
mod fullness;
mod hosted;
mod messages;
mod outbox;
mod packets;
pub mod part;
mod quota;
mod replay;
mod throttle;
mod tickets;
mod tracked;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use sdk::Refusal;
use sdk::abi::{self, Record, RecordKind, Words};
use sys::doorbell::{Doorbell, Ringer};
use sys::ring::{Down, PeerFault, Room};

use crate::check::Rights;
use crate::control::{AppId, Tuning};
use crate::hold_queue::Ticket;
use crate::policy::Policy;
use crate::pool::SharedQuota;
use crate::record::{port_record, refused_record, switch_record};
use crate::switch::{Switch, Told};

use self::backlog::Backlog;
#[cfg(test)]
pub(crate) use self::backlog::LARGER;
pub(crate) use self::counts::{Counts, News};
use self::drain::Drain;
pub(crate) use self::fullness::Fill;
use self::fullness::Fullness;
use self::hosted::Hosted;
pub(crate) use self::messages::{Message, Messages};
use self::part::Role;
pub(crate) use self::quota::{Metered, QuotaMeter};
pub(crate) use self::throttle::{Slowed, Throttle};
pub(crate) use self::tickets::Verdict;
use self::tracked::Tracked;

/// `reason` of a port record that an announcement gives (`OFPPR_ADD`).
const PORT_ADD: u8 = 0;

/// One app, as the worker knows it.
#[derive(Debug)]
pub(crate) struct AppPort {
    pub(crate) app: AppId,
    pub(crate) name: String,
    pub(crate) policy: Policy,
    pub(crate) rights: Rights,
    pub(crate) quota: QuotaMeter,
    pub(crate) throttle: Throttle,
    pub(crate) counts: Counts,
    fullness: Fullness,
    drain: Drain,
    /// Place in [`Switch::told`].
    slot: usize,
    phase: Phase,
    place: Place,
    backlog: Backlog,
    /// Whether switches wait to be told.
    to_announce: bool,
    /// Connections that the app was told of and that are gone, which is still to be told. At most
    /// as many as it was told of, as nothing new is told before ([`AppPort::tell_gone`]).
    gone: VecDeque<Record>,
    capacity: u32,
    /// Most records that it is called with.
    batch: usize,
    /// Which instance of the app has the rings, counted from 1.
    pub(crate) life: u16,
    /// What did not reach the app and was not told to be lost.
    lost: u64,
    /// A packet-in of its own flow, with its own cookie.
    own_packet: Vec<u8>,
}

/// Where the app is.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few, and rings are looked at for each packet"
)]
enum Place {
    /// It is down.
    Nowhere,
    /// In a zone.
    Zone(Rings),
    /// In this process.
    Here(Box<Hosted>),
}

/// What a zone and the kernel share.
#[derive(Debug)]
struct Rings {
    ring: Tracked,
    /// Rung by us, when there is something in the up ring.
    up_bell: Ringer,
    /// Rung by the zone, when there is something in the down ring.
    down_bell: Doorbell,
    /// Whether the ring's oldest record is also the backlog's: delivered alone, and not done.
    in_flight: bool,
    role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The app is nowhere.
    Down,
    /// Switches are being told; `begun` once the snapshot's first record, if it is for this worker
    /// to say, is in the ring.
    Snapshot { begun: bool },
    /// The backlog is being delivered.
    Replay,
    /// Packet-ins go straight into the ring.
    Live,
}

impl AppPort {
    /// An app that was never attached.
    pub(crate) fn new(
        app: AppId,
        name: String,
        slot: usize,
        tuning: Tuning,
        shared_quota: Arc<SharedQuota>,
    ) -> Self {
        let policy = Policy::default();
        Self {
            app,
            name,
            rights: Rights::of(app, &policy),
            policy,
            throttle: Throttle::new(Arc::clone(&shared_quota)),
            quota: QuotaMeter::new(shared_quota),
            counts: Counts::default(),
            fullness: Fullness::default(),
            drain: Drain::new(),
            slot,
            phase: Phase::Down,
            place: Place::Nowhere,
            backlog: Backlog::default(),
            to_announce: true,
            gone: VecDeque::new(),
            capacity: tuning.ring,
            batch: tuning.batch.into(),
            life: 0,
            lost: 0,
            own_packet: Vec::new(),
        }
    }

    /// The doorbell by which the zone wakes us, while there is one.
    pub(crate) fn down_bell(&self) -> Option<&Doorbell> {
        match &self.place {
            Place::Zone(rings) => Some(&rings.down_bell),
            Place::Nowhere | Place::Here(_) => None,
        }
    }

    /// The zone is dead and its down ring was taken to the end. Returns the record that has now
    /// ended it twice, if there is one; it is not delivered again.
    pub(crate) fn detach(&mut self) -> Option<Vec<u8>> {
        let Place::Zone(Rings { mut ring, in_flight, .. }) = self.leave() else { return None };
        let mut ended_it = None;
        if in_flight {
            let mut record = Vec::new();
            ended_it = self.backlog.oldest(&mut record).map(|_| record);
            self.backlog.drop_oldest();
            ring.drop_oldest(); // the same
        }
        self.put_first(ring);
        ended_it
    }

    fn leave(&mut self) -> Place {
        self.phase = Phase::Down;
        self.drain = Drain::new();
        std::mem::replace(&mut self.place, Place::Nowhere)
    }

    /// Whether the app is somewhere.
    pub(crate) fn is_attached(&self) -> bool {
        self.phase != Phase::Down
    }

    /// Whether the app is in a zone.
    pub(crate) fn is_in_zone(&self) -> bool {
        matches!(self.place, Place::Zone(_))
    }

    /// How full the app is now. One in this process never is: it is called when there is a batch.
    pub(crate) fn fill(&mut self, now: Instant) -> Fill {
        let room = match (&self.place, self.phase) {
            (Place::Here(_), Phase::Live) => {
                self.drain.note_here(now);
                usize::MAX
            }
            (Place::Zone(rings), Phase::Live) => {
                let has_records = rings.ring.outstanding() > 0;
                self.drain.note(rings.ring.handled(), has_records, now);
                let room = rings.ring.room(Room::Ordinary);
                return self.fullness.note(room, self.capacity, Some(&self.drain), now);
            }
            _ => self.backlog.room(Room::Ordinary, self.capacity),
        };
        self.fullness.note(room, self.capacity, None, now)
    }

    /// Bytes of records that the app handles in a while that is short beside a tenth of a second, if that is known.
    pub(crate) fn pace(&self) -> usize {
        match (&self.place, self.phase) {
            (Place::Nowhere, _) | (_, Phase::Down | Phase::Snapshot { .. } | Phase::Replay) => {
                usize::MAX
            }
            (Place::Zone(_) | Place::Here(_), Phase::Live) => self.drain.pace(),
        }
    }

    /// Whether the app has something to do and has handled some of it lately.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        self.phase == Phase::Live && self.drain.is_busy(now)
    }

    /// Notes that a switch was left with something to be read for the app's sake.
    pub(crate) fn hold_back(&mut self) {
        self.drain.hold_back();
    }

    /// Bytes of ordinary packet-ins that wait in its zone's ring.
    pub(crate) fn queued(&self) -> usize {
        match &self.place {
            Place::Zone(rings) => {
                let all = Room::Ordinary.of(self.capacity);
                all.saturating_sub(rings.ring.room(Room::Ordinary))
            }
            Place::Nowhere | Place::Here(_) => 0,
        }
    }

    /// Records in its zone's ring that it has not handled. One in this process has none: it handles what it is
    /// called with before the call returns.
    pub(crate) fn waiting(&self) -> u32 {
        match &self.place {
            Place::Zone(rings) => rings.ring.outstanding(),
            Place::Nowhere | Place::Here(_) => 0,
        }
    }

    /// Whether it was full when [`fill`](Self::fill) was last transactions.
    pub(crate) fn is_full(&self) -> bool {
        self.fullness.is_full()
    }

    /// Whether it was full or behind then.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.fullness.is_waited_for()
    }

    /// Tells the app about a switch and its ports, as far as there is room; `true` once it is
    /// told wholly. Continues where it stopped.
    pub(crate) fn announce(&mut self, switch: &mut Switch) -> bool {
        if switch.told.len() <= self.slot {
            switch.told.resize(self.slot + 1, Told::Nothing);
        }
        let mut told = switch.told[self.slot];
        if told == Told::All {
            return true;
        }
        if !self.has_begun() {
            return false;
        }
        if !self.tell_gone() {
            // Else its past connection would seem to go after this one came.
            self.to_announce = true;
            return false;
        }
        if matches!(told, Told::Nothing | Told::Stale) {
            let record = switch_record(RecordKind::SwitchUp, switch);
            if self.push(&record.words(), &[], Room::All) {
                told = Told::PortsBelow(0);
            }
        }
        if let Told::PortsBelow(first) = told {
            told = Told::All;
            for (number, port) in switch.ports.range(first..) {
                let (record, body) = port_record(switch, PORT_ADD, port);
                if !self.push(&record.words(), &body, Room::All) {
                    told = Told::PortsBelow(*number);
                    break;
                }
            }
        }
        switch.told[self.slot] = told;
        self.to_announce |= told != Told::All;
        told == Told::All
    }

    /// Tells the app of a change of a port, which `switch.ports` contains already.
    pub(crate) fn port(&mut self, switch: &mut Switch, reason: u8, port: &openflow::PortDesc) {
        match switch.told.get(self.slot) {
            Some(Told::All) => {}
            Some(Told::PortsBelow(first)) if port.port_no.0 < *first => {}
            _ => return, // it will be told as it is then
        }
        if !self.has_begun() {
            return; // what it was told is void
        }
        let (record, body) = port_record(switch, reason, port);
        if !self.push(&record.words(), &body, Room::All) {
            switch.told[self.slot] = Told::Stale;
            self.to_announce = true;
        }
    }

    /// Tells the app that a switch is gone.
    pub(crate) fn switch_down(&mut self, switch: &Switch) {
        if switch.told.get(self.slot).is_none_or(|told| *told == Told::Nothing) {
            return; // it never heard of this connection
        }
        if self.has_begun() {
            self.gone.push_back(switch_record(RecordKind::SwitchDown, switch));
            self.to_announce |= !self.tell_gone();
        }
    }

    /// Tells the app which switches are gone, as far as there is room; `true` once all are told.
    fn tell_gone(&mut self) -> bool {
        while let Some(record) = self.gone.pop_front() {
            if !self.push(&record.words(), &[], Room::All) {
                self.gone.push_front(record);
                return false;
            }
        }
        true
    }

    /// Whether the app's snapshot has begun: before, it is told nothing.
    fn has_begun(&self) -> bool {
        !matches!(self.phase, Phase::Down | Phase::Snapshot { begun: false })
    }

    /// Tells the app that a message of its was refused, if there is room for it.
    pub(crate) fn refused(&mut self, dpid: u64, epoch: u32, why: Refusal, message: &[u8]) {
        let version = message.first().copied().unwrap_or(0);
        let (record, body) = refused_record(version, dpid, epoch, why, message);
        if !self.push(&record.words(), body, Room::AllButReserve) && self.is_attached() {
            self.lose();
        }
    }

    /// Whether [`pump`](Self::pump) has something to do.
    pub(crate) fn has_work(&self) -> bool {
        self.is_attached() && (self.to_announce || self.phase == Phase::Replay || self.has_lost())
    }

    /// Does what could not be done before: goes on with announcements, then with the backlog.
    /// `is_current` says whether a datapath is connected with this epoch.
    pub(crate) fn pump<'s>(
        &mut self,
        switches: impl Iterator<Item = &'s mut Switch>,
        is_current: impl Fn(u64, u32) -> bool,
    ) {
        if self.to_announce && self.is_attached() {
            self.tell_all(switches);
        }
        if self.phase == Phase::Replay {
            self.replay(is_current);
        }
        self.tell_lost();
    }

    fn begin_snapshot(&mut self) {
        self.phase = Phase::Snapshot { begun: false };
        self.gone.clear();
        self.to_announce = true;
    }

    fn tell_all<'s>(&mut self, switches: impl Iterator<Item = &'s mut Switch>) {
        let anew = self.phase == (Phase::Snapshot { begun: false });
        if anew {
            let begins = self.role().is_none_or(Role::begins);
            if begins && !self.push(&bare(RecordKind::SnapshotBegin), &[], Room::All) {
                return;
            }
            self.phase = Phase::Snapshot { begun: true };
        }
        if !self.tell_gone() {
            return;
        }
        let snapshot = self.phase == (Phase::Snapshot { begun: true });
        let (mut complete, mut stale) = (true, false);
        for switch in switches {
            let told = switch.told.get_mut(self.slot);
            if anew && let Some(told) = told {
                *told = Told::Nothing;
            } else if snapshot && told.is_some_and(|told| *told == Told::Stale) {
                // After the snapshot: what keeps changing must not keep it from ending.
                stale = true;
                continue;
            }
            complete = complete && self.announce(switch);
        }
        if !complete {
            return;
        }
        if snapshot {
            let end = self.role().map_or(RecordKind::SnapshotEnd, Role::end);
            if !self.push(&bare(end), &[], Room::All) {
                return;
            }
            self.phase = Phase::Replay;
        }
        self.to_announce = stale;
    }

    /// Takes the next record of the app, its message appended to `out`; what the app said about tickets is appended to
    /// `verdicts`.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone broke its ring.
    pub(crate) fn take<'o>(
        &mut self,
        out: &'o mut Vec<u8>,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Option<Down<'o>>, PeerFault> {
        let rings = match &mut self.place {
            Place::Zone(rings) => rings,
            Place::Here(hosted) => return Ok(hosted.take(out)),
            Place::Nowhere => return Ok(None),
        };
        let taken = rings.ring.take(out, verdicts)?;
        if let Some(Down::Done(count @ 1..)) = taken {
            self.counts.handled += u64::from(count);
            if std::mem::take(&mut rings.in_flight) {
                self.backlog.drop_oldest();
            }
        }
        Ok(taken)
    }

    /// Shows the zone what was written, and wakes it if it sleeps.
    pub(crate) fn publish(&mut self) {
        if let Place::Zone(rings) = &mut self.place
            && rings.ring.ring().publish()
        {
            rings.up_bell.ring();
        }
    }

    /// Gives the zone the space of what was taken, and wakes it if it waits for that.
    pub(crate) fn release(&mut self) {
        if let Place::Zone(rings) = &mut self.place
            && rings.ring.ring().release()
        {
            rings.up_bell.ring();
        }
    }

    /// Says that the worker is about to sleep. `true` if the zone has said something after all.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone lied about its index.
    pub(crate) fn prepare_to_sleep(&mut self) -> Result<bool, PeerFault> {
        match &mut self.place {
            Place::Nowhere => Ok(false),
            Place::Zone(rings) => rings.ring.ring().prepare_to_sleep(),
            Place::Here(hosted) => Ok(hosted.waiting() > 0),
        }
    }

    /// Says that the worker is awake.
    pub(crate) fn awake(&mut self) {
        if let Place::Zone(rings) = &mut self.place {
            rings.ring.ring().awake();
        }
    }

    fn push(&mut self, head: &Words, body: &[u8], room: Room) -> bool {
        self.push_ticket(head, body, room, Ticket::NONE)
    }

    #[inline]
    fn push_ticket(&mut self, head: &Words, body: &[u8], room: Room, ticket: Ticket) -> bool {
        match &mut self.place {
            Place::Nowhere => false,
            Place::Zone(rings) => rings.ring.push(head, body, room, ticket),
            Place::Here(hosted) => hosted.push(head, body, room, ticket),
        }
    }
}

/// The head of a record that is about no switch.
fn bare(kind: RecordKind) -> Words {
    Record::new(kind, 0, 0, 0).words()
}

/// The words of the head and the body of a whole record of ours; `None` if it has no head.
fn split(record: &[u8]) -> Option<(Words, &[u8])> {
    let (head, body) = record.split_first_chunk::<{ abi::RECORD_HEAD }>()?;
    let (words, _) = head.as_chunks::<8>();
    let mut out = [0; abi::RECORD_HEAD / 8];
    for (out, word) in out.iter_mut().zip(words) {
        *out = u64::from_le_bytes(*word);
    }
    Some((out, body))
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is the field")]
fn low_half(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests;
