//! Reads an app's role and its requirements: `role`, `needs` and `allow`.
//!
//! [`set`](super::set) judges by them whether the apps of a configuration fit together.

use control::policy::{Capability, Grant};
use names::Service;

use super::app::AppConfig;
use super::grants;
use super::set::Fault;
use super::value::Table;

/// The part of an app in forwarding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// It decides which packets may pass.
    Guard,
    /// It sends every packet that it handles towards the packet's destination.
    Forwarder,
    /// It has another purpose, or its purpose is unknown.
    #[default]
    Other,
}

/// A requirement of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A file of its own configuration.
    Config,
    /// A service, which it names and whose provider is not disabled.
    Service(Service),
    /// A capability, for some switches at least.
    Capability(Capability),
}

impl Need {
    /// Parses a need as in `app.toml`.
    fn named(text: &str) -> Option<Self> {
        if text == "config" {
            return Some(Self::Config);
        }
        let service = Service::named(text).map(Self::Service);
        service.or_else(|| grants::capability(text).map(Self::Capability))
    }

    /// Whether the settings of the app have it. Whether a service runs depends on other apps.
    pub(super) fn is_met_by(self, app: &AppConfig) -> bool {
        match self {
            Self::Config => app.config.is_some(),
            Self::Service(service) => app.services.contains(&service),
            Self::Capability(needed) => {
                app.capabilities.iter().any(|grant: &Grant| grant.capability == needed)
            }
        }
    }
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config => f.write_str("a file of its own configuration (`config`)"),
            Self::Service(service) => write!(f, "the service {}", service.name()),
            Self::Capability(capability) => write!(f, "the capability {capability}"),
        }
    }
}

/// Reads `role`.
pub(super) fn role(table: &Table<'_>) -> Option<Role> {
    table.read("role", r#""guard", "forwarder" or "other""#, |it| match it.text()? {
        "guard" => Some(Role::Guard),
        "forwarder" => Some(Role::Forwarder),
        "other" => Some(Role::Other),
        _ => None,
    })
}

/// Reads `needs`.
pub(super) fn needs(table: &Table<'_>) -> Option<Vec<Need>> {
    let expected = "\"config\", or the name of a service or of a capability";
    table.list("needs", expected, |it| Need::named(it.text()?))
}

/// Reads `allow`.
pub(super) fn allow(table: &Table<'_>) -> Vec<Fault> {
    let names: Vec<String> = Fault::ALL.iter().map(|it| format!("{:?}", it.name())).collect();
    let allow = table.list("allow", &names.join(", "), |it| Fault::named(it.text()?));
    allow.unwrap_or_default()
}
