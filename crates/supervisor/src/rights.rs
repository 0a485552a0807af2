//! Translates the apps' rights in services from names of apps to their numbers.

use control::app::AppId;
use control::policy::{Capability, Grant};
use control::service::{ClientRights, Namespace};

use config::ServiceRight;

use crate::spec::AppSpec;

/// Returns the rights of each app, in the order of `apps`, and the ignored rights: pairs of an app and the right.
///
/// A right is ignored if it names an app that does not run. The number of that app is unknown, and another app may
/// have its name one day.
pub fn of(apps: &[(AppId, &AppSpec)]) -> (Vec<ClientRights>, Vec<(String, String)>) {
    let mut ignored = Vec::new();
    let rights = apps.iter().map(|(_, app)| {
        let mut rights = ClientRights::default();
        // The kernel enforces it, and a service does too.
        let reads_stats = |grant: &Grant| grant.capability == Capability::StatsRead;
        if app.policy.capabilities.iter().any(reads_stats) {
            rights.names.push(Capability::StatsRead.to_string());
        }
        for right in &app.keys.service_rights {
            let (name, write) = match right {
                ServiceRight::StorageRead(name) => (name, false),
                ServiceRight::StorageWrite(name) => (name, true),
                ServiceRight::Provided(_, name) => {
                    rights.names.push((*name).to_owned());
                    continue;
                }
                ServiceRight::LimitApp(_) | ServiceRight::ServeHttp => {
                    rights.names.push(right.to_string());
                    continue;
                }
                ServiceRight::OvsdbWrite(right) => {
                    rights.ovsdb.push(right.clone());
                    continue;
                }
                ServiceRight::Connect(host) => {
                    rights.hosts.push(host.clone());
                    continue;
                }
            };
            let Some((number, _)) = apps.iter().find(|(_, other)| other.name() == name) else {
                ignored.push((app.name().to_owned(), right.to_string()));
                continue;
            };
            let known = rights.namespaces.iter().position(|it| it.app == number.0);
            let index = known.unwrap_or_else(|| {
                let namespace =
                    Namespace { name: name.clone(), app: number.0, read: false, write: false };
                rights.namespaces.push(namespace);
                rights.namespaces.len() - 1
            });
            if let Some(namespace) = rights.namespaces.get_mut(index) {
                namespace.read |= !write;
                namespace.write |= write;
            }
        }
        rights
    });
    let rights = rights.collect();
    (rights, ignored)
}
