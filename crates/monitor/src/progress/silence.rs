//! Whether a zone handles its events, as the kernel sees it in the zone's rings: one that handles none of those that
//! wait has hung, whatever it says of itself.
//!
//! An app shares its process with the code that hosts it, so it can forge the notes of [`sys::flight`] and the messages
//! of the control socket. It cannot forge this: only an event that is taken off the ring counts, and an app that takes
//! them off does what the host does. The system says what the zone's main thread does meanwhile, which makes the calls:
//!
//! | the thread | the app has hung |
//! | --- | --- |
//! | is stopped, or has ended | after the time that a call may take |
//! | receives processor time | when that comes to [`CALLS`] times what a call may take |
//! | sleeps, or receives no processor time | when that comes to [`STILL`] times what a call may take |
//!
//! So an app that is throttled has as much processor time as any other. Time is counted in the kernel's answers, which
//! are [`PERIOD`] apart: while the whole machine stands still, none passes.

use std::time::Duration;

use kernel::query::AppCounters;
use sys::process::Thread;

use super::{PERIOD, STILL};

/// Calls of the app that may lie between two batches of events: for alerts, for answers of services, for a timer, and
/// the batch itself.
const CALLS: u32 = 4;

/// A zone that handles no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Silent {
    /// How many events wait.
    waiting: u64,
    /// For how long none was handled, at least.
    lasted: Duration,
    /// Processor time of its main thread meanwhile.
    used: Duration,
    /// Whether that thread is stopped.
    stopped: bool,
    /// The processor time that a call may take.
    bound: Duration,
}

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { waiting, lasted, used, stopped, bound } = self;
        let (lasted, used) = (lasted.as_secs_f64(), used.as_secs_f64());
        write!(f, "it handled none of {waiting} events in {lasted:.1} s, ")?;
        if *stopped {
            f.write_str("with its main thread stopped")?;
        } else {
            write!(f, "with {used:.1} s of processor time")?;
        }
        write!(f, "; hang-seconds allows {}", bound.as_secs_f64())
    }
}

/// Watches whether one zone handles its events.
#[derive(Debug, Default)]
pub(crate) struct Silence(Option<Seen>);

/// A zone in which events wait and none is handled.
#[derive(Debug, Clone, Copy)]
struct Seen {
    handled: u64,
    /// What its thread had used at first and at the last look, as far as the system said.
    used: Option<(Duration, Duration)>,
    lasted: Duration,
    stopped: Duration,
    idle: Duration,
}

impl Silence {
    /// Another zone runs.
    pub(crate) fn begin(&mut self) {
        self.0 = None;
    }

    /// Takes an answer of the kernel's. `thread` is the zone's main thread, asked for only if events wait and none was
    /// handled; `bound` is what a call of the app may take.
    pub(crate) fn look(
        &mut self,
        counters: &AppCounters,
        thread: impl FnOnce() -> Option<Thread>,
        bound: Duration,
    ) -> Option<Silent> {
        let AppCounters { handled, waiting, .. } = *counters;
        let seen = self.0.take();
        if waiting == 0 {
            return None;
        }
        let Some(mut seen) = seen.filter(|seen| seen.handled == handled) else {
            let (used, zero) = (thread().map(|it| (it.used, it.used)), Duration::ZERO);
            self.0 = Some(Seen { handled, used, lasted: zero, stopped: zero, idle: zero });
            return None;
        };
        seen.lasted += PERIOD;
        if let Some(thread) = thread() {
            seen.stopped = if thread.stopped { seen.stopped + PERIOD } else { Duration::ZERO };
            let (first, last) = seen.used.unwrap_or((thread.used, thread.used));
            if !thread.runs || thread.used == last {
                seen.idle += PERIOD;
            }
            seen.used = Some((first, thread.used));
        }
        let used = seen.used.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first));
        let Seen { lasted, stopped, idle, .. } = seen;
        self.0 = Some(seen);
        let hung = stopped >= bound || used >= bound * CALLS || idle >= bound * STILL;
        hung.then_some(Silent { waiting, lasted, used, stopped: !stopped.is_zero(), bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(2);
    const RUNS: Thread = Thread { used: Duration::ZERO, runs: true, stopped: false };
    const SLEEPS: Thread = Thread { runs: false, ..RUNS };
    const STOPPED: Thread = Thread { stopped: true, ..SLEEPS };

    /// Looks again and again, until it has hung: how long that took, or `None` after `most`.
    fn looks(
        most: Duration,
        mut at: impl FnMut(Duration) -> (AppCounters, Thread),
    ) -> Option<Silent> {
        let mut silence = Silence::default();
        let mut passed = Duration::ZERO;
        while passed <= most {
            let (counters, thread) = at(passed);
            let silent = silence.look(&counters, || Some(thread), BOUND);
            if silent.is_some() {
                return silent;
            }
            passed += PERIOD;
        }
        None
    }

    fn counters(handled: u64, waiting: u64) -> AppCounters {
        AppCounters { handled, waiting, ..AppCounters::default() }
    }

    #[test]
    fn stopped_zone_with_events_has_hung_after_a_calls_time() {
        let silent = looks(BOUND * 100, |_| (counters(7, 3), STOPPED)).unwrap();
        assert_eq!((silent.lasted, silent.waiting), (BOUND, 3));
        let text = "it handled none of 3 events in 2.0 s, with its main thread stopped; hang-seconds allows 2";
        assert_eq!(silent.to_string(), text);
    }

    #[test]
    fn zone_that_was_stopped_for_less_goes_on() {
        let most = BOUND / 2;
        assert_eq!(
            looks(BOUND * 20, |passed| {
                let phase = passed.as_millis() % (most * 2).as_millis();
                let thread = if phase < most.as_millis() { STOPPED } else { SLEEPS };
                (counters(u64::from(phase == 0), 3), thread)
            }),
            None
        );
    }

    #[test]
    fn busy_zone_that_handles_nothing_has_hung_by_its_processor_time() {
        let silent = looks(BOUND * 100, |used| (counters(7, 3), Thread { used, ..RUNS })).unwrap();
        assert_eq!((silent.lasted, silent.used), (BOUND * CALLS, BOUND * CALLS));
        // A tenth of a processor: ten times as long.
        let silent =
            looks(BOUND * 100, |passed| (counters(7, 3), Thread { used: passed / 10, ..RUNS }));
        assert_eq!(silent.map(|it| it.lasted), Some(BOUND * CALLS * 10));
    }

    #[test]
    fn sleeping_zone_has_hung_much_later_also_if_it_wakes_up_for_moments() {
        let silent = looks(BOUND * 100, |_| (counters(7, 3), SLEEPS)).unwrap();
        assert_eq!(silent.lasted, BOUND * STILL);
        let silent =
            looks(BOUND * 100, |passed| (counters(7, 3), Thread { used: passed / 100, ..SLEEPS }));
        assert_eq!(silent.map(|it| it.lasted), Some(BOUND * STILL));
    }

    #[test]
    fn zone_with_nothing_to_do_or_that_goes_on_slowly_has_not_hung() {
        let long = BOUND * 1_000;
        assert_eq!(looks(long, |_| (counters(7, 0), STOPPED)), None);
        assert_eq!(looks(long, |used| (counters(7, 0), Thread { used, ..RUNS })), None);
        let longest = (BOUND * CALLS).as_millis() - PERIOD.as_millis();
        let batches = |used: Duration| used.as_millis() / longest;
        assert_eq!(
            looks(long, |used| {
                let handled = u64::try_from(batches(used)).unwrap();
                (counters(handled, 3), Thread { used, ..RUNS })
            }),
            None
        );
    }

    #[test]
    fn another_zone_begins_anew_and_an_unknown_thread_is_not_judged() {
        let mut silence = Silence::default();
        for _ in 0..3 {
            assert_eq!(silence.look(&counters(7, 3), || Some(STOPPED), BOUND), None);
            silence.begin();
        }
        for _ in 0..1_000 {
            assert_eq!(silence.look(&counters(7, 3), || None, BOUND), None);
        }
    }
}
