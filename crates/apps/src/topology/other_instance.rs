//! Notices probes of another instance of Rosemary: it controls the same switches, or switches beside them.

use std::time::Duration;

use rosemary_sdk::services::topology::Endpoint;

use super::discovery::{Discovery, Effect};

/// How long no such probe arrives before the other instance counts as gone.
const GONE: Duration = Duration::from_secs(60);

impl Discovery {
    /// Handles a probe of another instance. All of them are one incident and one problem until there was none for [`GONE`].
    pub(super) fn other_instance(&mut self, at: Endpoint, now: Duration) {
        if self.reports.is_beginning(now) {
            return; // an earlier process of this installation sent it
        }
        if self.other_instance.replace(now).is_some() {
            return;
        }
        let summary = format!("LLDP of another Rosemary arrived at {at}: it made no link");
        let evidence = "it has the form of this app's probes and another instance. Another Rosemary controls a switch of this \
                        network, or a host pretends that";
        self.effects.push(Effect::Incident { summary, evidence: evidence.to_owned() });
        let problem = format!(
            "another Rosemary controls a switch of this network, as its LLDP arrived at {at}; where both control the same switches, \
             they overwrite each other's flows and send packets twice: stop one of them, or give each switch a single controller"
        );
        self.effects.push(Effect::Problem(Some(problem)));
    }

    /// Ends the problem when the other instance is gone.
    pub(super) fn look_for_other_instance(&mut self, now: Duration) {
        if self.other_instance.take_if(|last| now.saturating_sub(*last) >= GONE).is_some() {
            self.effects.push(Effect::Problem(None));
        }
    }
}
