//! Chooses the worker's wake-up policy.
//!
//! An idle worker is woken at once, as an app or a host waits for an answer. A worker that finds many bytes at each
//! wake-up, beside an app in a zone, uses the policy `InTurn` (`SCHED_BATCH`). If the two share a processor, a few more
//! packets then do not interrupt the app. The worker reads them together with later ones, which costs less for each.
//!
//! With `InTurn` the worker runs when the thread on its processor sleeps or has used its time slice of some
//! milliseconds (sched(7)). Timers and doorbells are delayed by as much. So a worker that rarely waited in a tick, as
//! beside an app that never sleeps, is woken at once in the next tick.

use sys::sched::Waking;
use tracing::warn;

/// Bytes per wake-up from which the policy `InTurn` pays: reading them takes as long as the wake-up.
const MUCH: usize = 16 * 1024;

/// Least number of waits in a tick for the policy `InTurn`.
const OFTEN: usize = 40;

/// The wake-up policy of a worker, and its counters in the present tick.
#[derive(Debug)]
pub(super) struct Pace {
    /// The present policy; `None` if the operator chose another.
    waking: Option<Waking>,
    /// Waits since the last tick.
    waits: usize,
    /// Bytes received from switches since the last tick.
    bytes: usize,
}

impl Pace {
    /// Reads the policy of the calling thread. A thread with a policy that the operator chose keeps that.
    pub(super) fn new() -> Self {
        let waking = Waking::get().unwrap_or_else(|error| {
            warn!(%error, "could not read the wake-up policy of a worker; it stays as it is");
            None
        });
        Self { waking: waking.filter(|waking| *waking == Waking::AtOnce), waits: 0, bytes: 0 }
    }

    /// Counts bytes from a switch.
    #[inline]
    pub(super) fn read(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Counts a wait of the worker.
    pub(super) fn waits(&mut self) {
        self.waits += 1;
    }

    /// Sets the policy of the calling worker for the next tick. `zones`: whether an app runs in a zone.
    pub(super) fn tick(&mut self, zones: bool) {
        let (waits, bytes) = (std::mem::take(&mut self.waits), std::mem::take(&mut self.bytes));
        let Some(before) = self.waking else { return };
        let waking = after(zones, waits, bytes);
        if waking == before {
            return;
        }
        self.waking = match waking.set() {
            Ok(()) => Some(waking),
            Err(error) => {
                warn!(%error, ?waking, "could not set the wake-up policy of a worker; it stays as it is");
                None
            }
        };
    }
}

/// Chooses the policy after a tick with this number of waits and bytes.
fn after(zones: bool, waits: usize, bytes: usize) -> Waking {
    let much = waits >= OFTEN && bytes / MUCH >= waits;
    if zones && much { Waking::InTurn } else { Waking::AtOnce }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_with_many_bytes_per_wake_up_uses_in_turn() {
        assert_eq!(after(true, OFTEN, OFTEN * MUCH), Waking::InTurn);
        assert_eq!(
            after(false, OFTEN, OFTEN * MUCH),
            Waking::AtOnce,
            "no app would be interrupted"
        );
        assert_eq!(after(true, OFTEN, OFTEN * MUCH - 1), Waking::AtOnce);
        assert_eq!(
            after(true, OFTEN - 1, OFTEN * MUCH),
            Waking::AtOnce,
            "it may be the zone's fault"
        );
        assert_eq!(after(true, 0, OFTEN * MUCH), Waking::AtOnce, "it does not wait");
        assert_eq!(after(true, 0, 0), Waking::AtOnce);
    }

    #[test]
    fn policy_is_chosen_again_each_tick() {
        let mut pace = Pace::new();
        for (bytes, waking) in [(MUCH, Waking::InTurn), (0, Waking::AtOnce), (9, Waking::AtOnce)] {
            for _ in 0..OFTEN {
                pace.read(bytes);
                pace.waits();
            }
            pace.tick(true);
            assert_eq!((pace.waking, Waking::get().unwrap()), (Some(waking), Some(waking)));
        }
    }

    #[test]
    fn policy_of_the_operator_stays() {
        Waking::InTurn.set().unwrap();
        let mut pace = Pace::new();
        pace.tick(true);
        assert_eq!(Waking::get().unwrap(), Some(Waking::InTurn));
    }
}
