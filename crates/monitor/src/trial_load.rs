//! Loads an app in a sandbox and ends it at once, to find out whether the app accepts its own configuration.
//!
//! `rosemary up --check` does this: only the app can interpret its configuration. The app is connected to nothing.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use config::{Python, Require, ServiceRight};
use control::app::AppId;
use control::log::LogLevel;
use control::zone::{DEFAULT_LIMITS, SwitchNumbers, ZoneReply, ZoneRequest, ZoneSandbox};

use crate::choice::App;
use crate::config_file::ConfigFile;
use crate::one_shot;
use crate::python::PythonZone;
use crate::text::harmless;
use crate::users::Users;

/// The most characters of an app's reason.
const LONGEST_REASON: usize = 400;

/// Loads `app` by the program `zone`. The app may read none of the paths in `never`.
///
/// # Errors
/// Why the app cannot be loaded with its files, as a phrase.
pub(crate) fn load(
    zone: &Path,
    app: &mut App,
    never: &[PathBuf],
    require: Require,
) -> Result<(), String> {
    match reply(zone, app, never, require) {
        Ok(ZoneReply::Unfit { why } | ZoneReply::NotLoaded { why } | ZoneReply::Failed { why }) => {
            Err(harmless(&why, LONGEST_REASON))
        }
        Ok(
            ZoneReply::Loaded { .. }
            | ZoneReply::Confined { .. }
            | ZoneReply::Incident { .. }
            | ZoneReply::Problem { .. }
            | ZoneReply::Audit { .. },
        ) => Ok(()),
        Err(error) => Err(format!("it could not be tried: {error}")),
    }
}

fn reply(zone: &Path, app: &mut App, never: &[PathBuf], require: Require) -> io::Result<ZoneReply> {
    let mut config = ConfigFile::new(app.config.clone());
    config.read().map_err(io::Error::other)?;
    let config = sys::shm::sealed_copy("config", config.content())?;
    let sha256 = app.object.read(&app.name)?.to_owned();
    let users = Users::find().map_err(io::Error::other)?;
    let id = AppId(u16::MAX); // no app has it
    // Without its sockets, which a running instance may have.
    let python = app.python.as_ref().map(|(python, _)| {
        let without = Python { listen: Vec::new(), ..python.clone() };
        let serves_http = app.service_rights.contains(&ServiceRight::ServeHttp);
        PythonZone::new(&without, &app.object, (&app.policy.capabilities, serves_http))
    });
    let executable = match &app.python {
        Some((_, interpreter)) => interpreter.command(),
        None => zone.to_owned().into(),
    };
    let request = ZoneRequest::Load {
        name: app.name.clone(),
        sandbox: Some(ZoneSandbox {
            run_as: users.for_nobody(),
            full: require == Require::Full,
            env: app.env.clone(),
            read: match &app.python {
                Some((python, interpreter)) => {
                    app.read.iter().cloned().chain(interpreter.read_dirs(python)).collect()
                }
                None => app.read.clone(),
            },
            never: never.iter().filter(|path| path.exists()).cloned().collect(),
            limits: DEFAULT_LIMITS,
        }),
        sha256,
        numbers: SwitchNumbers {
            band: (app.policy.band.lowest, app.policy.band.highest),
            groups: id.groups().into_inner(),
            meters: id.meters().into_inner(),
        },
        services: app.services.iter().map(|it| it.name().to_owned()).collect(),
        log_level: LogLevel::Error,
        provides: None, // it publishes nothing before an event
        python: python.map(|it| Box::new(it.app)),
    };
    let files: Vec<BorrowedFd<'_>> =
        app.object.sealed().into_iter().chain([config.as_fd()]).collect();
    let is_last = |reply: &ZoneReply| {
        !matches!(
            reply,
            ZoneReply::Confined { .. } | ZoneReply::Incident { .. } | ZoneReply::Problem { .. }
        )
    };
    one_shot::request_until(&executable, &request, &files, is_last)
}
