//! Makes the rings of a zone with each worker, and coordinates the workers that serve it.
//!
//! A zone has a pair of rings with each worker, and one doorbell that all workers ring. The workers coordinate two
//! tasks:
//!
//! * **They write one snapshot.** Worker 0 begins it, the last worker ends it, and the zone reads ring after ring up to the
//!   end of each worker's part.
//! * **After a zone's death they repeat its records one at a time, over all rings.** Otherwise a record could be blamed for
//!   the effect of a record in another ring. So the workers take turns, in their order, with the records that the dead zone
//!   may have seen. Other packets follow only after all workers have had their turn.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use sdk::abi::RecordKind;
use sys::doorbell::{Doorbell, DoorbellSender};
use sys::ring::KernelEnd;

use super::AppPort;
use super::delivery::Delivery;
use super::rings::Rings;
use crate::ids::WorkerId;
use crate::pool::WorkerPool;

/// A worker's part of an app's rings.
#[derive(Debug)]
pub struct Part {
    pub(super) ring: KernelEnd,
    /// The worker rings it after writing to the up ring.
    pub(super) up_bell: DoorbellSender,
    /// The zone rings it after writing to the down ring.
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
    /// Attaches this worker's part of the rings of the app's new zone. The previous zone was detached.
    pub(crate) fn attach(&mut self, part: Part) {
        part.role.join(self.backlog.has_seen());
        self.throttle.is_deaf = false;
        self.start(Delivery::Rings(Rings::new(part)));
    }
}

/// One of the workers that serve a zone.
#[derive(Debug)]
pub(super) struct Role {
    worker: WorkerId,
    shared: Arc<SharedRole>,
}

/// The state that the workers of a zone share.
#[derive(Debug)]
struct SharedRole {
    pool: Arc<WorkerPool>,
    /// Number of workers that have joined.
    joined: AtomicUsize,
    /// A bit for each worker that has records which the dead zone may have seen.
    repeating: AtomicU32,
}

/// Makes a part for each worker, whose rings hold `capacity` bytes each. The descriptors are the
/// zone's, in the order of [`KernelReply::Attached`](control::kernel::KernelReply::Attached).
///
/// # Errors
/// The system is out of descriptors or memory.
pub fn make(pool: &Arc<WorkerPool>, capacity: u32) -> io::Result<(Vec<Part>, Vec<OwnedFd>)> {
    let shared = SharedRole {
        pool: pool.clone(),
        joined: AtomicUsize::new(0),
        repeating: AtomicU32::new(0),
    };
    let shared = Arc::new(shared);
    let (up_bell, receiver) = DoorbellSender::new()?;
    let (mut parts, mut fds) = (Vec::new(), vec![receiver]);
    for worker in 0..pool.workers() {
        let (ring, ring_fds) = KernelEnd::create(capacity)?;
        let (down_bell, rings) = Doorbell::new()?;
        fds.extend([ring_fds.up, ring_fds.down, rings]);
        let role = Role { worker: WorkerId(worker), shared: shared.clone() };
        parts.push(Part { ring, up_bell: up_bell.try_clone()?, down_bell, role });
    }
    Ok((parts, fds))
}

/// Which records a worker may deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// None yet: other workers go first.
    Wait,
    /// Those that the dead zone may have seen.
    Repeat,
    /// All.
    Go,
}

impl Role {
    /// Whether this worker begins the snapshot.
    pub(super) fn begins(&self) -> bool {
        self.worker == WorkerId(0)
    }

    /// The kind of the record that ends this worker's part of the snapshot.
    pub(super) fn end(&self) -> RecordKind {
        let last = self.worker.0 + 1 == self.shared.pool.workers();
        if last { RecordKind::SnapshotEnd } else { RecordKind::SnapshotPart }
    }

    /// Notes that the worker serves the zone from now on, and whether it has records that a dead zone may have seen.
    pub(super) fn join(&self, repeats: bool) {
        if repeats {
            self.shared.repeating.fetch_or(1 << self.worker.0, Ordering::Relaxed);
        }
        // Release and acquire: a worker that sees that all have joined also sees what each must repeat.
        self.shared.joined.fetch_add(1, Ordering::AcqRel);
        self.wake_others();
    }

    /// Returns which records the worker may deliver now. A worker that must wait is woken when that changes.
    pub(super) fn turn(&self) -> Turn {
        let SharedRole { pool, joined, repeating } = &*self.shared;
        if joined.load(Ordering::Acquire) < pool.workers() {
            return Turn::Wait;
        }
        match repeating.load(Ordering::Acquire) {
            0 => Turn::Go,
            others if others.trailing_zeros() as usize == self.worker.0 => Turn::Repeat,
            _ => Turn::Wait,
        }
    }

    /// Notes that the worker has nothing left to repeat: it is the next worker's turn.
    pub(super) fn repeated(&self) {
        self.shared.repeating.fetch_and(!(1 << self.worker.0), Ordering::AcqRel);
        self.wake_others();
    }

    fn wake_others(&self) {
        let pool = &self.shared.pool;
        let others = (0..pool.workers()).map(WorkerId).filter(|other| *other != self.worker);
        others.for_each(|other| pool.wake(other));
    }
}
