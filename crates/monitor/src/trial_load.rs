//! Loads an app in a sandbox and ends it at once, to find out whether the app accepts its own configuration.
//!
//! `rosemary up --check` does this: only the app can interpret its configuration. The app is connected to nothing.
//! It has the limits and the private `/tmp` of a running app, and sockets that are not bound in place of those that it listens at.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use config::Require;
use control::app::AppId;
use control::log::LogLevel;
use control::zone::{SwitchNumbers, ZoneReply, ZoneRequest, ZoneSandbox};
use sys::sandbox::notifications::{Listener, TargetReader};
use sys::sandbox::{Mechanism, Report};

use crate::choice::App;
use crate::config_file::ConfigFile;
use crate::hosting::{self, Sockets};
use crate::one_shot::OneShot;
use crate::usage::Enforcement;
use crate::users::Users;
use supervisor::text::harmless;

/// The most characters of an app's reason.
const LONGEST_REASON: usize = 400;

/// The most refused calls that are answered in a trial, so that an app that repeats them occupies the monitor only briefly. A
/// running app may make as many in 20 seconds, after which a trial ends anyway.
const MAX_ANSWERS: u32 = 20_000;

/// The most calls that are answered before the app's reply is read.
const PER_TURN: u32 = 64;

/// The time for which the budget of a [`TargetReader`] is meant.
const PERIOD: Duration = Duration::from_secs(1);

/// Answers the app's refused calls in a trial. Without answers an app could not even write to its own `/tmp`.
#[derive(Debug, Default)]
struct Calls {
    listener: Option<Listener>,
    reader: TargetReader,
    /// When the reader's budget began.
    began: Option<Instant>,
    answered: u32,
}

impl Calls {
    /// Takes the process's report and its listener, if it has one.
    fn confined(&mut self, report: &Report, fds: Vec<OwnedFd>) -> io::Result<()> {
        let has_tmp = report.is_on(Mechanism::Root);
        self.listener = fds.into_iter().next().map(|fd| Listener::new(fd, has_tmp)).transpose()?;
        Ok(())
    }

    /// Readable when a call waits.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Answers waiting calls.
    fn answer(&mut self) {
        if self.began.is_none_or(|at| at.elapsed() >= PERIOD) {
            self.reader.refill();
            self.began = Some(Instant::now());
        }
        for _ in 0..PER_TURN {
            let Some(listener) = &mut self.listener else { return };
            match listener.answer_next(&mut self.reader) {
                Ok(Some(_)) if self.answered < MAX_ANSWERS => self.answered += 1,
                Ok(None) => return,
                // The process has ended, or repeats such calls. Without a listener its calls fail with ENOSYS.
                Ok(Some(_)) | Err(_) => self.listener = None,
            }
        }
    }
}

/// Loads `app` in a zone. The app may read none of the paths in `never`.
///
/// # Errors
/// Why the app cannot be loaded with its files, as a phrase.
pub(crate) fn load(app: &mut App, never: &[PathBuf], require: Require) -> Result<(), String> {
    match reply(app, never, require) {
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

fn reply(app: &mut App, never: &[PathBuf], require: Require) -> io::Result<ZoneReply> {
    let mut config = ConfigFile::new(app.spec.keys.config.clone());
    config.read().map_err(io::Error::other)?;
    let config = sys::shm::sealed_copy("config", config.content())?;
    let sha256 = app.object.read(app.spec.name())?.to_owned();
    let host = hosting::of(app.spec.runtime.host);
    let code = host.code(&sha256).map_err(io::Error::other)?;
    let sha256 = code.as_ref().map_or(sha256, |(_, of_code)| of_code.clone());
    let users = Users::find().map_err(io::Error::other)?;
    let id = AppId(u16::MAX); // no app has it
    let App { spec, object, .. } = app;
    let settings = host.settings(spec, object);
    let mut sockets = Sockets::of(settings.listeners.clone());
    sockets.listen_nowhere()?;
    let request = ZoneRequest::Load {
        name: spec.name().to_owned(),
        sandbox: Some(ZoneSandbox {
            run_as: users.for_nobody(),
            full: require == Require::Full,
            env: spec.keys.env.clone(),
            read: spec.readable(),
            never: never.iter().filter(|path| path.exists()).cloned().collect(),
            // A trial is in no cgroup.
            limits: Enforcement::without_groups("").process_limits(&spec.keys.limits),
        }),
        sha256,
        numbers: SwitchNumbers {
            band: (spec.policy.band.lowest, spec.policy.band.highest),
            groups: id.groups().into_inner(),
            meters: id.meters().into_inner(),
        },
        services: spec.keys.services.iter().map(|it| it.name().to_owned()).collect(),
        log_level: LogLevel::Error,
        provides: None, // it publishes nothing before an event
        guest: Box::new(settings),
    };
    let sealed = code.map(|(code, _)| code).or_else(|| object.sealed());
    let files = sealed.iter().map(|object| object.as_fd()).chain([config.as_fd()]);
    let files: Vec<BorrowedFd<'_>> = files.chain(sockets.fds()).collect();
    let process = OneShot::start(&spec.runtime.program, &request, &files)?;
    let mut calls = Calls::default();
    loop {
        match process.receive(calls.fd())? {
            None => calls.answer(),
            Some((ZoneReply::Confined { report }, fds)) => {
                process.refuse_descriptors();
                calls.confined(&report, fds)?;
            }
            Some((ZoneReply::Incident { .. } | ZoneReply::Problem { .. }, _)) => {}
            Some((last, _)) => return Ok(last),
        }
    }
}
