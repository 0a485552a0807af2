//! Starts the zone of an app, with the app's files as they are at that time.

use std::ops::RangeInclusive;
use std::time::Instant;

use control::zone::{SwitchNumbers, ZoneRequest};
use names::Service;
use tracing::{error, warn};

use super::connections::names;
use super::{App, Role, provided};
use crate::effects::Fd;
use crate::system::System;

impl App {
    /// Starts the zone with the files as they are now.
    pub(super) fn start_zone(&mut self, system: &dyn System, now: Instant) {
        let log_level = self.log_level();
        let Some(zone) = self.host.zone_mut() else { return };
        let (unusable, is_news) = match self.files.read(&self.name) {
            Err(why) => (Some(why.clone()), zone.hold.files_unreadable(&why)),
            // The app ended with exactly these files before: starting it would only repeat that.
            Ok(()) => {
                (zone.hold.files_read(&self.files.fingerprint()).map(ToOwned::to_owned), false)
            }
        };
        if let Some(why) = &unusable {
            if zone.program.lifecycle().too_many_restarts().is_some() || !self.files.use_good() {
                if is_news && self.files.refusal().is_some() {
                    let hint = "correct that and type: rosemary reload; or type: rosemary app disable NAME";
                    error!(app = self.name, why, hint, "app was held");
                } else if is_news {
                    error!(app = self.name, why, "app was held until its files can be read");
                }
                return zone.program.hold(now, why);
            }
            let hint = "correct its files, then use `rosemary reload`";
            warn!(app = self.name, why, hint, "app goes on with the files with which it last ran");
        }
        self.kept = unusable;
        let config = match system.sealed("configuration", self.files.config()) {
            Ok(config) => config,
            Err(why) => {
                let why = format!("could not copy its configuration: {why}");
                return zone.program.hold(now, &why);
            }
        };
        self.meter.restart();
        let ends = |range: RangeInclusive<u32>| range.into_inner();
        let load = ZoneRequest::Load {
            name: self.name.clone(),
            sandbox: self.zone_settings.sandbox.clone(),
            sha256: self.files.object_sha256(),
            numbers: SwitchNumbers {
                band: (self.spec.policy.band.lowest, self.spec.policy.band.highest),
                groups: ends(self.id.groups()),
                meters: ends(self.id.meters()),
            },
            services: names(&self.spec.keys.services),
            log_level,
            provides: provided(&self.name).map(|service| service.name().to_owned()),
            guest: Box::new(self.guest.settings.clone()),
        };
        let sockets = match self.guest.listeners.listen() {
            Ok(sockets) => sockets,
            Err(why) => return zone.program.hold(now, &why),
        };
        self.table = match provided(&self.name).and_then(Service::table_slots) {
            None => None,
            Some(slots) => match system.table(slots) {
                Ok(table) => Some(table),
                Err(why) => {
                    let why = format!("the memory of its table could not be made: {why}");
                    return zone.program.hold(now, &why);
                }
            },
        };
        let files = self.files.object().into_iter().chain([config]).chain(self.table.clone());
        let files: Vec<Fd> = files.chain(sockets).collect();
        zone.program.set_log_level(log_level);
        zone.start(load, files, now);
    }

    /// Wants the zone to run, if the app has one and the operator has not stopped it.
    pub fn request_start(&mut self, now: Instant) {
        let is_to_run = matches!(self.role, Role::Current | Role::Candidate);
        if is_to_run
            && !self.intent.is_stopped()
            && let Some(program) = self.program_mut()
        {
            program.request_start(now);
        }
    }
}
