//! Records which worker owns each datapath.
//!
//! All connections that claim a datapath move to its worker, which decides between them. A datapath keeps its worker
//! while it is disconnected, so that an app receives the events of all its connections by one ring, in order. Only when
//! [`MOST_AWAY`] others have disconnected since does the registry forget it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ids::WorkerId;

/// Most datapaths without a connection that the registry remembers.
const MOST_AWAY: usize = 16 * 1024;

/// The datapaths; cheap to clone. Keys come from switches; the hash is keyed.
#[derive(Debug, Clone, Default)]
pub(super) struct DatapathRegistry(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    registry: HashMap<u64, Entry>,
    /// Datapaths whose last connection closed, with the number of that event, oldest first. Some have
    /// connected again since.
    away: VecDeque<(u64, u64)>,
    times: u64,
}

#[derive(Debug)]
struct Entry {
    worker: WorkerId,
    /// Connections that claim the datapath.
    claims: usize,
    /// The number of the event when its last connection closed.
    went: u64,
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
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Entry { worker: me, claims: 0, went: 0 };
        let place = places.registry.entry(dpid).or_insert(new);
        place.claims += 1;
        DatapathClaim { registry: self.clone(), dpid, worker: place.worker }
    }

    fn release(&self, dpid: u64) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Entries { registry, away, times } = &mut *places;
        let Some(place) = registry.get_mut(&dpid) else { return };
        place.claims -= 1;
        if place.claims > 0 {
            return;
        }
        *times += 1;
        place.went = *times;
        away.push_back((dpid, *times));
        if away.len() > MOST_AWAY
            && let Some((longest, went)) = away.pop_front()
            && registry.get(&longest).is_some_and(|place| place.claims == 0 && place.went == went)
        {
            registry.remove(&longest);
        }
    }
}

impl DatapathClaim {
    /// The worker.
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
    fn datapath_comes_back_to_the_worker_that_it_was_with() {
        let registry = DatapathRegistry::default();
        let (first, second) = (registry.claim(7, WorkerId(1)), registry.claim(7, WorkerId(0)));
        assert_eq!((first.worker(), second.worker()), (WorkerId(1), WorkerId(1)));
        assert_eq!(registry.claim(8, WorkerId(0)).worker(), WorkerId(0));
        drop((first, second));
        assert_eq!(registry.claim(7, WorkerId(0)).worker(), WorkerId(1));
    }

    #[test]
    fn claimed_datapath_keeps_its_home_however_many_others_go() {
        let registry = DatapathRegistry::default();
        let stays = registry.claim(7, WorkerId(1));
        for _ in 0..2 {
            drop(registry.claim(8, WorkerId(1))); // went twice: its first going must not count
        }
        for dpid in 100..100 + MOST_AWAY as u64 {
            drop(registry.claim(dpid, WorkerId(0)));
        }
        assert_eq!(registry.claim(7, WorkerId(0)).worker(), WorkerId(1));
        assert_eq!(registry.claim(8, WorkerId(0)).worker(), WorkerId(0), "forgotten");
        assert_eq!(registry.claim(101, WorkerId(1)).worker(), WorkerId(0), "not so long gone");
        drop(stays);
        let places = registry.0.lock().unwrap();
        assert!(places.away.len() <= MOST_AWAY && places.registry.len() <= MOST_AWAY + 3);
    }
}
