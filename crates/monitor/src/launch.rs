//! Makes apps from what was chosen: finds what their processes need on this machine.

use std::path::Path;

use config::Require;
use control::app::AppId;
use control::hosting::Hosting;
use control::log::LogLevel;
use control::zone::ZoneSandbox;
use sdk::services::Service;
use supervisor::app::{App, Guest, Launch, provided};
use supervisor::files::{Contents, FileSource, Fingerprint};
use sys::process::PidNamespace;
use sys::sandbox::Limits;

use crate::choice;
use crate::config_file::ConfigFile;
use crate::environment::Environment;
use crate::hosting::{self, OtherFiles, Sockets};
use crate::object::Object;

/// Describes the app `chosen` with number `id`; nothing is started. `demoted` says why it must not run in the kernel.
pub(crate) fn app(
    id: AppId,
    chosen: choice::App,
    around: &Environment,
    demoted: Option<&str>,
) -> App {
    let choice::App { spec, object, never } = chosen;
    let limits = spec.keys.limits;
    let sandbox = around.require.map(|require| ZoneSandbox {
        run_as: around.users.for_app(id.0),
        full: require == Require::Full,
        env: spec.keys.env.clone(),
        read: spec.readable(),
        never: never.to_vec(),
        limits: with_tables(
            around.enforcement.process_limits(&limits),
            spec.keys.services.iter().copied().chain(provided(spec.name())),
        ),
    });
    let apart = if sandbox.is_some() { PidNamespace::find() } else { PidNamespace::No };
    let settings = hosting::of(spec.runtime.host).settings(&spec, &object);
    let listeners = Box::new(Sockets::of(settings.listeners.clone()));
    let uid = rustix::process::geteuid().as_raw();
    let launch = Launch {
        id,
        files: Box::new(Files::of(&spec, object)),
        guest: Guest { settings, listeners },
        sandbox,
        apart,
        meter: around.enforcement.meter(limits),
        uids: (uid, around.users.for_kernel().unwrap_or(uid)),
        // A level that apps do not have is "trace".
        log_level: LogLevel::named(sys::log::for_children()).unwrap_or(LogLevel::Debug),
        effects: around.effects.clone(),
        incidents: around.incidents.clone(),
        spec,
    };
    App::new(launch, demoted)
}

/// Reads the files of an app as they are now.
///
/// # Errors
/// Why one of them cannot be read, as a phrase.
pub(crate) fn fingerprint(app: &mut choice::App) -> Result<Fingerprint, String> {
    let mut config = ConfigFile::new(app.spec.keys.config.clone());
    let others = hosting::of(app.spec.runtime.host).other_files(&app.spec, &app.object);
    read(&mut app.object, &mut config, others.as_deref(), app.spec.name())
}

/// Adds address space for the tables of these services to the limits of a process.
fn with_tables(mut limits: Limits, services: impl Iterator<Item = Service>) -> Limits {
    let tables = services.filter_map(Service::table_slots).map(sys::table::size_of_table);
    if let Some(memory) = &mut limits.memory {
        memory.address_space = memory.address_space.saturating_add(tables.sum::<usize>() as u64);
    }
    limits
}

/// The files of an app on this machine.
#[derive(Debug)]
struct Files {
    host: Hosting,
    object: Object,
    config: ConfigFile,
    others: Option<Box<dyn OtherFiles>>,
}

impl Files {
    fn of(spec: &supervisor::spec::AppSpec, object: Object) -> Self {
        let config = ConfigFile::new(spec.keys.config.clone());
        let others = hosting::of(spec.runtime.host).other_files(spec, &object);
        Self { host: spec.runtime.host, object, config, others }
    }
}

impl FileSource for Files {
    fn read(&mut self, app: &str) -> Result<Contents, String> {
        let files = read(&mut self.object, &mut self.config, self.others.as_deref(), app)?;
        let object = self.object.sealed().ok_or("it has no object")?;
        let (code, code_sha256) = match hosting::of(self.host).code(&files.sha256)? {
            Some(code) => code,
            None => (object, files.sha256.clone()),
        };
        Ok(Contents { code, code_sha256, files })
    }

    fn refusal(&self) -> Option<&str> {
        self.object.refusal()
    }

    fn object_path(&self) -> &Path {
        self.object.path()
    }

    fn is_object_watched(&self) -> bool {
        matches!(self.object, Object::File(_))
    }

    fn config_path(&self) -> Option<&Path> {
        self.config.path()
    }
}

fn read(
    object: &mut Object,
    config: &mut ConfigFile,
    others: Option<&dyn OtherFiles>,
    app: &str,
) -> Result<Fingerprint, String> {
    config.read()?;
    let modules = others.map(OtherFiles::read).unwrap_or_default();
    let path = object.path().display().to_string();
    let sha256 = object.read(app).map(ToOwned::to_owned);
    let sha256 = sha256.map_err(|error| format!("could not read {path}: {error}"))?;
    Ok(Fingerprint { sha256, config: config.content().to_owned(), modules })
}
