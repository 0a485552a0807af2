//! Drives a share of the switches with epoll, in one thread.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData};

use super::failure::{Failure, FailureKind};
use super::load_switch::{Histograms, LoadSwitch, Stage};
use super::phase::{Phase, SharedState};
use super::result::{WorkerInterval, WorkerResult, histogram};
use super::{Pace, Plan};
use crate::connection::{BUFFER, Connection};
use crate::hosts::Hosts;
use crate::packet_ins::PacketInTemplate;
use crate::pin::pin;

/// Maximum number of events per epoll call.
const EVENTS: usize = 256;

/// Longest wait, so that phase changes are noticed while nothing happens.
const TICK: Duration = Duration::from_millis(20);

/// How long the worker polls without sleeping while it sends at full speed. Waking a sleeping peer
/// costs the sender CPU time; a real controller does not pay this for a switch on the network.
const BUSY_POLL: Duration = Duration::from_millis(5);

/// Interval at which pending packet-ins are checked for timeouts.
const TIMEOUT_CHECK: Duration = Duration::from_millis(100);

/// Delay of the first fairness sample after the start of the first interval: by then all switches
/// have sent packet-ins.
const FAIRNESS_DELAY: Duration = Duration::from_millis(200);

/// Maximum duration of a loop round after which a fairness sample is still accurate.
const MAX_ROUND: Duration = Duration::from_millis(10);

/// Limit of packet-ins of a switch that are due but not sent.
const MAX_BACKLOG: usize = 1 << 20;

/// Number of handshakes that a worker has in progress at a time; listen queues are short.
const MAX_HANDSHAKES: usize = 64;

/// One worker thread; see the module's documentation.
#[derive(Debug)]
pub(super) struct Worker<'p> {
    number: usize,
    plan: &'p Plan,
    shared: Arc<SharedState>,
    epoll: OwnedFd,
    template: PacketInTemplate,
    hosts: Hosts,
    /// Numbers of the switches that are not connected yet, the next one last.
    to_connect: Vec<usize>,
    /// Number of switches between connecting and settled.
    connecting: usize,
    switches: Vec<LoadSwitch>,
    phase: Phase,
    interval_began: Instant,
    /// Start of the first interval.
    begun: Option<Instant>,
    /// In rate mode: time of the first packet-in, and number of packet-ins due since.
    clock: (Instant, u64),
    /// In rate mode: packet-ins per second of this worker.
    rate: f64,
    next_check: Instant,
    /// When epoll last returned, and when it last returned events.
    woke: Instant,
    last_told: Instant,
    drained: bool,
    histograms: Histograms,
    result: WorkerResult,
}

impl<'p> Worker<'p> {
    pub(super) fn new(
        number: usize,
        workers: usize,
        plan: &'p Plan,
        hosts: &Hosts,
        template: PacketInTemplate,
        shared: &Arc<SharedState>,
    ) -> Result<Self, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|why| {
            let what = "cannot watch sockets";
            Failure::new(FailureKind::System { what, why: why.into() })
        })?;
        // Reversed, because `connect` pops the next switch from the end.
        let own: Vec<usize> = (0..plan.switches).rev().filter(|n| n % workers == number).collect();
        let now = Instant::now();
        let rate = match plan.pace {
            Pace::Window(_) => 0.0,
            #[expect(clippy::cast_precision_loss, reason = "there are few switches")]
            Pace::Rate(rate) => rate * own.len() as f64 / plan.switches as f64,
        };
        Ok(Self {
            number,
            plan,
            shared: shared.clone(),
            epoll,
            template,
            hosts: hosts.clone(),
            to_connect: own,
            connecting: 0,
            switches: Vec::new(),
            phase: Phase::Connect,
            interval_began: now,
            begun: None,
            clock: (now, 0),
            rate,
            next_check: now,
            woke: now,
            last_told: now,
            drained: false,
            histograms: Histograms { latency: histogram(), barrier: histogram() },
            result: WorkerResult::default(),
        })
    }

    /// Runs until [`Phase::Stop`] or a failure.
    pub(super) fn run(mut self) -> WorkerResult {
        if self.plan.pin
            && let Err(why) = pin(self.number)
        {
            let what = "cannot pin the thread to a core";
            self.shared.fail(Failure::new(FailureKind::System { what, why }));
            return self.result;
        }
        if let Err(failure) = self.work() {
            self.shared.fail(failure);
        }
        for switch in &mut self.switches {
            switch.checker.give_up();
            self.result.total.add(&switch.checker.counts());
            self.result.flows += switch.flows() as u64;
            self.result.unasked += switch.due.len() as u64;
            self.result.errors.0 += switch.errors.0;
            self.result.errors.1 = self.result.errors.1.take().or(switch.errors.1.take());
        }
        self.result
    }

    fn work(&mut self) -> Result<(), Failure> {
        let mut buffer = vec![0; BUFFER].into_boxed_slice();
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        loop {
            if self.phase == Phase::Connect {
                self.connect()?;
            }
            let timeout = self.timeout();
            let ready = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(why) => {
                    let what = "cannot wait for sockets";
                    return Err(Failure::new(FailureKind::System { what, why: why.into() }));
                }
                Ok((ready, _)) => ready,
            };
            self.woke = Instant::now();
            if !ready.is_empty() {
                self.last_told = self.woke;
            }
            let phase = self.shared.phase();
            if phase != self.phase {
                self.enter(phase)?;
                if phase == Phase::Stop {
                    return Ok(());
                }
            }
            for event in ready {
                let which = usize::try_from(event.data.u64()).expect("it is an index of ours");
                self.serve(which, &mut buffer)?;
            }
            if self.plan.pace.is_rate() {
                self.send_due_packet_ins()?;
            }
            self.publish_progress();
        }
    }

    /// Returns the timeout of the next epoll call.
    fn timeout(&self) -> Timespec {
        let mut wait = TICK;
        let Plan { pace, timed, keep_flows, .. } = self.plan;
        let asks_most = !pace.is_rate() && !timed && !keep_flows;
        if asks_most && self.phase >= Phase::Warm && self.last_told.elapsed() < BUSY_POLL {
            wait = Duration::ZERO;
        }
        if self.plan.pace.is_rate() && matches!(self.phase, Phase::Measure(_)) {
            let next = self.clock.0 + time_of(self.clock.1, self.rate);
            wait = next.saturating_duration_since(Instant::now()).min(TICK);
            // Epoll counts milliseconds: poll through the last one instead of oversleeping.
            if wait < Duration::from_millis(2) {
                wait = Duration::ZERO;
            }
        }
        wait.try_into().expect("a tick is short")
    }

    /// Starts to connect the next switches.
    fn connect(&mut self) -> Result<(), Failure> {
        while self.connecting < MAX_HANDSHAKES
            && let Some(number) = self.to_connect.pop()
        {
            let (to, tls) = (self.plan.controller, self.plan.tls.as_ref());
            let opened = Connection::open(to, tls);
            let connection =
                opened.map_err(|why| Failure::new(FailureKind::Unreachable { to, why }))?;
            let hosts = self.hosts.of_switch(number as u64);
            let mut switch = LoadSwitch::new(number, self.plan, &self.template, hosts, connection);
            switch.watched = switch.wanted();
            let data = EventData::new_u64(self.switches.len() as u64);
            let watched = epoll::add(&self.epoll, switch.connection.socket(), data, switch.watched);
            watched.map_err(|why| {
                switch.fail(FailureKind::System { what: "cannot watch a socket", why: why.into() })
            })?;
            self.switches.push(switch);
            self.connecting += 1;
        }
        Ok(())
    }

    fn serve(&mut self, which: usize, buffer: &mut [u8]) -> Result<(), Failure> {
        let switch = &mut self.switches[which];
        if switch.stage == Stage::Connecting
            && let Err(why) = switch.connection.connected()
        {
            let to = self.plan.controller;
            return Err(Failure::new(FailureKind::Unreachable { to, why }));
        }
        switch.serve(buffer, &mut self.histograms)?;
        if switch.stage == Stage::Handshaking && switch.has_settled() {
            self.result.setup.push(switch.began.elapsed());
            self.shared.settled.fetch_add(1, Ordering::Relaxed);
            self.connecting -= 1;
        }
        self.send_packet_ins(which)
    }

    /// Sends a switch's packet-ins as the phase requires.
    fn send_packet_ins(&mut self, which: usize) -> Result<(), Failure> {
        let switch = &mut self.switches[which];
        match self.phase {
            Phase::Warm => {
                let cold = switch.warm_up_left(self.plan.macs);
                switch.send_packet_ins(&mut self.template, cold)?;
                if !switch.warm && cold == 0 && switch.checker.pending().count() == 0 {
                    switch.warm = true;
                    self.shared.warm.fetch_add(1, Ordering::Relaxed);
                }
            }
            Phase::Measure(_) if self.plan.pace.is_rate() => switch.send_due(&mut self.template)?,
            Phase::Measure(_) => switch.send_packet_ins(&mut self.template, u64::MAX)?,
            _ => {}
        }
        let wanted = switch.wanted();
        if wanted != switch.watched {
            let data = EventData::new_u64(which as u64);
            let changed = epoll::modify(&self.epoll, switch.connection.socket(), data, wanted);
            changed.map_err(|why| {
                switch.fail(FailureKind::System { what: "cannot watch a socket", why: why.into() })
            })?;
            switch.watched = wanted;
        }
        Ok(())
    }

    /// Sends the packet-ins that are due, round robin over the switches.
    fn send_due_packet_ins(&mut self) -> Result<(), Failure> {
        if !matches!(self.phase, Phase::Measure(_)) || self.switches.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let switches = self.switches.len() as u64;
        loop {
            let due = self.clock.0 + time_of(self.clock.1, self.rate);
            if due > now {
                break;
            }
            let which = usize::try_from(self.clock.1 % switches).unwrap_or(0);
            let switch = &mut self.switches[which];
            switch.due.push_back(due);
            self.clock.1 += 1;
            if switch.due.len() > MAX_BACKLOG {
                return Err(switch.fail(FailureKind::Behind(switch.due.len())));
            }
        }
        for which in 0..self.switches.len() {
            if !self.switches[which].due.is_empty() {
                self.send_packet_ins(which)?;
            }
        }
        Ok(())
    }

    /// Switches to another phase.
    fn enter(&mut self, phase: Phase) -> Result<(), Failure> {
        let now = Instant::now();
        if let Phase::Measure(_) = self.phase {
            self.sample(now, true);
            self.result.parts.push(WorkerInterval {
                length: now - self.interval_began,
                counts: self.switches.iter().map(|l| l.checker.counts().since(&l.marked)).collect(),
                latency: std::mem::replace(&mut self.histograms.latency, histogram()),
                barrier: std::mem::replace(&mut self.histograms.barrier, histogram()),
            });
        }
        if let Phase::Measure(interval) = phase {
            if interval == 0 {
                self.clock = (now, 0);
                self.begun = Some(now);
            }
            self.interval_began = now;
            self.histograms = Histograms { latency: histogram(), barrier: histogram() };
            for switch in &mut self.switches {
                switch.marked = switch.checker.counts();
            }
        }
        if self.phase < Phase::Measure(0) {
            for switch in &mut self.switches {
                switch.last_answer = now;
            }
        }
        self.phase = phase;
        for which in 0..self.switches.len() {
            self.send_packet_ins(which)?;
        }
        Ok(())
    }

    /// Samples fairness.
    fn sample(&mut self, now: Instant, is_end: bool) {
        // The switches start sending one after the other; samples wait until all have started.
        let have_begun = self.begun.is_some_and(|begun| now >= begun + FAIRNESS_DELAY);
        // After a longer round, the first switches would be sampled much earlier than the last
        // ones.
        let is_sharp = now.saturating_duration_since(self.woke) <= MAX_ROUND;
        if self.plan.fairness && have_begun && is_sharp {
            let answered = self.switches.iter().map(|switch| switch.checker.answered());
            self.result.fairness.sample(now, is_end, answered);
        }
    }

    /// Publishes progress, and gives up packet-ins that exceed the time limit.
    fn publish_progress(&mut self) {
        if self.phase < Phase::Warm {
            return;
        }
        let answered = self.switches.iter().map(|switch| switch.checker.answered()).sum();
        self.shared.note_answered(self.number, answered);
        if self.phase == Phase::Drain
            && !self.drained
            && self.switches.iter().all(|switch| switch.checker.pending().count() == 0)
        {
            // Counted once per worker: the directing thread compares the number with that of the
            // workers.
            self.drained = true;
            self.shared.drained.fetch_add(1, Ordering::Relaxed);
        }
        let now = Instant::now();
        if matches!(self.phase, Phase::Measure(_)) {
            self.sample(now, false);
        }
        if now >= self.next_check {
            self.next_check = now + TIMEOUT_CHECK;
            for which in 0..self.switches.len() {
                self.switches[which].give_up(now, self.plan.give_up);
                // A failure appears again when the socket is served.
                let _ = self.send_packet_ins(which);
            }
        }
    }
}

/// Returns when a packet-in is due, relative to the first one.
#[expect(clippy::cast_precision_loss, reason = "numbers are far below 2^52")]
fn time_of(number: u64, rate: f64) -> Duration {
    Duration::try_from_secs_f64(number as f64 / rate.max(f64::MIN_POSITIVE))
        .unwrap_or(Duration::MAX)
}
