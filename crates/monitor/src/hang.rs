//! Reads what a process records of its calls, and what the system says about its threads, for the
//! [rules](supervisor::hang) that tell whether it hangs.

use std::io;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use control::flight::{FlightReader, OngoingCall};
use supervisor::hang::events::Activity;
use supervisor::hang::workers::{StuckWorker, WorkerProgress};
use supervisor::hang::{CallProgress, HungCall, Progress};
use sys::process::{Thread, main_thread, processor_time};

/// Watches the calls of one process.
#[derive(Debug)]
pub(crate) struct HangDetector {
    recorder: FlightReader,
    calls: CallProgress,
    workers: WorkerProgress,
}

impl HangDetector {
    /// Watches a process that is about to receive the returned memory, in which it records its calls.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub(crate) fn new(now: Instant) -> io::Result<(Self, OwnedFd)> {
        let (recorder, fd) = FlightReader::new()?;
        let (calls, workers) = (CallProgress::new(now), WorkerProgress::default());
        Ok((Self { recorder, calls, workers }, fd))
    }

    /// The record of the process.
    pub(crate) fn recorder(&self) -> &FlightReader {
        &self.recorder
    }

    /// The calls that were in progress at the last check and still are.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = OngoingCall> {
        self.recorder.calls().filter(|call| self.calls.has_lasted(call))
    }

    /// When [`check`](Self::check) is due.
    pub(crate) fn next_due(&self) -> Instant {
        self.calls.next_due()
    }

    /// Checks whether the workers of a kernel make progress. Call it before each [`check`](Self::check) that is due.
    pub(crate) fn check_workers(
        &mut self,
        thread: impl Fn(usize) -> Option<Thread>,
    ) -> Option<StuckWorker> {
        self.workers.check(self.recorder.turns(), thread)
    }

    /// Checks the calls, if that is due, as [`CallProgress::check`] does.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        progress: impl Fn(&OngoingCall) -> Progress,
        longest: impl Fn(NonZeroU16) -> Duration,
    ) -> Option<HungCall> {
        self.calls.check(now, self.recorder.calls(), progress, longest)
    }
}

/// Reads the activity of the process `pid` of a zone. Its other threads are read only if `events_wait`.
pub(crate) fn activity(pid: u32, events_wait: bool) -> Activity {
    let process = if events_wait { processor_time(pid).ok() } else { None };
    Activity { thread: main_thread(pid).ok(), process }
}
