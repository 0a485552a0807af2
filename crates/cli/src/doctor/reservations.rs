//! Probes whether this machine can reserve processor time for threads, and what a reservation guarantees here.

use std::fmt::Write as _;
use std::time::Duration;

use monitor::usage::Enforcement;
use serde::Serialize;
use sys::cgroup::Controller;
use sys::sched::deadline;

/// The mechanism that holds reservations of processor time on this machine.
#[derive(Debug, Serialize)]
pub(super) struct Reservations {
    /// `deadline`, or `weight`, or `nothing`.
    by: &'static str,
    /// Why it is not `deadline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Microseconds between two ticks of the scheduler.
    tick_us: Option<u64>,
    /// Whether the scheduler ends a runtime between two ticks; unknown without a reservation.
    high_resolution: Option<bool>,
    /// Microseconds of every 1,000,000 that all reservations of a processor may have together, by the system; unknown without limit.
    limit_us: Option<u64>,
    /// The guarantee of a reservation, as a sentence.
    guarantee: String,
}

impl Reservations {
    /// Reserves processor time for a thread of this process for a moment.
    pub(super) fn find(enforcement: &Enforcement) -> Self {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let tick = deadline::tick();
        let probe = deadline::probe();
        let high_resolution =
            probe.ok().zip(tick).map(|(probe, tick)| probe.has_high_resolution(tick));
        let by = match &probe {
            Ok(_) => "deadline",
            Err(_) if enforcement.has(Controller::Cpu) => "weight",
            Err(_) => "nothing",
        };
        Self {
            by,
            why: probe.err().map(|refused| refused.to_string()),
            tick_us: tick.map(us),
            high_resolution,
            limit_us: limit(),
            guarantee: guarantee(by, tick, high_resolution),
        }
    }

    /// The lines of the report. Writing to a String cannot fail.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("Reserved processor time of sessions:\n");
        let _ = writeln!(text, "  by {:<8} {}", self.by, self.guarantee);
        if let Some(why) = &self.why {
            let _ = writeln!(text, "              {why}");
        }
        let tick = self.tick_us.map_or_else(|| "unknown".to_owned(), |us| format!("{us} us"));
        let high = match self.high_resolution {
            Some(true) => "on: runtimes end between two ticks",
            Some(false) => "off: runtimes end at a tick",
            None => "unknown",
        };
        let _ = writeln!(text, "  tick        {tick}; high-resolution tick (HRTICK) {high}");
        if let Some(limit) = self.limit_us {
            let _ = writeln!(
                text,
                "  limit       {} % of a processor for all reservations of the machine (sched_rt_runtime_us)",
                limit / 10_000
            );
        }
        text
    }
}

/// The part of each second that the system allows for reservations, sched(7).
fn limit() -> Option<u64> {
    let read = |file: &str| -> Option<i64> {
        std::fs::read_to_string(format!("/proc/sys/kernel/{file}")).ok()?.trim().parse().ok()
    };
    let (runtime, period) = (read("sched_rt_runtime_us")?, read("sched_rt_period_us")?);
    // -1 is no limit.
    let (runtime, period) = (u64::try_from(runtime).ok()?, u64::try_from(period).ok()?);
    runtime.checked_mul(1_000_000)?.checked_div(period)
}

fn guarantee(by: &str, tick: Option<Duration>, high_resolution: Option<bool>) -> String {
    let tick =
        tick.map_or_else(|| "a tick".to_owned(), |tick| format!("{} ms", tick.as_secs_f64() * 1e3));
    match (by, high_resolution) {
        ("deadline", Some(true)) => {
            "SCHED_DEADLINE: each reserved thread receives its runtime in each period, whatever other programs do".to_owned()
        }
        ("deadline", _) => format!(
            "SCHED_DEADLINE: each reserved thread receives its runtime on average, whatever other programs do, and in a single \
             period up to {tick} more or less"
        ),
        ("weight", _) => {
            "weights of cgroups: a share among Rosemary's programs; other programs of the machine can reduce it".to_owned()
        }
        _ => "NOTHING: reserved threads compete with all others".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_names_mechanism_tick_and_reason() {
        let report = Reservations {
            by: "weight",
            why: Some("no privilege".into()),
            tick_us: Some(4_000),
            high_resolution: None,
            limit_us: Some(950_000),
            guarantee: guarantee("weight", None, None),
        };
        let text = report.text();
        for expected in ["by weight", "no privilege", "4000 us", "unknown", "95 %"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let tick = Some(Duration::from_millis(4));
        assert!(guarantee("deadline", tick, Some(false)).contains("up to 4 ms more or less"));
        assert!(guarantee("nothing", tick, None).starts_with("NOTHING"));
    }
}
