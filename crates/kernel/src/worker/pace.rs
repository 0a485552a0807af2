//! How the worker is woken.
//!
//! At once, as threads are, while it has little to do: then somebody waits for an answer. In its turn
//! (`SCHED_BATCH`), while it finds much each time and there is an app in a zone: where the two share a processor, a
//! few more packets are no reason to stop the app that works on those from before. What comes meanwhile is read
//! together, which costs less for each.
//!
//! In its turn it waits until whatever runs on its processor sleeps, or has had its slice of time: milliseconds
//! (sched(7)), by which all that it does then is late, timers and bells too. So it is woken at once again in the next
//! tick if it waited seldom, as beside an app that does not come to an end.

use sys::sched::Waking;
use tracing::warn;

/// Bytes from switches, each time that it wakes, that are much: reading them takes as long as waking up for them.
const MUCH: usize = 16 * 1024;

/// Waits in a tick that are not seldom.
const OFTEN: usize = 40;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Pace {
    /// How it is woken; `None` if that is not for us to say.
    waking: Option<Waking>,
    /// How often it has waited since the last tick.
    waits: usize,
    /// Bytes that switches have sent since then.
    bytes: usize,
}

impl Pace {
    /// That of the calling thread. One that was started with another policy than threads have keeps it.
    pub(super) fn new() -> Self {
        let waking = Waking::get().unwrap_or_else(|error| {
            warn!(%error, "could not find out how a worker is woken; it stays so");
            None
        });
        Self { waking: waking.filter(|waking| *waking == Waking::AtOnce), waits: 0, bytes: 0 }
    }

    /// So many bytes came from a switch.
    #[inline]
    pub(super) fn read(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// The worker is about to wait for something to do.
    pub(super) fn waits(&mut self) {
        self.waits += 1;
    }

    /// Decides how the worker, which calls this, is woken from now on. `zones`: whether there are apps in zones.
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
                warn!(%error, ?waking, "could not say how a worker is to be woken; it stays as it is");
                None
            }
        };
    }
}

/// How to be woken after a tick in which it waited so often and read so many bytes.
fn after(zones: bool, waits: usize, bytes: usize) -> Waking {
    let much = waits >= OFTEN && bytes / MUCH >= waits;
    if zones && much { Waking::InTurn } else { Waking::AtOnce }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_that_wakes_often_and_finds_much_each_time_is_woken_in_its_turn() {
        assert_eq!(after(true, OFTEN, OFTEN * MUCH), Waking::InTurn);
        assert_eq!(
            after(false, OFTEN, OFTEN * MUCH),
            Waking::AtOnce,
            "there is nobody to leave alone"
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
    fn it_is_decided_anew_from_what_came_since() {
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
    fn policy_that_the_operator_chose_stays() {
        Waking::InTurn.set().unwrap();
        let mut pace = Pace::new();
        pace.tick(true);
        assert_eq!(Waking::get().unwrap(), Some(Waking::InTurn));
    }
}
