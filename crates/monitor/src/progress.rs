//! Whether a process gets on with its apps: a call that lasts too long is a hang (design §9, §11).
//!
//! What a call may last is counted in the processor time that its thread has received meanwhile, so
//! that an app that is throttled is not taken for one that hangs. One that receives none at all, since
//! it waits for something, gets [`STILL`] times as long by the clock. In a kernel, which nobody throttles
//! and which has many threads, the clock counts.
//!
//! A kernel may also hang in its own code; that is the matter of [`turns`].
//!
//! The process itself writes the page that is read here ([`sys::flight`]), so an app can forge it. [`silence`] judges a
//! zone by the observations of the kernel and the system.

pub(crate) mod silence;
mod turns;

use std::io;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sys::flight::{InCall, Reading};
use sys::process::Thread;

use self::turns::{Stuck, Turns};

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
    /// How much processor time its thread received meanwhile, if that was what counted.
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

/// What the thread that makes the calls has received since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// That does not matter: the clock counts.
    ByClock,
    /// So much processor time.
    Time(Duration),
    /// The system does not say, this time.
    Unknown,
}

/// Watches the calls of one process.
#[derive(Debug)]
pub(crate) struct Watch {
    recorder: Reading,
    seen: Vec<Seen>,
    turns: Turns,
    next_look: Instant,
}

/// A call that was there at the last look.
#[derive(Debug, Clone, Copy)]
struct Seen {
    call: InCall,
    since: Instant,
    /// What its thread had received when that was first known of this call, and at last.
    received: Option<(Duration, Duration)>,
    /// When that was first known, or had last become more.
    moved: Instant,
}

impl Watch {
    /// For a process that is about to be given the memory that is returned with it.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub(crate) fn new(now: Instant) -> io::Result<(Self, OwnedFd)> {
        let (recorder, fd) = Reading::new()?;
        Ok((
            Self { recorder, seen: Vec::new(), turns: Turns::default(), next_look: now + PERIOD },
            fd,
        ))
    }

    /// The apps that are being called, or were when the process ended.
    pub(crate) fn apps(&self) -> Vec<u16> {
        self.recorder.apps()
    }

    /// When it is to be looked at again.
    pub(crate) fn next_due(&self) -> Instant {
        self.next_look
    }

    /// Looks whether the process's workers get on. To be called when [`look`](Self::look) is due, before it.
    pub(crate) fn look_at_turns(
        &mut self,
        thread: impl Fn(usize) -> Option<Thread>,
    ) -> Option<Stuck> {
        self.turns.look(&self.recorder, thread)
    }

    /// Looks, if it is time. `received` is asked for if an app is being called; `bound` is what a call of
    /// an app may last.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        received: impl FnOnce() -> Received,
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
            let known = before.iter().find(|seen| seen.call == call).copied();
            let mut seen = known.unwrap_or(Seen { call, since: now, received: None, moved: now });
            let lasted = now.saturating_duration_since(seen.since);
            let bound = bound(call.app);
            let mut hang = Hang { app: call.app, lasted, received: None, bound };
            if received == Received::ByClock {
                if lasted >= bound {
                    return Some(hang);
                }
            } else {
                let taken = seen.receive(received, now);
                hang.received = Some(taken);
                let still = now.saturating_duration_since(seen.moved);
                if taken >= bound || still >= bound * STILL {
                    return Some(hang);
                }
            }
            self.seen.push(seen);
        }
        None
    }
}

impl Seen {
    /// What its thread has received in this call, as far as that is known.
    fn receive(&mut self, received: Received, now: Instant) -> Duration {
        if let Received::Time(total) = received {
            match &mut self.received {
                Some((_, last)) if *last == total => {}
                known => {
                    let first = known.map_or(total, |(first, _)| first);
                    (*known, self.moved) = (Some((first, total)), now);
                }
            }
        }
        self.received.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first))
    }
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
            let received = || Received::Time(Duration::from_millis(received));
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
            let received = || Received::Time(SECOND * s * 2);
            assert_eq!(watch.look(begin + SECOND * s, received, |_| BOUND), None);
        }
    }

    #[test]
    fn call_that_receives_nothing_at_all_is_a_hang_much_later() {
        let Story { mut watch, mut seat, begin } = story();
        let _call = seat.call(app());
        let mut look =
            |s: u32| watch.look(begin + SECOND * s, || Received::Time(Duration::ZERO), |_| BOUND);
        assert_eq!(look(1), None);
        assert_eq!(look(40), None);
        assert!(look(41).is_some());
    }

    #[test]
    fn in_a_kernel_the_clock_counts() {
        let Story { mut watch, mut seat, begin } = story();
        let _call = seat.call(app());
        let mut look = |s: u32| watch.look(begin + SECOND * s, || Received::ByClock, |_| BOUND);
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
    fn what_was_received_before_it_was_first_known_is_not_the_calls() {
        let Story { mut watch, mut seat, begin } = story();
        let _call = seat.call(app());
        let mut look = |s: u32, received| watch.look(begin + SECOND * s, || received, |_| BOUND);
        let time = |s: u32| Received::Time(SECOND * s);
        assert_eq!(look(1, Received::Unknown), None);
        assert_eq!(look(2, time(3_600)), None, "of an hour's life");
        assert_eq!(look(3, Received::Unknown), None);
        assert_eq!(look(4, time(3_601)), None);
        assert_eq!(look(5, time(3_602)).and_then(|hang| hang.received), Some(BOUND));
    }

    #[test]
    fn call_of_which_nothing_is_known_ends_by_the_clock() {
        let Story { mut watch, mut seat, begin } = story();
        let _call = seat.call(app());
        let mut look = |s: u32| watch.look(begin + SECOND * s, || Received::Unknown, |_| BOUND);
        assert_eq!((look(1), look(40)), (None, None));
        assert!(look(41).is_some());
    }
}
