//! Makes incidents of doubts about links, a bounded number per switch.

use std::fmt::Write as _;
use std::time::Duration;

use rosemary_sdk::services::topology::Endpoint;
use rosemary_sdk::{Dpid, PortNo, Repeats};

use super::discovery::Effect;

/// The time between two incidents of the same kind at the same port.
const QUIET: Duration = Duration::from_secs(60);

/// Soon after the start probes of an earlier process may be underway: they look forged.
const GRACE: Duration = Duration::from_secs(5);

/// Kinds of incidents at switches that are remembered; at the limit, the old ones are forgotten.
const MOST_REMEMBERED: usize = 4096;

/// A reason not to believe in a link, or another thing that an operator should know of a port.
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
    /// A link is down.
    LinkDown,
}

/// The latest reports.
#[derive(Debug)]
pub(super) struct Reports {
    /// By the kind and the switch, which cannot be invented as ports can.
    latest: Repeats<(Doubt, Dpid), PortNo>,
    /// When this process began to look.
    began: Option<Duration>,
}

impl Default for Reports {
    fn default() -> Self {
        Self { latest: Repeats::new(QUIET, MOST_REMEMBERED), began: None }
    }
}

impl Reports {
    /// Notes the begin of this process's work; only the first call counts.
    pub(super) fn begin(&mut self, now: Duration) {
        self.began.get_or_insert(now);
    }

    /// Whether probes of an earlier process may be underway.
    pub(super) fn is_beginning(&self, now: Duration) -> bool {
        self.began.is_none_or(|began| now < began + GRACE)
    }

    /// Returns the incident to raise, if there was no other one like it lately.
    pub(super) fn report(
        &mut self,
        doubt: Doubt,
        at: Endpoint,
        now: Duration,
        summary: String,
        mut evidence: String,
    ) -> Option<Effect> {
        self.begin(now);
        let is_expected = doubt == Doubt::Forged && self.is_beginning(now);
        let port = if doubt == Doubt::TooManyPorts { PortNo::ANY } else { at.port };
        let left_out = self.latest.admit((doubt, at.dpid), port, now)?;
        if left_out > 0 {
            let _ = write!(evidence, "; {left_out} similar reports were left out before"); // cannot fail
        }
        Some(if is_expected {
            Effect::Warn(format!("{summary}; {evidence}"))
        } else {
            Effect::Incident { summary, evidence }
        })
    }
}
