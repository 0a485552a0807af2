//! Ends a call that uses too much processor time.
//!
//! Compiled code compares the engine's epoch with its deadline at each loop and function. A thread increases the epoch for each
//! [`TICK`] of processor time that the thread of the calls has used. So a call is not ended because another process had the processor.
//! The thread sleeps while no call is made.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use sys::clock::ThreadClock;
use wasmtime::Engine;

/// The unit of a budget.
pub const TICK: Duration = Duration::from_nanos(TICK_NS);

/// The same in nanoseconds.
const TICK_NS: u64 = 2_000_000;

/// Processor time after which the epoch advances. It is less than a tick, as the thread's own sleep is not exact.
const USED_NS: u64 = TICK_NS / 2;

/// The epochs after which a call with this budget ends. It has at least the budget, and two ticks more at most.
pub fn epochs(budget: Duration) -> u64 {
    let ticks = budget.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(ticks).unwrap_or(u64::MAX / 2) + 1
}

/// Watches the calls that one thread makes.
#[derive(Debug)]
pub struct Budget {
    shared: Arc<Shared>,
    watcher: Thread,
}

#[derive(Debug)]
struct Shared {
    /// Begun and ended calls; odd during a call.
    calls: AtomicU64,
    /// Whether the watcher sleeps until the next call.
    sleeps: AtomicBool,
}

impl Budget {
    /// Starts a thread that watches the calls of this thread into modules of `engine`.
    ///
    /// # Errors
    /// The system is out of threads, or has no clock for them.
    pub fn watch(engine: &Engine) -> io::Result<Self> {
        let clock = ThreadClock::of_this_thread()?;
        let shared = Arc::new(Shared { calls: AtomicU64::new(0), sleeps: AtomicBool::new(false) });
        let (theirs, engine) = (Arc::clone(&shared), engine.clone());
        let watcher = thread::Builder::new().name("budget".into());
        let watcher =
            watcher.stack_size(64 * 1024).spawn(move || theirs.advance(clock, &engine))?;
        Ok(Self { shared, watcher: watcher.thread().clone() })
    }

    /// Begins a call, which ends when the result is dropped.
    pub fn begin(&self) -> Call<'_> {
        // Both sides store and then load, in one order for all threads, so either the watcher sees the call or the call wakes it.
        self.shared.calls.fetch_add(1, Ordering::SeqCst);
        if self.shared.sleeps.load(Ordering::SeqCst) {
            self.watcher.unpark();
        }
        Call(&self.shared)
    }
}

/// A call that is watched.
#[derive(Debug)]
pub struct Call<'a>(&'a Shared);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_add(1, Ordering::Release);
    }
}

impl Shared {
    fn advance(&self, clock: ThreadClock, engine: &Engine) {
        let (mut seen, mut counted_ns) = (self.calls.load(Ordering::SeqCst), 0);
        // The clock ends with the thread of the calls.
        while let Some(now_ns) = clock.now_ns() {
            if now_ns - counted_ns >= USED_NS {
                engine.increment_epoch();
                counted_ns = now_ns;
            }
            let calls = self.calls.load(Ordering::SeqCst);
            if calls == seen && calls.is_multiple_of(2) {
                self.sleeps.store(true, Ordering::SeqCst);
                while self.calls.load(Ordering::SeqCst) == seen {
                    thread::park();
                }
                self.sleeps.store(false, Ordering::SeqCst);
                counted_ns = clock.now_ns().unwrap_or(counted_ns); // the work between calls is not theirs
            }
            seen = calls;
            thread::sleep(TICK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_rounded_up() {
        assert_eq!(epochs(Duration::from_millis(10)), 6);
        assert_eq!(epochs(Duration::from_millis(9)), 6);
        assert_eq!(epochs(Duration::ZERO), 1);
    }
}
