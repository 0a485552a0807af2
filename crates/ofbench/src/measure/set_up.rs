//! Rate of flow set-up: a window of flows is under way at a time.
//!
//! This side answers each packet-in with a flow-mod for exactly its flow and a packet-out. A flow is set up when its first
//! frame has left the switch.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::bench::{Bench, PASS};
use super::data_path::Way;
use super::forwarding::check_loss;
use super::packet_in::queue_answer;
use super::row::{Row, Unit};
use super::trouble::Trouble;

/// Number of flows under way at a time.
const WINDOW: usize = 64;

/// Number of intervals of the rate.
const INTERVALS: usize = 5;

/// Measures the rate with a window of flows under way.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Row>, Trouble> {
    bench.ports()?;
    let (mut rates, mut lost, mut sent) = (Vec::new(), 0, 0);
    for interval in 0..INTERVALS {
        (bench.progress)(&format!("flow set-up rate: interval {interval} of {INTERVALS}"));
        bench.session.reset_flows(false)?;
        let counted = interval_of(bench)?;
        bench.session.apply("flow-mods", counted.sent, super::session::BULK)?;
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 flows")]
        rates.push(counted.set_up as f64 / counted.seconds);
        lost += counted.lost;
        sent += counted.sent;
        check_loss(lost, sent)?;
    }
    Ok(vec![Row::of("flow set-up rate", Unit::PerSecond, rates).lost(lost, sent)])
}

/// The counts of an interval.
#[derive(Debug, Default)]
struct Counted {
    sent: usize,
    set_up: usize,
    lost: usize,
    seconds: f64,
}

fn interval_of(bench: &mut Bench<'_>) -> Result<Counted, Trouble> {
    let mut flow = bench.new_flows(u32::MAX >> 12);
    let (begin, mut counted) = (Instant::now(), Counted::default());
    let end = begin + bench.plan.interval;
    let mut under_way: HashMap<u32, Instant> = HashMap::new();
    bench.data()?.clear()?;
    while Instant::now() < end {
        while under_way.len() < WINDOW && counted.sent < bench.plan.max_flows {
            let probe = bench.probe(flow);
            bench.data()?.send(Way::Forth, probe)?;
            under_way.insert(flow, Instant::now() + PASS);
            flow += 1;
            counted.sent += 1;
        }
        if under_way.is_empty() {
            break; // the table may hold no more
        }
        bench.wait(end.min(Instant::now() + Duration::from_millis(10)))?;
        while let Some(message) = bench.session.next(Instant::now())? {
            if let Some(asked) = bench.asked(&message) {
                queue_answer(bench, &asked, true)?;
            }
        }
        bench.session.flush()?;
        while let Some(arrival) = bench.data()?.arrival()? {
            counted.set_up += usize::from(under_way.remove(&arrival.probe.flow).is_some());
        }
        let now = Instant::now();
        let before = under_way.len();
        under_way.retain(|_, until| *until > now);
        counted.lost += before - under_way.len();
    }
    counted.seconds = begin.elapsed().as_secs_f64();
    Ok(counted)
}
