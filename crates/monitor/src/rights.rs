//! What each app may ask of services: names in the configuration, numbers for the services.

use control::app::AppId;
use control::service::{ClientRights, Namespace};

use crate::choice::App;
use config::ServiceRight;

/// The rights of each of the apps, in their order; and which of them are void, of whom and which, because
/// they name an app that does not run: its number is not known, and its name may be another's one day.
pub(crate) fn of(apps: &[(AppId, App)]) -> (Vec<ClientRights>, Vec<(String, String)>) {
    let mut idle = Vec::new();
    let rights = apps.iter().map(|(_, app)| {
        let mut rights = ClientRights::default();
        for right in &app.service_rights {
            let (name, write) = match right {
                ServiceRight::StorageRead(name) => (name, false),
                ServiceRight::StorageWrite(name) => (name, true),
                ServiceRight::Connect(host) => {
                    rights.hosts.push(host.clone());
                    continue;
                }
            };
            let Some((number, _)) = apps.iter().find(|(_, other)| other.name == *name) else {
                idle.push((app.name.clone(), right.to_string()));
                continue;
            };
            let known = rights.namespaces.iter().position(|it| it.app == number.0);
            let place = known.unwrap_or_else(|| {
                let namespace =
                    Namespace { name: name.clone(), app: number.0, read: false, write: false };
                rights.namespaces.push(namespace);
                rights.namespaces.len() - 1
            });
            if let Some(namespace) = rights.namespaces.get_mut(place) {
                namespace.read |= !write;
                namespace.write |= write;
            }
        }
        rights
    });
    let rights = rights.collect();
    (rights, idle)
}
