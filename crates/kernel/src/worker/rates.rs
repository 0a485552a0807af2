//! How often the operator is told of what outsiders can repeat.

use std::collections::HashMap;
use std::time::Instant;

use sys::rate::Rate;
use tracing::{info, warn};

use super::Worker;
use crate::control::AppId;
use crate::held::{News, PATIENCE};

/// One for each kind of event that outsiders can repeat.
#[derive(Debug)]
pub(super) struct Rates {
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

impl Rates {
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
        let rates = &mut self.rates;
        let warnings = [
            (&mut rates.accepted, "connection refused"),
            (&mut rates.not_accepted, "could not accept a connection"),
            (&mut rates.closed, "connection closed before it was a switch"),
            (&mut rates.errors, "switch sent an error"),
            (&mut rates.malformed, "left out a message of a switch"),
        ];
        for (rate, what) in warnings {
            if let Some(suppressed) = rate.rest(now) {
                warn!(what, suppressed, "there was more than was told");
            }
        }
        let changes = [
            (&mut rates.connected, "switch connected"),
            (&mut rates.disconnected, "switch disconnected"),
            (&mut rates.ports, "port changed"),
        ];
        for (rate, what) in changes {
            if let Some(suppressed) = rate.rest(now) {
                info!(what, suppressed, "there was more than was told");
            }
        }
        for link in &mut self.dispatch.links {
            if let Some(suppressed) = link.left_out(now) {
                warn!(app = link.name, suppressed, "the app logged more than was told");
            }
            let rate = rates.refused.get_mut(&link.app);
            if let Some(suppressed) = rate.and_then(|rate| rate.rest(now)) {
                warn!(
                    app = link.name,
                    suppressed, "refused more messages of the app than was told"
                );
            }
        }
    }

    /// Tells the operator which apps are skipped as they answer too late, and which no longer are.
    pub(super) fn tell_skipped(&mut self, now: Instant) {
        let rates = &mut self.rates.skipped;
        self.dispatch.skipped(|link, news, go_on| {
            let app = &link.name;
            let rate = rates.entry(link.app).or_insert_with(|| Rate::new(now));
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
        let rates = &mut self.rates.late;
        let within_ms = PATIENCE.as_millis();
        self.dispatch.late(|link, packets, go_on| {
            let rate = rates.entry(link.app).or_insert_with(|| Rate::seldom(now));
            let is_told = rate.admit(now).is_some();
            if is_told {
                let app = &link.name;
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
