//! Handles the messages of an app's zone, and its end.
//!
//! A zone may be hostile. The monitor takes its messages as claims about the zone itself, and accepts them in order only: one
//! `Loaded`, and nothing after a `Failed`. A zone that floods its socket is therefore killed at its second message.

use std::os::fd::OwnedFd;
use std::time::Instant;

use control::incident::Cause;
use control::operator::ProgramState;
use control::zone::ZoneReply;
use tracing::{error, info};

use super::App;
use crate::effects::{ProcessEvent, Reply};
use crate::program::{News, ProgramKind, end_of_hold};
use crate::system::System;
use crate::text::{harmless, shortened};

/// The effect of an event of a zone on other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneEvent {
    /// The event concerned the zone only.
    Handled,
    /// The app is loaded and can be connected to the kernel and to services.
    Loaded,
    /// The zone has ended, and the kernel has rings of it.
    Ended,
}

impl App {
    /// Handles an event of the zone's process.
    pub fn zone_event(
        &mut self,
        event: ProcessEvent,
        system: &dyn System,
        now: Instant,
    ) -> ZoneEvent {
        let Some(zone) = self.host.zone_mut() else { return ZoneEvent::Handled };
        match zone.program.take(event, now) {
            Some(News::Started) => zone.started(system, now),
            Some(News::NotStarted) => zone.not_started(),
            Some(News::Received(reply, fds)) => {
                if let Reply::Zone(reply) = *reply {
                    return self.received(reply, fds, now);
                }
            }
            Some(News::Ended(..)) if self.zone_ended(now) => return ZoneEvent::Ended,
            None | Some(News::Ended(..)) => {}
        }
        ZoneEvent::Handled
    }

    /// Handles a message of the zone, with its descriptors.
    pub fn received(&mut self, reply: ZoneReply, fds: Vec<OwnedFd>, now: Instant) -> ZoneEvent {
        let is_provider = self.provides().is_some();
        let Some(zone) = self.host.zone_mut() else { return ZoneEvent::Handled };
        if zone.has_failed {
            zone.program.kill("it sent a message after it had failed");
            return ZoneEvent::Handled;
        }
        match reply {
            // The process confines itself before it loads the app, so this message is not the app's.
            ZoneReply::Confined { report } => zone.program.confined(report, fds),
            ZoneReply::Loaded { version } => {
                if zone.program.mark_ready(now) {
                    self.loaded(&version);
                    return ZoneEvent::Loaded;
                }
                // A zone that is being stopped may have loaded just before.
                if zone.program.lifecycle().state() != ProgramState::Stopping {
                    zone.program.kill("it reported twice that it is loaded");
                }
            }
            ZoneReply::Unfit { why } => self.hold(&why, None, now),
            ZoneReply::NotLoaded { why } => {
                if zone.hold.load_failed(self.files.fingerprint()) {
                    let hint =
                        "if the app needs a missing library, install it and start Rosemary again";
                    self.hold(&why, Some(hint), now);
                } else {
                    self.failed(&why, now);
                }
            }
            ZoneReply::Failed { why } => self.failed(&why, now),
            ZoneReply::Audit { .. } if !is_provider => {
                zone.program.kill("it wrote an audit record and provides no service");
            }
            ZoneReply::Audit { record } => {
                zone.program.audit(&self.name, &shortened(&record, 1024));
            }
            ZoneReply::Incident { summary, evidence } => {
                self.reports.record(&self.name, &summary, &evidence, now);
            }
            ZoneReply::Problem { text } => self.reports.state_problem(&self.name, &text, now),
        }
        ZoneEvent::Handled
    }

    /// The zone has loaded the app.
    fn loaded(&mut self, version: &str) {
        let Some(zone) = self.host.zone_mut() else { return };
        let (pid, uid, shown) =
            (zone.program.pid(), self.zone_settings.uid(), shortened(version, 40));
        info!(app = self.name, version = shown, pid, uid, "app was loaded");
        zone.hold.loaded();
        self.files.version = Some(harmless(version, 40));
        self.files.note_good();
        self.meter.reset_alerts();
    }

    /// The zone reports that the app cannot go on: it is started again.
    fn failed(&mut self, why: &str, now: Instant) {
        let Some(zone) = self.host.zone_mut() else { return };
        let (object, why) = (self.files.object_path().display(), shortened(why, 400));
        error!(app = self.name, %object, why, "app failed");
        self.failure = Some(harmless(&why, 400));
        zone.has_failed = true;
        zone.program.incidents_mut().reported(Cause::Panic, &why);
        zone.program.mark_ending(now);
    }

    /// The zone reports that the app cannot run with its files: it is held until one of them changes.
    fn hold(&mut self, why: &str, hint: Option<&str>, now: Instant) {
        let Some(zone) = self.host.zone_mut() else { return };
        let object = self.files.object_path().display();
        let config = self.files.config_path().map(|path| path.display().to_string());
        let shown = shortened(why, 400);
        error!(app = self.name, %object, config, why = shown, hint, "app was held until one of its files changes");
        zone.hold.reject(self.files.fingerprint(), harmless(why, 400));
        self.files.note_bad();
        self.failure = Some(harmless(why, 400));
        zone.has_failed = true;
        zone.program.incidents_mut().reported(Cause::Unfit, &shown);
        zone.program.mark_unfit(now);
    }

    /// The zone's process has ended. Returns whether the kernel holds rings of it.
    fn zone_ended(&mut self, now: Instant) -> bool {
        self.reports.end_problem(now);
        self.guest.listeners.restore();
        let Some(zone) = self.host.zone_mut() else { return false };
        // That of an earlier process does not explain this end.
        let failure = self.failure.as_deref().filter(|_| zone.has_failed);
        if let Some(failure) = failure {
            zone.program.explain_end(failure);
        }
        if let Some(why) = zone.program.lifecycle().too_many_restarts() {
            let kind = ProgramKind::Zone(self.name.clone());
            let last = failure.map_or_else(String::new, |it| format!("{it}; "));
            let why = format!("{last}{why}; {}", end_of_hold(&kind, why));
            zone.hold.reject(self.files.fingerprint(), why);
        }
        zone.ended(now)
    }
}
