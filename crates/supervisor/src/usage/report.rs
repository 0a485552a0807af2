//! Reports a program's usage to operators.

use names::Limit;

use super::meter::Meter;
use control::operator::ProgramState;
use control::operator::{Amount, ProgramUsage};

/// The usage of the program `name`, without its process and restarts, which only its owner knows.
pub fn program_usage(name: &str, kind: &str, state: ProgramState, meter: &Meter) -> ProgramUsage {
    let counters = meter.counters();
    let amount = |limit: Limit| {
        let bound = meter.limits().of(limit);
        let known = |amount| (amount != config::NO_LIMIT).then_some(amount);
        let (soft, hard) = (known(bound.soft), known(bound.hard));
        Amount { limit: limit.name().into(), value: meter.value(limit), soft, hard }
    };
    ProgramUsage {
        name: name.into(),
        kind: kind.into(),
        state,
        pid: None,
        restarts: 0,
        uses: Limit::ALL.map(amount).to_vec(),
        above: meter.above().into_iter().map(|limit| limit.name().into()).collect(),
        events_per_second: meter.events(),
        dropped: counters.map(|it| it.dropped),
        refused: counters.map(|it| it.refused),
        delayed: counters.map(|it| it.delayed),
    }
}
