//! State shared by the directing thread and the workers: the phase, counters, and the first
//! failure.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::failure::Failure;

/// A phase of a run; see [`super`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Connect,
    Settle,
    Warm,
    Measure(usize),
    Drain,
    Stop,
}

impl Phase {
    fn to_number(self) -> usize {
        match self {
            Self::Connect => 0,
            Self::Settle => 1,
            Self::Warm => 2,
            Self::Measure(interval) => 3 + interval,
            Self::Drain => usize::MAX - 1,
            Self::Stop => usize::MAX,
        }
    }

    fn from_number(number: usize) -> Self {
        match number {
            0 => Self::Connect,
            1 => Self::Settle,
            2 => Self::Warm,
            usize::MAX => Self::Stop,
            number if number == usize::MAX - 1 => Self::Drain,
            number => Self::Measure(number - 3),
        }
    }
}

/// A worker's counter, read by the directing thread. It fills a cache line so that workers do not
/// share one.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Answered(AtomicU64);

/// The shared state; see the module's documentation.
#[derive(Debug)]
pub(super) struct SharedState {
    phase: AtomicUsize,
    /// Number of settled switches.
    pub(super) settled: AtomicUsize,
    /// Number of switches whose hosts have all sent.
    pub(super) warm: AtomicUsize,
    /// Number of workers without pending packet-ins.
    pub(super) drained: AtomicUsize,
    /// Answered packet-ins of each worker.
    answered: Vec<Answered>,
    failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl SharedState {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            phase: AtomicUsize::new(Phase::Connect.to_number()),
            settled: AtomicUsize::new(0),
            warm: AtomicUsize::new(0),
            drained: AtomicUsize::new(0),
            answered: (0..workers).map(|_| Answered::default()).collect(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    pub(super) fn workers(&self) -> usize {
        self.answered.len()
    }

    /// Returns the current phase.
    #[inline]
    pub(super) fn phase(&self) -> Phase {
        Phase::from_number(self.phase.load(Ordering::Relaxed))
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase.to_number(), Ordering::Relaxed);
    }

    /// Publishes the number of packet-ins answered by a worker's switches.
    #[inline]
    pub(super) fn note_answered(&self, worker: usize, answered: u64) {
        self.answered[worker].0.store(answered, Ordering::Relaxed);
    }

    /// Returns the number of answered packet-ins.
    pub(super) fn answered(&self) -> u64 {
        self.answered.iter().map(|worker| worker.0.load(Ordering::Relaxed)).sum()
    }

    /// Records a failure; the first one is kept.
    pub(super) fn fail(&self, failure: Failure) {
        let mut first = self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        first.get_or_insert(failure);
        self.failed.store(true, Ordering::Release);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(super) fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_round_trips_through_its_number() {
        for phase in [
            Phase::Connect,
            Phase::Settle,
            Phase::Warm,
            Phase::Measure(0),
            Phase::Measure(99),
            Phase::Drain,
            Phase::Stop,
        ] {
            assert_eq!(Phase::from_number(phase.to_number()), phase);
        }
    }
}
