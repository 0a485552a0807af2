//! Behaviour under flow-mods at fixed rates: the round trip of established traffic meanwhile, its loss, and the rate that the
//! switch really follows.
//!
//! A frame goes forth by an installed flow, and when it has left the switch, another goes back. The round trip is the
//! sum of both delays at the interfaces, so the turn between them does not count.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use openflow::{Action, FlowMod, FlowModCommand, Match};

use super::bench::{Bench, PASS};
use super::channel::{Received, xid_of};
use super::data_path::Way;
use super::flow_mod::Change;
use super::forwarding::check_loss;
use super::probe::wildcard;
use super::row::{Row, Unit};
use super::session::{BULK, REPLY};
use super::trouble::Trouble;

/// The flow of the established traffic.
const FLOW: u32 = 5;

/// Number of free bits of a wildcard flow: it covers four exact ones.
const FREE: u32 = 2;

/// How long frames of the established traffic are awaited after the last one was sent.
const LOST: Duration = Duration::from_secs(1);

/// Largest number of flows that wildcard loads install: each flow-mod is compared with all of them.
const WILDCARD: usize = 16_384;

/// Largest number of flow-mods with different matches of a modification; then they repeat with another action.
const MODIFIED: usize = 4096;

/// Part of a load that may be unanswered.
const AHEAD: Duration = Duration::from_millis(50);

/// Longest wait until the switch has done what is unanswered.
const OVERLOAD: Duration = Duration::from_secs(60);

/// Largest number of flow-mods that are sent together.
const BURST: usize = 256;

/// A load of flow-mods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    pub(super) change: Change,
    /// Whether each flow-mod names one flow with every field, or several by a prefix.
    pub(super) strict: bool,
    /// Flow-mods per second.
    pub(super) rate: f64,
}

impl Load {
    pub(super) fn name(self) -> String {
        let kind = if self.strict { "strict" } else { "wildcard" };
        format!("{} {kind} at {}/s", self.change.name(), self.rate)
    }
}

/// Measures the round trip without flow-mods.
pub(super) fn baseline(bench: &mut Bench<'_>) -> Result<Vec<Row>, Trouble> {
    bench.ports()?;
    establish(bench)?;
    Ok(vec![undisturbed(bench, "round trip, no flow-mods")?])
}

/// Measures the round trip of the established traffic while nothing else happens.
fn undisturbed(bench: &mut Bench<'_>, name: &str) -> Result<Row, Trouble> {
    (bench.progress)("round trip without flow-mods");
    let mut traffic = Traffic::default();
    let end = Instant::now() + bench.plan.interval;
    while Instant::now() < end {
        traffic.turn(bench, end)?;
    }
    traffic.finish(bench)?;
    Ok(traffic.row(name))
}

/// Measures the round trip just before a load, beside the flows that the load needs, and then under it: a machine changes its speed between
/// two loads. The last row is the rate that the switch follows: flow-mods up to the barrier after the last one.
pub(super) fn under_load(bench: &mut Bench<'_>, load: Load) -> Result<Vec<Row>, Trouble> {
    let name = load.name();
    (bench.progress)(&format!("preparing {name}"));
    let seconds = bench.plan.interval.as_secs_f64();
    let most = match (load.change, load.strict) {
        (Change::Modify, _) => usize::MAX,
        (Change::Insert | Change::Delete, true) => bench.plan.max_flows,
        (Change::Insert | Change::Delete, false) => bench.plan.max_flows.min(WILDCARD) >> FREE,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rate and interval are limited"
    )]
    let count = ((load.rate * seconds).ceil().max(1.0) as usize).min(most);
    establish(bench)?;
    let numbers = if load.change == Change::Modify { count.min(MODIFIED) } else { count };
    let first = bench.new_flows(u32::try_from(numbers << FREE).unwrap_or(u32::MAX >> 10));
    prepare(bench, load, first, count)?;
    let before = if bench.has_data_path() {
        Some(undisturbed(bench, &format!("round trip before, {name}"))?)
    } else {
        None
    };
    let mut traffic = Traffic::default();
    let sent = send(bench, load, (first, count), &mut traffic)?;
    let begin = sent.begin;
    let completed = bench.session.barrier(OVERLOAD).map(|_| begin.elapsed().as_secs_f64())?;
    bench.session.check_errors("flow-mods", sent.count)?;
    traffic.finish(bench)?;
    check(bench, load, count, sent.count)?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rate = sent.count as f64 / completed.max(seconds);
    let mut followed = Row::of(format!("rate, {name}"), Unit::PerSecond, vec![rate]);
    if sent.count < count - count / 20 {
        followed = followed.note("the switch does not follow");
    } else if rate < load.rate * 0.9 {
        followed = followed.note("limited by --max-flows");
    }
    let trip = format!("round trip, {name}");
    let trip = if bench.has_data_path() {
        traffic.row(&trip)
    } else {
        let trouble = bench.data().err().unwrap_or(Trouble::Disconnected);
        Row::without_figure(trip, Unit::Us, &trouble)
    };
    bench.session.delete_all()?;
    Ok(before.into_iter().chain([trip, followed]).collect())
}

/// The flow-mods of a load that were sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    begin: Instant,
    count: usize,
}

/// Sends flow-mods at the rate of a load for an interval. At most [`AHEAD`] of the load are unanswered: a switch that does
/// not follow is saturated, and not buried.
fn send(
    bench: &mut Bench<'_>,
    load: Load,
    (first, count): (u32, usize),
    traffic: &mut Traffic,
) -> Result<Sent, Trouble> {
    let begin = Instant::now();
    let end = begin + bench.plan.interval;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are limited"
    )]
    let due_at = |seconds: f64| (load.rate * seconds) as usize;
    let window = due_at(AHEAD.as_secs_f64()).max(2);
    let (mut sent, mut answered) = (0, 0);
    // The barriers that are not answered, each with the number of flow-mods up to it.
    let mut barriers: VecDeque<(u32, usize)> = VecDeque::new();
    while Instant::now() < end {
        (bench.progress)(&format!("{}: {sent} of {count}", load.name()));
        let due = (due_at(begin.elapsed().as_secs_f64()) + 1).min(count).min(answered + window);
        let burst = due.saturating_sub(sent).min(BURST);
        for number in sent..sent + burst {
            queue_change(bench, load, first, number)?;
        }
        sent += burst;
        if burst > 0 && barriers.back().is_none_or(|(_, up_to)| sent - up_to >= window / 4) {
            barriers.push_back((bench.session.barrier_request()?, sent));
        }
        bench.session.flush()?;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let next = begin + Duration::from_secs_f64(sent as f64 / load.rate);
        let next = if sent >= count { end } else { next.min(end) };
        // While the window is full, the next flow-mod waits for an answer.
        let until = next.max(Instant::now() + Duration::from_micros(100)).min(end);
        let replies = if bench.has_data_path() {
            traffic.turn(bench, until)?
        } else {
            bench.session.next(until)?.into_iter().collect()
        };
        for reply in replies {
            let xid = xid_of(&reply.bytes);
            while barriers.iter().any(|(asked, _)| *asked == xid) {
                let Some((asked, up_to)) = barriers.pop_front() else { break };
                answered = up_to;
                if asked == xid {
                    break;
                }
            }
        }
    }
    Ok(Sent { begin, count: sent })
}

/// Installs the flows of the established traffic and the rules in the background.
fn establish(bench: &mut Bench<'_>) -> Result<(), Trouble> {
    bench.session.delete_all()?;
    if bench.has_data_path() {
        let ports = bench.ports()?;
        for (way, in_port, out) in
            [(Way::Forth, ports[0], ports[1]), (Way::Back, ports[1], ports[0])]
        {
            let match_ = bench.data()?.frames(way).exact(in_port, FLOW);
            let actions = [Action::output(out)];
            bench.session.flow_mod(FlowMod::add(match_).priority(200).apply(&actions))?;
        }
        bench.session.apply("flow-mods", 2, REPLY)?;
        // A switch may use cached decisions for a moment after it has answered the barrier.
        let mut tries = 0;
        for way in [Way::Forth, Way::Back] {
            while !passes(bench, way)? {
                tries += 1;
                check_loss(tries, tries)?;
            }
        }
    }
    let background = bench.plan.background;
    let first = bench.new_flows(u32::try_from(background).unwrap_or(0));
    let mut installed = 0;
    while installed < background {
        (bench.progress)(&format!("installing {installed} of {background} rules"));
        let batch = 1000.min(background - installed);
        let begin = u32::try_from(installed).unwrap_or(u32::MAX);
        for flow in (first.saturating_add(begin)..).take(batch) {
            bench.queue_forwarding(flow, 50)?;
        }
        bench.session.apply("flow-mods", batch, BULK)?;
        installed += batch;
    }
    Ok(())
}

/// Installs the flows that a load modifies or deletes: as many as one flow-mod each needs.
fn prepare(bench: &mut Bench<'_>, load: Load, first: u32, count: usize) -> Result<(), Trouble> {
    let flows = match (load.change, load.strict) {
        (Change::Insert, _) => return Ok(()),
        (Change::Modify, true) => count.min(MODIFIED),
        (Change::Modify, false) => count.min(MODIFIED) << FREE,
        (Change::Delete, true) => count,
        (Change::Delete, false) => count << FREE,
    };
    for begin in (0..flows).step_by(1000) {
        for number in begin..flows.min(begin + 1000) {
            bench.queue_forwarding(first + u32::try_from(number).unwrap_or(0), 100)?;
        }
        bench.session.apply("flow-mods", flows, BULK)?;
    }
    Ok(())
}

fn queue_change(
    bench: &mut Bench<'_>,
    load: Load,
    first: u32,
    number: usize,
) -> Result<(), Trouble> {
    let command = match (load.change, load.strict) {
        (Change::Insert, _) => FlowModCommand::Add,
        (Change::Modify, true) => FlowModCommand::ModifyStrict,
        (Change::Modify, false) => FlowModCommand::Modify,
        (Change::Delete, true) => FlowModCommand::DeleteStrict,
        (Change::Delete, false) => FlowModCommand::Delete,
    };
    let is_repeated = load.change == Change::Modify && number / MODIFIED % 2 == 1;
    let number = if load.change == Change::Modify { number % MODIFIED } else { number };
    let number = u32::try_from(number).unwrap_or(0);
    let match_ = if load.strict {
        bench.exact(first + number)
    } else {
        wildcard(first + (number << FREE), FREE)
    };
    // A modification changes the action: the packet would return to its port.
    let actions = match load.change {
        Change::Modify if !is_repeated => [Action::output(openflow::PortNo::IN_PORT)],
        Change::Insert | Change::Modify | Change::Delete => [Action::output(bench.out_port())],
    };
    let mut flow_mod = FlowMod::new(command, match_).priority(100);
    if load.change != Change::Delete {
        flow_mod = flow_mod.apply(&actions);
    }
    bench.session.flow_mod(flow_mod).map(drop)
}

/// Whether a frame of the established traffic passes the switch.
fn passes(bench: &mut Bench<'_>, way: Way) -> Result<bool, Trouble> {
    let probe = bench.probe(FLOW);
    let data = bench.data()?;
    data.send(way, probe)?;
    Ok(data.wait_for(way, probe, Instant::now() + PASS)?.is_some())
}

/// Fails if the switch reports another number of flows than the load leaves.
fn check(bench: &mut Bench<'_>, load: Load, count: usize, sent: usize) -> Result<(), Trouble> {
    let kept = match (load.change, load.strict) {
        (Change::Insert, _) => sent,
        (Change::Modify, true) => count.min(MODIFIED),
        (Change::Modify, false) => count.min(MODIFIED) << FREE,
        (Change::Delete, true) => count - sent,
        (Change::Delete, false) => (count - sent) << FREE,
    };
    let established = if bench.has_data_path() { 2 } else { 0 };
    bench.check_flow_count(Match::new(), kept + established + bench.plan.background)
}

/// The established traffic. A round trip begins every [`Plan::spacing`](super::Plan), whether the last one has ended or
/// not: otherwise a stall would delay one frame instead of all that were due.
#[derive(Debug, Default)]
struct Traffic {
    trips: Vec<f64>,
    sent: usize,
    /// The delay forth of each frame that has not come back, once it is known.
    under_way: HashMap<u32, Option<f64>>,
    /// When the next round trip begins.
    next: Option<Instant>,
}

impl Traffic {
    /// Sends and receives until a time, or until the switch sends messages, which are returned.
    fn turn(&mut self, bench: &mut Bench<'_>, until: Instant) -> Result<Vec<Received>, Trouble> {
        loop {
            let now = Instant::now();
            let next = *self.next.get_or_insert(now);
            if now >= next && now < until {
                self.next = Some(next + bench.plan.spacing);
                let probe = bench.probe(FLOW);
                bench.data()?.send(Way::Forth, probe)?;
                self.under_way.insert(probe.sequence, None);
                self.sent += 1;
                continue;
            }
            bench.wait(until.min(next))?;
            self.receive(bench)?;
            // Echo requests are answered, and errors collected.
            let mut messages = Vec::new();
            while let Some(message) = bench.session.next(Instant::now())? {
                messages.push(message);
            }
            if !messages.is_empty() || Instant::now() >= until {
                return Ok(messages);
            }
        }
    }

    fn receive(&mut self, bench: &mut Bench<'_>) -> Result<(), Trouble> {
        while let Some(arrival) = bench.data()?.arrival()? {
            let sequence = arrival.probe.sequence;
            let Some(forth) = self.under_way.get_mut(&sequence) else { continue };
            let Some(delay) = arrival.delay_us() else { continue };
            match (arrival.way, *forth) {
                (Way::Forth, None) => {
                    *forth = Some(delay);
                    bench.data()?.send(Way::Back, arrival.probe)?;
                }
                (Way::Back, Some(forth)) => {
                    self.trips.push(forth + delay);
                    self.under_way.remove(&sequence);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits for the frames that are under way. Those that do not come are lost.
    fn finish(&mut self, bench: &mut Bench<'_>) -> Result<(), Trouble> {
        let end = Instant::now() + LOST;
        self.next = Some(end); // no new one
        while !self.under_way.is_empty() && Instant::now() < end {
            self.turn(bench, end.min(Instant::now() + Duration::from_millis(1)))?;
        }
        Ok(())
    }

    fn row(&self, name: &str) -> Row {
        Row::of(name, Unit::Us, self.trips.clone()).lost(self.under_way.len(), self.sent)
    }
}
