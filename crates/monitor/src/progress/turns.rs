//! Whether a kernel's workers get on: one whose loop begins no other turn while its thread uses processor
//! time hangs in the kernel's own code (design §11).
//!
//! A worker that sleeps turns ten times a second, so the number of its turn stands still only while it is
//! busy, or is given no processor time. Then it uses none. While it calls an app its turn may last as long
//! as that app's calls may, which is looked at elsewhere.

use std::time::Duration;

use sys::flight::{InTurn, Reading};

/// Processor time that a turn may use: the longest take some hundredths of a second.
const BOUND: Duration = Duration::from_secs(3);

/// A worker that uses too much for one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Which.
    pub(crate) worker: usize,
    /// What it used since the turn was found to last.
    pub(crate) used: Duration,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (worker, used) = (self.worker, self.used.as_secs_f64());
        write!(f, "its worker {worker} hung: {used:.1} s of processor time in one turn of its loop")
    }
}

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Turns(Vec<Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    turn: InTurn,
    /// What its thread had used when the turn was first found to last, once it was.
    before: Option<Duration>,
}

impl Turns {
    /// Looks. `time` is what the thread of a worker has used since its start, if the system says;
    /// asked for only if its turn lasts.
    pub(super) fn look(
        &mut self,
        recorder: &Reading,
        time: impl Fn(usize) -> Option<Duration>,
    ) -> Option<Stuck> {
        let seen = std::mem::take(&mut self.0);
        for turn in recorder.turns() {
            let mut before = None;
            if let Some(known) = seen.iter().find(|seen| seen.turn == turn) {
                let now = time(turn.seat);
                before = known.before.or(now);
                let used = now.zip(before).map(|(now, before)| now.saturating_sub(before));
                if let Some(used) = used.filter(|used| *used >= BOUND) {
                    return Some(Stuck { worker: turn.seat, used });
                }
            }
            self.0.push(Seen { turn, before });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use sys::flight::{Recorder, Seat};

    use super::*;

    fn workers() -> (Reading, [Seat; 2]) {
        let (reading, fd) = Reading::new().unwrap();
        let recorder = Recorder::map(&fd).unwrap();
        let mut seats = [recorder.seat(0), recorder.seat(1)];
        seats.iter_mut().for_each(Seat::turn);
        (reading, seats)
    }

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn worker_that_uses_its_time_in_one_turn_is_stuck_and_the_one_that_turns_is_not() {
        let (reading, [mut first, _second]) = workers();
        let mut turns = Turns::default();
        let mut look = |used: u64| {
            first.turn();
            turns.look(&reading, |worker| Some(s(used * (worker as u64 + 1))))
        };
        assert_eq!((look(1_000), look(1_001), look(1_002)), (None, None, None));
        let stuck = look(1_003).unwrap();
        assert_eq!((stuck.worker, stuck.used), (1, s(4)));
        let text = "its worker 1 hung: 4.0 s of processor time in one turn of its loop";
        assert_eq!(stuck.to_string(), text);
    }

    #[test]
    fn worker_that_is_stopped_or_of_which_nothing_is_known_is_not_stuck() {
        let (reading, _seats) = workers();
        let mut turns = Turns::default();
        for _ in 0..100 {
            assert_eq!(turns.look(&reading, |worker| (worker == 0).then(|| s(10))), None);
        }
        assert_eq!(
            turns.look(&reading, |_| Some(s(12))),
            None,
            "of the second it is known only now"
        );
        assert_eq!(turns.look(&reading, |_| Some(s(13))).map(|stuck| stuck.worker), Some(0));
    }

    #[test]
    fn time_in_an_app_is_not_the_turns() {
        let (reading, [mut first, mut second]) = workers();
        let mut turns = Turns::default();
        let call = first.call(NonZeroU16::MIN);
        for used in 0..100 {
            second.turn();
            assert_eq!(turns.look(&reading, |_| Some(s(used))), None);
        }
        drop(call);
        assert_eq!(turns.look(&reading, |_| Some(s(100))), None);
        second.turn();
        assert_eq!(turns.look(&reading, |_| Some(s(101))), None);
        second.turn();
        assert!(turns.look(&reading, |_| Some(s(104))).is_some());
    }
}
