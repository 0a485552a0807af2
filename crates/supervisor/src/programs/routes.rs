//! Connects apps that publish HTTP routes with the HTTP interface.

use tracing::warn;

use super::{AppSlot, Programs};
use crate::app::{App, Role};
use crate::interface::Northbound;
use crate::system::{Sockets, System};

impl Programs {
    /// Connects an app with the HTTP interface, if the app may publish routes and both run. Called when either becomes ready; the
    /// connection of an earlier process ends with that process.
    pub(super) fn connect_routes(&mut self, slot: AppSlot, system: &dyn System) {
        let Some(northbound) = self.northbound.as_mut().filter(|it| it.is_ready()) else { return };
        let Some(app) = self.apps.get_mut(slot.0) else { return };
        if app.serves_http() && app.role() == Role::Current && app.is_loaded() {
            connect(app, northbound, system);
        }
    }

    /// The address at which the routes of the app are served, if it may publish some.
    pub(super) fn address_of_routes(&self, name: &str) -> Option<String> {
        self.app_named(name).ok().filter(|app| app.serves_http())?;
        let address = self.northbound.as_ref()?.app_routes()?;
        Some(format!("http://{address}/apps/{name}/"))
    }
}

fn connect(app: &mut App, northbound: &mut Northbound, system: &dyn System) {
    let connected = system.sockets(Sockets::Plain).and_then(|[of_app, of_northbound]| {
        app.add_http_interface(of_app)?;
        northbound.connect_app(&app.name, of_northbound);
        Ok(())
    });
    if let Err(why) = connected {
        let hint = "restart the app";
        warn!(app = app.name, why, hint, "could not connect an app to the HTTP interface");
    }
}
