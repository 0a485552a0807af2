//! Connects apps with the apps that provide services: a socket, and the service's table.

use control::operator::{ProgramState, UnservedService};
use control::service::{ClientRights, ServiceClient};
use sdk::services::Service;
use sdk::services::user::HTTP_INTERFACE;
use sys::packets::Packets;
use tracing::warn;

use super::{AppSlot, ProcessTable};
use crate::processes::Processes;
use control::zone::ZoneRequest;
use std::os::fd::AsFd as _;
use supervisor::app::{App, Role};
use supervisor::effects::Fd;
use supervisor::program::Program;
use supervisor::system::System;

impl ProcessTable {
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
    pub(crate) fn unserved(&self) -> Vec<UnservedService> {
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

    /// Connects an operator, whose user is `uid`, to the service `name` that an app provides. Returns the operator's socket
    /// and the service's table.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase that says what to do.
    pub(crate) fn connect_operator(
        &self,
        name: &str,
        user: Option<u32>,
        processes: &Processes,
    ) -> Result<[Fd; 2], String> {
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
        let (ours, theirs) = Packets::pair().map_err(|error| error.to_string())?;
        let rights = ClientRights { names: vec!["operator".into()], ..ClientRights::default() };
        // The provider writes it into audit records; only the HTTP interface names the users for whom it acts.
        let client = user.map_or_else(|| HTTP_INTERFACE.to_owned(), |uid| format!("user {uid}"));
        let client = ServiceClient { app: 0, name: client, rights };
        let (program, table) = provider.serving(processes)?;
        let request = ZoneRequest::Client(client);
        // An operator may connect as often as it likes, which is no reason to kill the zone.
        let sent = processes.send_for_operator(program.id(), request, &[theirs.into_fd().as_fd()]);
        sent.map_err(|error| error.to_string())?;
        Ok([ours.into_fd().into(), table])
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
        let (client_end, provider_end) = Packets::pair().map_err(|error| error.to_string())?;
        sockets.push(client_end.into_fd().into());
        provider.add_client(client.client(), provider_end.into_fd().into(), system)
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
