//! Whether a controller leaves anybody time while one switch floods it with packet-ins.
//!
//! ```text
//!  loud  ---- packet-ins, as fast as the socket takes them; an ARP request now and then --->
//!  quiet ---- rounds: echo request, ARP request, a port that goes down ---------------------> controller
//!  new   ---- connects, completes its handshake, hangs up, and again ---------------------->
//! ```
//!
//! First the quiet ones and the new one are measured alone, then beside the flood. The loud switch has
//! a thread of its own, which writes and reads without waiting for answers; what it is answered is
//! counted. A port that goes down is answered by who deletes flows then; a controller that does not
//! when it is alone is not asked for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use openflow::{
    Echo, FlowMod, Kind, MacAddr, PacketIn, PacketOut, PortDesc, PortNo, PortReason, PortState,
    PortStatus, Version, append,
};

use super::caller::{Caller, TICK};
use super::failure::{Failure, Trouble};
use super::result::{note, rate, times};
use super::{Plan, Progress};
use crate::hosts::Hosts;
use crate::question::{Open, Template};

/// A quiet switch asks at most so often.
const ROUND: Duration = Duration::from_millis(10);

/// The loud switch sends an ARP request at most so often.
const LOUD_ARP: Duration = Duration::from_millis(10);

/// Hosts that the loud switch's packet-ins are of.
const LOUD_HOSTS: usize = 256;

/// Why encoding does not fail.
const SAYABLE: &str = "both versions can say this";

/// What a controller did for the quiet switches and the new one.
#[derive(Debug, Clone)]
pub struct Served {
    /// From echo request to reply, in nanoseconds.
    pub echo: Histogram<u64>,
    /// From a packet-in of an ARP request to its being flooded.
    pub arp: Histogram<u64>,
    /// From a port's going down to the flow-mod that deletes what leads there.
    pub port: Histogram<u64>,
    /// From the begin of a connection to the switch that is settled.
    pub handshake: Histogram<u64>,
    /// What was given up as unanswered.
    pub unanswered: u64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Flooded {
    /// Without a flood.
    pub alone: Served,
    /// Beside it.
    pub beside: Served,
    /// Packet-ins of the flood a second, in each interval.
    pub sent_per_second: Vec<f64>,
    /// Packet-outs a second that answered them, in each interval.
    pub answered_per_second: Vec<f64>,
    /// ARP requests among the flood, of the loud switch itself.
    pub arps: u64,
    /// Those of them that were flooded.
    pub arps_answered: u64,
}

/// What the two threads tell each other.
#[derive(Debug, Default)]
struct Shared {
    settled: AtomicBool,
    flood: AtomicBool,
    stop: AtomicBool,
    sent: AtomicU64,
    answered: AtomicU64,
    arps: AtomicU64,
    arps_answered: AtomicU64,
}

/// Measures quiet switches alone for an interval, then beside the flood for all intervals.
///
/// # Errors
/// [`Failure`]: the controller is not there, or ends a connection.
///
/// # Panics
/// Only if the loud switch's thread does, which is a mistake here.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<Flooded, Failure> {
    let shared = Shared::default();
    thread::scope(|scope| {
        let loud = scope.spawn(|| {
            let result = loud(plan, &shared);
            shared.stop.store(true, Ordering::Relaxed);
            result
        });
        let measured = measure(plan, &shared, &mut progress);
        shared.stop.store(true, Ordering::Relaxed);
        let loud = loud.join().expect("the loud switch does not panic");
        loud.and(measured)
    })
}

fn measure(
    plan: &Plan,
    shared: &Shared,
    progress: &mut impl FnMut(Progress),
) -> Result<Flooded, Failure> {
    // The first datapath-id is the loud switch's.
    let mut caller = Caller::new(plan, plan.first_dpid.wrapping_add(1))?;
    caller.all(plan.switches, progress)?;
    let mut quiet: Vec<Quiet> = caller.calls.iter().map(|(key, _)| Quiet::new(key)).collect();
    let began = Instant::now();
    while !shared.settled.load(Ordering::Relaxed) {
        caller.turn(TICK, |_, _| {})?;
        if began.elapsed() > plan.patience || shared.stop.load(Ordering::Relaxed) {
            let (of, after) = (1, plan.patience);
            return Err(Failure::new(Trouble::NotSettled { settled: 0, of, after }));
        }
    }
    let mut round = Round { plan, caller: &mut caller, newcomer: None, with_ports: true };
    let mut alone = Served::new();
    round.serve(&mut quiet, &mut alone, plan.interval, shared)?;
    round.with_ports = !alone.port.is_empty();
    for quiet in &mut quiet {
        quiet.asked[PORT] = None;
    }
    let mut beside = Served::new();
    shared.flood.store(true, Ordering::Relaxed);
    let (mut sent_per_second, mut answered_per_second) = (Vec::new(), Vec::new());
    for interval in 0..plan.intervals {
        progress(Progress::Measuring(interval, count(&shared.answered)));
        let began = Instant::now();
        let (sent, answered) = (count(&shared.sent), count(&shared.answered));
        round.serve(&mut quiet, &mut beside, plan.interval, shared)?;
        let seconds = began.elapsed().as_secs_f64();
        sent_per_second.push(rate(count(&shared.sent) - sent, seconds));
        answered_per_second.push(rate(count(&shared.answered) - answered, seconds));
    }
    progress(Progress::Measured);
    // What is still on its way is not lost.
    shared.flood.store(false, Ordering::Relaxed);
    let until = Instant::now() + plan.give_up;
    while count(&shared.arps_answered) < count(&shared.arps) && Instant::now() < until {
        caller.turn(TICK, |_, _| {})?;
    }
    let (arps, arps_answered) = (count(&shared.arps), count(&shared.arps_answered));
    Ok(Flooded { alone, beside, sent_per_second, answered_per_second, arps, arps_answered })
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Served {
    fn new() -> Self {
        let [echo, arp, port, handshake] = [(); 4].map(|()| times());
        Self { echo, arp, port, handshake, unanswered: 0 }
    }
}

// Places of what a quiet switch asks.
const ECHO: usize = 0;
const ARP: usize = 1;
const PORT: usize = 2;

/// A switch that asks one of each at a time.
#[derive(Debug)]
struct Quiet {
    key: usize,
    round: u32,
    began: Option<Instant>,
    /// When each was asked, if it waits for its answer.
    asked: [Option<Instant>; 3],
}

impl Quiet {
    fn new(key: usize) -> Self {
        Self { key, round: 0, began: None, asked: [None; 3] }
    }

    /// The sender of this round's ARP request: another in each, and none of another switch's.
    fn sender(&self) -> MacAddr {
        let [_, a, b, c] = self.round.to_be_bytes();
        MacAddr([2, u8::try_from(self.key % 256).unwrap_or(0), 0xa0, a, b, c])
    }

    /// Appends what is asked in the next round.
    fn ask(&mut self, version: Version, with_ports: bool, out: &mut Vec<u8>) {
        self.round += 1;
        let now = Instant::now();
        (self.began, self.asked[ECHO], self.asked[ARP]) = (Some(now), Some(now), Some(now));
        let arp = arp_request(self.sender());
        let packet_in = PacketIn::new(PortNo(1), &arp);
        append(out, |room| packet_in.encode(version, 0, room)).expect(SAYABLE);
        if with_ports {
            let down = self.round % 2 == 1;
            let desc = PortDesc {
                state: if down { PortState::LINK_DOWN } else { PortState::default() },
                ..PortDesc::new(PortNo(2), MacAddr([2, 0, 0, 0, 0, 2]), "port2")
            };
            let status = PortStatus { reason: PortReason::Modify, desc };
            append(out, |room| status.encode(version, 0, room)).expect(SAYABLE);
            if down {
                self.asked[PORT] = Some(now);
            }
        }
        // Behind the others, so that one that is answered in order has had the others' place in line.
        let echo = Echo { is_reply: false, xid: self.round, data: b"quiet" };
        append(out, |room| echo.encode(version, room)).expect(SAYABLE);
    }

    /// Which of its questions a message answers.
    fn answers(&self, version: Version, message: &[u8]) -> Option<usize> {
        let kind = Kind::from_wire(version, *message.get(1)?).ok()?;
        match kind {
            Kind::EchoReply => (message.ends_with(b"quiet")
                && message[4..8] == self.round.to_be_bytes())
            .then_some(ECHO),
            Kind::PacketOut => {
                let frame = PacketOut::decode(message).ok()?.data;
                (frame.get(6..12)? == self.sender().0).then_some(ARP)
            }
            Kind::FlowMod => FlowMod::decode(message).ok()?.command.is_delete().then_some(PORT),
            _ => None,
        }
    }
}

/// What goes on at once.
struct Round<'c, 'p> {
    plan: &'p Plan,
    caller: &'c mut Caller<'p>,
    /// The switch that is in its handshake.
    newcomer: Option<usize>,
    with_ports: bool,
}

impl Round<'_, '_> {
    /// Measures for so long.
    fn serve(
        &mut self,
        quiet: &mut [Quiet],
        served: &mut Served,
        length: Duration,
        shared: &Shared,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let mut out = Vec::new();
        while began.elapsed() < length && !shared.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            for quiet in &mut *quiet {
                if quiet.began.is_some_and(|at| now.saturating_duration_since(at) < ROUND) {
                    continue;
                }
                if !quiet.is_served(now, self.plan.give_up, &mut served.unanswered) {
                    continue;
                }
                out.clear();
                quiet.ask(self.plan.version, self.with_ports, &mut out);
                self.caller.say(quiet.key, &out)?;
            }
            if self.newcomer.is_none() {
                self.newcomer = Some(self.caller.call()?);
            }
            let version = self.plan.version;
            let settled = self.caller.turn(Duration::from_millis(1), |key, message| {
                let Some(quiet) = quiet.iter_mut().find(|quiet| quiet.key == key) else { return };
                let Some(which) = quiet.answers(version, message) else { return };
                if let Some(asked) = quiet.asked[which].take() {
                    let times = match which {
                        ECHO => &mut served.echo,
                        ARP => &mut served.arp,
                        _ => &mut served.port,
                    };
                    note(times, asked.elapsed());
                }
            })?;
            for key in settled {
                note(&mut served.handshake, self.caller.calls[key].began.elapsed());
                self.caller.hang_up(key);
                self.newcomer = None;
            }
            self.caller.check_patience()?;
        }
        Ok(())
    }
}

impl Quiet {
    /// Whether nothing waits any more that it asked; what waits too long is given up.
    fn is_served(&mut self, now: Instant, after: Duration, unanswered: &mut u64) -> bool {
        for asked in &mut self.asked {
            if asked.is_some_and(|asked| now.saturating_duration_since(asked) > after) {
                *asked = None;
                *unanswered += 1;
            }
        }
        self.asked == [None; 3]
    }
}

/// An ARP request for nobody (RFC 826).
fn arp_request(sender: MacAddr) -> Vec<u8> {
    let mut frame = [0xff; 6].to_vec();
    frame.extend_from_slice(&sender.0);
    frame.extend_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&sender.0);
    frame.extend_from_slice(&[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    frame.resize(60, 0);
    frame
}

/// The loud switch, until it is told to stop.
fn loud(plan: &Plan, shared: &Shared) -> Result<(), Failure> {
    let mut caller = Caller::new(plan, plan.first_dpid)?;
    caller.all(1, &mut |_| {})?;
    let key = caller.calls.iter().map(|(key, _)| key).next().unwrap_or(0);
    shared.settled.store(true, Ordering::Relaxed);
    let usage = |error: openflow::EncodeError| Failure::new(Trouble::Usage(error.to_string()));
    let mut template = Template::new(plan.version, false, plan.frame).map_err(usage)?;
    let mut hosts = Hosts::new(plan.seed, LOUD_HOSTS, plan.ports).of_switch(0);
    let many = template.per_chunk().min(LOUD_HOSTS);
    let chunk = template.ask(many, &mut hosts, &mut Open::new(many)).to_vec();
    let (mut next_arp, mut number) = (Instant::now(), 0_u32);
    while !shared.stop.load(Ordering::Relaxed) {
        let flooding = shared.flood.load(Ordering::Relaxed);
        if flooding && caller.calls[key].connection.is_drained() {
            caller.say(key, &chunk)?;
            shared.sent.fetch_add(many as u64, Ordering::Relaxed);
            if Instant::now() >= next_arp {
                next_arp = Instant::now() + LOUD_ARP;
                number += 1;
                let [_, a, b, c] = number.to_be_bytes();
                let arp = arp_request(MacAddr([2, 0xff, LOUD, a, b, c]));
                let mut message = Vec::new();
                let packet_in = PacketIn::new(PortNo(1), &arp);
                append(&mut message, |room| packet_in.encode(plan.version, 0, room))
                    .expect(SAYABLE);
                caller.say(key, &message)?;
                shared.arps.fetch_add(1, Ordering::Relaxed);
            }
        }
        let drained = flooding && caller.calls[key].connection.is_drained();
        let wait = if drained { Duration::ZERO } else { TICK };
        let version = plan.version;
        caller.turn(wait, |_, message| {
            if Kind::from_wire(version, message[1]) != Ok(Kind::PacketOut) {
                return;
            }
            let Ok(sent) = PacketOut::decode(message) else { return };
            let of_arp = sent.data.get(6..9) == Some(&[2, 0xff, LOUD]);
            let counter = if of_arp { &shared.arps_answered } else { &shared.answered };
            counter.fetch_add(1, Ordering::Relaxed);
        })?;
    }
    Ok(())
}

/// What tells the loud switch's ARP requests from others.
const LOUD: u8 = 0xa1;
