//! Ends a call that uses too much processor time.
//!
//! Compiled code compares the engine's epoch with a deadline at each loop and function. A [`Ticker`] increases the epoch every [`TICK`]
//! while calls are made, and sleeps otherwise. At its deadline a call compares the processor time of its thread with its [`Budget`]. So a
//! call is not ended because another process had the processor, and calls on other threads do not shorten it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use sys::clock::ThreadClock;
use wasmtime::{Engine, UpdateDeadline};

/// How often a call compares its processor time with its budget. It has at least the budget, and two ticks more at most.
pub const TICK: Duration = Duration::from_millis(2);

/// The processor time that a call may use.
#[derive(Debug)]
pub struct Budget {
    /// The clock of the thread that makes the calls.
    clock: ThreadClock,
    limit: Duration,
    /// The time of that clock at the first tick in the call, in nanoseconds. The start of a call reads no clock.
    since_ns: Option<u64>,
}

impl Budget {
    /// For calls that this thread makes.
    ///
    /// # Errors
    /// The system has no clock for threads.
    pub fn of_this_thread() -> io::Result<Self> {
        let clock = ThreadClock::of_this_thread()?;
        Ok(Self { clock, limit: Duration::ZERO, since_ns: None })
    }

    /// A call with this budget begins.
    pub(crate) fn begin(&mut self, limit: Duration) {
        (self.limit, self.since_ns) = (limit, None);
    }

    /// The limit of the present call.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns what follows a tick in the call.
    pub(crate) fn tick(&mut self) -> UpdateDeadline {
        let Some(now_ns) = self.clock.now_ns() else { return UpdateDeadline::Interrupt };
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        if Duration::from_nanos(now_ns.saturating_sub(since_ns)) < self.limit {
            UpdateDeadline::Continue(1)
        } else {
            UpdateDeadline::Interrupt
        }
    }
}

/// A thread that increases the epoch of an engine while calls are made.
#[derive(Debug)]
pub struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Whether the thread sleeps until the next call.
    sleeps: AtomicBool,
    /// Whether the thread must end.
    is_over: AtomicBool,
}

impl Ticker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system is out of threads.
    pub fn start(engine: &Engine) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (theirs, engine) = (Arc::clone(&shared), engine.clone());
        let thread = thread::Builder::new().name("budget".into()).stack_size(64 * 1024);
        let thread = thread.spawn(move || theirs.tick(&engine))?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Begins a call, which ends when the result is dropped.
    pub fn begin(&self) -> Call<'_> {
        // Both sides store and then load, in one order for all threads, so either the thread sees the call or the call wakes it.
        self.shared.begun.fetch_add(1, Ordering::SeqCst);
        if self.shared.sleeps.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Call(&self.shared)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// A call that runs.
#[derive(Debug)]
pub struct Call<'a>(&'a Shared);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Release);
    }
}

impl Shared {
    fn tick(&self, engine: &Engine) {
        let mut seen = 0;
        while !self.is_over.load(Ordering::SeqCst) {
            // In this order: a call that ends in between seems to run.
            let ended = self.ended.load(Ordering::SeqCst);
            let begun = self.begun.load(Ordering::SeqCst);
            if begun == seen && begun == ended {
                self.sleeps.store(true, Ordering::SeqCst);
                let is_new = || self.begun.load(Ordering::SeqCst) != seen;
                while !is_new() && !self.is_over.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.sleeps.store(false, Ordering::SeqCst);
            } else {
                engine.increment_epoch();
            }
            seen = self.begun.load(Ordering::SeqCst);
            thread::sleep(TICK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_counts_the_time_of_its_thread() {
        let mut budget = Budget::of_this_thread().unwrap();
        budget.begin(Duration::from_millis(20));
        let goes_on = |update| matches!(update, UpdateDeadline::Continue(1));
        assert!(goes_on(budget.tick()));
        thread::sleep(Duration::from_millis(30));
        assert!(goes_on(budget.tick()), "another thread had the processor");
        while goes_on(budget.tick()) {}
        budget.begin(Duration::from_millis(20));
        assert!(goes_on(budget.tick()), "another call");
    }
}
