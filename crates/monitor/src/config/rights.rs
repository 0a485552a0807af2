//! Services that an app may use, and rights with them, which services enforce and not the kernel.

use kernel::policy::Capability;
use sdk::services::Service;
use sdk::services::broker::LONGEST_HOST;
use services::control::Host;

use super::app::is_name;
use super::value::{Mistake, Table};

/// An element of `capabilities`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Right {
    /// The kernel enforces it.
    Kernel(Capability),
    /// A service enforces it.
    Service(ServiceRight),
}

/// A right with a service, beyond what is an app's own there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServiceRight {
    /// `storage.read:APP`: read and watch that app's namespace.
    StorageRead(String),
    /// `storage.write:APP`: write in that app's namespace.
    StorageWrite(String),
    /// `net.connect:HOST:PORT`: connections there.
    Connect(Host),
}

/// How these look, for messages.
pub(super) const FORMS: &str = "\"storage.read:APP\", \"storage.write:APP\" (another app's namespace), \
                                \"net.connect:HOST:PORT\"";

impl ServiceRight {
    /// As in the configuration; `None` if it is none of these.
    pub(super) fn named(text: &str) -> Option<Self> {
        let (right, scope) = text.split_once(':')?;
        match right {
            "storage.read" if is_name(scope) => Some(Self::StorageRead(scope.into())),
            "storage.write" if is_name(scope) => Some(Self::StorageWrite(scope.into())),
            "net.connect" => {
                let (name, port) = scope.rsplit_once(':')?;
                let port = port.parse().ok().filter(|port| *port != 0)?;
                let fits = (1..=LONGEST_HOST).contains(&name.len());
                let plain =
                    name.bytes().all(|it| it.is_ascii_alphanumeric() || b".-:_".contains(&it));
                (fits && plain).then(|| Self::Connect(Host { name: name.into(), port }))
            }
            _ => None,
        }
    }

    /// The service that it is about.
    pub fn service(&self) -> Service {
        match self {
            Self::StorageRead(_) | Self::StorageWrite(_) => Service::Storage,
            Self::Connect(_) => Service::Broker,
        }
    }
}

impl std::fmt::Display for ServiceRight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StorageRead(app) => write!(f, "storage.read:{app}"),
            Self::StorageWrite(app) => write!(f, "storage.write:{app}"),
            Self::Connect(Host { name, port }) => write!(f, "net.connect:{name}:{port}"),
        }
    }
}

/// The services that `table` names; that they go together with its host and its rights.
pub(super) fn services(
    table: Table<'_>,
    in_kernel: bool,
    rights: &[ServiceRight],
) -> Result<Vec<Service>, Mistake> {
    let named =
        table.list("services", "\"storage\" or \"broker\"", |it| Service::named(it.text()?))?;
    let mut services = named.unwrap_or_default();
    services.sort_unstable();
    services.dedup();
    if in_kernel && !services.is_empty() {
        let at = table.get("services").map_or(table.at, |it| it.at);
        return Err(Mistake::new(at, IN_KERNEL));
    }
    if let Some(right) = rights.iter().find(|right| !services.contains(&right.service())) {
        let at = table.get("capabilities").map_or(table.at, |it| it.at);
        let service = right.service();
        let what = format!(
            "{right} is a right with the service {service}; add services = [\"{service}\"]"
        );
        return Err(Mistake::new(at, what));
    }
    Ok(services)
}

/// Why an app in the kernel has none.
pub(crate) const IN_KERNEL: &str = "apps in the kernel reach no services; run it with host = \"user\", or leave \
                                    `services` out";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_understood_and_written_the_same_way() {
        for text in [
            "storage.read:firewall",
            "storage.write:learning-switch",
            "net.connect:example.org:443",
            "net.connect:192.0.2.1:80",
            "net.connect:2001:db8::1:80",
        ] {
            assert_eq!(ServiceRight::named(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_right_is_none() {
        for text in [
            "storage.read",
            "storage.read:",
            "storage.read:../x",
            "storage.erase:x",
            "net.connect:example.org",
            "net.connect::80",
            "net.connect:a b:80",
            "net.connect:example.org:0",
            "net.connect:example.org:65536",
            "net.connect:example.org:http",
        ] {
            assert_eq!(ServiceRight::named(text), None, "{text}");
        }
    }
}
