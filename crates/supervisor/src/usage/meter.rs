//! Measures one program: rates, alerts, and when the program must be killed.
//!
//! The caller passes measured values and the time, and receives [`LimitEvent`]s; nothing here reads a clock or a
//! process. Rates cover the last [`WINDOW`] measurements, which is a second. An alert is raised when a value rises above
//! its bound. It is raised again only after the value has fallen to nine tenths of the bound and [`QUIET`] has passed,
//! so a value that swings around its bound floods neither the log nor the app.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use control::query::AppCounters;
use names::Limit;

use config::{Limits, NO_LIMIT};

/// The number of measurements that are kept for rates.
const WINDOW: usize = 3;

/// The least time between two alerts for the same bound.
const QUIET: Duration = Duration::from_secs(10);

/// Where only the monitor enforces the limit of processor time: the time over which it averages before it kills.
const CPU_WINDOW: Duration = Duration::from_secs(10);

/// The most bytes that an app can allocate in a nanosecond. The system zeroes pages hardly faster.
const FASTEST: u64 = 2;

/// The shortest and the longest time between two checks of an app's memory.
const MEMORY_PERIODS: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(200));

/// The least and the longest time for which a program that was killed for its usage is not started again.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// A measurement of one program. Totals count from the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Processor time used.
    pub cpu: Duration,
    /// Bytes of memory, now.
    pub memory: u64,
    /// The part of `memory` that the monitor compares with the limit where only the monitor enforces it. Pages of files
    /// are not part of it, because the system can take them back.
    pub own_memory: u64,
    /// Threads, now.
    pub threads: u64,
    /// Open descriptors, now; `None` if the system does not report them.
    pub descriptors: Option<u64>,
    /// Bytes that it wrote to standard output and error.
    pub log: u64,
    /// Lines that the monitor dropped because there were too many.
    pub log_left_out: u64,
    /// Threads and processes that the system refused to create.
    pub refused_threads: u64,
}

/// Which value of a limit an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The program uses more than the soft value.
    Soft,
    /// The program uses as much as the hard value and gets no more.
    Hard,
}

/// A required reaction to a program's usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitEvent {
    /// Alert the app and the operator.
    Alert {
        /// The resource.
        limit: Limit,
        /// How much it uses.
        value: u64,
        /// Which value of the limit this is about.
        severity: Severity,
    },
    /// Kill the program: only the monitor enforces this limit.
    Kill {
        /// The resource.
        limit: Limit,
        /// How much it uses.
        value: u64,
        /// How long the program is then not started again.
        pause: Duration,
    },
}

/// Measures one program.
#[derive(Debug)]
pub struct Meter {
    limits: Limits,
    /// The limits that only the monitor enforces.
    enforced: Vec<Limit>,
    samples: VecDeque<(Instant, Sample)>,
    counters: VecDeque<(Instant, AppCounters)>,
    /// The beginning of the current [`CPU_WINDOW`], and the processor time at that moment.
    cpu_window: Option<(Instant, Duration)>,
    /// How often the program had been refused something at a limit, by the last measurement.
    refusals: [u64; Limit::ALL.len()],
    alerts: [[AlertState; 2]; Limit::ALL.len()],
}

/// Whether a value exceeds a bound, and when the last alert for that was raised.
#[derive(Debug, Clone, Copy, Default)]
struct AlertState {
    is_above: bool,
    raised: Option<Instant>,
}

impl Meter {
    /// Measures a program with these limits. Only the monitor enforces those in `enforced`.
    pub fn new(limits: Limits, enforced: Vec<Limit>) -> Self {
        Self {
            limits,
            enforced,
            samples: VecDeque::new(),
            counters: VecDeque::new(),
            cpu_window: None,
            refusals: [0; Limit::ALL.len()],
            alerts: Default::default(),
        }
    }

    /// The program's limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The process was restarted: its totals start at 0. Those of the kernel continue.
    pub fn restart(&mut self) {
        self.samples.clear();
        self.cpu_window = None;
        for limit in [Limit::Threads, Limit::Log] {
            self.refusals[index(limit)] = 0;
        }
    }

    /// Raises alerts again that the app could not receive, because it was not loaded.
    pub fn reset_alerts(&mut self) {
        self.alerts = Default::default();
    }

    /// Takes the kernel's counters of the app.
    pub fn counted(&mut self, now: Instant, counters: &AppCounters) {
        // A restarted kernel counts from 0.
        if self.counters.back().is_some_and(|(_, last)| last.delivered > counters.delivered) {
            self.counters.clear();
        }
        keep(&mut self.counters, now, counters.clone());
    }

    /// The kernel's latest counters of the app.
    pub fn counters(&self) -> Option<&AppCounters> {
        self.counters.back().map(|(_, counters)| counters)
    }

    /// The latest measurement.
    pub fn sample(&self) -> Option<&Sample> {
        self.samples.back().map(|(_, sample)| sample)
    }

    /// Packet-ins that the app received per second; `None` if not known.
    pub fn events(&self) -> Option<u64> {
        per_second(&self.counters, |counters| counters.delivered)
    }

    /// How much of `limit` the program uses now; `None` if not known.
    pub fn value(&self, limit: Limit) -> Option<u64> {
        let sample = self.sample();
        match limit {
            Limit::Memory => sample.map(|it| it.memory),
            Limit::Descriptors => sample?.descriptors,
            Limit::Threads => sample.map(|it| it.threads),
            // A million nanoseconds per second are a thousandth of a processor.
            Limit::Cpu => per_second(&self.samples, |it| nanos(it.cpu)).map(|ns| ns / 1_000_000),
            Limit::Log => per_second(&self.samples, |it| it.log),
            Limit::FlowMods => per_second(&self.counters, |it| it.flow_mods),
            Limit::PacketOuts => per_second(&self.counters, |it| it.packet_outs),
            Limit::Requests => per_second(&self.counters, |it| it.requests),
            Limit::Queue => self.counters().map(|it| it.queued),
        }
    }

    /// The limits whose soft value the program exceeds now.
    pub fn above(&self) -> Vec<Limit> {
        Limit::ALL.into_iter().filter(|it| self.alerts[index(*it)][0].is_above).collect()
    }

    /// Takes a measurement, which is `None` without a process, and returns what the caller must do.
    pub fn measure(&mut self, now: Instant, sample: Option<Sample>) -> Vec<LimitEvent> {
        if let Some(sample) = sample {
            keep(&mut self.samples, now, sample);
        } else {
            self.samples.clear();
        }
        let mut events: Vec<LimitEvent> = self.excess(now).into_iter().collect();
        for limit in Limit::ALL {
            let was_refused = self.was_refused(limit);
            let Some(value) = self.value(limit) else { continue };
            let bound = self.limits.of(limit);
            let alerts = &mut self.alerts[index(limit)];
            let is_at = was_refused
                || value > bound.soft.min(bound.hard) && is_at(limit, value, bound.hard);
            if alerts[1].raise(is_at, value, bound.hard, now) {
                events.push(LimitEvent::Alert { limit, value, severity: Severity::Hard });
                // An alert for the hard value replaces one for the soft value.
                alerts[0] = AlertState { is_above: true, raised: Some(now) };
            } else if alerts[0].raise(value > bound.soft, value, bound.soft, now) {
                events.push(LimitEvent::Alert { limit, value, severity: Severity::Soft });
            }
        }
        events
    }

    /// Returns whether the program was refused something at this limit since the last measurement.
    fn was_refused(&mut self, limit: Limit) -> bool {
        let refusals = match limit {
            Limit::Threads => self.sample().map_or(0, |it| it.refused_threads),
            Limit::Log => self.sample().map_or(0, |it| it.log_left_out),
            Limit::Queue => self.counters().map_or(0, |it| it.dropped),
            _ => 0,
        };
        std::mem::replace(&mut self.refusals[index(limit)], refusals) < refusals
    }

    /// Returns a kill if `memory` bytes exceed a limit that only the monitor enforces.
    pub fn memory_excess(&self, memory: u64) -> Option<LimitEvent> {
        let (limit, value) = (Limit::Memory, memory);
        let is_above = self.enforced.contains(&limit) && value > self.limits.of(limit).hard;
        is_above.then_some(LimitEvent::Kill { limit, value, pause: LEAST_PAUSE })
    }

    /// Returns the time until the next check of a program that has `memory` bytes: the time in which it reaches its limit
    /// at the rate [`FASTEST`], within [`MEMORY_PERIODS`].
    pub fn next_memory_check(&self, memory: u64) -> Duration {
        let left = self.limits.of(Limit::Memory).hard.saturating_sub(memory);
        let (least, most) = MEMORY_PERIODS;
        Duration::from_nanos(left / FASTEST).clamp(least, most)
    }

    /// Returns a kill if the program exceeds a limit that only the monitor enforces.
    fn excess(&mut self, now: Instant) -> Option<LimitEvent> {
        let sample = *self.sample()?;
        if let Some(end) = self.memory_excess(sample.own_memory) {
            return Some(end);
        }
        let (since, before) = *self.cpu_window.get_or_insert((now, sample.cpu));
        let passed = now.saturating_duration_since(since);
        if !self.enforced.contains(&Limit::Cpu) || passed < CPU_WINDOW {
            return None;
        }
        self.cpu_window = Some((now, sample.cpu));
        let used = nanos(sample.cpu.saturating_sub(before));
        let value = used.checked_div(nanos(passed) / 1_000)?;
        // The system counts processor time in ticks, so a value slightly above the limit may be at the limit.
        let hard = self.limits.of(Limit::Cpu).hard;
        (value > hard.saturating_add(hard / 20)).then(|| {
            let pause = pause(passed, value, hard);
            LimitEvent::Kill { limit: Limit::Cpu, value, pause }
        })
    }
}

/// How long a program that used `value` for the time `passed` must pause so that its average becomes `hard`.
fn pause(passed: Duration, value: u64, hard: u64) -> Duration {
    let ms = u128::from(value - hard) * passed.as_millis() / u128::from(hard.max(1));
    let pause = Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX));
    pause.clamp(LEAST_PAUSE, LONGEST_PAUSE)
}

impl AlertState {
    /// Returns whether an alert must be raised now for `value` and `bound`.
    fn raise(&mut self, is_past: bool, value: u64, bound: u64, now: Instant) -> bool {
        let is_quiet = self.raised.is_none_or(|at| now.saturating_duration_since(at) >= QUIET);
        if is_past {
            let raises = !self.is_above && is_quiet;
            self.is_above |= raises;
            if raises {
                self.raised = Some(now);
            }
            return raises;
        }
        if value <= bound - bound / 10 {
            self.is_above = false;
        }
        false
    }
}

/// Returns whether a program that uses `value` is at its hard limit. A throttled rate stays slightly below its limit.
fn is_at(limit: Limit, value: u64, hard: u64) -> bool {
    match limit {
        _ if hard == NO_LIMIT => false,
        // The system reclaims pages before it kills, so memory stays slightly below the limit.
        Limit::Memory => value > hard - hard / 100,
        Limit::Descriptors | Limit::Threads => value >= hard,
        Limit::Cpu | Limit::FlowMods | Limit::PacketOuts | Limit::Requests => {
            value >= hard - hard / 20
        }
        // Dropped lines and packet-ins raise these alerts: see `was_refused`.
        Limit::Log | Limit::Queue => false,
    }
}

/// The growth of a counter per second, over all measurements that are kept.
fn per_second<T>(kept: &VecDeque<(Instant, T)>, of: impl Fn(&T) -> u64) -> Option<u64> {
    let ((from, before), (to, after)) = (kept.front()?, kept.back()?);
    let ms = to.saturating_duration_since(*from).as_millis();
    let grown = u128::from(of(after).saturating_sub(of(before)));
    u64::try_from((grown * 1_000).checked_div(ms)?).ok()
}

fn keep<T>(kept: &mut VecDeque<(Instant, T)>, now: Instant, new: T) {
    if kept.len() == WINDOW {
        kept.pop_front();
    }
    kept.push_back((now, new));
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn index(limit: Limit) -> usize {
    limit as usize - 1
}

#[cfg(test)]
mod tests;
