//! Whether a process gets on with its apps: a call that lasts too long is a hang (design §9, §11).
//!
//! What a call may last is counted in the processor time that its process has received meanwhile, so
//! that an app that is throttled is not taken for one that hangs. One that receives none at all, since
//! it waits for something, gets [`STILL`] times as long by the clock. In a kernel, which nobody throttles
//! and which has many threads, the clock counts.
//!
//! What is read here is written by the process itself ([`sys::flight`]). An app that wants to can hide
//! its hang; then it keeps nobody waiting but itself.

use std::io;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sys::flight::{InCall, Reading};

/// What an app's call may last, where the operator says nothing.
pub(crate) const DEFAULT_BOUND: Duration = Duration::from_secs(3);

/// How much longer a call may last that receives no processor time.
const STILL: u32 = 20;

/// From one look to the next.
const PERIOD: Duration = Duration::from_millis(500);

/// A call that lasted too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hang {
    /// Of which app.
    pub(crate) app: NonZeroU16,
    /// How long it lasted.
    pub(crate) lasted: Duration,
    /// How much processor time its process received meanwhile, if that was what counted.
    pub(crate) received: Option<Duration>,
    /// What it might have.
    pub(crate) bound: Duration,
}

impl std::fmt::Display for Hang {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "one call lasted {:.1} s", self.lasted.as_secs_f64())?;
        if let Some(received) = self.received {
            write!(f, ", with {:.1} s of processor time", received.as_secs_f64())?;
        }
        write!(f, "; hang-seconds allows {}", self.bound.as_secs_f64())
    }
}

/// Watches the calls of one process.
#[derive(Debug)]
pub(crate) struct Watch {
    recorder: Reading,
    seen: Vec<Seen>,
    next_look: Instant,
}

/// A call that was there at the last look.
#[derive(Debug, Clone, Copy)]
struct Seen {
    call: InCall,
    since: Instant,
    /// What the process had received when the call was first seen.
    received: Duration,
    /// When it had last received something.
    moved: (Instant, Duration),
}

impl Watch {
    /// For a process that is about to be given the memory that is returned with it.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub(crate) fn new(now: Instant) -> io::Result<(Self, OwnedFd)> {
        let (recorder, fd) = Reading::new()?;
        Ok((Self { recorder, seen: Vec::new(), next_look: now + PERIOD }, fd))
    }

    /// The apps that are being called, or were when the process ended.
    pub(crate) fn apps(&self) -> Vec<u16> {
        self.recorder.apps()
    }

    /// When it is to be looked at again.
    pub(crate) fn next_due(&self) -> Instant {
        self.next_look
    }

    /// Looks, if it is time. `received` is the processor time of the process, asked for if a call has
    /// lasted since the last look, or `None` where only the clock counts; `bound` what a call of an app
    /// may last.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        received: impl FnOnce() -> Option<Duration>,
        bound: impl Fn(NonZeroU16) -> Duration,
    ) -> Option<Hang> {
        if now < self.next_look {
            return None;
        }
        self.next_look = now + PERIOD;
        let before = std::mem::take(&mut self.seen);
        let calls: Vec<InCall> = self.recorder.calls().collect();
        if calls.is_empty() {
            return None;
        }
        let received = received();
        for call in calls {
            let total = received.unwrap_or_default();
            let known = before.iter().find(|seen| seen.call == call).copied();
            let mut seen =
                known.unwrap_or(Seen { call, since: now, received: total, moved: (now, total) });
            if seen.moved.1 != total {
                seen.moved = (now, total);
            }
            let lasted = now.saturating_duration_since(seen.since);
            let bound = bound(call.app);
            let mut hang = Hang { app: call.app, lasted, received: None, bound };
            if received.is_some() {
                let taken = total.saturating_sub(seen.received);
                hang.received = Some(taken);
                let still = now.saturating_duration_since(seen.moved.0);
                if taken >= bound || still >= bound * STILL {
                    return Some(hang);
                }
            } else if lasted >= bound {
                return Some(hang);
            }
            self.seen.push(seen);
        }
        None
    }
}

/// The processor time that all threads of process `pid` have received; `None` if it is gone.
pub(crate) fn received(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = of_stat(&stat)?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_secs(ticks) / u32::try_from(per_second).ok()?)
}

/// User and system time of `proc_pid_stat(5)`, in ticks. The second field, a name in parentheses, may
/// have any characters in it.
fn of_stat(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(ticks()? + ticks()?)
}

#[cfg(test)]
mod tests {
    use sys::flight::{Recorder, Seat};

    use super::*;

    const BOUND: Duration = Duration::from_secs(2);
    const SECOND: Duration = Duration::from_secs(1);

    struct Story {
        watch: Watch,
        seat: Seat,
        begin: Instant,
    }

    fn story() -> Story {
        let begin = Instant::now();
        let (watch, fd) = Watch::new(begin).unwrap();
        Story { watch, seat: Recorder::map(&fd).unwrap().seat(3), begin }
    }

    fn app() -> NonZeroU16 {
        NonZeroU16::new(7).unwrap()
    }

    #[test]
    fn call_that_uses_up_its_processor_time_is_a_hang() {
        let Story { mut watch, mut seat, begin } = story();
        let _call = seat.call(app());
        let mut look = |s: u32, received: u64| {
            let received = || Some(Duration::from_millis(received));
            watch.look(begin + SECOND * s, received, |_| BOUND)
        };
        assert_eq!(look(1, 500), None);
        assert_eq!(look(2, 1_500), None);
        assert_eq!(look(30, 2_400), None, "throttled: time passes, and it receives little");
        let hang = look(31, 2_500).unwrap();
        assert_eq!((hang.app, hang.lasted, hang.received), (app(), SECOND * 30, Some(BOUND)));
        assert_eq!(
            hang.to_string(),
            "one call lasted 30.0 s, with 2.0 s of processor time; hang-seconds allows 2"
        );
    }

    #[test]
    fn many_short_calls_are_no_hang_however_much_they_use() {
        let Story { mut watch, mut seat, begin } = story();
        for s in 1..100 {
            let _call = seat.call(app());
            let received = || Some(SECOND * s * 2);
            assert_eq!(watch.look(begin + SECOND * s, received, |_| BOUND), None);
        }
    }

    #[test]
    fn call_that_receives_nothing_at_all_is_a_hang_much_later() {
        let Story { mut watch, mut seat, begin } = story();
        let _call = seat.call(app());
        let mut look = |s: u32| watch.look(begin + SECOND * s, || Some(Duration::ZERO), |_| BOUND);
        assert_eq!(look(1), None);
        assert_eq!(look(40), None);
        assert!(look(41).is_some());
    }

    #[test]
    fn in_a_kernel_the_clock_counts() {
        let Story { mut watch, mut seat, begin } = story();
        let _call = seat.call(app());
        let mut look = |s: u32| watch.look(begin + SECOND * s, || None, |_| BOUND);
        assert_eq!((look(1), look(2)), (None, None));
        assert_eq!(look(3).map(|hang| hang.lasted), Some(BOUND));
    }

    #[test]
    fn who_sleeps_is_looked_at_and_not_asked_about() {
        let Story { mut watch, begin, .. } = story();
        let asked = || unreachable!("nobody is being called");
        assert_eq!(watch.look(begin + SECOND, asked, |_| BOUND), None);
        assert_eq!(watch.next_due(), begin + SECOND + PERIOD);
    }

    #[test]
    fn own_processor_time_is_read_whatever_the_programs_name_is() {
        assert!(received(std::process::id()).is_some());
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(of_stat(stat), Some(300));
        assert_eq!(of_stat("7 (a) S 1"), None);
        assert_eq!(received(u32::MAX), None);
    }
}
