//! Observes a run: shows progress on the terminal and samples the controller's processes.

use std::io;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::load::{self, Plan, Progress};
use crate::process;
use crate::terminal::StatusLine;

/// Shows the progress of a run, and samples CPU time and memory at its start and end.
pub(super) struct RunMonitor<'a> {
    plan: &'a Plan,
    pids: &'a [u32],
    what: &'a str,
    line: StatusLine,
    /// When the line was last written, and the number of answers at that time.
    shown: (Instant, u64),
    before: Option<io::Result<Duration>>,
    after: Option<io::Result<Duration>>,
    /// Resident memory before the first connection, and at the end of the last interval.
    resident: (io::Result<u64>, io::Result<u64>),
}

impl<'a> RunMonitor<'a> {
    pub(super) fn new(plan: &'a Plan, pids: &'a [u32], what: &'a str) -> Self {
        let shown = (Instant::now(), 0);
        let resident = (process::resident_of_all(pids), Ok(0));
        Self {
            plan,
            pids,
            what,
            line: StatusLine::new(),
            shown,
            before: None,
            after: None,
            resident,
        }
    }

    pub(super) fn update(&mut self, progress: Progress) {
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
    pub(super) fn resident(self) -> anyhow::Result<Option<(u64, u64)>> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        let (before, after) = self.resident;
        Ok(Some((before.context("--pids")?, after.context("--pids")?)))
    }
}
