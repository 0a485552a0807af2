//! The flight recorder: in which app a process is, readable while it runs and after it has died.
//!
//! The monitor makes the memory for each kernel and each zone. It reads it when a kernel has ended by
//! itself: whoever is named there was being called. And it looks while they run: a call that is still the
//! same one after too long is a hang, and so is a kernel's worker whose turn of the loop is (design §11).
//!
//! ```text
//! seat 0   u64: the number of the app that is being called, 0 for none
//!          u64: how many calls were begun
//!          u64: how many turns its loop has begun, 0 for a thread without one; 40 bytes unused
//! seat 1   the same
//! ...      64 seats in one page, a cache line each, so that threads do not slow each other down
//! ```
//!
//! The apps run in the process that writes it and can write anything into it. So what is read is a
//! number, about which the reader believes no more than it does about the process.

use std::io;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::shm::{Shared, SharedView};

/// Bytes of the memory.
const SIZE: usize = 4096;

/// Words from one seat to the next: a cache line.
const STRIDE: usize = 8;

/// The word of a seat with the number of calls.
const COUNT: usize = 1;

/// The word of a seat with the number of turns.
const TURNS: usize = 2;

/// How many threads can note what they do.
pub const SEATS: usize = SIZE / (8 * STRIDE);

/// The end that is read.
#[derive(Debug)]
pub struct Reading(SharedView);

impl Reading {
    /// Makes an empty recorder. The descriptor is for the process that writes, see [`Recorder`].
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (view, fd) = SharedView::written_by_peer("flight recorder", SIZE)?;
        Ok((Self(view), fd))
    }

    /// The apps that are being called, or were when the process died: each number once, in order.
    pub fn apps(&self) -> Vec<u16> {
        let seats = (0..SEATS).map(|seat| self.0.load_acquire(seat * STRIDE));
        // A value that is no number of an app is a lie, and names nobody.
        let mut apps: Vec<u16> =
            seats.filter_map(|app| u16::try_from(app).ok()).filter(|app| *app != 0).collect();
        apps.sort_unstable();
        apps.dedup();
        apps
    }

    /// The turns in which threads are at this moment, but for those that call an app.
    pub fn turns(&self) -> impl Iterator<Item = InTurn> {
        (0..SEATS).filter_map(|seat| {
            let number = self.0.load_acquire(seat * STRIDE + TURNS);
            let calls = self.0.load_acquire(seat * STRIDE) != 0;
            (number != 0 && !calls).then_some(InTurn { seat, number })
        })
    }

    /// The calls that last at this moment.
    pub fn calls(&self) -> impl Iterator<Item = InCall> {
        (0..SEATS).filter_map(|seat| {
            let app = u16::try_from(self.0.load_acquire(seat * STRIDE)).ok();
            let app = app.and_then(NonZeroU16::new)?;
            Some(InCall { seat, app, number: self.0.load(seat * STRIDE + COUNT) })
        })
    }
}

/// A turn of a thread's loop. Another one has another number, or another seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTurn {
    /// Which thread's.
    pub seat: usize,
    /// How many turns it had begun with this one.
    pub number: u64,
}

/// A call that lasts. Another one has another number, or another seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InCall {
    /// Which thread's.
    pub seat: usize,
    /// Of which app.
    pub app: NonZeroU16,
    /// How many calls that thread had begun with this one.
    pub number: u64,
}

/// The end that is written.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Shared>);

impl Recorder {
    /// Takes the memory that a [`Reading`] was made with.
    ///
    /// # Errors
    /// The descriptor is of something else, or the system refuses.
    pub fn map(fd: &OwnedFd) -> io::Result<Self> {
        Ok(Self(Arc::new(Shared::map(fd, SIZE)?)))
    }

    /// The place of one thread. Two threads with the same seat would hide each other's notes.
    ///
    /// # Panics
    /// If `number` is not below [`SEATS`].
    pub fn seat(&self, number: usize) -> Seat {
        assert!(number < SEATS, "there are {SEATS} seats");
        Seat { memory: Arc::clone(&self.0), word: number * STRIDE, calls: 0, turns: 0 }
    }
}

/// The place where one thread notes what it does.
#[derive(Debug)]
pub struct Seat {
    memory: Arc<Shared>,
    word: usize,
    calls: u64,
    turns: u64,
}

impl Seat {
    /// Notes that the thread's loop begins another turn.
    pub fn turn(&mut self) {
        self.turns += 1;
        if let Some(word) = self.memory.words().get(self.word + TURNS) {
            word.store(self.turns, Ordering::Relaxed);
        }
    }

    /// Notes that `app` is being called, from now on until what is returned is dropped.
    ///
    /// An unwinding call ends as any other; one that never returns stays noted.
    pub fn call(&mut self, app: NonZeroU16) -> Call<'_> {
        self.calls += 1;
        if let Some(word) = self.memory.words().get(self.word + COUNT) {
            word.store(self.calls, Ordering::Relaxed); // seen with the note, at the latest
        }
        self.note(app.get());
        Call(self)
    }

    fn note(&self, app: u16) {
        // A signal ends the process in the order of its own instructions, so no other thread has to
        // be held back here; only the compiler must leave the note on its side of the call.
        compiler_fence(Ordering::SeqCst);
        if let Some(word) = self.memory.words().get(self.word) {
            word.store(u64::from(app), Ordering::Release);
        }
        compiler_fence(Ordering::SeqCst);
    }
}

/// A call that is noted. Dropping it says that the app has come back.
#[derive(Debug)]
pub struct Call<'seat>(&'seat Seat);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.note(0);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::process::Command;

    use super::*;

    fn app(number: u16) -> NonZeroU16 {
        NonZeroU16::new(number).unwrap()
    }

    #[test]
    fn app_is_named_while_it_is_called_and_no_longer() {
        let (reading, fd) = Reading::new().unwrap();
        let recorder = Recorder::map(&fd).unwrap();
        let (mut first, mut last) = (recorder.seat(0), recorder.seat(SEATS - 1));
        assert_eq!(reading.apps(), [0; 0]);
        let one = first.call(app(7));
        let other = last.call(app(3));
        assert_eq!(reading.apps(), [3, 7]);
        drop(one);
        assert_eq!(reading.apps(), [3]);
        drop(other);
        assert_eq!(reading.apps(), [0; 0]);
    }

    #[test]
    fn call_that_lasts_stays_the_same_and_the_next_one_is_another() {
        let (reading, fd) = Reading::new().unwrap();
        let mut seat = Recorder::map(&fd).unwrap().seat(2);
        let first = seat.call(app(7));
        let seen: Vec<InCall> = reading.calls().collect();
        assert_eq!(seen, [InCall { seat: 2, app: app(7), number: 1 }]);
        assert_eq!(reading.calls().collect::<Vec<_>>(), seen);
        drop(first);
        assert_eq!(reading.calls().count(), 0);
        let _second = seat.call(app(7));
        assert_ne!(reading.calls().collect::<Vec<_>>(), seen);
    }

    #[test]
    fn turn_is_the_same_until_the_next_one_and_none_while_an_app_is_called() {
        let (reading, fd) = Reading::new().unwrap();
        let recorder = Recorder::map(&fd).unwrap();
        let (mut worker, _server) = (recorder.seat(1), recorder.seat(SEATS - 1));
        let turns = || reading.turns().collect::<Vec<_>>();
        assert_eq!(turns(), []);
        worker.turn();
        assert_eq!(turns(), [InTurn { seat: 1, number: 1 }]);
        assert_eq!(turns(), [InTurn { seat: 1, number: 1 }]);
        let call = worker.call(app(7));
        assert_eq!(turns(), []);
        drop(call);
        worker.turn();
        assert_eq!(turns(), [InTurn { seat: 1, number: 2 }]);
    }

    #[test]
    fn app_that_several_threads_call_is_named_once() {
        let (reading, fd) = Reading::new().unwrap();
        let recorder = Recorder::map(&fd).unwrap();
        let mut seats: Vec<Seat> = (0..SEATS).map(|number| recorder.seat(number)).collect();
        let _calls: Vec<Call<'_>> = seats.iter_mut().map(|seat| seat.call(app(9))).collect();
        assert_eq!(reading.apps(), [9]);
    }

    #[test]
    fn call_that_panics_has_come_back() {
        let (reading, fd) = Reading::new().unwrap();
        let mut seat = Recorder::map(&fd).unwrap().seat(0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _call = seat.call(app(7));
            panic!("it does");
        }));
        assert!(panicked.is_err());
        assert_eq!(reading.apps(), [0; 0]);
    }

    #[test]
    fn what_is_no_number_of_an_app_names_nobody() {
        let (reading, fd) = Reading::new().unwrap();
        let memory = Shared::map(&fd, SIZE).unwrap();
        for word in memory.words() {
            word.store(0x1_0001, Ordering::Relaxed);
        }
        memory.words()[1].store(5, Ordering::Relaxed); // not a seat
        assert_eq!(reading.apps(), [0; 0]);
    }

    #[test]
    fn memory_of_something_else_is_refused() {
        let other = crate::shm::sealed_copy("object", &[0; SIZE]).unwrap();
        assert!(Recorder::map(&other).is_err(), "it cannot be written");
        let (_view, small) = SharedView::written_by_peer("small", 64).unwrap();
        assert!(Recorder::map(&small).is_err());
    }

    /// The variable that makes this test program the one that dies, with the descriptor's number.
    const DIES: &str = "ROSEMARY_TEST_FLIGHT";

    #[test]
    #[ignore = "executed by another test, in a process of its own"]
    fn die_in_a_call() {
        let Some(fd) = std::env::var(DIES).ok().and_then(|number| number.parse().ok()) else {
            return;
        };
        // SAFETY: whoever set the variable left the descriptor open for this.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut seat = Recorder::map(&fd).unwrap().seat(5);
        let _call = seat.call(app(11));
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
    }

    #[test]
    fn process_that_died_in_an_app_is_read_afterwards() {
        let (reading, fd) = Reading::new().unwrap();
        // A copy without close-on-exec, for the child to inherit.
        let inherited = rustix::io::dup(&fd).unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "flight::tests::die_in_a_call"])
            .env(DIES, inherited.as_raw_fd().to_string())
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), None, "it died");
        assert_eq!(reading.apps(), [11]);
    }
}
