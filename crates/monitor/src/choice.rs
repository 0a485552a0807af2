//! Chooses the apps that run, from the configuration and the command line, and finds their objects.

mod app;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use config::{AppConfig, Config, DEFAULT_APPS, HostKeys, Position, SetFault, nearest};
use control::app::AppId;
use control::hosting::Hosting;
use control::operator::{InactiveApp, InactiveState};
use control::policy::{Fail, Policy, Stage};
use tracing::warn;

pub(crate) use self::app::App;
use self::wanted::wanted;
use crate::error::StartError;
use crate::installation::Installation;
use crate::object::{Object, ObjectFile};
use crate::options::Options;
use crate::overrides::Overrides;
use crate::packages::{Admitted, Gate, Store, Version};
use supervisor::rights;
use supervisor::spec::Origin;

/// Why an app cannot run, after its name.
pub(crate) type Mistake = (String, StartError);

/// The apps of a configuration, and what is wrong with them.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The apps that could run.
    pub(crate) apps: Vec<App>,
    /// Why the others cannot.
    pub(crate) mistakes: Vec<Mistake>,
    /// How the apps do not fit together.
    pub(crate) faults: Vec<Misfit>,
}

/// A fault of the set of apps, with its place in the file.
#[derive(Debug, Clone)]
pub(crate) struct Misfit {
    pub(crate) fault: SetFault,
    pub(crate) place: Option<Position>,
}

impl Misfit {
    /// The error of a fault that prevents a start.
    pub(crate) fn error(self) -> StartError {
        StartError::Misfit(self.fault.to_string()).at(self.place)
    }

    /// The warning, with the place of the fault.
    pub(crate) fn warning(&self) -> String {
        let place = self.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
        format!("{place}{}", self.fault)
    }
}

impl Choice {
    /// Returns the texts of the warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.faults.iter().filter(|it| !it.fault.is_error).map(Misfit::warning).collect()
    }

    /// Removes the faults that are errors, and returns them.
    pub(crate) fn take_errors(&mut self) -> impl Iterator<Item = Misfit> {
        self.faults.extract_if(.., |it| it.fault.is_error)
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

/// Returns the apps that could run, and the mistakes of the others with their names. The apps are those on the command line,
/// otherwise those of the configuration, otherwise the learning switch; operators' decisions override the result.
///
/// # Errors
/// A mistake concerns all apps.
pub(crate) fn apps_and_mistakes(
    config: &Config,
    around: &Circumstances<'_>,
) -> Result<Choice, Vec<StartError>> {
    let Chosen { apps: chosen, faults } = choose(config, around)?;
    let (mut apps, mut mistakes) = (Vec::new(), Vec::new());
    for app in chosen {
        match app {
            Ok(app) => apps.push(app),
            Err(app) => mistakes.push((app.settings.name, app.mistake)),
        }
    }
    Ok(Choice { apps, mistakes, faults })
}

/// Returns the apps with which Rosemary starts. An app of the configuration that cannot run because of its files is among them and
/// stays held: the others run, and a guard that fails closed still keeps its packets. An app on the command line must run.
///
/// # Errors
/// The mistakes of the configuration and the command line, and each error of the set of apps. There is at least one.
pub(crate) fn apps_to_start(
    config: &Config,
    around: &Circumstances<'_>,
) -> Result<Choice, Vec<StartError>> {
    let Chosen { apps: chosen, faults } = choose(config, around)?;
    let (mut apps, mut errors) = (Vec::new(), Vec::new());
    for app in chosen {
        match app {
            Ok(app) => apps.push(app),
            Err(app) if around.options.apps.is_empty() && app.mistake.is_of_files() => {
                apps.push(held(*app, config, around));
            }
            Err(app) => errors.push(app.mistake),
        }
    }
    let mut choice = Choice { apps, mistakes: Vec::new(), faults };
    errors.extend(choice.take_errors().map(Misfit::error));
    if errors.is_empty() { Ok(choice) } else { Err(errors) }
}

/// The apps of a configuration, and the faults of their set.
struct Chosen {
    apps: Vec<Result<App, Box<Unusable>>>,
    faults: Vec<Misfit>,
}

/// An app that cannot run.
struct Unusable {
    settings: AppConfig,
    policy: Policy,
    mistake: StartError,
}

/// The app in a form in which it is held with the reason.
fn held(app: Unusable, config: &Config, around: &Circumstances<'_>) -> App {
    let Unusable { mut settings, policy, mistake } = app;
    let name = settings.name.clone();
    let path = settings.object.clone().unwrap_or_else(|| around.store.path(&name));
    // The kernel cannot host an app without its object, and a held zone needs no interpreter.
    (settings.host, settings.host_keys) = (Hosting::default(), HostKeys::default());
    let object = Object::Unusable { path, why: mistake.with_causes() };
    let origin = Origin::Unknown { key: None };
    let app = App::of(settings, policy, (object, origin), config, around.installation);
    app.expect("the zone of a shared object needs only its program")
}

/// Chooses the apps, each usable or not, and judges whether they fit together.
///
/// # Errors
/// A mistake that concerns all apps.
fn choose(config: &Config, around: &Circumstances<'_>) -> Result<Chosen, Vec<StartError>> {
    let Circumstances { options, installation, store, .. } = *around;
    let one = |error| vec![error];
    let (mut packages, mut refused) = admit(config, &wanted(config, around).map_err(one)?, around)?;
    for (app, package) in &packages {
        if let Some(notice) = &package.manifest.notice {
            warn!(app, "{notice}");
        }
    }
    let manifests = packages.iter().map(|(name, it)| (name.clone(), it.manifest.app.clone()));
    let config = &config.over(&manifests.collect()).map_err(|error| one(error.into()))?;
    let mut apps = wanted(config, around).map_err(one)?;
    // The manifest in a refused package does not count, so the note says which apps are guards.
    let guards = store.guards();
    for app in apps.iter_mut().filter(|app| refused.contains_key(&app.name)) {
        if guards.contains(&app.name) && !matches!(app.stage, Stage::Guard(_)) {
            app.stage = Stage::Guard(Fail::Closed);
        }
    }
    let policies = config.policies(&apps).map_err(|error| one(error.into()))?;
    let faults = config.judge(&apps, &policies).into_iter();
    let faults = faults.map(|(fault, place)| Misfit { fault, place }).collect();
    let mut chosen = Vec::new();
    for (app, policy) in apps.into_iter().zip(policies).filter(|(app, _)| app.enabled) {
        let package = packages.remove(&app.name);
        let refusal = refused.remove(&app.name);
        let module = app.host_keys.module.as_deref();
        let found = match (package, &app.object) {
            _ if let Some(refusal) = refusal => Err(refusal),
            (None, None) if let Some(module) = module => named_module(&app.name, module, options)
                .map_err(|error| error.at(config.position_of_app(&app.name, "object"))),
            (Some(package), _) => accept(package, &app, store)
                .map_err(|error| error.at(config.position_of_app(&app.name, "name"))),
            (None, Some(path)) => bare(&app.name, path, options)
                .map_err(|error| error.at(config.position_of_app(&app.name, "object"))),
            (None, None) => shipped(&app.name, config, installation, store)
                .map_err(|error| error.at(config.position_of_app(&app.name, "name"))),
        };
        let settings = app.clone();
        let app = found.and_then(|found| App::of(app, policy.clone(), found, config, installation));
        chosen.push(app.map_err(|mistake| Box::new(Unusable { settings, policy, mistake })));
    }
    Ok(Chosen { apps: chosen, faults })
}

/// Notes which apps of packages are guards that fail closed, for a start at which a package is refused.
/// `unusable` names apps about which nothing is known now.
pub(crate) fn note_guards<'a>(
    store: &Store,
    apps: impl Iterator<Item = &'a App>,
    unusable: impl Iterator<Item = &'a str>,
) {
    let (mut guards, mut unusable): (BTreeSet<String>, BTreeSet<&str>) =
        (BTreeSet::new(), unusable.collect());
    for app in apps {
        match (&app.spec.origin, app.spec.policy.stage) {
            (Origin::Unknown { .. }, _) => drop(unusable.insert(app.name())),
            (Origin::Package { .. }, Stage::Guard(Fail::Closed)) => {
                guards.insert(app.name().to_owned());
            }
            _ => {}
        }
    }
    if let Err(error) = store.note_guards(guards, &unusable) {
        let hint = "free space in the state directory";
        warn!(%error, hint, "could not note which packages contain guards");
    }
}

/// Returns a mistake for each app of the list of `[safe-mode]` that is neither configured nor installed.
pub(crate) fn unknown_in_safe_mode(config: &Config, around: &Circumstances<'_>) -> Vec<StartError> {
    let place = || config.position_of("safe-mode", "apps");
    let is_known = |name: &str| {
        DEFAULT_APPS.contains(&name)
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
        let object = format!("the bare file {}", object.display());
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
        let object = format!("the module {module}");
        return Err(StartError::Unsigned { app: name.into(), object });
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

/// Gives all apps their rights in services; `numbers` are theirs, in the same order. Returns the ignored rights, as
/// [`rights::of`] does.
pub(crate) fn give_rights(numbers: &[AppId], apps: &mut [App]) -> Vec<(String, String)> {
    let specs: Vec<_> = numbers.iter().copied().zip(apps.iter().map(|app| &app.spec)).collect();
    let (rights, ignored) = rights::of(&specs);
    apps.iter_mut().zip(rights).for_each(|(app, rights)| app.spec.rights = rights);
    ignored
}

/// Warns of unsigned apps.
pub(crate) fn warn_of_unsigned(apps: &[App]) {
    for app in apps.iter().filter(|app| app.spec.origin == Origin::Unsigned) {
        let (name, object) = (app.name(), app.spec.object.display());
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

/// The packages of apps by name, and why others are refused.
type Judged<'a> = (BTreeMap<String, Admitted<'a>>, BTreeMap<String, StartError>);

/// Admits the packages of `apps`. Returns them, and why those of other enabled apps are refused.
///
/// # Errors
/// No package can be examined.
fn admit<'a>(
    config: &'a Config,
    apps: &[AppConfig],
    around: &Circumstances<'_>,
) -> Result<Judged<'a>, Vec<StartError>> {
    let (mut admitted, mut refused) = (BTreeMap::new(), BTreeMap::new());
    let store = around.store;
    let packaged = |app: &&AppConfig| {
        app.object.is_none() && store.has_version(&app.name, around.version_of(&app.name))
    };
    let packaged: Vec<&AppConfig> = apps.iter().filter(packaged).collect();
    if packaged.is_empty() {
        return Ok((admitted, refused));
    }
    let gate = Gate::new(&config.trust).map_err(|error| vec![error])?;
    for AppConfig { name, enabled, .. } in packaged {
        let files = store.read_version(name, around.version_of(name));
        match files.and_then(|files| gate.admit_installed(&files, name)) {
            Ok(package) => drop(admitted.insert(name.clone(), package)),
            Err(why) if *enabled => {
                let error = StartError::Package { app: name.clone(), why };
                refused.insert(name.clone(), error.at(config.position_of_app(name, "name")));
            }
            Err(why) => {
                warn!(app = name, %why, "refused the package of an app that is not enabled");
            }
        }
    }
    Ok((admitted, refused))
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
    Ok((Object::Packaged { path, object: object.into(), sha256 }, origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_module_calls_it_no_file() {
        let options = crate::options::tests::parse(&[]).unwrap();
        let error =
            named_module("switch", "ryu.app.simple_switch", &options).unwrap_err().to_string();
        assert!(
            error.starts_with("the app switch is the module ryu.app.simple_switch, "),
            "{error}"
        );
        assert!(error.contains("--allow-unsigned"), "{error}");
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
            apps_to_start(&config, &around)
        };
        let error = apps(&[]).unwrap_err()[0].to_string();
        assert!(error.starts_with("/rosemary.toml:3:10: the app a is the bare file"), "{error}");
        assert!(error.contains("--allow-unsigned") && error.contains("app build"), "{error}");
        let app = apps(&["--allow-unsigned"]).unwrap().apps.remove(0);
        assert_eq!((app.spec.origin, app.object.path()), (Origin::Unsigned, object.as_path()));
    }
}
