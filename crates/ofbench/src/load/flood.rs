//! Measures how well a controller serves other switches while one floods it with packet-ins.
//!
//! ```text
//!  flooder ---- packet-ins as fast as the socket accepts them; an ARP request now and then -->
//!  quiet   ---- rounds: echo request, ARP request, a port that goes down --------------------> controller
//!  new     ---- connects, completes its handshake, disconnects, repeats --------------------->
//! ```
//!
//! The quiet switches and the new one are measured alone first, then beside the flood. The flooding
//! switch has its own thread, which writes and reads without waiting for answers and counts them. A
//! controller reacts to a port that goes down by deleting flows; one that does not react without the
//! flood is not tested for it during the flood.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use openflow::{
    Echo, FlowMod, Kind, MacAddr, PacketIn, PacketOut, PortDesc, PortNo, PortReason, PortState,
    PortStatus, Version, append,
};

use super::connector::{Connector, TICK};
use super::failure::{Failure, FailureKind};
use super::result::{histogram, rate, record};
use super::{Plan, Progress};
use crate::hosts::Hosts;
use crate::packet_ins::{PacketInTemplate, PendingPacketIns};

/// Minimum interval between the rounds of a quiet switch.
const ROUND: Duration = Duration::from_millis(10);

/// Minimum interval between ARP requests of the flooding switch.
const FLOODER_ARP: Duration = Duration::from_millis(10);

/// Number of source hosts in the flood.
const FLOODER_HOSTS: usize = 256;

/// Why encoding cannot fail.
const ENCODABLE: &str = "every version can say this";

/// Reaction times of a controller towards the quiet switches and the new one.
#[derive(Debug, Clone)]
pub struct ReactionHistograms {
    /// Time from echo request to reply, in nanoseconds.
    pub echo: Histogram<u64>,
    /// Time from the packet-in of an ARP request until the controller floods it.
    pub arp: Histogram<u64>,
    /// Time from a port going down until the controller deletes flows.
    pub port: Histogram<u64>,
    /// Time from the start of a connection until the switch is settled.
    pub handshake: Histogram<u64>,
    /// Requests given up without a reaction.
    pub unanswered: u64,
}

/// Result of a flood run.
#[derive(Debug, Clone)]
pub struct FloodResult {
    /// Without the flood.
    pub alone: ReactionHistograms,
    /// During the flood.
    pub beside: ReactionHistograms,
    /// Packet-ins of the flood per second, in each interval.
    pub sent_per_second: Vec<f64>,
    /// Packet-outs per second that answer the flood, in each interval.
    pub answered_per_second: Vec<f64>,
    /// ARP requests in the flood, sent by the flooding switch.
    pub arps: u64,
    /// Number of those that the controller flooded.
    pub arps_answered: u64,
}

/// State shared by the two threads.
#[derive(Debug, Default)]
struct SharedState {
    settled: AtomicBool,
    flood: AtomicBool,
    stop: AtomicBool,
    sent: AtomicU64,
    answered: AtomicU64,
    arps: AtomicU64,
    arps_answered: AtomicU64,
}

/// Measures quiet switches alone for one interval, then beside the flood for all intervals.
///
/// # Errors
/// [`Failure`] if the controller is unreachable or closes a connection.
///
/// # Panics
/// Only if the flooding switch's thread panics, which would be a bug.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<FloodResult, Failure> {
    let shared = SharedState::default();
    thread::scope(|scope| {
        let flooder = scope.spawn(|| {
            let result = run_flooder(plan, &shared);
            shared.stop.store(true, Ordering::Relaxed);
            result
        });
        let measured = measure(plan, &shared, &mut progress);
        shared.stop.store(true, Ordering::Relaxed);
        let flooder = flooder.join().expect("the flooding thread does not panic");
        flooder.and(measured)
    })
}

fn measure(
    plan: &Plan,
    shared: &SharedState,
    progress: &mut impl FnMut(Progress),
) -> Result<FloodResult, Failure> {
    // The flooding switch uses the first datapath id.
    let mut connector = Connector::new(plan, plan.first_dpid.wrapping_add(1))?;
    connector.connect_all(plan.switches, progress)?;
    let mut quiet: Vec<QuietSwitch> =
        connector.sessions.iter().map(|(key, _)| QuietSwitch::new(key)).collect();
    let began = Instant::now();
    while !shared.settled.load(Ordering::Relaxed) {
        connector.poll(TICK, |_, _| {})?;
        if began.elapsed() > plan.patience || shared.stop.load(Ordering::Relaxed) {
            let (of, after) = (1, plan.patience);
            return Err(Failure::new(FailureKind::NotSettled { settled: 0, of, after }));
        }
    }
    let mut round = QuietLoad { plan, connector: &mut connector, newcomer: None, with_ports: true };
    let mut alone = ReactionHistograms::new();
    round.serve(&mut quiet, &mut alone, shared, &mut |_| {})?;
    round.with_ports = !alone.port.is_empty();
    for quiet in &mut quiet {
        quiet.asked[PORT] = None;
    }
    let mut beside = ReactionHistograms::new();
    shared.flood.store(true, Ordering::Relaxed);
    let (mut sent_per_second, mut answered_per_second) = (Vec::new(), Vec::new());
    for interval in 0..plan.intervals {
        let began = Instant::now();
        let (sent, answered) = (count(&shared.sent), count(&shared.answered));
        let mut show = |answered| progress(Progress::Measuring(interval, answered));
        round.serve(&mut quiet, &mut beside, shared, &mut show)?;
        let seconds = began.elapsed().as_secs_f64();
        sent_per_second.push(rate(count(&shared.sent) - sent, seconds));
        answered_per_second.push(rate(count(&shared.answered) - answered, seconds));
    }
    progress(Progress::Measured);
    // Answers still in transit are not lost: wait for them.
    shared.flood.store(false, Ordering::Relaxed);
    let until = Instant::now() + plan.give_up;
    while count(&shared.arps_answered) < count(&shared.arps) && Instant::now() < until {
        connector.poll(TICK, |_, _| {})?;
    }
    let (arps, arps_answered) = (count(&shared.arps), count(&shared.arps_answered));
    Ok(FloodResult { alone, beside, sent_per_second, answered_per_second, arps, arps_answered })
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl ReactionHistograms {
    fn new() -> Self {
        let [echo, arp, port, handshake] = [(); 4].map(|()| histogram());
        Self { echo, arp, port, handshake, unanswered: 0 }
    }
}

// Indices of a quiet switch's requests.
const ECHO: usize = 0;
const ARP: usize = 1;
const PORT: usize = 2;

/// A switch that sends one request of each kind at a time.
#[derive(Debug)]
struct QuietSwitch {
    key: usize,
    round: u32,
    began: Option<Instant>,
    /// When each pending request was sent.
    asked: [Option<Instant>; 3],
}

impl QuietSwitch {
    fn new(key: usize) -> Self {
        Self { key, round: 0, began: None, asked: [None; 3] }
    }

    /// Sender of this round's ARP request; unique per round and switch.
    fn sender(&self) -> MacAddr {
        let [_, a, b, c] = self.round.to_be_bytes();
        MacAddr([2, u8::try_from(self.key % 256).unwrap_or(0), 0xa0, a, b, c])
    }

    /// Appends the requests of the next round.
    fn write_requests(&mut self, version: Version, with_ports: bool, out: &mut Vec<u8>) {
        self.round += 1;
        let now = Instant::now();
        (self.began, self.asked[ECHO], self.asked[ARP]) = (Some(now), Some(now), Some(now));
        let arp = arp_request(self.sender());
        let packet_in = PacketIn::new(PortNo(1), &arp);
        append(out, |room| packet_in.encode(version, 0, room)).expect(ENCODABLE);
        if with_ports {
            let down = self.round % 2 == 1;
            let desc = PortDesc {
                state: if down { PortState::LINK_DOWN } else { PortState::default() },
                ..PortDesc::new(PortNo(2), MacAddr([2, 0, 0, 0, 0, 2]), "port2")
            };
            let status = PortStatus { reason: PortReason::Modify, desc };
            append(out, |room| status.encode(version, 0, room)).expect(ENCODABLE);
            if down {
                self.asked[PORT] = Some(now);
            }
        }
        // Last, so that a controller that answers in order handles the others first.
        let echo = Echo { is_reply: false, xid: self.round, data: b"quiet" };
        append(out, |room| echo.encode(version, room)).expect(ENCODABLE);
    }

    /// Returns the request that a message answers.
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

/// The quiet switches and the new one, during a measurement.
struct QuietLoad<'c, 'p> {
    plan: &'p Plan,
    connector: &'c mut Connector<'p>,
    /// The switch whose handshake is in progress.
    newcomer: Option<usize>,
    with_ports: bool,
}

impl QuietLoad<'_, '_> {
    /// Serves all of them for an interval; calls `progress` with the number of answers to the flood.
    fn serve(
        &mut self,
        quiet: &mut [QuietSwitch],
        served: &mut ReactionHistograms,
        shared: &SharedState,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let mut out = Vec::new();
        while began.elapsed() < self.plan.interval && !shared.stop.load(Ordering::Relaxed) {
            progress(count(&shared.answered));
            let now = Instant::now();
            for quiet in &mut *quiet {
                if quiet.began.is_some_and(|at| now.saturating_duration_since(at) < ROUND) {
                    continue;
                }
                if !quiet.is_served(now, self.plan.give_up, &mut served.unanswered) {
                    continue;
                }
                out.clear();
                quiet.write_requests(self.plan.version, self.with_ports, &mut out);
                self.connector.send(quiet.key, &out)?;
            }
            if self.newcomer.is_none() {
                self.newcomer = Some(self.connector.connect()?);
            }
            let version = self.plan.version;
            let settled = self.connector.poll(Duration::from_millis(1), |key, message| {
                let Some(quiet) = quiet.iter_mut().find(|quiet| quiet.key == key) else { return };
                let Some(which) = quiet.answers(version, message) else { return };
                if let Some(asked) = quiet.asked[which].take() {
                    let times = match which {
                        ECHO => &mut served.echo,
                        ARP => &mut served.arp,
                        _ => &mut served.port,
                    };
                    record(times, asked.elapsed());
                }
            })?;
            for key in settled {
                record(&mut served.handshake, self.connector.sessions[key].began.elapsed());
                self.connector.disconnect(key);
                self.newcomer = None;
            }
            self.connector.check_deadlines()?;
        }
        Ok(())
    }
}

impl QuietSwitch {
    /// Whether no request is pending; gives up requests that exceed `after`.
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

/// Builds an ARP request for an address that no host has (RFC 826).
fn arp_request(sender: MacAddr) -> Vec<u8> {
    let mut frame = [0xff; 6].to_vec();
    frame.extend_from_slice(&sender.0);
    frame.extend_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&sender.0);
    frame.extend_from_slice(&[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    frame.resize(60, 0);
    frame
}

/// Runs the flooding switch until the stop flag is set.
fn run_flooder(plan: &Plan, shared: &SharedState) -> Result<(), Failure> {
    let mut connector = Connector::new(plan, plan.first_dpid)?;
    connector.connect_all(1, &mut |_| {})?;
    let key = connector.sessions.iter().map(|(key, _)| key).next().unwrap_or(0);
    shared.settled.store(true, Ordering::Relaxed);
    let usage = |error: openflow::EncodeError| Failure::new(FailureKind::Usage(error.to_string()));
    let mut template = PacketInTemplate::new(plan.version, false, plan.frame).map_err(usage)?;
    let mut hosts = Hosts::new(plan.seed, FLOODER_HOSTS, plan.ports).of_switch(0);
    let many = template.per_chunk().min(FLOODER_HOSTS);
    let chunk = template.ask(many, &mut hosts, &mut PendingPacketIns::new(many)).to_vec();
    let (mut next_arp, mut number) = (Instant::now(), 0_u32);
    while !shared.stop.load(Ordering::Relaxed) {
        let flooding = shared.flood.load(Ordering::Relaxed);
        if flooding && connector.sessions[key].connection.is_output_empty() {
            connector.send(key, &chunk)?;
            shared.sent.fetch_add(many as u64, Ordering::Relaxed);
            if Instant::now() >= next_arp {
                next_arp = Instant::now() + FLOODER_ARP;
                number += 1;
                let [_, a, b, c] = number.to_be_bytes();
                let arp = arp_request(MacAddr([2, 0xff, FLOODER_TAG, a, b, c]));
                let mut message = Vec::new();
                let packet_in = PacketIn::new(PortNo(1), &arp);
                append(&mut message, |room| packet_in.encode(plan.version, 0, room))
                    .expect(ENCODABLE);
                connector.send(key, &message)?;
                shared.arps.fetch_add(1, Ordering::Relaxed);
            }
        }
        let drained = flooding && connector.sessions[key].connection.is_output_empty();
        let wait = if drained { Duration::ZERO } else { TICK };
        let version = plan.version;
        connector.poll(wait, |_, message| {
            if Kind::from_wire(version, message[1]) != Ok(Kind::PacketOut) {
                return;
            }
            let Ok(sent) = PacketOut::decode(message) else { return };
            let of_arp = sent.data.get(6..9) == Some(&[2, 0xff, FLOODER_TAG]);
            let counter = if of_arp { &shared.arps_answered } else { &shared.answered };
            counter.fetch_add(1, Ordering::Relaxed);
        })?;
    }
    Ok(())
}

/// Marks the source addresses of the flooding switch's ARP requests.
const FLOODER_TAG: u8 = 0xa1;
