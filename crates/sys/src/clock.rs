//! Reads the monotonic clock, whose time the events of apps carry.

use std::io;
use std::mem::MaybeUninit;

use rustix::time::{ClockId, clock_gettime};

/// Monotonic time in nanoseconds since an arbitrary moment, the same clock as `std::time::Instant`.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanos
}

/// The processor time of one thread of this process, which any of its threads can read.
#[derive(Debug, Clone, Copy)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread. It stands still while another thread or process has the processor.
    ///
    /// # Errors
    /// The system has no such clock.
    pub fn of_this_thread() -> io::Result<Self> {
        let mut clock = 0;
        // SAFETY: it has no arguments.
        let this = unsafe { libc::pthread_self() };
        // SAFETY: the thread lives, as it makes this call; the pointer is to a variable.
        match unsafe { libc::pthread_getcpuclockid(this, &raw mut clock) } {
            0 => Ok(Self(clock)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// The thread's processor time in nanoseconds; `None` after its end.
    pub fn now_ns(self) -> Option<u64> {
        let mut now = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the pointer is to a variable, which the system fills.
        if unsafe { libc::clock_gettime(self.0, now.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call succeeded, so the system has filled it.
        let now = unsafe { now.assume_init() };
        Some(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_clock_counts_work_and_not_sleep() {
        let clock = ThreadClock::of_this_thread().unwrap();
        let before = clock.now_ns().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let slept = clock.now_ns().unwrap() - before;
        assert!(slept < 100_000_000, "{slept}");
        let until = before + 30_000_000;
        while clock.now_ns().unwrap() < until {
            std::hint::spin_loop();
        }
        let seen = std::thread::spawn(move || clock.now_ns().unwrap()).join().unwrap();
        assert!(seen >= until, "another thread reads it");
    }
}
