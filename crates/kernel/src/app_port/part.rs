//! A worker's part of an app's rings, and what the parts must agree on.
//!
//! A zone has a pair of rings with each worker, and one doorbell that all of them ring. Two things
//! they do together:
//!
//! * **The snapshot is one.** Worker 0 begins it, the last one ends it, and the zone reads ring after
//!   ring until each worker's part of it is over.
//! * **After a death one record at a time is delivered again, over all rings**: else a record would
//!   be blamed for what one of another ring did. So the workers take turns, in their order, with what
//!   the dead zone may have seen, and nobody delivers packets that it has not seen before all have
//!   had theirs.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use sdk::abi::RecordKind;
use sys::doorbell::{Doorbell, Ringer};
use sys::ring::KernelEnd;

use super::tracked::Tracked;
use super::{AppPort, Place, Rings};
use crate::ids::WorkerId;
use crate::pool::WorkerPool;

/// A worker's part of an app's rings.
#[derive(Debug)]
pub struct Part {
    pub(super) ring: KernelEnd,
    /// Rung by us, when there is something in the up ring.
    pub(super) up_bell: Ringer,
    /// Rung by the zone, when there is something in the down ring.
    pub(super) down_bell: Doorbell,
    pub(super) role: Role,
}

impl Part {
    /// The doorbell by which the zone wakes the worker.
    pub(crate) fn down_bell(&self) -> &Doorbell {
        &self.down_bell
    }
}

impl AppPort {
    /// Takes our part of the rings of a new incarnation of the app's zone; the one before was
    /// detached.
    pub(crate) fn attach(&mut self, part: Part) {
        let Part { ring, up_bell, down_bell, role } = part;
        role.join(self.backlog.has_seen());
        let ring = Tracked::of(ring);
        self.place = Place::Zone(Rings { ring, up_bell, down_bell, in_flight: false, role });
        self.life = self.life.wrapping_add(1);
        self.throttle.is_deaf = false;
        self.begin_snapshot();
    }

    /// Our part among the workers that serve the app's zone; an app in this process has an instance
    /// with each, which is told everything by that one.
    pub(super) fn role(&self) -> Option<&Role> {
        match &self.place {
            Place::Zone(rings) => Some(&rings.role),
            Place::Nowhere | Place::Here(_) => None,
        }
    }
}

/// A worker among those that serve one zone.
#[derive(Debug)]
pub(super) struct Role {
    worker: usize,
    together: Arc<Together>,
}

/// What the workers know of each other's parts.
#[derive(Debug)]
struct Together {
    pool: Arc<WorkerPool>,
    /// How many have joined.
    joined: AtomicUsize,
    /// A bit for each that has records which the dead zone may have seen.
    repeating: AtomicU32,
}

/// Makes a part for each worker, whose rings hold `capacity` bytes each. The descriptors are the
/// zone's, in the order of [`Answer::Attached`](crate::control::Answer::Attached).
///
/// # Errors
/// The system is out of descriptors or memory.
pub fn make(pool: &Arc<WorkerPool>, capacity: u32) -> io::Result<(Vec<Part>, Vec<OwnedFd>)> {
    let together =
        Together { pool: pool.clone(), joined: AtomicUsize::new(0), repeating: AtomicU32::new(0) };
    let together = Arc::new(together);
    let (up_bell, hears) = Ringer::new()?;
    let (mut parts, mut fds) = (Vec::new(), vec![hears]);
    for worker in 0..pool.workers() {
        let (ring, ring_fds) = KernelEnd::create(capacity)?;
        let (down_bell, rings) = Doorbell::new()?;
        fds.extend([ring_fds.up, ring_fds.down, rings]);
        let role = Role { worker, together: together.clone() };
        parts.push(Part { ring, up_bell: up_bell.try_clone()?, down_bell, role });
    }
    Ok((parts, fds))
}

/// What a worker may deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing yet: others are to go first.
    Wait,
    /// What the dead zone may have seen.
    Repeat,
    /// Everything.
    Go,
}

impl Role {
    /// Whether this worker begins the snapshot.
    pub(super) fn begins(&self) -> bool {
        self.worker == 0
    }

    /// What ends this worker's part of the snapshot.
    pub(super) fn end(&self) -> RecordKind {
        let last = self.worker + 1 == self.together.pool.workers();
        if last { RecordKind::SnapshotEnd } else { RecordKind::SnapshotPart }
    }

    /// The worker serves the zone from now on; `repeats` says whether it has records that a dead
    /// one may have seen.
    pub(super) fn join(&self, repeats: bool) {
        if repeats {
            self.together.repeating.fetch_or(1 << self.worker, Ordering::Relaxed);
        }
        // Release and acquire: who sees that all have joined sees what each has to repeat.
        self.together.joined.fetch_add(1, Ordering::AcqRel);
        self.wake_others();
    }

    /// What may be delivered now. Who must wait is woken when that has changed.
    pub(super) fn turn(&self) -> Turn {
        let Together { pool, joined, repeating } = &*self.together;
        if joined.load(Ordering::Acquire) < pool.workers() {
            return Turn::Wait;
        }
        match repeating.load(Ordering::Acquire) {
            0 => Turn::Go,
            others if others.trailing_zeros() as usize == self.worker => Turn::Repeat,
            _ => Turn::Wait,
        }
    }

    /// The worker has nothing left to repeat: the next one's turn.
    pub(super) fn repeated(&self) {
        self.together.repeating.fetch_and(!(1 << self.worker), Ordering::AcqRel);
        self.wake_others();
    }

    fn wake_others(&self) {
        let pool = &self.together.pool;
        let others = (0..pool.workers()).filter(|other| *other != self.worker);
        others.for_each(|other| pool.wake(WorkerId(other)));
    }
}
