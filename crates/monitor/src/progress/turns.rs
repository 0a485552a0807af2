//! Whether a kernel's workers get on: one whose loop begins no other turn hangs in the kernel's own code
//! (design §11), when its thread has used [`BOUND`] of processor time meanwhile, or when [`STILL`] has passed.
//!
//! A worker that sleeps turns ten times a second, so the number of its turn stands still only while it is
//! busy, waits for what does not come, or is given no processor time. So little that it does not turn once in a
//! minute nobody gets who is not stopped; who is stopped waits for who stopped it. While it calls an app its turn
//! may last as long as that app's calls may, which is looked at elsewhere.

use std::time::Duration;

use sys::flight::{InTurn, Reading};
use sys::process::Thread;

use super::PERIOD;

/// Processor time that a turn may use: the longest take some hundredths of a second.
const BOUND: Duration = Duration::from_secs(3);

/// Time that a turn may last, whatever it uses. It is counted in looks: while nobody looks, as we were stopped
/// ourselves, none passes.
const STILL: Duration = Duration::from_secs(60);

/// A worker whose turn lasts too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Which.
    pub(crate) worker: usize,
    /// What it used since the turn was found to last.
    pub(crate) used: Duration,
    /// How long that was, at least.
    pub(crate) lasted: Duration,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { worker, used, lasted } = self;
        let (used, lasted) = (used.as_secs_f64(), lasted.as_secs_f64());
        write!(
            f,
            "its worker {worker} hung: {used:.1} s of processor time in one turn of its loop, in {lasted:.1} s"
        )
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
    /// How long it has lasted, while it was not stopped.
    lasted: Duration,
}

impl Turns {
    /// Looks, which is done each [`PERIOD`]. `thread` is that of a worker, if the system says; asked for only if
    /// its turn lasts.
    pub(super) fn look(
        &mut self,
        recorder: &Reading,
        thread: impl Fn(usize) -> Option<Thread>,
    ) -> Option<Stuck> {
        let seen = std::mem::take(&mut self.0);
        for turn in recorder.turns() {
            let (mut before, mut lasted) = (None, Duration::ZERO);
            if let Some(known) = seen.iter().find(|seen| seen.turn == turn) {
                let thread = thread(turn.seat);
                let now = thread.map(|thread| thread.used);
                before = known.before.or(now);
                if thread.is_some_and(|thread| !thread.stopped) {
                    lasted = known.lasted + PERIOD;
                }
                let used = now.zip(before).map(|(now, before)| now.saturating_sub(before));
                if let Some(used) = used.filter(|used| *used >= BOUND || lasted >= STILL) {
                    return Some(Stuck { worker: turn.seat, used, lasted });
                }
            }
            self.0.push(Seen { turn, before, lasted });
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

    fn thread(seconds: u64) -> Thread {
        Thread { used: s(seconds), runs: true, stopped: false }
    }

    #[test]
    fn worker_that_uses_its_time_in_one_turn_is_stuck_and_the_one_that_turns_is_not() {
        let (reading, [mut first, _second]) = workers();
        let mut turns = Turns::default();
        let mut look = |used: u64| {
            first.turn();
            turns.look(&reading, |worker| Some(thread(used * (worker as u64 + 1))))
        };
        assert_eq!((look(1_000), look(1_001), look(1_002)), (None, None, None));
        let stuck = look(1_003).unwrap();
        assert_eq!((stuck.worker, stuck.used), (1, s(4)));
        let text = "its worker 1 hung: 4.0 s of processor time in one turn of its loop, in 1.5 s";
        assert_eq!(stuck.to_string(), text);
    }

    #[test]
    fn worker_that_is_stopped_or_of_which_nothing_is_known_is_not_stuck() {
        let (reading, _seats) = workers();
        let mut turns = Turns::default();
        let stopped = Thread { stopped: true, ..thread(10) };
        for _ in 0..1_000 {
            assert_eq!(turns.look(&reading, |worker| (worker == 0).then_some(stopped)), None);
        }
        assert_eq!(
            turns.look(&reading, |_| Some(thread(12))),
            None,
            "of the second it is known only now"
        );
        assert_eq!(turns.look(&reading, |_| Some(thread(13))).map(|stuck| stuck.worker), Some(0));
    }

    #[test]
    fn worker_that_waits_for_ever_is_stuck_after_a_minute_in_which_it_was_not_stopped() {
        let (reading, [mut first, _second]) = workers();
        let mut turns = Turns::default();
        let mut look = |stopped| {
            first.turn();
            turns.look(&reading, |_| Some(Thread { stopped, ..thread(10) }))
        };
        assert!((0..120).all(|_| look(false).is_none()));
        assert_eq!(look(true), None, "it is counted anew");
        assert!((0..119).all(|_| look(false).is_none()));
        let stuck = look(false).unwrap();
        assert_eq!((stuck.worker, stuck.used, stuck.lasted), (1, s(0), STILL));
    }

    #[test]
    fn time_in_an_app_is_not_the_turns() {
        let (reading, [mut first, mut second]) = workers();
        let mut turns = Turns::default();
        let call = first.call(NonZeroU16::MIN);
        for used in 0..100 {
            second.turn();
            assert_eq!(turns.look(&reading, |_| Some(thread(used))), None);
        }
        drop(call);
        assert_eq!(turns.look(&reading, |_| Some(thread(100))), None);
        second.turn();
        assert_eq!(turns.look(&reading, |_| Some(thread(101))), None);
        second.turn();
        assert!(turns.look(&reading, |_| Some(thread(104))).is_some());
    }
}
