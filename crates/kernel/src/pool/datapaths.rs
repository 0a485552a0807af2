//! Records which worker owns each datapath.
//!
//! All connections that claim a datapath move to its worker, which decides between them. A datapath keeps its worker
//! while it is disconnected, so that an app receives the events of all its connections by one ring, in order. Only when
//! [`MOST_AWAY`] others have disconnected since does the registry forget it.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ids::WorkerId;

/// Most datapaths without a connection that the registry remembers.
const MOST_AWAY: usize = 16 * 1024;

/// Number of connections that ended before an answer after which a datapath is not asked for a flow monitor any more. A connection
/// can end for another reason.
const MOST_UNANSWERED: u32 = 2;

/// The datapaths; cheap to clone. Switches choose the keys, so the hash is keyed.
#[derive(Debug, Clone, Default)]
pub(super) struct DatapathRegistry(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    by_dpid: HashMap<u64, RegisteredDatapath>,
    /// Datapaths whose last connection closed, with the number of that event, oldest first. Some have
    /// connected again since.
    away: VecDeque<(u64, u64)>,
    releases: u64,
    /// The datapath that last connected from each address, while it is among `by_dpid`.
    by_address: HashMap<IpAddr, u64>,
}

#[derive(Debug)]
struct RegisteredDatapath {
    worker: WorkerId,
    /// Connections that claim the datapath.
    claims: usize,
    /// The number of the event when its last connection closed.
    released: u64,
    /// Number of its last connections that ended before it had answered the request for a flow monitor.
    unanswered: u32,
}

/// A connection's claim to a datapath. While it is held the datapath does not move.
#[derive(Debug)]
pub(crate) struct DatapathClaim {
    registry: DatapathRegistry,
    dpid: u64,
    worker: WorkerId,
}

impl DatapathRegistry {
    /// Claims a datapath for a connection. Worker `me` becomes its owner if it has none.
    pub(super) fn claim(&self, dpid: u64, me: WorkerId) -> DatapathClaim {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = RegisteredDatapath { worker: me, claims: 0, released: 0, unanswered: 0 };
        let entry = entries.by_dpid.entry(dpid).or_insert(new);
        entry.claims += 1;
        DatapathClaim { registry: self.clone(), dpid, worker: entry.worker }
    }

    /// Notes from where a datapath has connected.
    pub(super) fn note_address(&self, address: IpAddr, dpid: u64) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Entries { by_dpid, by_address, .. } = &mut *entries;
        if by_address.len() >= MOST_AWAY && !by_address.contains_key(&address) {
            by_address.retain(|_, dpid| by_dpid.contains_key(dpid));
            if by_address.len() >= MOST_AWAY {
                return;
            }
        }
        by_address.insert(address, dpid);
    }

    /// Returns the datapath that last connected from an address, unless it is connected now.
    pub(super) fn absent_at(&self, address: IpAddr) -> Option<u64> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let dpid = *entries.by_address.get(&address)?;
        entries.by_dpid.get(&dpid).is_some_and(|entry| entry.claims == 0).then_some(dpid)
    }

    /// Notes whether a connection of a datapath has answered the request for a flow monitor before it ended.
    pub(super) fn note_monitor(&self, dpid: u64, has_answered: bool) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.by_dpid.get_mut(&dpid) {
            entry.unanswered = if has_answered { 0 } else { entry.unanswered.saturating_add(1) };
        }
    }

    /// Whether the last connections of a datapath ended when it was asked for a flow monitor.
    pub(super) fn ends_when_monitored(&self, dpid: u64) -> bool {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_dpid.get(&dpid).is_some_and(|entry| entry.unanswered >= MOST_UNANSWERED)
    }

    fn release(&self, dpid: u64) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Entries { by_dpid, away, releases, .. } = &mut *entries;
        let Some(entry) = by_dpid.get_mut(&dpid) else { return };
        entry.claims -= 1;
        if entry.claims > 0 {
            return;
        }
        *releases += 1;
        entry.released = *releases;
        away.push_back((dpid, *releases));
        if away.len() > MOST_AWAY
            && let Some((oldest, released)) = away.pop_front()
            && by_dpid
                .get(&oldest)
                .is_some_and(|entry| entry.claims == 0 && entry.released == released)
        {
            by_dpid.remove(&oldest);
        }
    }
}

impl DatapathClaim {
    /// The worker that owns the datapath.
    pub(crate) fn worker(&self) -> WorkerId {
        self.worker
    }
}

impl Drop for DatapathClaim {
    fn drop(&mut self) {
        self.registry.release(self.dpid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datapath_returns_to_its_worker() {
        let registry = DatapathRegistry::default();
        let (first, second) = (registry.claim(7, WorkerId(1)), registry.claim(7, WorkerId(0)));
        assert_eq!((first.worker(), second.worker()), (WorkerId(1), WorkerId(1)));
        assert_eq!(registry.claim(8, WorkerId(0)).worker(), WorkerId(0));
        drop((first, second));
        assert_eq!(registry.claim(7, WorkerId(0)).worker(), WorkerId(1));
    }

    #[test]
    fn absent_datapath_is_known_by_its_address() {
        let (registry, at) = (DatapathRegistry::default(), |host| IpAddr::from([10, 0, 0, host]));
        let claim = registry.claim(7, WorkerId(0));
        registry.note_address(at(1), 7);
        assert_eq!((registry.absent_at(at(1)), registry.absent_at(at(2))), (None, None));
        drop(claim);
        assert_eq!((registry.absent_at(at(1)), registry.absent_at(at(2))), (Some(7), None));
        let again = registry.claim(7, WorkerId(0));
        assert_eq!(registry.absent_at(at(1)), None);
        drop(again);
        for dpid in 100..100 + MOST_AWAY as u64 {
            drop(registry.claim(dpid, WorkerId(0)));
        }
        assert_eq!(registry.absent_at(at(1)), None, "forgotten");
    }

    #[test]
    fn claimed_datapath_keeps_its_worker() {
        let registry = DatapathRegistry::default();
        let stays = registry.claim(7, WorkerId(1));
        for _ in 0..2 {
            drop(registry.claim(8, WorkerId(1))); // released twice: only the second release counts
        }
        for dpid in 100..100 + MOST_AWAY as u64 {
            drop(registry.claim(dpid, WorkerId(0)));
        }
        assert_eq!(registry.claim(7, WorkerId(0)).worker(), WorkerId(1));
        assert_eq!(registry.claim(8, WorkerId(0)).worker(), WorkerId(0), "forgotten");
        assert_eq!(
            registry.claim(101, WorkerId(1)).worker(),
            WorkerId(0),
            "it disconnected a short time ago"
        );
        drop(stays);
        let entries = registry.0.lock().unwrap();
        assert!(entries.away.len() <= MOST_AWAY && entries.by_dpid.len() <= MOST_AWAY + 3);
    }
}
