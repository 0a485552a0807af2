//! Records that flows were missing on a switch.

use std::time::Duration;

use control::incident::{Cause, Evidence, Program};
use tracing::warn;

use super::ProcessTable;

impl ProcessTable {
    /// Logs that a switch had lost the kernel's flow, and records the incident, which is over. `suppressed` such events were
    /// not reported before.
    pub(super) fn flows_were_missing(
        &self,
        dpid: String,
        loss: String,
        ms: u64,
        suppressed: Option<u64>,
    ) {
        warn!(
            dpid,
            loss,
            ms,
            suppressed,
            "flows were missing on a switch; guards put theirs back first, then the kernel its own"
        );
        let cause = Cause::MissingFlows { switch: dpid, flows: 1 };
        let mut evidence = Evidence::fact(loss);
        evidence.facts.push("it is the kernel's own flow, most likely not the only one".into());
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
