//! Capacity of the flow table, and the time to fill it.

use std::time::Instant;

use openflow::Match;

use super::bench::Bench;
use super::row::{Row, Unit};
use super::session::BULK;
use super::trouble::Trouble;

/// Number of flow-mods between two barriers.
const BATCH: usize = 1000;

/// Number of installed flows through which a frame is sent.
const SAMPLE: usize = 20;

/// Inserts flows until the switch rejects one or `--max-flows` are accepted, and checks that they are there.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Row>, Trouble> {
    bench.session.delete_all()?;
    let most = bench.plan.max_flows;
    let first = bench.new_flows(u32::try_from(most).unwrap_or(u32::MAX >> 12));
    let (mut accepted, mut full, mut rates) = (0, None, Vec::new());
    while accepted < most && full.is_none() {
        (bench.progress)(&format!("table capacity: {accepted} of at most {most} flows"));
        bench.session.check_stop()?;
        let batch = BATCH.min(most - accepted);
        let begin = u32::try_from(accepted).unwrap_or(u32::MAX);
        for flow in (first + begin..).take(batch) {
            bench.queue_forwarding(flow, 100)?;
        }
        let started = Instant::now();
        bench.session.barrier(BULK)?;
        let (errors, first_error) = bench.session.take_errors();
        if errors == 0 {
            #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
            rates.push(batch as f64 / started.elapsed().as_secs_f64());
        } else {
            full = Some(first_error);
        }
        accepted += batch.saturating_sub(errors);
    }
    if accepted == 0 {
        let first = full.unwrap_or_default();
        return Err(Trouble::Rejected {
            what: "flow-mods",
            count: BATCH.min(most),
            sent: BATCH.min(most),
            first,
        });
    }
    bench.check_flow_count(Match::new(), accepted)?;
    check_sample(bench, first, accepted)?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let row = Row::of("table capacity", Unit::Flows, vec![accepted as f64]);
    let row = match full {
        Some(error) => row.note(format!("then: {error}")),
        None => row.note("at least: --max-flows stopped the measurement"),
    };
    bench.session.delete_all()?;
    Ok(vec![row, Row::of("table filling", Unit::PerSecond, rates)])
}

/// Fails if the switch does not forward the frames of some of the flows that it accepted.
fn check_sample(bench: &mut Bench<'_>, first: u32, accepted: usize) -> Result<(), Trouble> {
    if !bench.has_data_path() {
        return Ok(());
    }
    let step = (accepted / SAMPLE).max(1);
    let (mut sent, mut lost) = (0, 0);
    for flow in (first..).take(accepted).step_by(step) {
        sent += 1;
        lost += usize::from(bench.pass(flow)?.is_none());
    }
    if lost == 0 {
        return Ok(());
    }
    Err(Trouble::Contradiction(format!(
        "it does not forward by {lost} of {sent} flows that it accepted"
    )))
}
