//! Records that flows were missing on a switch.

use std::time::Duration;

use control::incident::{Cause, Evidence, Program};
use control::kernel::{FlowLoss, MissingFlows};
use tracing::warn;

use super::Programs;

impl Programs {
    /// Logs that a switch had lost flows of the kernel or of a guard, and records the incident, which is over.
    pub(super) fn flows_were_missing(&self, missing: MissingFlows) {
        let MissingFlows { dpid, loss, flows, ms, suppressed } = missing;
        let is_entry = !matches!(loss, FlowLoss::OfGuard(_));
        let loss = loss.to_string();
        warn!(
            dpid,
            loss,
            flows,
            ms,
            suppressed,
            "flows were missing on a switch and were restored, those of guards first"
        );
        let cause = Cause::MissingFlows { switch: dpid, flows };
        let mut evidence = Evidence::fact(loss);
        if is_entry {
            let own = if flows == 1 {
                "it is the kernel's own flow; flows of other apps are most likely missing, too"
            } else {
                "the kernel's own flow is among them"
            };
            evidence.facts.push(own.into());
        }
        evidence.facts.extend(
            suppressed.map(|count| format!("{count} such events before were not reported")),
        );
        let incident = self.incidents.open(Program::kernel(), cause, evidence);
        self.incidents.reaction(incident, "guards put their flows back");
        self.incidents.reaction(
            incident,
            "the kernel restored its table-miss entry, and the other apps may put their flows back",
        );
        self.incidents.close(incident, Some(Duration::from_millis(ms)));
    }
}
