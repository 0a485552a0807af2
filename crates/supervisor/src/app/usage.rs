//! Measures an app, and acts on limits that it exceeds.

use std::time::Instant;

use control::query::AppCounters;
use control::zone::ZoneRequest;
use names::Limit;
use tracing::{error, warn};

use super::App;
use crate::system::System;
use crate::usage::meter::{LimitEvent, Meter, Severity};

impl App {
    /// Measures the zone and acts on limits that it exceeds.
    pub fn measure(&mut self, system: &dyn System, now: Instant) {
        let sample = self.program().and_then(|program| system.sample(program.id()));
        for event in self.meter.measure(now, sample) {
            self.apply(event, now);
        }
    }

    /// Its measurements.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Takes the kernel's counters of the app.
    pub fn counted(&mut self, counters: &AppCounters, system: &dyn System, now: Instant) {
        self.meter.counted(now, counters);
        self.pace.counted(&self.name, counters);
        if let Some(zone) = self.host.zone_mut() {
            zone.check_events(counters, system);
        }
    }

    /// Alerts the operator and the app, or kills the zone.
    pub(super) fn apply(&mut self, event: LimitEvent, now: Instant) {
        let app = &self.name;
        match event {
            LimitEvent::Alert { limit, value, severity } => {
                let bound = self.meter.limits().of(limit);
                let (name, uses) = (limit.name(), limit.shown(value));
                let (soft, hard) = (limit.shown(bound.soft), limit.shown(bound.hard));
                match severity {
                    Severity::Soft => {
                        warn!(app, limit = name, uses, soft, hard, "app exceeded a soft limit");
                    }
                    Severity::Hard => {
                        warn!(app, limit = name, uses, hard, "app reached a hard limit");
                    }
                }
                self.alert(limit, [value, bound.soft, bound.hard]);
            }
            LimitEvent::Kill { limit, value, pause } => {
                let hard = limit.shown(self.meter.limits().of(limit).hard);
                let (name, uses) = (limit.name(), limit.shown(value));
                error!(app, limit = name, uses, hard, "app exceeded a hard limit and is killed");
                let why = format!("it used {uses}, above its {name} limit of {hard}");
                if let Some(program) = self.program_mut() {
                    program.kill_for_limit(limit, &why, now + pause);
                }
            }
        }
    }

    /// Alerts an app in a zone.
    fn alert(&self, limit: Limit, numbers: [u64; 3]) {
        if let Some(program) = self.program().filter(|program| program.is_running()) {
            // An app is alerted at most twice in ten seconds for each limit, so a full socket may hold only such
            // messages. It is no reason to kill the zone.
            let alert = ZoneRequest::Alert { limit: limit as u8, numbers };
            program.send_if_room(alert, Vec::new(), None);
        }
    }
}
