//! Connects apps with the apps that provide services: a socket, and the service's table.

use control::operator::{ProgramState, UnservedService};
use control::service::{ClientRights, ServiceClient, ServiceKind, ServiceRequest};
use sdk::services::Service;
use sdk::services::user::HTTP_INTERFACE;
use tracing::warn;

use super::{AppSlot, Programs};
use crate::app::{App, Role};
use crate::effects::{Fd, ProgramId};
use crate::program::Program;
use crate::system::{Sockets, System};
use control::zone::ZoneRequest;

impl Programs {
    /// Connects an app that was loaded with the providers of its services, and with its clients if it provides one.
    pub(super) fn connect_provided(&mut self, slot: AppSlot, system: &dyn System) {
        let Some(app) = self.apps.get(slot.0) else { return };
        let provides = app.provides();
        let mut pairs = Vec::new();
        for (other, peer) in self.apps.iter().enumerate().filter(|(other, _)| *other != slot.0) {
            if peer.provides().is_some_and(|service| app.uses(service)) {
                pairs.push((other, slot.0));
            }
            if provides.is_some_and(|service| peer.uses(service)) {
                pairs.push((slot.0, other));
            }
        }
        let kernel = &self.kernel.program;
        for (provider, client) in pairs {
            if let Ok([provider, client]) = self.apps.get_disjoint_mut([provider, client]) {
                connect(provider, client, kernel, system);
            }
        }
    }

    /// Returns the services that running apps name and whose provider is not there or was stopped by an operator.
    pub fn unserved(&self) -> Vec<UnservedService> {
        let is_stopped =
            |app: &App| app.status(&self.kernel.status()).state == ProgramState::Stopped;
        let current = || self.apps.iter().filter(|app| app.role() == Role::Current);
        let with_table = Service::ALL.into_iter().filter(|it| it.table_slots().is_some());
        let unserved = with_table.filter_map(|service| {
            let provider = current().find(|app| app.provides() == Some(service));
            let verb = match provider {
                None => "enable",
                Some(provider) if is_stopped(provider) => "start",
                Some(_) => return None,
            };
            let clients = current().filter(|app| app.uses(service) && !is_stopped(app));
            let clients: Vec<String> = clients.map(|app| app.name.clone()).collect();
            let remedy = format!("rosemary app {verb} {}", service.name());
            let service = service.name().to_owned();
            (!clients.is_empty()).then_some(UnservedService { service, clients, remedy })
        });
        unserved.collect()
    }

    /// The log service, and the message with which it gets the other end of a connection of an operator, whose user is `uid`.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase.
    pub fn log_for_operator(&self, uid: u32) -> Result<(ProgramId, ServiceRequest), String> {
        self.services.log_for_operator(uid)
    }

    /// The history service, and the message with which it gets the other end of a connection of an operator, whose user is `uid`.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase that says what to do.
    pub fn history_for_operator(&self, uid: u32) -> Result<(ProgramId, ServiceRequest), String> {
        self.services.history_for_operator(uid)
    }

    /// Whether this is the program of the history service.
    pub fn is_history(&self, program: ProgramId) -> bool {
        self.services.is_history(program)
    }

    /// As [`provider_for_operator`](Self::provider_for_operator), for the history service, which may only read.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase that says what to do.
    pub fn provider_for_history(
        &self,
        name: &str,
        system: &dyn System,
    ) -> Result<(ProgramId, ZoneRequest, Fd), String> {
        let right = Service::named(name).and_then(Service::read_right).map(ToOwned::to_owned);
        let names = right.ok_or_else(|| format!("the history does not read a service {name:?}"))?;
        let rights = ClientRights { names: vec![names], ..ClientRights::default() };
        let client = ServiceClient { app: 0, name: ServiceKind::History.name().into(), rights };
        self.provider(name, client, system)
    }

    /// The app that provides the service `name`, the message with which it gets the other end of a connection of an operator, and
    /// the service's table. `user` is the operator's user; `None` for the HTTP interface.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase that says what to do.
    pub fn provider_for_operator(
        &self,
        name: &str,
        user: Option<u32>,
        system: &dyn System,
    ) -> Result<(ProgramId, ZoneRequest, Fd), String> {
        let rights = ClientRights { names: vec!["operator".into()], ..ClientRights::default() };
        // The provider writes it into audit records; only the HTTP interface names the users for whom it acts.
        let client = user.map_or_else(|| HTTP_INTERFACE.to_owned(), |uid| format!("user {uid}"));
        let client = ServiceClient { app: 0, name: client, rights };
        self.provider(name, client, system)
    }

    fn provider(
        &self,
        name: &str,
        client: ServiceClient,
        system: &dyn System,
    ) -> Result<(ProgramId, ZoneRequest, Fd), String> {
        let service = Service::named(name).filter(|service| service.table_slots().is_some());
        let service =
            service.ok_or_else(|| format!("there is no service {name:?} with a table"))?;
        let mut current = self.apps.iter().filter(|app| app.role() == Role::Current);
        let provider = current.find(|app| app.provides() == Some(service)).ok_or_else(|| {
            format!(
                "the service {name} does not run, as no app that runs names it; type `rosemary app enable {name}`, or \
                 name it in `services` of an [[app]]"
            )
        })?;
        let (program, table) = provider.serving(system)?;
        Ok((program.id(), ZoneRequest::Client(client), table))
    }
}

/// Connects each instance of a client with the provider of a service, if both are loaded.
fn connect(provider: &mut App, client: &mut App, kernel: &Program, system: &dyn System) {
    let serve = |app: &App| app.role() == Role::Current && app.instances() > 0;
    let Some(service) = provider.provides() else { return };
    if !serve(provider) || !serve(client) {
        return;
    }
    let mut sockets = Vec::new();
    let mut pair = || {
        let [client_end, provider_end] = system.sockets(Sockets::Plain)?;
        sockets.push(client_end);
        provider.add_client(client.client(), provider_end, system)
    };
    // The table is the same for all instances.
    let tables: Result<Vec<Fd>, String> = (0..client.instances()).map(|_instance| pair()).collect();
    let connected = tables.map(|tables| {
        client.connect_service(service, (sockets, tables.into_iter().next()), kernel);
    });
    if let Err(why) = connected {
        let hint = "restart the app";
        warn!(
            app = client.name,
            service = service.name(),
            why,
            hint,
            "could not connect an app to a service"
        );
    }
}
