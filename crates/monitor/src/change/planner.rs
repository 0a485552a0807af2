//! Reads the configuration and all files of apps in a thread of its own, so that the event loop does not wait for disks
//! and for `rosemary-security`.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use config::{Config, RestartPolicy};
use control::app::AppId;
use control::operator::InactiveApp;
use control::service::ClientRights;

use super::difference::{Fixed, Wanted};
use super::new_config::{self, NewConfig};
use tracing::warn;

use crate::app::{AppFiles, AppSettings, Fingerprint};
use crate::check;
use crate::choice;
use crate::config_file::ConfigFile;
use crate::error::StartError;
use crate::installation::Installation;
use crate::modules::Modules;
use crate::numbers;
use crate::options::Options;
use crate::overrides::Overrides;
pub(crate) use crate::packages::Version;
use crate::packages::{Files, Store};
use crate::rights;

/// The inputs of all plans, apart from the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Planner {
    pub(crate) options: Options,
    pub(crate) installation: Installation,
    /// The claimed state directory.
    pub(crate) state_dir: PathBuf,
    /// Rosemary's own directories, which no app may read.
    pub(crate) own: Vec<PathBuf>,
    /// The same directories without symbolic links.
    pub(crate) never: Arc<[PathBuf]>,
}

/// The configuration that a plan follows.
#[derive(Debug)]
pub(crate) enum Source {
    /// The file as it is now.
    File,
    /// A configuration that was read before.
    Known(Box<Config>),
    /// A new text.
    New(NewConfig),
    /// The file as it is now; and this package is put beside the installed one of the app.
    Staged(String, Arc<Files>),
}

/// The apps of a configuration, ready to start.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: Config,
    pub(crate) fixed: Fixed,
    pub(crate) apps: Vec<PlannedApp>,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) inactive: Vec<InactiveApp>,
}

/// An app that is to run.
#[derive(Debug)]
pub(crate) struct PlannedApp {
    pub(crate) id: AppId,
    pub(crate) chosen: choice::App,
    pub(crate) rights: ClientRights,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) struct Unplannable {
    /// The reasons, as phrases.
    pub(crate) why: String,
    /// Whether the configuration, or a file that it names, is one of them.
    pub(crate) misconfigured: bool,
}

/// A plan that is being made.
#[derive(Debug)]
pub(crate) struct Planning {
    plan: Receiver<Result<Plan, Unplannable>>,
    wake: UnixStream,
}

impl Planner {
    /// The file of the configuration, if it has one.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        self.options.instance.config.clone().or_else(config::default_file)
    }

    /// The settings that only another start of Rosemary can change.
    pub(crate) fn fixed(&self, config: &Config) -> Fixed {
        let Self { options, .. } = self;
        let shown = |value: &dyn std::fmt::Debug| format!("{value:?}");
        // The policy of apps is part of each app's settings, and the watch of an upgrade begins with the upgrade.
        let mut rules = config.supervision;
        (rules.apps, rules.upgrade_watch) = (RestartPolicy::default(), Duration::ZERO);
        vec![
            ("listen", shown(&options.listen(config))),
            ("plain", shown(&options.plain(config))),
            ("tls-dir", shown(&options.tls.resolve(config))),
            ("runtime-dir", shown(&options.instance.resolve(config).ok())),
            ("state-dir", shown(&options.state.resolve(config).ok())),
            ("workers", shown(&options.workers(config))),
            ("a tuning key of [controller]", shown(&config.tuning)),
            ("zones.require", shown(&config.require)),
            ("[storage] or [log]", shown(&config.quotas)),
            ("[supervision]", shown(&rules)),
            ("[safe-mode]", shown(&config.safe_mode)),
        ]
    }

    /// Begins to make a plan in another thread. `write` says whether numbers of new apps are stored.
    ///
    /// # Errors
    /// The system is out of descriptors or threads.
    pub(crate) fn begin(
        &self,
        source: Source,
        overrides: Overrides,
        version: Option<(String, Version)>,
        write: bool,
    ) -> io::Result<Planning> {
        let (wake, mut waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (sender, plan) = sync_channel(1);
        let planner = self.clone();
        std::thread::Builder::new().name("planner".into()).spawn(move || {
            let plan = planner.plan(source, &overrides, version.as_ref(), write);
            // The receiver may be gone, if Rosemary stops.
            let unplannable = |errors: Vec<StartError>| {
                let texts: Vec<String> = errors.iter().map(|it| with_causes(it)).collect();
                let misconfigured = errors.iter().any(StartError::is_of_configuration);
                Unplannable { why: texts.join("; "), misconfigured }
            };
            let _ = sender.send(plan.map_err(unplannable));
            let _ = waker.write_all(&[1]);
        })?;
        Ok(Planning { plan, wake })
    }

    /// Removes a staged package, which is not used after all.
    pub(crate) fn drop_staged(&self, app: &str) {
        if let Err(error) = Store::of(&self.state_dir).drop_staged(app) {
            warn!(app, %error, "could not remove a staged package");
        }
    }

    /// Makes the staged package the installed one.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    pub(crate) fn use_staged(&self, app: &str) -> Result<(), String> {
        let used = Store::of(&self.state_dir).use_staged(app);
        used.map_err(|error| format!("the package could not be stored: {error}"))
    }

    /// Makes the previous package the installed one.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    pub(crate) fn use_previous(&self, app: &str) -> Result<(), String> {
        let used = Store::of(&self.state_dir).use_previous(app);
        used.map_err(|error| format!("the previous package could not be stored: {error}"))
    }

    /// Whether there is this version of the app's package.
    pub(crate) fn has_version(&self, app: &str, version: Version) -> bool {
        Store::of(&self.state_dir).has_version(app, version)
    }

    fn plan(
        &self,
        source: Source,
        overrides: &Overrides,
        version: Option<&(String, Version)>,
        write: bool,
    ) -> Result<Plan, Vec<StartError>> {
        let one = |error: StartError| vec![error];
        let Self { options, installation, state_dir, own, never } = self;
        let config = match source {
            Source::File => {
                let config = Config::load_all(options.instance.config.as_deref());
                config.map_err(|all| all.into_iter().map(StartError::from).collect::<Vec<_>>())?
            }
            Source::Known(config) => *config,
            Source::New(new) => new.parse(self.config_file())?,
            Source::Staged(app, files) => {
                let config = Config::load(options.instance.config.as_deref());
                let config = config.map_err(|error| one(error.into()))?;
                new_config::stage(&app, &files, &config, &Store::of(state_dir)).map_err(one)?;
                config
            }
        };
        let store = &Store::of(state_dir);
        let around = choice::Circumstances { options, installation, store, overrides, version };
        let mut apps = choice::apps(&config, &around)?;
        let mistakes = check::reads(&apps, own, &config);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        for app in &mut apps {
            app.never = never.clone();
        }
        let keys = apps.iter().map(|app| (app.name.as_str(), app.key()));
        let numbers = numbers::assign(state_dir, keys, write).map_err(one)?;
        let mut apps: Vec<(AppId, choice::App)> = numbers.into_iter().zip(apps).collect();
        let (rights, _) = rights::of(&apps);
        let wanted = apps.iter_mut().zip(&rights).map(|((_, app), rights)| Wanted {
            name: app.name.clone(),
            settings: AppSettings::of(app, rights),
            files: files(app),
        });
        let wanted = wanted.collect();
        let planned = |((id, chosen), rights)| PlannedApp { id, chosen, rights };
        Ok(Plan {
            fixed: self.fixed(&config),
            inactive: choice::inactive(&config, &around),
            apps: apps.into_iter().zip(rights).map(planned).collect(),
            wanted,
            config,
        })
    }
}

/// Reads the files of an app as they are now.
fn files(app: &mut choice::App) -> Result<Fingerprint, String> {
    let config = ConfigFile::new(app.config.clone());
    let python = app.python.as_ref();
    let modules =
        python.map(|(python, interpreter)| Modules::new(python, interpreter, &app.object));
    AppFiles::fingerprint_of(&mut app.object, config, modules.as_ref(), &app.name)
}

impl Plan {
    /// Whether the app runs from a package.
    pub(crate) fn is_packaged(&self, name: &str) -> bool {
        let app = self.apps.iter().find(|app| app.chosen.name == name);
        app.is_some_and(|app| matches!(app.chosen.origin, choice::Origin::Package { .. }))
    }

    /// Whether an app of this name is to run.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted.name == name)
    }

    /// Takes an app out of the plan.
    pub(crate) fn take(&mut self, name: &str) -> Option<PlannedApp> {
        let at = self.apps.iter().position(|app| app.chosen.name == name)?;
        Some(self.apps.swap_remove(at))
    }
}

impl Planning {
    /// The plan, once it is made.
    pub(crate) fn take(&self) -> Option<Result<Plan, Unplannable>> {
        match self.plan.try_recv() {
            Ok(plan) => Some(plan),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                let why = "the planner ended unexpectedly".into();
                Some(Err(Unplannable { why, misconfigured: false }))
            }
        }
    }
}

impl AsFd for Planning {
    /// Readable when the plan is made.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// An error with its causes, as one phrase.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
