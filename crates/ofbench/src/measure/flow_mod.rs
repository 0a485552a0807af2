//! Delay of flow-mods: by the barrier, and by the first packet that the change affects.
//!
//! A stream of frames passes the switch while a flow-mod and a barrier request are sent. The two answers differ: a switch
//! may answer the barrier before its hardware uses the flow, or long after. The delay by packet is the arrival of the first
//! frame that takes the new flow (of the last that takes the deleted one), since the flow-mod left. It is late by the
//! distance of two frames and by the forwarding delay, or early by the distance for a deletion.

use std::time::{Duration, Instant};

use openflow::{Action, FlowMod, FlowModCommand, Kind};

use super::bench::Bench;
use super::channel::xid_of;
use super::clock::Stamp;
use super::data_path::Way;
use super::row::{Row, Unit};
use super::session::REPLY;
use super::trouble::Trouble;

/// The flow of the stream.
const FLOW: u32 = 3;

/// Distance of two frames of the stream.
const SPACING: Duration = Duration::from_micros(200);

/// Duration of the stream before the flow-mod.
const BEFORE: Duration = Duration::from_millis(3);

/// Longest wait for the barrier reply and the first frame.
const LIMIT: Duration = Duration::from_secs(2);

/// How long no frame may arrive until a deletion is taken as complete.
const SILENCE: Duration = Duration::from_millis(10);

/// The kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Insert,
    Modify,
    Delete,
}

impl Change {
    pub(super) const ALL: [Self; 3] = [Self::Insert, Self::Modify, Self::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Modify => "modify",
            Self::Delete => "delete",
        }
    }
}

/// Measures one kind of change.
pub(super) fn measure(bench: &mut Bench<'_>, change: Change) -> Result<Vec<Row>, Trouble> {
    let name = change.name();
    let runs = (bench.plan.runs / 10).max(10);
    let (mut barriers, mut packets, mut unaffected) = (Vec::new(), Vec::new(), 0);
    let has_data_path = bench.has_data_path();
    for run in 0..runs {
        (bench.progress)(&format!("flow-mod, {name}: {run} of {runs}"));
        prepare(bench, change)?;
        let measured = once(bench, change, has_data_path)?;
        bench.session.check_errors("flow-mods", 1)?;
        barriers.push(measured.barrier);
        match measured.packet {
            Some(packet) => packets.push(packet),
            None if has_data_path => unaffected += 1,
            None => {}
        }
        if unaffected >= 3 {
            return Err(Trouble::Contradiction(format!(
                "it answers the barrier, but {LIMIT:?} later frames do not follow the flow-mod"
            )));
        }
    }
    let mut rows = vec![Row::of(format!("flow-mod, {name}: barrier"), Unit::Us, barriers)];
    let by_packet = format!("flow-mod, {name}: packet");
    rows.push(if has_data_path {
        let row = Row::of(by_packet, Unit::Us, packets);
        let row = row.note(format!("frames every {} us", SPACING.as_micros()));
        if unaffected == 0 {
            row
        } else {
            row.note(format!("{unaffected} flow-mods had no effect"))
        }
    } else {
        let trouble = bench.data().err().unwrap_or(Trouble::Disconnected);
        Row::without_figure(by_packet, Unit::Us, &trouble)
    });
    Ok(rows)
}

/// Puts the switch into the state before the change: frames are dropped, or forwarded before a deletion.
fn prepare(bench: &mut Bench<'_>, change: Change) -> Result<(), Trouble> {
    bench.session.delete_all()?;
    // Without this flow the dropped frames would become packet-ins.
    let drop_all = FlowMod::add(bench.exact(FLOW)).priority(1);
    bench.session.flow_mod(drop_all)?;
    match change {
        Change::Insert => {}
        Change::Modify => {
            let flow = FlowMod::add(bench.exact(FLOW)).priority(100);
            bench.session.flow_mod(flow)?;
        }
        Change::Delete => bench.queue_forwarding(FLOW, 100)?,
    }
    bench.session.apply("flow-mods", 2, REPLY).map(drop)
}

/// The delays of one flow-mod, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Measured {
    barrier: f64,
    packet: Option<f64>,
}

fn queue_change(bench: &mut Bench<'_>, change: Change) -> Result<(), Trouble> {
    let command = match change {
        Change::Insert => FlowModCommand::Add,
        Change::Modify => FlowModCommand::ModifyStrict,
        Change::Delete => FlowModCommand::DeleteStrict,
    };
    let actions = [Action::output(bench.out_port())];
    let mut flow_mod = FlowMod::new(command, bench.exact(FLOW)).priority(100);
    if change != Change::Delete {
        flow_mod = flow_mod.apply(&actions);
    }
    bench.session.flow_mod(flow_mod).map(drop)
}

/// Sends the flow-mod into the stream and waits for both answers.
fn once(bench: &mut Bench<'_>, change: Change, has_data_path: bool) -> Result<Measured, Trouble> {
    let mut stream = Stream { next: Instant::now(), first: None, last: None };
    if has_data_path {
        bench.data()?.clear()?;
        let until = Instant::now() + BEFORE;
        while Instant::now() < until {
            stream.turn(bench)?;
        }
        (stream.first, stream.last) = (None, None);
    }
    queue_change(bench, change)?;
    let barrier = bench.session.barrier_request()?;
    let sent = bench.session.flush_stamped()?;
    let begin = Instant::now();
    let mut answered: Option<Stamp> = None;
    loop {
        if has_data_path {
            stream.turn(bench)?;
        }
        let until = if has_data_path { Instant::now() } else { begin + LIMIT };
        while let Some(message) = bench.session.next(until)? {
            let kind = Kind::from_wire(bench.session.version(), message.bytes[1]);
            if kind == Ok(Kind::BarrierReply) && xid_of(&message.bytes) == barrier {
                answered = Some(message.at);
                break;
            }
        }
        let is_silent = match change {
            Change::Delete => stream.is_silent(begin),
            Change::Insert | Change::Modify => stream.first.is_some(),
        };
        let is_late = begin.elapsed() >= LIMIT;
        if is_late || (answered.is_some() && (is_silent || !has_data_path)) {
            let answered =
                answered.ok_or(Trouble::TooLate { what: "barrier reply", limit: LIMIT })?;
            let packet = match change {
                // If no frame came after the flow-mod, the deletion was faster than the stream shows.
                Change::Delete if is_silent => {
                    Some(stream.last.map_or(0.0, |(_, at)| at.us_since(sent).max(0.0)))
                }
                Change::Delete => None,
                Change::Insert | Change::Modify => stream.first.map(|at| at.us_since(sent)),
            };
            return Ok(Measured {
                barrier: answered.us_since(sent),
                packet: packet.filter(|_| has_data_path),
            });
        }
    }
}

/// The stream of frames, and its first and last arrival since the flow-mod.
#[derive(Debug)]
struct Stream {
    next: Instant,
    first: Option<Stamp>,
    last: Option<(Instant, Stamp)>,
}

impl Stream {
    /// Sends a frame if it is due, and reads arrivals.
    fn turn(&mut self, bench: &mut Bench<'_>) -> Result<(), Trouble> {
        let now = Instant::now();
        if now >= self.next {
            // After a pause of this process the stream goes on without a burst.
            self.next = now.max(self.next) + SPACING;
            let probe = bench.probe(FLOW);
            bench.data()?.send(Way::Forth, probe)?;
        } else {
            bench.wait(self.next)?;
        }
        while let Some(arrival) = bench.data()?.arrival()? {
            if arrival.probe.flow == FLOW {
                self.first = self.first.or(Some(arrival.arrived));
                self.last = Some((now, arrival.arrived));
            }
        }
        Ok(())
    }

    fn is_silent(&self, begin: Instant) -> bool {
        self.last.map_or(begin, |(at, _)| at).elapsed() >= SILENCE
    }
}
