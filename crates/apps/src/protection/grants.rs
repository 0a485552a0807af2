//! Finds out which apps this one may limit, before there is an attack.
//!
//! The service `apps` has no request for this. It refuses to end a limit without the capability, and with it does nothing for an
//! app that has no limit.

use std::collections::BTreeSet;

use rosemary_sdk::Network;
use rosemary_sdk::services::RequestId;
use rosemary_sdk::services::apps::Answer;

/// Most questions at a time: the monitor accepts 20 requests per second.
const MOST_ASKED: usize = 4;

/// The capabilities beside `apps.limit:NAME`.
const OTHERS: [&str; 5] =
    ["packet-in", "stats.read", "topology.read", "topology.drain", "apps.read"];

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Apps about which a question was sent.
    asked: BTreeSet<String>,
    /// Questions that are not answered.
    awaited: Vec<(RequestId, String)>,
    is_complete: bool,
    is_granted: bool,
    /// Apps that may not be limited.
    refused: Vec<String>,
    said: bool,
}

impl Grants {
    /// Asks about those of these apps that are new.
    pub(crate) fn ask<'a>(
        &mut self,
        apps: impl Iterator<Item = &'a str>,
        network: &mut Network<'_>,
    ) {
        self.is_complete = true;
        for app in apps.filter(|app| !self.asked.contains(*app)).collect::<Vec<_>>() {
            if self.awaited.len() >= MOST_ASKED {
                self.is_complete = false; // the next reading asks about the others
                return;
            }
            let Ok(request) = network.release_app(app) else {
                self.is_complete = false;
                return;
            };
            self.awaited.push((request, app.to_owned()));
            self.asked.insert(app.to_owned());
        }
    }

    /// Handles an answer of the monitor. `None` means that it is lost. Returns whether it is one to these questions.
    pub(crate) fn on_answer(&mut self, request: RequestId, answer: Option<&Answer>) -> bool {
        let Some(place) = self.awaited.iter().position(|(id, _)| *id == request) else {
            return false;
        };
        let (_, app) = self.awaited.swap_remove(place);
        match answer {
            Some(Answer::Done) => self.is_granted = true,
            Some(Answer::Refused(why)) if why.contains("has not granted") => self.refused.push(app),
            _ => drop(self.asked.remove(&app)), // the next reading asks again
        }
        true
    }

    /// Returns once, when all questions are answered, that no app may be limited although the configuration has `setting`.
    pub(crate) fn mistake(&mut self, setting: &str) -> Option<String> {
        let is_known = self.is_complete && self.awaited.is_empty() && !self.refused.is_empty();
        if !is_known || self.is_granted || std::mem::replace(&mut self.said, true) {
            return None;
        }
        self.refused.sort();
        let limits = self.refused.iter().map(|app| format!("apps.limit:{app}"));
        let names = OTHERS.iter().map(ToString::to_string).chain(limits);
        let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
        Some(format!(
            "{setting} has no effect, as the operator has not granted \"apps.limit:NAME\" for any app; write into the [[app]] of \
             protection, with the apps that it may limit: capabilities = [{}]",
            names.join(", ")
        ))
    }
}
