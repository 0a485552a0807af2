//! Limits of apps that other apps have set: throttled or suspended, for a time, with an incident each.
//!
//! A limit ends by itself, so that an app that sets one and dies leaves none behind. The kernel enforces it as a part of the
//! app's policy.

use std::time::{Duration, Instant};

use control::incident::{self, Cause, Evidence, IncidentId};
use control::query::AppCounters;
use sdk::services::Service;
use sdk::services::apps::{self, Measure};
use tracing::{info, warn};

use super::{AppSlot, Programs};
use crate::app::{App, Role};
use crate::effects::{Effect, LimitRequest, ProgramId};
use crate::system::{Sockets, System};
use crate::text::harmless;

/// Most changes of limits that one app may make in a minute; renewals are free.
const MOST_CHANGES: u32 = 30;
const PERIOD: Duration = Duration::from_secs(60);

/// The limits in force.
#[derive(Debug, Default)]
pub(super) struct AppLimits {
    limits: Vec<AppLimit>,
    /// For each app that sets limits: since when its changes are counted, and their number.
    changes: Vec<(String, Instant, u32)>,
}

/// A limit in force.
#[derive(Debug)]
struct AppLimit {
    app: String,
    by: String,
    measure: Measure,
    since: Instant,
    until: Instant,
    incident: IncidentId,
}

impl AppLimits {
    /// Counts a change of an app. `false` if it makes too many.
    fn admit_change(&mut self, by: &str, now: Instant) -> bool {
        self.changes.retain(|(_, since, _)| now.saturating_duration_since(*since) < PERIOD);
        let Some((_, _, count)) = self.changes.iter_mut().find(|(app, ..)| app == by) else {
            self.changes.push((by.to_owned(), now, 1));
            return true;
        };
        *count = count.saturating_add(1);
        *count <= MOST_CHANGES
    }

    /// When a limit ends.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.limits.iter().map(|limit| limit.until).min()
    }

    /// The limit of an app, as a phrase for operators.
    pub(super) fn phrase(&self, app: &str) -> Option<String> {
        let limit = self.limits.iter().find(|limit| limit.app == app)?;
        Some(format!("{}, by {}", limit.measure, limit.by))
    }
}

impl Programs {
    /// Connects an app that was loaded with the service `apps`, if it uses it.
    pub(super) fn connect_apps_service(&mut self, slot: AppSlot, system: &dyn System) {
        let Some(app) = self.apps.get_mut(slot.0) else { return };
        if !app.uses(Service::Apps) || app.role() != Role::Current {
            return;
        }
        let pairs: Result<Vec<_>, String> =
            (0..app.instances()).map(|_instance| system.sockets(Sockets::Plain)).collect();
        let mut ends = Vec::new();
        match pairs {
            Ok(pairs) => {
                for [ours, theirs] in pairs {
                    let client = Effect::AddAppsClient(app.client(), ours);
                    self.effects.add(ProgramId::MONITOR, client);
                    ends.push(theirs);
                }
                app.connect_service(Service::Apps, (ends, None), &self.kernel.program);
            }
            Err(error) => {
                let hint = "restart the app once fewer descriptors are open";
                warn!(app = app.name, error, hint, "could not connect an app to the service apps");
            }
        }
    }

    /// Decides about a request of a client of the service `apps`.
    pub(crate) fn limit_requested(&mut self, request: LimitRequest, now: Instant) {
        let decision = self.decide(&request, now);
        if let Err(why) = &decision {
            let (app, by) = (&request.app, &request.by);
            warn!(app, by, why, "refused to limit an app for another one");
        }
        self.effects.add(ProgramId::MONITOR, Effect::Decided(request, decision));
    }

    /// The apps as clients of the service `apps` see them, of these counters.
    pub fn counters_for_apps(&self, counted: &[AppCounters]) -> Vec<apps::AppCounters> {
        let serving = self.apps.iter().filter(|app| app.role().serves());
        let of = |app: &App| {
            let counters = counted.iter().find(|it| it.name == app.name)?;
            Some(apps::AppCounters {
                number: app.id.0,
                name: app.name.clone(),
                delivered: counters.delivered,
                flow_mods: counters.flow_mods,
                refused: counters.refused,
                delayed: counters.delayed,
                limit: app.limit(),
            })
        };
        serving.filter_map(of).collect()
    }

    /// Sets, renews or ends a limit for an app that has the right to do so.
    ///
    /// # Errors
    /// Why not, as a phrase.
    fn decide(&mut self, request: &LimitRequest, now: Instant) -> Result<(), String> {
        let LimitRequest { by, app, limit, .. } = request;
        if !self.apps.iter().any(|it| it.name == *app && it.role().serves()) {
            return Err(format!("there is no app {}", harmless(app, 40)));
        }
        let known = self.limits.limits.iter_mut().find(|limit| limit.app == *app);
        let Some((measure, time, why)) = limit else {
            if known.is_some_and(|limit| limit.by == *by) {
                self.end_limit(app, &format!("app {by} ended the limit"), now);
            }
            return Ok(());
        };
        if let Some(known) = known {
            if known.by != *by {
                return Err(format!("{app} is {} by {}", known.measure, known.by));
            }
            if known.measure == *measure {
                known.until = now + *time;
                return Ok(());
            }
        }
        if !self.limits.admit_change(by, now) {
            return Err(format!("an app may change {MOST_CHANGES} limits in a minute; wait"));
        }
        self.end_limit(app, &format!("app {by} set another limit"), now);
        self.begin_limit(request, (*measure, *time, why), now);
        Ok(())
    }

    fn begin_limit(
        &mut self,
        LimitRequest { by, app, .. }: &LimitRequest,
        (measure, time, why): (Measure, Duration, &str),
        now: Instant,
    ) {
        let pace = match measure {
            Measure::Throttle(pace) => Some(pace),
            Measure::Suspend => None,
        };
        let why = harmless(why, apps::MOST_WHY);
        warn!(app, by, limit = %measure, why, "an app was limited by another one");
        let cause = Cause::LimitedByApp { by: by.clone(), pace };
        let evidence = Evidence::fact(format!("app {by} reports: {why}"));
        let incident = self.incidents.open(incident::Program::app(app), cause, evidence);
        self.incidents.reaction(incident, format!("{measure}, for {} s at most", time.as_secs()));
        let (app, by) = (app.clone(), by.clone());
        self.limits.limits.push(AppLimit {
            app,
            by,
            measure,
            since: now,
            until: now + time,
            incident,
        });
        self.apply_limits();
    }

    /// Ends the limit of an app, if there is one.
    fn end_limit(&mut self, app: &str, reaction: &str, now: Instant) {
        let Some(index) = self.limits.limits.iter().position(|limit| limit.app == app) else {
            return;
        };
        let AppLimit { app, by, measure, since, incident, .. } =
            self.limits.limits.swap_remove(index);
        info!(app, by, limit = %measure, reaction, "the limit of an app ended");
        self.incidents.reaction(incident, reaction);
        self.incidents.close(incident, Some(now.saturating_duration_since(since)));
        self.apply_limits();
    }

    /// Ends limits whose time is over, and gives all apps their limits, also those that have replaced others.
    pub(super) fn advance_limits(&mut self, now: Instant) {
        let over = self.limits.limits.iter().filter(|limit| limit.until <= now);
        let over: Vec<String> = over.map(|limit| limit.app.clone()).collect();
        for app in over {
            self.end_limit(&app, "the time of the limit was over", now);
        }
        self.apply_limits();
    }

    fn apply_limits(&mut self) {
        for app in self.apps.iter_mut().filter(|app| app.role().serves()) {
            let limit = self.limits.limits.iter().find(|limit| limit.app == app.name);
            let measure = limit.map(|limit| limit.measure);
            if app.limit() == measure {
                continue;
            }
            app.set_limit(measure);
            if self.kernel.program.is_running() && !app.is_stopped_by_operator() {
                self.kernel.program.send(app.know_request(), Vec::new());
            }
        }
    }
}
