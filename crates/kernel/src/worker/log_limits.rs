//! Limits the rate of log lines that outsiders can cause, and writes the lines about apps that fall behind.

use std::collections::HashMap;
use std::time::Instant;

use sys::rate::Rate;
use tracing::{info, warn};

use crate::app_port::{AppPort, DropReport};
use crate::dispatch::Dispatch;
use crate::hold_queue::{News, PATIENCE};
use control::app::AppId;

/// A limit for each kind of event that outsiders can repeat.
#[derive(Debug)]
pub(super) struct LogLimits {
    pub(super) accepted: Rate,
    pub(super) not_accepted: Rate,
    pub(super) connected: Rate,
    pub(super) ports: Rate,
    pub(super) closed: Rate,
    pub(super) disconnected: Rate,
    /// Refused messages, by app: no app can hide another's offences behind a flood of its own.
    pub(super) refused: HashMap<AppId, Rate>,
    /// By app: packets were decided without its verdict.
    pub(super) late: HashMap<AppId, Rate>,
    /// By app: it began or ceased to be skipped.
    pub(super) skipped: HashMap<AppId, Rate>,
    /// By app: an error of a switch may be about a message of the app that is no longer remembered.
    pub(super) lost: HashMap<AppId, Rate>,
    pub(super) errors: Rate,
    pub(super) malformed: Rate,
    /// Requests of apps that a switch did not answer.
    pub(super) unanswered: Rate,
    /// Flows were missing on a switch.
    pub(super) missing: Rate,
    /// A switch does not carry out a message of the kernel's own: lines, and reports to the monitor.
    pub(super) failing: Rate,
    /// Connections claimed datapaths that they may not have: reports to the monitor.
    pub(super) claims: Rate,
    /// A switch reports changes of its flows, or does so no longer.
    pub(super) watch: Rate,
    /// A switch reported the role of Rosemary or the state of a controller.
    pub(super) controllers: Rate,
    /// Flows of absent apps, or of apps whose band has moved, were removed from a switch.
    pub(super) removed: Rate,
}

impl LogLimits {
    /// Limits that have counted no line yet.
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
            unanswered: rate(),
            missing: rate(),
            failing: rate(),
            claims: rate(),
            watch: rate(),
            controllers: rate(),
            removed: rate(),
        }
    }
}

impl LogLimits {
    /// Logs how many lines were suppressed in floods that have ended.
    pub(super) fn report_suppressed(&mut self, app_ports: &mut [AppPort], now: Instant) {
        let log_limits = self;
        let warnings = [
            (&mut log_limits.accepted, "connection refused"),
            (&mut log_limits.not_accepted, "could not accept a connection"),
            (&mut log_limits.closed, "connection closed before its handshake was complete"),
            (&mut log_limits.errors, "switch sent an error"),
            (&mut log_limits.malformed, "ignored a message of a switch"),
            (&mut log_limits.unanswered, "switch did not answer a request of an app"),
            (&mut log_limits.missing, "flows were missing on a switch"),
            (&mut log_limits.failing, "switch does not carry out a message of Rosemary"),
        ];
        for (rate, what) in warnings {
            if let Some(suppressed) = rate.rest(now) {
                warn!(what, suppressed, "suppressed further lines like it");
            }
        }
        let changes = [
            (&mut log_limits.connected, "switch connected"),
            (&mut log_limits.disconnected, "switch disconnected"),
            (&mut log_limits.ports, "port changed"),
            (
                &mut log_limits.removed,
                "removed flows of absent apps, or of moved bands, in a switch",
            ),
        ];
        for (rate, what) in changes {
            if let Some(suppressed) = rate.rest(now) {
                info!(what, suppressed, "suppressed further lines like it");
            }
        }
        for app_port in app_ports {
            if let Some(suppressed) = app_port.suppressed_lines(now) {
                warn!(app = app_port.name, suppressed, "suppressed further log lines of the app");
            }
            let rate = log_limits.refused.get_mut(&app_port.app);
            if let Some(suppressed) = rate.and_then(|rate| rate.rest(now)) {
                warn!(
                    app = app_port.name,
                    suppressed, "suppressed further lines on refused messages of the app"
                );
            }
        }
    }

    /// Logs which apps began or ceased to be skipped because they answer too late.
    pub(super) fn report_skipped(&mut self, dispatch: &mut Dispatch, now: Instant) {
        let log_limits = &mut self.skipped;
        dispatch.skipped(|app_port, news, go_on| {
            let app = &app_port.name;
            let rate = log_limits.entry(app_port.app).or_insert_with(|| Rate::new(now));
            let Some(suppressed) = rate.admit(now) else { return };
            match news {
                News::Skipped { .. } if go_on => {
                    warn!(app, suppressed, "app answers too late and is skipped");
                }
                News::Skipped { .. } => {
                    let what = "guard answers too late; its packets are dropped at once";
                    warn!(app, suppressed, "{what}");
                }
                News::WaitedFor { packets, took, .. } => {
                    let took_ms = took.as_millis();
                    info!(app, packets, took_ms, suppressed, "app answers again and is waited for");
                }
            }
        });
    }

    /// Logs which apps did not answer in time, and whether the next apps got the packets.
    pub(super) fn report_late(&mut self, dispatch: &mut Dispatch, now: Instant) {
        let log_limits = &mut self.late;
        let within_ms = PATIENCE.as_millis();
        dispatch.late(|app_port, packets, go_on| {
            let rate = log_limits.entry(app_port.app).or_insert_with(|| Rate::seldom(now));
            let is_logged = rate.admit(now).is_some();
            if is_logged {
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
            is_logged
        });
    }
}

/// Logs for which apps the kernel began or ceased to drop packet-ins.
pub(super) fn report_drops(app_ports: &mut [AppPort], now: Instant) {
    for app_port in app_ports {
        let app = &app_port.name;
        match app_port.counts.drop_report(now) {
            Some(DropReport::Began) if app_port.is_attached() => {
                warn!(app, "the app does not keep up; packet-ins for it are dropped");
            }
            Some(DropReport::Began) => {
                warn!(
                    app,
                    "the app is not running and its backlog is full; packet-ins for it are dropped"
                );
            }
            Some(DropReport::Ended { dropped, took }) => {
                info!(app, dropped, ?took, "packet-ins for the app are no longer dropped");
            }
            None => {}
        }
    }
}
