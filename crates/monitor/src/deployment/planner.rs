//! Reads the configuration and all files of apps in a thread of its own, so that the event loop does not wait for disks
//! and for `rosemary-security`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use config::{Config, RestartPolicy};
use control::app::AppId;

use super::new_config;
use tracing::warn;

use crate::check;
use crate::choice::{self, Misfit, Mistake};
use crate::error::StartError;
use crate::installation::Installation;
use crate::launch;
use crate::numbers;
use crate::options::{ListenAddresses, Options};
use crate::overrides::Overrides;
use crate::packages::{Store, Version};
use supervisor::change::deployment::{Order, Plan, Source, Unplannable};
use supervisor::change::difference::{Fixed, Scope, Wanted};
use supervisor::spec::AppSpec;

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

/// A plan, and its apps.
#[derive(Debug)]
pub(crate) struct PlanWithApps {
    pub(crate) plan: Plan,
    pub(crate) apps: Vec<PlannedApp>,
}

/// An app that is to run.
#[derive(Debug)]
pub(crate) struct PlannedApp {
    pub(crate) id: AppId,
    pub(crate) chosen: choice::App,
}

/// The apps that are to run, and what is wrong with them.
struct Chosen {
    apps: Vec<PlannedApp>,
    mistakes: Vec<Mistake>,
    faults: Vec<Misfit>,
}

/// A plan that is being made.
#[derive(Debug)]
pub(crate) struct Planning {
    plan: Receiver<Result<PlanWithApps, Unplannable>>,
    wake: UnixStream,
}

impl Planner {
    /// The file of the configuration, if it has one.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        let file = self.options.instance.config.clone().or_else(config::default_file)?;
        Some(std::path::absolute(&file).unwrap_or(file))
    }

    /// The settings that only another start of Rosemary can change.
    pub(crate) fn fixed(&self, config: &Config) -> Fixed {
        let Self { options, .. } = self;
        let shown = |value: &dyn std::fmt::Debug| format!("{value:?}");
        // The policy of apps is part of each app's settings, and the watch of an upgrade begins with the upgrade.
        let mut rules = config.supervision;
        (rules.apps, rules.upgrade_watch) = (RestartPolicy::default(), Duration::ZERO);
        let northbound = options.api(config);
        let northbound = northbound.map(|api| (api, options.ofctl(config), &config.northbound));
        let quotas = &config.quotas;
        let history = (quotas.history_bytes, quotas.history_series, quotas.history_interval);
        vec![
            ("listen", shown(&ListenAddresses { vtep: Vec::new(), ..options.listen(config) })),
            ("vtep-listen", shown(&config.vtep_listen)),
            ("plain", shown(&options.plain(config))),
            ("tls-dir", shown(&options.tls.resolve(config))),
            ("runtime-dir", shown(&options.instance.resolve(config).ok())),
            ("state-dir", shown(&options.state.resolve(config).ok())),
            ("workers", shown(&options.workers(config))),
            ("[controller]", shown(&config.tuning)),
            ("zones.require", shown(&config.require)),
            ("start.verify", shown(&config.verify)),
            ("[storage]", shown(&(config.quotas.storage_bytes, config.quotas.storage_keys))),
            ("[log]", shown(&config.quotas.log_bytes)),
            ("[history]", shown(&(config.keeps_history, history))),
            ("[[ovsdb]]", shown(&config.ovsdb)),
            ("[supervision]", shown(&rules)),
            ("[safe-mode]", shown(&config.safe_mode)),
            ("sessions.partition", shown(&config.sessions.partition)),
            // The addresses of the HTTP interface, and what its process gets at its start.
            ("[northbound]", shown(&northbound)),
        ]
    }

    /// Begins to make a plan in another thread.
    ///
    /// # Errors
    /// The system is out of descriptors or threads.
    pub(crate) fn begin(&self, order: Order, overrides: Overrides) -> io::Result<Planning> {
        let (wake, mut waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (sender, plan) = sync_channel(1);
        let planner = self.clone();
        std::thread::Builder::new().name("planner".into()).spawn(move || {
            let plan = planner.plan(order, overrides);
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

    /// Removes the installed package, which failed, and makes the previous package the installed one.
    ///
    /// # Errors
    /// Why it cannot be stored, as a phrase.
    pub(crate) fn take_back(&self, app: &str) -> Result<(), String> {
        let taken = Store::of(&self.state_dir).take_back(app);
        taken.map_err(|error| format!("the previous package could not be stored: {error}"))
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

    /// Makes a plan. `before` are the operators' decisions before the change.
    fn plan(&self, order: Order, before: Overrides) -> Result<PlanWithApps, Vec<StartError>> {
        let one = |error: StartError| vec![error];
        let Order { source, enable, version, write, only } = order;
        let only = only.map(|app| (app, before.clone()));
        let overrides = match enable {
            Some((app, enabled)) => before.with(&app, enabled),
            None => before,
        };
        let Self { options, installation, state_dir, .. } = self;
        let config = match source {
            Source::File => {
                let config = Config::load_all(options.instance.config.as_deref());
                config.map_err(|all| all.into_iter().map(StartError::from).collect::<Vec<_>>())?
            }
            Source::Known(config) => *config,
            Source::New(new) => new_config::parse(&new, self.config_file())?,
            Source::Earlier(earlier) => new_config::parse_earlier(&earlier, self.config_file())?,
            Source::Staged(app, files) => {
                let config = Config::load(options.instance.config.as_deref());
                let config = config.map_err(|error| one(error.into()))?;
                new_config::stage(&app, &files, &config, &Store::of(state_dir)).map_err(one)?;
                config
            }
        };
        let store = &Store::of(state_dir);
        let version = version.as_ref();
        let around =
            choice::Circumstances { options, installation, store, overrides: &overrides, version };
        let before = match &only {
            None => None,
            Some((_, overrides)) => {
                let around = choice::Circumstances { overrides, version: None, ..around };
                self.choose(&config, &around).ok() // without it, the change is compared with all that runs
            }
        };
        let Chosen { apps: mut chosen, mistakes, faults } = self.choose(&config, &around)?;
        let only = only.zip(before).map(|((app, _), before)| (app, before.apps));
        let is_of_another = |(name, _): &Mistake| only.as_ref().is_some_and(|(app, _)| app != name);
        let (others, mistakes): (Vec<_>, Vec<_>) = mistakes.into_iter().partition(is_of_another);
        let mut mistakes: Vec<StartError> = mistakes.into_iter().map(|(_, it)| it).collect();
        let concerns =
            |it: &Misfit| only.as_ref().is_none_or(|(app, _)| it.fault.apps.contains(app));
        let (errors, others_faults): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|it| it.fault.is_error && concerns(it));
        mistakes.extend(errors.into_iter().map(Misfit::error));
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        if write {
            let keys = chosen.iter().map(|it| (it.chosen.name(), it.chosen.spec.key()));
            numbers::assign(state_dir, keys, true).map_err(one)?; // the same numbers
            let unusable = others.iter().map(|(name, _)| name.as_str());
            choice::note_guards(store, chosen.iter().map(|it| &it.chosen), unusable);
        }
        let scope = only.map(|(app, before)| Scope {
            apps: concerned(app, &before, &chosen),
            changed_file: config
                .file
                .clone()
                .filter(|file| new_config::read(file).is_ok_and(|text| text != config.text())),
            mistakes: others.iter().map(|(name, it)| (name.clone(), with_causes(it))).collect(),
        });
        let wanted = chosen.iter_mut().map(|PlannedApp { chosen, .. }| Wanted {
            spec: chosen.spec.clone(),
            files: launch::fingerprint(chosen),
        });
        let wanted = wanted.collect();
        let plan = Plan {
            fixed: self.fixed(&config),
            inactive: choice::inactive(&config, &around),
            warnings: others_faults.iter().map(Misfit::warning).collect(),
            wanted,
            config,
            scope,
        };
        Ok(PlanWithApps { plan, apps: chosen })
    }

    /// Chooses the apps that are to run, and returns mistakes with the names of their apps. The numbers of new apps are not
    /// stored.
    fn choose(
        &self,
        config: &Config,
        around: &choice::Circumstances<'_>,
    ) -> Result<Chosen, Vec<StartError>> {
        let choice = choice::apps_and_mistakes(config, around)?;
        let (mut apps, mut mistakes, faults) = (choice.apps, choice.mistakes, choice.faults);
        for app in &mut apps {
            let reads = check::reads(std::slice::from_ref(app), &self.own, config);
            mistakes.extend(reads.into_iter().map(|mistake| (app.name().to_owned(), mistake)));
            app.never = self.never.clone();
        }
        let keys = apps.iter().map(|app| (app.name(), app.spec.key()));
        let numbers = numbers::assign(&self.state_dir, keys, false);
        let numbers = numbers.map_err(|error| vec![error])?;
        choice::give_rights(&numbers, &mut apps);
        let planned = |(id, chosen)| PlannedApp { id, chosen };
        let apps = numbers.into_iter().zip(apps).map(planned).collect();
        Ok(Chosen { apps, mistakes, faults })
    }
}

/// Returns the apps that a change of `app` concerns, which makes other apps run than before, or with other settings.
fn concerned(app: String, before: &[PlannedApp], after: &[PlannedApp]) -> BTreeSet<String> {
    let specs = |apps: &[PlannedApp]| -> BTreeMap<String, AppSpec> {
        let of = |it: &PlannedApp| (it.chosen.name().to_owned(), it.chosen.spec.clone());
        apps.iter().map(of).collect()
    };
    let (before, after) = (specs(before), specs(after));
    let names = before.keys().chain(after.keys());
    let differ = names.filter(|name| before.get(*name) != after.get(*name)).cloned();
    differ.chain([app]).collect()
}

impl Planning {
    /// The plan, once it is made.
    pub(crate) fn take(&self) -> Option<Result<PlanWithApps, Unplannable>> {
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
