//! Plans, trials and packages on the invented disk.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Config, Require};
use control::service::ServiceKind;
use supervisor::app::App;
use supervisor::change::deployment::{
    Deployment, EarlierConfig, NewConfig, Order, PackageFiles, Plan, Source, StoredConfirmation,
    Unplannable, Version,
};
use supervisor::change::difference::{Fixed, Scope, Wanted};
use supervisor::change::history::Configuration;
use supervisor::files::Fingerprint;
use supervisor::services::ServiceParts;
use supervisor::spec::AppSpec;

use super::{Content, Disk, Quality, Versions, service_parts, sha256};

impl Deployment for Disk {
    fn plan(&mut self, order: Order) -> Result<(), String> {
        let mut content = self.0.borrow_mut();
        let Order { source, enable, version, only, .. } = order;
        let config = match source {
            Source::Known(config) => *config,
            Source::Earlier(earlier) => match content.earlier(&earlier) {
                Ok(config) => config,
                Err(why) => {
                    content.planning = Some((content.clock.get(), Err(why)));
                    return Ok(());
                }
            },
            Source::File | Source::New(_) | Source::Staged(..) => content.config(),
        };
        let mut enabled = content.enabled.clone();
        enabled.extend(enable);
        let mut fails = config.apps.as_ref().is_some_and(Vec::is_empty);
        fails |= content.is_full && content.next_object.is_multiple_of(3);
        let specs = content.specs(&config, &enabled, version.as_ref());
        // Some take longer than a change waits.
        let is_slow = content.next_object.is_multiple_of(7);
        let time = if is_slow { 32_000 } else { 3 + content.next_object % 50 };
        let at = content.clock.get() + Duration::from_millis(time);
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

    fn end(&mut self) {
        let mut content = self.0.borrow_mut();
        (content.planning, content.trial) = (None, None);
        content.launchable.clear();
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
        if let Some(edition) = content.edition_of(config.text()) {
            content.use_edition(edition);
        }
        Ok(())
    }

    fn restore(
        &mut self,
        config: &Config,
        earlier: &EarlierConfig,
    ) -> Result<Option<PathBuf>, String> {
        let is_edited = {
            let content = self.0.borrow();
            content.earlier(earlier)?;
            content.text(content.edition) != *earlier.loaded
        };
        self.store(config)?;
        Ok(is_edited.then(|| "/rosemary.toml.edited".into()))
    }

    fn record(&mut self, kept: &Configuration, dropped: &[u64]) -> Result<(), String> {
        self.0.borrow_mut().record(kept, dropped)
    }

    fn await_confirmation(&mut self, waiting: Option<StoredConfirmation>) -> Result<(), String> {
        self.0.borrow_mut().await_confirmation(waiting)
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

    fn services(&self, kinds: &[ServiceKind]) -> Result<Vec<ServiceParts>, String> {
        Ok(service_parts(kinds))
    }
}

impl Content {
    /// The configuration of an earlier text.
    ///
    /// # Errors
    /// Somebody edited the file since it was loaded.
    fn earlier(&self, earlier: &EarlierConfig) -> Result<Config, String> {
        if self.text(self.edition) != *earlier.loaded && !earlier.force {
            return Err("/rosemary.toml was edited since it was loaded".into());
        }
        self.parse(self.edition_of(&earlier.text).ok_or("there is no such text")?)
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
