//! Detects a zone that handles none of the events that wait in its rings, by what the kernel observes, and one whose main
//! thread is stopped.
//!
//! An app shares its process with the code that hosts it, so it can forge the records of [`control::flight`] and the
//! messages of the control socket. It cannot forge this: an event counts as handled only when it is taken off the ring.
//! The system reports the activity of the zone's main thread, which makes the calls:
//!
//! | the main thread | the app has hung |
//! | --- | --- |
//! | is stopped, or has ended | after the longest time of a call, also without events: its timers and its clients wait |
//! | receives processor time | when that reaches [`CALLS`] times the longest time of a call |
//! | sleeps, receives no processor time, or cannot be read | after [`IDLE_FACTOR`] times the longest time of a call |
//! | shares its processors with other threads of the app | when the process has used [`CALLS`] times, and [`IDLE_FACTOR`] times has passed |
//!
//! The last row is for an app whose other threads leave the main thread little processor time. A main thread that a
//! debugger holds counts as asleep. Only a developer can do that, as an app cannot call ptrace(2).
//!
//! While no event waits, only a stopped main thread counts. It is looked for less often than events, as each look reads files
//! of `/proc`, for each app that does nothing ([`look_interval`]).
//!
//! A throttled app thus gets as much processor time as any other. Time is counted in the kernel's answers, which are
//! [`PERIOD`] apart, so none passes while the whole machine stands still.

use std::time::Duration;

use control::query::AppCounters;
use sys::process::Thread;

use super::{IDLE_FACTOR, PERIOD};

/// The most calls of an app from one batch of events to the next: for alerts, for replies of services, for a timer, and
/// for the batch itself.
const CALLS: u32 = 4;

/// A zone that handles none of its events, or is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// The number of events that wait.
    waiting: u64,
    /// The least time for which none was handled.
    lasted: Duration,
    /// Processor time of its main thread in that time.
    used: Duration,
    /// Processor time of all its threads in that time; `None` if that of the main thread decided.
    of_process: Option<Duration>,
    /// Whether the main thread is stopped.
    stopped: bool,
    /// How long a call may take.
    longest_call: Duration,
}

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { waiting, lasted, used, of_process, stopped, longest_call } = self;
        let (lasted, used) = (lasted.as_secs_f64(), used.as_secs_f64());
        match (waiting, stopped) {
            (0, _) => write!(f, "its main thread was stopped for {lasted:.1} s")?,
            (_, true) => write!(
                f,
                "it handled none of {waiting} events in {lasted:.1} s, with its main thread stopped"
            )?,
            (_, false) => write!(
                f,
                "it handled none of {waiting} events in {lasted:.1} s, with {used:.1} s of processor time"
            )?,
        }
        if let Some(all) = of_process {
            write!(f, ", {:.1} s in all its threads", all.as_secs_f64())?;
        }
        write!(f, "; hang-seconds allows {}", longest_call.as_secs_f64())
    }
}

/// The activity of a zone's process, as the system reports it; `None` where `/proc` was not read or cannot be.
#[derive(Debug, Clone, Copy)]
pub struct Activity {
    /// The main thread.
    pub thread: Option<Thread>,
    /// Processor time of all its threads since its start. It only matters while events wait.
    pub process: Option<Duration>,
}

/// Watches whether one zone handles its events.
#[derive(Debug, Default)]
pub struct EventProgress {
    stall: Option<Stall>,
    /// How long no event has waited since the last look at the process.
    idle: Duration,
}

/// The longest time between two looks at a process for which no event waits. A stopped one is ended up to this time later.
const MOST_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Returns the time between two looks at a process for which no event waits.
fn look_interval(longest_call: Duration) -> Duration {
    (longest_call / 2).min(MOST_LOOK_INTERVAL)
}

/// The time since a zone handled its last event, while others wait.
#[derive(Debug, Clone, Copy, Default)]
struct Stall {
    /// The number of events handled before.
    handled: u64,
    /// Processor time of its main thread.
    thread: CpuSpan,
    /// Processor time of all its threads.
    process: CpuSpan,
    lasted: Duration,
    /// How long the main thread has been stopped without a break.
    stopped: Duration,
    /// How long the main thread has received no processor time, in all.
    idle: Duration,
}

/// Processor time at the first and at the last check, as far as the system reported it.
#[derive(Debug, Clone, Copy, Default)]
struct CpuSpan(Option<(Duration, Duration)>);

impl CpuSpan {
    /// Takes the time of this check. Returns whether it equals that of the last one.
    fn take(&mut self, now: Duration) -> bool {
        let (first, last) = self.0.unwrap_or((now, now));
        self.0 = Some((first, now));
        now == last
    }

    /// The time used between the first and the last check.
    fn since_first(self) -> Duration {
        self.0.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first))
    }
}

impl Stall {
    /// Takes the activity of this check. Returns whether the main thread is idle: as far as known, it has received no
    /// processor time since the last check.
    fn take(&mut self, activity: Activity) -> bool {
        if let Some(used) = activity.process {
            self.process.take(used);
        }
        let Some(thread) = activity.thread else { return true };
        let received_none = self.thread.take(thread.used);
        received_none || !thread.runs
    }
}

impl EventProgress {
    /// A new process runs.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// Takes an answer of the kernel, and reads the activity of the zone's process where it matters.
    pub fn check(
        &mut self,
        counters: &AppCounters,
        activity: impl FnOnce() -> Activity,
        longest_call: Duration,
    ) -> Option<Stalled> {
        let AppCounters { handled, waiting, .. } = *counters;
        let stall = self.stall.take();
        if waiting == 0 && stall.is_none() {
            self.idle += PERIOD;
            if self.idle < look_interval(longest_call) {
                return None;
            }
        }
        self.idle = Duration::ZERO;
        let activity = activity();
        let is_stopped = activity.thread.is_some_and(|thread| thread.stopped);
        if waiting == 0 && !is_stopped {
            return None;
        }
        let Some(mut stall) = stall.filter(|stall| stall.handled == handled) else {
            let mut stall = Stall { handled, ..Stall::default() };
            stall.take(activity);
            self.stall = Some(stall);
            return None;
        };
        stall.lasted += PERIOD;
        stall.stopped = if is_stopped { stall.stopped + PERIOD } else { Duration::ZERO };
        if stall.take(activity) {
            stall.idle += PERIOD;
        }
        let (used, of_process) = (stall.thread.since_first(), stall.process.since_first());
        let Stall { lasted, stopped, idle, .. } = stall;
        self.stall = Some(stall);
        let (busy_limit, idle_limit) = (longest_call * CALLS, longest_call * IDLE_FACTOR);
        let by_thread = stopped >= longest_call || used >= busy_limit || idle >= idle_limit;
        let by_process = lasted >= idle_limit && of_process >= busy_limit;
        let of_process = Some(of_process).filter(|_| by_process && !by_thread);
        let stopped = !stopped.is_zero();
        (by_thread || by_process).then_some(Stalled {
            waiting,
            lasted,
            used,
            of_process,
            stopped,
            longest_call,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(2);
    const RUNS: Thread = Thread { used: Duration::ZERO, runs: true, stopped: false };
    const SLEEPS: Thread = Thread { runs: false, ..RUNS };
    const STOPPED: Thread = Thread { stopped: true, ..SLEEPS };

    /// Checks each period until the zone has hung; `None` if it has not after `most`.
    fn stall_of_thread(
        most: Duration,
        mut at: impl FnMut(Duration) -> (AppCounters, Thread),
    ) -> Option<Stalled> {
        stall_of_process(most, |passed| {
            let (counters, thread) = at(passed);
            (counters, alone(thread))
        })
    }

    /// As [`stall_of_thread`], with the activity of all threads.
    fn stall_of_process(
        most: Duration,
        mut at: impl FnMut(Duration) -> (AppCounters, Activity),
    ) -> Option<Stalled> {
        let mut progress = EventProgress::default();
        let mut passed = Duration::ZERO;
        while passed <= most {
            let (counters, activity) = at(passed);
            let stalled = progress.check(&counters, || activity, LONGEST);
            if stalled.is_some() {
                return stalled;
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
    fn stopped_zone_hangs_after_longest_call() {
        let stalled = stall_of_thread(LONGEST * 100, |_| (counters(7, 3), STOPPED)).unwrap();
        assert_eq!((stalled.lasted, stalled.waiting), (LONGEST, 3));
        let text = "it handled none of 3 events in 2.0 s, with its main thread stopped; hang-seconds allows 2";
        assert_eq!(stalled.to_string(), text);
        // Without events, its timers and its clients wait.
        let stalled = stall_of_thread(LONGEST * 100, |_| (counters(7, 0), STOPPED)).unwrap();
        let text = "its main thread was stopped for 2.0 s; hang-seconds allows 2";
        assert_eq!(stalled.to_string(), text);
    }

    #[test]
    fn briefly_stopped_zone_does_not_hang() {
        let most = LONGEST / 2;
        assert_eq!(
            stall_of_thread(LONGEST * 20, |passed| {
                let phase = passed.as_millis() % (most * 2).as_millis();
                let thread = if phase < most.as_millis() { STOPPED } else { SLEEPS };
                (counters(u64::from(phase == 0), 3), thread)
            }),
            None
        );
    }

    #[test]
    fn busy_zone_hangs_by_processor_time() {
        let stalled =
            stall_of_thread(LONGEST * 100, |used| (counters(7, 3), Thread { used, ..RUNS }))
                .unwrap();
        assert_eq!((stalled.lasted, stalled.used), (LONGEST * CALLS, LONGEST * CALLS));
        // With a tenth of a processor it takes ten times as long.
        let stalled = stall_of_thread(LONGEST * 100, |passed| {
            (counters(7, 3), Thread { used: passed / 10, ..RUNS })
        });
        assert_eq!(stalled.map(|it| it.lasted), Some(LONGEST * CALLS * 10));
    }

    #[test]
    fn sleeping_zone_hangs_much_later() {
        let stalled = stall_of_thread(LONGEST * 100, |_| (counters(7, 3), SLEEPS)).unwrap();
        assert_eq!(stalled.lasted, LONGEST * IDLE_FACTOR);
        let stalled = stall_of_thread(LONGEST * 100, |passed| {
            (counters(7, 3), Thread { used: passed / 100, ..SLEEPS })
        });
        assert_eq!(stalled.map(|it| it.lasted), Some(LONGEST * IDLE_FACTOR));
    }

    #[test]
    fn idle_or_slow_zone_does_not_hang() {
        let long = LONGEST * 1_000;
        assert_eq!(stall_of_thread(long, |_| (counters(7, 0), SLEEPS)), None);
        assert_eq!(stall_of_thread(long, |used| (counters(7, 0), Thread { used, ..RUNS })), None);
        let longest = (LONGEST * CALLS).as_millis() - PERIOD.as_millis();
        let batches = |used: Duration| used.as_millis() / longest;
        assert_eq!(
            stall_of_thread(long, |used| {
                let handled = u64::try_from(batches(used)).unwrap();
                (counters(handled, 3), Thread { used, ..RUNS })
            }),
            None
        );
    }

    #[test]
    fn busy_sibling_threads_do_not_delay_hang() {
        let busy = |passed: Duration| Activity {
            thread: Some(Thread { used: passed / 33, ..RUNS }),
            process: Some(passed),
        };
        let stalled =
            stall_of_process(LONGEST * 200, |passed| (counters(7, 3), busy(passed))).unwrap();
        assert_eq!(stalled.lasted, LONGEST * IDLE_FACTOR);
        let text = "it handled none of 3 events in 40.0 s, with 1.2 s of processor time, 40.0 s in all its threads; \
                    hang-seconds allows 2";
        assert_eq!(stalled.to_string(), text);
        // A throttled app has not hung, as it has not received the time for its calls.
        let throttled = |passed: Duration| Activity {
            thread: Some(Thread { used: passed / 33, ..RUNS }),
            process: Some(passed / 33),
        };
        let most = LONGEST * (CALLS - 1) * 33;
        assert_eq!(stall_of_process(most, |passed| (counters(7, 3), throttled(passed))), None);
    }

    #[test]
    fn unreadable_thread_counts_as_idle() {
        for process in [None, Some(Duration::ZERO)] {
            let unknown = Activity { thread: None, process };
            let stalled = stall_of_process(LONGEST * 100, |_| (counters(7, 3), unknown));
            assert_eq!(stalled.map(|it| it.lasted), Some(LONGEST * IDLE_FACTOR));
        }
    }

    #[test]
    fn idle_zone_is_looked_at_rarely() {
        let looks = std::cell::Cell::new(0);
        let mut progress = EventProgress::default();
        let mut check = |waiting, thread| {
            let activity = || {
                looks.set(looks.get() + 1);
                alone(thread)
            };
            progress.check(&counters(7, waiting), activity, LONGEST * 5)
        };
        (0..200).for_each(|_| assert_eq!(check(0, SLEEPS), None));
        assert_eq!(looks.take(), 20, "every 5 s of 100 s");
        (0..10).for_each(|_| assert_eq!(check(1, SLEEPS), None));
        assert_eq!(looks.take(), 10, "at each check while an event waits");
        assert_eq!(check(0, SLEEPS), None);
        // A stopped one is found with the next look, and ended after the longest time of a call.
        let until_ended = (1..100).find(|_| check(0, STOPPED).is_some()).unwrap();
        assert!(
            PERIOD * until_ended <= LONGEST * 5 + look_interval(LONGEST * 5) + PERIOD,
            "{until_ended}"
        );
    }

    #[test]
    fn new_process_starts_without_stall() {
        let mut progress = EventProgress::default();
        for _ in 0..1_000 {
            assert_eq!(progress.check(&counters(7, 3), || alone(STOPPED), LONGEST), None);
            progress.restart();
        }
    }
}
