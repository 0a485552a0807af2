//! Observes a run: shows its progress, samples its throughput and the controller's processes.

use std::io;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::load::{self, Plan, Progress};
use crate::process;
use crate::terminal::StatusLine;

/// Number of throughput samples in the intervals of a run.
const SAMPLES: u32 = 200;

/// Shortest time between two samples: the driving threads publish their counters every 20 ms.
const MIN_SAMPLING: Duration = Duration::from_millis(40);

/// What happened until a time: seconds since the start of the first interval, and the count so far.
pub(super) type Sample = (f64, u64);

/// Shows the progress of a run, samples its throughput, and CPU time and memory at its start and end.
pub(super) struct RunMonitor<'a> {
    plan: &'a Plan,
    pids: &'a [u32],
    what: &'a str,
    line: &'a mut StatusLine,
    /// When the line was last written, and the number of answers at that time.
    shown: (Instant, u64),
    before: Option<io::Result<Duration>>,
    after: Option<io::Result<Duration>>,
    /// Resident memory before the first connection, and at the end of the last interval.
    resident: (io::Result<u64>, io::Result<u64>),
    /// The start of the first interval, and the samples since.
    measuring: Option<Instant>,
    samples: Vec<Sample>,
}

impl<'a> RunMonitor<'a> {
    /// Creates the monitor of a run; `what` begins each line of progress.
    pub(super) fn new(
        plan: &'a Plan,
        pids: &'a [u32],
        what: &'a str,
        line: &'a mut StatusLine,
    ) -> Self {
        let shown = (Instant::now(), 0);
        let resident = (process::resident_of_all(pids), Ok(0));
        Self {
            plan,
            pids,
            what,
            line,
            shown,
            before: None,
            after: None,
            resident,
            measuring: None,
            samples: Vec::new(),
        }
    }

    pub(super) fn update(&mut self, progress: Progress) {
        if let Progress::Measuring(_, count) = progress {
            self.sample(Instant::now(), count);
        }
        match progress {
            Progress::Measuring(0, _) if self.before.is_none() => {
                self.before = Some(process::cpu_time_of_all(self.pids));
            }
            Progress::Measured => {
                self.after = Some(process::cpu_time_of_all(self.pids));
                self.resident.1 = process::resident_of_all(self.pids);
            }
            _ => {}
        }
        let (at, before) = self.shown;
        let since = at.elapsed();
        if since < Duration::from_millis(200) {
            return;
        }
        let (plan, what) = (self.plan, self.what);
        let per_second =
            |now: u64| load::rate(now.saturating_sub(before), since.as_secs_f64()) / 1000.0;
        let now = match progress {
            Progress::Connecting(settled) => {
                self.line.show(format_args!("{what}{settled} of {} switches", plan.switches));
                0
            }
            Progress::Warming(now) => {
                let of = plan.switches * plan.macs;
                self.line.show(format_args!(
                    "{what}warming up, {now} of {of}, {:.1} k/s",
                    per_second(now)
                ));
                now
            }
            Progress::Measuring(interval, now) => {
                let (interval, of) = (interval + 1, plan.intervals);
                self.line.show(format_args!(
                    "{what}interval {interval} of {of}, {:.1} k/s",
                    per_second(now)
                ));
                now
            }
            Progress::Measured => before,
        };
        self.shown = (Instant::now(), now);
    }

    /// Records the count if the last sample is old enough.
    fn sample(&mut self, now: Instant, count: u64) {
        let at = now.saturating_duration_since(*self.measuring.get_or_insert(now)).as_secs_f64();
        let intervals = u32::try_from(self.plan.intervals).unwrap_or(u32::MAX);
        let every = (self.plan.interval * intervals / SAMPLES).max(MIN_SAMPLING).as_secs_f64();
        if self.samples.last().is_none_or(|(last, _)| at - last >= every) {
            self.samples.push((at, count));
        }
    }

    /// Returns the throughput samples.
    pub(super) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }

    /// Returns the CPU time between the start of the first interval and the end of the last.
    pub(super) fn cpu(&mut self) -> anyhow::Result<Option<Duration>> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        match (self.before.take(), self.after.take()) {
            (Some(before), Some(after)) => {
                let (before, after) = (before.context("--pids")?, after.context("--pids")?);
                Ok(Some(after.saturating_sub(before)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the resident memory before the first connection and at the end, in bytes.
    pub(super) fn resident(&mut self) -> anyhow::Result<Option<(u64, u64)>> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        let (before, after) = std::mem::replace(&mut self.resident, (Ok(0), Ok(0)));
        Ok(Some((before.context("--pids")?, after.context("--pids")?)))
    }
}
