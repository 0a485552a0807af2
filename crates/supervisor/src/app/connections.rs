//! Connects an app with the kernel and with services.

use config::SERVE_HTTP;
use control::kernel::KernelRequest;
use control::service::ServiceClient;
use control::zone::ZoneRequest;
use names::Service;

use super::host_state::HostState;
use super::{App, provided};
use crate::effects::Fd;
use crate::program::Program;
use crate::system::System;

impl App {
    /// The request for rings for a loaded zone.
    pub fn attach_request(&mut self) -> Option<KernelRequest> {
        let serves = self.role.serves();
        let zone = self.host.zone_mut().filter(|zone| serves && zone.program.is_running())?;
        zone.rings_requested();
        let (app, name, policy) = (self.id, self.name.clone(), self.policy_in_force());
        Some(KernelRequest::Attach { app, name, policy })
    }

    /// Returns whether the configuration names `service` for the app.
    pub fn uses(&self, service: Service) -> bool {
        self.spec.keys.services.contains(&service)
    }

    /// The app as a client of a service.
    pub fn client(&self) -> ServiceClient {
        ServiceClient { app: self.id.0, name: self.name.clone(), rights: self.spec.rights.clone() }
    }

    /// How many instances of the app are loaded. Each has a socket of its own to a service.
    pub fn instances(&self) -> u16 {
        match &self.host {
            HostState::Kernel(in_kernel) => in_kernel.instances(),
            HostState::Zone { zone, .. } => zone.program.is_running().into(),
        }
    }

    /// The service with a table that the app provides.
    pub fn provides(&self) -> Option<Service> {
        provided(&self.name)
    }

    /// The program that serves the clients of the service, and the service's table.
    ///
    /// # Errors
    /// Why the app cannot serve now, as a phrase.
    pub fn serving(&self, system: &dyn System) -> Result<(&Program, Fd), String> {
        // A table that anybody could write would not be one.
        let table = self.table.as_ref().filter(|table| system.is_table_sealed(table));
        let table = table.ok_or_else(|| format!("{} does not run", self.name))?;
        let program = self.program().filter(|program| program.is_running());
        Ok((program.ok_or("it does not run")?, table.clone()))
    }

    /// Adds a client of the service that the app provides, with the client's socket. Returns the service's table.
    ///
    /// # Errors
    /// Why the app cannot serve now, as a phrase.
    pub fn add_client(
        &self,
        client: ServiceClient,
        socket: Fd,
        system: &dyn System,
    ) -> Result<Fd, String> {
        let (program, table) = self.serving(system)?;
        let lost = "could not connect a client to a service";
        program.send_if_room(ZoneRequest::Client(client), vec![socket], Some(lost));
        Ok(table)
    }

    /// Whether it may publish HTTP routes.
    pub fn serves_http(&self) -> bool {
        self.spec.rights.names.iter().any(|right| right == SERVE_HTTP)
    }

    /// Gives the zone its end of a connection with the HTTP interface.
    ///
    /// # Errors
    /// Why it did not get it, as a phrase.
    pub fn add_http_interface(&mut self, socket: Fd) -> Result<(), String> {
        let program = self.program_mut().filter(|program| program.is_running());
        let program = program.ok_or("it does not run")?;
        let client = ZoneRequest::Client(ServiceClient::http_interface());
        let lost = "could not connect an app to the HTTP interface";
        program.send_if_room(client, vec![socket], Some(lost));
        Ok(())
    }

    /// Gives each instance, in the zone or in `kernel`, its end of a connection to `service`, and the service's table if there is
    /// one.
    pub fn connect_service(
        &mut self,
        service: Service,
        (sockets, table): (Vec<Fd>, Option<Fd>),
        kernel: &Program,
    ) {
        let (app, name) = (self.id, service.name().to_owned());
        let fds = sockets.into_iter().chain(table).collect();
        match self.program() {
            Some(zone) => zone.send(ZoneRequest::Service { name }, fds),
            None => kernel.send(KernelRequest::Service { app, name }, fds),
        }
    }
}

/// The names of services, as messages have them.
pub(super) fn names(services: &[Service]) -> Vec<String> {
    services.iter().map(|it| it.name().to_owned()).collect()
}
