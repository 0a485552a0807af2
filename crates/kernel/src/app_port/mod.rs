//! The kernel's side of one app: its rings, its quota, and what was announced to it.
//!
//! * [`delivery`]: how records reach the app, by [`rings`] or by calls in this process ([`hosted`], [`guest`]).
//! * [`snapshot`]: the announcement of switches and ports after each start.
//! * [`backlog`] and [`replay`]: packet-ins for an app that is away, and their delivery when it is back.
//! * [`quota`] and [`throttle`]: what the app may send, and how often it is served if it wastes the kernel's time.
//! * [`load`]: how full the app is.
//! * [`latency`]: how long packet-ins take until the app has handled them.
//!
//! `docs/decisions/0001-ring-commit-protocol.md`, "After a death", gives the reasons. In short: packet-ins that were not
//! done are delivered again behind a snapshot, those that may have ended the zone one at a time. Switches and ports are
//! always announced as they are now, never from a queue.

mod answers;
mod backlog;
mod counts;
mod delivery;
mod fullness;
mod guest;
mod hosted;
mod latency;
mod load;
mod messages;
mod outbox;
mod packets;
pub mod part;
mod quota;
mod replay;
mod rings;
mod snapshot;
mod successor;
mod throttle;
mod throughput;
mod tickets;
mod tracked;

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Instant;

use openflow::PortDesc;
use sdk::Refusal;
use sdk::abi::{self, Words};
use sys::doorbell::Doorbell;
use sys::ring::{Down, PeerFault, Room};

use crate::app_queues::OutputTurn;
use crate::check::AppRights;
use crate::ids::AppSlot;
use crate::pool::SharedQuota;
use crate::record::refused_record;
use crate::switch::Switch;
use control::app::AppId;
use control::kernel::Tuning;
use control::policy::Policy;
use control::query::Latencies;

use self::backlog::Backlog;
#[cfg(test)]
pub(crate) use self::backlog::LARGER;
pub(crate) use self::counts::{Counts, DropReport};
use self::delivery::Delivery;
pub(crate) use self::fullness::Fill;
pub use self::guest::{Artifact, Code, Guest, Hostings, KernelHost, Load as LoadCode};
use self::latency::Latency;
use self::load::Load;
pub(crate) use self::messages::{Alike, Messages};
pub(crate) use self::quota::{Metered, QuotaMeter};
use self::snapshot::{Phase, Snapshot};
use self::successor::Successor;
pub(crate) use self::throttle::{Slowed, Throttle};
pub(crate) use self::tickets::Verdict;

/// One app, as one worker knows it.
#[derive(Debug)]
pub(crate) struct AppPort {
    pub(crate) app: AppId,
    pub(crate) name: String,
    /// Its place among the app ports.
    slot: AppSlot,
    pub(crate) policy: Policy,
    pub(crate) rights: AppRights,
    pub(crate) quota: QuotaMeter,
    pub(crate) throttle: Throttle,
    /// Whether the operator has stopped or removed the app, so that the plan leaves it out.
    pub(crate) is_absent: bool,
    /// When its priority band moved last, if it did.
    pub(crate) band_moved: Option<Instant>,
    pub(crate) counts: Counts,
    /// Its turns in the queues of switches that do not accept all output.
    pub(crate) output_turn: OutputTurn,
    delivery: Delivery,
    /// The instance of the app that runs or ran last, counted from 1.
    pub(crate) life: u16,
    snapshot: Snapshot,
    backlog: Backlog,
    /// What another instance needs, if the app is contained in this process.
    successor: Option<Box<Successor>>,
    load: Load,
    latency: Latency,
    /// Bytes of a ring of the app, and most records in one call of it.
    capacity: u32,
    batch: usize,
    /// Messages that did not reach the app and were not reported to it yet.
    lost: u64,
    /// Memory for a packet-in of the app's own flow, with its own cookie.
    own_packet: Vec<u8>,
}

impl Index<AppSlot> for Vec<AppPort> {
    type Output = AppPort;

    fn index(&self, slot: AppSlot) -> &AppPort {
        &self[slot.index()]
    }
}

impl IndexMut<AppSlot> for Vec<AppPort> {
    fn index_mut(&mut self, slot: AppSlot) -> &mut AppPort {
        &mut self[slot.index()]
    }
}

impl AppPort {
    /// An app that was never attached.
    pub(crate) fn new(
        app: AppId,
        name: String,
        slot: AppSlot,
        tuning: Tuning,
        shared_quota: Arc<SharedQuota>,
    ) -> Self {
        let policy = Policy::default();
        Self {
            app,
            name,
            slot,
            rights: AppRights::of(app, &policy),
            policy,
            throttle: Throttle::new(Arc::clone(&shared_quota)),
            quota: QuotaMeter::new(shared_quota),
            is_absent: false,
            band_moved: None,
            counts: Counts::default(),
            output_turn: OutputTurn::default(),
            delivery: Delivery::Nowhere,
            life: 0,
            snapshot: Snapshot::new(slot),
            backlog: Backlog::default(),
            successor: None,
            load: Load::default(),
            latency: Latency::default(),
            capacity: tuning.ring,
            batch: tuning.batch.into(),
            lost: 0,
            own_packet: Vec::new(),
        }
    }

    /// Notes that a new instance of the app runs, and begins its snapshot.
    fn start(&mut self, delivery: Delivery) {
        self.delivery = delivery;
        self.life = self.life.wrapping_add(1);
        self.snapshot.begin();
    }

    /// Notes that the app runs no longer; returns where it ran.
    fn stop(&mut self) -> Delivery {
        self.snapshot.phase = Phase::Down;
        self.load.reset();
        self.latency.forget();
        std::mem::replace(&mut self.delivery, Delivery::Nowhere)
    }

    /// The doorbell by which the zone wakes the worker, if the app is in a zone.
    pub(crate) fn down_bell(&self) -> Option<&Doorbell> {
        self.delivery.rings().map(rings::Rings::down_bell)
    }

    /// Detaches the rings of a dead zone, whose messages were all taken. Returns the record that has ended a zone twice, if
    /// there is one; it is not delivered again.
    pub(crate) fn detach(&mut self) -> Option<Vec<u8>> {
        let Delivery::Rings(rings) = self.stop() else { return None };
        let (mut ring, mut culprit) = (rings.ring, None);
        if rings.in_flight {
            let mut record = Vec::new();
            culprit = self.backlog.oldest(&mut record).map(|_| record);
            self.backlog.drop_oldest();
            ring.drop_oldest(); // the same record
        }
        self.put_first(ring);
        culprit
    }

    /// Notes that the app was stopped or removed. Packet-ins that wait for it are dropped: they would be out of date when
    /// it starts again.
    pub(crate) fn forget(&mut self) {
        self.is_absent = true;
        self.successor = None;
        self.backlog = Backlog::default();
    }

    /// Whether the app runs.
    pub(crate) fn is_attached(&self) -> bool {
        self.snapshot.is_up()
    }

    /// Whether all of the snapshot after the app's start was written.
    pub(crate) fn has_snapshot(&self) -> bool {
        matches!(self.snapshot.phase, Phase::Replay | Phase::Live)
    }

    /// Whether the app is in a zone.
    pub(crate) fn is_in_zone(&self) -> bool {
        self.delivery.rings().is_some()
    }

    /// Notes how full the app is now.
    pub(crate) fn fill(&mut self, now: Instant) -> Fill {
        let Self { delivery, load, backlog, capacity, .. } = self;
        match (delivery, self.snapshot.phase) {
            (Delivery::Calls(_), Phase::Live) => load.note_kernel(*capacity, now),
            (Delivery::Rings(rings), Phase::Live) => {
                let ring = &rings.ring;
                let handled = (ring.handled(), ring.outstanding() > 0);
                load.note_zone((ring.room(Room::Ordinary), *capacity), handled, now)
            }
            _ => load.note_backlog(backlog.room(Room::Ordinary, *capacity), *capacity, now),
        }
    }

    /// Bytes of records that the app handles in a time that is short beside a tenth of a second, if that is known.
    pub(crate) fn pace(&self) -> usize {
        match self.snapshot.phase {
            Phase::Live => self.load.throughput().pace(),
            Phase::Down | Phase::Snapshot { .. } | Phase::Replay => usize::MAX,
        }
    }

    /// Whether the app has records and has handled some of them lately.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        self.snapshot.phase == Phase::Live && self.load.throughput().is_busy(now)
    }

    /// Notes that a switch was left unread because of the app.
    pub(crate) fn hold_back(&mut self) {
        self.load.throughput_mut().hold_back();
    }

    /// Bytes of ordinary packet-ins that wait in the ring of the app's zone.
    pub(crate) fn queued(&self) -> usize {
        self.delivery.rings().map_or(0, |rings| rings.queued(self.capacity))
    }

    /// Records in the ring of the app's zone that it has not handled. An app in the kernel handles its records before its
    /// call returns, so none wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.delivery.rings().map_or(0, |rings| rings.ring.outstanding())
    }

    /// Notes the end of a turn that began at `turn`, for the times of packet-ins.
    pub(crate) fn note_latency(&mut self, turn: Instant) {
        if let Delivery::Rings(rings) = &self.delivery {
            let records = (self.counts.handled, rings.ring.outstanding());
            self.latency.note(self.counts.delivered, records, turn);
        }
    }

    /// Lets the next call of an app in this process be timed.
    pub(crate) fn arm_latency(&mut self) {
        self.latency.arm();
    }

    /// How long packet-ins took.
    pub(crate) fn latencies(&self) -> Latencies {
        self.latency.samples()
    }

    /// Whether the app has handled this number of records. An app in the kernel must have handled all that it was given.
    pub(crate) fn has_handled(&self, count: u64) -> bool {
        match &self.delivery {
            Delivery::Nowhere => true,
            Delivery::Rings(_) => self.counts.handled >= count,
            Delivery::Calls(hosted) => hosted.waiting() == 0,
        }
    }

    /// Whether the app was full at the last [`fill`](Self::fill).
    pub(crate) fn is_full(&self) -> bool {
        self.load.is_full()
    }

    /// Whether it was full or behind then.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.load.is_waited_for()
    }

    /// Announces a switch and its ports, while the ring has room; `true` once all is announced.
    /// A switch that it does not [take](Self::takes) is never announced.
    pub(crate) fn announce(&mut self, switch: &mut Switch) -> bool {
        self.takes(switch) && self.snapshot.announce(&mut self.delivery, switch)
    }

    /// Whether the app gets the switch: not if the app needs packet-ins, and the switch sends none.
    pub(crate) fn takes(&self, switch: &Switch) -> bool {
        takes(&self.rights, switch)
    }

    /// Whether it learns which flows it has in the switch.
    pub(crate) fn learns_its_flows(&self, switch: &Switch) -> bool {
        self.takes(switch) && self.rights.at(switch.dpid.0).learns_its_flows()
    }

    /// Announces a change of a port, which `switch.ports` contains already.
    pub(crate) fn port(&mut self, switch: &mut Switch, reason: u8, port: &PortDesc) {
        self.snapshot.port(&mut self.delivery, switch, reason, port);
    }

    /// Announces that a switch is gone.
    pub(crate) fn switch_down(&mut self, switch: &Switch) {
        self.snapshot.switch_down(&mut self.delivery, switch);
    }

    /// Reports a refused message to the app, if there is room for the report. `remedy` says what would admit it.
    pub(crate) fn refused(
        &mut self,
        (dpid, epoch): (u64, u32),
        why: Refusal,
        message: &[u8],
        remedy: Option<&str>,
    ) {
        let (record, body) = refused_record((dpid, epoch), why, message, remedy);
        let is_reported = self.delivery.push(&record.words(), &body, Room::AllButReserve);
        if !is_reported && self.is_attached() {
            self.lose();
        }
    }

    /// Whether [`pump`](Self::pump) has something to do.
    pub(crate) fn has_work(&self) -> bool {
        self.is_attached()
            && (self.snapshot.is_pending()
                || self.snapshot.phase == Phase::Replay
                || self.has_lost())
    }

    /// Continues with work that found no room before: announcements, then the backlog. `is_current` says whether a
    /// datapath is connected with this epoch.
    pub(crate) fn pump<'s>(
        &mut self,
        switches: impl Iterator<Item = &'s mut Switch>,
        is_current: impl Fn(u64, u32) -> bool,
    ) {
        if self.snapshot.is_pending() {
            let taken = switches.filter(|switch| takes(&self.rights, switch));
            self.snapshot.announce_all(&mut self.delivery, taken);
        }
        if self.snapshot.phase == Phase::Replay {
            self.replay(is_current);
        }
        self.report_lost();
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
        let rings = match &mut self.delivery {
            Delivery::Rings(rings) => rings,
            Delivery::Calls(hosted) => return Ok(hosted.take(out)),
            Delivery::Nowhere => return Ok(None),
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

    /// Shows the zone the written records, and wakes it if it sleeps.
    pub(crate) fn publish(&mut self) {
        if let Some(rings) = self.delivery.rings_mut() {
            rings.publish();
        }
    }

    /// Returns the space of the consumed records to the zone, and wakes it if it waits for space.
    pub(crate) fn release(&mut self) {
        if let Some(rings) = self.delivery.rings_mut() {
            rings.release();
        }
    }

    /// Announces that the worker is about to sleep. `true` if the app needs it after all.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone broke its ring.
    pub(crate) fn prepare_to_sleep(&mut self) -> Result<bool, PeerFault> {
        match &mut self.delivery {
            Delivery::Nowhere => Ok(false),
            Delivery::Rings(rings) => rings.prepare_to_sleep(),
            Delivery::Calls(hosted) => Ok(hosted.waiting() > 0 || hosted.has_answers()),
        }
    }

    /// Announces that the worker is awake.
    pub(crate) fn awake(&mut self) {
        if let Some(rings) = self.delivery.rings_mut() {
            rings.awake();
        }
    }
}

/// Splits a whole record that the kernel wrote into the words of its head and its body; `None` if it has no head.
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

/// Whether an app with these rights gets a switch; see [`AppPort::takes`].
fn takes(rights: &AppRights, switch: &Switch) -> bool {
    switch.no_packets.is_none() || !rights.at(switch.dpid.0).needs_packets
}

#[cfg(test)]
mod tests;
