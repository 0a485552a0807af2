//! Makes incidents of doubts about links, a bounded number per port.

use std::collections::HashMap;
use std::time::Duration;

use rosemary_sdk::services::topology::Endpoint;

use super::discovery::Effect;

/// The time between two incidents of the same kind at the same port.
const QUIET: Duration = Duration::from_secs(60);

/// Soon after the start probes of an earlier process may be underway: they look forged.
const GRACE: Duration = Duration::from_secs(5);

/// Incidents that are remembered; at the limit, the old ones are forgotten.
const MOST_REMEMBERED: usize = 4096;

/// A reason not to believe in a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Doubt {
    /// The tag is not this process's.
    Forged,
    /// The probe is old, or arrived elsewhere before.
    Replayed,
    /// The probe arrived at the port that it left.
    Reflected,
    /// The probe arrived at a port with hosts.
    Relayed,
    /// Hosts were known at a port, and the other switch is newer than that knowledge.
    Outdated,
    /// A port has a link to a third one.
    Conflict,
    /// A bridge joins the port with others.
    Segment,
    /// The latency is that of a relay.
    Slow,
    TooManyPorts,
}

/// The latest incidents.
#[derive(Debug, Default)]
pub(super) struct Reports {
    latest: HashMap<(Doubt, Endpoint), Duration>,
    /// When this process began to look.
    began: Option<Duration>,
}

impl Reports {
    /// Notes the begin of this process's work; only the first call counts.
    pub(super) fn begin(&mut self, now: Duration) {
        self.began.get_or_insert(now);
    }

    /// Returns the incident to raise, if there was no other one like it lately.
    pub(super) fn report(
        &mut self,
        doubt: Doubt,
        at: Endpoint,
        now: Duration,
        summary: String,
        evidence: String,
    ) -> Option<Effect> {
        let began = *self.began.get_or_insert(now);
        let is_expected = doubt == Doubt::Forged && now < began + GRACE;
        let is_recent = |since: &Duration| now.saturating_sub(*since) < QUIET;
        if self.latest.get(&(doubt, at)).is_some_and(is_recent) {
            return None;
        }
        if self.latest.len() >= MOST_REMEMBERED {
            self.latest.retain(|_, since| is_recent(since));
            if self.latest.len() >= MOST_REMEMBERED {
                return None;
            }
        }
        if is_expected {
            return Some(Effect::Warn(format!("{summary}; {evidence}")));
        }
        self.latest.insert((doubt, at), now);
        Some(Effect::Incident { summary, evidence })
    }
}
