//! Detects calls of apps that take too long, in a zone or in the kernel.
//!
//! In a zone a call is limited in the processor time that its thread receives, so that a throttled app does not count as
//! hung. A call that receives no processor time, because it waits for something, is limited to [`IDLE_FACTOR`] times as
//! long by the clock. In the kernel, whose workers serve all switches, time counts in which the worker that makes the call
//! sleeps or receives processor time. Time in which it waits for a processor, or is stopped, does not count.
//!
//! [`workers`] detects a kernel that hangs in its own code, [`stops`] one that was stopped, [`answers`] a service.
//!
//! The watched process itself writes the memory from which the caller reads its calls ([`control::flight`]), so an app can forge
//! them. [`events`] therefore judges a zone by what the kernel and the system observe.

pub mod answers;
pub mod events;
pub mod stops;
pub mod workers;

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use control::flight::OngoingCall;
use sys::process::Thread;

/// How long an app's call may take, unless the operator sets `hang-seconds`.
pub const DEFAULT_LONGEST_CALL: Duration = Duration::from_secs(3);

/// How much longer a call may take that receives no processor time.
const IDLE_FACTOR: u32 = 20;

/// The time between two checks.
const PERIOD: Duration = Duration::from_millis(500);

/// A call that took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HungCall {
    /// The number of the app.
    pub app: NonZeroU16,
    /// How long the call has taken.
    pub lasted: Duration,
    /// The processor time that its thread received in that time; `None` if the clock counted.
    pub received: Option<Duration>,
    /// How long a call of this app may take.
    pub longest: Duration,
}

impl std::fmt::Display for HungCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "one call lasted {:.1} s", self.lasted.as_secs_f64())?;
        if let Some(received) = self.received {
            write!(f, ", with {:.1} s of processor time", received.as_secs_f64())?;
        }
        write!(f, "; hang-seconds allows {}", self.longest.as_secs_f64())
    }
}

/// By what the duration of a call is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// By the clock, except while this thread waits for a processor or is stopped.
    Worker(Thread),
    /// By the clock.
    Clock,
    /// By this processor time, which the calling thread has received since its start.
    ProcessorTime(Duration),
    /// By processor time, which the system did not report this time.
    Unknown,
}

/// Watches the calls of one process.
#[derive(Debug)]
pub struct CallProgress {
    /// The calls that were in progress at the last check.
    calls: Vec<WatchedCall>,
    next_check: Instant,
}

/// A call that was in progress at the last check.
#[derive(Debug, Clone, Copy)]
struct WatchedCall {
    call: OngoingCall,
    since: Instant,
    /// Time that counts for a call of the kernel, and the processor time of its worker at the last check.
    charged: (Duration, Option<Duration>),
    /// The thread's processor time when it was first known during this call, and when it was last known.
    received: Option<(Duration, Duration)>,
    /// When the processor time was first known, or last grew.
    progressed: Instant,
}

impl CallProgress {
    /// Watches a process that is about to start.
    pub fn new(now: Instant) -> Self {
        Self { calls: Vec::new(), next_check: now + PERIOD }
    }

    /// Whether the call was in progress at the last check.
    pub fn has_lasted(&self, call: &OngoingCall) -> bool {
        self.calls.iter().any(|it| it.call == *call)
    }

    /// When [`check`](Self::check) is due.
    pub fn next_due(&self) -> Instant {
        self.next_check
    }

    /// Checks the calls that are in progress, if that is due. `progress` is evaluated for each call. `longest` returns how long a
    /// call of an app may take.
    pub fn check(
        &mut self,
        now: Instant,
        calls: impl Iterator<Item = OngoingCall>,
        progress: impl Fn(&OngoingCall) -> Progress,
        longest: impl Fn(NonZeroU16) -> Duration,
    ) -> Option<HungCall> {
        if now < self.next_check {
            return None;
        }
        self.next_check = now + PERIOD;
        let before = std::mem::take(&mut self.calls);
        for call in calls {
            let progress = progress(&call);
            let known = before.iter().find(|watched| watched.call == call).copied();
            let new = WatchedCall {
                call,
                since: now,
                received: None,
                charged: (Duration::ZERO, None),
                progressed: now,
            };
            let mut watched = known.unwrap_or(new);
            let lasted = now.saturating_duration_since(watched.since);
            let longest = longest(call.app);
            let mut hung = HungCall { app: call.app, lasted, received: None, longest };
            if let Progress::Worker(thread) = progress {
                if watched.charge(thread, known.is_some()) >= longest {
                    return Some(hung);
                }
            } else if progress == Progress::Clock {
                if lasted >= longest {
                    return Some(hung);
                }
            } else {
                let received = watched.update(progress, now);
                hung.received = Some(received);
                let idle = now.saturating_duration_since(watched.progressed);
                if received >= longest || idle >= longest * IDLE_FACTOR {
                    return Some(hung);
                }
            }
            self.calls.push(watched);
        }
        None
    }
}

impl WatchedCall {
    /// Charges the time since the last check, if there was one. Returns the sum.
    fn charge(&mut self, thread: Thread, is_known: bool) -> Duration {
        let (mut charged, before) = self.charged;
        if is_known && !thread.stopped {
            let used = before.map_or(Duration::ZERO, |before| thread.used.saturating_sub(before));
            charged += if thread.runs { used.min(PERIOD) } else { PERIOD };
        }
        self.charged = (charged, Some(thread.used));
        charged
    }

    /// Takes the thread's processor time. Returns how much it has received in this call, as far as known.
    fn update(&mut self, progress: Progress, now: Instant) -> Duration {
        if let Progress::ProcessorTime(total) = progress {
            match &mut self.received {
                Some((_, last)) if *last == total => {}
                known => {
                    let first = known.map_or(total, |(first, _)| first);
                    (*known, self.progressed) = (Some((first, total)), now);
                }
            }
        }
        self.received.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use control::flight::{FlightReader, FlightRecorder, FlightSlot};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(2);
    const SECOND: Duration = Duration::from_secs(1);

    /// Watches the calls in the record of a process.
    struct Detector {
        recorder: FlightReader,
        calls: CallProgress,
    }

    impl Detector {
        fn check(
            &mut self,
            now: Instant,
            progress: impl Fn(&OngoingCall) -> Progress,
            longest: impl Fn(NonZeroU16) -> Duration,
        ) -> Option<HungCall> {
            self.calls.check(now, self.recorder.calls(), progress, longest)
        }
    }

    /// A detector with the recorder of the process that it watches.
    struct Fixture {
        detector: Detector,
        flight_slot: FlightSlot,
        begin: Instant,
    }

    fn fixture() -> Fixture {
        let begin = Instant::now();
        let (recorder, fd) = FlightReader::new().unwrap();
        let detector = Detector { recorder, calls: CallProgress::new(begin) };
        Fixture { detector, flight_slot: FlightRecorder::map(&fd).unwrap().slot(3), begin }
    }

    fn app() -> NonZeroU16 {
        NonZeroU16::new(7).unwrap()
    }

    #[test]
    fn call_that_uses_its_processor_time_hangs() {
        let Fixture { mut detector, mut flight_slot, begin } = fixture();
        let _call = flight_slot.begin_call(app());
        let mut check = |s: u32, received: u64| {
            let progress =
                |_: &OngoingCall| Progress::ProcessorTime(Duration::from_millis(received));
            detector.check(begin + SECOND * s, progress, |_| LONGEST)
        };
        assert_eq!(check(1, 500), None);
        assert_eq!(check(2, 1_500), None);
        assert_eq!(check(30, 2_400), None, "a throttled thread receives little in a long time");
        let hung = check(31, 2_500).unwrap();
        assert_eq!((hung.app, hung.lasted, hung.received), (app(), SECOND * 30, Some(LONGEST)));
        assert_eq!(
            hung.to_string(),
            "one call lasted 30.0 s, with 2.0 s of processor time; hang-seconds allows 2"
        );
    }

    #[test]
    fn many_short_calls_do_not_hang() {
        let Fixture { mut detector, mut flight_slot, begin } = fixture();
        for s in 1..100 {
            let _call = flight_slot.begin_call(app());
            let progress = |_: &OngoingCall| Progress::ProcessorTime(SECOND * s * 2);
            assert_eq!(detector.check(begin + SECOND * s, progress, |_| LONGEST), None);
        }
    }

    #[test]
    fn idle_call_hangs_much_later() {
        let Fixture { mut detector, mut flight_slot, begin } = fixture();
        let _call = flight_slot.begin_call(app());
        let mut check = |s: u32| {
            let progress = |_: &OngoingCall| Progress::ProcessorTime(Duration::ZERO);
            detector.check(begin + SECOND * s, progress, |_| LONGEST)
        };
        assert_eq!(check(1), None);
        assert_eq!(check(40), None);
        assert!(check(41).is_some());
    }

    #[test]
    fn clock_limits_calls_in_kernel() {
        let Fixture { mut detector, mut flight_slot, begin } = fixture();
        let _call = flight_slot.begin_call(app());
        let mut check =
            |s: u32| detector.check(begin + SECOND * s, |_| Progress::Clock, |_| LONGEST);
        assert_eq!((check(1), check(2)), (None, None));
        assert_eq!(check(3).map(|hung| hung.lasted), Some(LONGEST));
    }

    #[test]
    fn starved_or_stopped_worker_does_not_hang() {
        let Fixture { mut detector, mut flight_slot, begin } = fixture();
        let _call = flight_slot.begin_call(app());
        let mut checks = 0;
        let mut check = |used_ms: u64, runs, stopped| {
            checks += 1;
            let used = Duration::from_millis(used_ms);
            let progress = |_: &OngoingCall| Progress::Worker(Thread { used, runs, stopped });
            detector.check(begin + PERIOD * checks, progress, |_| LONGEST)
        };
        for _ in 0..1_000 {
            assert_eq!(check(100, true, false), None, "it waits for a processor");
            assert_eq!(check(100, false, true), None, "it is stopped");
        }
        let busy = (1..=4).map(|n| check(100 + n * 499, true, false)).collect::<Vec<_>>();
        assert!(busy.iter().all(Option::is_none), "{busy:?}");
        assert!(check(100 + 4 * 499 + 4, true, false).is_some(), "it has used the time");
    }

    #[test]
    fn sleeping_worker_hangs_by_the_clock() {
        let Fixture { mut detector, mut flight_slot, begin } = fixture();
        let _call = flight_slot.begin_call(app());
        let mut check = |n: u32| {
            let thread = Thread { used: SECOND, runs: false, stopped: false };
            detector.check(begin + PERIOD * n, |_| Progress::Worker(thread), |_| LONGEST)
        };
        assert!((1..=4).all(|n| check(n).is_none()));
        assert!(check(5).is_some());
    }

    #[test]
    fn without_calls_processor_time_is_not_read() {
        let Fixture { mut detector, begin, .. } = fixture();
        let progress = |_: &OngoingCall| unreachable!("no app is being called");
        assert_eq!(detector.check(begin + SECOND, progress, |_| LONGEST), None);
        assert_eq!(detector.calls.next_due(), begin + SECOND + PERIOD);
    }

    #[test]
    fn processor_time_before_first_reading_does_not_count() {
        let Fixture { mut detector, mut flight_slot, begin } = fixture();
        let _call = flight_slot.begin_call(app());
        let mut check =
            |s: u32, progress| detector.check(begin + SECOND * s, |_| progress, |_| LONGEST);
        let time = |s: u32| Progress::ProcessorTime(SECOND * s);
        assert_eq!(check(1, Progress::Unknown), None);
        assert_eq!(check(2, time(3_600)), None, "of the thread's whole life");
        assert_eq!(check(3, Progress::Unknown), None);
        assert_eq!(check(4, time(3_601)), None);
        assert_eq!(check(5, time(3_602)).and_then(|hung| hung.received), Some(LONGEST));
    }

    #[test]
    fn call_without_readings_hangs_by_the_clock() {
        let Fixture { mut detector, mut flight_slot, begin } = fixture();
        let _call = flight_slot.begin_call(app());
        let mut check =
            |s: u32| detector.check(begin + SECOND * s, |_| Progress::Unknown, |_| LONGEST);
        assert_eq!((check(1), check(40)), (None, None));
        assert!(check(41).is_some());
    }
}
