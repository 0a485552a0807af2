//! What a program's numbers come to: rates, alerts, and when it has to be ended.
//!
//! Numbers go in as they are read, with the time, and news come out; there is no clock and no process in
//! here. Rates are taken over the last [`WINDOW`] numbers, a second. An alert is told when a value rises above
//! its bound, and again only when it has been below nine tenths of it meanwhile and [`QUIET`] has passed:
//! who goes up and down around a bound fills neither the log nor its app's time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kernel::query::AppCounters;
use zone::Limit;

use crate::config::{Limits, NO_LIMIT};

/// Numbers that are kept for rates.
const WINDOW: usize = 3;

/// Between two alerts of the same bound, at least.
const QUIET: Duration = Duration::from_secs(10);

/// Where nothing else keeps a limit of processor time: over how long who is above it is looked at before
/// it is ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that an app takes in a nanosecond at most, where the monitor looks at its memory: zeroing pages is not faster
/// by much.
const FASTEST: u64 = 2;

/// The shortest and the longest time from one look at the memory of an app to the next.
const MEMORY_PERIODS: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(200));

/// How long a program that was ended for what it used is not started again, at least and at most.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// A program's numbers at one moment. What counts counts from the program's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Processor time used.
    pub(crate) cpu: Duration,
    /// Bytes of memory, now.
    pub(crate) memory: u64,
    /// Of these, the bytes that are judged where the monitor ends who has more than the limit: not pages of files, which
    /// the system takes back.
    pub(crate) own_memory: u64,
    /// Threads, now.
    pub(crate) threads: u64,
    /// Descriptors open, now, if the system says.
    pub(crate) descriptors: Option<u64>,
    /// Bytes that it wrote for the log.
    pub(crate) log: u64,
    /// Lines of it that were left out.
    pub(crate) log_left_out: u64,
    /// Threads and processes that it was refused.
    pub(crate) refused_threads: u64,
}

/// Which of a limit's values was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grade {
    /// The soft one: it is above.
    Soft,
    /// The hard one: it is at it, and gets no more.
    Hard,
}

/// What is to be told or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The app and the operator are to be told.
    Alert {
        /// Of what.
        limit: Limit,
        /// How much it uses.
        value: u64,
        /// Which bound that is about.
        grade: Grade,
    },
    /// It has to be ended: nothing else keeps that limit.
    End {
        /// Which.
        limit: Limit,
        /// How much it uses.
        value: u64,
        /// For how long it is then not started again.
        pause: Duration,
    },
}

/// Measures one program.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    /// Which limits nothing else keeps.
    to_keep: Vec<Limit>,
    samples: VecDeque<(Instant, Sample)>,
    counters: VecDeque<(Instant, AppCounters)>,
    /// Since when processor time is held against a limit that nothing else keeps, and what it was.
    cpu_since: Option<(Instant, Duration)>,
    /// How often the system had kept it at a limit, at the last look.
    hits: [u64; Limit::ALL.len()],
    spells: [[Spell; 2]; Limit::ALL.len()],
}

/// Whether a bound is passed, and when that was told.
#[derive(Debug, Clone, Copy, Default)]
struct Spell {
    is_above: bool,
    told: Option<Instant>,
}

impl Meter {
    /// Of a program with these limits, of which nothing else keeps `to_keep`.
    pub(crate) fn new(limits: Limits, to_keep: Vec<Limit>) -> Self {
        Self {
            limits,
            to_keep,
            samples: VecDeque::new(),
            counters: VecDeque::new(),
            cpu_since: None,
            hits: [0; Limit::ALL.len()],
            spells: Default::default(),
        }
    }

    /// Its limits.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// It was started anew: what counts begins at 0, but for what the kernel counts.
    pub(crate) fn begin(&mut self) {
        self.samples.clear();
        self.cpu_since = None;
        for limit in [Limit::Threads, Limit::Log] {
            self.hits[index(limit)] = 0;
        }
    }

    /// The app is there, and can be told: what was said before, it has not heard.
    pub(crate) fn tell_anew(&mut self) {
        self.spells = Default::default();
    }

    /// The kernel has said what it counted for the app.
    pub(crate) fn counted(&mut self, now: Instant, counters: &AppCounters) {
        // Another kernel has begun anew.
        if self.counters.back().is_some_and(|(_, last)| last.delivered > counters.delivered) {
            self.counters.clear();
        }
        keep(&mut self.counters, now, counters.clone());
    }

    /// What the kernel said last.
    pub(crate) fn counters(&self) -> Option<&AppCounters> {
        self.counters.back().map(|(_, counters)| counters)
    }

    /// What it was last seen with.
    pub(crate) fn sample(&self) -> Option<&Sample> {
        self.samples.back().map(|(_, sample)| sample)
    }

    /// Packet-ins that the app got, in a second; `None` if not known.
    pub(crate) fn events(&self) -> Option<u64> {
        per_second(&self.counters, |counters| counters.delivered)
    }

    /// How much it uses of `limit` now; `None` if not known.
    pub(crate) fn value(&self, limit: Limit) -> Option<u64> {
        let sample = self.sample();
        match limit {
            Limit::Memory => sample.map(|it| it.memory),
            Limit::Descriptors => sample?.descriptors,
            Limit::Threads => sample.map(|it| it.threads),
            // Nanoseconds by millions are thousandths of a second.
            Limit::Cpu => per_second(&self.samples, |it| nanos(it.cpu)).map(|ns| ns / 1_000_000),
            Limit::Log => per_second(&self.samples, |it| it.log),
            Limit::FlowMods => per_second(&self.counters, |it| it.flow_mods),
            Limit::PacketOuts => per_second(&self.counters, |it| it.packet_outs),
            Limit::Requests => per_second(&self.counters, |it| it.requests),
            Limit::Queue => self.counters().map(|it| it.queued),
        }
    }

    /// The limits whose soft value it is above now.
    pub(crate) fn above(&self) -> Vec<Limit> {
        Limit::ALL.into_iter().filter(|it| self.spells[index(*it)][0].is_above).collect()
    }

    /// Takes the numbers of this moment, of a program that has a process, and says what comes of it.
    pub(crate) fn look(&mut self, now: Instant, sample: Option<Sample>) -> Vec<News> {
        if let Some(sample) = sample {
            keep(&mut self.samples, now, sample);
        } else {
            self.samples.clear();
        }
        let mut news: Vec<News> = self.end(now).into_iter().collect();
        for limit in Limit::ALL {
            let hit = self.is_hit(limit);
            let Some(value) = self.value(limit) else { continue };
            let bound = self.limits.of(limit);
            let spells = &mut self.spells[index(limit)];
            let is_at =
                hit || value > bound.soft.min(bound.hard) && is_at(limit, value, bound.hard);
            if spells[1].passes(is_at, value, bound.hard, now) {
                news.push(News::Alert { limit, value, grade: Grade::Hard });
                // One word is enough.
                spells[0] = Spell { is_above: true, told: Some(now) };
            } else if spells[0].passes(value > bound.soft, value, bound.soft, now) {
                news.push(News::Alert { limit, value, grade: Grade::Soft });
            }
        }
        news
    }

    /// Whether the system has refused it something because it was at its limit, since the last look.
    fn is_hit(&mut self, limit: Limit) -> bool {
        let hits = match limit {
            Limit::Threads => self.sample().map_or(0, |it| it.refused_threads),
            Limit::Log => self.sample().map_or(0, |it| it.log_left_out),
            Limit::Queue => self.counters().map_or(0, |it| it.dropped),
            _ => 0,
        };
        std::mem::replace(&mut self.hits[index(limit)], hits) < hits
    }

    /// Returns the end of a program that has `memory` bytes of its own, if that is above a limit that only the monitor
    /// keeps.
    pub(crate) fn look_at_memory(&self, memory: u64) -> Option<News> {
        let (limit, value) = (Limit::Memory, memory);
        let is_above = self.to_keep.contains(&limit) && value > self.limits.of(limit).hard;
        is_above.then_some(News::End { limit, value, pause: LEAST_PAUSE })
    }

    /// Returns the time from one look at `memory` bytes to the next: what the program needs at [`FASTEST`] to come to
    /// its limit, within [`MEMORY_PERIODS`].
    pub(crate) fn next_memory_look(&self, memory: u64) -> Duration {
        let left = self.limits.of(Limit::Memory).hard.saturating_sub(memory);
        let (least, most) = MEMORY_PERIODS;
        Duration::from_nanos(left / FASTEST).clamp(least, most)
    }

    /// Whether it has to be ended.
    fn end(&mut self, now: Instant) -> Option<News> {
        let sample = *self.sample()?;
        if let Some(end) = self.look_at_memory(sample.own_memory) {
            return Some(end);
        }
        let (since, before) = *self.cpu_since.get_or_insert((now, sample.cpu));
        let passed = now.saturating_duration_since(since);
        if !self.to_keep.contains(&Limit::Cpu) || passed < PATIENCE {
            return None;
        }
        self.cpu_since = Some((now, sample.cpu));
        let used = nanos(sample.cpu.saturating_sub(before));
        let value = used.checked_div(nanos(passed) / 1_000)?;
        // Times are counted in ticks: a little above is as good as at it.
        let hard = self.limits.of(Limit::Cpu).hard;
        (value > hard.saturating_add(hard / 20)).then(|| {
            let pause = pause(passed, value, hard);
            News::End { limit: Limit::Cpu, value, pause }
        })
    }
}

/// How long who used `value` for that time has to stand still to have used `hard`, taken together.
fn pause(passed: Duration, value: u64, hard: u64) -> Duration {
    let ms = u128::from(value - hard) * passed.as_millis() / u128::from(hard.max(1));
    let pause = Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX));
    pause.clamp(LEAST_PAUSE, LONGEST_PAUSE)
}

impl Spell {
    /// Whether it is to be told now that `value` is past `bound`.
    fn passes(&mut self, is_past: bool, value: u64, bound: u64, now: Instant) -> bool {
        let is_quiet = self.told.is_none_or(|told| now.saturating_duration_since(told) >= QUIET);
        if is_past {
            let tells = !self.is_above && is_quiet;
            self.is_above |= tells;
            if tells {
                self.told = Some(now);
            }
            return tells;
        }
        if value <= bound - bound / 10 {
            self.is_above = false;
        }
        false
    }
}

/// Whether so much is all that there is. A rate that is held at its limit is a little below it.
fn is_at(limit: Limit, value: u64, hard: u64) -> bool {
    match limit {
        _ if hard == NO_LIMIT => false,
        // The system takes what can be spared before it ends anybody.
        Limit::Memory => value > hard - hard / 100,
        Limit::Descriptors | Limit::Threads => value >= hard,
        Limit::Cpu | Limit::FlowMods | Limit::PacketOuts | Limit::Requests => {
            value >= hard - hard / 20
        }
        Limit::Log | Limit::Queue => false, // it is told of what was left out or dropped
    }
}

/// How much that counts has grown in a second, over all that is kept.
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
