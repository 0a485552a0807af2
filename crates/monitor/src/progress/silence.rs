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
//! | sleeps, receives no processor time, or cannot be read | when that comes to [`STILL`] times what a call may take |
//! | shares its processors with other threads of the app | when both come together: the process has used [`CALLS`] times what a call may take, and [`STILL`] times that has passed |
//!
//! The last row is for an app whose other threads leave the main thread little processor time. A debugger that holds
//! the thread counts as sleep: an app cannot call ptrace(2), so only a developer does this.
//!
//! So an app that is throttled has as much processor time as any other. Time is counted in the kernel's answers, which
//! are [`PERIOD`] apart: while the whole machine stands still, none passes.

use std::time::Duration;

use kernel::query::AppCounters;
use sys::process::{Thread, main_thread, processor_time};

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
    /// Processor time of all its threads meanwhile, if that decided.
    of_process: Option<Duration>,
    /// Whether that thread is stopped.
    stopped: bool,
    /// The processor time that a call may take.
    bound: Duration,
}

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { waiting, lasted, used, of_process, stopped, bound } = self;
        let (lasted, used) = (lasted.as_secs_f64(), used.as_secs_f64());
        write!(f, "it handled none of {waiting} events in {lasted:.1} s, ")?;
        if *stopped {
            f.write_str("with its main thread stopped")?;
        } else {
            write!(f, "with {used:.1} s of processor time")?;
        }
        if let Some(all) = of_process {
            write!(f, ", {:.1} s in all its threads", all.as_secs_f64())?;
        }
        write!(f, "; hang-seconds allows {}", bound.as_secs_f64())
    }
}

/// What the system says of a zone's process; `None` where `/proc` cannot be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activity {
    /// Its main thread.
    thread: Option<Thread>,
    /// Processor time of all its threads since its start.
    process: Option<Duration>,
}

impl Activity {
    /// Reads it for process `pid`.
    pub(crate) fn of(pid: u32) -> Self {
        Self { thread: main_thread(pid).ok(), process: processor_time(pid).ok() }
    }
}

/// Watches whether one zone handles its events.
#[derive(Debug, Default)]
pub(crate) struct Silence(Option<Seen>);

/// A zone in which events wait and none is handled.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    handled: u64,
    /// Processor time of its main thread.
    thread: CpuSpan,
    /// Processor time of all its threads.
    process: CpuSpan,
    lasted: Duration,
    stopped: Duration,
    idle: Duration,
}

/// Processor time at the first and at the last look, as far as the system said.
#[derive(Debug, Clone, Copy, Default)]
struct CpuSpan(Option<(Duration, Duration)>);

impl CpuSpan {
    /// Takes the time of this look. Returns whether it is the same as at the last one.
    fn take(&mut self, now: Duration) -> bool {
        let (first, last) = self.0.unwrap_or((now, now));
        self.0 = Some((first, now));
        now == last
    }

    /// The time used between the first and the last look.
    fn since_first(self) -> Duration {
        self.0.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first))
    }
}

impl Seen {
    /// Takes the activity of one look. Returns whether the main thread has received no processor time since the last
    /// look, as far as is known.
    fn take(&mut self, activity: Activity) -> bool {
        if let Some(used) = activity.process {
            self.process.take(used);
        }
        let Some(thread) = activity.thread else { return true };
        let is_still = self.thread.take(thread.used);
        is_still || !thread.runs
    }
}

impl Silence {
    /// Another zone runs.
    pub(crate) fn begin(&mut self) {
        self.0 = None;
    }

    /// Takes an answer of the kernel's. `activity` is that of the zone's process, asked for only if events wait and
    /// none was handled; `bound` is what a call of the app may take.
    pub(crate) fn look(
        &mut self,
        counters: &AppCounters,
        activity: impl FnOnce() -> Activity,
        bound: Duration,
    ) -> Option<Silent> {
        let AppCounters { handled, waiting, .. } = *counters;
        let seen = self.0.take();
        if waiting == 0 {
            return None;
        }
        let Some(mut seen) = seen.filter(|seen| seen.handled == handled) else {
            let mut seen = Seen { handled, ..Seen::default() };
            seen.take(activity());
            self.0 = Some(seen);
            return None;
        };
        seen.lasted += PERIOD;
        let activity = activity();
        let is_stopped = activity.thread.is_some_and(|thread| thread.stopped);
        seen.stopped = if is_stopped { seen.stopped + PERIOD } else { Duration::ZERO };
        if seen.take(activity) {
            seen.idle += PERIOD;
        }
        let (used, of_process) = (seen.thread.since_first(), seen.process.since_first());
        let Seen { lasted, stopped, idle, .. } = seen;
        self.0 = Some(seen);
        let by_thread = stopped >= bound || used >= bound * CALLS || idle >= bound * STILL;
        let by_process = lasted >= bound * STILL && of_process >= bound * CALLS;
        let of_process = Some(of_process).filter(|_| by_process && !by_thread);
        let stopped = !stopped.is_zero();
        (by_thread || by_process).then_some(Silent {
            waiting,
            lasted,
            used,
            of_process,
            stopped,
            bound,
        })
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
        looks_at_all(most, |passed| {
            let (counters, thread) = at(passed);
            (counters, alone(thread))
        })
    }

    /// As [`looks`], with what the system says of all threads.
    fn looks_at_all(
        most: Duration,
        mut at: impl FnMut(Duration) -> (AppCounters, Activity),
    ) -> Option<Silent> {
        let mut silence = Silence::default();
        let mut passed = Duration::ZERO;
        while passed <= most {
            let (counters, activity) = at(passed);
            let silent = silence.look(&counters, || activity, BOUND);
            if silent.is_some() {
                return silent;
            }
            passed += PERIOD;
        }
        None
    }

    /// The only thread of its process.
    fn alone(thread: Thread) -> Activity {
        Activity { thread: Some(thread), process: Some(thread.used) }
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
    fn busy_sibling_threads_do_not_delay_the_end() {
        let busy = |passed: Duration| Activity {
            thread: Some(Thread { used: passed / 33, ..RUNS }),
            process: Some(passed),
        };
        let silent = looks_at_all(BOUND * 200, |passed| (counters(7, 3), busy(passed))).unwrap();
        assert_eq!(silent.lasted, BOUND * STILL);
        let text = "it handled none of 3 events in 40.0 s, with 1.2 s of processor time, 40.0 s in all its threads; \
                    hang-seconds allows 2";
        assert_eq!(silent.to_string(), text);
        // A throttled app has not hung: it has not had the time for its calls.
        let throttled = |passed: Duration| Activity {
            thread: Some(Thread { used: passed / 33, ..RUNS }),
            process: Some(passed / 33),
        };
        let most = BOUND * (CALLS - 1) * 33;
        assert_eq!(looks_at_all(most, |passed| (counters(7, 3), throttled(passed))), None);
    }

    #[test]
    fn thread_that_cannot_be_read_counts_as_idle() {
        for process in [None, Some(Duration::ZERO)] {
            let unknown = Activity { thread: None, process };
            let silent = looks_at_all(BOUND * 100, |_| (counters(7, 3), unknown));
            assert_eq!(silent.map(|it| it.lasted), Some(BOUND * STILL));
        }
    }

    #[test]
    fn new_process_is_not_judged_by_the_old_one() {
        let mut silence = Silence::default();
        for _ in 0..1_000 {
            assert_eq!(silence.look(&counters(7, 3), || alone(STOPPED), BOUND), None);
            silence.begin();
        }
    }
}
