//! Delay of flow-removed messages: after a deletion, and after a hard timeout.

use std::time::{Duration, Instant};

use openflow::{
    Action, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved, FlowRemovedReason, Kind,
};

use super::bench::Bench;
use super::clock::Stamp;
use super::row::{Row, Unit};
use super::session::{COOKIE, REPLY, invalid};
use super::trouble::Trouble;

/// Number of frames that the flow forwards before it is deleted.
const FRAMES: u64 = 3;

/// Number of flows with a timeout.
const TIMEOUTS: u32 = 10;

/// The hard timeout in seconds.
const TIMEOUT: u16 = 1;

/// Longest wait for a flow that timed out.
const LATE: Duration = Duration::from_secs(15);

/// Measures the delay after a deletion.
pub(super) fn by_deletion(bench: &mut Bench<'_>) -> Result<Vec<Row>, Trouble> {
    bench.session.reset_flows(false)?;
    let runs = (bench.plan.runs / 10).max(10);
    // Each flow is another one: a switch may add the last packets of a deleted flow to its successor.
    let flows = bench.new_flows(u32::try_from(runs).unwrap_or(0));
    let (mut samples, mut miscounted) = (Vec::new(), 0);
    for (run, flow) in (0..runs).zip(flows..) {
        (bench.progress)(&format!("flow-removed: {run} of {runs}"));
        add(bench, flow, 0)?;
        bench.session.apply("flow-mods", 1, REPLY)?;
        let mut arrived = 0;
        if bench.has_data_path() {
            for _ in 0..FRAMES {
                arrived += u64::from(bench.pass(flow)?.is_some());
            }
        }
        let delete = FlowMod::new(FlowModCommand::DeleteStrict, bench.exact(flow)).priority(100);
        bench.session.flow_mod(delete)?;
        let sent = bench.session.flush_stamped()?;
        let (removed, at) = removed(bench, Instant::now() + REPLY, REPLY)?;
        if removed.reason != FlowRemovedReason::Delete {
            return Err(Trouble::Contradiction(format!(
                "it calls the reason of a deletion {:?}",
                removed.reason
            )));
        }
        if removed.packet_count > FRAMES {
            return Err(Trouble::Contradiction(format!(
                "it counts {} packets of a removed flow; {FRAMES} were sent",
                removed.packet_count
            )));
        }
        miscounted += usize::from(removed.packet_count < arrived);
        samples.push(at.us_since(sent));
    }
    let row = Row::of("flow-removed, deletion", Unit::Us, samples);
    Ok(vec![if miscounted == 0 {
        row
    } else {
        row.note(format!("{miscounted} of {runs} messages count fewer packets than arrived"))
    }])
}

/// Measures how late flow-removed messages come after a hard timeout.
pub(super) fn by_timeout(bench: &mut Bench<'_>) -> Result<Vec<Row>, Trouble> {
    (bench.progress)("flow-removed after a timeout");
    bench.session.reset_flows(false)?;
    let first = bench.new_flows(TIMEOUTS);
    for flow in first..first + TIMEOUTS {
        add(bench, flow, TIMEOUT)?;
    }
    let sent = Stamp::now();
    bench.session.apply("flow-mods", TIMEOUTS as usize, REPLY)?;
    let mut samples = Vec::new();
    let until = Instant::now() + LATE;
    while samples.len() < TIMEOUTS as usize {
        let (removed, at) = removed(bench, until, LATE)?;
        let late = at.us_since(sent) - f64::from(TIMEOUT) * 1e6;
        if removed.reason != FlowRemovedReason::HardTimeout || late < -1000.0 {
            return Err(Trouble::Contradiction(format!(
                "it removes a flow {late:.0} us after its timeout and calls the reason {:?}",
                removed.reason
            )));
        }
        samples.push(late);
    }
    let row = Row::of("flow-removed, hard timeout", Unit::Us, samples);
    Ok(vec![row.note(format!("beyond the timeout of {TIMEOUT} s"))])
}

fn add(bench: &mut Bench<'_>, flow: u32, hard_timeout: u16) -> Result<(), Trouble> {
    let actions = [Action::output(bench.out_port())];
    let flow_mod = FlowMod::add(bench.exact(flow))
        .priority(100)
        .hard_timeout(hard_timeout)
        .flags(FlowModFlags::SEND_FLOW_REM)
        .apply(&actions);
    bench.session.flow_mod(flow_mod).map(drop)
}

/// Waits for a flow-removed message with this program's cookie.
fn removed(
    bench: &mut Bench<'_>,
    until: Instant,
    limit: Duration,
) -> Result<(FlowRemoved, Stamp), Trouble> {
    while let Some(message) = bench.session.next(until)? {
        if Kind::from_wire(bench.session.version(), message.bytes[1]) != Ok(Kind::FlowRemoved) {
            continue;
        }
        let removed = FlowRemoved::decode(&message.bytes).map_err(invalid)?;
        if removed.cookie == COOKIE {
            return Ok((removed, message.at));
        }
    }
    bench.session.check_errors("flow-mods", 1)?;
    Err(Trouble::TooLate { what: "flow-removed", limit })
}
