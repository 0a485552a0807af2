//! Reads an `[[app]]` of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use control::hosting::Hosting;
use control::log::LogLevel;
use control::policy::{Band, Capability, Fail, Filter, Grant, Quota, Stage};
use names::{Limit, Service};

use super::environment::{self, Environment};
use super::hosting::{self, HostKeys};
use super::limits::Limits;
use super::rights::{self, Granted, ServiceRight};
use super::role::{self, Need, Role};
use super::set::Fault;
use super::shipped;
use super::supervision::{RESTART_KEYS, RestartKeys};
use super::value::{Table, Value};
use super::words::{DPIDS, NAME_FORM, dpid, is_name, path};

/// The keys of an `[[app]]`.
pub const APP_KEYS: [&str; 26] = [
    "name",
    "object",
    "config",
    "host",
    "session",
    "enabled",
    "stage",
    "fail",
    "role",
    "allow",
    "ethertypes",
    "dpids",
    "band",
    "capabilities",
    "flows",
    "pace",
    "services",
    "limits",
    "env",
    "hang-seconds",
    "restart",
    "on-stop",
    "log-level",
    "python-path",
    "options",
    "listen",
];

/// Highest pace. No switch takes more flow-mods per second.
pub(crate) const MOST_PACE: u32 = 1_000_000;

/// The apps of manifests, by name.
pub type Manifests = BTreeMap<String, AppConfig>;

/// The operator's settings of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppConfig {
    /// Its name.
    pub name: String,
    /// Its object's file; `None` to find it by its name.
    pub object: Option<PathBuf>,
    /// The file of its configuration, if it has one.
    pub config: Option<PathBuf>,
    /// What hosts it.
    pub host: Hosting,
    /// The session to which it belongs; `None` for best effort.
    pub session: Option<String>,
    /// Whether it runs.
    pub enabled: bool,
    /// The stage in which it receives packets.
    pub stage: Stage,
    /// Its part in forwarding.
    pub role: Role,
    /// Its requirements.
    pub needs: Vec<Need>,
    /// The faults of the set of apps that the operator accepts for this app.
    pub allow: Vec<Fault>,
    /// The packet-ins that it receives.
    pub filter: Filter,
    /// The priorities of its flows, if the operator sets them.
    pub band: Option<Band>,
    /// Its capabilities and their scopes.
    pub capabilities: Vec<Grant>,
    /// Files and directories of the machine that it may read.
    pub read: Vec<PathBuf>,
    /// Maximum number of flows that it may have in each switch.
    pub flows: u32,
    /// Most flow-mods per second that each switch receives from it, if it is paced.
    pub pace: Option<u32>,
    /// The services that it may use.
    pub services: Vec<Service>,
    /// Its rights in these services beyond its own data.
    pub service_rights: Vec<ServiceRight>,
    /// Its resource limits.
    pub limits: Limits,
    /// Environment variables of its process; none in the kernel.
    pub env: Environment,
    /// Processor time that one of its calls may use; `None` for the setting of `[zones]`.
    pub hang: Option<Duration>,
    /// When it is restarted and held, where this differs from `[supervision]`.
    pub restart: RestartKeys,
    /// What becomes of its flows, groups and meters when it is stopped.
    pub on_stop: OnStop,
    /// The level of its log; `None` for that of Rosemary.
    pub log_level: Option<LogLevel>,
    /// Its settings that only some hostings have.
    pub host_keys: HostKeys,
    /// Byte offset of its band in the file, otherwise of its table.
    pub(super) at: usize,
    /// Byte offset of its session in the file; 0 if it names none.
    pub(super) session_at: usize,
}

impl AppConfig {
    /// Returns the settings of an app of this name that the file does not contain.
    pub fn named(name: &str) -> Self {
        shipped::settings(name).unwrap_or_else(|| Self::defaults(name))
    }

    /// Returns the defaults of every app: a control app that receives every packet and may send packets and write flows.
    pub fn defaults(name: &str) -> Self {
        Self {
            name: name.into(),
            object: None,
            config: None,
            host: Hosting::default(),
            session: None,
            enabled: true,
            stage: Stage::Control,
            role: Role::default(),
            needs: Vec::new(),
            allow: Vec::new(),
            filter: Filter::default(),
            band: None,
            capabilities: default_capabilities(Stage::Control, Hosting::default()),
            read: Vec::new(),
            flows: u32::MAX,
            pace: None,
            services: Vec::new(),
            service_rights: Vec::new(),
            limits: Limits::default(),
            env: Environment::new(),
            hang: None,
            restart: RestartKeys::default(),
            on_stop: OnStop::default(),
            log_level: None,
            host_keys: HostKeys::default(),
            at: 0,
            session_at: 0,
        }
    }

    /// Returns the defaults of an app with this hosting that the file does not contain.
    pub fn hosted_by(name: &str, host: Hosting) -> Self {
        let capabilities = default_capabilities(Stage::Control, host);
        Self { host, capabilities, ..Self::defaults(name) }
    }

    /// Returns the same settings without their place in a file, so that equal ones compare as equal.
    #[must_use]
    pub fn without_place(self) -> Self {
        Self { at: 0, session_at: 0, ..self }
    }

    /// Returns the messages that it may send per second.
    pub(super) fn quota(&self) -> Quota {
        let most = |limit| u32::try_from(self.limits.of(limit).hard).unwrap_or(u32::MAX);
        Quota {
            flow_mods: most(Limit::FlowMods),
            packet_outs: most(Limit::PacketOuts),
            requests: most(Limit::Requests),
        }
    }

    /// Whether it may change flows, and so needs priorities.
    pub(super) fn writes_flows(&self) -> bool {
        let writes = [Capability::FlowWrite, Capability::FlowWriteAny];
        self.capabilities.iter().any(|grant| writes.contains(&grant.capability))
    }

    /// Returns all its grants.
    pub fn granted(&self) -> Granted {
        Granted {
            capabilities: self.capabilities.clone(),
            read: self.read.clone(),
            services: self.services.clone(),
            service_rights: self.service_rights.clone(),
        }
    }

    /// Returns why it cannot run in the kernel, if it has grants that only a zone can have.
    pub fn needs_a_zone(&self) -> Option<&'static str> {
        rights::only_in_a_zone(&self.read, &self.service_rights)
    }

    /// Returns the number of elements in all its lists.
    pub(super) fn elements(&self) -> usize {
        let scopes = self.capabilities.iter().map(|it| 1 + it.dpids.len() + it.tables.len());
        let rights = scopes.sum::<usize>() + self.read.len() + self.service_rights.len();
        self.filter.ethertypes.len() + self.filter.dpids.len() + rights
    }

    /// Reads the settings of an app from `table`. Missing keys have the values of the app's manifest, or else the
    /// defaults. Returns `None` if it has no valid name.
    pub(super) fn read(table: Table<'_>, base: &Manifests) -> Option<Self> {
        let valid_name = table.read("name", NAME_FORM, |it| it.text().filter(|name| is_name(name)));
        if table.get("name").is_none() {
            let what = format!("an [[app]] without a name; expected name = {NAME_FORM}");
            table.findings.refuse(table.at, what);
        }
        let name = valid_name.unwrap_or_default(); // the other keys are read nevertheless
        let mut object = table.read("object", "the path of a file", path);
        let (host, host_keys) = hosting::read(&table, &mut object);
        // A bare file of the operator is not the app that ships under this name, which is a shared object.
        let is_shipped = object.is_none() && host.extension.is_none();
        let shipped = shipped::settings(name).filter(|_| is_shipped);
        let manifest = base.get(name).or(shipped.as_ref());
        let default = manifest.cloned().unwrap_or_else(|| Self::defaults(name));
        let stage = stage(table, default.stage);
        let band = table.read(
            "band",
            "[LOWEST, HIGHEST], two priorities from 1 to 65535, the lower one first",
            band,
        );
        let granted = match manifest {
            Some(manifest) => manifest.granted(),
            None => {
                Granted { capabilities: default_capabilities(stage, host), ..Granted::default() }
            }
        };
        let granted = rights::read(table, host, granted);
        let Granted { capabilities, read, services, service_rights } = granted;
        let limits = table.get("limits").map(|it| Limits::read(it, &default.limits));
        let app = Self {
            object,
            config: table.read("config", "the path of a file", path),
            host,
            host_keys,
            session: session(table),
            enabled: table.read("enabled", "true or false", Value::boolean).unwrap_or(true),
            stage,
            role: role::role(&table).unwrap_or(default.role),
            needs: role::needs(&table).unwrap_or(default.needs),
            allow: role::allow(&table),
            filter: filter(table, default.filter),
            band,
            capabilities,
            read,
            flows: table
                .read("flows", &format!("a number of flows, 0 to {}", u32::MAX), |it| {
                    u32::try_from(it.number()?).ok()
                })
                .unwrap_or(u32::MAX),
            pace: pace(table),
            services,
            service_rights,
            limits: limits.unwrap_or(default.limits),
            env: environment::read(&table, host),
            hang: hang(table),
            on_stop: on_stop(table),
            log_level: log_level(table),
            restart: RestartKeys::read_at(&table, "restart", "restart", &RESTART_KEYS),
            session_at: table.get("session").map_or(0, |it| it.at),
            at: table.get("band").map_or(table.at, |it| it.at),
            name: name.into(),
        };
        valid_name.is_some().then_some(app)
    }
}

/// What becomes of an app's flows, groups and meters when an operator stops or disables it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnStop {
    /// They stay in the switches.
    #[default]
    Keep,
    /// They are removed from the switches.
    Remove,
}

fn on_stop(table: Table<'_>) -> OnStop {
    let on_stop = table.read("on-stop", r#""keep" or "remove""#, |it| match it.text()? {
        "keep" => Some(OnStop::Keep),
        "remove" => Some(OnStop::Remove),
        _ => None,
    });
    on_stop.unwrap_or_default()
}

/// Reads `session`. Whether the session exists is known when all tables were read.
fn session(table: Table<'_>) -> Option<String> {
    let name =
        table.read("session", "the name of a session", |it| it.text().filter(|it| is_name(it)));
    name.map(str::to_owned)
}

/// Reads `pace`.
fn pace(table: Table<'_>) -> Option<u32> {
    let expected = format!("flow-mods per second for each switch, 1 to {MOST_PACE}");
    table.read("pace", &expected, |it| {
        u32::try_from(it.number()?).ok().filter(|pace| (1..=MOST_PACE).contains(pace))
    })
}

fn log_level(table: Table<'_>) -> Option<LogLevel> {
    table.read("log-level", r#""error", "warn", "info" or "debug""#, |it| {
        LogLevel::named(it.text()?)
    })
}

/// Reads `hang-seconds`, which exists for one app and for all apps.
pub(super) fn hang(table: Table<'_>) -> Option<Duration> {
    table.read("hang-seconds", "seconds of processor time, 1 to 3600", |it| {
        it.number().filter(|seconds| (1..=3600).contains(seconds)).map(Duration::from_secs)
    })
}

/// Returns the capabilities of a stage for which the configuration lists none.
fn default_capabilities(stage: Stage, host: Hosting) -> Vec<Grant> {
    Grant::unscoped(match stage {
        Stage::Guard(_) | Stage::Control => host.capabilities,
        Stage::Observe => host.capabilities_of_observers,
    })
}

fn stage(table: Table<'_>, default: Stage) -> Stage {
    let stage =
        table.read("stage", r#""guard", "control" or "observe""#, |it| match it.text()? {
            "guard" => Some(Stage::Guard(Fail::Closed)),
            "control" => Some(Stage::Control),
            "observe" => Some(Stage::Observe),
            _ => None,
        });
    let fail = table.read("fail", r#""open" or "closed""#, |it| match it.text()? {
        "open" => Some(Fail::Open),
        "closed" => Some(Fail::Closed),
        _ => None,
    });
    let is_refused = table.is_refused("stage", stage.as_ref());
    match (stage.unwrap_or(default), fail) {
        (Stage::Guard(_), Some(fail)) => Stage::Guard(fail),
        (stage, Some(_)) if !is_refused => {
            table.get("fail").expect("it was read").refuse_as(
                "fail decides about packets while a guard does not answer, and this app is no guard; \
                 leave it out, or say stage = \"guard\"",
            );
            stage
        }
        (stage, _) => stage,
    }
}

fn filter(table: Table<'_>, default: Filter) -> Filter {
    let expected = "ethertypes from 0x0600 to 0xffff, such as 0x0806 for ARP";
    let ethertypes = table.list("ethertypes", expected, |it| {
        u16::try_from(it.number()?).ok().filter(|ethertype| *ethertype >= 0x600)
    });
    let dpids = table.list("dpids", DPIDS, dpid);
    for (key, len) in [
        ("ethertypes", ethertypes.as_ref().map_or(1, Vec::len)),
        ("dpids", dpids.as_ref().map_or(1, Vec::len)),
    ] {
        if let Some(list) = table.get(key).filter(|_| len == 0) {
            list.refuse_as(format!("{key} is an empty list; remove the key to select all"));
        }
    }
    Filter {
        ethertypes: ethertypes.unwrap_or(default.ethertypes),
        dpids: dpids.unwrap_or(default.dpids),
    }
}

fn band(value: &Value<'_>) -> Option<Band> {
    let [lowest, highest] = <[Value<'_>; 2]>::try_from(value.elements()?).ok()?;
    let priority = |it: Value<'_>| u16::try_from(it.number()?).ok();
    let (lowest, highest) = (priority(lowest)?, priority(highest)?);
    (1 <= lowest && lowest <= highest).then_some(Band { lowest, highest })
}
