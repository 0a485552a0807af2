//! An app's rings, from attach to death and back: snapshot, replay, live.
//!
//! ```text
//!            attach                 all told             backlog done
//!   Down ------------> Snapshot --------------> Replay ---------------> Live
//!    ^ ^                   |      one at a time    |                      |
//!    | \-------------------+---- the zone dies ----+                      |
//!    \---- the zone dies: its up ring becomes the backlog ----------------/
//! ```
//!
//! Why: `docs/decisions/0001-ring-commit-protocol.md`, "After a death". In short: packet-ins that
//! were not done are delivered again behind a snapshot; state (switches and ports) is always told
//! from what it is now, never from what was queued.
//!
//! The rule that keeps it right: **no record about a switch before that switch is announced**
//! ([`Link::announce`]), and what finds the ring full clears the announcement instead of queueing.

use std::io;

use sdk::Refusal;
use sdk::abi::{self, Record, RecordKind};
use sys::doorbell::Doorbell;
use sys::ring::{Down, KernelEnd, PeerFault, RingFds, Room};

use crate::connection::Switch;
use crate::control::AppId;
use crate::dispatch::{port_record, refused_record, switch_record};
use crate::policy::Policy;

/// A switch is wholly told: itself and all its ports.
const TOLD: u32 = u32::MAX;

/// `reason` of a port record that a snapshot gives (`OFPPR_ADD`).
const PORT_ADD: u8 = 0;

/// One app, as the worker knows it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) app: AppId,
    pub(crate) name: String,
    pub(crate) policy: Policy,
    /// Place in [`Switch::announced`].
    slot: usize,
    phase: Phase,
    /// None while the app is down.
    rings: Option<KernelEnd>,
    /// Rung by us, when there is something in the up ring.
    up_bell: Doorbell,
    /// Rung by the zone, when there is something in the down ring.
    pub(crate) down_bell: Doorbell,
    /// Packet-ins that wait until the app is live; nobody reads this ring but we.
    backlog: Option<KernelEnd>,
    /// How many of the backlog, from its front, a dead zone may have seen.
    maybe_seen: u32,
    /// Whether the backlog's front is in the up ring and not done.
    in_flight: bool,
    /// Whether switches wait to be announced.
    to_announce: bool,
    capacity: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No zone holds the rings.
    Down,
    /// Switches are being told; `begun` once the snapshot's first record is in the ring.
    Snapshot { begun: bool },
    /// The backlog is being delivered, one record at a time.
    Replay,
    /// Packet-ins go straight into the ring.
    Live,
}

/// What a new zone is given.
pub(crate) struct Attached {
    pub(crate) fds: RingFds,
    pub(crate) up_bell: Doorbell,
    pub(crate) down_bell: Doorbell,
}

impl Link {
    /// An app that was never attached.
    pub(crate) fn new(app: AppId, name: String, slot: usize, capacity: u32) -> io::Result<Self> {
        Ok(Self {
            app,
            name,
            policy: Policy::default(),
            slot,
            phase: Phase::Down,
            rings: None,
            up_bell: Doorbell::new()?,
            down_bell: Doorbell::new()?,
            backlog: None,
            maybe_seen: 0,
            in_flight: false,
            to_announce: true,
            capacity,
        })
    }

    /// Makes rings for a new incarnation of the app's zone; the one before was detached.
    pub(crate) fn attach(&mut self) -> io::Result<Attached> {
        let (rings, fds) = KernelEnd::create(self.capacity)?;
        let (up_bell, down_bell) = (Doorbell::new()?, Doorbell::new()?);
        let attached =
            Attached { fds, up_bell: up_bell.try_clone()?, down_bell: down_bell.try_clone()? };
        (self.rings, self.up_bell, self.down_bell) = (Some(rings), up_bell, down_bell);
        self.phase = Phase::Snapshot { begun: false };
        self.to_announce = true;
        Ok(attached)
    }

    /// The zone is dead and its down ring was taken to the end. Returns the record that has now
    /// ended it twice, if there is one; it is not delivered again.
    pub(crate) fn detach(&mut self) -> Option<Vec<u8>> {
        let phase = std::mem::replace(&mut self.phase, Phase::Down);
        let rings = self.rings.take()?;
        let outstanding = rings.outstanding();
        if phase == Phase::Live {
            (self.maybe_seen, self.backlog) = (outstanding, (outstanding > 0).then_some(rings));
            return None;
        }
        let backlog = self.backlog.as_mut().filter(|_| std::mem::take(&mut self.in_flight))?;
        let mut record = Vec::new();
        let ended_it = outstanding > 0 && backlog.oldest(&mut record);
        backlog.drop_oldest();
        self.maybe_seen = self.maybe_seen.saturating_sub(1);
        ended_it.then_some(record)
    }

    /// Whether a zone holds the rings.
    pub(crate) fn is_attached(&self) -> bool {
        self.phase != Phase::Down
    }

    /// Gives the app a packet-in, now or after the backlog. `false` if there was no room.
    pub(crate) fn packet_in(&mut self, switch: &mut Switch, record: &Record, body: &[u8]) -> bool {
        if self.phase == Phase::Live {
            return self.announce(switch) && self.push(&record.words(), body, Room::AllButReserve);
        }
        if self.backlog.is_none() {
            self.backlog = KernelEnd::create(self.capacity).ok().map(|(ring, _)| ring);
        }
        let backlog = self.backlog.as_mut();
        backlog.is_some_and(|ring| ring.push(&record.words(), body, Room::AllButReserve))
    }

    /// Tells the app about a switch and its ports, as far as there is room; `true` once it is
    /// told wholly. Continues where it stopped.
    ///
    /// [`Switch::announced`] counts the records that were written, up to [`TOLD`].
    pub(crate) fn announce(&mut self, switch: &mut Switch) -> bool {
        if switch.announced.len() <= self.slot {
            switch.announced.resize(self.slot + 1, 0);
        }
        let told = &mut switch.announced[self.slot];
        if *told == TOLD {
            return true;
        }
        if !self.is_attached() || self.phase == (Phase::Snapshot { begun: false }) {
            return false;
        }
        let (info, epoch) = (&switch.info, switch.epoch);
        if *told == 0 {
            let record = switch_record(RecordKind::SwitchUp, info, epoch);
            if !self.push(&record.words(), &[], Room::All) {
                self.to_announce = true;
                return false;
            }
            *told = 1;
        }
        for port in info.ports.iter().skip(*told as usize - 1) {
            let (record, body) = port_record(info, epoch, PORT_ADD, port);
            if !self.push(&record.words(), &body, Room::All) {
                self.to_announce = true;
                return false;
            }
            *told += 1;
        }
        *told = TOLD;
        true
    }

    /// Tells the app of a change of a port, which `switch.info` contains already.
    pub(crate) fn port(&mut self, switch: &mut Switch, reason: u8, port: &openflow::PortDesc) {
        let Some(told) = switch.announced.get_mut(self.slot).filter(|told| **told != 0) else {
            return; // it will be told as it is then
        };
        let (record, body) = port_record(&switch.info, switch.epoch, reason, port);
        let room = *told == TOLD && self.push(&record.words(), &body, Room::All);
        if !room {
            *told = 0; // told anew, from the start
            self.to_announce = true;
        }
    }

    /// Tells the app that a switch is gone.
    pub(crate) fn switch_down(&mut self, switch: &Switch) {
        if switch.announced.get(self.slot).is_none_or(|told| *told == 0) {
            return; // it never heard of this connection
        }
        let record = switch_record(RecordKind::SwitchDown, &switch.info, switch.epoch);
        if self.is_attached() && !self.push(&record.words(), &[], Room::All) {
            self.phase = Phase::Snapshot { begun: false }; // what is gone is not in it
            self.to_announce = true;
        }
    }

    /// Tells the app that a message of its was refused, if there is room for it.
    pub(crate) fn refused(&mut self, dpid: u64, epoch: u32, why: Refusal, message: &[u8]) -> bool {
        let version = message.first().copied().unwrap_or(0);
        let (record, body) = refused_record(version, dpid, epoch, why, message);
        self.is_attached() && self.push(&record.words(), body, Room::AllButReserve)
    }

    /// Does what could not be done before: goes on with the snapshot, then with the backlog.
    ///
    /// `find` gives the switch with a DPID if it is connected.
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
    }

    /// Whether [`pump`](Self::pump) has something to do.
    pub(crate) fn has_work(&self) -> bool {
        self.is_attached() && (self.to_announce || self.phase == Phase::Replay)
    }

    fn tell_all<'s>(&mut self, switches: impl Iterator<Item = &'s mut Switch>) {
        let anew = self.phase == (Phase::Snapshot { begun: false });
        if anew {
            if !self.push(&bare(RecordKind::SnapshotBegin), &[], Room::All) {
                return;
            }
            self.phase = Phase::Snapshot { begun: true };
        }
        let mut complete = true;
        for switch in switches {
            if anew && let Some(told) = switch.announced.get_mut(self.slot) {
                *told = 0;
            }
            complete = complete && self.announce(switch);
        }
        if !complete {
            return;
        }
        if self.phase == (Phase::Snapshot { begun: true }) {
            if !self.push(&bare(RecordKind::SnapshotEnd), &[], Room::All) {
                return;
            }
            self.phase = Phase::Replay;
        }
        self.to_announce = false;
    }

    fn replay(&mut self, is_current: impl Fn(u64, u32) -> bool) {
        let Some(rings) = self.rings.as_mut().filter(|rings| rings.outstanding() == 0) else {
            return; // one at a time
        };
        let Some(backlog) = &mut self.backlog else {
            self.phase = Phase::Live;
            return;
        };
        if std::mem::take(&mut self.in_flight) {
            backlog.drop_oldest();
            self.maybe_seen = self.maybe_seen.saturating_sub(1);
        }
        let mut record = Vec::new();
        while backlog.oldest(&mut record) {
            let words = words(&record);
            let current = words
                .filter(|words| words[0] >> 32 & 0xffff == RecordKind::PacketIn as u64)
                .filter(|words| is_current(words[1], low_half(words[2])));
            if let Some(mut words) = current {
                if self.maybe_seen > 0 {
                    words[0] |= u64::from(abi::REPEATED) << 56;
                }
                if rings.push(&words, &record[abi::RECORD_HEAD..], Room::All) {
                    self.in_flight = true;
                }
                return;
            }
            // Other events are told by the snapshot; packets of past connections are moot.
            backlog.drop_oldest();
            self.maybe_seen = self.maybe_seen.saturating_sub(1);
        }
        self.backlog = None;
        self.phase = Phase::Live;
    }

    /// Shows the zone what was written, and wakes it if it sleeps.
    pub(crate) fn publish(&mut self) {
        if self.rings.as_mut().is_some_and(KernelEnd::publish) {
            self.up_bell.ring();
        }
    }

    /// Takes the next thing that the zone said; see [`KernelEnd::take`].
    pub(crate) fn take<'o>(&mut self, out: &'o mut Vec<u8>) -> Result<Option<Down<'o>>, PeerFault> {
        self.rings.as_mut().map_or(Ok(None), |rings| rings.take(out))
    }

    /// Gives the zone the space of what was taken, and wakes it if it waits for that.
    pub(crate) fn release(&mut self) {
        if self.rings.as_mut().is_some_and(KernelEnd::release) {
            self.up_bell.ring();
        }
    }

    /// Says that the worker is about to sleep. `true` if the zone has said something after all.
    pub(crate) fn prepare_to_sleep(&mut self) -> Result<bool, PeerFault> {
        self.rings.as_mut().map_or(Ok(false), KernelEnd::prepare_to_sleep)
    }

    /// Says that the worker is awake.
    pub(crate) fn awake(&mut self) {
        if let Some(rings) = &mut self.rings {
            rings.awake();
        }
    }

    fn push(&mut self, head: &[u64], body: &[u8], room: Room) -> bool {
        self.rings.as_mut().is_some_and(|rings| rings.push(head, body, room))
    }
}

/// The head of a record that is about no switch.
fn bare(kind: RecordKind) -> [u64; abi::RECORD_HEAD / 8] {
    Record::new(kind, 0, 0, 0).words()
}

/// The head's words of a whole record of ours; `None` if it has none.
fn words(record: &[u8]) -> Option<[u64; abi::RECORD_HEAD / 8]> {
    let (head, _) = record.split_first_chunk::<{ abi::RECORD_HEAD }>()?;
    let (words, _) = head.as_chunks::<8>();
    let mut out = [0; abi::RECORD_HEAD / 8];
    for (out, word) in out.iter_mut().zip(words) {
        *out = u64::from_le_bytes(*word);
    }
    Some(out)
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is the field")]
fn low_half(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests;
