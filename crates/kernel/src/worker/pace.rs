//! How the worker is woken.
//!
//! At once, while it has little to do: then somebody waits for an answer. In its turn, while it finds much each time:
//! where it shares a processor with a zone, a few more packets are no reason to stop the app that works on those
//! from before. What comes meanwhile is read together, which costs less for each.

use sys::sched::Waking;
use tracing::warn;

/// Bytes from switches, for each time that the worker slept, that are much: reading them takes as long as waking up
/// for them.
const MUCH: usize = 16 * 1024;

/// So often it sleeps before it looks at how much there was, if no tick comes before.
const SLEEPS: usize = 64;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Pace {
    waking: Waking,
    /// Since it was decided last.
    sleeps: usize,
    read: usize,
    /// Whether the system has refused.
    is_refused: bool,
}

impl Pace {
    /// That of a thread as threads are.
    pub(super) fn new() -> Self {
        Self { waking: Waking::AtOnce, sleeps: 0, read: 0, is_refused: false }
    }

    /// So many bytes came from a switch.
    #[inline]
    pub(super) fn read(&mut self, bytes: usize) {
        self.read += bytes;
    }

    /// The worker is about to sleep.
    pub(super) fn sleeps(&mut self) {
        self.sleeps += 1;
        if self.sleeps == SLEEPS {
            self.settle();
        }
    }

    /// Decides how the worker, which calls this, is woken from now on.
    pub(super) fn settle(&mut self) {
        let waking = after(self.read, self.sleeps);
        (self.read, self.sleeps) = (0, 0);
        if waking == self.waking || self.is_refused {
            return;
        }
        match waking.set() {
            Ok(()) => self.waking = waking,
            Err(error) => {
                self.is_refused = true;
                warn!(%error, "could not say how a worker is to be woken; a zone on its processor is slower");
            }
        }
    }
}

/// How to be woken when so many bytes came while it slept so often.
fn after(read: usize, sleeps: usize) -> Waking {
    if read >= MUCH * sleeps.max(1) { Waking::InTurn } else { Waking::AtOnce }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_that_finds_much_each_time_is_woken_in_its_turn() {
        assert_eq!(after(0, 0), Waking::AtOnce);
        assert_eq!(after(0, 1), Waking::AtOnce);
        assert_eq!(after(10 * MUCH - 1, 10), Waking::AtOnce);
        assert_eq!(after(10 * MUCH, 10), Waking::InTurn);
        assert_eq!(after(MUCH, 0), Waking::InTurn, "it has not slept at all");
    }

    #[test]
    fn it_is_decided_anew_from_what_came_since() {
        let mut pace = Pace::new();
        for (bytes, waking) in [(MUCH, Waking::InTurn), (0, Waking::AtOnce), (9, Waking::AtOnce)] {
            for _ in 0..SLEEPS {
                pace.read(bytes);
                pace.sleeps();
            }
            assert_eq!((pace.waking, pace.is_refused), (waking, false), "{bytes}");
        }
    }
}
