//! Delay of frames that an installed flow forwards, and the round trip of established traffic.

use std::time::{Duration, Instant};

use openflow::{MultipartReply, MultipartRequest, ReplyBody};

use super::bench::Bench;
use super::row::{Row, Unit};
use super::session::{BULK, invalid};
use super::trouble::Trouble;

/// The flow of this measurement.
const FLOW: u32 = 1;

/// Pause between two frames.
const GAP: Duration = Duration::from_millis(1);

/// Longest wait until the counters of a flow contain its last frames.
const COUNTERS: Duration = Duration::from_secs(3);

/// Measures the delay of forwarded frames, and compares the switch's count of them.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Row>, Trouble> {
    bench.ports()?;
    bench.session.reset_flows(false)?;
    bench.queue_forwarding(FLOW, 100)?;
    bench.session.apply("flow-mods", 1, super::session::REPLY)?;
    let runs = bench.plan.runs;
    // A switch may use cached decisions for a moment after it has answered the barrier.
    let mut tries = 1;
    while bench.pass(FLOW)?.is_none() {
        check_loss(tries, tries)?;
        tries += 1;
    }
    let (mut samples, mut lost) = (Vec::new(), 0);
    for run in 0..runs {
        (bench.progress)(&format!("forwarding: frame {run} of {runs}"));
        match bench.pass(FLOW)? {
            Some(arrival) => samples.extend(arrival.delay_us()),
            None => lost += 1,
        }
        std::thread::sleep(GAP);
        bench.session.check_stop()?;
        check_loss(lost, run + 1)?;
    }
    check_counter(bench, runs - lost + 1, runs + tries)?;
    Ok(vec![Row::of("forwarding", Unit::Us, samples).lost(lost, runs)])
}

/// Gives a measurement up if more than a tenth of its frames, and at least five, were lost.
pub(super) fn check_loss(lost: usize, sent: usize) -> Result<(), Trouble> {
    if lost >= 5 && lost * 10 > sent {
        return Err(Trouble::Lost(format!("{lost} of {sent} frames did not pass the switch")));
    }
    Ok(())
}

/// Fails if the switch's count of the flow's packets is not between those that arrived and those that were sent. Some
/// switches update their counters once per second.
fn check_counter(bench: &mut Bench<'_>, arrived: usize, sent: usize) -> Result<(), Trouble> {
    let until = Instant::now() + COUNTERS;
    let request = MultipartRequest::Flow(bench.own_flows(bench.exact(FLOW)));
    loop {
        let (_, parts) = bench.session.multipart(&request, BULK)?;
        let mut counted = None;
        for part in &parts {
            let body = MultipartReply::decode(&part.bytes).map_err(invalid)?.body;
            let ReplyBody::Flow(flows) = body else {
                return Err(Trouble::Invalid("the reply to a flow request is another".into()));
            };
            counted = flows.first().map(|flow| flow.packet_count).or(counted);
        }
        let count = counted.ok_or_else(|| {
            Trouble::Contradiction("it reports no flow although it forwards by one".into())
        })?;
        // A switch that does not count packets reports all ones (OpenFlow 1.3.5 §7.3.5.2).
        let range = arrived as u64..=sent as u64;
        if range.contains(&count) || count == u64::MAX {
            return Ok(());
        }
        if Instant::now() >= until || count > sent as u64 {
            return Err(Trouble::Contradiction(format!(
                "it counts {count} packets of a flow; {sent} were sent and {arrived} arrived"
            )));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
