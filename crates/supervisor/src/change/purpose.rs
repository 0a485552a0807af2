//! Why a change is made, and what its plan follows from.

use std::sync::Arc;
use std::time::Duration;

use control::change::ChangeState;

use super::applying::Phase;
use super::changes::{Basis, Running};
use super::deployment::{EarlierConfig, NewConfig, Order, PackageFiles, Source, Version};
use crate::programs::Programs;

/// Why a change is made.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// An app is started, stopped or restarted.
    Verb,
    /// A configuration is applied.
    Reload(Reload),
    /// A package is put beside the installed one.
    Stage { app: String, files: Arc<PackageFiles> },
    /// An operator overrides `enabled`.
    Enable { app: String, enabled: bool },
    /// The kernel hosts an app again.
    Promote { app: String },
    /// A staged package is to run.
    Upgrade { app: String },
    /// The previous package is to run again.
    Rollback { app: String },
    /// An upgraded app has failed, for the reason `why`, and the previous package is to run again.
    Undo { app: String, why: String },
}

/// How a configuration is applied.
#[derive(Debug, Clone)]
pub(super) struct Reload {
    /// Whether only the steps are reported.
    pub(super) dry_run: bool,
    /// Where its text comes from.
    pub(super) text: NewText,
    /// How long it waits for a confirmation, if it does.
    pub(super) confirm: Option<Duration>,
    /// The number of the configuration without a confirmation that it takes back, if it does.
    pub(super) takes_back: Option<u64>,
    /// Whether it is requested over the HTTP interface.
    pub(super) over_http: bool,
}

/// Where the text of a configuration comes from.
#[derive(Debug, Clone)]
pub(super) enum NewText {
    /// It is the file's.
    File,
    /// A user has sent it. It becomes the file's.
    Sent(NewConfig),
    /// It was applied before. It becomes the file's again.
    Earlier(EarlierConfig),
}

impl Running {
    /// Begins to plan. Returns the change's state.
    pub(super) fn begin_planning(&mut self, basis: &mut Basis, programs: &Programs) -> ChangeState {
        let Basis { config, deployment, .. } = basis;
        let known = || Source::Known(Box::new(config.clone()));
        let mut order =
            Order { source: Source::File, enable: None, version: None, write: true, only: None };
        match &self.purpose {
            Purpose::Reload(reload) => {
                order.source = match &reload.text {
                    NewText::File => Source::File,
                    NewText::Sent(new) => Source::New(new.clone()),
                    NewText::Earlier(earlier) => Source::Earlier(earlier.clone()),
                };
                order.write = !reload.dry_run;
            }
            Purpose::Stage { app, files } => {
                order.source = Source::Staged(app.clone(), files.clone());
                order.write = false;
            }
            Purpose::Enable { app, enabled } => {
                (order.source, order.only) = (known(), Some(app.clone()));
                order.enable = Some((app.clone(), *enabled));
            }
            Purpose::Promote { app } => {
                if let Err(why) = programs.must_be_demoted(app) {
                    return ChangeState::Refused { why };
                }
                (order.source, order.only) = (known(), Some(app.clone()));
            }
            Purpose::Upgrade { app } => {
                (order.source, order.version) = (known(), Some((app.clone(), Version::Staged)));
            }
            Purpose::Rollback { app } if !deployment.has_version(app, Version::Previous) => {
                let why = format!(
                    "no earlier package of {app} is kept; a version that failed and was taken back is not: install it again if you want it"
                );
                return ChangeState::Refused { why };
            }
            Purpose::Rollback { app } | Purpose::Undo { app, .. } => {
                (order.source, order.version) = (known(), Some((app.clone(), Version::Previous)));
            }
            Purpose::Verb => order.source = known(),
        }
        match deployment.plan(order) {
            Ok(()) => {
                self.phase = Phase::Planning;
                ChangeState::Running
            }
            Err(error) => ChangeState::Refused { why: format!("it cannot be planned: {error}") },
        }
    }
}
