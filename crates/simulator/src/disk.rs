//! The invented disk: configurations, packages, objects, and decisions of operators, with faults.
//!
//! `disk/confirmations.rs` keeps the history of the configuration, `disk/deployment.rs` serves changes, `disk/sources.rs` the kernel, the HTTP interface and apps.

mod confirmations;
mod deployment;
mod sources;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use config::{AppConfig, Config, Limits, OnStop, SERVE_HTTP};
use control::app::AppId;
use control::hosting::Hosting;
use control::log::LogLevel;
use control::policy::{Fail, Stage};
use control::service::{ClientRights, ServiceKind, ServiceQuotas, ServiceSandbox};
use control::zone::GuestSettings;
use names::Service;
use supervisor::app::{App, Guest, Launch, Listeners, NoListeners};
use supervisor::change::deployment::{Plan, Version};
use supervisor::change::history::Configuration;
use supervisor::effects::{Effects, Fd};
use supervisor::hang::DEFAULT_LONGEST_CALL;
use supervisor::incidents::Incidents;
use supervisor::services::ServiceParts;
use supervisor::spec::{AppSpec, Origin, Runtime};
use supervisor::usage::meter::Meter;
use sys::process::PidNamespace;

pub(crate) use self::confirmations::SLACK;
pub(crate) use self::sources::DemotionFile;
use crate::tape::Tape;

/// The apps that may run: their names, stages, and services.
const APPS: [(&str, Stage, &[Service]); 8] = [
    ("topology", Stage::Control, &[Service::Broker, Service::Storage]),
    ("gate", Stage::Guard(Fail::Closed), &[Service::Storage]),
    ("sieve", Stage::Guard(Fail::Open), &[]),
    ("alpha", Stage::Control, &[Service::Topology, Service::Storage]),
    ("beta", Stage::Control, &[Service::Apps, Service::Ovsdb]),
    ("gamma", Stage::Control, &[Service::Broker, Service::Ovsdb]),
    ("snake", Stage::Control, &[]),
    ("eye", Stage::Observe, &[Service::Topology]),
];

/// The app in Python.
const PYTHON: &str = "snake";

/// The apps that are installed as packages.
const PACKAGED: [&str; 3] = ["alpha", "gamma", "eye"];

/// How an object behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quality {
    /// It runs.
    Good,
    /// It cannot create the app.
    Unfit,
    /// The system cannot load it.
    NotLoaded,
    /// It ends this long after its start.
    Short(Duration),
}

/// The objects of an app's package.
#[derive(Debug, Clone, Copy)]
struct Versions {
    installed: u64,
    previous: Option<u64>,
    older: Option<u64>,
    staged: Option<u64>,
}

/// The disk. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Rc<RefCell<Content>>);

#[derive(Debug)]
struct Content {
    clock: Rc<Cell<Instant>>,
    outbox: (Effects, Incidents),
    fd: Fd,
    /// The text of the configuration without its apps.
    base: &'static str,
    /// The number of the apps in the file, which is a comment at the end of its text.
    edition: u64,
    /// The apps of each text that was ever in the file.
    editions: BTreeMap<u64, Vec<AppConfig>>,
    /// The last edition that is parsed.
    parsed: RefCell<Option<(u64, Config)>>,
    apps: Vec<AppConfig>,
    history: BTreeMap<u64, Configuration>,
    confirmation: Option<(u64, Instant)>,
    forgets_confirmations: bool,
    enabled: BTreeMap<String, bool>,
    versions: BTreeMap<String, Versions>,
    quality: BTreeMap<u64, Quality>,
    next_object: u64,
    unreadable: BTreeSet<String>,
    is_full: bool,
    /// Whether the next passing of descriptors fails.
    out_of_descriptors: bool,
    demoted: BTreeMap<String, String>,
    planning: Option<(Instant, Result<Plan, String>)>,
    trial: Option<(Instant, Result<(), String>)>,
    launchable: Vec<(AppSpec, u64)>,
}

/// An app's file, or a version of its package.
#[derive(Debug)]
struct Object {
    disk: Disk,
    /// The version, for a package.
    bound: Option<u64>,
    path: PathBuf,
}

fn sha256(object: u64) -> String {
    format!("{object:064x}")
}

/// The number of the app of this name. It is not 0.
fn number(name: &str) -> AppId {
    let place = APPS.iter().position(|(app, ..)| *app == name).unwrap_or(APPS.len());
    AppId(u16::try_from(place + 1).unwrap_or(u16::MAX))
}

/// The parts of these services.
pub(crate) fn service_parts(kinds: &[ServiceKind]) -> Vec<ServiceParts> {
    let parts = |kind: &ServiceKind| ServiceParts {
        kind: *kind,
        executable: PathBuf::from(format!("/{}", kind.name())).into(),
        apart: PidNamespace::No,
        sandbox: Some(ServiceSandbox { run_as: None, full: false }),
        own_uid: 1000,
        state: kind.file().map(|name| Path::new("/state").join(name)),
        quotas: ServiceQuotas::default(),
        ovsdb: None,
    };
    kinds.iter().map(parts).collect()
}

/// The session of an app.
fn session_of(app: &str) -> Option<&'static str> {
    match app {
        "alpha" | "gamma" => Some("fast"),
        "beta" => Some("slow"),
        _ => None,
    }
}

impl Disk {
    /// A disk with a configuration of some apps.
    ///
    /// # Errors
    /// The base configuration does not parse.
    pub(crate) fn new(
        clock: Rc<Cell<Instant>>,
        outbox: (Effects, Incidents),
        fd: Fd,
        tape: &mut Tape,
    ) -> Result<Self, String> {
        let text = "[supervision]\nupgrade-watch-seconds = 10\n[safe-mode]\nkernel-restarts = 4\nwindow-seconds = 60\nhealth-seconds = 2\n\
                    [session.fast]\nruntime-us = 2000\nperiod-us = 10000\n\
                    [session.slow]\nruntime-us = 9000\nperiod-us = 90000\nextra = 50\n";
        let mut content = Content {
            clock,
            outbox,
            fd,
            base: text,
            edition: 0,
            editions: BTreeMap::new(),
            parsed: RefCell::new(None),
            apps: Vec::new(),
            history: BTreeMap::new(),
            confirmation: None,
            forgets_confirmations: false,
            enabled: BTreeMap::new(),
            versions: BTreeMap::new(),
            quality: BTreeMap::new(),
            next_object: 1,
            unreadable: BTreeSet::new(),
            is_full: false,
            out_of_descriptors: false,
            demoted: BTreeMap::new(),
            planning: None,
            trial: None,
            launchable: Vec::new(),
        };
        for (name, stage, services) in APPS {
            let mut app = AppConfig::defaults(name);
            app.stage = stage;
            app.services = services.to_vec();
            app.object = Some(format!("/apps/{name}.so").into());
            app.limits = Limits::default();
            app.session = session_of(name).map(str::to_owned);
            if tape.happens(500) && name != "topology" && name != PYTHON {
                app.host = Hosting::KERNEL;
            }
            if tape.happens(300) {
                app.on_stop = OnStop::Remove;
            }
            let object = content.new_object(Quality::Good);
            let versions =
                Versions { installed: object, previous: None, older: None, staged: None };
            content.versions.insert(name.into(), versions);
            if name == "topology" || tape.happens(750) {
                content.apps.push(app);
            }
        }
        content.new_edition();
        content.parse(content.edition)?;
        Ok(Self(Rc::new(RefCell::new(content))))
    }

    /// The log service, and the services that the enabled apps name.
    pub(crate) fn needed_services(&self) -> Vec<ServiceKind> {
        let content = self.0.borrow();
        let is_named = |it: Service| {
            content.enabled_apps(&content.enabled).any(|app| app.services.contains(&it))
        };
        let is_needed =
            |kind: &ServiceKind| *kind == ServiceKind::Log || kind.for_apps().is_some_and(is_named);
        ServiceKind::ALL.into_iter().filter(is_needed).collect()
    }

    /// The apps for the first start.
    ///
    /// # Errors
    /// The policies of the apps overlap.
    pub(crate) fn first_apps(&self) -> Result<Vec<App>, String> {
        let specs = {
            let content = self.0.borrow();
            content.specs(&content.config(), &content.enabled, None)?
        };
        let demoted = self.0.borrow().demoted.clone();
        let why = |spec: &AppSpec| demoted.get(spec.name()).map(String::as_str);
        let app = |(spec, object): (AppSpec, u64)| {
            let demoted = why(&spec);
            self.app(spec, object, demoted)
        };
        Ok(specs.into_iter().map(app).collect())
    }

    /// Describes an app.
    fn app(&self, spec: AppSpec, object: u64, demoted: Option<&str>) -> App {
        let outbox = self.0.borrow().outbox.clone();
        let name = spec.name().to_owned();
        let listeners: Box<dyn Listeners> =
            if name == PYTHON { Box::new(self.clone()) } else { Box::new(NoListeners) };
        let settings = GuestSettings::of_file(spec.runtime.host, format!("/apps/{name}"));
        let path = spec.object.clone();
        let bound = spec.is_packaged().then_some(object);
        let launch = Launch {
            id: number(&name),
            files: Box::new(Object { disk: self.clone(), bound, path }),
            guest: Guest { settings, listeners },
            sandbox: None,
            apart: PidNamespace::No,
            meter: Meter::new(spec.keys.limits, vec![names::Limit::Memory]),
            uids: (1000, 1000),
            log_level: LogLevel::Info,
            effects: outbox.0,
            incidents: outbox.1,
            spec,
        };
        App::new(launch, demoted)
    }

    /// How the object of this digest behaves.
    pub(crate) fn quality(&self, sha256: &str) -> Quality {
        let object = u64::from_str_radix(sha256, 16).unwrap_or_default();
        self.0.borrow().quality.get(&object).copied().unwrap_or(Quality::Good)
    }

    /// Somebody edits the configuration.
    pub(crate) fn edit_config(&self, tape: &mut Tape) {
        let mut content = self.0.borrow_mut();
        let Some((name, stage, services)) = tape.one(&APPS).copied() else { return };
        match content.apps.iter().position(|app| app.name == name) {
            None => {
                let mut app = AppConfig::defaults(name);
                app.stage = stage;
                app.services = services.to_vec();
                app.session = session_of(name).map(str::to_owned);
                app.object = Some(format!("/apps/{name}.so").into());
                content.apps.push(app);
            }
            Some(at) => match tape.below(6) {
                0 if name != "topology" => {
                    content.apps.remove(at);
                }
                1 if name != "topology" && name != PYTHON => {
                    let app = &mut content.apps[at];
                    let is_in_kernel = app.host.is_in_kernel();
                    app.host = if is_in_kernel { Hosting::USER } else { Hosting::KERNEL };
                }
                2 => content.apps[at].enabled = !content.apps[at].enabled,
                3 => content.apps[at].log_level = Some(LogLevel::Warn),
                4 => content.apps[at].pace = Some(100),
                _ => content.apps[at].flows = 1000,
            },
        }
        content.new_edition();
    }

    /// Somebody replaces the object of an app, or stages a package of it.
    pub(crate) fn replace_object(&self, staged: bool, tape: &mut Tape) {
        let quality = match tape.below(5) {
            0 => Quality::Unfit,
            1 => Quality::NotLoaded,
            2 => Quality::Short(Duration::from_millis(200 + 500 * tape.below(10))),
            _ => Quality::Good,
        };
        let Some((name, ..)) = tape.one(&APPS).copied() else { return };
        let mut content = self.0.borrow_mut();
        let object = content.new_object(quality);
        let Some(versions) = content.versions.get_mut(name) else { return };
        if staged {
            versions.staged = Some(object);
        } else if !PACKAGED.contains(&name) {
            versions.installed = object;
        }
    }

    /// Repairs everything: objects run, files can be read, and there is room.
    pub(crate) fn repair(&self) {
        let mut content = self.0.borrow_mut();
        content.quality.values_mut().for_each(|quality| *quality = Quality::Good);
        content.unreadable.clear();
        (content.is_full, content.out_of_descriptors) = (false, false);
        // Plans are made in time.
        content.next_object += u64::from(content.next_object.is_multiple_of(7));
    }

    /// The disk is full from now on, or has room again.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.0.borrow_mut().is_full = is_full;
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().is_full
    }

    /// The next passing of descriptors fails.
    pub(crate) fn lose_descriptors(&self) {
        self.0.borrow_mut().out_of_descriptors = true;
    }

    /// Whether the system is out of descriptors this time.
    pub(crate) fn take_out_of_descriptors(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().out_of_descriptors)
    }

    /// The file of an app cannot be read.
    pub(crate) fn make_unreadable(&self, app: &str) {
        self.0.borrow_mut().unreadable.insert(app.into());
    }

    /// When a plan or a trial is ready, if one is being made.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let content = self.0.borrow();
        let now = content.clock.get();
        let plan = content.planning.as_ref().map(|(at, _)| *at);
        let trial = content.trial.as_ref().map(|(at, _)| *at);
        plan.into_iter().chain(trial).filter(|at| *at > now).min()
    }

    /// Whether apps, a plan or a trial wait for a change.
    pub(crate) fn is_waited_for(&self) -> bool {
        let content = self.0.borrow();
        !content.launchable.is_empty() || content.planning.is_some() || content.trial.is_some()
    }

    fn shared(&self) -> Fd {
        self.0.borrow().fd.clone()
    }
}

impl Content {
    fn new_object(&mut self, quality: Quality) -> u64 {
        let object = self.next_object;
        self.next_object += 1;
        self.quality.insert(object, quality);
        object
    }

    fn config(&self) -> Config {
        self.parse(self.edition).unwrap_or_default()
    }

    /// The text of an edition.
    fn text(&self, edition: u64) -> String {
        format!("{}# {edition}\n", self.base)
    }

    /// The edition of a text.
    fn edition_of(&self, text: &str) -> Option<u64> {
        text.strip_prefix(self.base)?.strip_prefix("# ")?.trim_end().parse().ok()
    }

    /// The apps in the file have changed.
    fn new_edition(&mut self) {
        self.edition = self.editions.keys().next_back().map_or(1, |it| it + 1);
        self.editions.insert(self.edition, self.apps.clone());
    }

    /// The configuration of an edition.
    fn parse(&self, edition: u64) -> Result<Config, String> {
        let mut parsed = self.parsed.borrow_mut();
        if let Some((_, config)) = parsed.as_ref().filter(|(it, _)| *it == edition) {
            return Ok(config.clone());
        }
        let apps = self.editions.get(&edition).ok_or("there is no such edition")?;
        let config = Config::parse("/rosemary.toml".into(), self.text(edition));
        let mut config = config.map_err(|error| error.to_string())?;
        config.apps = Some(apps.clone());
        *parsed = Some((edition, config.clone()));
        Ok(config)
    }

    fn enabled_apps<'a>(
        &'a self,
        enabled: &'a BTreeMap<String, bool>,
    ) -> impl Iterator<Item = &'a AppConfig> {
        let runs = |app: &&AppConfig| enabled.get(&app.name).copied().unwrap_or(app.enabled);
        self.apps.iter().filter(runs)
    }

    /// The specifications of the apps with their objects.
    fn specs(
        &self,
        config: &Config,
        enabled: &BTreeMap<String, bool>,
        version: Option<&(String, Version)>,
    ) -> Result<Vec<(AppSpec, u64)>, String> {
        let apps: Vec<AppConfig> = config.apps.iter().flatten().cloned().collect();
        let runs = |app: &AppConfig| enabled.get(&app.name).copied().unwrap_or(app.enabled);
        let mut apps: Vec<AppConfig> = apps.into_iter().filter(|app| runs(app)).collect();
        for app in &mut apps {
            app.enabled = true;
        }
        let policies = config.policies(&apps).map_err(|error| error.to_string())?;
        let spec = |(keys, policy): (AppConfig, _)| {
            let name = keys.name.clone();
            let versions = self.versions.get(&name).ok_or("there is no object")?;
            let is_packaged = PACKAGED.contains(&&*name);
            let which = version.filter(|(app, _)| *app == name && is_packaged).map(|(_, it)| *it);
            let object = match which {
                Some(Version::Staged) => versions.staged,
                Some(Version::Previous) => versions.previous,
                Some(Version::Older) => versions.older,
                Some(Version::Installed) | None => Some(versions.installed),
            };
            let object = object.ok_or_else(|| format!("there is no such version of {name}"))?;
            let origin = if is_packaged {
                let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
                let key = key.parse().map_err(|_| "the key is malformed")?;
                Origin::Package { developer: "ann".into(), key }
            } else {
                Origin::Unsigned
            };
            let mut rights = ClientRights::default();
            if name == PYTHON {
                rights.names.push(SERVE_HTTP.into());
            }
            let restart = keys.restart.over(config.supervision.apps);
            let host = if name == PYTHON { Hosting::PYTHON } else { keys.host };
            let spec = AppSpec {
                object: keys.object.clone().unwrap_or_default(),
                keys: keys.without_place(),
                policy,
                origin,
                rights,
                hang: DEFAULT_LONGEST_CALL,
                restart,
                runtime: Runtime::of_program(host, "/zone".into()),
            };
            Ok::<_, String>((spec, object))
        };
        apps.into_iter().zip(policies).map(spec).collect()
    }
}
