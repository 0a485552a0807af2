//! How often the operator is told of what outsiders can repeat.

use std::collections::HashMap;
use std::time::Instant;

use sys::rate::Rate;
use tracing::{info, warn};

use super::Worker;
use crate::control::AppId;
use crate::hold_queue::{News, PATIENCE};

/// One for each kind of event that outsiders can repeat.
#[derive(Debug)]
pub(super) struct LogLimits {
    pub(super) accepted: Rate,
    pub(super) not_accepted: Rate,
    pub(super) connected: Rate,
    pub(super) ports: Rate,
    pub(super) closed: Rate,
    pub(super) disconnected: Rate,
    /// For each app: none can hide another's offences behind a flood of its own.
    pub(super) refused: HashMap<AppId, Rate>,
    /// For each app that packets were decided without.
    pub(super) late: HashMap<AppId, Rate>,
    /// By app: that it is skipped, and that it is not any more.
    pub(super) skipped: HashMap<AppId, Rate>,
    /// For each app that errors of switches could not be led back to.
    pub(super) lost: HashMap<AppId, Rate>,
    pub(super) errors: Rate,
    pub(super) malformed: Rate,
}

impl LogLimits {
    /// Of which nothing was told yet.
    pub(super) fn new(now: Instant) -> Self {
        let rate = || Rate::new(now);
        Self {
            accepted: rate(),
            not_accepted: Rate::seldom(now),
            connected: rate(),
            ports: rate(),
            closed: rate(),
            disconnected: rate(),
            refused: HashMap::new(),
            late: HashMap::new(),
            skipped: HashMap::new(),
            lost: HashMap::new(),
            errors: rate(),
            malformed: rate(),
        }
    }
}

impl Worker {
    /// Tells the operator how many lines were left out of floods that have ended.
    pub(super) fn tell_left_out(&mut self, now: Instant) {
        let log_limits = &mut self.log_limits;
        let warnings = [
            (&mut log_limits.accepted, "connection refused"),
            (&mut log_limits.not_accepted, "could not accept a connection"),
            (&mut log_limits.closed, "connection closed before it was a switch"),
            (&mut log_limits.errors, "switch sent an error"),
            (&mut log_limits.malformed, "left out a message of a switch"),
        ];
        for (rate, what) in warnings {
            if let Some(suppressed) = rate.rest(now) {
                warn!(what, suppressed, "there was more than was told");
            }
        }
        let changes = [
            (&mut log_limits.connected, "switch connected"),
            (&mut log_limits.disconnected, "switch disconnected"),
            (&mut log_limits.ports, "port changed"),
        ];
        for (rate, what) in changes {
            if let Some(suppressed) = rate.rest(now) {
                info!(what, suppressed, "there was more than was told");
            }
        }
        for app_port in &mut self.dispatch.app_ports {
            if let Some(suppressed) = app_port.left_out(now) {
                warn!(app = app_port.name, suppressed, "the app logged more than was told");
            }
            let rate = log_limits.refused.get_mut(&app_port.app);
            if let Some(suppressed) = rate.and_then(|rate| rate.rest(now)) {
                warn!(
                    app = app_port.name,
                    suppressed, "refused more messages of the app than was told"
                );
            }
        }
    }

    /// Tells the operator which apps are skipped as they answer too late, and which no longer are.
    pub(super) fn tell_skipped(&mut self, now: Instant) {
        let log_limits = &mut self.log_limits.skipped;
        self.dispatch.skipped(|app_port, news, go_on| {
            let app = &app_port.name;
            let rate = log_limits.entry(app_port.app).or_insert_with(|| Rate::new(now));
            let Some(left_out) = rate.admit(now) else { return };
            match news {
                News::Skipped { .. } if go_on => {
                    warn!(app, left_out, "app answers too late and is skipped");
                }
                News::Skipped { .. } => {
                    let what = "guard answers too late: its packets are dropped at once";
                    warn!(app, left_out, "{what}");
                }
                News::WaitedFor { packets, took, .. } => {
                    let took_ms = took.as_millis();
                    info!(app, packets, took_ms, left_out, "app answers again and is waited for");
                }
            }
        });
    }

    /// Tells the operator which apps have not answered in time, so that packets were decided without them.
    pub(super) fn tell_late(&mut self, now: Instant) {
        let log_limits = &mut self.log_limits.late;
        let within_ms = PATIENCE.as_millis();
        self.dispatch.late(|app_port, packets, go_on| {
            let rate = log_limits.entry(app_port.app).or_insert_with(|| Rate::seldom(now));
            let is_told = rate.admit(now).is_some();
            if is_told {
                let app = &app_port.name;
                if go_on {
                    warn!(
                        app,
                        packets, within_ms, "the app did not answer in time: packets went on"
                    );
                } else {
                    warn!(
                        app,
                        packets,
                        within_ms,
                        "the guard did not answer in time: packets were dropped"
                    );
                }
            }
            is_told
        });
    }
}
