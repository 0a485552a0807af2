//! Looking at how much each program uses, and what comes of it.

use std::time::Instant;

use sys::process::Usage;
use tracing::{error, warn};
use zone::Limit;
use zone::control::Request;

use super::House;
use crate::admin::{Amount, ProgramUsage};
use crate::supervise::State;
use crate::usage::PERIOD;
use crate::usage::meter::{Grade, Meter, News, Sample};
use crate::zone::Zone;

/// When programs are to be looked at again.
#[derive(Debug)]
pub(super) struct Looks {
    all: Instant,
}

impl Looks {
    pub(super) fn new(now: Instant) -> Self {
        Self { all: now }
    }

    pub(super) fn next_due(&self) -> Instant {
        self.all
    }
}

impl House {
    /// Looks at what programs use, if it is time.
    pub(super) fn look(&mut self, now: Instant) {
        if self.looks.all <= now {
            self.looks.all = now + PERIOD;
            self.look_at_all(now);
        }
        for zone in &mut self.zones {
            if zone.memory_look().is_some_and(|at| at <= now)
                && let Some(end) = zone.look_at_memory(now)
            {
                act(zone, end, now);
            }
        }
    }

    /// Looks at every program once.
    fn look_at_all(&mut self, now: Instant) {
        for zone in &mut self.zones {
            let sample = zone.program.sample();
            for news in zone.meter.look(now, sample) {
                act(zone, news, now);
            }
        }
        let sample = self.kernel.sample();
        self.kernel_meter.look(now, sample); // it has no limits
        let own = Usage::of(std::process::id()).ok().map(|own| Sample {
            cpu: own.cpu,
            memory: own.memory.all,
            own_memory: own.memory.all,
            threads: own.threads,
            descriptors: own.descriptors,
            ..Sample::default()
        });
        self.own_meter.look(now, own);
        for service in &mut self.services {
            let sample = service.program.sample();
            service.meter.look(now, sample); // as with the kernel
        }
        let mut counters = std::mem::take(&mut self.counters);
        counters.ask(|| self.connect_to_kernel());
        self.counters = counters;
    }

    /// Takes what the kernel has counted.
    pub(super) fn hear_counters(&mut self, now: Instant) {
        if !self.counters.hear() {
            return;
        }
        for zone in &mut self.zones {
            if let Some(counters) = self.counters.of(&zone.name) {
                zone.counted(now, counters);
            }
        }
    }

    /// How much each program uses, for operators.
    pub(super) fn usage(&self) -> Vec<ProgramUsage> {
        let monitor = ProgramUsage {
            pid: Some(std::process::id()),
            ..of("monitor", "monitor", State::Running, &self.own_meter)
        };
        let supervision = self.kernel.supervision();
        let kernel = ProgramUsage {
            pid: self.kernel.pid(),
            restarts: supervision.restarts(),
            ..of("kernel", "kernel", supervision.state(), &self.kernel_meter)
        };
        let services = self.services.iter().map(|service| {
            let supervision = service.program.supervision();
            let usage = of(service.kind.name(), "service", supervision.state(), &service.meter);
            let restarts = supervision.restarts();
            ProgramUsage { pid: service.program.pid(), restarts, ..usage }
        });
        let zones = self.zones.iter().map(|zone| {
            let kind = if zone.is_for_kernel() { "kernel app" } else { "app" };
            let (pid, state, restarts) = zone.runs_as(self.kernel.pid(), supervision.state());
            let usage = of(&zone.name, kind, state, &zone.meter);
            ProgramUsage { pid, restarts, ..usage }
        });
        [monitor, kernel].into_iter().chain(services).chain(zones).collect()
    }
}

/// Tells the operator and the app, or ends the app.
fn act(zone: &mut Zone, news: News, now: Instant) {
    let app = &zone.name;
    match news {
        News::Alert { limit, value, grade } => {
            let bound = zone.meter.limits().of(limit);
            let (of, uses) = (limit.name(), limit.shown(value));
            let (soft, hard) = (limit.shown(bound.soft), limit.shown(bound.hard));
            match grade {
                Grade::Soft => {
                    warn!(app, limit = of, uses, soft, hard, "app is above a soft limit");
                }
                Grade::Hard => warn!(app, limit = of, uses, hard, "app is at a hard limit"),
            }
            zone.alert(limit, [value, bound.soft, bound.hard]);
        }
        News::End { limit, value, pause } => {
            let hard = limit.shown(zone.meter.limits().of(limit).hard);
            let (of, uses) = (limit.name(), limit.shown(value));
            error!(app, limit = of, uses, hard, "app is above a hard limit: it is ended");
            let why = format!("it used {uses}, above its {of} limit of {hard}");
            zone.program.kill_for_limit(&why, now + pause);
        }
    }
}

/// What is seen of a program.
fn of(name: &str, kind: &str, state: State, meter: &Meter) -> ProgramUsage {
    let counters = meter.counters();
    let amount = |limit: Limit| {
        let bound = meter.limits().of(limit);
        let known = |amount| (amount != config::NO_LIMIT).then_some(amount);
        let (soft, hard) = (known(bound.soft), known(bound.hard));
        Amount { limit: limit.name().into(), value: meter.value(limit), soft, hard }
    };
    ProgramUsage {
        name: name.into(),
        kind: kind.into(),
        state,
        pid: None,
        restarts: 0,
        uses: Limit::ALL.map(amount).to_vec(),
        above: meter.above().into_iter().map(|limit| limit.name().into()).collect(),
        events_per_second: meter.events(),
        dropped: counters.map(|it| it.dropped),
        refused: counters.map(|it| it.refused),
    }
}

impl Zone {
    /// Tells the app that it uses so much of something, if it runs in a zone. It is told no more than
    /// twice in ten seconds of each, so a zone that does not read is no reason to end it.
    fn alert(&self, limit: Limit, numbers: [u64; 3]) {
        if self.is_loaded() {
            let _ = self.program.try_tell(&Request::Alert { limit: limit as u8, numbers }, &[]);
        }
    }
}
