//! One app in its zone: from its object's file to rings that lead to the kernel.
//!
//! What a zone says is believed about itself only, and only in order: `Loaded` once, `Failed` once
//! and then nothing more. So a zone that floods its socket ends with its second message.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use kernel::control::{App, AppId};
use kernel::policy::Policy;
use tracing::{error, info};
use zone::control::{Answer, Request};

use crate::admin::AppStatus;
use crate::attachment::{Answered, Attachment};
use crate::places::read_object;
use crate::program::{Program, shortened};
use crate::supervise::State;

/// An app that runs as a user app.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) app: AppId,
    pub(crate) name: String,
    pub(crate) program: Program,
    object: PathBuf,
    run_as: Option<u32>,
    pub(crate) policy: Policy,
    attachment: Attachment,
    failed: bool,
}

impl Zone {
    /// App number `app`, called `name`, whose object is in `object`, hosted by the program `host`.
    pub(crate) fn new(
        app: AppId,
        name: &str,
        object: PathBuf,
        host: PathBuf,
        run_as: Option<u32>,
    ) -> Self {
        Self {
            app,
            name: name.into(),
            program: Program::new(format!("zone {name}"), host),
            object,
            run_as,
            policy: Policy::default(),
            attachment: Attachment::default(),
            failed: false,
        }
    }

    /// Starts the zone's process and gives it the object, as it is in its file now.
    pub(crate) fn start(&mut self, now: Instant) {
        let object =
            read_object(&self.object).and_then(|bytes| sys::shm::sealed_copy(&self.name, &bytes));
        match object {
            Ok(object) => {
                self.failed = false;
                self.program.start(now);
                let load = Request::Load {
                    name: self.name.clone(),
                    run_as: self.run_as,
                    band: (self.policy.band.lowest, self.policy.band.highest),
                };
                self.program.tell(&load, &[object.as_fd()]);
            }
            Err(error) => {
                let why = format!("could not read {}: {error}", self.object.display());
                self.program.not_started(now, &why);
            }
        }
    }

    /// Takes what the zone said, if it said something. Says whether it wants to be attached now.
    pub(crate) fn hear(&mut self, now: Instant) -> bool {
        let Some((answer, _)) = self.program.hear::<Answer>(now) else { return false };
        if self.failed {
            self.program.kill("it spoke on after it had failed");
            return false;
        }
        match answer {
            Answer::Loaded { version } => {
                if self.program.ready() {
                    let (pid, version) = (self.program.pid(), shortened(&version, 40));
                    info!(app = self.name, version, pid, uid = self.uid(), "app was loaded");
                    return true;
                }
                if self.program.supervision().state() != State::Stopping {
                    self.program.kill("it said twice that it is loaded");
                }
            }
            Answer::Failed { why } => {
                error!(app = self.name, why = shortened(&why, 400), "app failed");
                self.failed = true;
                self.program.ending(now);
            }
        }
        false
    }

    /// What the kernel is told of it at its start.
    pub(crate) fn introduction(&self) -> App {
        App { app: self.app, name: self.name.clone(), policy: self.policy.clone() }
    }

    /// Whether its app is loaded and can be connected.
    pub(crate) fn is_loaded(&self) -> bool {
        self.program.supervision().state() == State::Running
    }

    /// The kernel was asked for rings.
    pub(crate) fn rings_asked(&mut self) {
        self.attachment.asked();
    }

    /// The kernel made rings. Says whether they had been asked for.
    pub(crate) fn rings_made(&mut self, capacity: u32, fds: &[OwnedFd]) -> bool {
        match self.attachment.answered() {
            Answered::Unasked => return false,
            Answered::Stale => {}
            Answered::PassOn => {
                let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                self.program.tell(&Request::Rings { capacity }, &fds);
                info!(app = self.name, "app was connected to the kernel");
            }
        }
        true
    }

    /// The kernel reports that the zone broke the rings' rules.
    pub(crate) fn fault(&mut self, why: &str) {
        if self.attachment.is_connected() {
            self.program
                .kill(&format!("its app broke a rule of its rings: {}", shortened(why, 400)));
        }
    }

    /// The zone's process has ended. Says whether the kernel has to be told.
    pub(crate) fn ended(&mut self) -> bool {
        self.attachment.zone_ended()
    }

    /// The kernel has ended; the zone keeps running.
    pub(crate) fn kernel_ended(&mut self) {
        self.attachment.kernel_ended();
    }

    /// Asks it to end, if it runs.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.program.stop(now) {
            self.program.tell(&Request::Stop, &[]);
        }
    }

    fn uid(&self) -> u32 {
        self.run_as.unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }

    /// For the operator.
    pub(crate) fn status(&self) -> AppStatus {
        let supervision = self.program.supervision();
        AppStatus {
            name: self.name.clone(),
            host: "user".into(),
            pid: self.program.pid(),
            uid: self.uid(),
            state: supervision.state(),
            restarts: supervision.restarts(),
            last_exit: supervision.last_exit().map(Into::into),
        }
    }
}
