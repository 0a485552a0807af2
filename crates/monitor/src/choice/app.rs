//! One app that is to run: its settings, its object, and who vouches for it.

use std::path::PathBuf;
use std::sync::Arc;

use config::{AppConfig, Config};
use control::hosting::Hosting;
use control::policy::Policy;
use control::service::ClientRights;
use supervisor::hang::DEFAULT_LONGEST_CALL;
use supervisor::spec::{AppSpec, Origin};

use crate::error::StartError;
use crate::hosting;
use crate::installation::Installation;
use crate::object::Object;

/// An app that is to run.
#[derive(Debug)]
pub(crate) struct App {
    /// Its specification. Its rights in services follow when all apps are chosen.
    pub(crate) spec: AppSpec,
    /// Its object, which exists.
    pub(crate) object: Object,
    /// Rosemary's own directories, which no app may read; paths without symbolic links.
    pub(crate) never: Arc<[PathBuf]>,
}

impl App {
    /// The app of `settings` with this policy and object.
    pub(crate) fn of(
        settings: AppConfig,
        policy: Policy,
        (mut object, origin): (Object, Origin),
        config: &Config,
        installation: &Installation,
    ) -> Result<Self, StartError> {
        let is_archive = object
            .is_archive()
            .map_err(|source| StartError::System { what: "read a package", source })?;
        let mut keys = settings.without_place();
        let outside = keys.host.outside();
        let of_archive = Hosting::of_archive().filter(|_| is_archive && !outside.has_modules);
        let outside = of_archive.unwrap_or(outside);
        if !keys.host.is_in_kernel() {
            keys.host = outside;
        }
        let at_host = |error: StartError| error.at(config.position_of_app(&keys.name, "host"));
        let runtime = hosting::of(outside).runtime(&keys.name, installation);
        let mut runtime = runtime.map_err(at_host)?;
        if keys.host.is_in_kernel() {
            runtime.kernel = hosting::of(keys.host).kernel(installation).map_err(at_host)?;
        }
        hosting::of(runtime.host).prepare(&keys.name, &mut object, installation);
        keys.limits = keys.limits.with_rings(config.tuning.ring);
        let hang = keys.hang.or(config.hang).unwrap_or(DEFAULT_LONGEST_CALL);
        let restart = keys.restart.over(config.supervision.apps);
        let rights = ClientRights::default();
        let path = object.path().to_owned();
        let spec = AppSpec { keys, policy, origin, object: path, rights, hang, restart, runtime };
        Ok(Self { spec, object, never: Arc::default() }) // `never` follows when the directories exist
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.spec.name()
    }
}
