//! The invented disk: configurations, packages, objects, and decisions of operators, with faults.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{AppConfig, Config, Limits, OnStop, Require, SERVE_HTTP};
use control::app::{AppId, Hosting, Installation};
use control::kernel::{AnnouncedApp, KernelRequest, PlainTcp, Tuning};
use control::log::LogLevel;
use control::northbound::{Credentials, NorthboundRequest, NorthboundSettings, OfctlRest};
use control::policy::{Fail, Stage};
use control::service::{ClientRights, ServiceKind, ServiceQuotas, ServiceSandbox};
use control::zone::{Framework, PythonApp, PythonForm};
use names::Service;
use supervisor::app::{App, InPython, Launch, Listeners};
use supervisor::change::deployment::{
    Deployment, NewConfig, Order, PackageFiles, Plan, Source, Unplannable, Version,
};
use supervisor::change::difference::{Fixed, Scope, Wanted};
use supervisor::effects::{Attached, Effects, Fd};
use supervisor::files::{Contents, FileSource, Fingerprint};
use supervisor::hang::DEFAULT_LONGEST_CALL;
use supervisor::incidents::Incidents;
use supervisor::interface::Interface;
use supervisor::kernel::KernelStart;
use supervisor::programs::Demotions;
use supervisor::services::ServiceParts;
use supervisor::spec::{AppSpec, Origin};
use supervisor::usage::meter::Meter;
use sys::process::PidNamespace;

use crate::tape::Tape;

/// The apps that may run: their names, stages, and services.
const APPS: [(&str, Stage, &[Service]); 8] = [
    ("topology", Stage::Control, &[Service::Broker, Service::Storage]),
    ("gate", Stage::Guard(Fail::Closed), &[Service::Storage]),
    ("sieve", Stage::Guard(Fail::Open), &[]),
    ("alpha", Stage::Control, &[Service::Topology, Service::Storage]),
    ("beta", Stage::Control, &[Service::Apps]),
    ("gamma", Stage::Control, &[Service::Broker]),
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
    base: Config,
    apps: Vec<AppConfig>,
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

/// The parts of the services that the apps need, and the log service.
pub(crate) fn service_parts(services: &[Service]) -> Vec<ServiceParts> {
    let is_needed = |kind: &ServiceKind| kind.for_apps().is_none_or(|it| services.contains(&it));
    let parts = |kind: ServiceKind| ServiceParts {
        kind,
        executable: PathBuf::from(format!("/{}", kind.name())).into(),
        apart: PidNamespace::No,
        sandbox: Some(ServiceSandbox { run_as: None, full: false }),
        own_uid: 1000,
        state: kind.file().map(|name| Path::new("/state").join(name)),
        quotas: ServiceQuotas::default(),
    };
    ServiceKind::ALL.into_iter().filter(is_needed).map(parts).collect()
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
        let text = "[supervision]\nupgrade-watch-seconds = 10\n[safe-mode]\nkernel-restarts = 4\nwindow-seconds = 60\nhealth-seconds = 2\n";
        let base = Config::parse("/rosemary.toml".into(), text.into());
        let base = base.map_err(|error| error.to_string())?;
        let mut content = Content {
            clock,
            outbox,
            fd,
            base,
            apps: Vec::new(),
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
            if tape.happens(500) && name != "topology" && name != PYTHON {
                app.host = Hosting::Kernel;
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
        Ok(Self(Rc::new(RefCell::new(content))))
    }

    /// The services that the enabled apps name.
    pub(crate) fn named_services(&self) -> Vec<Service> {
        let content = self.0.borrow();
        content.enabled_apps(&content.enabled).flat_map(|app| app.services.clone()).collect()
    }

    /// The configuration.
    pub(crate) fn config(&self) -> Config {
        self.0.borrow().config()
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
        let python = (name == PYTHON).then(|| InPython {
            app: PythonApp {
                framework: Framework::Python,
                form: PythonForm::Source,
                object: "/apps/snake.py".into(),
                path: Vec::new(),
                options: BTreeMap::new(),
                capabilities: Vec::new(),
                listeners: Vec::new(),
            },
            listeners: Box::new(self.clone()),
        });
        let path = spec.object.clone();
        let bound = spec.is_packaged().then_some(object);
        let launch = Launch {
            id: number(&name),
            files: Box::new(Object { disk: self.clone(), bound, path }),
            python,
            executable: PathBuf::from("/zone").into(),
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
                app.object = Some(format!("/apps/{name}.so").into());
                content.apps.push(app);
            }
            Some(at) => match tape.below(6) {
                0 if name != "topology" => {
                    content.apps.remove(at);
                }
                1 if name != "topology" && name != PYTHON => {
                    let app = &mut content.apps[at];
                    app.host = match app.host {
                        Hosting::Kernel => Hosting::User,
                        Hosting::User => Hosting::Kernel,
                    };
                }
                2 => content.apps[at].enabled = !content.apps[at].enabled,
                3 => content.apps[at].log_level = Some(LogLevel::Warn),
                4 => content.apps[at].pace = Some(100),
                _ => content.apps[at].flows = 1000,
            },
        }
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
        let mut config = self.base.clone();
        config.apps = Some(self.apps.clone());
        config
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
            let spec = AppSpec {
                object: keys.object.clone().unwrap_or_default(),
                keys: keys.without_place(),
                policy,
                origin,
                rights,
                hang: DEFAULT_LONGEST_CALL,
                restart,
                interpreter: None,
            };
            Ok::<_, String>((spec, object))
        };
        apps.into_iter().zip(policies).map(spec).collect()
    }
}

impl Listeners for Disk {
    fn listen(&mut self) -> Result<Vec<Fd>, String> {
        if self.take_out_of_descriptors() {
            return Err("its address is taken".into());
        }
        Ok(vec![self.shared()])
    }

    fn restore(&self) {}
}

impl FileSource for Object {
    fn read(&mut self, app: &str) -> Result<Contents, String> {
        let content = self.disk.0.borrow();
        if content.unreadable.contains(app) {
            return Err(format!("could not read /apps/{app}.so"));
        }
        let object = self.bound.or_else(|| Some(content.versions.get(app)?.installed));
        let object = object.ok_or("there is no object")?;
        let files = Fingerprint { sha256: sha256(object), ..Fingerprint::default() };
        Ok(Contents { object: content.fd.clone(), files })
    }

    fn refusal(&self) -> Option<&str> {
        None
    }

    fn object_path(&self) -> &Path {
        &self.path
    }

    fn is_object_watched(&self) -> bool {
        self.bound.is_none()
    }

    fn config_path(&self) -> Option<&Path> {
        None
    }
}

impl KernelStart for Disk {
    fn request(
        &mut self,
        run_as: Option<u32>,
        apps: Vec<AnnouncedApp>,
    ) -> Result<(KernelRequest, Vec<Fd>), String> {
        if self.take_out_of_descriptors() {
            return Err("the monitor can open no more descriptors".into());
        }
        let start = KernelRequest::Start {
            listeners: self.addresses(),
            run_as,
            apps,
            plain: PlainTcp::Loopback,
            tls: false,
            workers: Some(2),
            tuning: Tuning::default(),
            installation: Installation(1),
        };
        Ok((start, vec![self.shared()]))
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([127, 0, 0, 1], 6653))]
    }
}

impl Interface for Disk {
    fn start(
        &mut self,
        sandbox: Option<ServiceSandbox>,
    ) -> Result<(NorthboundRequest, Vec<Attached>), String> {
        if self.take_out_of_descriptors() {
            return Err("the monitor can open no more descriptors".into());
        }
        let config::Northbound { loopback, names, .. } = config::Northbound::default();
        let request = NorthboundRequest::Start {
            sandbox,
            listeners: Vec::new(),
            settings: NorthboundSettings { loopback, names, uid: 1000, ofctl: OfctlRest::Off },
            credentials: no_credentials(),
            peers: false,
            keys: false,
        };
        Ok((request, vec![Attached::Fd(self.shared()), Attached::Requests]))
    }

    fn credentials(&self) -> NorthboundRequest {
        NorthboundRequest::Credentials(no_credentials())
    }

    fn used(&mut self, _: &str) {}

    fn listen_for_apps(&mut self) -> Option<(NorthboundRequest, Fd)> {
        None
    }

    fn app_routes(&self) -> Option<SocketAddr> {
        None
    }

    fn api(&self) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([127, 0, 0, 1], 8181))]
    }
}

fn no_credentials() -> Credentials {
    Credentials { tokens: Vec::new(), session_key: String::new(), revoked: Vec::new() }
}

/// The file of demotions, with a copy in memory as [`Demotions`] wants it.
#[derive(Debug)]
pub(crate) struct DemotionFile {
    disk: Disk,
    apps: BTreeMap<String, String>,
}

impl DemotionFile {
    /// Reads the file.
    pub(crate) fn read(disk: &Disk) -> Self {
        Self { disk: disk.clone(), apps: disk.0.borrow().demoted.clone() }
    }
}

impl Demotions for DemotionFile {
    fn why(&self, app: &str) -> Option<&str> {
        self.apps.get(app).map(String::as_str)
    }

    fn record(&mut self, app: &str, why: &str) {
        self.apps.insert(app.into(), why.into());
        if !self.disk.is_full() {
            self.disk.0.borrow_mut().demoted = self.apps.clone();
        }
    }

    fn clear(&mut self, app: &str) -> io::Result<bool> {
        if self.disk.is_full() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let was_demoted = self.apps.remove(app).is_some();
        self.disk.0.borrow_mut().demoted = self.apps.clone();
        Ok(was_demoted)
    }
}

impl Deployment for Disk {
    fn plan(&mut self, order: Order) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        let Order { source, enable, version, only, .. } = order;
        let config = match source {
            Source::Known(config) => *config,
            Source::File | Source::New(_) | Source::Staged(..) => content.config(),
        };
        let mut enabled = content.enabled.clone();
        enabled.extend(enable);
        let mut fails = config.apps.as_ref().is_some_and(Vec::is_empty);
        fails |= content.is_full && content.next_object.is_multiple_of(3);
        let specs = content.specs(&config, &enabled, version.as_ref());
        let at = content.clock.get() + Duration::from_millis(3 + content.next_object % 50);
        let made = match specs {
            Ok(_) if fails => Err("the configuration is wrong".to_owned()),
            Err(why) => Err(why),
            Ok(specs) => {
                let wanted = specs.iter().map(|(spec, object)| Wanted {
                    spec: spec.clone(),
                    files: if content.unreadable.contains(spec.name()) {
                        Err(format!("could not read {}", spec.object.display()))
                    } else {
                        Ok(Fingerprint { sha256: sha256(*object), ..Fingerprint::default() })
                    },
                });
                let wanted = wanted.collect();
                // Also the apps whose settings depend on whether the app runs.
                let before = content.specs(&config, &content.enabled, None).unwrap_or_default();
                let scope = only.map(|app| {
                    let is_same =
                        |(spec, _): &&(AppSpec, u64)| before.iter().any(|(it, _)| it == spec);
                    let differ = specs.iter().filter(|it| !is_same(it));
                    let differ = differ.map(|(spec, _)| spec.name().to_owned());
                    let apps = differ.chain([app]).collect();
                    Scope { apps, changed_file: None, mistakes: Vec::new() }
                });
                let fixed = Vec::new();
                let (inactive, warnings) = (Vec::new(), Vec::new());
                content.launchable = specs;
                Ok(Plan { config, fixed, wanted, inactive, warnings, scope })
            }
        };
        content.planning = Some((at, made));
        Ok(())
    }

    fn planned(&mut self) -> Option<Result<Plan, Unplannable>> {
        let mut content = self.0.borrow_mut();
        let now = content.clock.get();
        let (_, made) = content.planning.take_if(|(at, _)| *at <= now)?;
        Some(made.map_err(|why| Unplannable { why, misconfigured: true }))
    }

    fn launch(&mut self, app: &str, demoted: Option<&str>) -> Option<App> {
        let (spec, object) = {
            let mut content = self.0.borrow_mut();
            let at = content.launchable.iter().position(|(spec, _)| spec.name() == app)?;
            content.launchable.swap_remove(at)
        };
        Some(self.app(spec, object, demoted))
    }

    fn try_apps(&mut self, apps: &[String], _: Require) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        let bad = apps.iter().find(|app| {
            let object = content.launchable.iter().find(|(spec, _)| spec.name() == app.as_str());
            let quality = object.and_then(|(_, object)| content.quality.get(object));
            quality.is_some_and(|quality| *quality == Quality::Unfit)
        });
        let result = bad.map_or(Ok(()), |app| Err(format!("the app {app} cannot run like this")));
        let at = content.clock.get() + Duration::from_millis(80);
        content.trial = Some((at, result));
        Ok(())
    }

    fn tried(&mut self) -> Option<Result<(), String>> {
        let mut content = self.0.borrow_mut();
        let now = content.clock.get();
        content.trial.take_if(|(at, _)| *at <= now).map(|(_, result)| result)
    }

    fn new_config(&self, _: Vec<OwnedFd>, expected: &str) -> Result<NewConfig, String> {
        Ok(NewConfig { text: Arc::default(), expected: expected.into() })
    }

    fn new_package(&self, fds: Vec<OwnedFd>) -> Result<PackageFiles, String> {
        let [package, signature] =
            <[OwnedFd; 2]>::try_from(fds).map_err(|_| "there is no package")?;
        Ok(PackageFiles { package, signature })
    }

    fn fixed(&self, _: &Config) -> Fixed {
        Vec::new()
    }

    fn knows(&self, app: &str) -> bool {
        self.0.borrow().enabled.contains_key(app)
    }

    fn enabled(&self, app: &str) -> Option<bool> {
        self.0.borrow().enabled.get(app).copied()
    }

    fn enable(&mut self, app: &str, enabled: bool) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        if content.is_full {
            return Err("the decision could not be stored: the disk is full".into());
        }
        content.enabled.insert(app.into(), enabled);
        Ok(())
    }

    fn store(&mut self, config: &Config) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        if content.is_full {
            return Err("/rosemary.toml cannot be written: the disk is full".into());
        }
        content.apps = config.apps.clone().unwrap_or_default();
        Ok(())
    }

    fn has_version(&self, app: &str, version: Version) -> bool {
        let content = self.0.borrow();
        let Some(versions) = content.versions.get(app) else { return false };
        match version {
            Version::Installed => true,
            Version::Previous => versions.previous.is_some(),
            Version::Older => versions.older.is_some(),
            Version::Staged => versions.staged.is_some(),
        }
    }

    fn drop_staged(&mut self, app: &str) {
        if let Some(versions) = self.0.borrow_mut().versions.get_mut(app) {
            versions.staged = None;
        }
    }

    fn use_staged(&mut self, app: &str) -> Result<(), String> {
        self.exchange(app, |it| {
            let staged = it.staged.take()?;
            let previous = Some(it.installed);
            Some(Versions { installed: staged, previous, older: it.previous, staged: None })
        })
    }

    fn use_previous(&mut self, app: &str) -> Result<(), String> {
        self.exchange(app, |it| {
            let installed = it.previous?;
            Some(Versions { installed, previous: Some(it.installed), ..*it })
        })
    }

    fn take_back(&mut self, app: &str) -> Result<(), String> {
        self.exchange(app, |it| {
            let installed = it.previous?;
            Some(Versions { installed, previous: it.older, older: None, staged: None })
        })
    }

    fn services(&self, services: &[Service]) -> Result<Vec<ServiceParts>, String> {
        Ok(service_parts(services))
    }
}

impl Disk {
    fn exchange(
        &self,
        app: &str,
        exchange: impl FnOnce(&mut Versions) -> Option<Versions>,
    ) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        if content.is_full {
            return Err("the package could not be stored: the disk is full".into());
        }
        let versions = content.versions.get_mut(app).ok_or("there is no such package")?;
        let mut changed = *versions;
        *versions = exchange(&mut changed).ok_or("there is no such version")?;
        Ok(())
    }
}
