//! Reserves processor time for threads: `SCHED_DEADLINE`, `sched(7)` and `sched_setattr(2)`.
//!
//! A reserved thread receives `runtime` in each `period` (earliest deadline first, constant bandwidth), and waits for the next period when
//! it has used that. The system checks that all reservations of a root domain fit, so a reservation can be refused. Without the
//! scheduler's high-resolution tick the system measures at each tick: a thread can exceed its runtime by up to one tick, and then waits
//! the longer.
//!
//! ```text
//! struct sched_attr { u32 size, policy; u64 flags; i32 nice; u32 priority; u64 runtime, deadline, period; }   times in ns
//! ```

use std::fmt;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// `SCHED_DEADLINE` of sched(7).
const DEADLINE: u32 = 6;

/// `SCHED_OTHER` of sched(7).
const OTHER: u32 = 0;

/// Threads that the reserved thread starts are ordinary ones. Without this flag it could start none.
const RESET_ON_FORK: u64 = 1;

/// The structure of the first version of `sched_setattr(2)`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SIZE: u32 = 48;

/// A reservation of one thread. The deadline is the end of the period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// Processor time per period.
    pub runtime: Duration,
    /// The period.
    pub period: Duration,
}

/// Why a thread has no reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The process may not: it lacks `CAP_SYS_NICE`.
    NoPrivilege,
    /// The thread is limited to some processors of its root domain, as by `sched_setaffinity` or a cpuset.
    Affinity,
    /// The reservations of all threads would exceed what the system allows for one root domain.
    TooMuch,
    /// The system does not accept runtime and period.
    Range,
    /// The system has no such policy, or a filter of system calls hides it.
    Unsupported,
    /// The thread has ended.
    Gone,
    /// Another error, by its number.
    Other(i32),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrivilege => f.write_str(
                "the monitor lacks CAP_SYS_NICE (EPERM); start Rosemary as root, or as a service with this capability",
            ),
            Self::Affinity => f.write_str(
                "the thread may not use all processors of its root domain (EPERM); remove its affinity or cpuset, or set \
                 partition = true in [sessions]",
            ),
            Self::TooMuch => f.write_str(
                "the system has not so much unreserved processor time (EBUSY); other programs have reservations, or \
                 /proc/sys/kernel/sched_rt_runtime_us allows less",
            ),
            Self::Range => f.write_str(
                "the system does not accept runtime and period (EINVAL); see \
                 /proc/sys/kernel/sched_deadline_period_max_us",
            ),
            Self::Unsupported => f.write_str("this system has no SCHED_DEADLINE (ENOSYS)"),
            Self::Gone => f.write_str("the thread has ended (ESRCH)"),
            Self::Other(number) => {
                write!(f, "the system refused it: {}", io::Error::from_raw_os_error(*number))
            }
        }
    }
}

impl std::error::Error for Refused {}

/// Reserves processor time for the thread with the number `tid`, or for the calling one if `tid` is 0.
///
/// # Errors
/// [`Refused`]; the thread is scheduled as before.
pub fn reserve(tid: u32, reservation: Reservation) -> Result<(), Refused> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (runtime_ns, period_ns) = (ns(reservation.runtime), ns(reservation.period));
    let attributes = Attributes {
        size: SIZE,
        policy: DEADLINE,
        flags: RESET_ON_FORK,
        runtime_ns,
        deadline_ns: period_ns,
        period_ns,
        ..Attributes::default()
    };
    set(tid, &attributes).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) if may_schedule() => Refused::Affinity,
        Some(libc::EPERM) => Refused::NoPrivilege,
        Some(libc::EBUSY) => Refused::TooMuch,
        Some(libc::EINVAL) => Refused::Range,
        Some(libc::ENOSYS) => Refused::Unsupported,
        Some(libc::ESRCH) => Refused::Gone,
        number => Refused::Other(number.unwrap_or(0)),
    })
}

/// Makes the thread an ordinary one, of `SCHED_OTHER`.
///
/// # Errors
/// The system refuses, or the thread has ended.
pub fn release(tid: u32) -> io::Result<()> {
    set(tid, &Attributes { size: SIZE, policy: OTHER, ..Attributes::default() })
}

/// The reservation of a thread; `None` if it has none.
///
/// # Errors
/// The thread has ended, or the system refuses.
pub fn reservation(tid: u32) -> io::Result<Option<Reservation>> {
    let mut attributes = Attributes::default();
    let tid = libc::c_long::from(tid);
    // SAFETY: the pointer leads to a structure of this size, which outlives the call.
    let code = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, SIZE, 0) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((attributes.policy == DEADLINE).then(|| Reservation {
        runtime: Duration::from_nanos(attributes.runtime_ns),
        period: Duration::from_nanos(attributes.period_ns),
    }))
}

fn set(tid: u32, attributes: &Attributes) -> io::Result<()> {
    let tid = libc::c_long::from(tid);
    // SAFETY: the pointer leads to a structure of the size that it states, which outlives the call.
    let code =
        unsafe { libc::syscall(libc::SYS_sched_setattr, tid, std::ptr::from_ref(attributes), 0) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this thread has the capability to reserve processor time.
fn may_schedule() -> bool {
    let held = rustix::thread::capabilities(None).map(|sets| sets.effective);
    held.is_ok_and(|held| held.contains(rustix::thread::CapabilitySet::SYS_NICE))
}

/// The interval of the scheduler's tick, at which the system measures runtimes.
pub fn tick() -> Option<Duration> {
    // The coarse clock advances at each tick.
    let clock = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    let (seconds, ns) = (u64::try_from(clock.tv_sec).ok()?, u32::try_from(clock.tv_nsec).ok()?);
    Some(Duration::new(seconds, ns)).filter(|tick| !tick.is_zero())
}

/// The numbers of the threads of process `pid` whose names `is_it` accepts.
///
/// # Errors
/// There is no such process.
pub fn threads_named(pid: u32, is_it: impl Fn(&str) -> bool) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let tid: Option<u32> = thread.file_name().to_str().and_then(|it| it.parse().ok());
        found.extend(tid.filter(|_| is_it(name.trim_end())));
    }
    Ok(found)
}

/// What this machine makes of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The processor time that a busy thread had in one period of a reservation of [`PROBE_RUNTIME`].
    pub used: Duration,
}

impl Probe {
    /// Whether the system stops threads between two ticks, at the end of their runtime (`HRTICK_DL`).
    pub fn has_high_resolution(&self, tick: Duration) -> bool {
        self.used < PROBE_RUNTIME + tick / 4
    }
}

/// The runtime that [`probe`] reserves, below the tick of every Linux.
pub const PROBE_RUNTIME: Duration = Duration::from_micros(500);

/// The period that [`probe`] reserves.
const PROBE_PERIOD: Duration = Duration::from_millis(50);

/// Time without the processor that shows the end of a runtime.
const PAUSE: Duration = Duration::from_millis(10);

/// The longest time that [`probe`] takes.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// Reserves processor time for a thread of its own and keeps it busy for some periods.
///
/// # Errors
/// [`Refused`]: the system refused the reservation.
pub fn probe() -> Result<Probe, Refused> {
    let thread = std::thread::Builder::new().name("probe".into());
    let thread = thread.spawn(|| {
        reserve(0, Reservation { runtime: PROBE_RUNTIME, period: PROBE_PERIOD })?;
        Ok(Probe { used: busy_until_stopped(PROBE_TIME) })
    });
    let failed = |error: &io::Error| Refused::Other(error.raw_os_error().unwrap_or(0));
    let thread = thread.map_err(|error| failed(&error))?;
    thread.join().unwrap_or(Err(Refused::Other(0)))
}

/// Uses the processor until the system has stopped the thread three times. Returns the longest time between two stops.
fn busy_until_stopped(most: Duration) -> Duration {
    let start = Instant::now();
    let (mut since, mut last, mut longest, mut stops) = (start, start, Duration::ZERO, 0);
    while stops < 3 && start.elapsed() < most {
        let now = Instant::now();
        if now - last > PAUSE {
            longest = longest.max(last - since);
            since = now;
            stops += 1;
        }
        last = now;
    }
    longest
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    const SMALL: Reservation =
        Reservation { runtime: Duration::from_millis(1), period: Duration::from_millis(100) };

    fn may() -> bool {
        rustix::process::geteuid().is_root() && may_schedule()
    }

    #[test]
    fn reservation_is_set_read_and_released() {
        if !may() {
            assert_eq!(reserve(0, SMALL), Err(Refused::NoPrivilege));
            return;
        }
        assert_eq!(reservation(0).unwrap(), None);
        reserve(0, SMALL).unwrap();
        assert_eq!(reservation(0).unwrap(), Some(SMALL));
        let child = std::thread::spawn(|| reservation(0).unwrap());
        assert_eq!(child.join().unwrap(), None, "reset on fork");
        release(0).unwrap();
        assert_eq!(reservation(0).unwrap(), None);
    }

    #[test]
    fn thread_is_scheduled_from_outside() {
        let (sender, tid) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = sender.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
            let _ = wait.recv();
        });
        let tid = tid.recv().unwrap();
        if may() {
            reserve(tid, SMALL).unwrap();
            assert_eq!(reservation(tid).unwrap(), Some(SMALL));
        }
        end.send(()).unwrap();
        thread.join().unwrap();
        if may() {
            assert_eq!(reserve(tid, SMALL), Err(Refused::Gone));
        }
    }

    #[test]
    fn impossible_reservations_are_refused_by_name() {
        if !may() {
            return;
        }
        let reserved = |runtime, period| {
            let result = reserve(0, Reservation { runtime, period });
            if result.is_ok() {
                release(0).unwrap();
            }
            result
        };
        let ms = Duration::from_millis;
        assert_eq!(reserved(ms(20), ms(10)), Err(Refused::Range));
        assert_eq!(reserved(Duration::from_nanos(10), ms(10)), Err(Refused::Range));
        assert_eq!(reserved(ms(10), Duration::from_secs(3600)), Err(Refused::Range));
        // As much as all processors have, by threads that hold it together.
        let processors = std::thread::available_parallelism().unwrap().get();
        let threads: Vec<_> = (0..=processors)
            .map(|_| {
                std::thread::spawn(move || {
                    let result = reserve(0, Reservation { runtime: ms(94), period: ms(100) });
                    std::thread::sleep(ms(50));
                    result
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        assert!(results.contains(&Err(Refused::TooMuch)), "{results:?}");
    }

    #[test]
    fn pinned_thread_is_refused_by_name() {
        let processors = rustix::thread::sched_getaffinity(None).unwrap();
        if !may() || processors.count() < 2 {
            return;
        }
        let mut one = rustix::thread::CpuSet::new();
        one.set((0..64).find(|it| processors.is_set(*it)).unwrap());
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        assert_eq!(reserve(0, SMALL), Err(Refused::Affinity));
    }

    #[test]
    fn tick_and_probe_have_plausible_values() {
        let tick = tick().unwrap();
        assert!((Duration::from_micros(900)..=Duration::from_millis(10)).contains(&tick));
        if may() {
            let used = probe().unwrap().used;
            assert!(used < PROBE_TIME, "{used:?}");
        }
    }

    #[test]
    fn threads_are_found_by_name() {
        let pid = std::process::id();
        let builder = std::thread::Builder::new().name("found-thread".into());
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = builder.spawn(move || wait.recv()).unwrap();
        let found = || threads_named(pid, |name| name == "found-thread").unwrap();
        while found().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(found().len(), 1);
        drop(end);
        let _ = thread.join();
    }
}
