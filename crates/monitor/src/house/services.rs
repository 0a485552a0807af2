//! The services in the loop: which there are, and who is connected to them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sdk::services::Service as Kind;
use sys::packets::Packets;
use tracing::{error, warn};

use super::{House, MESSAGES_PER_TURN, Source};
use crate::choice::App;
use crate::error::StartError;
use crate::places::Places;
use crate::service::{Heard, Service};
use crate::usage::Keeper;
use crate::users::Users;
use crate::wall::Require;

/// The services that apps name.
pub(super) fn needed<'a>(
    apps: impl Iterator<Item = &'a App>,
    places: &Places,
    users: Users,
    wall: Option<Require>,
    state_dir: &Path,
    keeper: &Arc<Keeper>,
) -> Result<Vec<Service>, StartError> {
    let named: Vec<Kind> = apps.flat_map(|app| app.services.iter().copied()).collect();
    let needed = Kind::ALL.into_iter().filter(|kind| named.contains(kind));
    needed.map(|kind| Service::new(kind, places, users, wall, state_dir, keeper)).collect()
}

impl House {
    /// Does what is due of services.
    pub(super) fn attend_services(&mut self, now: Instant) {
        for service in &mut self.services {
            service.refusals.catch_up(now);
            if service.program.is_start_due(now) {
                service.start(now);
            }
        }
    }

    /// A service has something to say, or has ended.
    pub(super) fn handle_service(&mut self, source: Source, now: Instant) {
        let (Source::ServiceOutput(i)
        | Source::ServiceControl(i)
        | Source::ServiceEnd(i)
        | Source::ServiceRefusal(i)) = source
        else {
            return;
        };
        let Some(service) = self.services.get_mut(i) else { return };
        match source {
            Source::ServiceOutput(_) => service.program.hear_output(now),
            Source::ServiceRefusal(_) => service.refusals.hear(now),
            Source::ServiceControl(_) => self.hear_service(i, now),
            _ => {
                self.hear_service(i, now);
                if let Some(service) = self.services.get_mut(i)
                    && service.program.reap(now).is_some()
                {
                    service.refusals.over();
                }
            }
        }
    }

    fn hear_service(&mut self, i: usize, now: Instant) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(service) = self.services.get_mut(i) else { return };
            match service.hear(now) {
                Heard::Nothing => return,
                Heard::Something => {}
                Heard::Ready => {
                    (0..self.zones.len()).for_each(|zone| self.connect(zone, i));
                }
            }
        }
    }

    /// An app is loaded: connects it to the services that it names and that are there.
    pub(super) fn connect_to_services(&mut self, zone: usize) {
        (0..self.services.len()).for_each(|service| self.connect(zone, service));
    }

    /// Connects an app and a service, if the one names the other and both are there.
    fn connect(&mut self, zone: usize, service: usize) {
        let (zone, service) = (self.zones.get_mut(zone), self.services.get_mut(service));
        let (Some(zone), Some(service)) = (zone, service) else { return };
        if !zone.names(service.kind) || !zone.is_loaded() || !service.is_ready() {
            return;
        }
        let (app, service_name) = (zone.name.as_str(), service.kind.name());
        match Packets::pair() {
            Ok((apps_end, services_end)) => {
                service.admit(zone.client(), &services_end.into_fd());
                zone.give_service(service.kind, &apps_end.into_fd());
            }
            Err(error) => {
                let hint = "start the app again when there are descriptors";
                error!(app, service = service_name, %error, hint, "could not connect them");
            }
        }
    }

    /// Says which rights name apps that do not run, and so grant nothing.
    pub(crate) fn tell_of_idle_rights(idle: &[(String, String)]) {
        for (app, right) in idle {
            warn!(app, right, "the app that this right names does not run: it grants nothing");
        }
    }
}
