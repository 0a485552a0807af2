//! The services in the loop: which there are, and who is connected to them.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use services::control::{Client, LogRight, Quotas, Rights};
use services::kind::Kind;
use sys::channel::ChannelError;
use sys::packets::Packets;
use tracing::{error, warn};

use super::{House, MESSAGES_PER_TURN, Source};
use crate::choice::App;
use crate::error::StartError;
use crate::journal::{Nonsense, PATIENCE};
use crate::places::Places;
use crate::program::Program;
use crate::reception::OperatorId;
use crate::sandbox::Require;
use crate::service::{Heard, Service};
use crate::supervise::State;
use crate::usage::Keeper;
use crate::users::Users;

/// What the log has for what comes last, before all of us end.
const LAST_LINES: Duration = Duration::from_millis(600);

/// What there is to say of services before they are started.
#[derive(Debug)]
pub(crate) struct Services {
    /// Where they keep what they keep.
    pub(crate) state_dir: PathBuf,
    /// How much of it.
    pub(crate) quotas: Quotas,
}

impl Services {
    /// The log, and those that apps name.
    pub(super) fn needed<'a>(
        &self,
        apps: impl Iterator<Item = &'a App>,
        places: &Places,
        users: Users,
        wall: Option<Require>,
        keeper: &Arc<Keeper>,
    ) -> Result<Vec<Service>, StartError> {
        let named: Vec<_> = apps.flat_map(|app| app.services.iter().copied()).collect();
        let needed = Kind::ALL.into_iter().filter(|kind| match kind {
            Kind::Log => true,
            Kind::ForApps(service) => named.contains(service),
        });
        needed.map(|kind| Service::new(kind, places, users, wall, self, keeper)).collect()
    }
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
        self.end_late_log(now);
        self.journal.tell_lost(now);
        self.journal.attend(now);
        self.stop_log(now);
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
            Source::ServiceRefusal(_) => service.refusals.answer_waiting(now),
            Source::ServiceControl(_) => self.hear_service(i, now),
            _ => {
                self.hear_service(i, now);
                if let Some(service) = self.services.get_mut(i)
                    && service.program.reap(now).is_some()
                {
                    service.ended(now);
                    if service.kind == Kind::Log {
                        self.journal.disconnect();
                    }
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
                Heard::Ready if service.kind == Kind::Log => self.connect_journal(now),
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

    /// An operator's end of a new connection to the log, to read it.
    pub(super) fn connect_operator_to_log(&mut self, id: OperatorId) -> Result<OwnedFd, String> {
        let user = self.reception.uid(id).ok_or("the operator is gone")?;
        let log = self.log().ok_or("there is no log")?;
        log.must_be_ready()?;
        let (ours, theirs) = Packets::pair().map_err(|error| error.to_string())?;
        theirs.refuse_descriptors();
        let client = log_client(format!("operator {user}"), LogRight::Read);
        match log.admit_operator(client, &theirs.into_fd()) {
            Ok(()) => Ok(ours.into_fd()),
            Err(ChannelError::WouldBlock) => {
                Err("too many operators connect to the log; try again in a second".into())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The monitor's end of a new connection to the log, to write to it.
    fn connect_to_log(&mut self) -> Result<Packets, String> {
        let log = self.log().ok_or("there is no log")?;
        log.must_be_ready()?;
        let (ours, theirs) = Packets::pair().map_err(|error| error.to_string())?;
        log.admit(log_client("monitor".into(), LogRight::Write), &theirs.into_fd());
        Ok(ours)
    }

    /// The log is there: what waits goes to it.
    fn connect_journal(&mut self, now: Instant) {
        match self.connect_to_log() {
            Ok(socket) => self.journal.connect(socket, now),
            Err(why) => self.kill_log(&format!("it could not be connected: {why}")),
        }
    }

    /// The log has answered.
    pub(super) fn hear_journal(&mut self, now: Instant) {
        if self.journal.hear(now) == Err(Nonsense) {
            self.journal.disconnect();
            self.kill_log("it answered what was not asked");
        }
    }

    /// Ends a log that hangs.
    fn end_late_log(&mut self, now: Instant) {
        if self.journal.is_late(now) {
            self.hear_journal(now); // its answer may be there, if it was us who were late
        }
        if self.journal.is_late(now) {
            self.journal.disconnect();
            let why = format!("it did not answer in {} s", PATIENCE.as_secs());
            if let Some(log) = self.log() {
                log.program.kill_late(&why);
            }
        }
    }

    fn log(&mut self) -> Option<&mut Service> {
        self.services.iter_mut().find(|service| service.kind == Kind::Log)
    }

    fn kill_log(&mut self, why: &str) {
        if let Some(log) = self.log() {
            log.program.kill(why);
        }
    }

    /// Stops the log behind all others, when it has kept what they said last, or when it gets late.
    fn stop_log(&mut self, now: Instant) {
        let Some(over_at) = self.over_at else { return };
        let alone = self.all_but_log_stopped();
        if alone {
            self.journal.hurry(now);
        }
        let ends = (alone && self.journal.is_done()) || over_at <= now + LAST_LINES;
        let Some(log) = self.log() else { return };
        match log.program.supervision().state() {
            State::Stopping if over_at <= now + LAST_LINES / 2 => {
                log.program.kill("it did not end in time");
            }
            State::Stopped | State::Stopping => {}
            _ if ends => log.stop(now),
            _ => {}
        }
    }

    /// Whether nothing runs, but the log perhaps.
    fn all_but_log_stopped(&self) -> bool {
        let services = self.services.iter().filter(|service| service.kind != Kind::Log);
        let services = services.map(|service| &service.program);
        let mut all = self.zones.iter().map(|zone| &zone.program).chain(services);
        let stopped = |program: &Program| program.supervision().state() == State::Stopped;
        stopped(&self.kernel) && all.all(stopped)
    }

    /// When [`stop_log`](Self::stop_log) has something to do, if nothing happens before.
    pub(super) fn log_due(&self, now: Instant) -> impl Iterator<Item = Instant> {
        let before = [LAST_LINES, LAST_LINES / 2];
        let due = before.into_iter().filter_map(|before| self.over_at?.checked_sub(before));
        due.filter(move |at| now < *at)
    }

    /// Connects an app and a service, if the one names the other and both are there.
    fn connect(&mut self, zone: usize, service: usize) {
        let (zone, service) = (self.zones.get_mut(zone), self.services.get_mut(service));
        let (Some(zone), Some(service)) = (zone, service) else { return };
        let Kind::ForApps(kind) = service.kind else { return };
        if !zone.names(kind) || !zone.is_loaded() || !service.is_ready() {
            return;
        }
        let (app, service_name) = (zone.name.as_str(), service.kind.name());
        match Packets::pair() {
            Ok((apps_end, services_end)) => {
                services_end.refuse_descriptors();
                if kind == sdk::services::Service::Broker
                    && let Err(error) = services_end.send_little_ahead()
                {
                    warn!(app, %error, "could not bound the connections that wait for the app");
                }
                service.admit(zone.client(), &services_end.into_fd());
                zone.give_service(kind, &apps_end.into_fd());
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

/// A client of the log with this right.
fn log_client(name: String, right: LogRight) -> Client {
    Client { app: 0, name, rights: Rights { log: Some(right), ..Rights::default() } }
}
