//! Reads an app's grants: capabilities, which the kernel enforces; files, which its sandbox makes visible; services
//! and rights in them, which the services enforce.

use std::path::{Path, PathBuf};

use control::hosting::Hosting;
use control::policy::{Capability, Grant};
use control::service::{Destination, OVSDB_WRITE, OvsdbRight};
use names::{LONGEST_HOST, Service};

use super::value::{Table, Value};
use super::words::is_name;
use super::{fs_read, grants};

/// An element of `capabilities`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Right {
    /// The kernel enforces them.
    Kernel(Vec<Grant>),
    /// The sandbox makes it visible.
    Read(PathBuf),
    /// A service enforces it.
    Service(ServiceRight),
}

/// A right in a service beyond an app's own data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServiceRight {
    /// `storage.read:APP`: read and watch that app's namespace.
    StorageRead(String),
    /// `storage.write:APP`: write in that app's namespace.
    StorageWrite(String),
    /// `net.connect:HOST:PORT`: connections there.
    Connect(Destination),
    /// `apps.limit:APP`: throttle or suspend that app.
    LimitApp(String),
    /// A right without a scope, such as `topology.read`.
    Provided(Service, &'static str),
    /// `ovsdb.write:DATABASE:BRIDGE:TABLE`: own rows of this table.
    OvsdbWrite(OvsdbRight),
    /// `http.serve`: publish HTTP routes. The monitor connects the app with the HTTP interface.
    ServeHttp,
}

/// The name of [`ServiceRight::ServeHttp`].
pub const SERVE_HTTP: &str = "http.serve";

/// The rights without a scope, with the service.
const PROVIDED: [(&str, Service); 5] = [
    ("topology.read", Service::Topology),
    ("topology.drain", Service::Topology),
    ("hosts.read", Service::Hosts),
    ("apps.read", Service::Apps),
    ("ovsdb.read", Service::Ovsdb),
];

/// Describes the valid forms, for error messages.
pub(super) const FORMS: &str = "\"topology.read\", \"topology.drain\", \"hosts.read\", \"apps.read\", \"apps.limit:APP\", \"storage.read:APP\", \"storage.write:APP\" (another app's namespace), \
                                \"net.connect:HOST:PORT\", \"http.serve\", \"ovsdb.read\", \"ovsdb.write:DATABASE:BRIDGE:TABLE\"";

impl ServiceRight {
    /// Parses a right as in the configuration; `None` if it has none of these forms.
    pub(super) fn named(text: &str) -> Option<Self> {
        if let Some((right, service)) = PROVIDED.iter().find(|(right, _)| *right == text) {
            return Some(Self::Provided(*service, right));
        }
        if text == SERVE_HTTP {
            return Some(Self::ServeHttp);
        }
        let (right, scope) = text.split_once(':')?;
        match right {
            "storage.read" if is_name(scope) => Some(Self::StorageRead(scope.into())),
            "apps.limit" if is_name(scope) => Some(Self::LimitApp(scope.into())),
            OVSDB_WRITE => OvsdbRight::of_scope(scope).map(Self::OvsdbWrite),
            "storage.write" if is_name(scope) => Some(Self::StorageWrite(scope.into())),
            "net.connect" => {
                let (name, port) = scope.rsplit_once(':')?;
                let port = port.parse().ok().filter(|port| *port != 0)?;
                let fits = (1..=LONGEST_HOST).contains(&name.len());
                let plain =
                    name.bytes().all(|it| it.is_ascii_alphanumeric() || b".-:_".contains(&it));
                (fits && plain).then(|| Self::Connect(Destination { name: name.into(), port }))
            }
            _ => None,
        }
    }

    /// Whether `most` grants all of this.
    fn is_within(&self, most: &Self) -> bool {
        match (self, most) {
            (Self::OvsdbWrite(right), Self::OvsdbWrite(most)) => right.is_within(most),
            _ => self == most,
        }
    }

    /// Returns the service of this right, which the app must name, too; `None` if it is in no such service.
    pub fn service(&self) -> Option<Service> {
        Some(match self {
            Self::StorageRead(_) | Self::StorageWrite(_) => Service::Storage,
            Self::Connect(_) => Service::Broker,
            Self::LimitApp(_) => Service::Apps,
            Self::Provided(service, _) => *service,
            Self::OvsdbWrite(_) => Service::Ovsdb,
            Self::ServeHttp => return None,
        })
    }
}

impl std::fmt::Display for ServiceRight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StorageRead(app) => write!(f, "storage.read:{app}"),
            Self::StorageWrite(app) => write!(f, "storage.write:{app}"),
            Self::Connect(Destination { name, port }) => write!(f, "net.connect:{name}:{port}"),
            Self::LimitApp(app) => write!(f, "apps.limit:{app}"),
            Self::Provided(_, right) => f.write_str(right),
            Self::OvsdbWrite(right) => right.fmt(f),
            Self::ServeHttp => f.write_str(SERVE_HTTP),
        }
    }
}

/// The grants of an app.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// Capabilities, which the kernel enforces.
    pub capabilities: Vec<Grant>,
    /// Files and directories that its sandbox makes visible.
    pub read: Vec<PathBuf>,
    /// The services that it may use.
    pub services: Vec<Service>,
    /// Rights, which the services enforce.
    pub service_rights: Vec<ServiceRight>,
}

impl Granted {
    /// Returns the grants that `most` does not contain.
    pub(super) fn beyond(&self, most: &Self) -> Self {
        let mut beyond = self.clone();
        beyond.capabilities.retain(|it| !it.is_within(&most.capabilities));
        // A granted path includes everything below it, but not the targets of links there.
        let within = |path: &Path, granted: &Path| {
            path.starts_with(granted) && fs_read::real(path).starts_with(fs_read::real(granted))
        };
        beyond.read.retain(|path| !most.read.iter().any(|granted| within(path, granted)));
        beyond.services.retain(|it| !most.services.contains(it));
        beyond
            .service_rights
            .retain(|it| !most.service_rights.iter().any(|most| it.is_within(most)));
        beyond
    }

    /// Returns the elements of `capabilities` for these grants.
    pub fn names(&self) -> Vec<String> {
        let names = self.capabilities.iter().map(ToString::to_string);
        let paths = self.read.iter().map(|path| format!("fs.read:{}", path.display()));
        names.chain(paths).chain(self.service_rights.iter().map(ToString::to_string)).collect()
    }

    /// Returns the capability that a client of `service` needs, if it is not granted.
    fn lacks(&self, service: Service) -> Option<&'static str> {
        let right = service.read_right()?;
        let is_granted = self.names().iter().any(|name| name == right);
        (!is_granted).then_some(right)
    }

    /// Returns the elements of `services`.
    pub fn service_names(&self) -> Vec<String> {
        self.services.iter().map(ToString::to_string).collect()
    }
}

/// Reads the grants of `table` to an app with this hosting; `default` has the values of missing keys. Adds a notice if the
/// list `capabilities` lacks `packet-in`, which is granted nevertheless: lists of earlier versions do not have it.
pub(super) fn read(table: Table<'_>, host: Hosting, default: Granted) -> Granted {
    let before = table.findings.count();
    let mut granted = default;
    if let Some(value) = table.get("capabilities") {
        let mut listed = listed(&value);
        if is_packet_in_implied(&listed) {
            value.advise(without_packet_in(&listed));
            listed.capabilities.insert(0, Capability::PacketIn.into());
        }
        granted = Granted { services: granted.services, ..listed };
    }
    let named =
        "\"storage\", \"broker\", \"topology\", \"hosts\", \"stats\", \"apps\" or \"ovsdb\"";
    let for_apps = |it: &Value<'_>| Service::named(it.text()?).filter(|it| it.is_for_apps());
    if let Some(mut services) = table.list("services", named, for_apps) {
        services.sort_unstable();
        services.dedup();
        granted.services = services;
    }
    if table.findings.count() == before {
        compare(&table, host, &granted);
    }
    granted
}

/// Refuses grants that an app with this hosting cannot have, or not without others.
fn compare(table: &Table<'_>, host: Hosting, granted: &Granted) {
    let Granted { read, services, service_rights, .. } = granted;
    let refuse = |key, what| {
        table.findings.refuse(table.get(key).map_or(table.at, |it| it.at), what);
    };
    if host.is_in_kernel()
        && let Some(why) = only_in_a_zone(read, service_rights)
    {
        refuse("capabilities", why.to_owned());
    }
    for right in service_rights {
        if let Some(service) = right.service().filter(|service| !services.contains(service)) {
            refuse(
                "capabilities",
                format!(
                    "{right} is a right with the service {service}; add services = [\"{service}\"]"
                ),
            );
        }
    }
    for service in services {
        if let Some(right) = granted.lacks(*service) {
            refuse(
                "services",
                format!(
                    "the service {service} needs the capability {right}; add \"{right}\" to capabilities"
                ),
            );
        }
    }
}

/// The notice that a list of capabilities lacks `packet-in`, with the list to replace it by.
fn without_packet_in(granted: &Granted) -> String {
    let listed = [Capability::PacketIn.into()].into_iter().chain(granted.capabilities.clone());
    let listed = listed.map(|grant: Grant| grant.toml());
    let others = Granted { capabilities: Vec::new(), ..granted.clone() }.names();
    let listed: Vec<String> = listed.chain(others.iter().map(|it| format!("{it:?}"))).collect();
    format!(
        "capabilities lacks \"packet-in\", without which an app of the next version receives no packets; replace it by \
         capabilities = [{}]",
        listed.join(", ")
    )
}

fn is_packet_in_implied(granted: &Granted) -> bool {
    !granted.capabilities.iter().any(|grant| grant.capability == Capability::PacketIn)
}

/// Reads the elements of a list of capabilities. Leaves out what it refuses.
fn listed(value: &Value<'_>) -> Granted {
    let forms = format!("{}, {}, {FORMS}", grants::known(), fs_read::FORM);
    let mut granted = Granted::default();
    let Some(elements) = value.elements() else {
        value.refuse(&format!("a list in brackets; each element: {forms}"));
        return granted;
    };
    for element in elements {
        match right(&element, &forms) {
            Some(Right::Kernel(grants)) => granted.capabilities.extend(grants),
            Some(Right::Read(path)) => granted.read.push(path),
            Some(Right::Service(right)) => granted.service_rights.push(right),
            None => {}
        }
    }
    granted
}

fn right(value: &Value<'_>, forms: &str) -> Option<Right> {
    if value.is_table() {
        return grants::scoped(value).map(Right::Kernel);
    }
    value.read(forms, |it| {
        let text = it.text()?;
        let read = || fs_read::path_of(text).map(Right::Read);
        let service = || ServiceRight::named(text).map(Right::Service);
        let capability = grants::capability(text);
        let capability = capability.map(|it| Right::Kernel(vec![it.into()]));
        capability.or_else(read).or_else(service)
    })
}

/// Returns why an app with these grants cannot run in the kernel, if so.
pub(super) fn only_in_a_zone(
    read: &[PathBuf],
    service_rights: &[ServiceRight],
) -> Option<&'static str> {
    if !read.is_empty() {
        return Some(FILES_IN_KERNEL);
    }
    service_rights.contains(&ServiceRight::ServeHttp).then_some(HTTP_IN_KERNEL)
}

/// Why an app in the kernel can publish no routes, with the remedy.
const HTTP_IN_KERNEL: &str = "an app in the kernel can publish no HTTP routes, as clients would then reach the kernel; run it \
                              with host = \"user\", or remove http.serve";

/// Why an app in the kernel can have no files, with the remedy.
const FILES_IN_KERNEL: &str = "an app in the kernel can read no files, as the kernel opens nothing; run it with \
                                    host = \"user\", or remove fs.read";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_parse_and_print_alike() {
        for text in [
            "topology.read",
            "topology.drain",
            "hosts.read",
            "apps.read",
            "apps.limit:bulk",
            "storage.read:firewall",
            "storage.write:learning-switch",
            "net.connect:example.org:443",
            "net.connect:192.0.2.1:80",
            "net.connect:2001:db8::1:80",
            "http.serve",
            "ovsdb.read",
            "ovsdb.write:edge-1:br0:QoS",
            "ovsdb.write:*:*:Port.qos",
        ] {
            assert_eq!(ServiceRight::named(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_rights_are_refused() {
        for text in [
            "apps.limit",
            "apps.limit:",
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
            "http.serve:80",
            "http",
            "ovsdb.read:edge-1",
            "ovsdb.write",
            "ovsdb.write:edge-1",
            "ovsdb.write:edge-1:br0:*",
        ] {
            assert_eq!(ServiceRight::named(text), None, "{text}");
        }
    }
}
