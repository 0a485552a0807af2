//! The state that the workers share: their loads, the datapath registry, forwarded messages, shared quotas.
//!
//! No packet passes through here. A worker uses it when a connection opens, closes or moves, when it forwards a message
//! to a switch of another worker ([`forwarding`]), and to take a portion of a quota ([`shared_quota`]).
//!
//! An epoch identifies the worker that assigned it ([`WorkerPool::owner`]): each worker counts from its own number, in
//! steps of the number of workers.

mod datapaths;
mod forwarding;
mod shared_quota;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use control::kernel::MAX_WORKERS;
use sys::doorbell::DoorbellSender;

pub(crate) use self::datapaths::DatapathClaim;
use self::datapaths::DatapathRegistry;
pub(crate) use self::forwarding::{ForwardQueue, Head};
pub(crate) use self::shared_quota::{KINDS, SharedQuota};
use crate::ids::WorkerId;
use crate::memory::Memory;
use control::app::{AppId, Installation};
use control::kernel::Tuning;

/// The shared state of all workers.
#[derive(Debug)]
pub struct WorkerPool {
    members: Vec<Member>,
    loads: Arc<[AtomicUsize]>,
    registry: DatapathRegistry,
    shared_quotas: Mutex<HashMap<AppId, Arc<SharedQuota>>>,
    tuning: Tuning,
    installation: Installation,
    memory: Memory,
}

/// A worker, as the others see it.
#[derive(Debug)]
struct Member {
    bell: DoorbellSender,
    /// Messages for it, by the worker that posted them.
    forward_queue: Vec<Mutex<ForwardQueue>>,
}

impl WorkerPool {
    /// A pool of the workers that these bells wake.
    pub(crate) fn new(
        bells: Vec<DoorbellSender>,
        tuning: Tuning,
        installation: Installation,
    ) -> Self {
        let count = bells.len();
        let member = |bell| {
            let forward_queue = (0..count).map(|_| Mutex::default()).collect();
            Member { bell, forward_queue }
        };
        Self {
            members: bells.into_iter().map(member).collect(),
            loads: (0..count).map(|_| AtomicUsize::new(0)).collect(),
            registry: DatapathRegistry::default(),
            shared_quotas: Mutex::default(),
            tuning,
            installation,
            memory: Memory::new(tuning.ports as usize),
        }
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.members.len()
    }

    /// The operator's tuning.
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// The installation, which the kernel's own flows carry in their cookies.
    pub(crate) fn installation(&self) -> Installation {
        self.installation
    }

    /// The memory that connections share.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Wakes a worker for a turn of its loop.
    pub(crate) fn wake(&self, worker: WorkerId) {
        self.members[worker.0].bell.ring();
    }

    /// Returns the worker with the fewest connections, and the number of connections of all workers.
    pub(crate) fn least_busy(&self) -> (WorkerId, usize) {
        let loads = || self.loads.iter().map(|load| load.load(Ordering::Relaxed));
        let (worker, _) = loads().enumerate().min_by_key(|(_, load)| *load).unwrap_or_default();
        (WorkerId(worker), loads().sum())
    }

    /// Counts a connection as one of this worker's, until the guard is dropped.
    pub(crate) fn load_guard(&self, worker: WorkerId) -> LoadGuard {
        self.loads[worker.0].fetch_add(1, Ordering::Relaxed);
        LoadGuard { loads: self.loads.clone(), worker }
    }

    /// Claims a datapath for a connection of worker `me`, which owns the datapath from now on if no worker does.
    pub(crate) fn claim_datapath(&self, dpid: u64, me: WorkerId) -> DatapathClaim {
        self.registry.claim(dpid, me)
    }

    /// Notes from where a datapath has connected.
    pub(crate) fn note_address(&self, address: IpAddr, dpid: u64) {
        self.registry.note_address(address, dpid);
    }

    /// Notes whether a connection of a datapath has answered the request for a flow monitor before it ended.
    pub(crate) fn note_monitor(&self, dpid: u64, has_answered: bool) {
        self.registry.note_monitor(dpid, has_answered);
    }

    /// Whether the last connections of a datapath ended when it was asked for a flow monitor.
    pub(crate) fn ends_when_monitored(&self, dpid: u64) -> bool {
        self.registry.ends_when_monitored(dpid)
    }

    /// Returns the datapath that last connected from an address, unless it is connected now.
    pub(crate) fn absent_at(&self, address: IpAddr) -> Option<u64> {
        self.registry.absent_at(address)
    }

    /// The first epoch of a worker; the next is [`workers`](Self::workers) higher.
    pub(crate) fn first_epoch(&self, worker: WorkerId) -> u32 {
        let number = if worker.0 == 0 { self.workers() } else { worker.0 };
        u32::try_from(number).unwrap_or(1)
    }

    /// The next epoch of the worker that assigned `epoch`.
    pub(crate) fn next_epoch(&self, epoch: u32) -> u32 {
        let step = u32::try_from(self.workers()).unwrap_or(1);
        epoch.checked_add(step).unwrap_or_else(|| self.first_epoch(self.owner(epoch)))
    }

    /// The worker that assigned this epoch.
    pub(crate) fn owner(&self, epoch: u32) -> WorkerId {
        WorkerId(epoch as usize % self.workers())
    }

    /// Posts a message of an app to a switch of worker `to`. `false` if that worker's queue is full.
    pub(crate) fn post(&self, from: WorkerId, to: WorkerId, head: Head, message: &[u8]) -> bool {
        let forward_queue = &self.members[to.0].forward_queue[from.0];
        forward_queue.lock().unwrap_or_else(PoisonError::into_inner).post(head, message)
    }

    /// Swaps the messages that worker `from` has posted for `to` with `empty`.
    pub(crate) fn collect(&self, from: WorkerId, to: WorkerId, empty: &mut ForwardQueue) {
        let forward_queue = &self.members[to.0].forward_queue[from.0];
        std::mem::swap(&mut *forward_queue.lock().unwrap_or_else(PoisonError::into_inner), empty);
    }

    /// The quota of an app that all workers share.
    pub(crate) fn shared_quota(&self, app: AppId) -> Arc<SharedQuota> {
        let mut shared_quotas = self.shared_quotas.lock().unwrap_or_else(PoisonError::into_inner);
        shared_quotas
            .entry(app)
            .or_insert_with(|| Arc::new(SharedQuota::new(self.workers())))
            .clone()
    }
}

/// Counts a connection with its worker until it is dropped.
#[derive(Debug)]
pub(crate) struct LoadGuard {
    loads: Arc<[AtomicUsize]>,
    worker: WorkerId,
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.loads[self.worker.0].fetch_sub(1, Ordering::Relaxed);
    }
}

/// A pool without threads.
#[cfg(any(test, feature = "bench"))]
pub(crate) fn idle(workers: usize) -> Arc<WorkerPool> {
    let bells = (0..workers).map(|_| DoorbellSender::new().expect("a pipe").0);
    Arc::new(WorkerPool::new(bells.collect(), Tuning::default(), Installation(7)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_worker() {
        let pool = idle(3);
        let guards: Vec<LoadGuard> = (0..4)
            .map(|_| {
                let (worker, _) = pool.least_busy();
                pool.load_guard(worker)
            })
            .collect();
        assert_eq!(
            guards.iter().map(|load_guard| load_guard.worker.0).collect::<Vec<_>>(),
            [0, 1, 2, 0]
        );
        assert_eq!(pool.least_busy(), (WorkerId(1), 4));
        drop(guards);
        assert_eq!(pool.least_busy(), (WorkerId(0), 0));
    }

    #[test]
    fn epoch_identifies_its_worker_and_is_never_0() {
        for workers in [1, 2, 3, 16] {
            let pool = idle(workers);
            for worker in (0..workers).map(WorkerId) {
                let first = pool.first_epoch(worker);
                let mut epoch = first;
                for _ in 0..3 {
                    assert_eq!((pool.owner(epoch), epoch > 0), (worker, true));
                    epoch = pool.next_epoch(epoch);
                }
                let step = u32::try_from(workers).unwrap();
                let last = first + (u32::MAX - first) / step * step;
                assert_eq!(pool.next_epoch(last), first);
            }
        }
        let alone = idle(1);
        assert_eq!((alone.first_epoch(WorkerId(0)), alone.next_epoch(1)), (1, 2));
    }
}
