//! Chooses the apps that run, from the configuration and the command line, and finds their objects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::app::Hosting;
use control::log::LogLevel;
use control::northbound::OfctlRest;
use control::operator::{InactiveApp, InactiveState};
use control::policy::{Capability, Policy};
use control::zone::Framework;
use package::PublicKey;
use sdk::services::Service;
use tracing::warn;

use crate::error::StartError;
use crate::hang::DEFAULT_LONGEST_CALL;
use crate::installation::Installation;
use crate::object::{Object, ObjectFile};
use crate::options::{AppChoice, Options};
use crate::overrides::Overrides;
use crate::packages::{Admitted, Gate, Store, Version};
use crate::python::Interpreter;
use config::{
    AppConfig, Config, DEFAULT_APP, ENV_IN_KERNEL, Environment, Limits, MOST_APPS, OnStop, Python,
    RestartPolicy, ServiceRight, nearest,
};

/// An app that is to run.
#[derive(Debug)]
pub(crate) struct App {
    /// Its name.
    pub(crate) name: String,
    /// Its object, which exists.
    pub(crate) object: Object,
    /// Who vouches for it.
    pub(crate) origin: Origin,
    /// The file with its own configuration, if it has one.
    pub(crate) config: Option<PathBuf>,
    /// Its rights, stage and priorities.
    pub(crate) policy: Policy,
    /// What hosts it.
    pub(crate) host: Hosting,
    /// Its resource limits.
    pub(crate) limits: Limits,
    /// Files and directories of the machine that it may read.
    pub(crate) read: Vec<PathBuf>,
    /// Rosemary's own directories, which no app may read; paths without symbolic links.
    pub(crate) never: Arc<[PathBuf]>,
    /// Environment variables of its process.
    pub(crate) env: Environment,
    /// How long one of its calls may take.
    pub(crate) hang: Duration,
    /// When it is restarted and held.
    pub(crate) restart: RestartPolicy,
    /// What becomes of its flows when it is stopped.
    pub(crate) on_stop: OnStop,
    /// The level of its log; `None` for that of Rosemary.
    pub(crate) log_level: Option<LogLevel>,
    /// The services that it may use.
    pub(crate) services: Vec<Service>,
    /// Its rights in these services beyond its own data.
    pub(crate) service_rights: Vec<ServiceRight>,
    /// Its settings and its interpreter, if it is written in Python.
    pub(crate) python: Option<(Python, Interpreter)>,
}

impl App {
    /// The app of `settings` with this policy and object.
    fn of(
        settings: AppConfig,
        policy: Policy,
        (object, origin): (Object, Origin),
        config: &Config,
    ) -> Result<Self, StartError> {
        let is_archive = object
            .is_archive()
            .map_err(|source| StartError::System { what: "read a package", source })?;
        let python = match settings.python {
            None if is_archive => Some(Python::new(Framework::Python)),
            other => other,
        };
        let python = python.map(|python| interpreter(&settings.name, python));
        let python = python.transpose()?;
        let hang = settings.hang.or(config.hang).unwrap_or(DEFAULT_LONGEST_CALL);
        let restart = settings.restart.over(config.supervision.apps);
        let AppConfig { name, config: file, host, read, limits, env, on_stop, log_level, .. } =
            settings;
        let (services, service_rights) = (settings.services, settings.service_rights);
        Ok(Self {
            never: Arc::default(), // set when Rosemary's directories exist
            name,
            object,
            origin,
            config: file,
            policy,
            host,
            read,
            limits: limits.with_rings(config.tuning.ring),
            env,
            log_level,
            hang,
            restart,
            on_stop,
            services,
            service_rights,
            python,
        })
    }
}

/// Adds the interpreter to the settings of the app `app`.
fn interpreter(app: &str, python: Python) -> Result<(Python, Interpreter), StartError> {
    let interpreter = Interpreter::find()?;
    if python.framework == Framework::Ryu && !interpreter.has_ryu() {
        return Err(StartError::NoRyu { app: app.to_owned() });
    }
    Ok((python, interpreter))
}

/// Who vouches for an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A developer, who signed its package.
    Package {
        /// The developer's name in `[[trust]]`.
        developer: String,
        /// The developer's public key.
        key: PublicKey,
    },
    /// The installer of Rosemary: the app ships with it.
    Shipped,
    /// Nobody.
    Unsigned,
}

impl Origin {
    /// The origin in one word, for operators.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Package { .. } => "package",
            Self::Shipped => "shipped",
            Self::Unsigned => "unsigned",
        }
    }

    /// The developer who signed it.
    pub(crate) fn developer(&self) -> Option<&str> {
        match self {
            Self::Package { developer, .. } => Some(developer),
            Self::Shipped | Self::Unsigned => None,
        }
    }
}

impl App {
    /// The key of its developer. Name and key together identify an app.
    pub(crate) fn key(&self) -> Option<&PublicKey> {
        match &self.origin {
            Origin::Package { key, .. } => Some(key),
            Origin::Shipped | Origin::Unsigned => None,
        }
    }
}

/// What decides about apps besides the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    pub(crate) options: &'a Options,
    pub(crate) installation: &'a Installation,
    pub(crate) store: &'a Store,
    /// Operators' decisions on which apps run.
    pub(crate) overrides: &'a Overrides,
    /// The version of an app's package to run instead of the installed one.
    pub(crate) version: Option<&'a (String, Version)>,
}

impl Circumstances<'_> {
    /// The version of the package of this app.
    fn version_of(&self, app: &str) -> Version {
        let other = self.version.filter(|(name, _)| name == app);
        other.map_or(Version::Installed, |(_, version)| *version)
    }

    /// Whether an app that the configuration does not contain can run.
    fn provides(&self, app: &str) -> bool {
        self.store.has_version(app, self.version_of(app))
            || self.installation.object(app, &self.store.path(app)).is_ok()
    }
}

/// Returns the apps that run: those on the command line, otherwise those of the configuration, otherwise the
/// learning switch; operators' decisions override the result.
///
/// # Errors
/// The reason of each app that cannot be hosted as requested, whose package is refused, or whose object is missing. There
/// is at least one.
pub(crate) fn apps(
    config: &Config,
    around: &Circumstances<'_>,
) -> Result<Vec<App>, Vec<StartError>> {
    let (running, mistakes) = apps_and_mistakes(config, around)?;
    if mistakes.is_empty() { Ok(running) } else { Err(mistakes) }
}

/// Returns the apps that could run, and the mistakes of the others.
///
/// # Errors
/// Like [`apps`], if a mistake concerns all apps.
pub(crate) fn apps_and_mistakes(
    config: &Config,
    around: &Circumstances<'_>,
) -> Result<(Vec<App>, Vec<StartError>), Vec<StartError>> {
    let Circumstances { options, installation, store, .. } = *around;
    let one = |error| vec![error];
    let mut packages = admit(config, &wanted(config, around).map_err(one)?, around)?;
    for (app, package) in &packages {
        if let Some(notice) = &package.manifest.notice {
            warn!(app, "{notice}");
        }
    }
    let manifests = packages.iter().map(|(name, it)| (name.clone(), it.manifest.app.clone()));
    let config = &config.over(&manifests.collect()).map_err(|error| one(error.into()))?;
    let apps = wanted(config, around).map_err(one)?;
    let policies = config.policies(&apps).map_err(|error| one(error.into()))?;
    let (mut running, mut mistakes) = (Vec::new(), Vec::new());
    for (app, policy) in apps.into_iter().zip(policies).filter(|(app, _)| app.enabled) {
        let package = packages.remove(&app.name);
        let module = app.python.as_ref().and_then(|python| python.module.as_deref());
        let found = match (package, &app.object) {
            (None, None) if let Some(module) = module => named_module(&app.name, module, options)
                .map_err(|error| error.at(config.position_of_app(&app.name, "object"))),
            (Some(package), _) => accept(package, &app, store)
                .map_err(|error| error.at(config.position_of_app(&app.name, "name"))),
            (None, Some(path)) => bare(&app.name, path, options)
                .map_err(|error| error.at(config.position_of_app(&app.name, "object"))),
            (None, None) => shipped(&app.name, config, installation, store)
                .map_err(|error| error.at(config.position_of_app(&app.name, "name"))),
        };
        match found.and_then(|found| App::of(app, policy, found, config)) {
            Ok(app) => running.push(app),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    Ok((running, mistakes))
}

/// Returns a mistake for each app of the list of `[safe-mode]` that is neither configured nor installed.
pub(crate) fn unknown_in_safe_mode(config: &Config, around: &Circumstances<'_>) -> Vec<StartError> {
    let place = || config.position_of("safe-mode", "apps");
    let is_known = |name: &str| {
        name == DEFAULT_APP
            || config.app(name).is_some()
            || around.store.names().is_ok_and(|all| all.iter().any(|it| it == name))
    };
    let chosen = |name: &str| around.options.apps.iter().any(|choice| choice.name == name);
    let names = config.safe_mode.apps.iter().flatten().map(String::as_str);
    names
        .filter(|name| !is_known(name) && !chosen(name))
        .map(|name| {
            let others = config.apps.iter().flatten().map(|app| app.name.as_str());
            let similar = nearest(name, others).map(ToOwned::to_owned);
            StartError::UnknownInSafeMode { app: name.to_owned(), similar }.at(place())
        })
        .collect()
}

/// Returns the object of an app that is a bare file.
fn bare(name: &str, path: &Path, options: &Options) -> Result<(Object, Origin), StartError> {
    let object = Installation::bare(name, path)?;
    if options.allows_unsigned(name) {
        Ok((Object::File(ObjectFile::new(object)), Origin::Unsigned))
    } else {
        Err(StartError::Unsigned { app: name.into(), object })
    }
}

/// Returns the object of an app that is a module in Python.
fn named_module(
    name: &str,
    module: &str,
    options: &Options,
) -> Result<(Object, Origin), StartError> {
    if !options.allows_unsigned(name) {
        return Err(StartError::Unsigned { app: name.into(), object: module.into() });
    }
    let object = Object::module(module)
        .map_err(|source| StartError::System { what: "copy the name of a module", source })?;
    Ok((object, Origin::Unsigned))
}

/// Returns the object of an app that comes with Rosemary. If there is none, the error names a similar app.
fn shipped(
    name: &str,
    config: &Config,
    installation: &Installation,
    store: &Store,
) -> Result<(Object, Origin), StartError> {
    match installation.object(name, &store.path(name)) {
        Ok(object) => Ok((Object::File(ObjectFile::new(object)), Origin::Shipped)),
        Err(StartError::MissingApp { app, looked, .. }) => {
            let configured = config.apps.iter().flatten().map(|app| app.name.clone());
            let installed = store.names().unwrap_or_default(); // only a suggestion depends on it
            let all: Vec<String> =
                configured.chain(installed).chain(installation.app_names()).collect();
            let others = all.iter().map(String::as_str).filter(|other| *other != name);
            let similar = nearest(name, others).map(ToOwned::to_owned);
            Err(StartError::MissingApp { app, looked, similar })
        }
        Err(error) => Err(error),
    }
}

/// Warns of unsigned apps.
pub(crate) fn warn_of_unsigned(apps: &[App]) {
    for App { name, object, .. } in apps.iter().filter(|app| app.origin == Origin::Unsigned) {
        let object = object.path().display();
        warn!(app = name, %object, "UNSIGNED: nobody vouches for this app; use this for development only");
    }
}

/// Returns the apps that do not run: those that are configured and disabled, and those that are only installed.
pub(crate) fn inactive(config: &Config, around: &Circumstances<'_>) -> Vec<InactiveApp> {
    let known = wanted(config, around).unwrap_or_default();
    let others: Vec<&AppConfig> = config.apps.iter().flatten().collect();
    let mut inactive = Vec::new();
    let mut add = |name: &str, state| inactive.push(InactiveApp { name: name.into(), state });
    for app in known.iter().filter(|app| !app.enabled) {
        add(&app.name, InactiveState::Disabled);
    }
    // With `--app`, apps of the configuration may be left out.
    for app in others.iter().filter(|app| !known.iter().any(|it| it.name == app.name)) {
        add(&app.name, InactiveState::Disabled);
    }
    let is_known = |name: &String| {
        known.iter().any(|app| app.name == *name) || others.iter().any(|app| app.name == *name)
    };
    // If the directory cannot be read, the apps that need it say so.
    for name in around.store.names().unwrap_or_default().iter().filter(|name| !is_known(name)) {
        add(name, InactiveState::Installed);
    }
    inactive
}

fn wanted(config: &Config, around: &Circumstances<'_>) -> Result<Vec<AppConfig>, StartError> {
    let chosen = &around.options.apps;
    let mut apps = if chosen.is_empty() {
        config.apps.clone().unwrap_or_else(|| vec![config.named(DEFAULT_APP)])
    } else {
        named(config, chosen)?
    };
    for (name, enabled) in around.overrides.iter() {
        match apps.iter_mut().find(|app| app.name == name) {
            Some(app) => app.enabled = enabled,
            None if enabled && (config.app(name).is_some() || around.provides(name)) => {
                let app = config.app(name).cloned();
                let mut app = app.unwrap_or_else(|| config.named(name));
                app.enabled = enabled;
                apps.push(app);
            }
            None if enabled => {
                let hint = "install its package, or forget it with `rosemary app disable`";
                warn!(app = name, hint, "an enabled app is neither configured nor installed");
            }
            None => {}
        }
    }
    add_ofctl(config, around.options.ofctl(config), &mut apps);
    add_providers(config, &mut apps);
    if let Some(app) = apps.iter().find(|app| app.host == Hosting::Kernel && provides(app)) {
        return Err(StartError::App { app: app.name.clone(), why: PROVIDER_IN_KERNEL });
    }
    if apps.len() > MOST_APPS {
        return Err(StartError::TooManyApps { count: apps.len(), most: MOST_APPS });
    }
    Ok(apps)
}

/// Adds the owner of the flows of Ryu's REST interface, if that is served.
fn add_ofctl(config: &Config, ofctl: OfctlRest, apps: &mut Vec<AppConfig>) {
    let name = Service::Ofctl.name();
    if ofctl == OfctlRest::Off || apps.iter().any(|app| app.name == name) {
        return;
    }
    let mut app = config.app(name).cloned().unwrap_or_else(|| config.named(name));
    app.enabled = true;
    if ofctl == OfctlRest::Read {
        let reads = [Capability::PacketIn, Capability::StatsRead, Capability::FlowRead];
        app.capabilities.retain(|grant| reads.contains(&grant.capability));
        app.band = None;
    }
    apps.push(app);
}

/// Why an app that provides a service cannot run in the kernel.
const PROVIDER_IN_KERNEL: &str = "it provides a service to other apps, which only an app in a zone can; remove host = \"kernel\" or :kernel";

/// Whether an app of this name provides a service with a table.
fn provides(app: &AppConfig) -> bool {
    Service::named(&app.name).is_some_and(|service| service.table_slots().is_some())
}

/// Adds the apps that provide services which enabled apps name. An app that is listed and not enabled is left alone.
fn add_providers(config: &Config, apps: &mut Vec<AppConfig>) {
    let mut next = 0;
    while let Some(app) = apps.get(next) {
        let services = if app.enabled { app.services.clone() } else { Vec::new() };
        for service in services.into_iter().filter(|service| service.table_slots().is_some()) {
            let name = service.name();
            // If it is listed and disabled, the status says so.
            if apps.iter().all(|app| app.name != name) {
                let known = config.app(name).cloned();
                let mut provider = known.unwrap_or_else(|| config.named(name));
                provider.enabled = true;
                apps.push(provider);
            }
        }
        next += 1;
    }
}

/// Admits the packages of `apps` and returns them by name.
///
/// # Errors
/// The reason of each refused package whose app is enabled.
fn admit<'a>(
    config: &'a Config,
    apps: &[AppConfig],
    around: &Circumstances<'_>,
) -> Result<BTreeMap<String, Admitted<'a>>, Vec<StartError>> {
    let (mut admitted, mut refused) = (BTreeMap::new(), Vec::new());
    let store = around.store;
    let packaged = |app: &&AppConfig| {
        app.object.is_none() && store.has_version(&app.name, around.version_of(&app.name))
    };
    let packaged: Vec<&AppConfig> = apps.iter().filter(packaged).collect();
    if packaged.is_empty() {
        return Ok(admitted);
    }
    let gate = Gate::new(&config.trust).map_err(|error| vec![error])?;
    for AppConfig { name, enabled, .. } in packaged {
        let files = store.read_version(name, around.version_of(name));
        match files.and_then(|files| gate.admit_installed(&files, name)) {
            Ok(package) => drop(admitted.insert(name.clone(), package)),
            Err(why) if *enabled => {
                let error = StartError::Package { app: name.clone(), why };
                refused.push(error.at(config.position_of_app(name, "name")));
            }
            Err(why) => {
                warn!(app = name, %why, "refused the package of an app that is not enabled");
            }
        }
    }
    if refused.is_empty() { Ok(admitted) } else { Err(refused) }
}

/// Checks that the operator's settings of a packaged app are within its developer's trust policy; returns its object.
fn accept(
    package: Admitted<'_>,
    app: &AppConfig,
    store: &Store,
) -> Result<(Object, Origin), StartError> {
    let refused = |why| StartError::Package { app: app.name.clone(), why };
    package.check(app).map_err(refused)?;
    let Admitted { manifest, trust, object, object_sha256: sha256, .. } = package;
    let path = store.path(&manifest.app.name);
    let origin = Origin::Package { developer: trust.name.clone(), key: trust.key.clone() };
    Ok((Object::Packaged { path, object, sha256 }, origin))
}

fn named(config: &Config, chosen: &[AppChoice]) -> Result<Vec<AppConfig>, StartError> {
    if chosen.len() > MOST_APPS {
        return Err(StartError::TooManyApps { count: chosen.len(), most: MOST_APPS });
    }
    let app = |(i, choice): (usize, &AppChoice)| {
        let refuse = |why| Err(StartError::App { app: choice.to_string(), why });
        if chosen.iter().take(i).any(|before| before.name == choice.name) {
            return refuse("it is given twice; remove one of them");
        }
        let known = config.app(&choice.name).cloned();
        // A file is not the app that ships under its name.
        let mut app = known.unwrap_or_else(|| match &choice.file {
            Some(_) => AppConfig::defaults(&choice.name),
            None => config.named(&choice.name),
        });
        app.enabled = true; // the command line overrides the configuration
        if let Some(file) = &choice.file {
            app.object = Some(std::path::absolute(file).unwrap_or_else(|_| file.clone()));
            app.python.get_or_insert_with(|| Python::new(Framework::Python)).module = None;
        }
        if let (Some(framework), Some(python)) = (choice.framework, &mut app.python) {
            python.framework = framework;
        }
        app.host = choice.host.unwrap_or(app.host);
        if let Some(why) = app.needs_a_zone().filter(|_| app.host == Hosting::Kernel) {
            return refuse(why);
        }
        if app.host == Hosting::Kernel && !app.env.is_empty() {
            return refuse(ENV_IN_KERNEL);
        }
        Ok(app)
    };
    chosen.iter().enumerate().map(app).collect()
}

#[cfg(test)]
mod tests {
    use control::policy::Stage;

    use super::*;

    fn chosen(text: &str, choice: &[(&str, Option<Hosting>)]) -> Result<Vec<AppConfig>, String> {
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let choice: Vec<_> =
            choice.iter().map(|(name, host)| AppChoice::named(name, *host)).collect();
        named(&config, &choice).map_err(|error| error.to_string())
    }

    #[test]
    fn named_apps_have_their_configuration() {
        let text = "[[app]]\nname = \"a\"\n\
                    [[app]]\nname = \"b\"\nstage = \"observe\"\nenabled = false\nhost = \"kernel\"";
        let apps = chosen(text, &[("b", None), ("c", None)]).unwrap();
        assert_eq!(apps.len(), 2);
        assert_eq!((apps[0].stage, apps[0].host), (Stage::Observe, Hosting::Kernel));
        assert!(apps[0].enabled);
        assert_eq!(apps[1], AppConfig::named("c"));
        let apps =
            chosen(text, &[("b", Some(Hosting::User)), ("c", Some(Hosting::Kernel))]).unwrap();
        assert_eq!([apps[0].host, apps[1].host], [Hosting::User, Hosting::Kernel]);
    }

    #[test]
    fn app_with_an_environment_does_not_go_into_the_kernel() {
        let text = "[[app]]\nname = \"a\"\nenv = { TZ = \"UTC\" }";
        let error = chosen(text, &[("a", Some(Hosting::Kernel))]).unwrap_err();
        assert!(error.contains("can have no env") && error.contains("\"user\""), "{error}");
        assert_eq!(chosen(text, &[("a", None)]).unwrap()[0].env["TZ"], "UTC");
    }

    #[test]
    fn bare_file_runs_only_with_allow_unsigned() {
        let dir = tempfile::tempdir().unwrap();
        let object = dir.path().join("a.so");
        std::fs::write(&object, "object").unwrap();
        let text = format!("[[app]]\nname = \"a\"\nobject = \"{}\"", object.display());
        let config = Config::parse("/rosemary.toml".into(), text).unwrap();
        let installation = Installation::of("/nowhere");
        let apps = |args: &[&str]| {
            let options = crate::options::tests::parse(args).unwrap();
            let around = Circumstances {
                options: &options,
                installation: &installation,
                store: &Store::of(dir.path()),
                overrides: &Overrides::default(),
                version: None,
            };
            apps(&config, &around)
        };
        let error = apps(&[]).unwrap_err()[0].to_string();
        assert!(error.starts_with("/rosemary.toml:3:10: the app a is the bare file"), "{error}");
        assert!(error.contains("--allow-unsigned") && error.contains("app build"), "{error}");
        let app = apps(&["--allow-unsigned"]).unwrap().remove(0);
        assert_eq!((app.origin, app.object.path()), (Origin::Unsigned, object.as_path()));
    }

    #[test]
    fn decisions_of_operators_override_the_configuration() {
        let text = "[[app]]\nname = \"a\"\n[[app]]\nname = \"b\"\nenabled = false";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let enabled = |overrides: &Overrides| -> Vec<(String, bool)> {
            let around = Circumstances {
                options: &crate::options::tests::parse(&[]).unwrap(),
                installation: &Installation::of("/nowhere"),
                store: &Store::of(dir.path()),
                overrides,
                version: None,
            };
            let apps = wanted(&config, &around).unwrap();
            apps.into_iter().map(|app| (app.name, app.enabled)).collect()
        };
        let app = |name: &str, enabled| (name.to_owned(), enabled);
        let none = Overrides::default();
        assert_eq!(enabled(&none), [app("a", true), app("b", false)]);
        let some = none.with("a", false).with("b", true).with("not-installed", true);
        assert_eq!(enabled(&some), [app("a", false), app("b", true)]);
    }

    #[test]
    fn providers_of_named_services_run_too() {
        let names = |text: &str| -> Vec<(String, bool)> {
            let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
            let mut apps = config.apps.clone().unwrap();
            add_providers(&config, &mut apps);
            apps.into_iter().map(|app| (app.name, app.enabled)).collect()
        };
        let runs = |name: &str| (name.to_owned(), true);
        let uses_hosts = "[[app]]\nname = \"a\"\nservices = [\"hosts\", \"storage\"]\n\
                          capabilities = [\"packet-in\", \"hosts.read\"]\n";
        assert_eq!(
            names(uses_hosts),
            [runs("a"), runs("hosts"), runs("topology")],
            "hosts needs topology"
        );
        assert_eq!(names("[[app]]\nname = \"a\"\n"), [runs("a")], "no service without a client");
        let disabled = format!("{uses_hosts}enabled = false\n");
        assert_eq!(names(&disabled), [("a".to_owned(), false)]);
        let own = format!("{uses_hosts}[[app]]\nname = \"topology\"\nenabled = false\n");
        let topology = ("topology".to_owned(), false);
        assert_eq!(names(&own), [runs("a"), topology, runs("hosts")], "the operator decides");
    }

    #[test]
    fn provider_does_not_go_into_the_kernel() {
        let config = Config::parse("/rosemary.toml".into(), String::new()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        for (app, is_refused) in [("stats:kernel", true), ("stats", false), ("a:kernel", false)] {
            let options = crate::options::tests::parse(&["--app", app]).unwrap();
            let around = Circumstances {
                options: &options,
                installation: &Installation::of("/nowhere"),
                store: &Store::of(dir.path()),
                overrides: &Overrides::default(),
                version: None,
            };
            let wanted = wanted(&config, &around);
            let refused = wanted.is_err_and(|error| error.to_string().contains("in a zone"));
            assert_eq!(refused, is_refused, "{app}");
        }
    }

    #[test]
    fn app_given_twice_is_refused() {
        let error = chosen("", &[("a", None), ("a", Some(Hosting::User))]).unwrap_err();
        assert!(error.starts_with("--app a:user: it is given twice"), "{error}");
        let many: Vec<String> = (0..65).map(|i| format!("a{i}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), None)).collect();
        assert!(chosen("", &many).unwrap_err().contains("at most 64"));
    }
}
