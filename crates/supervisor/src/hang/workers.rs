//! Detects a kernel worker that hangs in the kernel's own code.
//!
//! A worker hangs if its loop begins no new turn while its thread uses [`LONGEST_TURN`] of processor time, or for
//! [`IDLE_LIMIT`]. A sleeping worker turns ten times a second, so its turn number stands still only while the worker is
//! busy, waits for something that does not come, or receives no processor time. A runnable thread receives enough for
//! one turn in a minute. A stopped thread is not counted here ([`stops`](super::stops)). While a worker calls an app, its turn may last as long as
//! that call may, which [`CallProgress::check`](super::CallProgress::check) limits.

use std::time::Duration;

use control::flight::OngoingTurn;
use sys::process::Thread;

use super::PERIOD;

/// The processor time that a turn may use. The longest real turns use some hundredths of a second.
const LONGEST_TURN: Duration = Duration::from_secs(3);

/// The time that a turn may last whatever it uses. It is counted in checks, so none passes while the monitor itself is
/// stopped.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// A worker whose turn takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StuckWorker {
    /// The worker's number.
    pub worker: usize,
    /// The processor time that it used since the second check that found this turn.
    pub used: Duration,
    /// The least time that the turn has taken.
    pub lasted: Duration,
}

impl std::fmt::Display for StuckWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { worker, used, lasted } = self;
        let (used, lasted) = (used.as_secs_f64(), lasted.as_secs_f64());
        write!(
            f,
            "its worker {worker} hung: {used:.1} s of processor time in one turn of its loop, in {lasted:.1} s"
        )
    }
}

/// The turns of all workers at the last check.
#[derive(Debug, Default)]
pub struct WorkerProgress(Vec<WatchedTurn>);

#[derive(Debug, Clone, Copy)]
struct WatchedTurn {
    turn: OngoingTurn,
    /// The thread's processor time at the second check that found this turn.
    before: Option<Duration>,
    /// How long the turn has taken while its thread was not stopped.
    lasted: Duration,
}

impl WorkerProgress {
    /// Checks all workers, with the turns in which they are; the caller does so each [`PERIOD`]. `thread` reads the thread of a worker, if the system reports
    /// it. It is called only for a worker that is still in the turn of the last check.
    pub fn check(
        &mut self,
        turns: impl Iterator<Item = OngoingTurn>,
        thread: impl Fn(usize) -> Option<Thread>,
    ) -> Option<StuckWorker> {
        let before_this = std::mem::take(&mut self.0);
        for turn in turns {
            let (mut before, mut lasted) = (None, Duration::ZERO);
            if let Some(known) = before_this.iter().find(|watched| watched.turn == turn) {
                let thread = thread(turn.slot);
                let now = thread.map(|thread| thread.used);
                before = known.before.or(now);
                if thread.is_some_and(|thread| !thread.stopped) {
                    lasted = known.lasted + PERIOD;
                }
                let used = now.zip(before).map(|(now, before)| now.saturating_sub(before));
                if let Some(used) =
                    used.filter(|used| *used >= LONGEST_TURN || lasted >= IDLE_LIMIT)
                {
                    return Some(StuckWorker { worker: turn.slot, used, lasted });
                }
            }
            self.0.push(WatchedTurn { turn, before, lasted });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use control::flight::{FlightReader, FlightRecorder, FlightSlot};

    use super::*;

    fn workers() -> (FlightReader, [FlightSlot; 2]) {
        let (reading, fd) = FlightReader::new().unwrap();
        let recorder = FlightRecorder::map(&fd).unwrap();
        let mut flight_slots = [recorder.slot(0), recorder.slot(1)];
        flight_slots.iter_mut().for_each(FlightSlot::begin_turn);
        (reading, flight_slots)
    }

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn thread(seconds: u64) -> Thread {
        Thread { used: s(seconds), runs: true, stopped: false }
    }

    #[test]
    fn worker_busy_in_one_turn_is_stuck() {
        let (reading, [mut first, _second]) = workers();
        let mut progress = WorkerProgress::default();
        let mut check = |used: u64| {
            first.begin_turn();
            progress.check(reading.turns(), |worker| Some(thread(used * (worker as u64 + 1))))
        };
        assert_eq!((check(1_000), check(1_001), check(1_002)), (None, None, None));
        let stuck = check(1_003).unwrap();
        assert_eq!((stuck.worker, stuck.used), (1, s(4)));
        let text = "its worker 1 hung: 4.0 s of processor time in one turn of its loop, in 1.5 s";
        assert_eq!(stuck.to_string(), text);
    }

    #[test]
    fn stopped_or_unknown_worker_is_not_stuck() {
        let (reading, _seats) = workers();
        let mut progress = WorkerProgress::default();
        let stopped = Thread { stopped: true, ..thread(10) };
        for _ in 0..1_000 {
            assert_eq!(
                progress.check(reading.turns(), |worker| (worker == 0).then_some(stopped)),
                None
            );
        }
        assert_eq!(
            progress.check(reading.turns(), |_| Some(thread(12))),
            None,
            "the second worker is readable only now"
        );
        assert_eq!(
            progress.check(reading.turns(), |_| Some(thread(13))).map(|stuck| stuck.worker),
            Some(0)
        );
    }

    #[test]
    fn waiting_worker_is_stuck_after_a_minute() {
        let (reading, [mut first, _second]) = workers();
        let mut progress = WorkerProgress::default();
        let mut check = |stopped| {
            first.begin_turn();
            progress.check(reading.turns(), |_| Some(Thread { stopped, ..thread(10) }))
        };
        assert!((0..120).all(|_| check(false).is_none()));
        assert_eq!(check(true), None, "a stop restarts the count");
        assert!((0..119).all(|_| check(false).is_none()));
        let stuck = check(false).unwrap();
        assert_eq!((stuck.worker, stuck.used, stuck.lasted), (1, s(0), IDLE_LIMIT));
    }

    #[test]
    fn time_in_app_does_not_count() {
        let (reading, [mut first, mut second]) = workers();
        let mut progress = WorkerProgress::default();
        let call = first.begin_call(NonZeroU16::MIN);
        for used in 0..100 {
            second.begin_turn();
            assert_eq!(progress.check(reading.turns(), |_| Some(thread(used))), None);
        }
        drop(call);
        assert_eq!(progress.check(reading.turns(), |_| Some(thread(100))), None);
        second.begin_turn();
        assert_eq!(progress.check(reading.turns(), |_| Some(thread(101))), None);
        second.begin_turn();
        assert!(progress.check(reading.turns(), |_| Some(thread(104))).is_some());
    }
}
