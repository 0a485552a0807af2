//! Checks the operator's choices: the configuration, the apps' files and objects, packages, keys.
//!
//! `rosemary up` does this before it starts a process, and stops at the first mistake. `rosemary up --check` reports every
//! mistake of the configuration, or else every mistake of the others. It starts only `rosemary-security`, which inspects packages and keys, and for a moment each app in a sandbox,
//! connected to nothing ([`trial_load`]).

use std::path::{Path, PathBuf};

use config::Config;
use control::kernel::PlainTcp;
use control::northbound::needs_tls;

use crate::choice::{self, App, Circumstances, Misfit};
use crate::config_file::ConfigFile;
use crate::error::StartError;
use crate::installation::{Installation, read_object};
use crate::object::Object;
use crate::options::{ListenAddresses, Options};
use crate::overrides::Overrides;
use crate::packages::Store;
use crate::{hosting, keys, listen, trial_load};

/// The apps of a valid configuration, and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Valid {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// The names of the apps that would run.
    pub apps: Vec<String>,
    /// Deprecated keys and what replaces them, and warnings about apps that do not fit together.
    pub notices: Vec<String>,
}

/// Checks everything that the operator chose, without starting it.
///
/// # Errors
/// Every mistake that can be found while the earlier ones are not corrected. There is at least one.
pub fn check(options: &Options) -> Result<Valid, Vec<StartError>> {
    let one = |error| vec![error];
    let config = Config::load_all(options.instance.config.as_deref())
        .map_err(|errors| errors.into_iter().map(StartError::from).collect::<Vec<_>>())?;
    let installation = Installation::find().map_err(one)?;
    let state_dir = options.state.resolve(&config).map_err(|error| one(error.into()))?;
    let runtime_dir = options.instance.resolve(&config).map_err(|error| one(error.into()))?;
    let mut mistakes = Vec::new();
    let overrides = Overrides::load(&state_dir).unwrap_or_else(|error| {
        mistakes.push(error);
        Overrides::default()
    });
    let around = Circumstances {
        options,
        installation: &installation,
        store: &Store::of(&state_dir),
        overrides: &overrides,
        version: None,
    };
    let mut notices = config.notices.clone();
    let mut apps = match choice::apps_and_mistakes(&config, &around) {
        Ok(mut choice) => {
            mistakes.extend(choice.mistakes.drain(..).map(|(_, mistake)| mistake));
            mistakes.extend(choice.take_errors().map(Misfit::error));
            notices.extend(choice.warnings());
            choice.apps
        }
        Err(errors) => {
            mistakes.extend(errors);
            Vec::new()
        }
    };
    mistakes.extend(choice::unknown_in_safe_mode(&config, &around));
    let own = own_dirs(options, &config, &runtime_dir, &state_dir);
    for app in &mut apps {
        let before = mistakes.len();
        mistakes.extend(reads(std::slice::from_ref(app), &own, &config));
        mistakes.extend(object(app, &config).err());
        mistakes.extend(own_file(app, &config).err());
        if mistakes.len() == before {
            mistakes.extend(loading(app, &own, &config).err());
        }
    }
    match keys::load(&options.tls, &config) {
        Ok(keys) => mistakes.extend(transport(options, &config, keys.is_some()).err()),
        Err(error) => mistakes.push(error.at(config.position_of("controller", "tls-dir"))),
    }
    mistakes.extend(api_keys(options, &config).err());
    mistakes.extend(addresses(options, &config).err());
    let variable = |name: &str| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
    mistakes.extend(config::with_environment(config.tuning, variable).err().map(Into::into));
    if mistakes.is_empty() {
        let apps = apps.into_iter().map(|app| app.spec.keys.name).collect();
        Ok(Valid { file: config.file, apps, notices })
    } else {
        Err(mistakes)
    }
}

/// Returns Rosemary's own directories, which no app may read.
pub(crate) fn own_dirs(
    options: &Options,
    config: &Config,
    runtime_dir: &Path,
    state_dir: &Path,
) -> Vec<PathBuf> {
    let dirs = [Some(runtime_dir.to_owned()), Some(state_dir.to_owned())];
    dirs.into_iter().chain([options.tls.resolve(config)]).flatten().collect()
}

/// Returns a mistake for each app that may read Rosemary's `own` files.
pub(crate) fn reads(apps: &[App], own: &[PathBuf], config: &Config) -> Vec<StartError> {
    let mistake = |app: &App| {
        let why = app.spec.keys.read.iter().find_map(|path| config::fs_read::why_not(path, own))?;
        let place = config.position_of_app(app.name(), "capabilities");
        Some(StartError::Granted { app: app.name().to_owned(), why }.at(place))
    };
    apps.iter().filter_map(mistake).collect()
}

/// Checks that switches can connect, and that none can from anywhere to reach an unsigned app.
///
/// # Errors
/// [`StartError::NobodyCouldConnect`] or [`StartError::UnsignedFromAnywhere`].
pub(crate) fn transport(
    options: &Options,
    config: &Config,
    has_keys: bool,
) -> Result<(), StartError> {
    let place = || match options.plain {
        None => config.position_of("controller", "plain"),
        Some(_) => None,
    };
    match options.plain(config) {
        PlainTcp::Never if !has_keys => Err(StartError::NobodyCouldConnect.at(place())),
        PlainTcp::Any if options.allows_any_unsigned() => {
            Err(StartError::UnsignedFromAnywhere.at(place()))
        }
        _ => Ok(()),
    }
}

/// Checks that the addresses of the HTTP interface could be bound together. If other machines can reach one of them, reads the keys
/// for TLS and has them checked.
///
/// # Errors
/// [`StartError::SameAddress`], [`StartError::TooManyAddresses`], [`StartError::NorthboundNeedsKeys`] or [`StartError::Keys`].
pub(crate) fn api_keys(
    options: &Options,
    config: &Config,
) -> Result<Option<keys::UserKeys>, StartError> {
    let Some((addresses, _)) = options.api(config) else { return Ok(None) };
    let place = || config.position_of("northbound", "api").filter(|_| options.api.is_empty());
    listen::check(&addresses).map_err(|error| error.at(place()))?;
    let other = addresses.into_iter().find(|address| needs_tls(*address));
    let keys = other.map(|address| keys::load_for_users(&options.tls, config, address));
    keys.transpose().map_err(|error| error.at(place()))
}

/// Checks that the addresses for switches could be bound together.
fn addresses(options: &Options, config: &Config) -> Result<(), StartError> {
    let place = || config.position_of("controller", "listen").filter(|_| options.listen.is_empty());
    let ListenAddresses { required, vtep, .. } = options.listen(config);
    listen::check(&required).map_err(|error| error.at(place()))?;
    let place = || config.position_of("controller", "vtep-listen");
    listen::check(&[required, vtep].concat()).map_err(|error| error.at(place()))
}

/// Checks that the file of an app's object can be read and has the kind that the app's host needs.
fn object(app: &App, config: &Config) -> Result<(), StartError> {
    let Object::File(_) = &app.object else { return Ok(()) }; // rosemary-security has inspected the package
    let path = app.object.path();
    let read = read_object(path).map_err(|error| error.to_string());
    let host = hosting::of(app.spec.keys.host);
    let checked = read.and_then(|bytes| host.check(&bytes).map_err(ToOwned::to_owned));
    checked.map_err(|why| unloadable(app, why).at(config.position_of_app(app.name(), "object")))
}

/// The error of an app whose object cannot be loaded.
fn unloadable(app: &App, why: String) -> StartError {
    let remedy = hosting::of(app.spec.runtime.host).remedy();
    let object = app.object.path().to_owned();
    StartError::Object { app: app.name().to_owned(), object, why, remedy }
}

/// Checks that the file with an app's own configuration can be read.
fn own_file(app: &App, config: &Config) -> Result<(), StartError> {
    ConfigFile::new(app.spec.keys.config.clone()).read().map_err(|why| {
        let place = config.position_of_app(app.name(), "config");
        StartError::AppFile { app: app.name().to_owned(), why }.at(place)
    })
}

/// Checks that an app can be loaded with its own configuration, which only the app can interpret.
fn loading(app: &mut App, own: &[PathBuf], config: &Config) -> Result<(), StartError> {
    trial_load::load(app, own, config.require).map_err(|why| {
        let name = app.name().to_owned();
        if let Some(file) = &app.spec.keys.config {
            let why = format!("{}: {why}", file.display());
            let place = config.position_of_app(&name, "config");
            return StartError::AppFile { app: name, why }.at(place);
        }
        unloadable(app, why).at(config.position_of_app(&name, "object"))
    })
}
